//! What the owner knows of the file of a live session.

use super::keep::Summary;
use crate::disk::session_file::SessionFile;
use crate::log::Offset;
use crate::rpc::storage::Ticket;
use crate::session::Session;

/// The file of a live session.
pub(super) enum Live {
    /// On another thread.
    Away,
    /// Here.
    Here(Box<Here>),
    /// A bug has let go of it, and nobody knows what it holds: it is written no more until the session is closed and
    /// loaded.
    Lost,
}

pub(super) struct Here {
    pub(super) file: SessionFile,
    /// Syncs that are waited for: until so many events are durable.
    pub(super) waiters: Vec<(Ticket, Offset)>,
    /// A group commit is due.
    pub(super) windowed: bool,
    /// To be left beside the log once all of it is durable.
    pub(super) summary: Option<Summary>,
    /// A summary is being written: as a sync's, its end must come before the file goes.
    pub(super) summing: bool,
    /// The log's size when a summary was left last.
    pub(super) summed: u64,
    /// What the file goes for once its work has ended and nobody waits for a sync.
    pub(super) leaving: Option<Leaving>,
}

impl Here {
    pub(super) fn new(file: SessionFile) -> Box<Self> {
        let (waiters, windowed, summary, summing, summed) = (Vec::new(), false, None, false, 0);
        Box::new(Self { file, waiters, windowed, summary, summing, summed, leaving: None })
    }

    /// Another thread works on the log or beside it.
    pub(super) fn is_at_work(&self) -> bool {
        self.file.is_syncing() || self.summing
    }
}

pub(super) enum Leaving {
    /// The session is no longer live.
    Release(Ticket, Box<Session>),
    /// It is to be removed.
    Delete(Ticket),
}
