//! Group commit: what was written of a session becomes durable together, and who waits for it is told.

use super::failures::sync_failed;
use super::live::Leaving;
use super::storage::{JsonlStorage, Message};
use crate::disk::live::write::{SyncDone, SyncJob};
use crate::log::SessionId;
use crate::store::storage::{JobResult, Ticket};

impl JsonlStorage {
    /// Lets written events wait for others of the session before they are made durable together.
    pub(super) fn sync_later(&mut self, id: &SessionId) {
        if self.window.is_zero() {
            return self.sync(id);
        }
        let Some(here) = self.here(id).filter(|here| !here.windowed) else { return };
        here.windowed = true;
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
        let Some(here) = self.here(id).filter(|here| !here.file.is_syncing()) else { return };
        let promised = !here.waiters.is_empty();
        // Where nothing begins, the next write brings what it needs.
        let Some((job, tail)) = here.file.start_sync(promised) else { return };
        here.promised = here.waiters.len();
        let size = here.file.len();
        let summary = here.summary.take().filter(|summary| summary.size() == size);
        if summary.is_some() {
            here.summed = size;
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
        let Some(here) = self.here(id) else { return };
        let before = here.file.durable();
        let result = here.file.finish_sync(done);
        let durable = here.file.durable();
        // Who came while it ran may have seen the file change since: that is for the next one to say.
        let told: Vec<(Ticket, JobResult)> = match &result {
            Ok(_) => {
                let waiters = here.waiters.drain(..here.promised);
                waiters.map(|ticket| (ticket, JobResult::Kept(Ok(durable.last())))).collect()
            }
            Err(error) => {
                (here.summary, here.summed) = (None, 0); // who asked for one is refused
                let failed = sync_failed(error);
                let waiters = here.waiters.drain(..);
                waiters.map(|ticket| (ticket, JobResult::Kept(Err(failed.clone())))).collect()
            }
        };
        here.promised = 0;
        if durable > before {
            self.moved.extend(durable.last().map(|seq| (id.clone(), seq)));
        }
        self.finished.extend(told);
        self.go_on(id);
    }

    /// What comes next for a file whose work has ended. After a failed sync the next write, flush or close tries again.
    fn go_on(&mut self, id: &SessionId) {
        let Some(here) = self.here(id) else { return };
        if !here.waiters.is_empty() {
            return self.sync(id); // whoever waits is answered before the file goes
        }
        match here.leaving.take() {
            Some(Leaving::Release(ticket, session)) => self.release(ticket, session),
            Some(Leaving::Delete(ticket)) => self.delete(ticket, id.clone()),
            Some(Leaving::Rescue(ticket, publication, other)) => self.rescue(ticket, publication, other),
            None => {}
        }
    }
}
