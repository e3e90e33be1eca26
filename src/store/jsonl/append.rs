//! Appends: written at once, or behind the mending of the file, which other threads do.

use super::failures::write_failed;
use super::keep;
use super::live::{Behind, Live, Open};
use super::storage::{JsonlStorage, Message};
use crate::disk::live::session_file::SessionFile;
use crate::log::{Offset, SessionId};
use crate::session::Outgoing;
use crate::store::storage::{Append, Event, Lease};
use crate::store::{Outcome, StorageError};

/// How a file comes back from being mended.
pub(super) struct Mended {
    pub(super) id: SessionId,
    /// None where a bug has given it up.
    pub(super) file: Option<Box<SessionFile>>,
    /// What was appended: from there,
    pub(super) from: Offset,
    /// to there.
    pub(super) through: Offset,
    pub(super) result: Result<(), StorageError>,
}

impl JsonlStorage {
    /// Writes what a session has appended.
    pub(super) fn append_to(
        &mut self,
        Lease { session: id, .. }: Lease<'_>,
        log: &mut Outgoing<'_>,
        from: Offset,
    ) -> Append {
        match self.live.get_mut(id) {
            Some(Live::Open(open)) => {
                if let Some(error) = &open.failed {
                    return Append::Refused(StorageError::clone(error));
                }
                if open.file.needs_mending() {
                    return self.mend(id, log, from);
                }
                match open.file.write(log.log()) {
                    Ok(()) => {
                        self.sync_later(id);
                        Append::Written
                    }
                    Err(error) => Append::Refused(write_failed(&error)),
                }
            }
            Some(Live::Mending(behind)) => {
                behind.log = Some(log.share());
                Append::Queued
            }
            Some(Live::Poisoned | Live::Busy) | None => Append::Refused(StorageError::Bug),
        }
    }

    /// Mends a file off the owner thread, and writes what was appended behind it.
    fn mend(&mut self, id: &SessionId, log: &mut Outgoing<'_>, from: Offset) -> Append {
        let Some(open) = self.take(id, Live::Mending(Box::default())) else {
            return Append::Refused(StorageError::Bug);
        };
        let (log, through) = (log.share(), log.log().len());
        let mended = {
            let id = id.clone();
            move |file, result| Message::Mended(Box::new(Mended { id, file, from, through, result }))
        };
        self.away(mended.clone()(None, Err(StorageError::Bug)), move |_| {
            let (file, result) = keep::mend(open.file, &log);
            mended(Some(Box::new(file)), result.map(drop))
        });
        Append::Queued
    }

    /// A file was mended: says what became of the appends, and does what has come meanwhile.
    pub(super) fn mended(&mut self, Mended { id, file, from, through, result }: Mended) {
        // It was discarded meanwhile.
        if !matches!(self.live.get(&id), Some(Live::Mending(_))) {
            return;
        }
        let live = file.map_or(Live::Poisoned, |file| Live::Open(Open::new(*file)));
        let Some(Live::Mending(behind)) = self.live.insert(id.clone(), live) else { return };
        let Behind { log, flushes, close } = *behind;
        match &result {
            Ok(()) => self.events.push_back(Event::Acknowledged { session: id.clone(), through }),
            Err(error) => self.append_failed(&id, from, error.clone()),
        }
        let is_kept = result.as_ref().err().is_none_or(|error| error.outcome() == Outcome::Committed);
        if let Some(open) = self.open(&id)
            && is_kept
        {
            let durable = open.file.durable().last();
            let written = log.map(|log| (open.file.write(&log), log.len()));
            self.moved(&id, durable.filter(|_| result.is_ok()));
            match written {
                None => {}
                Some((Ok(()), through)) => {
                    self.events.push_back(Event::Acknowledged { session: id.clone(), through });
                    self.sync_later(&id);
                }
                Some((Err(error), _)) => self.append_failed(&id, through, write_failed(&error)),
            }
        }
        for (ticket, facts, reply) in flushes {
            match &result {
                Ok(()) => self.flush(ticket, &id, facts, reply),
                Err(error) => {
                    reply.keep(Err(error.clone()));
                    self.done(ticket);
                }
            }
        }
        if let Some(close) = close {
            self.close_at_last(&id, close);
        }
    }

    /// Until this was polled, nothing is written behind what has failed.
    fn append_failed(&mut self, id: &SessionId, from: Offset, error: StorageError) {
        if let Some(open) = self.open(id) {
            open.failed = Some(Box::new(error.clone()));
        }
        self.events.push_back(Event::AppendFailed { session: id.clone(), from, error });
    }

    /// The next event; of a failed append it is known from now on.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::AppendFailed { session, .. } = &event
            && let Some(open) = self.open(session)
        {
            open.failed = None;
        }
        Some(event)
    }
}
