//! What the methods need of storage. The daemon wires it to a memory map or to the disk.

use crate::log::{Offset, Seq, SessionId};
use crate::session::Outgoing;

pub use super::list::{Behind, ListFacts, ListPage, ListQuery, RowKey, StoredInfo};
pub use super::request::{
    Created, Inspected, LoadRules, Loaded, Promise, Publication, Released, Reply, Request, Rescued,
    StoredSummary, TornTail, promise,
};
pub use super::{DaemonId, Detail, Lease, Loss, Outcome, StorageError, StoreInfo};
pub use crate::disk::catalog::list::Status;

/// Names one request; given by the caller, never 0.
pub type Ticket = u64;

/// Tells the caller of a store that [`Storage::poll`] may have something; called on any thread.
pub type Wake = std::sync::Arc<dyn Fn() + Send + Sync>;

/// What a store has to say.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request is done: its [`Reply`] can be taken.
    Done(Ticket),
    /// Queued events of a session are stored: all before that offset.
    Acknowledged {
        /// The session.
        session: SessionId,
        /// Where what is stored ends.
        through: Offset,
    },
    /// Queued events of a session were not stored, from that offset on.
    AppendFailed {
        /// The session.
        session: SessionId,
        /// Where what was not stored begins.
        from: Offset,
        /// Why, and what became of them.
        error: StorageError,
    },
    /// More of a session is on stable storage: all up to that event.
    Durable {
        /// The session.
        session: SessionId,
        /// Its last durable event.
        through: Seq,
    },
    /// This daemon owns a session no longer: nothing of it that is queued will be stored.
    LeaseLost {
        /// The session.
        session: SessionId,
        /// Its owner now, where that is known.
        by: Option<DaemonId>,
    },
    /// The way to the store was lost, or is there again.
    Connection(Connection),
}

/// The way to a store that is remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Nothing comes through. Requests and appends wait, or fail with what became of them.
    Lost,
    /// It is there again.
    Restored,
}

/// What became of an append.
#[derive(Debug)]
pub enum Append {
    /// Everything before its end is stored.
    Written,
    /// It is on its way: [`Event::Acknowledged`], [`Event::AppendFailed`] or [`Event::LeaseLost`] says what became of it.
    Queued,
    /// Nothing of it was kept.
    Refused(StorageError),
}

/// An engine: where sessions are kept when they are not live, and, if it is durable, what live ones have appended.
///
/// The laws, which one test holds every engine to (`tests/store/engine_laws.rs`; `docs/storage-engines.md` tells them at length):
/// no method waits; every request that was started is done once; of a session, appends are acknowledged in order,
/// each once; what follows a failed one fails with it, until the failure was polled; a release, a flush or a delete
/// takes effect behind the appends before it.
pub trait Storage {
    /// What it is.
    fn info(&self) -> StoreInfo;

    /// Begins a request; an [`Event::Done`] says when it is answered. What needs no waiting is done at once.
    fn start(&mut self, ticket: Ticket, request: Request);

    /// The next event, if there is one. What others have told since the last look is heard: this must be asked again and
    /// again, or nothing goes on.
    fn poll(&mut self) -> Option<Event>;

    /// Whether [`Self::poll`] has something to say; it is heard as there.
    fn has_events(&mut self) -> bool;

    /// Whether nothing is under way, group commits included.
    fn is_quiet(&self) -> bool {
        true
    }

    /// Stores the events `from..to` of a live session, and whatever a load has added to its log before them. With no such
    /// events: what a load left to be mended is mended. An engine that needs no waiting writes them at once.
    fn append(&mut self, lease: Lease<'_>, log: &mut Outgoing<'_>, from: Offset, to: Offset) -> Append {
        let _ = (lease, log, from, to);
        Append::Written
    }

    /// Gives up a session that was opened and did not become live, or whose log and memory may differ.
    fn discard(&mut self, id: &SessionId);

    /// Whether the log of a live session is as this process left it, as far as can be told without waiting: what an
    /// answer of events that had been there before promises.
    fn check(&self, id: &SessionId) -> Result<(), StorageError> {
        let _ = id;
        Ok(())
    }

    /// The last event of a live session that is on stable storage.
    fn durable(&self, id: &SessionId) -> Option<Seq> {
        let _ = id;
        None
    }

    /// What storage has to say about a live session: saved cuts, failures.
    fn warnings(&self, id: &SessionId) -> Vec<String> {
        let _ = id;
        Vec::new()
    }
}
