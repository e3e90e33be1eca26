//! Do requests that must wait for storage, or for one another, come in order, all of them and once?

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sessiond::server::{Server, Settings};
use sessiond::store::MemoryStorage;
use sessiond::store::storage::{Event, Request, Storage, Ticket};

use crate::storage_support::{Differs, Double};

/// Its requests wait until the test lets them go.
struct Gate {
    waiting: VecDeque<(Ticket, Request)>,
    open: Arc<Mutex<usize>>,
}

impl Differs for Gate {
    fn start(&mut self, _: &mut MemoryStorage, ticket: Ticket, request: Request) {
        self.waiting.push_back((ticket, request));
    }

    fn poll(&mut self, inner: &mut MemoryStorage) -> Option<Event> {
        let mut open = self.open.lock().unwrap();
        if *open > 0
            && let Some((ticket, request)) = self.waiting.pop_front()
        {
            *open -= 1;
            inner.start(ticket, request);
        }
        inner.poll()
    }

    fn has_events(&mut self, inner: &mut MemoryStorage) -> bool {
        !self.waiting.is_empty() || inner.has_events()
    }
}

struct Bench {
    server: Server,
    open: Arc<Mutex<usize>>,
}

impl Bench {
    fn new() -> Self {
        let open = Arc::new(Mutex::new(0));
        let gate = Gate { waiting: VecDeque::new(), open: Arc::clone(&open) };
        Self { server: Server::new(Settings::default(), Box::new(Double::new(gate))), open }
    }

    fn send(&mut self, id: u64, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.server.receive(line.to_string().as_bytes());
    }

    /// Lets so many jobs go and gives the ids that are answered, and those of errors.
    fn let_go(&mut self, jobs: usize) -> (Vec<u64>, Vec<u64>) {
        *self.open.lock().unwrap() = jobs;
        self.server.advance();
        *self.open.lock().unwrap() = 0;
        let mut output = self.server.output().map(std::mem::take).unwrap_or_default();
        while self.server.has_more() {
            self.server.advance(); // what has waited is carried out in portions of output
            output += &self.server.output().map(std::mem::take).unwrap_or_default();
        }
        let (mut answered, mut refused) = (Vec::new(), Vec::new());
        for line in output.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if let Some(id) = line["id"].as_u64() {
                answered.push(id);
                if line.get("error").is_some() {
                    refused.push(id);
                }
            }
        }
        (answered, refused)
    }

    fn append(&mut self, id: u64, session: &str) {
        self.send(id, "session/append", json!({"sessionId": session, "type": "session/title", "data": id}));
    }

    /// Closed sessions that can be loaded.
    fn stored(&mut self, sessions: &[&str]) {
        for session in sessions {
            self.send(0, "session/new", json!({"sessionId": session}));
            self.let_go(9);
            self.send(0, "session/close", json!({"sessionId": session}));
            self.let_go(9);
        }
    }
}

#[test]
fn requests_for_a_session_that_is_being_loaded_wait_and_come_in_order() {
    let mut bench = Bench::new();
    bench.stored(&["a"]);
    bench.send(1, "session/load", json!({"sessionId": "a"}));
    for id in 2..50 {
        bench.append(id, "a");
    }
    bench.send(50, "session/info", json!({"sessionId": "a"}));
    assert_eq!(bench.let_go(0).0, [0; 0]);
    assert_eq!(bench.let_go(1), ((1..=50).collect(), vec![]));
    assert!(bench.server.is_idle());
    assert_eq!(bench.server.waiting_bytes(), 0);
}

#[test]
fn a_request_that_must_wait_again_keeps_its_place() {
    let mut bench = Bench::new();
    bench.stored(&["a"]);
    bench.send(1, "session/load", json!({"sessionId": "a"}));
    bench.append(2, "a");
    bench.send(3, "session/close", json!({"sessionId": "a"}));
    bench.append(4, "a"); // is refused: closed by then
    bench.send(5, "session/load", json!({"sessionId": "a"}));
    bench.append(6, "a");
    bench.send(7, "session/fork", json!({"sessionId": "nobody", "childSessionId": "a"}));
    assert_eq!(bench.let_go(0).0, [0; 0]);
    assert_eq!(bench.let_go(1).0, [1, 2]); // the close waits for its release
    assert_eq!(bench.let_go(1).0, [3]); // the append asks whether the session is stored
    assert_eq!(bench.let_go(1), (vec![4], vec![4]));
    assert_eq!(bench.let_go(1), (vec![5, 6, 7], vec![7]));
    assert!(bench.server.is_idle());
}

#[test]
fn sessions_do_not_wait_for_one_another_but_a_list_waits_for_all_before_it() {
    let mut bench = Bench::new();
    bench.stored(&["a", "b"]);
    bench.send(1, "session/load", json!({"sessionId": "a"}));
    bench.send(2, "session/load", json!({"sessionId": "b"}));
    bench.append(3, "b");
    bench.append(4, "a");
    assert_eq!(bench.let_go(1).0, [1, 4]);
    assert_eq!(bench.let_go(1).0, [2, 3]);
    bench.send(5, "session/delete", json!({"sessionId": "a"}));
    bench.send(6, "session/list", json!({"includeEmpty": true}));
    bench.append(7, "b");
    assert_eq!(bench.let_go(0).0, [0; 0]); // what comes behind a list that waits, waits too
    assert_eq!(bench.let_go(1).0, [5, 7]); // while it looks at the store, others go on
    assert_eq!(bench.let_go(1).0, [6]);
    bench.send(8, "session/load", json!({"sessionId": "a"}));
    bench.send(9, "session/close", json!({"sessionId": "b"}));
    bench.send(10, "session/list", json!({}));
    bench.append(11, "b");
    assert_eq!(bench.let_go(1).0, [8]); // is refused: deleted
    assert_eq!(bench.let_go(1).0, [9]);
    let mut rest = [bench.let_go(1).0, bench.let_go(1).0].concat();
    rest.sort_unstable();
    assert_eq!(rest, [10, 11]); // both ask storage
    assert!(bench.server.is_idle());
}

/// Lines that came since the last look.
fn lines(bench: &mut Bench) -> Vec<Value> {
    let output = bench.server.output().map(std::mem::take).unwrap_or_default();
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_status_overtakes_all_that_waits_and_tells_how_much_that_is() {
    let mut bench = Bench::new();
    bench.stored(&["a"]);
    bench.send(1, "session/load", json!({"sessionId": "a"}));
    bench.send(2, "session/list", json!({}));
    bench.append(3, "a");
    bench.send(4, "sessiond/status", json!({}));
    let [status] = lines(&mut bench).try_into().unwrap();
    assert_eq!((&status["id"], &status["result"]["liveSessions"]), (&json!(4), &json!(0)));
    let queues = &status["result"]["queues"];
    assert_eq!((&queues["jobs"], &queues["requests"]), (&json!(1), &json!(2)));
    assert_eq!(queues["requestBytes"], bench.server.waiting_bytes());
    assert_eq!(bench.let_go(9).0, [1, 2, 3]);
    bench.send(5, "_sessiond/status", json!({}));
    let [status] = lines(&mut bench).try_into().unwrap();
    assert_eq!(status["result"]["queues"]["jobs"], 0, "{status}");
    assert_eq!(status["result"]["liveSessions"], 1);
}

#[test]
fn initialize_waits_for_what_came_before_it_and_what_comes_behind_it_waits_too() {
    let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
    let new = json!({"cwd": "/w", "mcpServers": []});
    // The load is refused: the handshake holds, and the session behind it is made in its dialect.
    let mut bench = Bench::new();
    bench.send(1, "session/load", json!({"sessionId": "nobody"}));
    bench.send(2, "initialize", hello.clone());
    bench.send(3, "session/new", new.clone());
    bench.send(4, "sessiond/status", json!({}));
    let [status] = lines(&mut bench).try_into().unwrap();
    assert_eq!(status["result"]["queues"]["requests"], 2);
    *bench.open.lock().unwrap() = 9;
    bench.server.advance();
    let answers = lines(&mut bench);
    assert_eq!(answers.iter().map(|line| line["id"].clone()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(answers[0]["error"]["code"], -32002);
    assert_eq!(answers[1]["result"]["agentCapabilities"]["_meta"]["sessiond"]["dialect"], "acp");
    assert!(answers[2]["result"]["_meta"]["sessiond"].is_object(), "{}", answers[2]);
    // A deletion has a result: the handshake behind it is too late.
    let mut bench = Bench::new();
    bench.send(0, "session/delete", json!({"sessionId": "nobody"}));
    bench.send(1, "initialize", hello);
    bench.send(2, "session/new", new);
    *bench.open.lock().unwrap() = 9;
    bench.server.advance();
    let answers = lines(&mut bench);
    assert_eq!(answers[1]["error"]["data"]["code"], "INVALID_REQUEST", "{}", answers[1]);
    assert!(answers[2]["result"]["header"].is_object(), "{}", answers[2]);
    assert!(bench.server.is_idle());
}

/// A member of ACP's that is malformed is as if absent (ACP 2).
#[test]
fn initialize_passes_over_what_an_acp_client_malforms() {
    let mut bench = Bench::new();
    let capabilities = json!({"fs": true, "session": ["compaction"], "_meta": null});
    let hello = json!({"protocolVersion": 1, "clientInfo": ["me"], "clientCapabilities": capabilities});
    bench.send(1, "initialize", hello);
    let [answer] = lines(&mut bench).try_into().unwrap();
    assert_eq!(answer["result"]["agentCapabilities"]["_meta"]["sessiond"]["dialect"], "acp", "{answer}");
}

#[test]
fn what_waits_can_be_cancelled_by_its_id_in_any_spelling() {
    let mut bench = Bench::new();
    bench.stored(&["a"]);
    let load = r#"{"jsonrpc":"2.0","id":"\u006coad","method":"session/load","params":{"sessionId":"a"}}"#;
    bench.server.receive(load.as_bytes());
    for id in 1..5 {
        bench.append(id, "a");
    }
    let cancel = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
    };
    for id in ["3", "\"load\"", "\"load\"", "9"] {
        bench.server.receive(cancel(id).as_bytes());
    }
    let lines = bench.server.output().map(std::mem::take).unwrap();
    let ids: Vec<&str> = lines.lines().map(|line| line.split(",\"error\"").next().unwrap()).collect();
    assert_eq!(ids, [r#"{"jsonrpc":"2.0","id":3"#, r#"{"jsonrpc":"2.0","id":"\u006coad""#]);
    assert!(
        lines.lines().all(|line| line.contains(r#""code":-32800"#) && line.contains("REQUEST_CANCELLED"))
    );
    // The others find no session: the load was taken back.
    let (mut answered, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let (ids, errors) = bench.let_go(1);
        answered.extend(ids);
        refused.extend(errors);
    }
    assert_eq!((answered, refused), (vec![1, 2, 4], vec![1, 2, 4]));
    assert!(bench.server.is_idle());
}

#[test]
fn very_many_waiting_requests_cost_no_more_than_themselves() {
    // With a search of the whole queue for each of them this would take minutes.
    let mut bench = Bench::new();
    bench.stored(&["a", "b"]);
    bench.send(0, "session/load", json!({"sessionId": "a"}));
    bench.send(0, "session/load", json!({"sessionId": "b"}));
    for id in 0..60_000 {
        bench.append(id, if id % 2 == 0 { "a" } else { "b" });
    }
    assert_eq!(bench.let_go(1).0.len(), 1 + 30_000);
    assert_eq!(bench.let_go(1).0.len(), 1 + 30_000);
    assert!(bench.server.is_idle());
}
