//! Reads of a live session: events, messages, surface, request, info, snapshot.

use crate::json::Json;
use crate::log::{Event, Finder, Kind, Log, Offset, Run, Seq, TypeSet, did_you_mean, nearest};
use crate::protocol::RawJson;
use crate::protocol::WireError;
use crate::protocol::pairing::{Pairing, RequestRepair};
use crate::protocol::params::{
    EventsParams, MessagesParams, OpenTurnPolicy, RequestParams, SessionParams, Since, SnapshotParams,
    ThroughParams,
};
use crate::protocol::results::*;
use crate::server::call::{Answer, Call};
use crate::server::service::{Service, WireLimits, bad_param};
use crate::server::splice::{Place, Splice, StreamSink};
use crate::server::too_large::too_long;
use crate::session::{Boundary, OnOpenTurn, Refusal, Session, SnapshotOf};
use crate::view::{Open, View, context_text, header_reason, header_text, mend_messages, message_of};

use super::append::seq_number;

/// Most events that one call looks at when it filters by type, a segment that has none of them counted as one: a
/// call's work stays bounded.
const MAX_SCANNED: u64 = 1 << 16;

/// How much a page may hold.
#[derive(Clone, Copy)]
struct PageSize {
    entries: u64,
    bytes: u64,
}

/// A seq in a list takes so many bytes at most.
const SEQ_BYTES: u64 = "9007199254740991,".len() as u64;

/// A page's beginning may leave when so many bytes of output have gathered.
const PORTION: usize = 256 << 10;

/// A JSON array that grows until a page is full.
struct Page<'o> {
    out: &'o mut String,
    /// Where its beginning may go, and whether something went.
    outlet: Option<(&'o mut StreamSink, &'o mut bool)>,
    entries: u64,
    bytes: u64,
    size: PageSize,
}

impl<'o> Page<'o> {
    fn new(out: &'o mut String, size: PageSize) -> Self {
        out.push('[');
        Self { out, outlet: None, entries: 0, bytes: 1, size }
    }

    /// Adds an entry unless the page is full; the first one always fits.
    fn push(&mut self, entry: &str) -> bool {
        self.push_with(entry, 0)
    }

    /// The same of an entry that takes so many bytes elsewhere in the answer.
    fn push_with(&mut self, entry: &str, elsewhere: u64) -> bool {
        let bytes = self.bytes + entry.len() as u64 + elsewhere;
        if self.entries > 0 {
            if self.entries >= self.size.entries || bytes > self.size.bytes {
                return false;
            }
            self.out.push(',');
            self.bytes += 1;
        }
        self.out.push_str(entry);
        self.bytes += entry.len() as u64 + elsewhere;
        self.entries += 1;
        if self.out.len() >= PORTION
            && let Some((outlet, sent)) = &mut self.outlet
        {
            outlet.take(self.out);
            **sent = true;
        }
        true
    }

    fn finish(self) {
        self.out.push(']');
    }
}

/// A page by itself that must hold everything; `fill` says whether it did.
fn whole_page(most: usize, fill: impl FnOnce(&mut Page<'_>) -> bool) -> Option<String> {
    let mut text = String::new();
    let mut page = Page::new(&mut text, PageSize { entries: u64::MAX, bytes: most as u64 });
    let whole = fill(&mut page);
    page.finish();
    whole.then_some(text)
}

/// Begins the response with a page as the result's first member. From here on the method must succeed: what has left
/// by the outlet is not taken back.
fn begin_response<'o>(
    out: &'o mut String,
    call: &'o mut Call,
    outlet: &'o mut Option<StreamSink>,
    member: &'static str,
    size: PageSize,
) -> Page<'o> {
    call.splice = Some(Splice::Begun(member));
    out.push_str(&call.head);
    out.push('"');
    out.push_str(member);
    out.push_str("\":");
    let outlet = outlet.as_mut().map(|outlet| (outlet, &mut call.sent));
    Page { outlet, ..Page::new(out, size) }
}

/// Puts the events of those types into a page, in the order in which `runs` and `step` give them. The answer is the
/// event to go on with, if it is not through.
fn fill_by_type<'l>(
    page: &mut Page<'_>,
    types: Option<&TypeSet<'_>>,
    runs: impl Iterator<Item = Run<'l>>,
    step: impl Fn(&mut Run<'l>) -> Option<Event<'l>>,
) -> Option<Seq> {
    let mut looked_at = 0;
    for mut run in runs {
        if types.is_some_and(|types| !run.may_have(types)) && looked_at < MAX_SCANNED {
            looked_at += 1;
            continue;
        }
        while let Some(event) = step(&mut run) {
            let wanted = types.is_none_or(|types| types.has(event));
            if looked_at >= MAX_SCANNED || (wanted && !page.push(&event.plain_line())) {
                return Some(event.seq());
            }
            looked_at += 1;
        }
    }
    None
}

impl Service {
    fn page_size(&self, limit: Option<u64>, max_bytes: Option<u64>) -> Result<PageSize, WireError> {
        let at_least_one = |field, given: Option<u64>| match given {
            Some(0) => Err(bad_param(field, format!("{field} must be at least 1"))),
            other => Ok(other),
        };
        let wire = &self.settings.wire;
        let entries = at_least_one("limit", limit)?.unwrap_or(wire.page_entries);
        // The rest of the answer's line needs some room.
        let most = (wire.max_message_bytes.saturating_sub(WireLimits::ROOM) as u64).max(1);
        let bytes = at_least_one("maxBytes", max_bytes)?.unwrap_or(wire.page_bytes).min(most);
        Ok(PageSize { entries, bytes })
    }

    pub(super) fn events(&mut self, params: EventsParams) -> Answer<EventsResult> {
        let size = self.page_size(params.limit, params.max_bytes)?;
        self.check_live(&params.session_id, None)?;
        let session = self.store.session(&params.session_id)?;
        let log = session.history().log();
        let inherited = if params.own == Some(true) { session.inherited_event_count() } else { Offset::ZERO };
        let from = within(log, "fromSeq", params.from_seq, Offset::ZERO)?.max(inherited);
        let to = within(log, "toSeq", params.to_seq, log.len())?.max(from);
        if let Some(types) = &params.types {
            self.check_types(types, log)?;
        }
        let types = params.types.as_ref().map(|types| TypeSet::new(types.iter().map(String::as_str)));
        let mut page = begin_response(&mut self.out, &mut self.call, &mut self.outlet, "events", size);
        let next = if params.reverse == Some(true) {
            fill_by_type(&mut page, types.as_ref(), log.runs(from, to).rev(), Run::next_back).map(Seq::after)
        } else {
            fill_by_type(&mut page, types.as_ref(), log.runs(from, to), Run::next).map(Seq::before)
        };
        page.finish();
        let events = RawJson::default(); // it is written
        Ok(EventsResult { events, next_seq: log.len().get(), next: next.map(Offset::get) })
    }

    /// Types to read are known, declared or in the log: a slip would find nothing, and nobody would say why.
    fn check_types(&self, types: &[String], log: &Log) -> Result<(), WireError> {
        let declared = |name: &str| self.store.vocabulary().declared().any(|(declared, _)| declared == name);
        let held = |name: &str| {
            let types = TypeSet::new([name]);
            log.runs(Offset::ZERO, log.len()).any(|run| run.may_have(&types))
        };
        let is_odd = |name: &str| Kind::of(name) == Kind::Other && !declared(name) && !held(name);
        let Some((index, name)) = types.iter().enumerate().find(|(_, name)| is_odd(name)) else {
            return Ok(());
        };
        let field = format!("types[{index}]");
        let mut known: Vec<&str> = Kind::known_names().collect();
        known.extend(self.store.vocabulary().declared().map(|(name, _)| name));
        let near = nearest(name, known);
        let offer = did_you_mean(&near).unwrap_or_else(|| "leave it out".to_owned());
        let name: String = name.chars().take(100).collect();
        let message =
            format!("{field}: the type {name:?} is not known, not declared and not in this log; {offer}");
        Err(bad_param(&field, message).text("type", &name).fact("index", index).names("nearest", &near))
    }

    pub(super) fn messages(&mut self, params: MessagesParams) -> Answer<MessagesResult> {
        let size = self.page_size(Some(u64::MAX), params.max_bytes)?;
        self.check_live(&params.session_id, None)?;
        let session = self.store.session(&params.session_id)?;
        let (view, next_seq) = view_through(session, params.through_seq)?;
        let (total, replace_generation) =
            (view.surface.message_count() as u64, view.surface.replace_generation());
        let from_index = match params.since {
            Some(since) if since.replace_generation == replace_generation && since.count <= total => {
                since.count
            }
            _ => 0,
        };
        let mut log = session.history().log().finder();
        let mut page = begin_response(&mut self.out, &mut self.call, &mut self.outlet, "messages", size);
        let mut count = from_index;
        // Iterated from inside: the nodes lie in blocks, and a loop outside would ask for them one by one.
        let mut seqs = (params.with_seqs == Some(true)).then(Vec::new);
        let whole = view.surface.message_seqs(from_index as usize).all(|seq| {
            let room = if seqs.is_some() { SEQ_BYTES } else { 0 };
            let taken = page.push_with(message_text(&mut log, seq), room);
            count += u64::from(taken);
            seqs.iter_mut().filter(|_| taken).for_each(|seqs| seqs.push(seq.get()));
            taken
        });
        let next = (!whole).then_some(Since { replace_generation, count, ext: None });
        page.finish();
        let messages = RawJson::default(); // it is written
        Ok(MessagesResult {
            messages,
            seqs,
            from_index,
            total,
            replace_generation,
            next_seq: next_seq.get(),
            next,
        })
    }

    pub(super) fn surface(&mut self, params: ThroughParams) -> Answer<SurfaceResult> {
        let session = self.check_live(&params.session_id, None)?;
        let (view, next_seq) = view_through(session, params.through_seq)?;
        Ok(SurfaceResult {
            nodes: view.surface.nodes().map(Seq::get).collect(),
            replace_generation: view.surface.replace_generation(),
            next_seq: next_seq.get(),
        })
    }

    pub(super) fn model_request(&mut self, params: RequestParams) -> Answer<RequestResult> {
        let most = self.settings.wire.max_message_bytes;
        let session = self.check_live(&params.session_id, None)?;
        let (view, next_seq) = view_through(session, params.through_seq)?;
        let log = session.history().log();
        let mut finder = log.finder();
        let mut seqs = view.surface.message_seqs(0);
        let (messages, repairs) = match params.pairing {
            None | Some(Pairing::AsIs) => {
                (whole_page(most, |page| seqs.all(|seq| page.push(message_text(&mut finder, seq)))), None)
            }
            Some(Pairing::Repair) => {
                let messages = seqs.map(|seq| finder.get(seq).and_then(message_of).unwrap_or(Json::NULL));
                let mended = mend_messages(messages.collect());
                let messages = whole_page(most, |page| mended.messages.iter().all(|text| page.push(text)));
                (messages, Some(mended.repairs.into_iter().map(RequestRepair::from).collect()))
            }
        };
        let messages = messages.ok_or_else(|| too_long("session/request", most))?;
        let header = view.request.header.and_then(|seq| log.get(seq));
        let context = view.request.context.and_then(|seq| log.get(seq));
        let header_json = header.and_then(header_text).map(RawJson::from_text);
        let reason = header.and_then(header_reason).map(|json| RawJson::from_text(json.text().to_owned()));
        let context = context.and_then(context_text).map(|text| RawJson::from_text(text.to_owned()));
        Ok(RequestResult {
            header: header_json,
            header_seq: seq_number(view.request.header),
            reason,
            context,
            messages: self.call.keep_apart("messages", Place::Last, messages),
            next_seq: next_seq.get(),
            repairs,
        })
    }

    pub(super) fn info(&mut self, params: SessionParams) -> Answer<InfoResult> {
        self.check_live(&params.session_id, None)?;
        let mut warnings = self.store.session_mut(&params.session_id)?.warnings();
        let session = self.store.session(&params.session_id)?;
        let view = session.view();
        let number = |open: Open| RawJson::from_text(open.number.to_string());
        warnings.extend(self.storage.warnings(session.id()));
        Ok(InfoResult::of(
            self.opened(session),
            view.relations.open_turn().map(number),
            view.relations.open_step().map(number),
            view.surface.replace_generation(),
            view.surface.len() as u64,
            seq_number(self.storage.durable(session.id())),
            warnings,
        ))
    }

    pub(super) fn snapshot(&mut self, params: SnapshotParams) -> Answer<SnapshotResult> {
        let most = self.settings.wire.max_message_bytes;
        self.check_live(&params.session_id, params.instance_id.as_deref())?;
        let boundary = params.boundary.as_ref().map(|raw| raw.verified().0);
        let of = SnapshotOf {
            session: &params.session_id,
            instance: params.instance_id.as_deref(),
            boundary: Boundary { seq: boundary, on_open_turn: policy(params.on_open_turn) },
        };
        let snapshot = self.store.snapshot(of)?;
        let log = self.store.session(&params.session_id)?.history().log();
        let mut events = log.range(Offset::ZERO, snapshot.length);
        let seed = whole_page(most, |page| events.all(|event| page.push(&event.plain_line())));
        let seed = seed.ok_or_else(|| too_long("session/snapshot", most))?;
        let session_id = snapshot.source.as_str().to_owned();
        Ok(SnapshotResult {
            source: SourceResult {
                session_id: session_id.clone(),
                instance_id: snapshot.instance.to_string(),
            },
            seed: self.call.keep_apart("seed", Place::Last, seed),
            meta: SnapshotMeta {
                parent_session: session_id,
                seed_length: snapshot.length.get(),
                cwd: snapshot.cwd,
            },
        })
    }

    /// A page of some log's events, for `session/inspect`.
    pub(super) fn event_page(
        &self,
        log: &Log,
        from: Option<u64>,
        limit: Option<u64>,
        max_bytes: Option<u64>,
    ) -> Result<(String, Option<u64>), WireError> {
        let size = self.page_size(limit, max_bytes)?;
        let from = within(log, "fromSeq", from, Offset::ZERO)?;
        let mut text = String::new();
        let mut page = Page::new(&mut text, size);
        let next = log.range(from, log.len()).find(|event| !page.push(&event.plain_line()));
        page.finish();
        Ok((text, next.map(|event| event.seq().get())))
    }
}

/// A place in the log that a client names; what is beyond the log is its end.
fn within(log: &Log, field: &str, seq: Option<u64>, default: Offset) -> Result<Offset, WireError> {
    let Some(seq) = seq else { return Ok(default.min(log.len())) };
    let offset =
        Offset::new(seq).ok_or_else(|| bad_param(field, format!("{field} must be a safe integer")))?;
    Ok(offset.min(log.len()))
}

/// The policy for open turns.
pub(super) fn policy(asked: Option<OpenTurnPolicy>) -> OnOpenTurn {
    match asked {
        Some(OpenTurnPolicy::Clip) => OnOpenTurn::Clip,
        Some(OpenTurnPolicy::Reject) | None => OnOpenTurn::Reject,
    }
}

/// The state after an event, and the log's length then.
fn view_through(session: &Session, through: Option<u64>) -> Result<(View, Offset), Refusal> {
    let length = session.next_seq();
    let Some(through) = through else { return Ok((session.view().clone(), length)) };
    match Seq::new(through).filter(|seq| seq.after() <= length) {
        Some(seq) => Ok((session.history().view_at(seq.after()), seq.after())),
        None => Err(Refusal::InvalidBoundary { boundary: through.to_string(), last: length.last() }),
    }
}

fn message_text<'l>(log: &mut Finder<'l>, seq: Seq) -> &'l str {
    log.get(seq).and_then(message_of).map_or("null", Json::text)
}
