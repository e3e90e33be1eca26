//! What the methods do, one file per concern, and the table that hands calls to them.

mod append;
mod end;
mod initialize;
mod list;
mod open;
mod read;
mod rescue;
mod status;
mod table;

pub(super) use append::{append_direct, append_usual};
pub(super) use table::method_table;
