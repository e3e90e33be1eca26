//! Over an engine that answers late, loses its connection and loses sessions to other daemons: does a client get each
//! answer once, in order, and true?

use serde_json::{Value, json};
use sessiond::server::{Server, Settings};
use sessiond::store::storage::Outcome;

use crate::remote_support::{Hands, Remote};

struct Bench {
    server: Server,
    hands: Hands,
}

impl Bench {
    /// A server with a session `s` that is stored.
    fn new() -> Self {
        let (remote, hands) = Remote::new(0);
        let settings = Settings {
            clock: "fixed:1700000000000+1".parse().unwrap(),
            ids: "random".parse().unwrap(),
            ..Settings::default()
        };
        let mut bench = Self { server: Server::new(settings, Box::new(remote)), hands };
        bench.send(0, "session/new", json!({"sessionId": "s"}));
        assert_eq!(bench.said(), [Value::Null; 0], "it is stored before it is answered for");
        bench.hands.step(1); // is there one?
        assert_eq!(bench.said(), [Value::Null; 0]);
        bench.hands.step(1);
        assert_eq!(bench.answered(), [0]);
        bench
    }

    /// Sends a request, in a turn of its own.
    fn send(&mut self, id: u64, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.server.receive(line.to_string().as_bytes());
        self.server.settle();
    }

    fn append(&mut self, id: u64) {
        self.append_with(id, json!({}));
    }

    fn append_with(&mut self, id: u64, more: Value) {
        let title = format!("title {id}");
        let data = json!({"title": title, "messageSeqs": [], "source": {"kind": "user"}});
        let mut params = json!({"sessionId": "s", "type": "session/title", "data": data});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.send(id, "session/append", params);
    }

    /// Lines that came since the last look.
    fn said(&mut self) -> Vec<Value> {
        self.server.advance();
        while self.server.has_more() {
            self.server.advance();
        }
        let output = self.server.output().map(std::mem::take).unwrap();
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The ids of the answers among them.
    fn answered(&mut self) -> Vec<u64> {
        self.said().iter().filter_map(|line| line["id"].as_u64()).collect()
    }

    /// Carries one thing out; the ids of the answers that come with it.
    fn step(&mut self) -> Vec<u64> {
        self.hands.step(1);
        self.answered()
    }

    /// The answer to a request for which nothing is in the way.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(99, method, params);
        for _ in 0..9 {
            if let Some(answer) = self.said().into_iter().find(|line| line["id"] == 99) {
                return answer;
            }
            self.hands.step(1);
        }
        panic!("{method} is not answered");
    }

    fn next_seq(&mut self) -> u64 {
        self.ask("session/info", json!({"sessionId": "s"}))["result"]["nextSeq"].as_u64().unwrap()
    }
}

fn data(line: &Value) -> &Value {
    &line["error"]["data"]
}

#[test]
fn appends_pass_those_in_flight_and_anything_else_waits_for_the_last() {
    let mut bench = Bench::new();
    for id in 1..=3 {
        bench.append(id);
    }
    bench.send(4, "session/info", json!({"sessionId": "s"}));
    bench.append(5);
    bench.send(6, "sessiond/status", json!({}));
    assert_eq!(bench.answered(), [6], "what is in flight is not shown, and a status waits for nothing");
    assert_eq!(bench.step(), [1]);
    assert_eq!(bench.step(), [2]);
    assert_eq!(bench.step(), [3, 4], "the read came before the fifth, which waits behind it");
    assert_eq!(bench.step(), [5]);
    assert_eq!((bench.next_seq(), bench.hands.stored("s")), (4, 4));
    assert!(bench.server.is_idle());
}

#[test]
fn events_are_told_once_they_are_stored() {
    let mut bench = Bench::new();
    bench.append(1);
    assert_eq!(bench.said(), [Value::Null; 0]);
    bench.hands.step(1);
    let said = bench.said();
    let methods: Vec<_> = said.iter().map(|line| line["method"].as_str().unwrap_or("answer")).collect();
    assert_eq!(methods, ["session/event", "answer", "session/durable"]);
}

#[test]
fn an_answer_that_rests_on_events_in_flight_waits_for_them() {
    let mut bench = Bench::new();
    let given = r#"{"jsonrpc":"2.0","id":1,"method":"session/append","params":{"sessionId":"s","type":"user/message","data":{"id":"m","role":"user","content":[],"source":{"kind":"user"}},"surfaceOp":"append","expectedSeq":0}}"#;
    bench.server.receive(given.as_bytes());
    bench.server.settle();
    bench.server.receive(given.replace("\"id\":1,", "\"id\":2,").as_bytes()); // is there already
    bench.append_with(3, json!({"expectedSeq": 9})); // is refused
    bench.append_with(4, json!({"expectedSeq": "x"})); // does not fit
    bench.send(5, "session/append_batch", json!({"sessionId": "s", "events": [], "expectedSeq": 7}));
    bench.append_with(6, json!({"durable": true}));
    assert_eq!(bench.answered(), [0; 0]);
    bench.hands.step(1);
    let said: Vec<Value> = bench.said().into_iter().filter(|line| line["id"].is_u64()).collect();
    assert_eq!((&said[0]["id"], &said[0]["result"]["seq"]), (&json!(1), &json!(0)));
    let mut rest: Vec<u64> = said[1..].iter().map(|line| line["id"].as_u64().unwrap()).collect();
    for _ in 0..9 {
        rest.extend(bench.step());
    }
    assert_eq!(rest, [2, 3, 4, 5, 6]);
    assert_eq!(bench.next_seq(), 2);
}

#[test]
fn a_failed_append_is_refused_with_all_behind_it_and_the_session_is_folded_anew() {
    let mut bench = Bench::new();
    for id in 1..=4 {
        bench.append(id);
    }
    bench.send(5, "session/info", json!({"sessionId": "s"}));
    assert_eq!(bench.step(), [1]);
    bench.hands.refuse();
    let said = bench.said();
    let ids: Vec<_> = said.iter().filter_map(|line| line["id"].as_u64()).collect();
    assert_eq!(ids, [2, 3, 4, 5]);
    for refused in &said[..3] {
        let data = data(refused);
        assert_eq!(
            (&data["code"], &data["committed"]),
            (&json!("STORAGE_FAILED"), &json!(false)),
            "{refused}"
        );
        assert_eq!((&data["errno"], &data["unknown"]), (&json!("08006"), &Value::Null), "{refused}");
    }
    assert_eq!(said[3]["result"]["nextSeq"], 1, "events that were not stored are not there");
    assert!(said.iter().all(|line| line["method"].is_null()), "{said:?}");
    bench.append_with(6, json!({"expectedSeq": 1}));
    assert_eq!(bench.step(), [6]);
    assert_eq!((bench.next_seq(), bench.hands.stored("s")), (2, 2));
    let list = bench.ask("session/list", json!({}));
    assert_eq!(list["result"]["sessions"][0]["title"], "title 6");
}

#[test]
fn a_lost_connection_answers_with_what_became_of_it() {
    // Nothing left this daemon: the session stays as it was.
    let mut bench = Bench::new();
    bench.append(1);
    bench.hands.cut(0, Outcome::NotCommitted);
    let said = bench.said();
    assert_eq!(data(&said[0])["committed"], false);
    assert_eq!(data(&said[0])["unknown"], Value::Null);
    bench.hands.restore();
    bench.append(2);
    assert_eq!(bench.step(), [2]);
    // Nobody has said whether it was stored: only the store knows.
    for stored in [0, 1] {
        let mut bench = Bench::new();
        bench.append(1);
        bench.append(2);
        bench.send(3, "session/close", json!({"sessionId": "s"}));
        bench.hands.cut(stored, Outcome::Unknown);
        let said = bench.said();
        for (at, id) in [(0, 1), (1, 2)] {
            assert_eq!(
                (&said[at]["id"], &data(&said[at])["unknown"]),
                (&json!(id), &json!(true)),
                "{said:?}"
            );
        }
        assert_eq!(said[2]["method"], "session/disposed");
        bench.hands.restore();
        let loaded = bench.ask("session/load", json!({"sessionId": "s"}));
        assert_eq!(loaded["result"]["nextSeq"], stored);
    }
    // A request is answered too, with what is known of it.
    let mut bench = Bench::new();
    bench.send(1, "session/load", json!({"sessionId": "t"}));
    bench.send(2, "session/delete", json!({"sessionId": "t"}));
    bench.hands.cut(0, Outcome::NotCommitted);
    let said = bench.said();
    assert_eq!((&said[0]["id"], &data(&said[0])["code"]), (&json!(1), &json!("STORAGE_FAILED")));
    bench.hands.cut(0, Outcome::Unknown);
    let said = bench.said();
    assert_eq!((&said[0]["id"], &data(&said[0])["unknown"]), (&json!(2), &json!(true)));
    assert!(bench.server.is_idle());
}

#[test]
fn a_session_that_another_daemon_has_taken_over_is_closed_and_says_so() {
    for told in [true, false] {
        let mut bench = Bench::new();
        bench.append(1);
        assert_eq!(bench.step(), [1]);
        if !told {
            bench.hands.take_over("s", false);
        }
        bench.append(2);
        bench.append(3);
        bench.send(4, "session/surface", json!({"sessionId": "s"}));
        match told {
            true => bench.hands.take_over("s", true),
            false => bench.hands.step(1),
        }
        let mut said = bench.said();
        while said.len() < 4 {
            said.extend(bench.said());
        }
        let locked = |line: &Value| {
            let data = data(line);
            assert_eq!((&data["code"], &data["lost"]), (&json!("SESSION_LOCKED"), &json!(true)), "{line}");
            assert_eq!((&data["pid"], &data["host"]), (&json!(7), &json!("elsewhere")), "{line}");
        };
        locked(&said[0]);
        locked(&said[1]);
        assert_eq!((&said[0]["id"], &said[1]["id"]), (&json!(2), &json!(3)));
        assert_eq!(said[2]["method"], "session/disposed");
        locked(&said[3]); // the read that has waited
        bench.hands.step(2);
        locked(&bench.ask("session/append", json!({"sessionId": "s", "type": "session/title", "data": {}})));
        locked(&bench.ask("session/flush", json!({"sessionId": "s"})));
        assert_eq!(bench.hands.stored("s"), 1, "nothing of it was stored");
        // It can be taken back.
        assert_eq!(bench.ask("session/load", json!({"sessionId": "s"}))["result"]["nextSeq"], 1);
        bench.append(5);
        assert_eq!(bench.step(), [5]);
    }
}
