//! A store in memory that a test can step into: a double says only where it differs.
#![allow(dead_code, unreachable_pub)]

use sessiond::log::{Offset, Seq, SessionId};
use sessiond::session::Outgoing;
use sessiond::store::MemoryStorage;
use sessiond::store::storage::{Append, Event, Lease, Request, Storage, StoreInfo, Ticket};

/// Where a double differs from the store in memory.
pub trait Differs {
    fn info(&self, inner: &MemoryStorage) -> StoreInfo {
        inner.info()
    }

    fn start(&mut self, inner: &mut MemoryStorage, ticket: Ticket, request: Request) {
        inner.start(ticket, request);
    }

    fn poll(&mut self, inner: &mut MemoryStorage) -> Option<Event> {
        inner.poll()
    }

    fn append(
        &mut self,
        inner: &mut MemoryStorage,
        lease: Lease<'_>,
        log: &mut Outgoing<'_>,
        from: Offset,
        to: Offset,
    ) -> Append {
        inner.append(lease, log, from, to)
    }

    fn has_events(&mut self, inner: &mut MemoryStorage) -> bool {
        inner.has_events()
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

    fn start(&mut self, ticket: Ticket, request: Request) {
        self.differs.start(&mut self.inner, ticket, request);
    }

    fn poll(&mut self) -> Option<Event> {
        self.differs.poll(&mut self.inner)
    }

    fn append(&mut self, lease: Lease<'_>, log: &mut Outgoing<'_>, from: Offset, to: Offset) -> Append {
        self.differs.append(&mut self.inner, lease, log, from, to)
    }

    fn has_events(&mut self) -> bool {
        self.differs.has_events(&mut self.inner)
    }

    fn durable(&self, id: &SessionId) -> Option<Seq> {
        self.differs.durable(&self.inner, id)
    }

    fn discard(&mut self, id: &SessionId) {
        self.inner.discard(id);
    }
}
