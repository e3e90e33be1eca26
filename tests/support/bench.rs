//! A store with a clock and ids of its own, and what a reader can see of a session.

use sessiond::json::{Json, JsonText, quote};
use sessiond::log::{Header, Log, Offset, Seq, SessionId};
use sessiond::session::{
    Append, AppendBatch, Appended, Boundary, Candidate, Context, Expect, Fork, Ids, Limits, New, OnOpenTurn,
    Refusal, Seed, Session, SnapshotOf, Store, Validation,
};
use sessiond::view::{View, context_text, header_text, message_of};

/// `session-1`, `instance-1`, `msg-1`, …
#[derive(Default)]
pub struct Counter([u64; 3]);

impl Counter {
    fn next(&mut self, kind: usize, prefix: &str) -> String {
        self.0[kind] += 1;
        format!("{prefix}-{}", self.0[kind])
    }
}

impl Ids for Counter {
    fn session_id(&mut self) -> String {
        self.next(0, "session")
    }

    fn instance_id(&mut self) -> String {
        self.next(1, "instance")
    }

    fn message_id(&mut self) -> String {
        self.next(2, "msg")
    }
}

/// An event to append, as JSON texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The type, with its quotes.
    pub kind: String,
    pub data: String,
    pub surface_op: Option<String>,
    pub sources: Option<String>,
    pub ignorable: Option<String>,
}

impl Event {
    /// A log-only event.
    pub fn new(kind: &str, data: impl Into<String>) -> Self {
        Self { kind: quote(kind), data: data.into(), ..Self::default() }
    }

    /// The same with a surface marker, as JSON.
    pub fn op(self, surface_op: impl Into<String>) -> Self {
        Self { surface_op: Some(surface_op.into()), ..self }
    }

    /// The same with cited events, as JSON.
    pub fn citing(self, sources: impl Into<String>) -> Self {
        Self { sources: Some(sources.into()), ..self }
    }

    pub fn candidate(&self) -> Candidate<'_> {
        let (data, checks) = Json::parse(&self.data).unwrap();
        let kind = Json::parse(&self.kind).unwrap().0.as_str().unwrap();
        let mut candidate = Candidate::new(kind, data, checks);
        if let Some(text) = &self.surface_op {
            let (value, checks) = Json::parse(text).unwrap();
            candidate.set_surface_op(value, checks);
        }
        if let Some(text) = &self.sources {
            let (value, checks) = Json::parse(text).unwrap();
            candidate.set_sources(value, checks);
        }
        if let Some(text) = &self.ignorable {
            candidate.set_ignorable(Json::parse(text).unwrap().0);
        }
        candidate
    }
}

/// How a session is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Making<'a> {
    /// The events to begin with, as a JSON array.
    pub seed: Option<&'a str>,
    pub seed_length: Option<u64>,
    pub parent: Option<&'a str>,
    pub invariants: Validation,
}

/// A store with a clock and ids of its own.
pub struct Bench {
    pub store: Store,
    pub now: i64,
    pub ids: Counter,
}

impl Default for Bench {
    fn default() -> Self {
        Self { store: Store::new(Limits::default()), now: 1_000, ids: Counter::default() }
    }
}

pub fn offset(value: u64) -> Offset {
    Offset::new(value).unwrap()
}

pub fn seq(value: u64) -> Seq {
    Seq::new(value).unwrap()
}

/// A header that says nothing but the id.
pub fn plain_header(id: &str) -> Header {
    Header {
        id: SessionId::new(id).unwrap(),
        created_at: 0,
        cwd: None,
        parent_session: None,
        is_seeded: false,
        subagent: false,
        delegation_depth: None,
        agent_preset: None,
    }
}

/// A JSON array of these texts.
pub fn array(items: &[impl AsRef<str>]) -> String {
    let items: Vec<_> = items.iter().map(AsRef::as_ref).collect();
    format!("[{}]", items.join(","))
}

impl Bench {
    /// The store, and the next tick of the clock.
    pub fn tick(&mut self) -> (&mut Store, Context<'_>) {
        self.now += 1;
        (&mut self.store, Context::at(self.now, &mut self.ids))
    }

    pub fn open(&mut self, header: Header, making: Making<'_>) -> Result<String, Refusal> {
        let seed = making.seed.map(|text| Seed { events: Json::parse(text).unwrap().0 });
        let new = New {
            header,
            seed,
            seed_length: making.seed_length.map(offset),
            invariants: making.invariants,
            ephemeral: false,
        };
        let (store, mut context) = self.tick();
        store.create(new, &mut context).map(|id| id.as_str().to_owned())
    }

    pub fn create(&mut self, id: &str, making: Making<'_>) -> Result<(), Refusal> {
        let parent_session = making.parent.map(str::to_owned);
        self.open(Header { parent_session, ..plain_header(id) }, making).map(|_| ())
    }

    pub fn append(&mut self, id: &str, event: &Event) -> Result<Appended, Refusal> {
        self.append_at(id, event, None)
    }

    pub fn append_at(&mut self, id: &str, event: &Event, expect: Option<u64>) -> Result<Appended, Refusal> {
        let place = Append { session: id, instance: None, expect: Expect { seq: expect.map(offset) } };
        let (store, mut context) = self.tick();
        store.append(place, &event.candidate(), &mut context).map(|(appended, _)| appended)
    }

    pub fn batch(&mut self, id: &str, events: &[Event], expect: Option<u64>) -> Result<AppendBatch, Refusal> {
        let place = Append { session: id, instance: None, expect: Expect { seq: expect.map(offset) } };
        let batch: Vec<_> = events.iter().map(Event::candidate).collect();
        let (store, mut context) = self.tick();
        store.append_batch(place, &batch, &mut context)
    }

    /// Forks, and says the child's id and the length of the shared prefix.
    pub fn fork(
        &mut self,
        id: &str,
        instance: Option<&str>,
        boundary: Option<&str>,
        child: Option<&str>,
        on_open_turn: OnOpenTurn,
    ) -> Result<(String, u64), Refusal> {
        let boundary = Boundary { seq: boundary.map(|text| Json::parse(text).unwrap().0), on_open_turn };
        let fork = Fork {
            cwd: None,
            of: SnapshotOf { session: id, instance, boundary },
            child: child.map(|id| SessionId::new(id).unwrap()),
            invariants: None,
            ephemeral: false,
        };
        let (store, mut context) = self.tick();
        store.fork(fork, &mut context).map(|(child, length)| (child.as_str().to_owned(), length.get()))
    }

    pub fn close(&mut self, id: &str) {
        self.store.close(id).unwrap();
    }

    pub fn session(&self, id: &str) -> &Session {
        self.store.session(id).unwrap()
    }

    /// What a reader sees of a session now.
    pub fn seen(&self, id: &str) -> Seen {
        let session = self.session(id);
        Seen::of(session.history().log(), session.next_seq(), session.view())
    }
}

/// All that a reader can see of a log and its projections.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub lines: Vec<String>,
    pub nodes: Vec<u64>,
    pub generation: u64,
    pub messages: Vec<String>,
    pub header: Option<String>,
    pub context: Option<String>,
    pub open_turn: Option<(u64, String)>,
    pub open_step: Option<(u64, String)>,
    pub last_turn_end: Option<u64>,
    pub broken: Option<(u64, String)>,
    /// Started calls without a result, as they print.
    pub calls: String,
    pub title: Option<String>,
    pub last_time: Option<i64>,
}

impl Seen {
    /// What `view` says of the first `length` events of `log`.
    pub fn of(log: &Log, length: Offset, view: &View) -> Self {
        let event = |seq: Seq| log.get(seq).unwrap();
        let relations = &view.relations;
        let messages = messages(log, view, 0);
        assert_eq!(messages.len(), view.surface.message_count());
        let count = messages.len();
        for from in [1, count / 3, count / 2, count.saturating_sub(1), count, count + 1] {
            assert_eq!(self::messages(log, view, from), messages.get(from..).unwrap_or_default());
        }
        assert_eq!(view.surface.nodes().count(), view.surface.len());
        let waiting: Vec<_> = relations.waiting_calls().collect();
        Self {
            lines: log.range(Offset::ZERO, length).map(|event| event.line().to_owned()).collect(),
            nodes: view.surface.nodes().map(Seq::get).collect(),
            generation: view.surface.replace_generation(),
            messages,
            header: view.request.header.and_then(|seq| header_text(event(seq))),
            context: view.request.context.and_then(|seq| context_text(event(seq)).map(str::to_owned)),
            open_turn: relations.open_turn().map(|open| (open.seq.get(), open.number.to_string())),
            open_step: relations.open_step().map(|open| (open.seq.get(), open.number.to_string())),
            last_turn_end: relations.last_turn_end().map(Seq::get),
            broken: relations.broken().map(|broken| (broken.seq.get(), broken.error.to_string())),
            calls: format!("{waiting:?}"),
            title: view.activity.title(log).map(|title| title.text().to_owned()),
            last_time: view.activity.last_time(log),
        }
    }
}

/// The derived messages from one index on.
pub fn messages(log: &Log, view: &View, from: usize) -> Vec<String> {
    let text = |seq: Seq| message_of(log.get(seq).unwrap()).unwrap().text().to_owned();
    view.surface.message_seqs(from).map(text).collect()
}

/// An object's text without that member.
pub fn without(object: &str, name: &str) -> String {
    let (object, _) = JsonText::parse(object).unwrap();
    let members = object.json().members().filter(|(key, _)| !key.is(name));
    let members: Vec<_> = members.map(|(key, value)| format!("{}:{}", key.text(), value.text())).collect();
    format!("{{{}}}", members.join(","))
}

/// The projections folded from a session's events alone.
pub fn folded(bench: &Bench, id: &str) -> Seen {
    let log = bench.session(id).history().log();
    let mut view = View::default();
    log.iter().for_each(|event| view.follow(event));
    Seen::of(log, log.len(), &view)
}
