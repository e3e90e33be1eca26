//! Group commit: what was written of a session becomes durable together, and who waits for it is told.

use super::failures::sync_failed;
use super::live::{Live, PendingClose};
use super::storage::{JsonlStorage, Message};
use crate::disk::live::write::{SyncDone, SyncJob};
use crate::log::SessionId;

impl JsonlStorage {
    /// Lets written events wait for others of the session before they are made durable together.
    pub(super) fn sync_later(&mut self, id: &SessionId) {
        if self.window.is_zero() {
            return self.sync(id);
        }
        let Some(open) = self.open(id).filter(|open| !open.windowed) else { return };
        open.windowed = true;
        let (id, window) = (id.clone(), self.window);
        let (sender, wake) = (self.sender.clone(), std::sync::Arc::clone(&self.wake));
        self.runtime.spawn(async move {
            tokio::time::sleep(window).await;
            let _ = sender.send(Message::Window(id));
            wake();
        });
    }

    /// Begins to make a session durable, unless that is under way. The summary that a flush has asked for is left with
    /// it, once all that it tells of is durable; not if the log has grown since.
    pub(super) fn sync(&mut self, id: &SessionId) {
        let Some(open) = self.open(id).filter(|open| !open.file.is_syncing()) else { return };
        let promised = !open.waiters.is_empty();
        // Where nothing begins, the next write brings what it needs.
        let Some((job, tail)) = open.file.start_sync(promised) else { return };
        open.promised = open.waiters.len();
        let size = open.file.len();
        let summary = open.summary.take().filter(|summary| summary.size() == size);
        if summary.is_some() {
            open.summed = size;
        }
        let id = id.clone();
        let lost = Message::Synced(id.clone(), SyncJob::lost());
        self.away(lost, move |shared| {
            let done = job.run(&mut tail.as_slice());
            if let (Some(summary), true) = (summary, done.is_ok()) {
                summary.leave(shared);
            }
            Message::Synced(id, done)
        });
    }

    pub(super) fn synced(&mut self, id: &SessionId, done: SyncDone) {
        let Some(open) = self.open(id) else { return };
        let before = open.file.durable();
        let result = open.file.finish_sync(done);
        let durable = open.file.durable();
        // Who came while it ran may have seen the file change since: that is for the next one to say.
        let (waiters, answer) = match result {
            Ok(_) => (open.promised, Ok(durable.last())),
            Err(error) => {
                (open.summary, open.summed) = (None, 0); // who asked for one is refused
                (open.waiters.len(), Err(sync_failed(&error)))
            }
        };
        let answered: Vec<_> = open.waiters.drain(..waiters).collect();
        open.promised = 0;
        if durable > before {
            self.moved(id, durable.last());
        }
        for (ticket, reply) in answered {
            reply.keep(answer.clone());
            self.done(ticket);
        }
        self.go_on(id);
    }

    /// What comes next for a file whose work has ended. After a failed sync the next write, flush or close tries again.
    fn go_on(&mut self, id: &SessionId) {
        let Some(open) = self.open(id) else { return };
        if !open.waiters.is_empty() {
            return self.sync(id); // whoever waits is answered before the file goes
        }
        if let Some(close) = open.pending.take() {
            self.close_at_last(id, close);
        }
    }

    /// Does what has waited for a file's work to end.
    pub(super) fn close_at_last(&mut self, id: &SessionId, close: PendingClose) {
        match close {
            PendingClose::Release(ticket, session, reply) => self.release(ticket, session, reply),
            PendingClose::Delete(ticket, reply) => self.delete(ticket, id.clone(), reply),
            PendingClose::Rescue(ticket, publication, other, reply) => {
                self.rescue(ticket, publication, other, reply);
            }
        }
    }

    /// Where what closes a file waits while that is syncing or being mended.
    pub(super) fn waits_to_close(&mut self, id: &SessionId) -> Option<&mut Option<PendingClose>> {
        match self.live.get_mut(id)? {
            Live::Open(open) if open.file.is_syncing() => Some(&mut open.pending),
            Live::Mending(behind) => Some(&mut behind.close),
            _ => None,
        }
    }
}
