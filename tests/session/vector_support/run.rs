//! One case after the other of the conformance vectors, each operation held to its recorded answer.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use sessiond::json::Json;
use sessiond::log::{Header, HeaderMeta, Log, Offset, SessionId, read_event};
use sessiond::session::{OnOpenTurn, Refusal, Session, Validation};
use sessiond::view::{Effect, Reading, Surface, message_of};

use super::class::{class_of, refuses_at_load};
use crate::support::bench::{Bench, Event, Making, array, messages, plain_header, seq, without};
use crate::support::{Case, Op, same_json, same_value, texts};

/// What was run, and the exceptions that were needed.
#[derive(Default)]
pub struct Tally {
    pub cases: usize,
    pub ops: usize,
    pub informative: usize,
    pub stopped: usize,
    pub used: BTreeMap<&'static str, usize>,
    pub unrun: BTreeMap<String, usize>,
}

impl Tally {
    fn except(&mut self, name: &'static str) {
        *self.used.entry(name).or_default() += 1;
    }
}

/// Runs a case as far as it goes; operations that `elsewhere` names are run by other tests.
pub fn run_case(case: &Case, tally: &mut Tally, elsewhere: &[&str]) {
    let mut run = Run {
        case,
        tally,
        elsewhere,
        bench: Bench::default(),
        names: HashMap::new(),
        standing_in: HashMap::new(),
    };
    let mut any = false;
    for op in &case.ops {
        match run.op(op) {
            Step::Done => any = true,
            Step::NotHere => *run.tally.unrun.entry(op.name().to_owned()).or_default() += 1,
            Step::Informative => run.tally.informative += 1,
            // What follows builds on an event that cannot be here.
            Step::Stop => {
                any = true;
                run.tally.stopped += 1;
                break;
            }
        }
    }
    tally.cases += usize::from(any);
}

enum Step {
    Done,
    NotHere,
    Informative,
    Stop,
}

struct Run<'c> {
    case: &'c Case,
    tally: &'c mut Tally,
    elsewhere: &'c [&'c str],
    bench: Bench,
    /// The vector's session ids where ours are others.
    names: HashMap<String, String>,
    /// Per session of ours, the seqs of events that stand in for refused ones.
    standing_in: HashMap<String, BTreeSet<u64>>,
}

impl Run<'_> {
    fn op(&mut self, op: &Op) -> Step {
        let name = op.name();
        if self.elsewhere.contains(&name) {
            return Step::NotHere;
        }
        if op.is_informative() && name != "append" && name != "create" {
            return Step::Informative;
        }
        self.tally.ops += 1;
        match name {
            "create" => self.create(op),
            "construct" => self.construct(op),
            "append" => self.append(op),
            "fork" => self.fork(op),
            "foldSurface" => self.fold_surface(op),
            "deriveEvent" => self.derive_event(op),
            "adoptEvent" => self.adopt_event(op),
            "get" => {
                let found = self.bench.store.session(&self.ours(op.text("id"))).is_ok();
                self.expect(op, found == (op.ok().unwrap()["found"] == true), "found");
                Step::Done
            }
            "list" => {
                let ids: Vec<_> = self.bench.store.sessions().map(|session| session.id().as_str()).collect();
                let wanted = op.ok().unwrap()["ids"].as_array().unwrap();
                let wanted: Vec<_> = wanted.iter().map(|id| self.ours(id.as_str().unwrap())).collect();
                assert_eq!(ids, wanted, "{}", self.case.id);
                Step::Done
            }
            _ => {
                self.read(op);
                Step::Done
            }
        }
    }

    fn expect(&self, op: &Op, holds: bool, what: &str) {
        assert!(holds, "{}: {what}: {}", self.case.id, op.0);
    }

    fn ours(&self, id: &str) -> String {
        self.names.get(id).map_or(id, String::as_str).to_owned()
    }

    fn invariants(&self) -> Validation {
        if self.case.invariants { Validation::Enforce } else { Validation::Note }
    }

    fn create(&mut self, op: &Op) -> Step {
        let mut meta = op.get("metaJson").unwrap_or("{}").to_owned();
        if Json::parse(&meta).unwrap().0.get("isSeeded").is_some() {
            meta = without(&meta, "isSeeded");
            meta = format!("{{\"seedLength\":{},{}", op.0["inheritedEventCount"], &meta[1..]);
        }
        self.make(op, op.get("id"), &meta)
    }

    /// A session made from a whole logical header: the header's own rules are the matter of `log/headers.rs`.
    fn construct(&mut self, op: &Op) -> Step {
        let classes = op.classes();
        let of_header = classes.iter().any(|class| class.starts_with("HEADER_"));
        if of_header || op.get("mode") == Some("restore") {
            // A stored log's way into a store leads through the loader.
            let part = if of_header { "construct (log/headers)" } else { "construct (loader)" };
            *self.tally.unrun.entry(part.to_owned()).or_default() += 1;
            self.tally.ops -= 1;
            return Step::Stop;
        }
        let header = op.text("headerJson");
        let count = op.0.get("inheritedEventCount").map(ToString::to_string);
        let count = count.or_else(|| op.get("inheritedEventCountJson").map(str::to_owned));
        let seeded = Json::parse(header).unwrap().0.get("isSeeded").unwrap().as_bool() == Some(true);
        let cannot_be_said = match (seeded, &count) {
            (true, None) => classes == ["INHERITED_COUNT_REQUIRED"],
            (false, Some(count)) => count != "0" && classes == ["INHERITED_COUNT_UNSEEDED"],
            _ => false,
        };
        if cannot_be_said {
            self.tally.except("lineage is a count");
            return Step::Done;
        }
        let mut meta = header.to_owned();
        for name in ["version", "id", "isSeeded"] {
            meta = without(&meta, name);
        }
        if let (true, Some(count)) = (seeded, count) {
            meta = format!("{{\"seedLength\":{count},{}", &meta[1..]);
        }
        self.make(op, op.get("id"), &meta)
    }

    fn make(&mut self, op: &Op, id: Option<&str>, meta: &str) -> Step {
        let stated = id.or_else(|| op.ok()?["id"].as_str()).unwrap().to_owned();
        let ours = match id {
            None => {
                self.tally.except("own ids");
                format!("minted-{}", self.names.len())
            }
            Some("") => {
                self.tally.except("empty id");
                assert!(SessionId::new("").is_err());
                "empty".to_owned()
            }
            Some(id) => id.to_owned(),
        };
        let meta = match HeaderMeta::parse(Json::parse(meta).unwrap().0) {
            Ok(meta) => meta,
            Err(error) => {
                self.expect(op, op.classes().contains(&error.class()), error.class());
                return Step::Done;
            }
        };
        let seed_length = meta.seed_length.map(Offset::get);
        let plain = plain_header(&ours);
        let header = Header { id: plain.id, ..meta.into_header(SessionId::new(&ours).unwrap(), 0, false) };
        let seed = op.0.get("seedJsonl").map(|_| array(&op.texts("seedJsonl")));
        let making =
            Making { seed: seed.as_deref(), seed_length, parent: None, invariants: self.invariants() };
        let result = loop {
            match self.bench.open(header.clone(), making) {
                Err(Refusal::At { cause, .. }) if matches!(*cause, Refusal::UnknownType(_)) => {
                    let Refusal::UnknownType(name) = *cause else { unreachable!() };
                    self.declare(&name);
                }
                other => break other,
            }
        };
        match result {
            Err(refusal) => self.refused_seed(op, &refusal),
            Ok(id) => {
                self.expect(op, op.ok().is_some(), "was accepted");
                self.names.insert(stated, id.clone());
                self.opened(op, &id);
                Step::Done
            }
        }
    }

    fn refused_seed(&mut self, op: &Op, refusal: &Refusal) -> Step {
        let (index, class) = class_of(refusal, true);
        if op.classes().contains(&class) {
            let wanted = op.0["expect"]["err"]["index"].as_u64();
            self.expect(op, wanted.is_none() || wanted == index, "index");
            return Step::Done;
        }
        let wanted = op.0["expect"]["err"]["index"].as_u64().unwrap_or(u64::MAX);
        match class {
            "DUPLICATE_KEY" => self.tally.except("duplicate key"),
            "LEGACY_SHAPE_MALFORMED" if index.is_some_and(|index| index <= wanted) => {
                self.tally.except("seed checked whole");
            }
            _ => panic!("{}: {refusal}: {}", self.case.id, op.0),
        }
        Step::Stop
    }

    fn declare(&mut self, name: &str) {
        self.tally.except("unknown type");
        self.bench.store.vocabulary_mut().declare(name, true);
    }

    /// What a session says of itself right after it was opened.
    fn opened(&self, op: &Op, id: &str) {
        let (ok, session) = (op.ok().unwrap(), self.bench.session(id));
        assert_eq!(session.next_seq().get(), ok["seq"], "{}", self.case.id);
        assert_eq!(session.first_live_seq().get(), ok["firstLiveSeq"], "{}", self.case.id);
        self.header(op, session, &ok["header"]);
    }

    fn header(&self, op: &Op, session: &Session, wanted: &Value) {
        let count = &op.ok().unwrap()["inheritedEventCount"];
        assert_eq!(session.inherited_event_count().get(), *count, "{}", self.case.id);
        let mut wanted = wanted.clone();
        for member in ["id", "parentSession"] {
            if let Some(id) = wanted[member].as_str().map(|id| self.ours(id)) {
                wanted[member] = id.into();
            }
        }
        let mut header = session.header().logical_json();
        if wanted.get("createdAt").is_none() {
            header = without(&header, "createdAt");
        }
        let header: Value = serde_json::from_str(&header).unwrap();
        assert!(same_value(&header, &wanted), "{}: {header} {wanted}", self.case.id);
    }

    fn append(&mut self, op: &Op) -> Step {
        let id = self.ours(op.text("s"));
        let event = Event {
            surface_op: op.get("surfaceOpJson").map(str::to_owned),
            sources: op.get("sourceEventSeqsJson").map(str::to_owned),
            ..Event::new(op.text("type"), op.text("dataJson"))
        };
        let before = self.bench.session(&id).next_seq().get();
        let surface = nodes(self.bench.session(&id));
        let mut result = self.bench.append(&id, &event);
        if let Err(Refusal::UnknownType(name)) = &result {
            self.expect(op, *name == op.text("type"), "names the type");
            self.expect(op, op.ok().is_none_or(|ok| ok["refusedAtLoad"] == "EVENT_TYPE_UNKNOWN"), "unknown");
            assert_eq!(self.bench.session(&id).next_seq().get(), before);
            self.declare(op.text("type"));
            result = self.bench.append(&id, &event);
        }
        let refused_at_load = op.ok().and_then(|ok| ok["refusedAtLoad"].as_str());
        match result {
            Ok(appended) => {
                self.expect(op, op.ok().is_some(), "was accepted");
                assert_eq!(appended.seq.get(), op.ok().unwrap()["seq"], "{}", self.case.id);
                match refused_at_load {
                    None | Some("EVENT_TYPE_UNKNOWN") => {}
                    Some(class) => panic!("{}: {class} was accepted: {}", self.case.id, op.0),
                }
                Step::Done
            }
            Err(refusal) => {
                assert_eq!(self.bench.session(&id).next_seq().get(), before, "{}", self.case.id);
                assert_eq!(nodes(self.bench.session(&id)), surface, "{}", self.case.id);
                let (_, class) = class_of(&refusal, false);
                if op.classes().contains(&class) {
                    return Step::Done;
                }
                match class {
                    "DUPLICATE_KEY" => self.tally.except("duplicate key"),
                    // A message of no shape at all has neither an id nor a role: which is told first is open.
                    "MESSAGE_ROLE" if refused_at_load == Some("MESSAGE_NO_ID") => {
                        self.tally.except("refused at load")
                    }
                    _ if refused_at_load == Some(class) => self.tally.except("refused at load"),
                    // Two things are wrong; ours looks at the shape first, as PROTOCOL 3 orders it.
                    _ if op.ok().is_none() && refuses_at_load(class) => self.tally.except("refused at load"),
                    _ => panic!("{}: {refusal}: {}", self.case.id, op.0),
                }
                if op.ok().is_none() { Step::Done } else { self.stand_in(&id, op) }
            }
        }
    }

    /// Lets a well-formed event take the place of one that the reference has and that cannot be here.
    fn stand_in(&mut self, id: &str, op: &Op) -> Step {
        let data = match op.text("type") {
            "user/message" | "assistant/message" | "tool/result" => return Step::Stop,
            "turn/end" => r#"{"turn":1,"reason":{"kind":"completed"}}"#,
            "request/header" => r#"{"header":{"config":{"provider":"p","model":"m"}},"reason":"change"}"#,
            _ => "null",
        };
        let kind = if op.text("type") == "mode/set" { "plan/mode" } else { op.text("type") };
        let mut result = self.bench.append(id, &Event::new(kind, data));
        if let Err(Refusal::UnknownType(_)) = result {
            self.declare(kind);
            result = self.bench.append(id, &Event::new(kind, data));
        }
        let at = result.unwrap().seq.get();
        assert_eq!(at, op.ok().unwrap()["seq"]);
        self.standing_in.entry(id.to_owned()).or_default().insert(at);
        Step::Done
    }

    fn fork(&mut self, op: &Op) -> Step {
        let source = self.ours(op.text("source"));
        let instance = (op.get("sourceInstance") == Some("stale")).then_some("stale");
        let boundary = op.0.get("boundary").map(ToString::to_string);
        let mut boundary = boundary.or_else(|| op.get("boundaryJson").map(str::to_owned));
        if boundary.as_deref() == Some("null") {
            self.tally.except("null boundary");
            boundary = None;
        }
        let child = op.get("child").map(|id| self.ours(id));
        if child.is_none() && op.ok().is_some() {
            self.tally.except("own ids");
        }
        let done =
            self.bench.fork(&source, instance, boundary.as_deref(), child.as_deref(), OnOpenTurn::Reject);
        match done {
            Err(refusal) => {
                let (_, class) = class_of(&refusal, false);
                let class = match class {
                    "SESSION_EXISTS" => "FORK_SESSION_ALREADY_EXISTS",
                    class => class,
                };
                self.expect(op, op.classes().contains(&class), class);
            }
            Ok((child, cut)) => {
                if let Some(stood) = self.standing_in.get(&source) {
                    let shared = stood.iter().copied().filter(|seq| *seq < cut).collect();
                    self.standing_in.insert(child.clone(), shared);
                }
                if op.ok().is_none() {
                    let at_load = op.classes().iter().all(|class| refuses_at_load(class));
                    let null = op.get("boundaryJson") == Some("null");
                    self.expect(op, at_load || null, "was accepted");
                    if at_load {
                        self.tally.except("shared prefix");
                    }
                    self.bench.close(&child); // the vector has none
                    return Step::Done;
                }
                let stated = op.ok().unwrap()["id"].as_str().unwrap().to_owned();
                self.names.insert(stated, child.clone());
                assert_eq!(cut, op.ok().unwrap()["firstLiveSeq"], "{}", self.case.id);
                self.opened(op, &child);
            }
        }
        Step::Done
    }

    fn read(&mut self, op: &Op) {
        let id = self.ours(op.text("s"));
        let (ok, session) = (op.ok().unwrap(), self.bench.session(&id));
        let (log, view, case) = (session.history().log(), session.view(), &self.case.id);
        let none = BTreeSet::new();
        let stood = self.standing_in.get(&id).unwrap_or(&none);
        let all_seqs = |from: u64, to: u64| -> Vec<u64> { (from..to).collect() };
        match op.name() {
            "derive" => {
                let ours = array(&messages(log, view, 0));
                let wanted = ok["messagesJson"].as_str().unwrap();
                assert!(same_json(&ours, wanted), "{case}: {ours} {wanted}");
            }
            "surface" => {
                let (nodes, generation) = nodes(session);
                assert_eq!(Value::from(nodes), ok["nodes"], "{case}");
                assert_eq!(generation, ok["replaceGeneration"], "{case}");
            }
            "requestHeader" => {
                let at = view.request.header;
                if at.is_some_and(|at| stood.contains(&at.get())) {
                    return;
                }
                let ours = at.and_then(|seq| sessiond::view::header_text(log.get(seq)?));
                same_option(case, ours.as_deref(), ok["headerJson"].as_str());
            }
            "requestContext" => {
                let ours = view.request.context.and_then(|seq| sessiond::view::context_text(log.get(seq)?));
                same_option(case, ours, ok["contextJson"].as_str());
            }
            "header" => self.header(op, session, &ok["header"]),
            "events" => {
                assert_eq!(session.next_seq().get(), ok["seq"], "{case}");
                assert_eq!(session.first_live_seq().get(), ok["firstLiveSeq"], "{case}");
                let wanted = texts(&ok["eventsJsonl"]);
                assert_eq!(log.iter().len(), wanted.len(), "{case}");
                for (event, wanted) in log.iter().zip(wanted) {
                    if !stood.contains(&event.seq().get()) {
                        same_event(case, event.line(), wanted);
                    }
                }
            }
            "eventTypes" => {
                assert_eq!(session.next_seq().get(), ok["seq"], "{case}");
                let types: Vec<_> = log.iter().map(|event| event.type_text().lossy().into_owned()).collect();
                let mut wanted = texts(&ok["types"]);
                if let Some(at) = wanted.iter().position(|kind| *kind == "mode/set") {
                    assert!(stood.contains(&(at as u64)), "{case}");
                    wanted[at] = "plan/mode";
                }
                assert_eq!(types, wanted, "{case}");
            }
            "eventAt" => {
                let ours = log.get(seq(op.0["seq"].as_u64().unwrap()));
                match (ours, ok["eventJson"].as_str()) {
                    (Some(event), Some(wanted)) => same_event(case, event.line(), wanted),
                    (ours, wanted) => assert!(ours.is_none() && wanted.is_none(), "{case}"),
                }
            }
            "snapshotEvents" => {
                let bound = |name, default| Offset::new(op.0[name].as_u64().unwrap_or(default)).unwrap();
                let (from, to) = (bound("from", 0), bound("to", session.next_seq().get()));
                let seqs: Vec<_> = log.range(from, to).map(|event| event.seq().get()).collect();
                assert_eq!(Value::from(seqs), ok["seqs"], "{case}");
            }
            "ownEvents" => {
                let (from, to) = (session.inherited_event_count(), session.next_seq());
                let seqs: Vec<_> = log.range(from, to).map(|event| event.seq().get()).collect();
                assert_eq!(seqs, all_seqs(from.get(), to.get()), "{case}");
                assert_eq!(Value::from(seqs), ok["seqs"], "{case}");
            }
            "isOwnSeq" => {
                let own = session.is_own_seq(seq(op.0["seq"].as_u64().unwrap()));
                assert_eq!(own, ok["own"] == true, "{case}");
            }
            other => panic!("{case}: unknown operation {other}"),
        }
    }

    fn fold_surface(&mut self, op: &Op) -> Step {
        let lines = op.texts("eventsJsonl");
        if op.ok().is_none() {
            let seed = array(&lines);
            let making = Making { seed: Some(&seed), invariants: Validation::Note, ..Making::default() };
            let (_, class) = class_of(&self.bench.create("folded", making).unwrap_err(), true);
            let class = if class == "SEED_SEQ" { "SEQ_NOT_CONTIGUOUS" } else { class };
            self.expect(op, op.classes().contains(&class), class);
            return Step::Done;
        }
        let (mut log, mut surface, mut replacements) = (Log::new(), Surface::default(), Vec::new());
        for line in lines {
            let (value, checks) = Json::parse(line).unwrap();
            let (_, time, draft) = read_event(value, checks.needs_compaction).unwrap();
            // Shapes are not judged here: the event is read as a committed one.
            let mut alone = Log::starting_at(log.len());
            alone.push(&draft, time);
            let reading = Reading::of_event(alone.last().unwrap());
            let effect = surface.plan(&draft, &reading, &log).unwrap();
            let before: Vec<_> = surface.nodes().map(|seq| seq.get()).collect();
            let (seq, _) = log.push(&draft, time);
            surface.apply(seq, effect);
            if matches!(effect, Effect::Replace { .. }) {
                let after: Vec<_> = surface.nodes().map(|seq| seq.get()).collect();
                let shadowed: Vec<_> = before.into_iter().filter(|seq| !after.contains(seq)).collect();
                replacements.push(serde_json::json!({
                    "seq": seq.get(), "start": shadowed[0], "end": shadowed[shadowed.len() - 1], "shadowedSeqs": shadowed,
                }));
            }
        }
        let nodes: Vec<_> = surface.nodes().map(|seq| seq.get()).collect();
        let ok = op.ok().unwrap();
        assert_eq!(Value::from(nodes), ok["nodes"], "{}", self.case.id);
        assert_eq!(Value::from(replacements), ok["replacements"], "{}", self.case.id);
        Step::Done
    }

    fn derive_event(&mut self, op: &Op) -> Step {
        let mut log = Log::new();
        let (value, checks) = Json::parse(op.text("eventJson")).unwrap();
        let (_, time, draft) = read_event(value, checks.needs_compaction).unwrap();
        log.push(&draft, time);
        let ours = message_of(log.last().unwrap()).map(Json::text);
        same_option(&self.case.id, ours, op.ok().unwrap()["messageJson"].as_str());
        Step::Done
    }

    fn adopt_event(&mut self, op: &Op) -> Step {
        let (value, checks) = Json::parse(op.text("eventJson")).unwrap();
        let (_, _, draft) = read_event(value, checks.needs_compaction).unwrap();
        match Reading::of_stored(&draft) {
            Ok(_) => self.expect(op, op.ok().is_some_and(|ok| ok["accepted"] == true), "accepted"),
            Err(error) => self.expect(op, op.classes().contains(&error.class()), error.class()),
        }
        Step::Done
    }
}

fn nodes(session: &Session) -> (Vec<u64>, u64) {
    let surface = &session.view().surface;
    (surface.nodes().map(|seq| seq.get()).collect(), surface.replace_generation())
}

fn same_option(case: &str, ours: Option<&str>, wanted: Option<&str>) {
    match (ours, wanted) {
        (Some(ours), Some(wanted)) => assert!(same_json(ours, wanted), "{case}: {ours} {wanted}"),
        (ours, wanted) => assert_eq!(ours, wanted, "{case}"),
    }
}

/// The same event, its time left out where the clock gave it.
fn same_event(case: &str, ours: &str, wanted: &str) {
    let timed = Json::parse(wanted).unwrap().0.get("time").is_some();
    let ours = if timed { ours.to_owned() } else { without(ours, "time") };
    assert!(same_json(&ours, wanted), "{case}: {ours} {wanted}");
}
