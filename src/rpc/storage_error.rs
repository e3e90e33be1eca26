//! Why storage failed, and how the client is told.

use crate::log::SessionId;

use super::error::{Code, WireError};
use super::results::LockedBy;
use super::storage::StoredSummary;

/// Why storage failed.
#[derive(Clone, Debug)]
pub enum StorageError {
    /// No such session is stored.
    NotFound(SessionId),
    /// An I/O error; `errno` is its name.
    Failed {
        /// `ENOSPC`, `EIO`, …
        errno: String,
        /// What was being done.
        doing: String,
        /// The events are committed though not durable.
        committed: bool,
        /// What to do before it is tried again, where that is known.
        remedy: Option<&'static str>,
    },
    /// Nothing can be written to the log any more.
    Lost {
        /// What was being done.
        doing: String,
        /// The events are committed though not durable.
        committed: bool,
        /// How it came.
        how: Loss,
    },
    /// The log is deleted, but not all that belongs to it, or not durably.
    Undeleted {
        /// `ENOSPC`, `EIO`, …
        errno: String,
        /// What to do before it is tried again, where that is known.
        remedy: Option<&'static str>,
    },
    /// Another process owns the session.
    Locked {
        /// The session.
        id: SessionId,
        /// Its owner, as the owner said.
        by: Option<LockedBy>,
    },
    /// The log cannot be trusted.
    Corrupt {
        /// The session.
        id: SessionId,
        /// Why.
        reason: String,
        /// Line, from 1 for the header.
        line: u64,
        /// Byte offset of that line.
        offset: u64,
        /// FORMAT's class.
        rule: &'static str,
        /// What helps, where the reason does not say it.
        remedy: Option<&'static str>,
    },
    /// A log of another time or another writer.
    Unsupported {
        /// The session.
        id: SessionId,
        /// Why.
        reason: String,
        /// `newer`, `older` or `unknown`.
        direction: &'static str,
    },
    /// The id is stored already.
    Exists {
        /// The id.
        id: SessionId,
        /// What is known of it.
        summary: StoredSummary,
    },
    /// The id of a session that is live here, and not stored yet, is another process's meanwhile.
    Overtaken {
        /// The id.
        id: SessionId,
        /// What is known of the one that is stored.
        summary: StoredSummary,
    },
    /// The log holds what is over a limit here.
    Limit {
        /// The session.
        id: SessionId,
        /// What, and what to do.
        reason: String,
        /// The limit's name.
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// A bug of ours, on the way to the disk or back.
    Bug,
}

/// How a log that was open here was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Another program lengthened or shortened it.
    Changed {
        /// The bytes that this process left.
        expected: u64,
        /// The bytes now.
        actual: u64,
    },
    /// Another program took its name away, or gave it to another file.
    Removed,
    /// It was deleted here; what was left to do has failed.
    Deleted,
}

impl StorageError {
    /// Whether only durability failed: what was written stays committed.
    pub(super) fn is_committed(&self) -> bool {
        matches!(self, Self::Failed { committed: true, .. } | Self::Lost { committed: true, .. })
    }

    /// The same of a session that stays live: an id that is taken is taken from it.
    pub(super) fn of_live(self) -> Self {
        match self {
            Self::Exists { id, summary } => Self::Overtaken { id, summary },
            error => error,
        }
    }

    /// Whether another program took the log from this process: memory is the last good copy.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self, Self::Lost { how: Loss::Changed { .. } | Loss::Removed, .. })
    }

    /// Whether a session whose log cannot be written any more is closed all the same: it was deleted, or a bug has let go
    /// of its file, and loading it is what helps.
    pub(super) fn lets_close(&self) -> bool {
        matches!(self, Self::Lost { how: Loss::Deleted, .. } | Self::Bug)
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

impl From<StorageError> for WireError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::NotFound(id) => not_stored(id.as_str()),
            StorageError::Failed { errno, doing, committed, remedy } => {
                let (state, again) = match committed {
                    true => ("the events are kept", "ask again"),
                    false => ("nothing was changed", "try again"),
                };
                let message = format!("{doing} failed with {errno}; {state}; {}", before(remedy, again));
                let error = Self::new(Code::StorageFailed, message);
                error.text("errno", &errno).fact("committed", committed)
            }
            StorageError::Lost { doing, committed, how } => {
                let (reason, hint) = match how {
                    Loss::Changed { expected, actual } => (
                        "changed_outside",
                        format!(
                            "another program changed the log, which has {actual} bytes instead of {expected}; \
                             session/rescue stores anew what is held here"
                        ),
                    ),
                    Loss::Removed => (
                        "removed",
                        "another program removed, moved or replaced the log; session/rescue stores anew what is \
                         held here"
                            .into(),
                    ),
                    Loss::Deleted => (
                        "deleted",
                        "the session was deleted, only not all that belongs to it; delete it again, or close it"
                            .into(),
                    ),
                };
                let error = Self::new(Code::StorageFailed, format!("{doing} failed with ESTALE; {hint}"));
                error.text("errno", "ESTALE").fact("committed", committed).text("reason", reason)
            }
            StorageError::Undeleted { errno, remedy } => {
                let again = before(remedy, "delete it again");
                let message = format!(
                    "removing the session failed with {errno} when its log was removed already; {again}"
                );
                let error = Self::new(Code::StorageFailed, message);
                error.text("errno", &errno).fact("committed", true)
            }
            StorageError::Locked { id, by } => {
                let message =
                    format!("session {id} is open in another process; close it there, or inspect it here");
                let error = Self::new(Code::SessionLocked, message).text("sessionId", id.as_str());
                match by {
                    Some(by) => error.fact("pid", by.pid).fact("since", by.since),
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
