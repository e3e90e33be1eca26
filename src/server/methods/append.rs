//! `session/append`, `session/append_batch`, `session/interrupt`.

use serde::Serialize;

use crate::json::{Scratch, escape_separators, quote_into};
use crate::log::{Event, Offset, Seq};
use crate::protocol::params::{AppendBatchParams, AppendParams, InterruptParams};
use crate::protocol::results::{Appended, AppendedBatch, Interrupted};
use crate::protocol::{Code, Notice, WireError};
use crate::server::call::{Absent, AfterCall, Answer, CallError};
use crate::server::clock::Clock;
use crate::server::envelope::{Request, Scanned};
use crate::server::response::write_error;
use crate::server::service::{Service, WireLimits, announce, bad_param};
use crate::server::tape_reader::{read_append, read_batch};
use crate::session;
use crate::session::{Append, Candidate, Context, Interrupt, Limits, Refusal};

/// Answers an append, or a batch of them, without the detour through the method table; false: it must
/// take the detour. The answer's bytes are the table's own (`tests/server/direct_path.rs` holds them to that).
pub(in crate::server) fn append_direct(service: &mut Service, request: &Request<'_>) -> bool {
    if is_batch(request) { one_batch(service, request) } else { one_event(service, request) }
}

fn is_batch(request: &Request<'_>) -> bool {
    request.method.text().ends_with("_batch\"")
}

fn one_event(service: &mut Service, request: &Request<'_>) -> bool {
    match read_append(request.scanned(), service.settings.limits.max_depth) {
        Ok((asked, candidate)) if !asked.durable => {
            commit_directly(service, Id::Any(request.id), asked.place(), &candidate)
        }
        _ => false,
    }
}

fn one_batch(service: &mut Service, request: &Request<'_>) -> bool {
    let Limits { max_depth, max_batch_events, .. } = service.settings.limits;
    match read_batch(request.scanned(), max_depth, max_batch_events) {
        Ok((asked, batch)) if !asked.durable => {
            let answer = |out: &mut String, done: &session::AppendBatch| {
                let mut number = itoa::Buffer::new();
                begin_result(out, Id::Any(request.id));
                out.push_str("\"firstSeq\":");
                out.push_str(number.format(done.first.get()));
                out.push_str(",\"count\":");
                out.push_str(number.format(done.count));
                out.push_str(",\"time\":");
                out.push_str(number.format(done.time));
                end_result(out, done.duplicate());
            };
            let done = service.commit_batch(asked.place(), &batch, answer);
            answered_directly(service, request.id, asked.place().session, done)
        }
        _ => false,
    }
}

/// The same of an append that is spelt as most are.
#[inline(always)] // one place uses it, and has made the candidate
pub(in crate::server) fn append_usual(
    service: &mut Service,
    id: &str,
    place: Append<'_>,
    candidate: &Candidate<'_>,
) -> bool {
    commit_directly(service, Id::Plain(id), place, candidate)
}

/// A request's id, a JSON text.
#[derive(Clone, Copy)]
enum Id<'a> {
    /// ASCII.
    Plain(&'a str),
    /// It may hold what stands as an escape in the answer.
    Any(&'a str),
}

impl<'a> Id<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Plain(text) | Self::Any(text) => text,
        }
    }
}

/// Why an append has no result.
enum Uncommitted {
    /// It does not fit.
    Refused(Refusal),
    /// Its session or instance is not live.
    Absent(Refusal),
    /// Its event had been there before, and its log is not what it was.
    Lost(WireError),
}

impl Uncommitted {
    /// A refusal. The clock moves once for each append, and not for one to a session that is not live.
    #[cold]
    fn of(refusal: Refusal, clock: &mut Clock) -> Self {
        match refusal {
            Refusal::NotFound(_) | Refusal::NotLive { .. } => {
                clock.unread();
                Self::Absent(refusal)
            }
            refusal => Self::Refused(refusal),
        }
    }
}

#[inline(always)]
fn commit_directly(service: &mut Service, id: Id<'_>, place: Append<'_>, candidate: &Candidate<'_>) -> bool {
    let answer = |out: &mut String, appended: &session::Appended, at: &str| {
        begin_result(out, id);
        out.push_str(at);
        if let Some(id) = &appended.message_id {
            out.push_str(",\"messageId\":");
            quote_into(id, out);
        }
        end_result(out, appended.duplicate);
    };
    let done = service.commit_one(place, candidate, answer);
    answered_directly(service, id.text(), place.session, done)
}

/// Writes the error of what was not committed; false for a session that is not live, of which the table knows more.
#[inline(always)]
fn answered_directly<T>(
    service: &mut Service,
    id: &str,
    session: &str,
    done: Result<T, Uncommitted>,
) -> bool {
    match done {
        Ok(_) => true,
        Err(Uncommitted::Absent(_)) => false,
        Err(Uncommitted::Refused(refusal)) => refused_directly(service, id, session, &refusal.into()),
        Err(Uncommitted::Lost(error)) => refused_directly(service, id, session, &error),
    }
}

/// Of a session that this turn has touched, what was said stands or falls with the write: it may tell of events that are
/// then taken back.
#[cold]
fn refused_directly(service: &mut Service, id: &str, session: &str, error: &WireError) -> bool {
    let start = service.out.len();
    write_error(&mut service.out, id, error);
    if let Some(slot) = service.write_set.slot_of(session) {
        service.write_set.answered(slot, start, service.out.len(), false);
    }
    true
}

#[inline]
fn begin_result(out: &mut String, id: Id<'_>) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    match id {
        Id::Plain(id) => out.push_str(id),
        Id::Any(id) => escape_separators(id, out),
    }
    out.push_str(",\"result\":{");
}

fn end_result(out: &mut String, duplicate: bool) {
    if duplicate {
        out.push_str(",\"duplicate\":true");
    }
    out.push_str("}}\n");
}

/// The text of params that the table has read, for the one reader of appends.
fn text_of(params: &impl Serialize) -> Result<String, WireError> {
    serde_json::to_string(params).map_err(|error| WireError::new(Code::Internal, error.to_string()))
}

fn scan<'a>(text: &'a str, scratch: &'a mut Scratch) -> Result<Scanned<'a>, WireError> {
    let (value, checks) =
        scratch.scan(text).map_err(|error| WireError::new(Code::Internal, error.to_string()))?;
    Ok(Scanned::alone(value, checks))
}

impl Service {
    pub(super) fn append(&mut self, params: AppendParams) -> Answer<Appended> {
        let (text, mut scratch) = (text_of(&params)?, Scratch::default());
        let (asked, candidate) = read_append(scan(&text, &mut scratch)?, self.settings.limits.max_depth)
            .map_err(WireError::from)?;
        self.check_durable(&params.session_id, asked.durable)?;
        let (appended, slot) = self
            .commit_one(asked.place(), &candidate, |_, _, _| {})
            .map_err(|error| self.uncommitted(&params.session_id, error))?;
        self.answer_with(slot, asked.durable);
        let session::Appended { seq, time, message_id, duplicate } = appended;
        Ok(Appended { seq: seq.get(), time, message_id, duplicate })
    }

    /// Commits and announces one event; gives the slot of this turn too. `answer` may add to the output what stands
    /// or falls with it, and has the event's [`Event::place`] for that.
    fn commit_one(
        &mut self,
        place: Append<'_>,
        candidate: &Candidate<'_>,
        answer: impl FnOnce(&mut String, &session::Appended, &str),
    ) -> Result<(session::Appended, Option<usize>), Uncommitted> {
        let context = &mut Context::at(self.append_time(), &mut self.settings.ids);
        let (appended, session) = self
            .store
            .append(place, candidate, context)
            .map_err(|refusal| Uncommitted::of(refusal, &mut self.settings.clock))?;
        let log = session.history().log();
        let event = if appended.duplicate { log.get(appended.seq) } else { log.last() };
        let start = self.out.len();
        let slot = if appended.duplicate {
            // Of an event of this very turn, perhaps: then the answer stands or falls with its write.
            let slot = self.write_set.slot_of(place.session);
            if slot.is_none() {
                self.storage.check(session.id()).map_err(|error| Uncommitted::Lost(error.into()))?;
            }
            slot
        } else {
            let from = appended.seq.before();
            let slot = (self.durable_store && !session.is_ephemeral())
                .then(|| self.write_set.touch(session.id(), from));
            if let Some(event) = event.filter(|_| self.connection.wants(Notice::Event)) {
                announce(&mut self.out, self.connection.prefix, session, event);
            }
            self.followers.told(&self.connection, &self.settings.wire, session, from, &mut self.out);
            slot
        };
        answer(&mut self.out, &appended, event.map_or("", Event::place));
        if let Some(slot) = slot {
            self.write_set.answered(slot, start, self.out.len(), false);
        }
        Ok((appended, slot))
    }

    pub(super) fn append_batch(&mut self, params: AppendBatchParams) -> Answer<AppendedBatch> {
        let max = self.settings.limits.max_batch_events;
        if params.events.len() > max {
            return Err(Refusal::limit("maxBatchEvents", max as u64).into());
        }
        let durable = params.durable == Some(true);
        self.check_durable(&params.session_id, durable)?;
        let (text, mut scratch) = (text_of(&params)?, Scratch::default());
        let max_depth = self.settings.limits.max_depth;
        let (asked, batch) =
            read_batch(scan(&text, &mut scratch)?, max_depth, max).map_err(WireError::from)?;
        let (done, slot) = self
            .commit_batch(asked.place(), &batch, |_, _| {})
            .map_err(|error| self.uncommitted(&params.session_id, error))?;
        self.answer_with(slot, durable);
        let duplicate = done.duplicate();
        Ok(AppendedBatch { first_seq: done.first.get(), count: done.count, time: done.time, duplicate })
    }

    /// Commits and announces a batch, as [`Self::commit_one`] does an event.
    fn commit_batch(
        &mut self,
        place: Append<'_>,
        batch: &[Candidate<'_>],
        answer: impl FnOnce(&mut String, &session::AppendBatch),
    ) -> Result<(session::AppendBatch, Option<usize>), Uncommitted> {
        let context = &mut Context::at(self.append_time(), &mut self.settings.ids);
        let done = self
            .store
            .append_batch(place, batch, context)
            .map_err(|refusal| Uncommitted::of(refusal, &mut self.settings.clock))?;
        let slot = self.batch_slot(place.session, &done).map_err(Uncommitted::Lost)?;
        let start = self.out.len();
        answer(&mut self.out, &done);
        if let Some(slot) = slot.filter(|_| start < self.out.len()) {
            self.write_set.answered(slot, start, self.out.len(), false);
        }
        Ok((done, slot))
    }

    /// Announces a batch; the slot of this turn with which its answer stands or falls. One that had been there before
    /// is promised again.
    fn batch_slot(&mut self, id: &str, done: &session::AppendBatch) -> Result<Option<usize>, WireError> {
        if !done.duplicate() {
            return Ok(self.committed(id, done.committed, done.first.plus(done.count)));
        }
        // Of events of this very turn, perhaps.
        let slot = self.write_set.slot_of(id);
        if let (None, Ok(session)) = (slot, self.store.session(id)) {
            self.storage.check(session.id())?;
        }
        Ok(slot)
    }

    pub(super) fn interrupt(&mut self, params: InterruptParams) -> Answer<Interrupted> {
        self.check_live(&params.session_id, params.instance_id.as_deref())?;
        let interrupt = Interrupt { session: &params.session_id, instance: params.instance_id.as_deref() };
        let context = &mut Context::at(self.settings.clock.now(), &mut self.settings.ids);
        let session::Interrupted { first, count } = self.store.interrupt(interrupt, context)?;
        self.check_lines(&params.session_id, first)?;
        let slot = self.committed(&params.session_id, first, first.plus(count));
        self.answer_with(slot, false);
        Ok(Interrupted { first_seq: first.get(), count })
    }

    /// Takes closers back that no line could announce: `maxEventBytes`, which keeps room in a line, is not for them.
    fn check_lines(&mut self, id: &str, from: Offset) -> Result<(), Refusal> {
        let max = self.settings.wire.max_message_bytes;
        let room = max.saturating_sub(WireLimits::ROOM);
        let session = self.store.session_mut(id)?;
        let log = session.history().log();
        if log.range(from, log.len()).any(|event| event.line().len() > room) {
            session.retract(from);
            return Err(Refusal::limit("maxMessageBytes", max as u64));
        }
        Ok(())
    }

    /// A session and instance that are live.
    pub(super) fn check_live(&self, id: &str, instance: Option<&str>) -> Result<&session::Session, Absent> {
        self.store.instance(id, instance).map_err(|refusal| self.absent(id, refusal))
    }

    fn absent(&self, id: &str, refusal: Refusal) -> Absent {
        match self.lost.get(id) {
            Some(error) => Absent::Lost(error.clone()),
            None => Absent::Refused(refusal),
        }
    }

    fn uncommitted<T>(&mut self, id: &str, error: Uncommitted) -> CallError<T> {
        self.call.slot = self.write_set.slot_of(id);
        match error {
            Uncommitted::Absent(refusal) => self.absent(id, refusal).into(),
            Uncommitted::Refused(refusal) => refusal.into(),
            Uncommitted::Lost(error) => error.into(),
        }
    }

    /// `durable: true` needs stable storage.
    fn check_durable(&self, id: &str, durable: bool) -> Result<(), WireError> {
        if !durable {
            return Ok(());
        }
        let ephemeral = self.store.session(id).is_ok_and(session::Session::is_ephemeral);
        if ephemeral || !self.durable_store {
            return Err(bad_param(
                "durable",
                "nothing makes this session durable: it is ephemeral or the store is memory:; leave durable out",
            ));
        }
        Ok(())
    }

    /// The response stands or falls with a slot of this turn; a durable one waits for stable storage,
    /// also when its events had been there before.
    fn answer_with(&mut self, slot: Option<usize>, durable: bool) {
        self.call.slot = slot;
        if durable {
            self.call.next = AfterCall::Durable;
        }
    }
}

/// The last event, as results show it.
pub(super) fn seq_number(seq: Option<Seq>) -> Option<u64> {
    seq.map(Seq::get)
}
