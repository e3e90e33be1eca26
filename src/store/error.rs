//! Why storage failed, and how the client is told.

use crate::log::SessionId;

use super::info::DaemonId;
use super::storage::StoredSummary;

/// Why storage failed.
#[derive(Clone, Debug)]
pub enum StorageError {
    /// No such session is stored.
    NotFound(SessionId),
    /// The engine failed at something.
    Failed {
        /// How.
        detail: Detail,
        /// What was being done.
        doing: String,
        /// What became of it.
        outcome: Outcome,
        /// What to do before it is tried again, where that is known.
        remedy: Option<&'static str>,
    },
    /// Nothing can be written to the log any more.
    Lost {
        /// What was being done.
        doing: String,
        /// What became of it.
        outcome: Outcome,
        /// How it came.
        how: Loss,
    },
    /// The log is deleted, but not all that belongs to it, or not durably.
    Undeleted {
        /// How.
        detail: Detail,
        /// What to do before it is tried again, where that is known.
        remedy: Option<&'static str>,
    },
    /// This daemon owned the session, and does no longer.
    LeaseLost {
        /// The session.
        id: SessionId,
        /// Its owner now, where that is known.
        by: Option<DaemonId>,
    },
    /// Another process owns the session.
    Locked {
        /// The session.
        id: SessionId,
        /// Its owner, as the owner said.
        by: Option<DaemonId>,
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

/// What has become of what was asked for when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing of it was done.
    NotCommitted,
    /// It was done, though what was promised beside it was not: events are kept, and not durable.
    Committed,
    /// The store has not said, and cannot be asked: only looking again tells.
    Unknown,
}

/// How an engine failed, in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// At a file: the errno's name, as `ENOSPC`.
    File(String),
    /// At a database: the five characters of its SQLSTATE, as `40001`.
    Sql(String),
}

impl Detail {
    /// The name under which a client is told of it.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::File(code) | Self::Sql(code) => code,
        }
    }
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
    /// Another program changed bytes of it that this process wrote.
    Rewritten,
    /// Another program took its name away, or gave it to another file.
    Removed,
    /// Another program continues the session beside it, in a later generation of the format.
    Superseded {
        /// The generation.
        generation: u64,
    },
    /// It was deleted here; what was left to do has failed.
    Deleted,
}

impl StorageError {
    /// What has become of what was asked for.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Failed { outcome, .. } | Self::Lost { outcome, .. } => *outcome,
            Self::Undeleted { .. } => Outcome::Committed,
            _ => Outcome::NotCommitted,
        }
    }

    /// The same of a session that stays live: an id that is taken is taken from it.
    pub(crate) fn of_live(self) -> Self {
        match self {
            Self::Exists { id, summary } => Self::Overtaken { id, summary },
            error => error,
        }
    }

    /// Whether another program took the log from this process: memory is the last good copy.
    pub(crate) fn is_taken(&self) -> bool {
        let Self::Lost { how, .. } = self else { return false };
        match how {
            Loss::Changed { .. } | Loss::Rewritten | Loss::Removed | Loss::Superseded { .. } => true,
            Loss::Deleted => false,
        }
    }

    /// Whether a session whose log cannot be written any more is closed all the same: it was deleted, or a bug has let go
    /// of its file, and loading it is what helps.
    pub(crate) fn lets_close(&self) -> bool {
        matches!(self, Self::Lost { how: Loss::Deleted, .. } | Self::Bug)
    }
}
