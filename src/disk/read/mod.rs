//! Reading a log: [`reader`] gives its events to the caller and says how it ends, with [`damage`] for what is wrong and
//! [`legacy`] for old shapes. Records are taken one after the other (`rows`, `row`); a plain log comes in batches of
//! lines (`batch`), those of a long one filled by a second thread (`read_ahead`); [`zstd`] and [`lines`] read frames and
//! lines.

mod batch;
pub(super) mod compressed;
pub mod damage;
pub mod legacy;
pub mod lines;
pub(super) mod plain;
mod read_ahead;
pub mod reader;
mod row;
mod rows;
pub mod zstd;
