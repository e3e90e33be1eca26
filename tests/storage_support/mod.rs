//! A store in memory that a test can step into: a double says only where it differs.
#![allow(dead_code, unreachable_pub)]

use sessiond::log::{Seq, SessionId};
use sessiond::session::Session;
use sessiond::store::MemoryStorage;
use sessiond::store::storage::{Job, JobResult, Storage, StoreInfo, Ticket, Written};

/// Where a double differs from the store in memory.
pub trait Differs {
    fn info(&self, inner: &MemoryStorage) -> StoreInfo {
        inner.info()
    }

    fn start(&mut self, inner: &mut MemoryStorage, ticket: Ticket, job: Job) {
        inner.start(ticket, job);
    }

    fn finished(&mut self, inner: &mut MemoryStorage) -> Option<(Ticket, JobResult)> {
        inner.finished()
    }

    fn write(&mut self, inner: &mut MemoryStorage, session: &Session) -> Written {
        inner.write(session)
    }

    fn durable_moved(&mut self, inner: &mut MemoryStorage) -> Option<(SessionId, Seq)> {
        inner.durable_moved()
    }

    fn has_news(&mut self, inner: &mut MemoryStorage) -> bool {
        inner.has_news()
    }

    fn durable(&self, inner: &MemoryStorage, id: &SessionId) -> Option<Seq> {
        inner.durable(id)
    }
}

/// A store in memory, but for that.
pub struct Double<D> {
    inner: MemoryStorage,
    differs: D,
}

impl<D: Differs> Double<D> {
    pub fn new(differs: D) -> Self {
        Self { inner: MemoryStorage::default(), differs }
    }
}

impl<D: Differs> Storage for Double<D> {
    fn info(&self) -> StoreInfo {
        self.differs.info(&self.inner)
    }

    fn start(&mut self, ticket: Ticket, job: Job) {
        self.differs.start(&mut self.inner, ticket, job);
    }

    fn finished(&mut self) -> Option<(Ticket, JobResult)> {
        self.differs.finished(&mut self.inner)
    }

    fn write(&mut self, session: &Session) -> Written {
        self.differs.write(&mut self.inner, session)
    }

    fn durable_moved(&mut self) -> Option<(SessionId, Seq)> {
        self.differs.durable_moved(&mut self.inner)
    }

    fn has_news(&mut self) -> bool {
        self.differs.has_news(&mut self.inner)
    }

    fn durable(&self, id: &SessionId) -> Option<Seq> {
        self.differs.durable(&self.inner, id)
    }
}
