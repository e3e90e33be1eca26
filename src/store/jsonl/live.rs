//! What the owner knows of the file of a live session.

use super::keep::Summary;
use crate::disk::live::session_file::SessionFile;
use crate::log::{Log, Seq, SessionId};
use crate::session::Session;
use crate::store::StorageError;
use crate::store::storage::{ListFacts, Promise, Publication, Released, Rescued, Ticket};

/// The file of a live session.
pub(super) enum Live {
    /// On another thread.
    Busy,
    /// On another thread, which mends it; and what has come for it meanwhile.
    Mending(Box<Behind>),
    /// With the owner.
    Open(Box<Open>),
    /// A bug has given it up, and nobody knows what it holds: it is written no more until the session is closed and
    /// loaded.
    Poisoned,
}

/// A flush that waits: its ticket, facts to leave as a summary, and its answer.
pub(super) type Flush = (Ticket, Option<Box<ListFacts>>, Promise<Option<Seq>>);

/// What waits for a file that is being mended.
#[derive(Default)]
pub(super) struct Behind {
    /// Appends: a log that holds them all.
    pub(super) log: Option<Log>,
    /// Flushes, in order of arrival.
    pub(super) flushes: Vec<Flush>,
    /// What the file leaves for behind them.
    pub(super) close: Option<PendingClose>,
}

pub(super) struct Open {
    pub(super) file: SessionFile,
    /// Syncs that are waited for, in order of arrival.
    pub(super) waiters: Vec<(Ticket, Promise<Option<Seq>>)>,
    /// How many of them the sync under way is for.
    pub(super) promised: usize,
    /// A group commit is due.
    pub(super) windowed: bool,
    /// To be left beside the log once all of it is durable.
    pub(super) summary: Option<Summary>,
    /// The log's size when a summary was left last.
    pub(super) summed: u64,
    /// Why queued appends failed, until the owner knows.
    pub(super) failed: Option<Box<StorageError>>,
    /// What the file leaves the owner for once its work has ended and nobody waits for a sync.
    pub(super) pending: Option<PendingClose>,
}

impl Open {
    pub(super) fn new(file: SessionFile) -> Box<Self> {
        let (waiters, promised, windowed, summary, summed) = (Vec::new(), 0, false, None, 0);
        Box::new(Self { file, waiters, promised, windowed, summary, summed, failed: None, pending: None })
    }
}

pub(super) enum PendingClose {
    /// The session is no longer live.
    Release(Ticket, Box<Session>, Promise<Released>),
    /// It is to be removed.
    Delete(Ticket, Promise<()>),
    /// It is to be stored anew if it is not what it should be: what it should hold, and another id.
    Rescue(Ticket, Box<Publication>, Option<SessionId>, Promise<Rescued>),
}
