//! `session/append`, `session/append_batch`, `session/interrupt`.

use crate::json::{Checks, Fields, Json, JsonStr, Type, escape_separators, quote_into};
use crate::log::{Event, Offset, Seq};
use crate::protocol::Notice;
use crate::protocol::RawJson;
use crate::protocol::WireError;
use crate::protocol::params::{AppendBatchParams, AppendParams, InterruptParams};
use crate::protocol::results::{Appended, AppendedBatch, Interrupted};
use crate::server::call::{Absent, AfterCall, Answer, CallError};
use crate::server::envelope::Request;
use crate::server::response::write_error;
use crate::server::service::{Service, WireLimits, announce, bad_param};
use crate::session;
use crate::session::{Append, Candidate, Context, Expect, Interrupt, Limits, Refusal};

/// Answers an append, or a batch of them, without the detour through the method table; false: it must
/// take the detour. The answer's bytes are the table's own (`tests/server/direct_path.rs` holds them to that).
pub(in crate::server) fn append_direct(service: &mut Service, request: &Request<'_>) -> bool {
    if is_batch(request) {
        one_batch(service, request).is_some()
    } else {
        one_event(service, request).is_some()
    }
}

fn is_batch(request: &Request<'_>) -> bool {
    request.method.text().ends_with("_batch\"")
}

fn one_event(service: &mut Service, request: &Request<'_>) -> Option<()> {
    let Fields { found, others: false } = request.params.all_fields(&APPEND) else { return None };
    let [session, kind, data, surface_op, sources, ignorable, seq, instance, durable, _meta] = found;
    let place = direct_place(session?, seq, instance, durable)?;
    // Of a batch's event `null` is a value; here it is as good as absent.
    let kind = kind?.as_str()?;
    let event = (data?, surface_op, sources, given(ignorable));
    let candidate = direct_candidate(request, kind, event, service.settings.limits.max_depth);
    commit_directly(service, Id::Any(request.id), place, &candidate)
}

/// The same of an append that is spelt as most are.
#[inline(always)] // one place uses it, and has made the candidate
pub(in crate::server) fn append_usual(
    service: &mut Service,
    id: &str,
    place: Append<'_>,
    candidate: &Candidate<'_>,
) -> bool {
    commit_directly(service, Id::Plain(id), place, candidate).is_some()
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
    /// Its event had been there before, and its log is not what it was.
    Lost(WireError),
}

#[inline(always)]
fn commit_directly(
    service: &mut Service,
    id: Id<'_>,
    place: Append<'_>,
    candidate: &Candidate<'_>,
) -> Option<()> {
    let answer = |out: &mut String, appended: &session::Appended, at: &str| {
        begin_result(out, id);
        out.push_str(at);
        if let Some(id) = &appended.message_id {
            out.push_str(",\"messageId\":");
            quote_into(id, out);
        }
        end_result(out, appended.duplicate);
    };
    match service.commit_one(place, candidate, answer) {
        Ok(_) => Some(()),
        Err(Uncommitted::Refused(refusal)) => refused_directly(service, id.text(), refusal),
        Err(Uncommitted::Lost(error)) => {
            write_error(&mut service.out, id.text(), &error);
            Some(())
        }
    }
}

fn one_batch(service: &mut Service, request: &Request<'_>) -> Option<()> {
    let Limits { max_depth, max_batch_events, .. } = service.settings.limits;
    let Fields { found, others: false } = request.params.all_fields(&BATCH) else { return None };
    let [session, events, seq, instance, durable, _meta] = found;
    let place = direct_place(session?, seq, instance, durable)?;
    let events = events.filter(|events| events.kind() == Type::Array)?;
    let mut batch = Vec::new();
    for event in events.elements() {
        if batch.len() == max_batch_events || event.kind() != Type::Object {
            return None;
        }
        let [kind, data, surface_op, sources, ignorable] = event_members(event)?;
        let kind = kind?.as_str()?;
        batch.push(direct_candidate(request, kind, (data?, surface_op, sources, ignorable), max_depth));
    }
    let context = &mut Context::at(service.append_time(), &mut service.settings.ids);
    let done = match service.store.append_batch(place, &batch, context) {
        Ok(done) => done,
        Err(refusal) => return refused_directly(service, request.id, refusal),
    };
    let slot = match service.batch_slot(place.session, &done) {
        Ok(slot) => slot,
        Err(error) => {
            write_error(&mut service.out, request.id, &error);
            return Some(());
        }
    };
    let mut number = itoa::Buffer::new();
    let start = service.out.len();
    let out = &mut service.out;
    begin_result(out, Id::Any(request.id));
    out.push_str("\"firstSeq\":");
    out.push_str(number.format(done.first.get()));
    out.push_str(",\"count\":");
    out.push_str(number.format(done.count));
    out.push_str(",\"time\":");
    out.push_str(number.format(done.time));
    end_result(out, done.duplicate());
    if let Some(slot) = slot {
        service.write_set.answered(slot, start, service.out.len(), false);
    }
    Some(())
}

/// What the table says of a session that is not live may have to wait for storage; the rest is said here.
fn refused_directly(service: &mut Service, id: &str, refusal: Refusal) -> Option<()> {
    if let Refusal::NotFound(_) | Refusal::NotLive { .. } = refusal {
        service.settings.clock.unread();
        return None;
    }
    write_error(&mut service.out, id, &refusal.into());
    Some(())
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

/// The members of a batch's params.
const BATCH: [&str; 6] = ["sessionId", "events", "expectedSeq", "instanceId", "durable", "_meta"];
/// The members of an event of a batch.
const EVENT: [&str; 5] = ["type", "data", "surfaceOp", "sourceEventSeqs", "ignorable"];
/// The members of an append's params: an event's and its place.
const APPEND: [&str; 10] = [
    "sessionId",
    "type",
    "data",
    "surfaceOp",
    "sourceEventSeqs",
    "ignorable",
    "expectedSeq",
    "instanceId",
    "durable",
    "_meta",
];

/// The members of a batch's event by [`EVENT`]; none of an event with another member.
#[inline(always)]
fn event_members(event: Json<'_>) -> Option<[Option<Json<'_>>; EVENT.len()]> {
    let mut spelt = event.ordered_fields();
    let found = [
        spelt.member(r#"{"type":"#),
        spelt.member(r#","data":"#),
        spelt.member(r#","surfaceOp":"#),
        spelt.member(r#","sourceEventSeqs":"#),
        spelt.member(r#","ignorable":"#),
    ];
    if spelt.is_whole() {
        return Some(found);
    }
    let Fields { found, others } = event.all_fields(&EVENT);
    (!others).then_some(found)
}

/// A member that may be `null` as well as absent.
fn given(value: Option<Json<'_>>) -> Option<Json<'_>> {
    value.filter(|value| value.kind() != Type::Null)
}

/// The place of an append, if its params are of the expected kinds and ask for nothing that waits.
fn direct_place<'a>(
    session: Json<'a>,
    seq: Option<Json<'a>>,
    instance: Option<Json<'a>>,
    durable: Option<Json<'a>>,
) -> Option<Append<'a>> {
    if given(durable).is_some_and(|durable| durable.as_bool() != Some(false)) {
        return None;
    }
    let text = |value: Json<'a>| value.as_str().and_then(JsonStr::plain);
    let mut expect = Expect::default();
    if let Some(seq) = given(seq) {
        let digits = seq.text().bytes().all(|byte| byte.is_ascii_digit());
        expect.seq = Some(Offset::new(seq.as_safe_uint()?).filter(|_| digits)?);
    }
    let instance = match given(instance) {
        Some(instance) => Some(text(instance)?),
        None => None,
    };
    Some(Append { session: text(session)?, instance, expect })
}

/// The event of [`EVENT`]'s members, those that follow its type.
#[inline(always)] // a candidate is large: it is made where it is used
fn direct_candidate<'a>(
    request: &Request<'a>,
    kind: JsonStr<'a>,
    (data, surface_op, sources, ignorable): (Json<'a>, Option<Json<'a>>, Option<Json<'a>>, Option<Json<'a>>),
    max_depth: u32,
) -> Candidate<'a> {
    let checked = |value: Json<'a>| (value, request.checks(value, max_depth));
    let (surface_op, sources) = (surface_op.map(checked), sources.map(checked));
    candidate(kind, checked(data), surface_op, sources, ignorable)
}

#[inline(always)]
fn candidate<'a>(
    kind: JsonStr<'a>,
    data: (Json<'a>, Checks),
    surface_op: Option<(Json<'a>, Checks)>,
    sources: Option<(Json<'a>, Checks)>,
    ignorable: Option<Json<'a>>,
) -> Candidate<'a> {
    let mut candidate = Candidate::new(kind, data.0, data.1);
    if let Some(value) = ignorable {
        candidate.set_ignorable(value);
    }
    if let Some((value, checks)) = surface_op {
        candidate.set_surface_op(value, checks);
    }
    if let Some((value, checks)) = sources {
        candidate.set_sources(value, checks);
    }
    candidate
}

fn raw_candidate<'a>(
    kind: &'a RawJson,
    data: &'a RawJson,
    surface_op: &'a Option<RawJson>,
    sources: &'a Option<RawJson>,
    ignorable: &'a Option<RawJson>,
) -> Result<Candidate<'a>, WireError> {
    let (kind, kind_checks) = kind.verified();
    let kind = kind.as_str().ok_or_else(|| bad_param("type", "type must be a string"))?;
    let verified = |raw: &'a Option<RawJson>| raw.as_ref().map(RawJson::verified);
    let ignorable = verified(ignorable).map(|(value, _)| value);
    let (data, checks) = data.verified();
    let data = (
        data,
        Checks { needs_compaction: checks.needs_compaction || kind_checks.needs_compaction, ..checks },
    );
    Ok(candidate(kind, data, verified(surface_op), verified(sources), ignorable))
}

fn expected(seq: Option<u64>) -> Result<Expect, WireError> {
    let safe =
        |seq| Offset::new(seq).ok_or_else(|| bad_param("expectedSeq", "expectedSeq must be a safe integer"));
    Ok(Expect { seq: seq.map(safe).transpose()? })
}

impl Service {
    pub(super) fn append(&mut self, params: AppendParams) -> Answer<Appended> {
        let AppendParams { kind, data, surface_op, source_event_seqs, ignorable, .. } = &params;
        let place = Append {
            session: &params.session_id,
            instance: params.instance_id.as_deref(),
            expect: expected(params.expected_seq)?,
        };
        let candidate = raw_candidate(kind, data, surface_op, source_event_seqs, ignorable)?;
        let durable = params.durable == Some(true);
        self.check_durable(place.session, durable)?;
        self.check_live(place.session, place.instance)?;
        let (appended, slot) =
            self.commit_one(place, &candidate, |_, _, _| {}).map_err(|error| match error {
                Uncommitted::Refused(refusal) => CallError::from(refusal),
                Uncommitted::Lost(error) => error.into(),
            })?;
        self.answer_with(slot, durable);
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
        let (appended, session) =
            self.store.append(place, candidate, context).map_err(Uncommitted::Refused)?;
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
        let mut batch = Vec::with_capacity(params.events.len());
        for (index, event) in params.events.iter().enumerate() {
            let read = raw_candidate(
                &event.kind,
                &event.data,
                &event.surface_op,
                &event.source_event_seqs,
                &event.ignorable,
            );
            batch.push(read.map_err(|error| error.fact("index", index))?);
        }
        let place = Append {
            session: &params.session_id,
            instance: params.instance_id.as_deref(),
            expect: expected(params.expected_seq)?,
        };
        self.check_live(place.session, place.instance)?;
        let context = &mut Context::at(self.settings.clock.now(), &mut self.settings.ids);
        let done = self.store.append_batch(place, &batch, context)?;
        let slot = self.batch_slot(&params.session_id, &done)?;
        self.answer_with(slot, durable);
        let duplicate = done.duplicate();
        Ok(AppendedBatch { first_seq: done.first.get(), count: done.count, time: done.time, duplicate })
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

    /// A session and instance that are live; looked at before the clock, which moves once for each append.
    pub(super) fn check_live(&self, id: &str, instance: Option<&str>) -> Result<&session::Session, Absent> {
        self.store.instance(id, instance).map_err(|refusal| match self.lost.get(id) {
            Some(error) => Absent::Lost(error.clone()),
            None => Absent::Refused(refusal),
        })
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
