//! One client and the daemons that it starts, one after the other.

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
use super::reader::event;
use super::wire::{Line, Wire};
use crate::dur_support::Random;

/// Since when a session is surely, and since when perhaps, in this daemon's hands.
#[derive(Clone, Copy)]
pub(super) struct Open {
    pub(super) surely: Option<Stamp>,
    pub(super) perhaps: Stamp,
}

pub struct Client {
    pub(super) store: PathBuf,
    plan: Plan,
    pub(super) ledger: Arc<Ledger>,
    pub(super) random: Random,
    pub(super) life: u64,
    wire: Wire,
    pub(super) steady: bool,
    pub(super) pipe: String,
    pub(super) next_id: u64,
    pub(super) first_id: u64,
    pub(super) asked: Vec<Asked>,
    pub(super) answers: HashMap<u64, (Stamp, Line)>,
    pub(super) live: BTreeMap<String, Live>,
    pub(super) opens: BTreeMap<String, Open>,
    /// The next seq to be announced, by session.
    expected: BTreeMap<String, usize>,
    durable: HashMap<String, u64>,
    /// Where the notes of this burst were announced.
    pub(super) announced: HashMap<u64, u64>,
    pub(super) raced: BTreeSet<String>,
    pub(super) must_close: BTreeSet<String>,
    /// Appends that a kill left without an answer.
    pub(super) in_doubt: Vec<Append>,
    fault_file: Option<tempfile::NamedTempFile>,
    pub(super) faulty: bool,
    pub(super) fault: &'static str,
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

    pub(super) fn let_go(&self, name: &str, open: Open, surely_to: Stamp, perhaps_to: Stamp) {
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
}
