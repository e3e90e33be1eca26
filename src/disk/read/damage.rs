//! What can be wrong with a stored log, and where (FORMAT 13.1 to 13.3, PROTOCOL 9).

use std::io;

use super::legacy::LegacyError;
use super::zstd::FrameError;
use crate::json::{FaultKind, SyntaxError};
use crate::log::{DecodeRowError, EnvelopeError, HeaderLineError, Offset, Seq};

/// Where a record begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The record's number as FORMAT 13.1 counts: 1 for the first one after the header, which is 0.
    pub row: u64,
    /// Its first byte in the file; in a compressed log the first byte of its frame.
    pub offset: u64,
    /// Its first byte in the decoded text; in a plain log the same as `offset`.
    pub text: u64,
}

impl Place {
    /// The line as an editor counts: 1 for the header.
    #[must_use]
    pub fn line(self) -> u64 {
        self.row.saturating_add(1)
    }
}

/// What a judgement means for the whole log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The log cannot be trusted: `SESSION_CORRUPT`.
    Corrupt,
    /// The log may be sound for another program: `FORMAT_UNSUPPORTED`.
    Unsupported,
    /// The log may be sound, a limit of ours is too low for it: `LIMIT_EXCEEDED`.
    Limit(TooLow),
}

/// A limit of ours that is too low for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLow {
    /// Its name on the wire.
    pub limit: &'static str,
    /// Its value.
    pub max: u64,
}

impl TooLow {
    /// The bound on a line, which follows the one on an event and is far above it.
    fn line(max: usize) -> Verdict {
        Verdict::Limit(Self { limit: "maxEventBytes", max: max as u64 })
    }
}

/// A caller's refusal of a header or an event. The caller keeps what it needs beyond these texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// What it means for the log.
    pub verdict: Verdict,
    /// FORMAT's class of the broken rule.
    pub class: &'static str,
    /// What was wrong.
    pub reason: String,
}

/// What is wrong with one record, or with the log from there on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Bytes that are no UTF-8.
    #[error("the record is not UTF-8 (at its byte {0})")]
    NotUtf8(usize),
    /// Nothing, or white space only: the format has no blank lines.
    #[error("the line is blank")]
    Blank,
    /// It begins with NULs, which a power loss leaves of bytes that were never synced.
    #[error("the record begins with {0} NUL bytes: what stood there was lost")]
    Nuls(u64),
    /// Not JSON.
    #[error("the record is {0}")]
    NotJson(SyntaxError),
    /// A number or a duplicate key that JSON readers do not agree on (PROTOCOL 9.2).
    #[error("the record would change in another reader: {0}")]
    Lossy(FaultKind),
    /// A packed row that breaks a rule of FORMAT 11.
    #[error("{0}")]
    Row(#[from] DecodeRowError),
    /// The end of the log, in the middle of a record.
    #[error("the last record is incomplete")]
    Incomplete,
    /// Not the next event.
    #[error("the record should be event {expected} {}", found_text(*found))]
    SeqGap {
        /// The seq that comes next.
        expected: Offset,
        /// Its own, if it has one.
        found: Option<Seq>,
    },
    /// The next event, with an envelope that is none.
    #[error("{0}")]
    Envelope(#[from] EnvelopeError),
    /// An old shape that is not wholly so.
    #[error("{0}")]
    Legacy(#[from] LegacyError),
    /// The caller's validator refused it.
    #[error("{0}")]
    Refused(Refused),
    /// A line beyond the reader's bound.
    #[error(
        "the line is longer than {max} bytes; start the daemon with a larger --max-event-bytes to read this log"
    )]
    LineTooLong {
        /// The bound in bytes.
        max: usize,
    },
    /// A packed row that takes too much room as events.
    #[error(
        "the packed row takes up to {bytes} bytes as events, more than {max}: no writer makes such rows, restore the log from a copy"
    )]
    RowTooLarge {
        /// What it may take.
        bytes: u64,
        /// What rows of its length may take.
        max: u64,
    },
    /// Fewer events than the header says came from the parent (FORMAT 8).
    #[error("the header says that {inherited} events came from the parent, but the log holds {events}")]
    InheritedExceeds {
        /// What the header says.
        inherited: Offset,
        /// What is there.
        events: Offset,
    },
    /// A compressed log that is no run of sound frames.
    #[error("{0}")]
    Frame(FrameError),
}

fn found_text(found: Option<Seq>) -> String {
    found.map_or_else(|| "but has no seq".to_owned(), |seq| format!("but says that it is event {seq}"))
}

impl Damage {
    /// FORMAT's class of the error that this is once it is fatal.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::SeqGap { .. } => "LOG_SEQ_GAP_COMMITTED",
            Self::Envelope(_) => "SEED_ENVELOPE",
            Self::Legacy(error) => error.class(),
            Self::Refused(refused) => refused.class,
            Self::LineTooLong { .. } => "LOG_LINE_TOO_LONG",
            Self::RowTooLarge { .. } => "LOG_ROW_TOO_LARGE",
            Self::InheritedExceeds { .. } => "INHERITED_COUNT_EXCEEDS",
            Self::Frame(error) => frame_class(error),
            _ => "LOG_UNPARSABLE_COMMITTED",
        }
    }

    /// The class where no committed turn follows, so that a load cuts the record off.
    #[must_use]
    pub fn torn_class(&self) -> &'static str {
        match self {
            Self::Incomplete | Self::Nuls(_) => "LOG_TORN_TAIL",
            Self::SeqGap { .. } => "LOG_SEQ_GAP_UNCOMMITTED",
            Self::NotUtf8(_) | Self::Blank | Self::NotJson(_) | Self::Lossy(_) | Self::Row(_) => {
                "LOG_UNPARSABLE_UNCOMMITTED"
            }
            _ => self.class(),
        }
    }

    /// What it means for the log once it is fatal.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Refused(refused) => refused.verdict,
            Self::LineTooLong { max } => TooLow::line(*max),
            Self::RowTooLarge { max, .. } => Verdict::Limit(TooLow { limit: "maxRowBytes", max: *max }),
            _ => Verdict::Corrupt,
        }
    }
}

pub(in crate::disk) fn frame_class(error: &FrameError) -> &'static str {
    match error {
        FrameError::NotAFrame { .. } | FrameError::NulTail { .. } => "ZSTD_MAGIC",
        FrameError::ReservedBit { .. } => "ZSTD_RESERVED_BIT",
        FrameError::ReservedBlock { .. } => "ZSTD_RESERVED_BLOCK",
        FrameError::Invalid { .. } => "ZSTD_FRAME_INVALID",
        FrameError::Read(_) | FrameError::Codec(_) => "",
    }
}

/// One thing that is wrong, with its place.
#[derive(Debug, thiserror::Error)]
#[error("line {} (byte {}): {damage}", .place.line(), .place.offset)]
pub struct Problem {
    /// Where the record begins.
    pub place: Place,
    /// What is wrong.
    pub damage: Damage,
    pub(in crate::disk) in_frame: bool,
}

impl Problem {
    /// An event that the caller's validator refuses.
    #[must_use]
    pub fn refused(place: Place, refused: Refused) -> Self {
        Self { place, damage: Damage::Refused(refused), in_frame: false }
    }

    /// FORMAT's class. In a complete frame every damage has one of its own, since no crash explains it.
    #[must_use]
    pub fn class(&self) -> &'static str {
        if self.in_frame { "ZSTD_TORN_RECORD_IN_FRAME" } else { self.damage.class() }
    }
}

/// Why nothing of a log can be told: its header does not read, or the disk does not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The log could not be read.
    #[error("the log could not be read: {0}")]
    Io(#[source] io::Error),
    /// No bytes, or no complete first line.
    #[error("the log is empty or has no complete header line: delete it, or restore it from a copy")]
    NoHeader,
    /// The same in a compressed log.
    #[error("the log is empty or has no complete header frame: delete it, or restore it from a copy")]
    NoHeaderFrame,
    /// The first line is not UTF-8.
    #[error("the header line is not UTF-8: restore the log from a copy")]
    HeaderNotUtf8,
    /// The first line passes the bound.
    #[error(
        "the header line is longer than {max} bytes: start the daemon with a larger --max-event-bytes, or restore the log from a copy"
    )]
    HeaderTooLong {
        /// The bound in bytes.
        max: usize,
    },
    /// The first line opens no log of this format.
    #[error("{0}")]
    Header(#[source] HeaderLineError),
    /// The first frame is not exactly one line.
    #[error("the first frame is not exactly one header line: restore the log from a copy")]
    HeaderFrameShape,
    /// The first frame is damaged, or the codec has no memory.
    #[error("{0}")]
    Frame(#[source] FrameError),
    /// The caller does not want a log with this header.
    #[error("{0}")]
    Refused(#[source] Refused),
}

impl From<FrameError> for ReadError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Read(error) => Self::Io(error),
            error => Self::Frame(error),
        }
    }
}

impl ReadError {
    /// FORMAT's class; empty for what is no fault of the log.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Io(_) => "",
            Self::NoHeader => "LOG_NO_HEADER",
            Self::NoHeaderFrame => "ZSTD_NO_HEADER",
            Self::HeaderNotUtf8 => "LOG_HEADER_NOT_JSON",
            Self::HeaderTooLong { .. } => "LOG_LINE_TOO_LONG",
            Self::Header(error) => error.class(),
            Self::HeaderFrameShape => "ZSTD_HEADER_FRAME_SHAPE",
            Self::Frame(error) => frame_class(error),
            Self::Refused(refused) => refused.class,
        }
    }

    /// What it means for the log; none when the log itself may be fine.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Io(_) | Self::Frame(FrameError::Codec(_) | FrameError::Read(_)) => None,
            Self::HeaderTooLong { max } => Some(TooLow::line(*max)),
            Self::Header(error) if error.fault.is_unsupported() => Some(Verdict::Unsupported),
            Self::Refused(refused) => Some(refused.verdict),
            _ => Some(Verdict::Corrupt),
        }
    }
}
