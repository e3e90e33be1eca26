//! The append-only log of one session and what it is made of.
//!
//! *The line is the event*: an event is encoded once, at commit, and its bytes are what memory holds,
//! what reads and notifications write and what the disk gets. *A prefix is shared, never copied*: a
//! fork takes the segments of its parent. No I/O and no clock here.

mod chunk_pack;
mod chunk_rows;
mod draft;
mod event;
mod header;
mod header_line;
mod iso8601;
mod kind;
mod listing;
#[allow(clippy::module_inception)]
mod log;
mod nearest;
mod ranges;
mod segment;
mod segment_text;
mod seq;
mod session_id;
mod types;

pub use chunk_pack::pack_rows;
pub use chunk_rows::{ChunkRow, DecodeRowError, Row, RowRule, decode_row, is_row_tag};
pub use draft::{Draft, EnvelopeError, Line, read_event};
pub use event::Event;
pub use header::{Header, HeaderError, HeaderMeta};
pub use header_line::{HeaderLineError, HeaderLineFault, header_line, parse_header_line};
pub use iso8601::iso8601;
pub use kind::Kind;
pub use listing::{ForeignTypes, LastActive, LastTitle, LongestEvent, active_at, active_until, title_in};
pub use log::{Finder, Log, Range};
pub use nearest::{did_you_mean, nearest};
pub use ranges::SeqRuns;
pub use segment::{Lines, Run};
pub use seq::{Offset, Seq};
pub use session_id::{SessionId, SessionIdError};
pub use types::TypeSet;
