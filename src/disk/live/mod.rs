//! The log of one live session: [`lock`] owns it, [`write`](mod@write) appends and syncs, [`session_file`] knows how far that has
//! come, [`publish`] gives a new log its name, [`replace`] puts a repaired one in the place of a damaged one, and
//! [`temporary`] knows what is on its way to a name, and what is left of that.

pub mod lock;
pub mod publish;
pub mod replace;
pub mod session_file;
pub mod temporary;
pub mod write;
