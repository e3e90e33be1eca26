//! The storage room: files, locks and encodings of stored logs (FORMAT 13).
//!
//! It knows bytes, lengths and names, and nothing of commands or methods. Lowest first: [`fs`] is the seam to the file
//! system with its doubles; [`paths`] turns ids into names; [`read`] gives the events of a log and says how the log
//! ends; [`live`] owns, appends to and syncs the log of one live session; [`catalog`] finds and lists stored sessions;
//! [`maintenance`] keeps what is cut off and removes what is deleted.

pub mod catalog;
pub mod fs;
pub mod live;
pub mod maintenance;
pub mod paths;
pub mod read;
