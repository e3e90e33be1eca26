//! Group commit: what was written of a session becomes durable together, and who waits for it is told.

use super::failures::sync_failed;
use super::live::Leaving;
use super::storage::{JsonlStorage, Message};
use crate::disk::write::{SyncDone, SyncJob};
use crate::log::{Offset, SessionId};
use crate::rpc::storage::{JobResult, Ticket};

impl JsonlStorage {
    /// Lets written events wait for others of the session before they are made durable together.
    pub(super) fn sync_later(&mut self, id: &SessionId) {
        if self.window.is_zero() {
            return self.sync(id);
        }
        let Some(here) = self.here(id).filter(|here| !here.windowed) else { return };
        here.windowed = true;
        let (id, window) = (id.clone(), self.window);
        let (sender, waker) = (self.sender.clone(), self.waker.clone());
        self.runtime.spawn(async move {
            tokio::time::sleep(window).await;
            let _ = sender.send(Message::Window(id));
            waker.wake();
        });
    }

    /// Begins to make a session durable, unless that is under way. The summary that a flush has asked for is left with
    /// it, once all that it tells of is durable; not if the log has grown since.
    pub(super) fn sync(&mut self, id: &SessionId) {
        let Some(here) = self.here(id).filter(|here| !here.is_at_work()) else { return };
        let (size, sync) = (here.file.len(), here.file.start_sync());
        if sync.is_none() && here.file.durable() < here.file.written() {
            return; // the next write brings what it needs
        }
        let summary = here.summary.take().filter(|summary| summary.size() == size);
        if summary.is_some() {
            here.summed = size;
        }
        let id = id.clone();
        match (sync, summary) {
            (Some((job, tail)), summary) => {
                let lost = Message::Synced(id.clone(), SyncJob::lost());
                self.away(lost, move |shared| {
                    let done = job.run(&mut tail.as_slice());
                    if let (Some(summary), true) = (summary, done.is_ok()) {
                        summary.leave(shared);
                    }
                    Message::Synced(id, done)
                });
            }
            (None, Some(summary)) => {
                here.summing = true;
                let broken = Message::Summed(id.clone());
                self.away(broken, move |shared| {
                    summary.leave(shared);
                    Message::Summed(id)
                });
            }
            (None, None) => {}
        }
    }

    pub(super) fn synced(&mut self, id: &SessionId, done: SyncDone) {
        let Some(here) = self.here(id) else { return };
        let result = here.file.finish_sync(done);
        let durable = here.file.durable();
        match &result {
            Ok(_) => self.moved.extend(durable.last().map(|seq| (id.clone(), seq))),
            Err(error) => {
                (here.summary, here.summed) = (None, 0); // who asked for one is refused
                let failed = sync_failed(error);
                let waiters = std::mem::take(&mut here.waiters);
                let told =
                    waiters.into_iter().map(|(ticket, _)| (ticket, JobResult::Kept(Err(failed.clone()))));
                self.finished.extend(told);
            }
        }
        self.go_on(id);
    }

    /// What comes next for a file whose work has ended. After a failed sync the next write, flush or close tries again.
    pub(super) fn go_on(&mut self, id: &SessionId) {
        // A flush that came during a sync has its summary still to be left.
        if self.here(id).is_some_and(|here| here.summary.is_some()) {
            self.sync(id);
        }
        let Some(here) = self.here(id).filter(|here| !here.is_at_work()) else { return };
        let durable = here.file.durable();
        let (told, wait) =
            std::mem::take(&mut here.waiters).into_iter().partition(|(_, until)| *until <= durable);
        here.waiters = wait;
        let told: Vec<(Ticket, Offset)> = told;
        // Whoever waits is answered before the file goes.
        let leaving = if here.waiters.is_empty() { here.leaving.take() } else { None };
        let waits = !here.waiters.is_empty();
        self.finished
            .extend(told.into_iter().map(|(ticket, _)| (ticket, JobResult::Kept(Ok(durable.last())))));
        match leaving {
            Some(Leaving::Release(ticket, session)) => self.release(ticket, session),
            Some(Leaving::Delete(ticket)) => self.delete(ticket, id.clone()),
            None if waits => self.sync(id),
            None => {}
        }
    }
}
