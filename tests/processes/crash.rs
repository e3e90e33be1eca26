//! Does a daemon that is killed lose anything that it had answered, or keep a session locked (PROTOCOL 3)?
//!
//! A few rounds by default; `SESSIOND_CRASH_ROUNDS` and `SESSIOND_CRASH_SEED` for more and others.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::dur_support;
use crate::dur_support::process::Daemon;
use crate::dur_support::{Random, Said, append, entry, from_env, note, said};

/// A store is used for so many rounds.
const ROUNDS_PER_STORE: usize = 8;

/// What a session must hold.
#[derive(Clone, Default)]
struct Model {
    /// All that was asked for, in order; a prefix of it is there.
    sent: Vec<Said>,
    /// So many of them were answered, or seen.
    promised: usize,
    /// The events that were seen, as they were.
    seen: Vec<Value>,
    open_turn: Option<u64>,
    turns: u64,
    /// It was made by a fork that has to be there.
    forked: bool,
}

/// What a request of the storm asked for.
enum Asked {
    /// So many events of a session from that index on.
    Events {
        session: String,
        at: usize,
        events: Vec<Said>,
    },
    Fork {
        child: String,
    },
    Other,
}

struct Storm {
    random: Random,
    models: BTreeMap<String, Model>,
    requests: Vec<(String, Value)>,
    asked: Vec<Asked>,
    notes: u64,
    children: u64,
}

#[derive(Default)]
struct Figures {
    kills: usize,
    answered: usize,
    unanswered: usize,
    forks: usize,
    closers: u64,
    cut: u64,
    lost_whole: usize,
    retried: usize,
}

impl Storm {
    fn ask(&mut self, method: &str, params: Value, asked: Asked) {
        self.requests.push((method.to_owned(), params));
        self.asked.push(asked);
    }

    /// The requests of one round, and what they must lead to.
    fn plan(&mut self, count: usize) {
        (self.requests, self.asked) = (Vec::new(), Vec::new());
        for name in ["plain-0", "plain-1", "turns-0", "turns-1"] {
            if !self.models.contains_key(name) {
                self.models.insert(name.to_owned(), Model::default());
                self.ask("session/new", json!({"sessionId": name, "cwd": "/w"}), Asked::Other);
            }
        }
        for _ in 0..count {
            let names: Vec<String> = self.models.keys().cloned().collect();
            let name = names[self.random.below(names.len())].clone();
            match self.random.below(100) {
                0..=2 => self.fork(&name),
                3..=5 => self.reopen(&name),
                6..=8 => {
                    self.ask("session/flush", json!({"sessionId": name}), Asked::Other);
                }
                _ => self.append(&name),
            }
        }
    }

    fn append(&mut self, name: &str) {
        let with_turns = name.starts_with("turns");
        let count = if self.random.chance(25) { 1 + self.random.below(12) } else { 1 };
        let model = self.models.get_mut(name).unwrap();
        let at = model.sent.len();
        let mut events = Vec::new();
        for _ in 0..count {
            let event = match model.open_turn {
                Some(turn) if with_turns && self.random.chance(20) => {
                    model.open_turn = None;
                    ("turn/end".to_owned(), json!({"turn": turn, "reason": {"kind": "completed"}}))
                }
                None if with_turns && self.random.chance(40) => {
                    model.turns += 1;
                    model.open_turn = Some(model.turns);
                    ("turn/start".to_owned(), json!({"turn": model.turns}))
                }
                _ => {
                    self.notes += 1;
                    let size = if self.random.chance(3) { 40_000 } else { self.random.below(200) };
                    note(format!("{}{}", self.notes, "x".repeat(size)))
                }
            };
            events.push(event);
        }
        model.sent.extend(events.iter().cloned());
        let mut params = if count == 1 {
            append(name, &events[0])
        } else {
            json!({"sessionId": name, "events": events.iter().map(entry).collect::<Vec<_>>()})
        };
        if name.starts_with("plain") {
            params["expectedSeq"] = json!(at);
        }
        if self.random.chance(5) {
            params["durable"] = json!(true);
        }
        let method = if count == 1 { "session/append" } else { "session/append_batch" };
        self.ask(method, params, Asked::Events { session: name.to_owned(), at, events });
    }

    fn fork(&mut self, name: &str) {
        let parent = self.models[name].clone();
        if parent.open_turn.is_some() {
            return;
        }
        self.children += 1;
        let kind = name.split('-').next().unwrap();
        let child = format!("{kind}-of-{}", self.children);
        let mut model = Model { turns: parent.turns, ..Model::default() };
        model.sent = parent.sent;
        if model.sent.last().is_none_or(|last| last.0 != "session/end-seed") {
            model.sent.push(("session/end-seed".to_owned(), json!({})));
        }
        self.models.insert(child.clone(), model);
        let params = json!({"sessionId": name, "childSessionId": child});
        self.ask("session/fork", params, Asked::Fork { child });
    }

    /// Closed and loaded again within the storm; a session without events is gone by that.
    fn reopen(&mut self, name: &str) {
        let model = self.models.get_mut(name).unwrap();
        if model.sent.is_empty() {
            return;
        }
        if let Some(turn) = model.open_turn.take() {
            let reason = json!({"turn": turn, "reason": {"kind": "interrupted"}});
            model.sent.push(("turn/end".to_owned(), reason));
        }
        self.ask("session/close", json!({"sessionId": name}), Asked::Other);
        self.ask("session/load", json!({"sessionId": name}), Asked::Other);
    }

    /// Takes the answers that had come as promises.
    fn promise(&mut self, first: u64, answers: &HashMap<u64, Value>, figures: &mut Figures) {
        for (index, asked) in self.asked.iter().enumerate() {
            let Some(answer) = answers.get(&(first + index as u64)) else {
                figures.unanswered += 1;
                continue;
            };
            assert!(answer.get("error").is_none(), "{:?}: {answer}", self.requests[index]);
            figures.answered += 1;
            let result = &answer["result"];
            match asked {
                Asked::Events { session, at, events } => {
                    let seq = if events.len() == 1 { &result["seq"] } else { &result["firstSeq"] };
                    assert_eq!(seq, at, "{session}");
                    let model = self.models.get_mut(session).unwrap();
                    model.promised = model.promised.max(at + events.len());
                }
                Asked::Fork { child } => {
                    figures.forks += 1;
                    let model = self.models.get_mut(child).unwrap();
                    model.forked = true;
                    let inherited = usize::try_from(result["nextSeq"].as_u64().unwrap()).unwrap();
                    model.promised = model.promised.max(inherited);
                }
                Asked::Other => {}
            }
        }
    }

    /// Loads every session at once, and holds it to its model.
    fn check(&mut self, store: &Path, notices: &[Value], figures: &mut Figures) {
        let mut daemon = Daemon::start(store);
        let names: Vec<String> = self.models.keys().cloned().collect();
        for name in names {
            let opened = daemon.call("session/load", json!({"sessionId": name}));
            let model = self.models.get_mut(&name).unwrap();
            let opened = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    assert_eq!(error["data"]["code"], "SESSION_NOT_FOUND", "{name}: {error}");
                    assert!(model.promised == 0 && !model.forked, "{name} is lost: {}", model.promised);
                    figures.lost_whole += 1;
                    self.models.remove(&name);
                    continue;
                }
            };
            let closers = opened["repaired"]["closers"].as_u64().unwrap_or(0);
            figures.closers += closers;
            figures.cut += u64::from(opened["repaired"]["cutBytes"].as_u64().unwrap_or(0) > 0);
            let events = daemon.events(&name);
            let kept = events.len() - usize::try_from(closers).unwrap();
            assert!(kept >= model.promised, "{name}: {} answered, {kept} there", model.promised);
            assert_eq!(events[..model.seen.len()], model.seen, "{name}: what was seen has changed");
            let said: Vec<Said> = events.iter().map(said).collect();
            assert!(model.sent.len() >= kept, "{name}: more than was sent");
            assert!(said[..kept] == model.sent[..kept], "{name}: another log than was sent");
            let announced = notices.iter().filter(|notice| notice["params"]["sessionId"] == *name);
            for event in announced.filter_map(|notice| notice["params"].get("event")) {
                let seq = usize::try_from(event["seq"].as_u64().unwrap()).unwrap();
                assert_eq!(&events[seq], event, "{name}: announced, and not as it was");
            }
            if name.starts_with("plain") {
                self.retry(&mut daemon, &name, figures);
            }
            let model = self.models.get_mut(&name).unwrap();
            let events = daemon.events(&name);
            model.promised = events.len() - usize::try_from(closers).unwrap();
            model.seen = events[..model.promised].to_vec();
            model.sent = events.iter().map(dur_support::said).collect();
            model.open_turn = None;
            model.turns = model.sent.iter().filter(|event| event.0 == "turn/start").count() as u64;
            model.forked = model.promised > 0;
        }
        // Some end by their input's end, some are killed with their sessions untouched.
        if self.random.chance(50) { drop(daemon.end()) } else { drop(daemon.kill()) }
    }

    /// Appends that were not answered, asked for again: each event is there once.
    fn retry(&mut self, daemon: &mut Daemon, name: &str, figures: &mut Figures) {
        let sent = self.models[name].sent.clone();
        let before = daemon.events(name).len();
        for asked in &self.asked {
            let Asked::Events { session, at, events } = asked else { continue };
            if session != name {
                continue;
            }
            let batch: Vec<Value> = events.iter().map(entry).collect();
            let params = json!({"sessionId": name, "events": batch, "expectedSeq": at});
            let result = daemon.ok("session/append_batch", params);
            assert_eq!(result["firstSeq"], *at);
            assert_eq!(result["duplicate"] == true, at + events.len() <= before, "{name} {at} {before}");
            figures.retried += usize::from(at + events.len() > before);
        }
        let after: Vec<Said> = daemon.events(name).iter().map(said).collect();
        assert!(after == sent, "{name}: {} events, {} sent", after.len(), sent.len());
    }
}

#[test]
fn a_killed_daemon_loses_nothing_that_it_had_answered() {
    let rounds = from_env("SESSIOND_CRASH_ROUNDS", 15);
    let seed = from_env("SESSIOND_CRASH_SEED", 1) as u64;
    let mut figures = Figures::default();
    let mut done = 0;
    while done < rounds {
        let store = tempfile::tempdir().unwrap();
        let random = Random((seed << 20) + done as u64 + 0x9e37_79b9);
        let mut storm = Storm {
            random,
            models: BTreeMap::new(),
            requests: Vec::new(),
            asked: Vec::new(),
            notes: 0,
            children: 0,
        };
        for _ in 0..ROUNDS_PER_STORE.min(rounds - done) {
            done += 1;
            let mut daemon = Daemon::with(store.path(), &["--sync-window", "2"]);
            for (name, _) in storm.models.clone() {
                daemon.ok("session/load", json!({"sessionId": name}));
            }
            daemon.notices.clear();
            storm.plan(500);
            let (first, sender) = daemon.send_all(&storm.requests.clone());
            let lines = storm.random.below(900);
            daemon.wait_for_lines(lines, Duration::from_secs(3));
            std::thread::sleep(Duration::from_micros(storm.random.below(2000) as u64));
            let (answers, notices) = kill(daemon);
            drop(sender.join().unwrap());
            figures.kills += 1;
            storm.promise(first, &answers, &mut figures);
            storm.check(store.path(), &notices, &mut figures);
        }
    }
    let Figures { kills, answered, unanswered, forks, closers, cut, lost_whole, retried } = figures;
    eprintln!(
        "{kills} kills: {answered} requests answered, {unanswered} not; {forks} forks answered; {closers} closers; \
         {cut} torn ends; {lost_whole} sessions never stored; {retried} appends committed by a retry"
    );
    assert!(answered > 0 && unanswered > 0 && retried > 0);
}

/// SIGKILL; what was answered and announced by then.
fn kill(mut daemon: Daemon) -> (HashMap<u64, Value>, Vec<Value>) {
    let mut notices = std::mem::take(&mut daemon.notices);
    let (answers, more) = daemon.kill_with_notices();
    notices.extend(more);
    (answers, notices)
}

#[test]
fn a_fork_stands_without_its_parent() {
    let store = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(store.path());
    daemon.ok("session/new", json!({"sessionId": "parent", "cwd": "/w"}));
    let events: Vec<Said> = (0..300).map(note).collect();
    let batch: Vec<Value> = events.iter().map(entry).collect();
    daemon.ok("session/append_batch", json!({"sessionId": "parent", "events": batch}));
    let fork = json!({"sessionId": "parent", "childSessionId": "child", "boundary": 199});
    daemon.ok("session/fork", fork);
    let prefix = daemon.events("parent")[..200].to_vec();
    // An answered fork is on the disk with its whole prefix, whatever happens next.
    daemon.kill();
    let mut daemon = Daemon::start(store.path());
    daemon.ok("session/delete", json!({"sessionId": "parent"}));
    let opened = daemon.ok("session/load", json!({"sessionId": "child"}));
    assert_eq!(opened["inheritedEventCount"], 200);
    assert_eq!(opened["header"]["parentSession"], "parent");
    assert_eq!(daemon.events("child")[..200], prefix);
    daemon.ok("session/append", append("child", &note("own")));
    daemon.ok("session/close", json!({"sessionId": "child"}));
    assert!(daemon.end().is_empty());
    let mut daemon = Daemon::start(store.path());
    daemon.ok("session/load", json!({"sessionId": "child"}));
    let events = daemon.events("child");
    assert_eq!(events[..200], prefix);
    assert_eq!((said(&events[200]).0.as_str(), said(&events[201])), ("session/end-seed", note("own")));
    assert_eq!(events.len(), 202);
}

#[test]
fn closers_are_written_once_and_the_same_expected_seq_stays_good() {
    let store = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(store.path());
    daemon.ok("session/new", json!({"sessionId": "s"}));
    let turn = [("turn/start".to_owned(), json!({"turn": 1})), note(1)];
    let batch: Vec<Value> = turn.iter().map(entry).collect();
    daemon.ok("session/append_batch", json!({"sessionId": "s", "events": batch}));
    daemon.kill();
    let log = dur_support::process::log_of(store.path(), "s");
    let before = std::fs::read(&log).unwrap();
    for round in 0..3 {
        // Opening writes nothing, however often it happens.
        let mut daemon = Daemon::start(store.path());
        let opened = daemon.ok("session/load", json!({"sessionId": "s"}));
        assert_eq!((&opened["nextSeq"], &opened["repaired"]["closers"]), (&json!(3), &json!(1)), "{round}");
        daemon.kill();
        assert_eq!(std::fs::read(&log).unwrap(), before);
    }
    let mut daemon = Daemon::start(store.path());
    daemon.ok("session/load", json!({"sessionId": "s"}));
    let mut params = append("s", &note(2));
    params["expectedSeq"] = json!(3);
    assert_eq!(daemon.ok("session/append", params.clone())["seq"], 3);
    daemon.kill();
    let mut daemon = Daemon::start(store.path());
    let opened = daemon.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!((&opened["nextSeq"], opened.get("repaired")), (&json!(4), None));
    assert_eq!(daemon.ok("session/append", params)["duplicate"], true);
    let types: Vec<String> = daemon.events("s").iter().map(|event| said(event).0).collect();
    assert_eq!(types, ["turn/start", "x/note", "turn/end", "x/note"]);
    // A flush writes closers, too.
    daemon.ok("session/append", append("s", &("turn/start".to_owned(), json!({"turn": 2}))));
    daemon.kill();
    let mut daemon = Daemon::start(store.path());
    daemon.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(daemon.ok("session/flush", json!({"sessionId": "s"}))["durableSeq"], 5);
    daemon.kill();
    assert_eq!(std::fs::read_to_string(&log).unwrap().matches("\"interrupted\"").count(), 2);
}

#[test]
fn a_durable_append_is_answered_though_its_session_goes_away() {
    let store = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(store.path());
    for method in ["session/close", "session/delete"] {
        daemon.ok("session/new", json!({"sessionId": "s"}));
        daemon.ok("session/append", append("s", &note("first")));
        let mut waiting = Vec::new();
        for n in 0..200 {
            let mut params = append("s", &note(n));
            params["durable"] = json!(n % 3 == 0);
            waiting.push(daemon.send("session/append", params));
            if n % 10 == 0 {
                std::thread::sleep(Duration::from_micros(300)); // so that several turns come of it
            }
        }
        waiting.push(daemon.send(method, json!({"sessionId": "s"})));
        for id in waiting {
            daemon.answer(id).unwrap();
        }
        daemon.ok("session/delete", json!({"sessionId": "s"}));
    }
    assert!(daemon.end().is_empty());
}
