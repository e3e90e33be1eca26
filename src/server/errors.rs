//! What a refusal becomes on the wire: every one gets its code here and nowhere else (PROTOCOL 5).

use jsonrpsee::types::ErrorObjectOwned;

use super::envelope::EnvelopeFault;
use crate::log::{EnvelopeError, Kind, SessionId, did_you_mean, nearest};
use crate::protocol::results::{LockedBy, Status, TornTail};
use crate::protocol::{Code, WireError};
use crate::session::Refusal;
use crate::store::storage::{self, StoredSummary};
use crate::store::{DaemonId, Loss, Outcome, StorageError};

impl From<EnvelopeFault<'_>> for WireError {
    fn from(fault: EnvelopeFault<'_>) -> Self {
        let code = match fault {
            EnvelopeFault::NotJson(_) | EnvelopeFault::Framed => Code::ParseError,
            EnvelopeFault::Params(_) | EnvelopeFault::DuplicateParam(_) => Code::InvalidParams,
            _ => Code::InvalidRequest,
        };
        Self::new(code, fault.to_string())
    }
}

impl From<Refusal> for WireError {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        let new = |code| Self::new(code, message.clone());
        match refusal {
            Refusal::NotFound(id) => new(Code::SessionNotFound).text("sessionId", &id),
            Refusal::NotLive { id, instance } => {
                new(Code::SessionNotLive).text("sessionId", id.as_str()).text("instanceId", &instance)
            }
            Refusal::AlreadyExists { id, live, parent_session, inherited, next_seq } => {
                let error = new(Code::SessionAlreadyExists).text("sessionId", id.as_str()).fact("live", live);
                let error = match parent_session {
                    Some(parent) => error.text("parentSession", &parent),
                    None => error,
                };
                error.fact("inheritedEventCount", inherited).fact("nextSeq", next_seq)
            }
            Refusal::InvalidBoundary { boundary, last } => {
                let last = last.map_or_else(|| "null".to_owned(), |seq| seq.to_string());
                new(Code::InvalidBoundary).text("boundary", &boundary).fact("lastSeq", last)
            }
            Refusal::OpenTurn { boundary, turn } => {
                new(Code::OpenTurn).fact("boundary", boundary).fact("turn", turn)
            }
            Refusal::SeqConflict { expected, actual } => {
                new(Code::SeqConflict).fact("expected", expected).fact("actual", actual)
            }
            Refusal::LossyJson { pointer, .. } => new(Code::LossyJson).text("pointer", &pointer),
            Refusal::Envelope(error) => {
                let pointer = envelope_pointer(&error);
                new(Code::InvalidEvent).text("pointer", &pointer).text("rule", "SEED_ENVELOPE")
            }
            Refusal::Shape(error) => {
                new(Code::InvalidEvent).text("pointer", &error.pointer()).text("rule", error.class())
            }
            Refusal::SeedSeq { expected, actual } => {
                let error = new(Code::InvalidEvent).text("pointer", "/seq").text("rule", "SEED_SEQ");
                error.fact("expected", expected).fact("actual", actual)
            }
            Refusal::UnknownType(name) => {
                let near = nearest(&name, Kind::known_names());
                let error = match did_you_mean(&near) {
                    Some(offer) => Self::new(
                        Code::UnknownEventType,
                        format!(
                            "event type {name:?} is not known; {offer} Else declare it in eventTypes at initialize, or mark the event ignorable"
                        ),
                    ),
                    None => new(Code::UnknownEventType),
                };
                error.text("type", &name).names("nearest", &near)
            }
            Refusal::RowTag(_) => {
                new(Code::InvalidEvent).text("pointer", "/type").text("rule", "ROW_ENVELOPE")
            }
            Refusal::Surface(error) => new(Code::InvalidSurface).text("rule", error.rule()),
            Refusal::Relation(error) => new(Code::InvariantViolation).text("rule", error.rule()),
            Refusal::Limit { limit, max } => new(Code::LimitExceeded).text("limit", limit).fact("max", max),
            Refusal::Invalid(_) => new(Code::InvalidParams),
            Refusal::At { index, cause } => {
                let inner = Self::from(*cause);
                inner.fact("index", index).of(&format!("event {index}"))
            }
        }
    }
}

impl From<Refusal> for ErrorObjectOwned {
    fn from(refusal: Refusal) -> Self {
        WireError::from(refusal).into()
    }
}

/// The JSON Pointer, from the event's root, of what an envelope lacks or should not have.
fn envelope_pointer(error: &EnvelopeError) -> String {
    match error {
        EnvelopeError::NotAnObject => String::new(),
        EnvelopeError::UnknownMember(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        EnvelopeError::Missing(name) => format!("/{name}"),
        EnvelopeError::Type => "/type".to_owned(),
        EnvelopeError::Seq => "/seq".to_owned(),
        EnvelopeError::Time => "/time".to_owned(),
        EnvelopeError::Ignorable => "/ignorable".to_owned(),
    }
}

/// What to do, and then again what was asked for.
fn before(remedy: Option<&str>, again: &str) -> String {
    remedy.map_or_else(|| again.to_owned(), |remedy| format!("{remedy}, then {again}"))
}

/// No session of that id, which may be none, is stored.
pub(super) fn not_stored(id: &str) -> WireError {
    let id: String = id.chars().take(300).collect();
    let message = format!("session {id:?} is not stored here; list the sessions, or create it");
    WireError::new(Code::SessionNotFound, message).text("sessionId", &id)
}

fn already_exists(message: String, id: &SessionId, summary: &StoredSummary) -> WireError {
    let error = WireError::new(Code::SessionAlreadyExists, message).text("sessionId", id.as_str());
    let error = error.fact("live", false);
    let error = match &summary.parent_session {
        Some(parent) => error.text("parentSession", parent),
        None => error,
    };
    error.fact("inheritedEventCount", summary.inherited).fact("nextSeq", summary.next_seq)
}

/// What became of something that failed.
fn became(error: WireError, outcome: Outcome) -> WireError {
    let error = error.fact("committed", outcome == Outcome::Committed);
    if outcome == Outcome::Unknown { error.fact("unknown", true) } else { error }
}

/// Who owns a session.
fn owned_by(error: WireError, owner: &DaemonId) -> WireError {
    let error = error.fact("pid", owner.pid).fact("since", owner.since);
    owner.host.iter().fold(error, |error, host| error.text("host", host))
}

impl From<StorageError> for WireError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::NotFound(id) => not_stored(id.as_str()),
            StorageError::Failed { detail, doing, outcome, remedy } => {
                let (state, again) = match outcome {
                    Outcome::Committed => ("the events are kept", "ask again"),
                    Outcome::NotCommitted => ("nothing was changed", "try again"),
                    Outcome::Unknown => (
                        "the store has not said whether it was done",
                        "look again before it is tried once more",
                    ),
                };
                let code = detail.code();
                let message = format!("{doing} failed with {code}; {state}; {}", before(remedy, again));
                became(Self::new(Code::StorageFailed, message).text("errno", code), outcome)
            }
            StorageError::Lost { doing, outcome, how } => {
                let (reason, hint) = match how {
                    Loss::Changed { expected, actual } => (
                        "changed_outside",
                        format!(
                            "another program changed the log, which has {actual} bytes instead of {expected}; \
                             session/rescue stores anew what is held here"
                        ),
                    ),
                    Loss::Rewritten => (
                        "changed_outside",
                        "another program changed bytes of the log; session/rescue stores anew what is held here"
                            .into(),
                    ),
                    Loss::Removed => (
                        "removed",
                        "another program removed, moved or replaced the log; session/rescue stores anew what is \
                         held here"
                            .into(),
                    ),
                    Loss::Superseded { generation } => (
                        "superseded",
                        format!(
                            "another program continues the session in generation {generation} of the format; \
                             session/rescue stores under another id what is held here"
                        ),
                    ),
                    Loss::Deleted => (
                        "deleted",
                        "the session was deleted, only not all that belongs to it; delete it again, or close it"
                            .into(),
                    ),
                };
                let error = Self::new(Code::StorageFailed, format!("{doing} failed with ESTALE; {hint}"));
                became(error.text("errno", "ESTALE"), outcome).text("reason", reason)
            }
            StorageError::Undeleted { detail, remedy } => {
                let (again, code) = (before(remedy, "delete it again"), detail.code());
                let message = format!(
                    "removing the session failed with {code} when its log was removed already; {again}"
                );
                let error = Self::new(Code::StorageFailed, message);
                became(error.text("errno", code), Outcome::Committed)
            }
            StorageError::LeaseLost { id, by } => {
                let owner = by.as_ref().map_or_else(|| "another daemon".to_owned(), ToString::to_string);
                let message = format!(
                    "session {id} was taken over by {owner}; it is closed here, and what was not answered is not \
                     stored; read it with session/inspect, or load it when its owner has closed it"
                );
                let error = Self::new(Code::SessionLocked, message).text("sessionId", id.as_str());
                by.iter().fold(error, owned_by).fact("lost", true)
            }
            StorageError::Locked { id, by } => {
                let message =
                    format!("session {id} is open in another process; close it there, or inspect it here");
                let error = Self::new(Code::SessionLocked, message).text("sessionId", id.as_str());
                match by {
                    Some(by) => owned_by(error, &by),
                    None => error,
                }
            }
            StorageError::Corrupt { id, reason, line, offset, rule, remedy } => {
                let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
                let message = format!("session {id} is damaged: {reason}{remedy}");
                let error = Self::new(Code::SessionCorrupt, message).text("sessionId", id.as_str());
                error.text("rule", rule).fact("line", line).fact("offset", offset)
            }
            StorageError::Unsupported { id, reason, direction } => {
                let message = format!("session {id} cannot be read by this version: {reason}");
                let error = Self::new(Code::FormatUnsupported, message).text("sessionId", id.as_str());
                error.text("direction", direction)
            }
            StorageError::Exists { id, summary } => {
                let message = format!("session {id} is stored already; load it, or choose another id");
                already_exists(message, &id, &summary)
            }
            StorageError::Overtaken { id, summary } => {
                let message = format!(
                    "another process has stored a session {id} first; close this one, then load that one, or choose another id"
                );
                already_exists(message, &id, &summary)
            }
            StorageError::Limit { id, reason, limit, max } => {
                let error =
                    Self::new(Code::LimitExceeded, format!("session {id} cannot be read here: {reason}"));
                error.text("limit", limit).fact("max", max)
            }
            StorageError::Bug => Self::new(
                Code::Internal,
                "a bug in sessiond while it used its store; close the session and load it, and report this",
            ),
        }
    }
}

impl From<DaemonId> for LockedBy {
    fn from(owner: DaemonId) -> Self {
        Self { pid: owner.pid, since: owner.since }
    }
}

impl From<storage::Status> for Status {
    fn from(status: storage::Status) -> Self {
        match status {
            storage::Status::Ok => Self::Ok,
            storage::Status::Damaged => Self::Damaged,
            storage::Status::Corrupt | storage::Status::Unreadable => Self::Corrupt,
            storage::Status::Unsupported => Self::Unsupported,
            storage::Status::Superseded => Self::Superseded,
        }
    }
}

impl From<storage::TornTail> for TornTail {
    fn from(torn: storage::TornTail) -> Self {
        Self { offset: torn.offset, bytes: torn.bytes, events: torn.events }
    }
}
