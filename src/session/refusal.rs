//! Everything a store can refuse, one variant per cause. The wire codes are given in one place, the server.

use crate::json::{FaultKind, JsonStr};
use crate::log::{EnvelopeError, Offset, Seq, SessionId};
use crate::view::{RelationError, ShapeError, SurfaceError};

/// Why a command or a read was refused. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No live session of that id.
    #[error("session {0:?} is not live; open it if it is stored, else create it")]
    NotFound(String),
    /// The session was opened anew since.
    #[error("instance {instance:?} of session {id} is gone; read the session's current instance")]
    NotLive {
        /// The session.
        id: SessionId,
        /// The instance that was asked for.
        instance: String,
    },
    /// The id is taken by a live session.
    #[error("session {id} already exists; choose another id, or go on with it")]
    AlreadyExists {
        /// The id.
        id: SessionId,
        /// Whether it is live here; else stored.
        live: bool,
        /// Its parent, so that a repeated fork can see that it had worked.
        parent_session: Option<String>,
        /// Events that it inherited.
        inherited: Offset,
        /// Its length.
        next_seq: Offset,
    },
    /// Not an event of the log.
    #[error("boundary {boundary} is not the seq of an event; {}", last_text(.last))]
    InvalidBoundary {
        /// As it was given.
        boundary: String,
        /// The last event.
        last: Option<Seq>,
    },
    /// The prefix would end inside a turn.
    #[error(
        "boundary {boundary} is inside open turn {turn}; end or interrupt the turn, cut before it, or ask for onOpenTurn \"clip\""
    )]
    OpenTurn {
        /// The boundary.
        boundary: Seq,
        /// The turn's number as JSON.
        turn: String,
    },
    /// The log is not that long, or holds something else there.
    #[error("expectedSeq is {expected} but the log's next seq is {actual}{}", conflict_text(*.expected, *.actual))]
    SeqConflict {
        /// The condition.
        expected: Offset,
        /// The log's length.
        actual: Offset,
    },
    /// The payload would not survive a JSON round trip.
    #[error("{kind} (at {})", beginning(.pointer))]
    LossyJson {
        /// What would be lost.
        kind: FaultKind,
        /// Where, from the event's root.
        pointer: String,
    },
    /// Not an event's envelope.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// A message, header or turn end of the wrong shape, or a retired type.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The seed's events must be numbered from 0.
    #[error(
        "the event's seq is {actual}, and its place in the seed is {expected}; number a seed's events from 0"
    )]
    SeedSeq {
        /// Its index.
        expected: u64,
        /// What it says.
        actual: Seq,
    },
    /// A type outside the vocabulary.
    #[error(
        "event type {0:?} is not known; declare it in eventTypes at initialize, or mark the event ignorable"
    )]
    UnknownType(String),
    /// A type that is a tag of packed rows (FORMAT 11): a log that held it could not be loaded again.
    #[error("the type {0:?} is a tag of the rows in which storage packs chunks; choose another")]
    RowTag(String),
    /// The surface contract.
    #[error(transparent)]
    Surface(#[from] SurfaceError),
    /// The turn/step/tool relations.
    #[error(transparent)]
    Relation(#[from] RelationError),
    /// A limit.
    #[error("{}", limit_text(.limit, *.max))]
    Limit {
        /// Its name.
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// Params that do not fit together.
    #[error("{0}")]
    Invalid(String),
    /// An event of a batch or seed was refused.
    #[error("event {index}: {cause}")]
    At {
        /// Its index.
        index: usize,
        /// Why.
        cause: Box<Refusal>,
    },
}

/// So much of a client's text as a message may hold (PROTOCOL 5).
fn beginning(text: &str) -> String {
    const MOST: usize = 100;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn last_text(last: &Option<Seq>) -> String {
    last.map_or_else(|| "the log is empty".to_owned(), |seq| format!("the last one is {seq}"))
}

fn conflict_text(expected: Offset, actual: Offset) -> String {
    if expected > actual {
        return format!("; no event stands there yet, append from {actual} on");
    }
    format!(", and it does not hold these events there; read on from {expected}")
}

/// What is over a limit, and what to do.
fn limit_text(limit: &str, max: u64) -> String {
    let (what, remedy, flag) = match limit {
        "maxDepth" => (format!("data is nested more than {max} levels deep"), "flatten it", "depth"),
        "maxEventBytes" => (format!("the event takes more than {max} bytes"), "split it", "event-bytes"),
        "maxBatchEvents" => {
            (format!("the batch holds more than {max} events"), "send it in parts", "batch-events")
        }
        "maxLiveSessions" => {
            (format!("{max} sessions are live, as many as may be"), "close one", "live-sessions")
        }
        "maxMessageBytes" => (
            format!("an event that closes the turn needs a line of more than {max} bytes"),
            "end the step and the turn by appends",
            "message-bytes",
        ),
        _ => return format!("over the limit {limit} of {max}"),
    };
    format!("{what}; {remedy}, or start the daemon with a larger --max-{flag}")
}

impl Refusal {
    /// What is refused is rare, and the making of it out of the way of what is not.
    #[cold]
    pub(super) fn of(cause: impl Into<Self>) -> Self {
        cause.into()
    }

    #[cold]
    pub(crate) fn limit(limit: &'static str, max: u64) -> Self {
        Self::Limit { limit, max }
    }

    #[cold]
    pub(crate) fn unknown_type(name: JsonStr<'_>) -> Self {
        Self::UnknownType(name.lossy().chars().take(100).collect())
    }

    #[cold]
    pub(crate) fn row_tag(name: JsonStr<'_>) -> Self {
        Self::RowTag(name.lossy().into_owned())
    }

    pub(crate) fn at_index(self, index: usize) -> Self {
        Self::At { index, cause: Box::new(self) }
    }
}
