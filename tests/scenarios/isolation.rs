//! A bug in one request is that request's alone: it is answered `INTERNAL`, its session is folded anew from its log,
//! and the daemon serves on (PROTOCOL 5).
//!
//! A method is made to panic through what it asks: a storage double whose answers panic, and a file system that does.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use sessiond::log::{Offset, Seq, SessionId};
use sessiond::server::{Server, Settings};
use sessiond::session::Outgoing;
use sessiond::store::CanonicalPath;
use sessiond::store::MemoryStorage;
use sessiond::store::storage::{Append, Event, Lease, Request, Storage, StoreInfo, Ticket};

use super::kit::{Says, Store, note, to, turn};
use crate::storage_support::{Differs, Double};
use crate::wire_support::{Daemon, line};

/// Which question of the server's panics next.
#[derive(Default)]
struct Trap {
    durable: AtomicBool,
    write: AtomicBool,
    start: AtomicBool,
    poll: AtomicBool,
}

fn spring(trap: &AtomicBool) {
    assert!(!trap.swap(false, Ordering::Relaxed), "a bug with a-secret-payload");
}

/// It panics where it is told to.
struct Trapped(Arc<Trap>);

impl Differs for Trapped {
    fn info(&self, _: &MemoryStorage) -> StoreInfo {
        // As a store on disk, so that the server has something to write.
        StoreInfo { kind: "jsonl", location: Some("nowhere".to_owned()), durable: true, shared: false }
    }

    fn start(&mut self, inner: &mut MemoryStorage, ticket: Ticket, request: Request) {
        spring(&self.0.start);
        inner.start(ticket, request);
    }

    fn poll(&mut self, inner: &mut MemoryStorage) -> Option<Event> {
        spring(&self.0.poll);
        inner.poll()
    }

    fn append(
        &mut self,
        inner: &mut MemoryStorage,
        lease: Lease<'_>,
        log: &mut Outgoing<'_>,
        from: Offset,
        to: Offset,
    ) -> Append {
        spring(&self.0.write);
        inner.append(lease, log, from, to)
    }

    fn has_events(&mut self, inner: &mut MemoryStorage) -> bool {
        inner.has_events() || self.0.poll.load(Ordering::Relaxed)
    }

    fn durable(&self, inner: &MemoryStorage, id: &SessionId) -> Option<Seq> {
        spring(&self.0.durable);
        inner.durable(id)
    }
}

struct Bench {
    server: Server,
    trap: Arc<Trap>,
    next: u64,
    notices: Vec<Value>,
}

impl Bench {
    fn new() -> Self {
        let trap = Arc::new(Trap::default());
        let storage = Double::new(Trapped(Arc::clone(&trap)));
        let settings = Settings { canonical: CanonicalPath(no_path), ..Settings::default() };
        Self { server: Server::new(settings, Box::new(storage)), trap, next: 0, notices: Vec::new() }
    }

    /// Several requests in one turn; every one is answered.
    fn turn(&mut self, requests: &[(&str, Value)]) -> Vec<Value> {
        let first = self.next;
        for (method, params) in requests {
            let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
            self.server.receive(line.to_string().as_bytes());
            self.next += 1;
        }
        self.server.settle();
        self.server.advance();
        assert!(self.server.is_idle());
        let output = std::mem::take(self.server.output().unwrap());
        assert!(!output.contains("a-secret-payload"), "{output}");
        let mut answers = vec![Value::Null; requests.len()];
        for line in output.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            match line["id"].as_u64() {
                Some(id) => answers[usize::try_from(id - first).unwrap()] = line,
                None => self.notices.push(line),
            }
        }
        assert!(answers.iter().all(|answer| !answer.is_null()), "{answers:?}");
        answers
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.turn(&[(method, params)]).remove(0)
    }

    /// All that a reader sees of a session.
    fn seen(&mut self, session: &str) -> Vec<Value> {
        let params = json!({"sessionId": session});
        let reads =
            ["session/events", "session/messages", "session/surface", "session/request", "session/info"];
        reads.iter().map(|method| self.call(method, params.clone())["result"].clone()).collect()
    }
}

fn no_path(_: &str) -> Option<String> {
    panic!("a bug with a-secret-payload")
}

fn is_internal(answer: &Value) {
    let error = &answer["error"];
    assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32603), &json!("INTERNAL")), "{answer}");
}

#[test]
fn a_panic_in_a_method_is_that_requests_alone() {
    let mut bench = Bench::new();
    bench.call("session/new", json!({"sessionId": "s", "cwd": "/w"}));
    bench.call("session/append_batch", json!({"sessionId": "s", "events": turn(1, &["c"])}));
    bench.call("session/fork", json!({"sessionId": "s", "childSessionId": "other"}));
    let before = bench.seen("s");
    bench.trap.durable.store(true, Ordering::Relaxed);
    let answers = bench.turn(&[
        ("session/append", to("s", &note(1))),
        ("session/info", json!({"sessionId": "s"})),
        ("session/append", to("s", &note(2))),
        ("session/append", to("other", &note(3))),
    ]);
    is_internal(&answers[1]);
    assert_eq!((&answers[0]["result"]["seq"], &answers[2]["result"]["seq"]), (&json!(8), &json!(9)));
    assert_eq!(answers[3]["result"]["seq"], 9);
    let after = bench.seen("s");
    assert_eq!(after[0]["events"].as_array().unwrap()[..8], before[0]["events"].as_array().unwrap()[..]);
    assert_eq!((&after[1]["messages"], &after[2]["nodes"]), (&before[1]["messages"], &before[2]["nodes"]));
    // A list by directory asks for the directory.
    is_internal(&bench.call("session/list", json!({"cwd": "/elsewhere"})));
    assert_eq!(bench.call("session/list", json!({}))["result"]["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(bench.call("session/close", json!({"sessionId": "s"}))["result"], json!({}));
    assert_eq!(bench.call("session/load", json!({"sessionId": "s"}))["result"]["nextSeq"], 10);
}

/// What storage does not even begin is that request's alone too: nothing waits for it, and nothing is live by it.
#[test]
fn a_panic_where_a_job_begins_is_that_requests_alone() {
    let mut bench = Bench::new();
    bench.call("session/new", json!({"sessionId": "s"}));
    bench.call("session/append_batch", json!({"sessionId": "s", "events": turn(1, &["c"])}));
    bench.call("session/new", json!({"sessionId": "other"}));
    bench.call("session/close", json!({"sessionId": "other"}));
    for (method, params) in [
        ("session/load", json!({"sessionId": "other"})),
        ("session/list", json!({})),
        ("session/delete", json!({"sessionId": "other"})),
        ("session/fork", json!({"sessionId": "s"})),
        ("session/new", json!({"seed": []})),
    ] {
        let live = |bench: &mut Bench| bench.call("session/list", json!({}))["result"]["sessions"].clone();
        let before = live(&mut bench);
        bench.notices.clear();
        bench.trap.start.store(true, Ordering::Relaxed);
        is_internal(&bench.call(method, params.clone()));
        assert!(!bench.trap.start.load(Ordering::Relaxed), "{method} begins a job");
        assert_eq!((live(&mut bench), bench.notices.len()), (before, 0), "{method}");
        assert!(bench.call(method, params)["result"].is_object(), "{method}");
        assert!(bench.call("session/append", to("s", &note(1)))["result"]["seq"].is_u64());
    }
}

#[test]
fn a_panic_in_a_write_takes_back_what_it_carried() {
    let mut bench = Bench::new();
    for id in ["s", "other"] {
        bench.call("session/new", json!({"sessionId": id}));
        bench.call("session/append_batch", json!({"sessionId": id, "events": turn(1, &["c"])}));
    }
    let before = bench.seen("s");
    bench.notices.clear();
    bench.trap.write.store(true, Ordering::Relaxed);
    let answers = bench.turn(&[
        ("session/append", to("s", &note(1))),
        ("session/append", to("s", &note(2))),
        ("session/append", to("other", &note(3))),
    ]);
    is_internal(&answers[0]);
    is_internal(&answers[1]);
    assert_eq!(answers[2]["result"]["seq"], 8);
    let told: Vec<&Value> = bench.notices.iter().map(|notice| &notice["params"]["sessionId"]).collect();
    assert_eq!(told, ["other"], "what is not kept is not announced");
    assert_eq!(bench.seen("s"), before);
    assert_eq!(bench.call("session/append", to("s", &note(1)))["result"]["seq"], 8);
}

/// What ends a turn belongs to no single request: a bug there costs answers or sessions, never the daemon.
#[test]
fn a_panic_between_requests_ends_nothing() {
    type Pick = fn(&Trap) -> &AtomicBool;
    let traps: [(&str, Pick, bool); 3] = [
        ("poll", |trap| &trap.poll, false),
        ("a sync", |trap| &trap.start, true),
        ("a first append", |trap| &trap.start, true),
    ];
    for (what, pick, loses) in traps {
        let mut bench = Bench::new();
        for id in ["s", "other"] {
            bench.call("session/new", json!({"sessionId": id}));
            if (what, id) != ("a first append", "s") {
                bench.call("session/append_batch", json!({"sessionId": id, "events": turn(1, &["c"])}));
            }
        }
        bench.notices.clear();
        pick(&bench.trap).store(true, Ordering::Relaxed);
        let mut params = to("s", &note(1));
        params["durable"] = json!(what == "a sync");
        let answers = bench.turn(&[("session/append", params), ("session/append", to("other", &note(2)))]);
        assert!(!pick(&bench.trap).load(Ordering::Relaxed), "{what} was asked for");
        assert_eq!(answers[1]["result"]["seq"], 8, "{what}");
        let disposed = |notice: &&Value| notice["method"] == "session/disposed";
        let disposed: Vec<_> = bench.notices.iter().filter(disposed).collect();
        if loses {
            is_internal(&answers[0]);
            assert_eq!(disposed.len(), 1, "{what}: {disposed:?}");
            assert_eq!(disposed[0]["params"]["sessionId"], "s", "{what}");
        } else {
            assert_eq!((&answers[0]["result"]["seq"], disposed.len()), (&json!(8), 0), "{what}");
            assert_eq!(bench.call("session/append", to("s", &note(3)))["result"]["seq"], 9, "{what}");
        }
        assert_eq!(bench.call("session/append", to("other", &note(3)))["result"]["seq"], 9, "{what}");
        // The end, with a bug in the letting go of the first session: the other one is let go of all the same.
        pick(&bench.trap).store(true, Ordering::Relaxed);
        bench.server.shut_down();
        bench.server.advance();
        assert!(bench.server.is_idle(), "{what}");
    }
}

/// The real daemon, over a file system that panics: no payload on stderr, and what was answered is kept.
#[test]
fn the_daemon_outlives_a_panic() {
    let store = Store::new();
    let plan = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    command.args(["serve", "--store", &format!("jsonl:{}", store.root().display()), "--log", "trace"]);
    let mut daemon = Daemon::spawn(command.args(["--fault-file", plan.path().to_str().unwrap()]));
    daemon.call(0, "session/new", json!({"sessionId": "s", "cwd": "/w"}));
    daemon.call(1, "session/append", to("s", &note("a-secret-payload 1")));
    writeln!(plan.as_file(), "write panic").unwrap();
    is_internal(&daemon.call(2, "session/append", to("s", &note("a-secret-payload 2"))));
    assert_eq!(daemon.call(3, "session/append", to("s", &note(3)))["result"]["seq"], 1);
    assert_eq!(daemon.call(4, "session/flush", json!({"sessionId": "s"}))["result"]["durableSeq"], 1);
    daemon.send(line(5, "session/close", json!({"sessionId": "s"})).as_bytes());
    daemon.close_stdin();
    daemon.rest_lines();
    assert!(daemon.status().success());
    let log = daemon.log();
    assert!(log.contains("panicked at") && !log.contains("a-secret-payload"), "{log}");
    let mut next = store.daemon();
    next.ok("session/load", json!({"sessionId": "s"}));
    let held: Vec<Value> = next.events("s").iter().map(|event| event["data"]["n"].clone()).collect();
    assert_eq!(held, [json!("a-secret-payload 1"), json!(3)]);
    next.put("s", &[note(4)]);
}

/// A bug in a job on another thread is its request's alone, too.
#[test]
fn a_panic_in_a_job_is_that_requests_alone() {
    for (plan_line, method) in [
        ("read panic", "session/load"),
        ("read panic", "session/inspect"),
        ("list_dir panic", "session/list"),
        ("link panic", "session/fork"),
        ("sync panic", "session/flush"),
        ("unlink panic", "session/delete"),
        ("sync panic", "session/close"),
    ] {
        let store = Store::new();
        let plan = tempfile::NamedTempFile::new().unwrap();
        let mut daemon =
            store.daemon_with(&["--fault-file", plan.path().to_str().unwrap(), "--sync-window", "60000"]);
        for id in ["s", "other"] {
            daemon.new_with(id, &turn(1, &[]));
        }
        if method == "session/load" || method == "session/inspect" {
            daemon.ok("session/close", json!({"sessionId": "s"}));
        } else {
            daemon.ok("session/append", to("s", &note(0))); // something to sync
        }
        writeln!(plan.as_file(), "{plan_line}").unwrap();
        let params = if method == "session/list" { json!({}) } else { json!({"sessionId": "s"}) };
        let error = daemon.call(method, params).unwrap_err();
        match method {
            // The events are kept, whatever became of the sync: they are written and synced again.
            // A close begins as a flush, and the session stays live.
            "session/flush" | "session/close" => {
                assert_eq!(
                    (&error["data"]["code"], &error["data"]["committed"]),
                    (&json!("STORAGE_FAILED"), &json!(true))
                );
                assert_eq!(daemon.ok("session/flush", json!({"sessionId": "s"}))["durableSeq"], 6);
            }
            _ => assert_eq!(error["data"]["code"], "INTERNAL", "{method}: {error}"),
        }
        daemon.ok("session/append", to("other", &note(1)));
        let _ = daemon.call("session/load", json!({"sessionId": "s"}));
        let again = daemon.call("session/inspect", json!({"sessionId": "s"}));
        assert!(again.is_ok() || method == "session/delete", "{method}: {again:?}");
        // Whose file a bug has let go of, nobody knows whether it is stored whole.
        assert_eq!(daemon.end_with(), Some(i32::from(method == "session/delete")), "{method}");
    }
}
