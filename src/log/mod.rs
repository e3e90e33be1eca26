//! The append-only log of one session and what it is made of.
//!
//! *The line is the event*: an event is encoded once, at commit, and its bytes are what memory holds,
//! what reads and notifications write and what the disk gets. *A prefix is shared, never copied*: a
//! fork takes the segments of its parent. No I/O and no clock here.

mod chunk_rows;
mod draft;
mod event;
mod header;
mod kind;
#[allow(clippy::module_inception)]
mod log;
mod segment;
mod seq;

pub use draft::{Draft, EnvelopeError, read_event};
pub use event::Event;
pub use header::{Header, SessionId, SessionIdError};
pub use kind::Kind;
pub use log::{Log, Range};
pub use segment::Lines;
pub use seq::{Offset, Seq};
