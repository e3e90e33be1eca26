//! The end of a turn: what it has committed goes to the store, and what was said of it goes out, waits or is refused.

use super::call::Held;
use super::panics::survives;
use super::pending::{Lines, Undo, Waiting};
use super::server::Server;
use super::write_set::{Touched, WriteOutcome, refuse_lines};
use crate::log::{Offset, SessionId};
use crate::protocol::{Code, WireError};
use crate::session::Session;
use crate::store::storage::{Append, Lease, Storage};
use crate::store::{Outcome, StorageError};

impl Server {
    /// Hands what this turn has committed to the store, before any of it is told.
    pub(super) fn write_out(&mut self) {
        let Some(service) = self.service.as_mut().filter(|service| !service.write_set.is_empty()) else {
            return;
        };
        let (touched, settling) = service.write_set.take();
        let mut outcomes = Vec::with_capacity(touched.len());
        for Touched { id, from } in &touched {
            outcomes.push(match service.store.session_mut(id.as_str()) {
                Ok(session) => match append(service.storage.as_mut(), session, *from) {
                    // Its answers go out behind those that were in flight.
                    WriteOutcome::Kept if self.queue.is_in_flight(id.as_str()) => {
                        WriteOutcome::Landed(session.next_seq())
                    }
                    outcome => outcome,
                },
                Err(_) => WriteOutcome::Kept,
            });
        }
        let Some(taken) = survives(|| settling.settle(&outcomes, &mut service.out)) else {
            return self.telling_broke(&touched, &settling);
        };
        for (Touched { id, from }, outcome) in touched.iter().zip(&outcomes) {
            if let WriteOutcome::Failed(_) = outcome
                && survives(|| service.retract(id, *from)).is_none()
            {
                service.lose(id);
            }
        }
        for (slot, (Touched { id, from }, outcome)) in touched.iter().zip(&outcomes).enumerate() {
            let lines = taken.waiting.get(slot);
            let begun = survives(|| match outcome {
                WriteOutcome::Unstored => self.create(id, *from, lines.cloned().unwrap_or_default()),
                WriteOutcome::Queued(to) => {
                    self.queue.take_off(id, *to, lines.cloned().unwrap_or_default());
                }
                WriteOutcome::Landed(to) => {
                    self.queue.take_off(id, *to, lines.cloned().unwrap_or_default());
                    self.acknowledged(id, *to);
                }
                WriteOutcome::Lost(error) => self.lease_lost(id, error.clone()),
                WriteOutcome::Kept | WriteOutcome::Failed(_) => {}
            });
            if begun.is_none() {
                self.beginning_broke(id, lines.map_or("", |lines| &lines.text));
            }
        }
        for (slot, lines) in taken.durable.into_list() {
            if let Some(Touched { id, .. }) = touched.get(slot) {
                self.sync(id, lines);
            }
        }
        if let Some(service) = self.service.as_mut() {
            service.write_set.reuse(touched, settling);
        }
    }

    /// Stores a session for the first time; what was said of it since `from` waits for that.
    fn create(&mut self, id: &SessionId, from: Offset, lines: Lines) {
        let Some(service) = self.service.as_mut() else { return };
        let Some(publication) = service.publication(id, None) else { return };
        let Held { request, settle, .. } = Held::create(id.clone(), publication);
        let (names, undo) = (vec![id.as_str().to_owned()], Undo::Retract(id.clone(), from));
        self.start(Waiting::Hold { lines, names, settle, undo }, request);
    }

    /// Lets answers wait until all that is written of a session is durable. Later requests of it need not wait.
    fn sync(&mut self, id: &SessionId, lines: String) {
        let Held { request, settle, .. } = Held::sync(id.clone());
        let (lines, names, undo) = (lines.into(), Vec::new(), Undo::Nothing);
        if survives(|| self.start(Waiting::Hold { lines, names, settle, undo }, request)).is_none() {
            self.beginning_broke(id, "");
        }
    }

    /// Queued appends of a session are stored up to there: what was said of them goes out.
    pub(super) fn acknowledged(&mut self, id: &SessionId, through: Offset) {
        for lines in self.queue.land(id, Some(through)) {
            if !self.guarded(|server| server.let_out_stored(id, &lines)) {
                self.answers_broke(&lines.text);
            }
        }
    }

    /// Lets lines out whose events are stored; answers that promise stable storage wait for that, too.
    fn let_out_stored(&mut self, id: &SessionId, lines: &Lines) {
        let Some(service) = self.service.as_mut() else { return };
        service.connection.fixed = true;
        let mut promised = String::new();
        lines.split(|part, durable| if durable { &mut promised } else { &mut service.out }.push_str(part));
        if !promised.is_empty() {
            self.sync(id, promised);
        }
    }

    /// Queued appends of a session were not stored from there on: they are refused, and all behind them.
    pub(super) fn append_failed(&mut self, id: &SessionId, from: Offset, error: StorageError) {
        self.acknowledged(id, from); // what does not rest on them
        let failed = self.queue.land(id, None);
        let outcome = error.outcome();
        let error: WireError = error.into();
        let told = self.guarded(|server| {
            let Some(service) = server.service.as_mut() else { return };
            for lines in &failed {
                match outcome {
                    Outcome::Committed => refuse_durable(lines, &error, &mut service.out),
                    Outcome::NotCommitted | Outcome::Unknown => {
                        refuse_lines(&lines.text, &error, &mut service.out);
                    }
                }
            }
        });
        if !told {
            failed.iter().for_each(|lines| self.answers_broke(&lines.text));
        }
        let Some(service) = self.service.as_mut() else { return };
        match outcome {
            Outcome::Committed => {}
            // Only the store knows what the log holds: it is read again.
            Outcome::Unknown => service.lose(id),
            Outcome::NotCommitted => {
                if survives(|| service.retract(id, from)).is_none() {
                    service.lose(id);
                }
            }
        }
    }

    /// Another daemon has taken a session over: what is in flight is refused, and the session is closed here.
    pub(super) fn lease_lost(&mut self, id: &SessionId, error: StorageError) {
        for lines in self.queue.land(id, None) {
            let refused = WireError::from(error.clone());
            if let Some(out) = self.output() {
                refuse_lines(&lines.text, &refused, out);
            }
        }
        let Some(service) = self.service.as_mut() else { return };
        if service.store.session(id.as_str()).is_ok() {
            service.lose(id);
            service.lost.insert(id.as_str().to_owned(), error);
        }
    }

    /// Lets lines go that have waited for their file: what was committed comes before how far it is
    /// durable, and that before the answers that promise it.
    pub(super) fn let_out(&mut self, lines: &Lines) {
        let split = lines.durable.first().map_or(lines.text.len(), |answer| answer.start);
        if let Some(service) = self.service.as_mut() {
            service.connection.fixed = true;
        }
        let (told, promised) = lines.text.split_at_checked(split).unwrap_or((&lines.text, ""));
        if let Some(out) = self.output() {
            out.push_str(told);
        }
        if promised.is_empty() {
            return;
        }
        self.tell_durable();
        if let Some(out) = self.output() {
            out.push_str(promised);
        }
    }
}

/// Hands one session's events to the store. A bug on the way is that session's alone: its appends are taken back.
fn append(storage: &mut dyn Storage, session: &mut Session, from: Offset) -> WriteOutcome {
    let (to, Some(epoch)) = (session.next_seq(), session.epoch()) else { return WriteOutcome::Unstored };
    let (session, mut log) = session.outgoing();
    match survives(|| storage.append(Lease { session, epoch }, &mut log, from, to)) {
        Some(Append::Written) => WriteOutcome::Kept,
        Some(Append::Queued) => WriteOutcome::Queued(to),
        Some(Append::Refused(error @ StorageError::LeaseLost { .. })) => WriteOutcome::Lost(error),
        Some(Append::Refused(error)) => WriteOutcome::Failed(error.into()),
        None => {
            tracing::error!("writing a session's log met a bug; its appends were answered INTERNAL");
            let bug = "a bug in sessiond while it wrote the log; nothing was committed, report this";
            WriteOutcome::Failed(WireError::new(Code::Internal, bug))
        }
    }
}

/// Lets lines out of events that are committed though not durable.
pub(super) fn refuse_durable(lines: &Lines, error: &WireError, out: &mut String) {
    lines.split(|part, durable| match durable {
        true => refuse_lines(part, error, out),
        false => out.push_str(part),
    });
}
