//! Does the daemon keep its word to a client that is fast, broken or in a hurry?

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::process::Command;

use serde_json::{Value, json};

use crate::wire_support::{Daemon, line, title};

#[test]
fn very_many_appends_through_one_pipe_are_answered_in_order() {
    const APPENDS: u64 = 200_000;
    let mut daemon = Daemon::start(&[]);
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || {
        let mut chunk = String::new();
        for id in 1..=APPENDS {
            chunk.push_str(&title(id, "s", json!(id)));
            if chunk.len() > 50_000 || id == APPENDS {
                stdin.write_all(chunk.as_bytes()).unwrap();
                chunk.clear();
            }
        }
    });
    assert_eq!(daemon.json()["method"], "session/created");
    for id in 1..=APPENDS {
        let (seq, event, answer) = (id - 1, daemon.line().unwrap(), daemon.line().unwrap());
        let prefix = format!(
            r#"{{"jsonrpc":"2.0","method":"session/event","params":{{"sessionId":"s","event":{{"type":"session/title","seq":{seq},"#
        );
        assert!(event.starts_with(&prefix) && event.ends_with(&format!(r#","data":{id}}}}}}}"#)), "{event}");
        assert!(
            answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"seq":{seq},"#)),
            "{answer}"
        );
    }
    writer.join().unwrap();
    // Stdin is closed by now.
    assert_eq!(daemon.line(), None);
    assert!(daemon.status().success());
}

/// The window of a group commit is the daemon's own affair: nothing has to be asked for it to end (PROTOCOL 3).
#[test]
fn what_is_written_becomes_durable_though_nothing_else_is_asked() {
    let store = tempfile::tempdir().unwrap();
    let place = format!("jsonl:{}", store.path().display());
    for window in ["1", "30"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
        let mut daemon = Daemon::spawn(command.args(["serve", "--store", &place, "--sync-window", window]));
        let session = format!("s{window}");
        daemon.call(0, "session/new", json!({"sessionId": session}));
        for seq in 0..4 {
            daemon.send(title(seq, &session, json!({})).as_bytes());
            while let told = daemon.json()
                && (&told["method"], &told["params"]["durableSeq"])
                    != (&json!("session/durable"), &json!(seq))
            {}
        }
    }
}

#[test]
fn after_every_kind_of_bad_line_the_next_request_is_answered() {
    let mut daemon = Daemon::start(&[]);
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    let mut id = 0;
    let mut expect = |bytes: &[u8], code: Option<&str>| {
        id += 1;
        daemon.send(bytes);
        daemon.send(b"\n");
        daemon.request(id, "session/info", json!({"sessionId": "s"}));
        let mut codes = Vec::new();
        loop {
            let line = daemon.json();
            if line.get("id").and_then(Value::as_u64) == Some(id) {
                assert_eq!(line["result"]["nextSeq"], 0, "{line}");
                break;
            }
            codes.extend(line.pointer("/error/data/code").and_then(Value::as_str).map(str::to_owned));
        }
        match code {
            Some(code) => assert_eq!(codes, [code]),
            None => assert!(codes.is_empty(), "{codes:?}"),
        }
    };
    let append = |data: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"x","method":"session/append","params":{{"sessionId":"s","type":"session/title","data":{data}}}}}"#
        )
    };
    let nested =
        |open: &str, close: &str, depth: usize| format!("{}0{}", open.repeat(depth), close.repeat(depth));
    expect(append(&nested("[", "]", 100_000)).as_bytes(), Some("LIMIT_EXCEEDED"));
    expect(append(&nested(r#"{"a":"#, "}", 100_000)).as_bytes(), Some("LIMIT_EXCEEDED"));
    expect(append(&"[".repeat(100_000)).as_bytes(), Some("PARSE_ERROR"));
    expect("[".repeat(1 << 20).as_bytes(), Some("PARSE_ERROR"));
    expect(nested("[", "]", 100_000).as_bytes(), Some("INVALID_REQUEST"));
    let deep = nested("[", "]", 100_000);
    for (method, member) in [
        ("session/new", "meta"),
        ("session/new", "cwd"),
        ("session/events", "types"),
        ("session/messages", "since"),
        ("session/append", "expectedSeq"),
        ("session/info", "other"),
    ] {
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":"x","method":"{method}","params":{{"sessionId":"s","{member}":{deep}}}}}"#
        );
        expect(request.as_bytes(), Some("INVALID_PARAMS"));
    }
    expect(
        format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"session/list"}}"#).as_bytes(),
        Some("INVALID_REQUEST"),
    );
    expect(append(&format!("\"{}\"", "x".repeat(40 << 20))).as_bytes(), Some("MESSAGE_TOO_LARGE"));
    expect(append(&format!("\"{}\"", "x".repeat(20 << 20))).as_bytes(), Some("LIMIT_EXCEEDED"));
    expect(b"\xff\xfe{}", Some("PARSE_ERROR"));
    expect(b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\x28\"}", Some("PARSE_ERROR"));
    expect(b"\xed\xa0\x80", Some("PARSE_ERROR")); // a surrogate in UTF-8
    expect(b"\0\0\0", Some("PARSE_ERROR"));
    expect(b"", None);
    expect(b" \t ", None);
    expect(b"\r", None);
    let long_id = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"session/list"}}"#, "i".repeat(1_023));
    expect(long_id.as_bytes(), Some("INVALID_REQUEST"));
    let many: Vec<String> = (0..200_000).map(|n| format!("\"k{n}\":0")).collect();
    expect(
        format!(r#"{{"jsonrpc":"2.0","id":"x","method":"session/info","params":{{{}}}}}"#, many.join(","))
            .as_bytes(),
        Some("INVALID_PARAMS"),
    );
}

/// Bytes that repeat.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn random_bytes_and_mangled_requests_never_end_the_connection() {
    let mut daemon = Daemon::start(&["--max-message-bytes", "65536"]);
    let good = [
        line(1, "session/new", json!({"sessionId": "s", "seed": [], "meta": {"cwd": "/w"}})),
        title(1, "s", json!({"a": [1, -0.0, "\u{2028}"]})),
        line(1, "session/fork", json!({"sessionId": "s", "boundary": 0, "onOpenTurn": "clip"})),
        line(1, "session/events", json!({"sessionId": "s", "types": ["x"], "limit": 3})),
        line(
            1,
            "session/append_batch",
            json!({"sessionId": "s", "events": [{"type": "turn/start", "data": {}}]}),
        ),
    ];
    let mut noise = Noise(0x9E37_79B9_7F4A_7C15);
    let mut bytes = Vec::new();
    for round in 0..6_000 {
        let mut line: Vec<u8> = match round % 3 {
            0 => (0..noise.next() % 60).map(|_| noise.next() as u8).collect(),
            _ => good[noise.next() as usize % good.len()].clone().into_bytes(),
        };
        for _ in 0..noise.next() % 4 {
            let at = noise.next() as usize % (line.len() + 1);
            match noise.next() % 3 {
                0 => line.insert(at, noise.next() as u8),
                1 => line.insert(at, b"{}[]\",:\\0-"[noise.next() as usize % 10]),
                _ if at < line.len() => _ = line.remove(at),
                _ => {}
            }
        }
        bytes.extend(line);
    }
    bytes.extend(b"\n");
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || {
        stdin.write_all(&bytes).unwrap();
        stdin.write_all(line(424_242, "session/list", json!({})).as_bytes()).unwrap();
        stdin
    });
    // Every line that comes is JSON-RPC; none says that a bug was met.
    loop {
        let line = daemon.json();
        assert_eq!(line["jsonrpc"], "2.0");
        assert_ne!(line.pointer("/error/code"), Some(&json!(-32603)), "{line}");
        if line.get("id").and_then(Value::as_u64) == Some(424_242) {
            break;
        }
    }
    drop(writer.join().unwrap());
    while daemon.line().is_some() {}
    assert!(daemon.status().success());
}

/// Reads everything and holds it to the order of PROTOCOL 1: a session is named only once a response has
/// told of it, an event comes before its answer and exactly once, in seq order.
struct Order {
    told: HashSet<String>,
    next: HashMap<String, u64>,
    announced: HashSet<(String, u64)>,
}

impl Order {
    fn check(&mut self, line: &Value, asked: &HashMap<u64, (String, &'static str)>) {
        let params = &line["params"];
        if let Some(method) = line["method"].as_str() {
            let session = params["sessionId"].as_str().unwrap().to_owned();
            assert!(self.told.contains(&session), "{session} was not told of: {line}");
            match method {
                "session/created" => {
                    let next = params["nextSeq"].as_u64().unwrap();
                    assert_eq!(*self.next.entry(session).or_insert(next), next, "{line}");
                }
                "session/event" => {
                    let seq = params["event"]["seq"].as_u64().unwrap();
                    let next = self.next.get_mut(&session).unwrap();
                    assert_eq!(*next, seq, "{line}");
                    *next += 1;
                    assert!(self.announced.insert((session, seq)), "{line}");
                }
                _ => {}
            }
            return;
        }
        let (session, method) = &asked[&line["id"].as_u64().unwrap()];
        let result = line.get("result").unwrap_or_else(|| panic!("{method} of {session}: {line}"));
        match *method {
            "session/new" | "session/fork" => {
                assert!(self.told.insert(session.clone()));
            }
            "session/append" => {
                let key = (session.clone(), result["seq"].as_u64().unwrap());
                assert!(self.announced.contains(&key), "answered before it was announced: {line}");
            }
            _ => {}
        }
    }
}

#[test]
fn many_sessions_through_one_pipe_keep_their_order() {
    let mut daemon = Daemon::start(&[]);
    let mut asked: HashMap<u64, (String, &'static str)> = HashMap::new();
    let mut bytes = String::new();
    let mut ask = |session: &str, method: &'static str, params: Value| {
        let id = asked.len() as u64;
        bytes.push_str(&line(id, method, params));
        asked.insert(id, (session.to_owned(), method));
    };
    let mut noise = Noise(7);
    let mut sessions = vec!["s0".to_owned()];
    ask("s0", "session/new", json!({"sessionId": "s0"}));
    for n in 1..6_000 {
        let session = sessions[noise.next() as usize % sessions.len()].clone();
        match noise.next() % 20 {
            0 => {
                let child = format!("s{n}");
                ask(&child, "session/fork", json!({"sessionId": session, "childSessionId": child}));
                // In the same breath, before anybody has answered.
                ask(
                    &child,
                    "session/append",
                    json!({"sessionId": child, "type": "session/title", "data": n}),
                );
                sessions.push(child);
            }
            1 => {
                let fresh = format!("s{n}");
                ask(&fresh, "session/new", json!({"sessionId": fresh}));
                sessions.push(fresh);
            }
            2 => ask(&session, "session/events", json!({"sessionId": session, "limit": 2, "reverse": true})),
            3 => ask(&session, "session/list", json!({"limit": 1})),
            _ => ask(
                &session,
                "session/append",
                json!({"sessionId": session, "type": "session/title", "data": {"n": n}}),
            ),
        }
    }
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || stdin.write_all(bytes.as_bytes()).unwrap());
    let mut order = Order { told: HashSet::new(), next: HashMap::new(), announced: HashSet::new() };
    let mut answered = HashSet::new();
    while let Some(line) = daemon.line() {
        let line: Value = serde_json::from_str(&line).unwrap();
        order.check(&line, &asked);
        if let Some(id) = line.get("id").and_then(Value::as_u64) {
            assert!(answered.insert(id), "answered twice: {line}");
        }
    }
    writer.join().unwrap();
    assert_eq!(answered.len(), asked.len());
    assert!(daemon.status().success());
}

#[test]
fn closing_and_loading_in_one_breath_works() {
    let mut daemon = Daemon::start(&[]);
    let mut bytes = line(0, "session/new", json!({"sessionId": "s"}));
    for round in 0..500 {
        let id = 1 + 4 * round;
        bytes.push_str(&title(id, "s", json!(round)));
        bytes.push_str(&line(id + 1, "session/close", json!({"sessionId": "s"})));
        bytes.push_str(&line(id + 2, "session/load", json!({"sessionId": "s"})));
        bytes.push_str(&line(id + 3, "session/list", json!({})));
    }
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || stdin.write_all(bytes.as_bytes()).unwrap());
    let mut last = Value::Null;
    while let Some(line) = daemon.line() {
        last = serde_json::from_str(&line).unwrap();
        assert!(last.get("error").is_none(), "{last}");
    }
    writer.join().unwrap();
    assert_eq!(last["result"]["sessions"][0]["live"], true);
    assert!(daemon.status().success());
}

#[test]
fn the_texts_of_a_header_cannot_fill_a_line() {
    let mut daemon = Daemon::start(&[]);
    for (id, field, params) in [
        (1, "cwd", json!({"sessionId": "s", "cwd": format!("/{}", "c".repeat(5_000))})),
        (2, "meta.agentPreset", json!({"sessionId": "s", "meta": {"agentPreset": "\u{1}".repeat(5_000)}})),
        (3, "meta.parentSession", json!({"sessionId": "s", "meta": {"parentSession": "p".repeat(5_000)}})),
    ] {
        assert_eq!(daemon.call(id, "session/new", params)["error"]["data"]["field"], field);
    }
    assert_eq!(daemon.call(4, "session/new", json!({"sessionId": "s"}))["result"]["nextSeq"], 0);
}

#[test]
fn no_log_level_shows_a_payload() {
    const SECRET: &str = "a-secret-of-the-user";
    let mut daemon = Daemon::start(&["--log", "trace"]);
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    let event = |data: Value| json!({"sessionId": "s", "type": "session/title", "data": data});
    daemon.call(1, "session/append", event(json!({ "title": SECRET })));
    let mut odd = event(json!({ "title": SECRET }));
    odd["expectedSeq"] = json!(SECRET);
    daemon.call(2, "session/append", odd);
    daemon.call(3, "session/events", json!({"sessionId": "s", "limit": [SECRET]}));
    daemon.send(format!("{{\"{SECRET}\n").as_bytes());
    daemon.send(
        b"{\"jsonrpc\":\"2.0\",\"method\":\"session/flush\",\"params\":{\"x\":\"a-secret-of-the-user\"}}\n",
    );
    daemon.close_stdin();
    while daemon.line().is_some() {}
    assert!(daemon.status().success());
    assert!(!daemon.log().contains(SECRET));
}

#[test]
fn at_trace_each_request_has_one_line_of_the_log() {
    let store = tempfile::tempdir().unwrap();
    let place = format!("jsonl:{}", store.path().display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    let mut daemon = Daemon::spawn(command.args(["serve", "--store", &place, "--log", "trace"]));
    let note = |title: &str| json!({"sessionId": "s", "type": "session/title", "data": {"title": title}});
    let s = || json!({"sessionId": "s"});
    let calls = [
        ("session/new", s()),
        ("session/append", note("hidden")),
        ("session/close", s()), // it waits for storage, and so do the next ones
        ("session/load", s()),
        ("_session/info", s()),
        ("session/list", json!({})),
        ("session/none", json!({"hidden": 1})),
    ];
    for (id, (method, params)) in calls.iter().enumerate() {
        daemon.request(id as u64, method, params.clone());
    }
    daemon.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":99}}\n");
    daemon.close_stdin();
    while daemon.line().is_some() {}
    assert!(daemon.status().success());
    let log = daemon.log();
    assert!(!log.contains("hidden") && log.lines().count() == calls.len(), "{log}");
    for (id, (method, params)) in calls.iter().enumerate() {
        let session = params.get("sessionId").map_or("-".to_owned(), Value::to_string);
        let told = format!("request method={method:?} id={id} session={session} us=");
        assert_eq!(log.lines().filter(|line| line.contains(&told)).count(), 1, "{told}: {log}");
    }
}

#[test]
fn a_recording_replays() {
    let dir = tempfile::tempdir().unwrap();
    for store in ["memory:".to_owned(), format!("jsonl:{}", dir.path().join("store").display())] {
        let file = dir.path().join(if store == "memory:" { "memory.txt" } else { "disk.txt" });
        let mut serve = Command::new(env!("CARGO_BIN_EXE_sessiond"));
        serve.args(["serve", "--record", file.to_str().unwrap(), "--clock", "fixed:1000+1"]);
        serve.args(["--ids", "sequential", "--store", &store]);
        let mut daemon = Daemon::spawn(&mut serve);
        daemon.call(0, "session/new", json!({"sessionId": "s"}));
        daemon.send(title(1, "s", json!({"title": "t"})).as_bytes());
        daemon.close_stdin();
        while daemon.line().is_some() {}
        assert!(daemon.status().success());
        let replay = Command::new(env!("CARGO_BIN_EXE_sessiond")).arg("replay").arg(&file).output().unwrap();
        assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stdout));
    }
}
