//! What a bug below the server may cost (PROTOCOL 5, `INTERNAL`): every operation of a life panics once. The daemon goes
//! on, nothing that was answered is missing, and a session that was lost to it loads again.
//!
//! In memory, over `FaultFs` around `RecordingFs`; `SESSIOND_FAULTS_ALL` for every place.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sessiond::disk::fs::fault::{Effect, Fault, Op};

use crate::dur_support::bench::{Bench, expect_bugs};
use crate::dur_support::local::runtime;
use crate::dur_support::{Said, append, entry, note, said};

fn code(error: &Value) -> &str {
    error["data"]["code"].as_str().unwrap()
}

/// A client that asks again and, where that does not help, closes its sessions and loads them.
struct Client<'b> {
    bench: &'b mut Bench,
    context: &'b str,
    promised: BTreeMap<String, Vec<Said>>,
    refused: usize,
    reloaded: usize,
}

impl Client<'_> {
    fn ask(&mut self, method: &str, params: Value) {
        let context = format!("{} {method} {params}", self.context);
        let bug = |error: &Value| matches!(code(error), "INTERNAL" | "STORAGE_FAILED");
        let Err(error) = self.bench.local.call(method, params.clone()) else { return };
        assert!(bug(&error), "{context}: {error}");
        self.refused += 1;
        let Err(error) = self.bench.local.call(method, params.clone()) else { return };
        if method == "session/fork" && code(&error) == "SESSION_ALREADY_EXISTS" {
            let child = json!({"sessionId": params["childSessionId"]});
            return drop(self.bench.local.ok("session/load", child)); // it had worked
        }
        // Lost: only a bug says so, or that it is no longer live.
        assert!(bug(&error) || code(&error) == "SESSION_NOT_FOUND", "{context}, again: {error}");
        self.reloaded += 1;
        let session = json!({"sessionId": params["sessionId"]});
        let _ = self.bench.local.call("session/close", session.clone()); // what it cannot promise, it lets go of
        match self.bench.local.call("session/load", session.clone()) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(code(&error), "SESSION_NOT_FOUND", "{context}, load: {error}");
                let id = params["sessionId"].as_str().unwrap();
                assert!(!self.promised.contains_key(id), "{context}: what was answered is gone");
                self.bench.local.ok("session/new", session);
            }
        }
        match self.bench.local.call(method, params) {
            Ok(_) => {}
            Err(error) => panic!("{context}, after loading: {error}"),
        }
    }

    fn keep(&mut self, session: &str, events: &[Said]) {
        self.promised.entry(session.to_owned()).or_default().extend_from_slice(events);
    }

    fn append(&mut self, session: &str, event: Said, durable: bool) {
        let at = self.promised.get(session).map_or(0, Vec::len);
        let mut params = append(session, &event);
        // Committed before the bug: asked again, it must not be there twice.
        (params["durable"], params["expectedSeq"]) = (json!(durable), json!(at));
        self.ask("session/append", params);
        self.keep(session, &[event]);
    }

    /// A life with every kind of file work in it.
    fn live(&mut self) {
        self.ask("session/new", json!({"sessionId": "a"}));
        for n in 0..3 {
            self.append("a", note(n), n == 1);
        }
        self.ask("session/flush", json!({"sessionId": "a"}));
        self.ask("session/fork", json!({"sessionId": "a", "childSessionId": "b"}));
        self.keep("b", &[note(0), note(1), note(2), ("session/end-seed".to_owned(), json!({}))]);
        let batch = [entry(&note("x")), entry(&note("y"))];
        self.ask("session/append_batch", json!({"sessionId": "b", "events": batch, "expectedSeq": 4}));
        self.keep("b", &[note("x"), note("y")]);
        self.append("a", ("turn/start".to_owned(), json!({"turn": 1})), false);
        self.ask("session/close", json!({"sessionId": "a"}));
        self.ask("session/list", json!({}));
        self.ask("session/inspect", json!({"sessionId": "a"}));
        self.ask("session/resume", json!({"sessionId": "a"}));
        self.keep("a", &[("turn/end".to_owned(), json!({"turn": 1, "reason": {"kind": "interrupted"}}))]);
        self.append("a", note("after"), false);
        self.ask("session/new", json!({"sessionId": "gone"}));
        let first = append("gone", &note(0));
        self.ask("session/append", first);
        self.ask("session/delete", json!({"sessionId": "gone"}));
        self.ask("session/delete", json!({"sessionId": "gone"}));
        self.ask("session/list", json!({}));
    }
}

/// Whether a life with these faults keeps what it promised; how many requests were refused, how often a session was lost.
fn live(bench: &mut Bench, context: &str) -> (usize, usize, BTreeMap<String, Vec<Said>>) {
    let mut client = Client { bench, context, promised: BTreeMap::new(), refused: 0, reloaded: 0 };
    client.live();
    let Client { promised, refused, reloaded, .. } = client;
    for (session, expected) in &promised {
        let events: Vec<Said> = bench.local.events(session).iter().map(said).collect();
        assert_eq!(&events, expected, "{context}: {session}, live");
    }
    (refused, reloaded, promised)
}

#[test]
fn every_operation_of_a_life_may_panic_once() {
    expect_bugs();
    let runtime = runtime();
    let mut bench = Bench::new(&runtime);
    live(&mut bench, "no fault");
    let count = bench.faults.take_done().len();
    let step = if std::env::var_os("SESSIOND_FAULTS_ALL").is_some() { 1 } else { count / 60 + 1 };
    let (mut refusals, mut losses) = (0, 0);
    for skip in (0..count).step_by(step) {
        let context = format!("any +{skip} panic");
        let mut bench = Bench::new(&runtime);
        bench.faults.fail(None, skip as u64, Effect::Panic);
        let (refused, reloaded, promised) = live(&mut bench, &context);
        (refusals, losses) = (refusals + refused, losses + reloaded);
        for killed in [true, false] {
            bench = bench.restart(killed);
            for (session, expected) in &promised {
                bench.local.ok("session/load", json!({"sessionId": session}));
                let events: Vec<Said> = bench.local.events(session).iter().map(said).collect();
                assert_eq!(&events, expected, "{context}: {session}");
            }
            let gone = bench.local.call("session/load", json!({"sessionId": "gone"})).unwrap_err();
            assert_eq!(code(&gone), "SESSION_NOT_FOUND", "{context}");
        }
    }
    eprintln!("{count} operations, every {step}: {refusals} requests refused, {losses} sessions loaded anew");
    assert!(refusals > 20 && losses > 0, "{refusals} {losses}");
}

/// A write that panics in its middle has left bytes behind: they are cut off, as a failed write's are.
#[test]
fn what_a_write_that_panicked_has_left_is_cut_off() {
    expect_bugs();
    let runtime = runtime();
    let mut bench = Bench::new(&runtime);
    bench.local.ok("session/new", json!({"sessionId": "s"}));
    bench.local.ok("session/append", append("s", &note(0)));
    bench.faults.fail(Some(Op::Write), 0, Effect::Short(9));
    bench.faults.fail(Some(Op::Write), 0, Effect::Panic);
    let refused = bench.local.call("session/append", append("s", &note(1))).unwrap_err();
    assert_eq!(code(&refused), "INTERNAL");
    bench.local.ok("session/append", append("s", &note(2)));
    bench.local.ok("session/close", json!({"sessionId": "s"}));
    assert_eq!(bench.stored("s"), [note(0), note(2)]);
}

/// A bug that is always there ends in answers, too: also while the locks of what it broke are given back, and at the end.
#[test]
fn operations_that_always_panic_end_no_daemon() {
    expect_bugs();
    let runtime = runtime();
    for (op, name) in Op::ALL {
        for asked in
            ["session/append", "session/flush", "session/fork", "session/close", "session/delete", "the end"]
        {
            let context = format!("{name} {asked}");
            let mut bench = Bench::new(&runtime);
            for id in ["s", "other"] {
                bench.local.ok("session/new", json!({"sessionId": id}));
                bench.local.ok("session/append", append(id, &note(0)));
            }
            bench.local.ok("session/close", json!({"sessionId": "other"}));
            bench.faults.add(Fault { op: Some(op), skip: 0, effect: Effect::Panic, sticky: true });
            let params =
                if asked == "session/append" { append("s", &note(1)) } else { json!({"sessionId": "s"}) };
            let mut answered = vec![note(0)];
            if asked != "the end" && bench.local.call(asked, params).is_ok() && asked == "session/append" {
                answered.push(note(1));
            }
            for method in ["session/load", "session/inspect", "session/list", "session/delete"] {
                let params = if method == "session/list" { json!({}) } else { json!({"sessionId": "other"}) };
                if let Err(error) = bench.local.call(method, params) {
                    let code = code(&error);
                    assert!(
                        matches!(code, "INTERNAL" | "STORAGE_FAILED" | "SESSION_NOT_FOUND"),
                        "{context}: {error}"
                    );
                }
            }
            // At the end it is met once more.
            let Bench { disk, local, .. } = bench;
            local.end();
            let mut bench = Bench::on(disk, &runtime);
            if asked != "session/delete" {
                bench.local.ok("session/load", json!({"sessionId": "s"}));
                let events: Vec<Said> = bench.local.events("s").iter().map(said).collect();
                assert!(events.starts_with(&answered), "{context}: {events:?}");
            }
        }
    }
}
