//! The storage room: files, locks and encodings of stored logs (FORMAT 13).
//!
//! It knows bytes, lengths and names, and nothing of commands or methods. Lowest first: [`fs`] is the seam to the
//! file system with [`os`] behind it and two doubles beside it ([`fault`], [`record`] with [`crash`]); [`paths`] turns ids
//! into names; [`lock`] owns a log; [`zstd`] and [`lines`] read frames and lines; [`write`](mod@write) appends and syncs;
//! [`session_file`] knows how far that has come for one live session; [`publish`] gives a new log its name, [`replace`]
//! puts a repaired one in the place of a damaged one, [`temporary`] knows what is on its way to a name, and what is left
//! of that.
//!
//! Reading: [`read`] gives the events of a log to its caller and says how the log ends, with [`damage`] for what is wrong
//! and [`legacy`] for old shapes; its records are taken one after the other (`rows`, `row`); a plain log comes in batches
//! of lines (`batch`), those of a long one filled by a second thread (`read_ahead`); `head` reads a header alone; [`find`] knows where a session lies,
//! [`lineage`](mod@lineage) follows the parents that they name, [`list`] and [`catalogue`] show all of them, [`summary`] saves reading them for that; [`salvage`] keeps what is cut off
//! or replaced, [`delete`](mod@delete) removes.

mod batch;
pub mod catalogue;
pub mod crash;
pub mod damage;
pub mod delete;
pub mod fault;
pub mod find;
pub mod fs;
mod head;
pub mod legacy;
pub mod lineage;
pub mod lines;
pub mod list;
pub mod lock;
pub mod os;
mod os_file;
pub mod paths;
pub mod publish;
pub mod read;
mod read_ahead;
mod read_plain;
mod read_zstd;
pub mod record;
pub mod replace;
mod row;
mod rows;
pub mod salvage;
pub mod session_file;
pub mod summary;
pub mod temporary;
pub mod write;
pub mod zstd;
