//! Does power loss at any moment take anything that was promised to be durable (PROTOCOL 3, What an answer promises)?
//!
//! A server runs over a recording file system. Every state in which a crash may leave the disk is mounted and loaded:
//! all that was promised by then is there. `SESSIOND_POWER_BOUND` sets how many states are tried per moment,
//! `SESSIOND_POWER_ENDS` how many torn ends are repaired.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use sessiond::disk::fs::record::RecordingFs;
use tokio::runtime::Runtime;

use crate::dur_support::local::{Local, runtime};
use crate::dur_support::{append, entry, from_env, note};

/// What was promised of a session, from a moment on.
struct Promise {
    from: usize,
    session: String,
    events: Vec<Value>,
}

struct Run {
    disk: RecordingFs,
    local: Local,
    promises: Vec<Promise>,
    /// From this moment on a session may be gone: its deletion was asked for.
    deleted: BTreeMap<String, usize>,
    /// All that any session has held at some time.
    held: BTreeMap<String, Vec<Value>>,
}

impl Run {
    fn new(disk: RecordingFs, runtime: &Arc<Runtime>) -> Self {
        let local = Local::new(Arc::new(disk.clone()), runtime);
        let (promises, deleted, held) = Default::default();
        Self { disk, local, promises, deleted, held }
    }

    fn call(&mut self, method: &str, params: Value) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        if method == "session/delete" {
            self.deleted.insert(session.clone(), self.disk.changes());
        }
        let child = params["childSessionId"].as_str().map(str::to_owned);
        let durable = params["durable"] == true || method == "session/flush" || child.is_some();
        let closing = method == "session/close";
        if closing {
            self.promise(&session); // what it holds now, from its answer on
        }
        self.local.ok(method, params);
        if closing {
            self.promises.last_mut().unwrap().from = self.disk.changes();
            return;
        }
        let session = child.unwrap_or(session);
        if self.local.call("session/info", json!({"sessionId": session})).is_ok() {
            let events = self.local.events(&session);
            self.held.insert(session.clone(), events);
            if durable {
                self.promise(&session);
            }
        }
    }

    fn promise(&mut self, session: &str) {
        let events = self.local.events(session);
        self.promises.push(Promise { from: self.disk.changes(), session: session.to_owned(), events });
    }
}

/// How many states were mounted, and how their sessions came up.
#[derive(Default, Debug)]
struct Figures {
    states: usize,
    loaded: usize,
    repaired: usize,
    absent: usize,
    refused: usize,
}

fn check(run: Run, runtime: &Arc<Runtime>, seed: u64, bound: usize) -> Figures {
    let Run { disk, local, promises, deleted, held } = run;
    drop(local);
    let mut figures = Figures::default();
    for state in disk.crash_states(seed, bound) {
        figures.states += 1;
        let mut local = Local::new(Arc::new(state.fs.clone()), runtime);
        for (session, all) in &held {
            let context = format!("{session} after {}: {}", state.changes, state.story);
            if deleted.get(session).is_some_and(|from| *from <= state.changes) {
                continue;
            }
            let mut promised = promises.iter().filter(|promise| promise.session == *session);
            let promised = promised.rfind(|promise| promise.from <= state.changes);
            let promised = promised.map_or(&[][..], |promise| &promise.events);
            let opened = match local.call("session/load", json!({"sessionId": session})) {
                Ok(opened) => opened,
                Err(error) if error["data"]["code"] == "SESSION_NOT_FOUND" => {
                    assert!(promised.is_empty(), "lost: {context}");
                    figures.absent += 1;
                    continue;
                }
                Err(error) => {
                    // A hole before a later turn end: refused, and what was promised is all there to see.
                    assert_eq!(error["data"]["code"], "SESSION_CORRUPT", "{context}: {error}");
                    let lies = local.inspect(session);
                    assert!(lies.len() >= promised.len() && lies[..promised.len()] == *promised, "{context}");
                    figures.refused += 1;
                    continue;
                }
            };
            figures.loaded += 1;
            figures.repaired += usize::from(opened.get("repaired").is_some());
            let closers = opened["repaired"]["closers"].as_u64().unwrap_or(0) as usize;
            let events = local.events(session);
            let kept = events.len() - closers;
            assert!(kept >= promised.len(), "{kept} of {} promised: {context}", promised.len());
            assert_eq!(events[..promised.len()], *promised, "{context}");
            assert!(kept <= all.len() && events[..kept] == all[..kept], "more than ever was: {context}");
            // It is taken up again, for good: what is mended stays as it is.
            local.ok("session/append", append(session, &note("after the crash")));
            local.ok("session/flush", json!({"sessionId": session}));
            let events = local.events(session);
            local.ok("session/close", json!({"sessionId": session}));
            let again = local.ok("session/load", json!({"sessionId": session}));
            assert_eq!(again.get("repaired"), None, "{context}");
            assert_eq!(local.events(session), events, "{context}");
        }
    }
    figures
}

#[test]
fn power_loss_at_any_moment_takes_nothing_that_was_promised() {
    let runtime = runtime();
    let bound = from_env("SESSIOND_POWER_BOUND", 5);
    let mut run = Run::new(RecordingFs::new(), &runtime);
    run.call("session/new", json!({"sessionId": "a", "cwd": "/w"}));
    let turn = |event: &str, data: Value| (event.to_owned(), data);
    for n in 1..=3 {
        run.call("session/append", append("a", &turn("turn/start", json!({"turn": n}))));
        run.call("session/append", append("a", &note(n)));
        let batch =
            json!({"sessionId": "a", "events": [entry(&note("x")), entry(&note("y"))], "durable": n == 2});
        run.call("session/append_batch", batch);
        let end = turn("turn/end", json!({"turn": n, "reason": {"kind": "completed"}}));
        run.call("session/append", append("a", &end));
    }
    run.call("session/fork", json!({"sessionId": "a", "childSessionId": "b", "boundary": 9}));
    run.call("session/append", append("b", &note("own")));
    run.call("session/flush", json!({"sessionId": "b"}));
    run.call("session/close", json!({"sessionId": "a"}));
    run.call("session/load", json!({"sessionId": "a"}));
    run.call("session/append", append("a", &turn("turn/start", json!({"turn": 4}))));
    // A sync that fails: what is promised afterwards must have been written again.
    run.disk.fail_syncs(1);
    run.call("session/append", append("a", &note("in doubt")));
    run.call("session/flush", json!({"sessionId": "a"}));
    run.call("session/delete", json!({"sessionId": "b"}));
    let figures = check(run, &runtime, 7, bound);
    eprintln!("a life: {figures:?}");
    assert!(figures.states > 200 && figures.absent > 10 && figures.repaired > 10, "{figures:?}");
}

#[test]
fn power_loss_during_a_repair_takes_nothing_that_was_promised() {
    let runtime = runtime();
    let bound = from_env("SESSIOND_POWER_BOUND", 4);
    // A first life ends in a torn tail; the second repairs it, and loses power, too.
    let mut run = Run::new(RecordingFs::new(), &runtime);
    run.call("session/new", json!({"sessionId": "a"}));
    run.call("session/append", append("a", &("turn/start".to_owned(), json!({"turn": 1}))));
    run.call("session/append", append("a", &note("kept")));
    run.call("session/flush", json!({"sessionId": "a"}));
    run.call("session/append", append("a", &note("torn")));
    let all = run.held["a"].clone();
    let promised = run.promises.pop().unwrap().events;
    let mut seen = std::collections::BTreeSet::new();
    let mut total = Figures::default();
    let moments = run.disk.changes();
    let ends = from_env("SESSIOND_POWER_ENDS", 6);
    for state in run.disk.crash_states(3, 60).filter(|state| state.changes + 1 >= moments) {
        if seen.len() == ends {
            break;
        }
        let path = state.fs.paths().into_iter().find(|path| path.ends_with("a/session.jsonl"));
        let Some(content) = path.and_then(|path| state.fs.content(path)) else { continue };
        if !seen.insert(content) {
            continue;
        }
        let mut second = Run::new(state.fs, &runtime);
        second.promises.push(Promise { from: 0, session: "a".to_owned(), events: promised.clone() });
        second.call("session/load", json!({"sessionId": "a"}));
        second.call("session/append", append("a", &note("second life")));
        second.call("session/flush", json!({"sessionId": "a"}));
        second.call("session/close", json!({"sessionId": "a"}));
        let figures = check(second, &runtime, 5, bound);
        total.states += figures.states;
        total.loaded += figures.loaded;
        total.refused += figures.refused;
    }
    eprintln!("{} torn ends of {} events repaired: {total:?}", seen.len(), all.len());
    assert!(seen.len() > 3 && total.states > 100, "{total:?}");
    assert_eq!(total.refused, 0);
}
