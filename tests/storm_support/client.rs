//! One client and the daemons that it starts, one after the other; every answer is judged as it comes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Plan;
use super::errand::{Append, Asked, Errand, Live};
use super::ledger::{Ledger, Stamp, Window, one};
use super::reader::{digest, event};
use super::wire::{Line, Wire, WireError};
use crate::dur_support::Random;

/// Since when a session is surely, and since when perhaps, in this daemon's hands.
#[derive(Clone, Copy)]
struct Open {
    surely: Option<Stamp>,
    perhaps: Stamp,
}

pub struct Client {
    store: PathBuf,
    plan: Plan,
    pub(super) ledger: Arc<Ledger>,
    pub(super) random: Random,
    life: u64,
    wire: Wire,
    steady: bool,
    pub(super) pipe: String,
    pub(super) next_id: u64,
    first_id: u64,
    pub(super) asked: Vec<Asked>,
    answers: HashMap<u64, (Stamp, Line)>,
    pub(super) live: BTreeMap<String, Live>,
    opens: BTreeMap<String, Open>,
    /// The next seq to be announced, by session.
    expected: BTreeMap<String, usize>,
    durable: HashMap<String, u64>,
    /// Where the notes of this burst were announced.
    announced: HashMap<u64, u64>,
    pub(super) raced: BTreeSet<String>,
    must_close: BTreeSet<String>,
    /// Appends that a kill left without an answer.
    pub(super) in_doubt: Vec<Append>,
    fault_file: Option<tempfile::NamedTempFile>,
    faulty: bool,
    fault: &'static str,
    /// Whether this daemon has said anything yet.
    heard: bool,
    weights: Vec<(usize, u64)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Announced<'a> {
    session_id: String,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    durable_seq: Option<u64>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
}

fn started(store: &Path, plan: &Plan, random: &mut Random) -> (Wire, Option<tempfile::NamedTempFile>) {
    let mut flags = vec!["--sync-window".to_owned(), ["0", "2", "30"][random.below(3)].to_owned()];
    if random.chance(30) {
        flags.extend(["--max-queued-bytes".to_owned(), "65536".to_owned()]);
    }
    let faults = plan.faults.then(|| tempfile::NamedTempFile::new().unwrap());
    if let Some(file) = &faults {
        flags.extend(["--fault-file".to_owned(), file.path().display().to_string()]);
        flags.extend(["--log".to_owned(), "off".to_owned()]);
    }
    (Wire::start(store, &flags), faults)
}

impl Client {
    pub fn new(store: &Path, plan: &Plan, ledger: Arc<Ledger>, number: u64) -> Self {
        let mut random = Random((plan.seed << 24) ^ (number << 4) ^ 0x9e37_79b9_7f4a);
        random.below(2);
        let (wire, fault_file) = started(store, plan, &mut random);
        Self {
            store: store.to_owned(),
            plan: plan.clone(),
            life: ledger.stamp(),
            ledger,
            random,
            wire,
            steady: plan.steady && number.is_multiple_of(1_000),
            pipe: String::new(),
            next_id: 1,
            first_id: 1,
            asked: Vec::new(),
            answers: HashMap::new(),
            live: BTreeMap::new(),
            opens: BTreeMap::new(),
            expected: BTreeMap::new(),
            durable: HashMap::new(),
            announced: HashMap::new(),
            raced: BTreeSet::new(),
            must_close: BTreeSet::new(),
            in_doubt: Vec::new(),
            fault_file,
            faulty: false,
            fault: "",
            heard: false,
            weights: Vec::new(),
        }
    }

    pub fn run(&mut self) {
        for _ in 0..self.plan.bursts {
            if self.plan.until.is_some_and(|until| Instant::now() > until) {
                break;
            }
            self.learn();
            for name in std::mem::take(&mut self.must_close) {
                self.plan_close(&name);
            }
            for _ in 0..1 + self.random.below(14) {
                self.plan_one();
            }
            self.plan_faults();
            if self.plan.slow_readers {
                self.wire.slow.store(self.random.chance(20), Ordering::Relaxed);
            }
            let pipe = std::mem::take(&mut self.pipe);
            self.wire.send(&pipe);
            match self.random.below(100) {
                0..=3 if self.plan.kills && !self.steady => self.die(),
                4..=5 if !self.steady => self.end(),
                _ => self.hear_all(),
            }
            self.clear_faults();
        }
    }

    /// What must be asked of a session before its next seq and turn are known.
    fn learn(&mut self) {
        let unknown: Vec<String> =
            self.live.iter().filter(|(_, live)| !live.known).map(|(name, _)| name.clone()).collect();
        for name in unknown {
            let info: Value = self.call("session/info", json!({"sessionId": name}));
            let last = json!({"sessionId": name, "types": ["turn/start"], "reverse": true, "limit": 1});
            let last: Value = self.call("session/events", last);
            let live = Live {
                known: true,
                next: info["nextSeq"].as_u64().unwrap(),
                turns: last["events"][0]["data"]["turn"].as_u64().unwrap_or(0),
                in_turn: !info["openTurn"].is_null(),
            };
            self.live.insert(name, live);
        }
    }

    /// A request between bursts that cannot be refused.
    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.first_id = self.next_id;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.wire.send(&format!("{line}\n"));
        loop {
            let line = self.wire.line().expect("the daemon goes on");
            if line.id == Some(id) {
                let result = line.result.unwrap_or_else(|| panic!("{method} {params}: {:?}", line.error));
                return serde_json::from_str(result.get()).unwrap();
            }
            self.take(line);
        }
    }

    fn hear_all(&mut self) {
        while self.answers.len() < self.asked.len() {
            let line = self.wire.line().expect("the daemon goes on");
            self.take(line);
        }
        self.judge();
    }

    fn hear_out(&mut self) {
        while let Some(line) = self.wire.line() {
            self.take(line);
        }
    }

    fn die(&mut self) {
        std::thread::sleep(Duration::from_micros(self.random.below(4_000) as u64));
        let before = self.ledger.stamp();
        self.wire.kill();
        one(&self.ledger.count.kills);
        let after = self.ledger.stamp();
        self.hear_out();
        self.judge();
        self.bury(before, after);
        self.restart();
    }

    /// The end of the input, or a signal, with requests under way.
    fn end(&mut self) {
        let before = self.ledger.stamp();
        // A process that has hardly begun dies of a signal like any other.
        let signal = self.heard && self.random.chance(50);
        match signal {
            true => self.wire.terminate(),
            false => self.wire.close_input(),
        }
        self.hear_out();
        assert_eq!(self.wire.exit_code(), Some(0), "an orderly end");
        one(&self.ledger.count.ends);
        let after = self.ledger.stamp();
        assert!(signal || self.answers.len() == self.asked.len(), "all that was sent is answered");
        self.judge();
        self.bury(before, after);
        self.restart();
    }

    fn restart(&mut self) {
        let (wire, faults) = started(&self.store, &self.plan, &mut self.random);
        (self.wire, self.fault_file) = (wire, faults);
        self.life = self.ledger.stamp();
        self.heard = false;
        self.live.clear();
        self.expected.clear();
        self.durable.clear();
        self.must_close.clear();
    }

    /// Every session of this daemon is let go of.
    fn bury(&mut self, before: Stamp, after: Stamp) {
        for (name, open) in std::mem::take(&mut self.opens) {
            self.let_go(&name, open, before, after);
        }
    }

    fn let_go(&self, name: &str, open: Open, surely_to: Stamp, perhaps_to: Stamp) {
        let life = self.life;
        self.ledger.with(name, |record| {
            if let Some(from) = open.surely.filter(|from| *from < surely_to) {
                record.owned.push(Window { life, from, to: surely_to });
            }
            record.held.push(Window { life, from: open.perhaps, to: perhaps_to });
        });
    }

    pub fn finish(mut self) {
        if self.plan.kills && self.random.chance(50) { self.die() } else { self.end() }
    }

    /// Lets everything go, and is weighed.
    pub fn rest(&mut self) {
        self.learn();
        let live: Vec<String> =
            self.live.keys().cloned().chain(std::mem::take(&mut self.must_close)).collect();
        for name in live {
            self.plan_close(&name);
        }
        let pipe = std::mem::take(&mut self.pipe);
        self.wire.send(&pipe);
        self.hear_all();
        self.weights.extend(self.wire.weight());
    }

    /// After its first rounds a daemon holds no more descriptors, and hardly more memory.
    pub fn judge_growth(&self) {
        let Some(late) = self.weights.last() else { return };
        let warm = &self.weights[..self.weights.len().div_ceil(3)];
        let most = |of: fn(&(usize, u64)) -> u64| warm.iter().map(of).max().unwrap_or(0);
        let (files, memory) = (most(|weight| weight.0 as u64), most(|weight| weight.1));
        eprintln!(
            "the steady daemon, at rest: {} descriptors and {} KiB after {} rounds; at most {files} and {memory} KiB in its first third",
            late.0,
            late.1,
            self.weights.len()
        );
        assert!(late.0 as u64 <= files, "descriptors are left open: {:?}", self.weights);
        assert!(late.1 <= memory + memory / 2 + (16 << 10), "memory grows: {:?}", self.weights);
    }

    fn plan_faults(&mut self) {
        if !self.plan.faults || !self.random.chance(25) {
            return;
        }
        const FAULTS: [&str; 14] = [
            "write ENOSPC",
            "write EIO",
            "write short:7",
            "write short:90\nwrite ENOSPC",
            "write ENOSPC *",
            "sync EIO",
            "sync ENOSPC *",
            "copy EIO",
            "copy short:10",
            "create_new ENOSPC",
            "link EIO",
            "sync_dir EIO",
            "write_at EIO",
            "open EMFILE",
        ];
        let fault = FAULTS[self.random.below(FAULTS.len())];
        self.add_to_plan(fault);
        one(&self.ledger.count.faults);
        (self.faulty, self.fault) = (true, fault);
    }

    fn clear_faults(&mut self) {
        if std::mem::take(&mut self.faulty) {
            self.add_to_plan("clear");
        }
    }

    fn add_to_plan(&mut self, line: &str) {
        if let Some(file) = &mut self.fault_file {
            file.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
    }

    fn take(&mut self, line: Line) {
        let stamp = self.ledger.stamp();
        self.heard = true;
        if let Some(id) = line.id {
            self.take_answer(id, &line);
            let before = self.answers.insert(id, (stamp, line));
            assert!(before.is_none(), "{id} is answered twice");
            return;
        }
        let method = line.method.expect("a notification");
        let params = line.params.expect("params");
        let said: Announced<'_> = serde_json::from_str(params.get()).unwrap();
        let name = said.session_id;
        match method.as_str() {
            "session/event" => {
                let text = said.event.expect("an event").get();
                let (seq, stored) = event(text.as_bytes()).expect("an event");
                let expected =
                    self.expected.get_mut(&name).unwrap_or_else(|| panic!("{name} is not live here"));
                assert_eq!(seq, *expected, "{name}: events are announced in order, once");
                *expected += 1;
                if let Some(note) = &stored.note {
                    self.announced.insert(note.n, seq as u64);
                }
                one(&self.ledger.count.told);
                self.ledger.with(&name, |record| record.tell(&name, seq, stored.digest));
            }
            "session/durable" => drop(self.durable.insert(name, said.durable_seq.unwrap_or(0))),
            "session/disposed" => drop(self.expected.remove(&name)),
            _ => {}
        }
    }

    /// What must be judged before the next line is.
    fn take_answer(&mut self, id: u64, line: &Line) {
        let asked = self.asked.get((id - self.first_id) as usize).expect("an answer to what was asked");
        let Some(result) = &line.result else { return };
        let result: Value = match &asked.what {
            Errand::Read { .. } | Errand::Inspect { .. } | Errand::List => return,
            _ => serde_json::from_str(result.get()).unwrap(),
        };
        match &asked.what {
            Errand::New { name } | Errand::Load { name } | Errand::Fork { child: name, .. } => {
                let next = result["nextSeq"].as_u64().unwrap() as usize;
                self.expected.insert(name.clone(), next);
                self.durable.remove(name);
            }
            Errand::Append(append) if append.durable && result["duplicate"] != true => {
                let first = result["seq"].as_u64().or(result["firstSeq"].as_u64()).unwrap();
                let (last, told) = (first + append.events.len() as u64 - 1, self.durable.get(&append.name));
                assert!(told.is_some_and(|told| *told >= last), "{append:?}: durable through {told:?}");
                one(&self.ledger.count.durable);
            }
            _ => {}
        }
    }

    /// Holds the answers of a burst against what was asked, in the order of asking.
    fn judge(&mut self) {
        let asked = std::mem::take(&mut self.asked);
        let mut answers = std::mem::take(&mut self.answers);
        let mut burst = Burst::default();
        for (index, asked) in asked.into_iter().enumerate() {
            match answers.remove(&(self.first_id + index as u64)) {
                None => self.unanswered(asked),
                Some((stamp, line)) => {
                    let window = Window { life: self.life, from: asked.sent, to: stamp };
                    self.trace(&asked.what, line.error.as_ref(), window);
                    match (line.result, line.error) {
                        (Some(result), None) => self.granted(asked.what, &result, window, &mut burst),
                        (None, Some(error)) => self.refused(asked.what, &error, window, &mut burst),
                        _ => panic!("neither a result nor an error"),
                    }
                }
            }
        }
        self.first_id = self.next_id;
        self.announced.clear();
        for name in burst.doubtful {
            if let Some(live) = self.live.get_mut(&name) {
                live.known = false;
            }
        }
    }

    fn trace(&self, what: &Errand, error: Option<&WireError>, window: Window) {
        let Some(name) = what.name() else { return };
        let Window { life, from, to } = window;
        let error = error.map_or("", |error| error.data.code.as_str());
        let faults = if self.faulty { self.fault } else { "" };
        let line = format!("daemon {life}, {from}..{to}: {} {error} {faults}", what.verb());
        self.ledger.with(name, |record| record.note(line));
    }

    fn unanswered(&mut self, asked: Asked) {
        one(&self.ledger.count.unanswered);
        let window = Window { life: self.life, from: asked.sent, to: self.ledger.stamp() };
        match asked.what {
            Errand::Append(append) => {
                self.ledger.with(&append.name, |record| record.held.push(window));
                self.in_doubt.push(append);
            }
            Errand::Delete { name } => {
                self.perhaps_gone(&name, window);
                self.ledger.with(&name, |record| record.deletes.push(window));
            }
            Errand::Close { name } => self.perhaps_gone(&name, window),
            Errand::Load { name } | Errand::Inspect { name } | Errand::Fork { child: name, .. } => {
                self.ledger.with(&name, |record| record.held.push(window));
            }
            _ => {}
        }
    }

    /// It may have been let go of since, or be in this daemon's hands still.
    fn perhaps_gone(&mut self, name: &str, window: Window) {
        self.ledger.with(name, |record| record.held.push(window));
        if let Some(open) = self.opens.get_mut(name) {
            let was = *open;
            open.surely = None;
            self.let_go(name, was, window.from, window.to);
        }
    }

    fn own(&mut self, name: &str, window: Window) {
        let open = Open { surely: Some(window.to), perhaps: window.from };
        self.opens.entry(name.to_owned()).or_insert(open);
        self.ledger.with(name, |record| {
            record.stored_at.get_or_insert(window.to);
        });
    }

    fn granted(&mut self, what: Errand, result: &RawValue, window: Window, burst: &mut Burst) {
        let value = || -> Value { serde_json::from_str(result.get()).unwrap() };
        match what {
            Errand::New { .. } => {}
            Errand::Append(append) => {
                let value = value();
                let first = value["seq"].as_u64().or(value["firstSeq"].as_u64()).unwrap();
                let name = &append.name;
                let sure = append.conditional || !burst.doubtful.contains(name);
                assert!(!sure || append.at.is_none_or(|at| at == first), "{append:?}: at {first}");
                if value["duplicate"] == true {
                    assert!(append.retry, "{append:?}: a duplicate of what was never sent before");
                    one(&self.ledger.count.duplicates);
                } else {
                    for (index, note) in &append.notes {
                        let place = first + *index as u64;
                        let told = self.announced.get(note);
                        let part = append.retry && told.is_none(); // a batch, a prefix of which was there
                        assert!(part || told == Some(&place), "{append:?}: announced at {told:?}");
                    }
                }
                self.own(name, window);
            }
            Errand::Fork { child, .. } => {
                one(&self.ledger.count.forks);
                let value = value();
                let length = value["boundary"].as_u64().map_or(0, |seq| seq + 1) as usize;
                assert_eq!(value["inheritedEventCount"], length, "{child}");
                let parent = value["header"]["parentSession"].as_str().unwrap().to_owned();
                self.ledger.with(&child, |record| record.fork = Some((parent, length)));
                self.own(&child, window);
            }
            Errand::Load { name } => {
                // An earlier request of this burst may have failed, and this one made it live all the same.
                self.live.entry(name.clone()).or_default();
                self.own(&name, window);
                self.ledger.with(&name, |record| record.opened.push(window));
            }
            Errand::Close { name } => self.closed(&name, window),
            Errand::Delete { name } => {
                one(&self.ledger.count.deletes);
                self.closed(&name, window);
                self.ledger.with(&name, |record| {
                    record.deletes.push(window);
                    record.deleted.push(window);
                    record.held.push(window);
                    record.gone_at.get_or_insert(window.to);
                });
            }
            Errand::Flush { name, through } => {
                let durable = value()["durableSeq"].as_u64();
                let known = through.filter(|_| !burst.doubtful.contains(&name));
                assert!(durable >= known, "{name}: flushed through {durable:?} of {known:?}");
            }
            Errand::Inspect { name } => {
                self.ledger.with(&name, |record| record.held.push(window));
                self.compare(&name, result);
            }
            Errand::Read { name } => self.compare(&name, result),
            Errand::List => self.judge_list(&value(), window),
        }
    }

    fn closed(&mut self, name: &str, window: Window) {
        self.live.remove(name); // until a later request of this burst has loaded it again
        if let Some(open) = self.opens.remove(name) {
            self.let_go(name, open, window.from, window.to);
        }
    }

    /// What a read shows is what was announced, by whichever daemon.
    fn compare(&self, name: &str, page: &RawValue) {
        let page: Page<'_> = serde_json::from_str(page.get()).unwrap();
        let mut next = None;
        self.ledger.with(name, |record| {
            for text in page.events {
                let (seq, _) = event(text.get().as_bytes()).expect("an event");
                assert!(next.is_none_or(|next| next == seq), "{name}: {seq} comes out of order");
                next = Some(seq + 1);
                let told = record.told.get(seq).copied().flatten();
                let same = told.is_none_or(|told| told == digest(text.get().as_bytes()));
                assert!(same, "{name}: event {seq} is read as {}", text.get());
            }
        });
    }

    fn judge_list(&self, list: &Value, window: Window) {
        let rows = list["sessions"].as_array().unwrap();
        let mut listed = BTreeSet::new();
        for row in rows {
            let name = row["sessionId"].as_str().unwrap();
            assert!(self.faulty || row["status"] == "ok", "{row}");
            assert!(listed.insert(name), "{name} is listed twice");
        }
        if list["nextCursor"].is_string() {
            return;
        }
        for (name, record) in self.ledger.sessions().iter() {
            let there = record.stored_at.is_some_and(|stored| stored < window.from);
            let gone = record.deletes.iter().any(|delete| delete.from < window.to);
            // A delete that is under way is not known yet.
            if there && !gone && !listed.contains(name.as_str()) {
                assert!(self.faulty || self.is_being_deleted(name), "{name} is not listed");
            }
            let after = record.gone_at.is_some_and(|gone| gone < window.from);
            assert!(!after || !listed.contains(name.as_str()), "{name} is deleted and listed");
        }
    }

    /// Whether its files are away by now.
    fn is_being_deleted(&self, name: &str) -> bool {
        !self.store.join("--w--").join(name).join("session.jsonl").exists()
    }

    fn refused(&mut self, what: Errand, error: &WireError, window: Window, burst: &mut Burst) {
        one(&self.ledger.count.refused);
        let code = error.data.code.as_str();
        let breach = || panic!("{what:?}: {error:?}");
        if code == "STORAGE_FAILED" {
            one(&self.ledger.count.storage_failed);
            assert!(self.faulty, "{what:?}: {error:?}");
        }
        match &what {
            Errand::Append(append) => {
                let name = &append.name;
                let committed = error.data.committed == Some(true);
                match code {
                    "STORAGE_FAILED" => {}
                    "SESSION_NOT_FOUND" if burst.shut.contains(name) => {}
                    "SEQ_CONFLICT" if append.retry || burst.doubtful.contains(name) => {}
                    "INVARIANT_VIOLATION" if burst.doubtful.contains(name) => {}
                    "SESSION_ALREADY_EXISTS" if name.starts_with("race-") => {
                        one(&self.ledger.count.lost_races);
                        self.live.remove(name);
                        self.must_close.insert(name.clone());
                    }
                    _ => breach(),
                }
                burst.doubtful.insert(name.clone());
                if !append.retry && !committed {
                    let announced = append.notes.iter().find(|(_, note)| self.announced.contains_key(note));
                    assert!(announced.is_none(), "{append:?}: refused and announced");
                    let notes = append.notes.iter().map(|(_, note)| *note);
                    self.ledger.with(name, |record| record.refused.extend(notes));
                }
                if committed {
                    self.own(name, window);
                }
            }
            Errand::New { name } => {
                if code != "STORAGE_FAILED"
                    && !(code == "SESSION_ALREADY_EXISTS" && name.starts_with("race-"))
                {
                    breach();
                }
                burst.shut.insert(name.clone());
                self.live.remove(name);
            }
            Errand::Fork { parent, child } => {
                match code {
                    "STORAGE_FAILED" => {}
                    "SESSION_NOT_FOUND" if burst.shut.contains(parent) => {}
                    "INVALID_BOUNDARY" if burst.doubtful.contains(parent) => {}
                    _ => breach(),
                }
                self.ledger.with(child, |record| record.held.push(window));
                burst.shut.insert(child.clone());
                self.live.remove(child);
            }
            Errand::Load { name } => {
                self.miss(name, code, window, error);
                burst.shut.insert(name.clone());
                self.live.remove(name);
            }
            Errand::Inspect { name } => self.miss(name, code, window, error),
            Errand::Close { name } => {
                // It stays live until it can be promised.
                assert_eq!(code, "STORAGE_FAILED", "{what:?}: {error:?}");
                self.must_close.insert(name.clone());
            }
            Errand::Delete { name } => {
                match code {
                    "SESSION_LOCKED" => self.miss(name, code, window, error),
                    "STORAGE_FAILED" => self.ledger.with(name, |record| {
                        record.deletes.push(window);
                        record.held.push(window);
                    }),
                    _ => breach(),
                }
                if self.opens.contains_key(name) {
                    self.perhaps_gone(name, window);
                    self.must_close.insert(name.clone());
                }
            }
            Errand::Flush { name, .. } | Errand::Read { name } => {
                if code != "STORAGE_FAILED" && !(code == "SESSION_NOT_FOUND" && burst.shut.contains(name)) {
                    breach();
                }
            }
            Errand::List => assert_eq!(code, "STORAGE_FAILED", "{what:?}: {error:?}"),
        }
    }

    /// A session that could not be had.
    fn miss(&self, name: &str, code: &str, window: Window, error: &WireError) {
        self.ledger.with(name, |record| {
            record.held.push(window);
            match code {
                "SESSION_LOCKED" => {
                    one(&self.ledger.count.locked);
                    record.locked.push(window);
                }
                "SESSION_NOT_FOUND" => record.absent.push(window),
                "STORAGE_FAILED" => {}
                _ => panic!("{name}: {error:?}"),
            }
        });
    }
}

/// What the refusals of a burst leave open for its later answers.
#[derive(Default)]
struct Burst {
    /// Sessions that did not become live.
    shut: BTreeSet<String>,
    /// Sessions whose length is not what was planned with.
    doubtful: BTreeSet<String>,
}
