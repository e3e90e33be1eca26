//! A bug in one request is that request's alone: it is answered `INTERNAL`, its session is folded anew from its log,
//! and the daemon serves on (PROTOCOL 5).
//!
//! A method is made to panic through what it asks: a storage double whose answers panic, and a file system that does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use sessiond::daemon::MemoryStorage;
use sessiond::log::{Seq, SessionId};
use sessiond::rpc::storage::{Job, JobResult, Storage, StoreDescription, Ticket, Written};
use sessiond::rpc::{CanonicalPath, Server, Settings};
use sessiond::session::Session;

use super::kit::{note, to, turn};

/// Which question of the server's panics next.
#[derive(Default)]
struct Trap {
    durable: AtomicBool,
    write: AtomicBool,
}

/// A store in memory that panics where it is told to.
struct Trapped {
    inner: MemoryStorage,
    trap: Arc<Trap>,
}

impl Storage for Trapped {
    fn describe(&self) -> StoreDescription {
        self.inner.describe()
    }

    fn start(&mut self, ticket: Ticket, job: Job) {
        self.inner.start(ticket, job);
    }

    fn finished(&mut self) -> Option<(Ticket, JobResult)> {
        self.inner.finished()
    }

    fn write(&mut self, session: &Session) -> Written {
        assert!(!self.trap.write.swap(false, Ordering::Relaxed), "a bug with a-secret-payload");
        self.inner.write(session)
    }

    fn durable_moved(&mut self) -> Option<(SessionId, Seq)> {
        self.inner.durable_moved()
    }

    fn is_quiet(&self) -> bool {
        self.inner.is_quiet()
    }

    fn durable(&self, id: &SessionId) -> Option<Seq> {
        assert!(!self.trap.durable.swap(false, Ordering::Relaxed), "a bug with a-secret-payload");
        self.inner.durable(id)
    }

    fn warnings(&self, id: &SessionId) -> Vec<String> {
        self.inner.warnings(id)
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
        let storage = Trapped { inner: MemoryStorage::default(), trap: Arc::clone(&trap) };
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
