//! What the owner knows of the file of a live session.

use super::keep::Summary;
use crate::disk::live::session_file::SessionFile;
use crate::log::{Seq, SessionId};
use crate::session::Session;
use crate::store::storage::{Promise, Publication, Released, Rescued, Ticket};

/// The file of a live session.
pub(super) enum Live {
    /// On another thread.
    Busy,
    /// With the owner.
    Open(Box<Open>),
    /// A bug has given it up, and nobody knows what it holds: it is written no more until the session is closed and
    /// loaded.
    Poisoned,
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
    /// What the file leaves the owner for once its work has ended and nobody waits for a sync.
    pub(super) pending: Option<PendingClose>,
}

impl Open {
    pub(super) fn new(file: SessionFile) -> Box<Self> {
        let (waiters, promised, windowed, summary, summed) = (Vec::new(), 0, false, None, 0);
        Box::new(Self { file, waiters, promised, windowed, summary, summed, pending: None })
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
