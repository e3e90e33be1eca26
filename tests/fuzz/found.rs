//! What fuzzing has found, each by itself.

use serde_json::{Value, json};
use sessiond::server::{Server, Settings, WireLimits};
use sessiond::session::Limits;
use sessiond::store::MemoryStorage;

/// A server over a store in memory, whose lines are answered at once.
struct Talk(Server);

impl Talk {
    fn new(limits: Limits) -> Self {
        Self::with(limits, WireLimits::default())
    }

    fn with(limits: Limits, wire: WireLimits) -> Self {
        let settings = Settings {
            clock: "fixed:1700000000000+1".parse().unwrap(),
            ids: "sequential".parse().unwrap(),
            limits,
            wire,
            ..Settings::default()
        };
        Self(Server::new(settings, Box::new(MemoryStorage::default())))
    }

    /// The response to a request.
    fn call(&mut self, method: &str, params: &str) -> Value {
        serde_json::from_str(&self.raw(method, params)).unwrap()
    }

    /// The same as it came.
    fn raw(&mut self, method: &str, params: &str) -> String {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        self.0.receive(line.as_bytes());
        self.0.settle();
        let output = std::mem::take(self.0.output().unwrap());
        output.lines().find(|line| line.contains("\"id\":1,")).expect("a response").to_owned()
    }
}

/// A session with a turn in which a call of that id is open.
fn open_turn(talk: &mut Talk, id: &str) {
    talk.call("session/new", r#"{"sessionId":"s"}"#);
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
}

/// Storage reads these types as packed rows, which have another envelope: a log that held such an event
/// could not be loaded again (PROTOCOL 3, "what an append accepts, every later load accepts").
#[test]
fn tags_of_storage_rows_are_no_event_types() {
    let mut talk = Talk::new(Limits::default());
    talk.call("session/new", r#"{"sessionId":"s"}"#);
    let is_refused = |answer: &Value| {
        let data = &answer["error"]["data"];
        assert_eq!(
            (&data["code"], &data["rule"]),
            (&json!("INVALID_EVENT"), &json!("ROW_ENVELOPE")),
            "{answer}"
        );
        assert_eq!(data["pointer"], "/type", "{answer}");
    };
    for tag in ["text-chunks", "reasoning-chunks", "tool-call-chunks", "text-chunk\\u0073"] {
        let event = format!(r#""type":"{tag}","data":{{}},"ignorable":true"#);
        let single = talk.call("session/append", &format!(r#"{{"sessionId":"s",{event}}}"#));
        is_refused(&single);
        let batch =
            talk.call("session/append_batch", &format!(r#"{{"sessionId":"s","events":[{{{event}}}]}}"#));
        is_refused(&batch);
        let seed = format!(r#"{{"seed":[{{{event},"seq":0,"time":0}}]}}"#);
        let seeded = talk.call("session/new", &seed);
        is_refused(&seeded);
        let bare = format!(r#"{{"sessionId":"s","type":"{tag}","data":{{}}}}"#);
        is_refused(&talk.call("session/append", &bare));
        for required in [true, false] {
            let types = format!(r#"[{{"type":"{tag}","required":{required}}}]"#);
            let own = format!(r#"{{"_meta":{{"sessiond":{{"eventTypes":{types}}}}}}}"#);
            let hello = format!(r#"{{"protocolVersion":1,"clientCapabilities":{own}}}"#);
            let answer = Talk::new(Limits::default()).call("initialize", &hello);
            assert_eq!(answer["error"]["data"]["code"], "INVALID_PARAMS", "{answer}");
        }
    }
}

/// The closers of an open turn repeat a call's id three times and are not the client's to shorten: were
/// they held to the limit of an event, a log that every append accepted could not be loaded again.
#[test]
fn closers_are_not_held_to_the_limit_of_an_event() {
    let mut talk = Talk::new(Limits { max_event_bytes: 1_500, ..Limits::default() });
    open_turn(&mut talk, &"c".repeat(500));
    talk.call("session/close", r#"{"sessionId":"s"}"#);
    let loaded = talk.call("session/load", r#"{"sessionId":"s"}"#);
    assert_eq!(loaded["result"]["repaired"]["closers"], 3, "{loaded}");
    // What was written so is read, copied and planted again, also where a limit is lower by now.
    talk.call("session/close", r#"{"sessionId":"s"}"#);
    let again = talk.call("session/load", r#"{"sessionId":"s"}"#);
    assert_eq!(again["result"]["nextSeq"], 6, "{again}");
    let snapshot = talk.raw("session/snapshot", r#"{"sessionId":"s"}"#);
    let seed = snapshot.split_once("\"seed\":").unwrap().1.split_once("],\"meta\"").unwrap().0;
    let seeded = |seed: &str| format!("{{\"seed\":{seed}]}}");
    let planted = talk.call("session/new", &seeded(seed));
    assert_eq!(planted["result"]["firstLiveSeq"], 6, "{planted}");
    let mut low = Talk::new(Limits { max_event_bytes: 1_500, max_depth: 5, ..Limits::default() });
    let planted = low.call("session/new", &seeded(seed));
    assert_eq!(planted["result"]["firstLiveSeq"], 6, "{planted}");
    // One that is not the closer due at its place is held to the limit as any event.
    for (own, other) in [("interrupted-tool-result-", "result-"), ("ToolNotStartedError", "OtherError")] {
        let seed = seed.replace(own, other);
        let refused = talk.call("session/new", &seeded(&seed));
        let data = &refused["error"]["data"];
        assert_eq!((&data["limit"], &data["index"]), (&json!("maxEventBytes"), &json!(3)), "{refused}");
    }
}

/// The same at the current time; and what no line could announce is not committed.
#[test]
fn an_interrupt_closes_a_call_with_a_long_id() {
    for (length, closes) in [(5_000, true), (30_000, false)] {
        let limits = Limits { max_event_bytes: 40_000, ..Limits::default() };
        let wire = WireLimits { max_message_bytes: 64 << 10, ..WireLimits::default() };
        let mut talk = Talk::with(limits, wire);
        open_turn(&mut talk, &"c".repeat(length));
        let done = talk.call("session/interrupt", r#"{"sessionId":"s"}"#);
        if closes {
            assert_eq!(done["result"], json!({"firstSeq": 3, "count": 3}), "{done}");
        } else {
            assert_eq!(done["error"]["data"]["limit"], "maxMessageBytes", "{done}");
            for event in [
                r#""type":"step/end","data":{"turn":1,"step":1}"#,
                r#""type":"turn/end","data":{"turn":1,"reason":{"kind":"interrupted"}}"#,
            ] {
                let answer = talk.call("session/append", &format!(r#"{{"sessionId":"s",{event}}}"#));
                assert!(answer["result"].is_object(), "{answer}");
            }
        }
        let done = talk.call("session/interrupt", r#"{"sessionId":"s"}"#);
        assert_eq!(done["result"]["count"], 0, "{done}");
    }
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
