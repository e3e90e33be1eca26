//! What a server does between two lines: what the store says, turns to write, histories to stream, the end.

use super::call::Settle;
use super::panics::survives;
use super::pending::{Lines, Undo, Waiting};
use super::server::{Origin, Server};
use super::service::{Service, notify};
use super::write_out::refuse_durable;
use super::write_set::refuse_lines;
use crate::json::quote;
use crate::log::{Seq, SessionId};
use crate::protocol::Notice;
use crate::protocol::WireError;
use crate::session::{Context, Session};
use crate::store::storage::{Connection, Event, Released, Request, Rescued, Ticket, promise};
use crate::store::{Outcome, StorageError};

/// So much output is made of requests that have waited before the caller is asked to take it.
const PORTION: usize = 1 << 20;

impl Server {
    /// Streams a portion of a history; the load is answered after its last one.
    pub(super) fn stream(&mut self) {
        let told = self.guarded(|server| {
            let Some(service) = server.service.as_mut() else { return };
            if let Some((ticket, told)) = server.streams.portion(&mut service.out) {
                service.connection.fixed = true; // its load is answered
                service.out.push_str(&told.lines);
                server.queue.done(ticket);
            }
        });
        if !told {
            self.stream_broke();
        }
    }

    /// The last act: every live session is let go of, flushed and unlocked. Nothing is announced: the
    /// connection ends with the sessions. Histories that are still being streamed are given up.
    pub fn shut_down(&mut self) {
        for ticket in self.streams.give_up() {
            self.queue.done(ticket);
        }
        let Some(service) = self.service.as_mut() else { return };
        self.ending = true;
        service.connection.silence();
        let ids: Vec<SessionId> = service.store.sessions().map(|session| session.id().clone()).collect();
        for id in ids {
            // One that meets a bug keeps no other from being stored whole.
            self.unsaved |= !self.guarded(|server| server.close_unasked(&id, true));
        }
        self.settle();
    }

    /// Whether the last act could not store all that was answered.
    pub fn is_unsaved(&self) -> bool {
        self.unsaved
    }

    /// A session that nobody asked to close was given up. At the end, one whose log another program took is stored anew
    /// (PROTOCOL 3.1, Rescue).
    fn released(&mut self, names: &[String], released: Result<Released, StorageError>) {
        match released {
            Ok(Released::Whole) => {}
            Ok(Released::Short { session, error }) if self.ending && error.is_taken() => {
                self.rescue_at_end(session, None);
            }
            Ok(Released::Short { error, .. }) | Err(error) => {
                self.report_unsaved(&names.join(", "), &error.into())
            }
        }
    }

    /// Says which session is not stored with all that was answered, and why.
    fn report_unsaved(&mut self, id: &str, why: &WireError) {
        let id: String = id.chars().flat_map(char::escape_debug).collect();
        tracing::error!("session {id} is not stored whole: {}", why.message());
        self.unsaved = true;
    }

    fn rescue_at_end(&mut self, mut session: Box<Session>, other: Option<SessionId>) {
        let publication = Box::new(session.as_mut().into());
        let (promise, reply) = promise();
        self.start(Waiting::Rescue(session, reply), Request::Rescue { publication, other, reply: promise });
    }

    fn rescued_at_end(&mut self, session: Box<Session>, result: Result<Rescued, StorageError>) {
        let Some(service) = self.service.as_mut() else { return };
        match result {
            Ok(Rescued::Renamed(id, _)) => service.storage.discard(&id),
            Ok(_) => service.storage.discard(session.id()),
            Err(StorageError::Exists { .. }) => {
                let context = &mut Context::at(0, &mut service.settings.ids);
                match service.store.mint(context) {
                    Ok(other) => self.rescue_at_end(session, Some(other)),
                    Err(refusal) => self.report_unsaved(session.id().as_str(), &refusal.into()),
                }
            }
            Err(error) => self.report_unsaved(session.id().as_str(), &error.into()),
        }
    }

    /// Closes a session for which no request asks.
    pub(super) fn close_unasked(&mut self, id: &SessionId, announced: bool) {
        let Some(service) = self.service.as_mut() else { return };
        let session = if announced { service.dispose(id.as_str()) } else { service.evict(id.as_str()) };
        if let Ok(session) = session
            && !session.is_ephemeral()
        {
            let names = vec![id.as_str().to_owned()];
            let (promise, reply) = promise();
            self.start(Waiting::Release { names, reply }, Request::Release { session, reply: promise });
        }
    }

    /// Ends a turn: writes what requests have committed, and carries out what the store's answers allow.
    pub fn settle(&mut self) {
        self.write_out();
        self.work();
        self.forget_time();
    }

    /// Carries out what the store's answers allow.
    pub(super) fn work(&mut self) {
        if let Some(way) = self.service.as_mut().and_then(|service| service.outlet.as_mut()) {
            way.gone = 0;
        }
        if self.has_settled() {
            return; // as mostly, where each request waits for the last answer
        }
        loop {
            self.tell_durable();
            if let Some(event) = self.next_event() {
                self.hear(event);
            } else if let Some(line) = if self.has_room() { self.queue.next_free() } else { None } {
                self.take(&line, Origin::Behind);
            } else if self.service.as_ref().is_some_and(|service| !service.write_set.is_empty()) {
                self.write_out();
            } else {
                break;
            }
        }
    }

    /// Whether nothing is to be written, told or carried out. Storage hears its news here.
    fn has_settled(&mut self) -> bool {
        let is_written = self.service.as_mut().is_some_and(|service| {
            let has_events = survives(|| service.storage.has_events()).unwrap_or(true);
            !has_events && service.write_set.is_empty()
        });
        is_written && self.queue.is_told() && self.is_idle()
    }

    /// Whether one more request that has waited may be carried out before the caller takes the output.
    fn has_room(&self) -> bool {
        let Some(service) = &self.service else { return false };
        let made = service.out.len() + service.outlet.as_ref().map_or(0, |way| way.gone);
        !self.held && made < PORTION
    }

    /// Tells the client how far storage has become durable, before the answers that promise it; of a
    /// session that it does not know yet, after the answer that makes it known.
    ///
    /// What a bug on the way leaves untold, the next move of that session tells with it.
    pub(super) fn tell_durable(&mut self) {
        let mark = self.output().map_or(0, |out| out.len());
        if survives(|| self.tell_moves()).is_none()
            && let Some(out) = self.output()
        {
            out.truncate(mark);
        }
    }

    fn tell_moves(&mut self) {
        let Some(service) = self.service.as_mut() else { return };
        while let Some((id, seq)) = self.queue.next_durable() {
            service.durable(&id, seq);
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        let service = self.service.as_mut()?;
        if survives(|| service.storage.has_events()) == Some(false) {
            return None;
        }
        self.write_out(); // what an event takes back takes all behind it along
        let service = self.service.as_mut()?;
        survives(|| service.storage.poll()).flatten()
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Done(ticket) => self.done(ticket),
            Event::Durable { session, through } => self.queue.note_durable(session, through),
            Event::Acknowledged { session, through } => self.acknowledged(&session, through),
            Event::AppendFailed { session, from, error } => self.append_failed(&session, from, error),
            Event::LeaseLost { session, by } => {
                let error = StorageError::LeaseLost { id: session.clone(), by };
                self.lease_lost(&session, error);
            }
            Event::Connection(Connection::Lost) => {
                tracing::warn!("the connection to the store is lost; what needs it waits or fails");
            }
            Event::Connection(Connection::Restored) => {
                tracing::warn!("the connection to the store is there again");
            }
        }
    }

    /// Goes on with what has waited for a request to the store.
    fn done(&mut self, ticket: Ticket) {
        match self.queue.done(ticket) {
            Some(Waiting::Call { caller, then, opens, .. }) => self.go_on(&caller, then, opens),
            Some(Waiting::Hold { lines, settle, undo, .. }) => {
                if !self.guarded(|server| server.end_hold(&lines, undo, settle)) {
                    self.answers_broke(&lines.text);
                }
            }
            Some(Waiting::Release { names, reply }) => {
                self.unsaved |= !self.guarded(|server| server.released(&names, reply.take()));
            }
            Some(Waiting::Rescue(session, reply)) => {
                self.unsaved |= !self.guarded(|server| server.rescued_at_end(session, reply.take()));
            }
            // What nobody wants must not keep its session.
            Some(Waiting::Nobody { opens: Some(id), .. }) => {
                if let Some(service) = self.service.as_mut() {
                    survives(|| service.storage.discard(&id));
                }
            }
            Some(Waiting::Nobody { opens: None, .. } | Waiting::Told { .. }) | None => {}
        }
    }

    /// Lets lines go that have waited for a request, or refuses what they answer.
    fn end_hold(&mut self, lines: &Lines, undo: Undo, settle: Settle) {
        let Some(service) = self.service.as_mut() else { return };
        let Err(error) = settle(service) else { return self.let_out(lines) };
        let error = match undo {
            Undo::Close(_) => error,
            Undo::Nothing | Undo::Retract(..) => error.of_live(),
        };
        match undo {
            // Only answers that promise stable storage are refused.
            Undo::Retract(..) if error.outcome() == Outcome::Committed => {
                return refuse_durable(lines, &error.into(), &mut service.out);
            }
            Undo::Nothing => {}
            Undo::Close(id) => {
                drop(service.evict(id.as_str()));
                service.storage.discard(&id); // what has a file all the same can be loaded
            }
            Undo::Retract(id, from) => service.retract(&id, from),
        }
        refuse_lines(&lines.text, &error.into(), &mut service.out);
    }
}

impl Service {
    /// Says how far a session is durable.
    pub(super) fn durable(&mut self, id: &SessionId, seq: Seq) {
        if self.connection.wants(Notice::Durable) {
            let params = format!("{{\"sessionId\":{},\"durableSeq\":{seq}}}", quote(id.as_str()));
            notify(&mut self.out, self.connection.prefix, Notice::Durable.method(), &params);
        }
    }
}
