//! What fuzzing has found, each by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::Value;
use sessiond::daemon::MemoryStorage;
use sessiond::rpc::{Server, Settings};
use sessiond::session::Limits;

/// A server over a store in memory, whose lines are answered at once.
struct Talk(Server);

impl Talk {
    fn new(limits: Limits) -> Self {
        let settings = Settings {
            clock: "fixed:1700000000000+1".parse().unwrap(),
            ids: "sequential".parse().unwrap(),
            limits,
            ..Settings::default()
        };
        Self(Server::new(settings, Box::new(MemoryStorage::default())))
    }

    /// The response to a request.
    fn call(&mut self, method: &str, params: &str) -> Value {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        self.0.receive(line.as_bytes());
        self.0.settle();
        let output = std::mem::take(self.0.output().unwrap());
        let mut responses = output
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|line| line["id"] == 1);
        responses.next().expect("a response")
    }
}

/// Storage reads these types as packed rows, which have another envelope: a log that held such an event
/// could not be loaded again (PROTOCOL 3, "what an append accepts, every later load accepts").
#[test]
#[ignore = "an append takes an ignorable event whose type is the tag of a storage row"]
fn tags_of_storage_rows_are_no_event_types() {
    let mut talk = Talk::new(Limits::default());
    talk.call("session/new", r#"{"sessionId":"s"}"#);
    for tag in ["text-chunks", "reasoning-chunks", "tool-call-chunks", "text-chunk\\u0073"] {
        let event = format!(r#""type":"{tag}","data":{{}},"ignorable":true"#);
        let single = talk.call("session/append", &format!(r#"{{"sessionId":"s",{event}}}"#));
        assert!(single["error"].is_object(), "{tag}: {single}");
        let batch =
            talk.call("session/append_batch", &format!(r#"{{"sessionId":"s","events":[{{{event}}}]}}"#));
        assert!(batch["error"].is_object(), "{tag}: {batch}");
        let seed = format!(r#"{{"seed":[{{{event},"seq":0,"time":0}}]}}"#);
        let seeded = talk.call("session/new", &seed);
        assert!(seeded["error"].is_object(), "{tag}: {seeded}");
    }
}

/// The closers of an open turn repeat a call's id three times and are not the client's to shorten: were
/// they held to the limit of an event, a log that every append accepted could not be loaded again.
#[test]
#[ignore = "closers are held to maxEventBytes: a session with a long call id cannot be interrupted or loaded"]
fn closers_are_not_held_to_the_limit_of_an_event() {
    let mut talk = Talk::new(Limits { max_event_bytes: 1_500, ..Limits::default() });
    talk.call("session/new", r#"{"sessionId":"s"}"#);
    let id = "c".repeat(500);
    for event in [
        r#""type":"turn/start","data":{"turn":1}"#.to_owned(),
        r#""type":"step/start","data":{"turn":1,"step":1}"#.to_owned(),
        format!(
            r#""type":"assistant/message","surfaceOp":"append","data":{{"turn":1,"step":1,"message":{{"role":"assistant","content":[{{"type":"tool-call","id":"{id}","name":"n","arguments":""}}],"source":{{"kind":"model","provider":"p","model":"m"}}}}}}"#
        ),
    ] {
        let answer = talk.call("session/append", &format!(r#"{{"sessionId":"s",{event}}}"#));
        assert!(answer["result"].is_object(), "{answer}");
    }
    talk.call("session/close", r#"{"sessionId":"s"}"#);
    let loaded = talk.call("session/load", r#"{"sessionId":"s"}"#);
    assert_eq!(loaded["result"]["repaired"]["closers"], 3, "{loaded}");
}

/// A repetition is of equal `ignorable` too (PROTOCOL 3, `expectedSeq`), and false is never stored.
#[test]
fn an_event_that_says_it_is_not_ignorable_repeats_none_that_is() {
    let mut talk = Talk::new(Limits::default());
    talk.call("session/new", r#"{"sessionId":"s"}"#);
    let append = |ignorable: &str| {
        format!(r#"{{"sessionId":"s","type":"my/event","data":1,"ignorable":{ignorable},"expectedSeq":0}}"#)
    };
    assert_eq!(talk.call("session/append", &append("true"))["result"]["seq"], 0);
    assert_eq!(talk.call("session/append", &append("true"))["result"]["duplicate"], true);
    for ignorable in ["false", "1", "\"true\"", "{}"] {
        let answer = talk.call("session/append", &append(ignorable));
        assert_eq!(answer["error"]["data"]["code"], "INVALID_EVENT", "{ignorable}: {answer}");
        assert_eq!(answer["error"]["data"]["pointer"], "/ignorable", "{answer}");
        let event = format!(r#"{{"type":"my/event","data":1,"ignorable":{ignorable}}}"#);
        let batch = format!(r#"{{"sessionId":"s","expectedSeq":0,"events":[{event}]}}"#);
        let answer = talk.call("session/append_batch", &batch);
        assert_eq!(answer["error"]["data"]["code"], "INVALID_EVENT", "{ignorable}: {answer}");
        assert_eq!(answer["error"]["data"]["index"], 0, "{answer}");
    }
}
