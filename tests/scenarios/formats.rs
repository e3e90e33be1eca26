//! Encodings, generations of the format, and payloads that other readers do not agree on.

use serde_json::{Value, json};
use sessiond::disk::read::zstd::FrameEncoder;

use super::kit::{Says, Store, header, lines, log, note, to, turn, turn_start};

/// A compressed log: a frame for the header and one for each part.
fn frames(parts: &[String]) -> Vec<Vec<u8>> {
    let mut encoder = FrameEncoder::new(3).unwrap();
    std::iter::once(&header("s")).chain(parts).map(|part| encoder.encode(part.as_bytes()).unwrap()).collect()
}

fn compressed(bytes: &[u8]) -> Store {
    let store = Store::new();
    store.put("--w--/s/session.jsonl.zstd", bytes);
    store
}

/// B167, B169: every frame to the end of the file; a cut one is a torn tail, and every event can be had as JSON lines
/// (`session/inspect`, `session/events`). `tests/disk/artifacts.rs` reads what the reference's own compressor wrote.
#[test]
fn multi_frame_decode() {
    let all = lines(&turn(1, &["c"]));
    let parts: Vec<String> = all.chunks(3).map(<[String]>::concat).collect();
    let frames = frames(&parts);
    let store = compressed(&frames.concat());
    let mut daemon = store.daemon();
    let inspected = daemon.ok("session/inspect", json!({"sessionId": "s"}));
    let logical: Vec<Value> = all.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(inspected["events"], json!(logical));
    daemon.ok("session/load", json!({"sessionId": "s"}));
    daemon.put("s", &[turn_start(2), note(0)]);
    daemon.ok("session/close", json!({"sessionId": "s"}));
    assert!(store.bytes("s").starts_with(&frames.concat()), "goes on in frames of its own");
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], all.len() + 3);

    let sound = frames[..2].concat();
    for cut in [1, frames[2].len() / 2, frames[2].len() - 5] {
        let store = compressed(&[&sound[..], &frames[2][..cut]].concat());
        let mut daemon = store.daemon();
        let inspected = daemon.ok("session/inspect", json!({"sessionId": "s"}));
        assert!(inspected["nextSeq"].as_u64().unwrap() >= 3, "the whole frames' events are there");
        assert_eq!(inspected["tornTail"]["offset"], sound.len(), "{cut}");
        assert_eq!(inspected["tornTail"]["bytes"], cut, "every byte is accounted for");
        daemon.ok("session/load", json!({"sessionId": "s"}));
        daemon.ok("session/append", to("s", &note(0)));
    }
}

/// B166: each session has its own encoding; one with both is odd, and harms no other.
#[test]
fn mixed_encoding_root() {
    let store = Store::with(log(&turn(1, &[])));
    let mut encoder = FrameEncoder::new(3).unwrap();
    let packed: Vec<Vec<u8>> = [header("z"), lines(&turn(1, &["c"])).concat()]
        .iter()
        .map(|part| encoder.encode(part.as_bytes()).unwrap())
        .collect();
    store.put("--w--/z/session.jsonl.zstd", packed.concat());
    store.put("--w--/both/session.jsonl", header("both"));
    store.put("--w--/both/session.jsonl.zstd", encoder.encode(header("both").as_bytes()).unwrap());
    let mut daemon = store.daemon();
    for (id, status) in [("s", "ok"), ("z", "ok"), ("both", "corrupt")] {
        let rows = daemon.rows(json!({"includeEmpty": true}));
        assert!(rows.iter().any(|row| row["sessionId"] == id && row["status"] == status), "{id}: {rows:?}");
    }
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 6);
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "z"}))["nextSeq"], 8);
    assert_eq!(daemon.err("session/load", json!({"sessionId": "both"})).0, "SESSION_CORRUPT");
    for id in ["s", "z"] {
        daemon.ok("session/append", to(id, &turn_start(2)));
    }
}

/// B067: ten thousand frames of one event. New logs are plain, where a write costs no frame; there is no compaction of
/// frames: a log is never rewritten.
#[test]
fn small_frames_overhead() {
    let events: Vec<Value> = (0..10_000).map(note).collect();
    let plain = log(&events).len();
    let bytes = frames(&lines(&events)).concat();
    assert!(bytes.len() < 2 * plain, "{} bytes for {plain}", bytes.len());
    let store = compressed(&bytes);
    let mut daemon = store.daemon();
    assert_eq!(daemon.row("s")["status"], "ok");
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 10_000);
    daemon.ok("session/append", to("s", &note("more")));
    daemon.ok("session/close", json!({"sessionId": "s"}));
    assert!(store.bytes("s").starts_with(&bytes));
    // The same events appended one by one to a new log, each made durable: the bytes of its lines and no more.
    daemon.new_with("t", &[]);
    let asked: Vec<u64> = (0..2000)
        .map(|n| {
            let mut params = to("t", &note(n));
            params["durable"] = json!(true);
            daemon.send("session/append", params)
        })
        .collect();
    asked.into_iter().for_each(|id| drop(daemon.answer(id).unwrap()));
    let text = String::from_utf8(store.bytes("t")).unwrap();
    let logical: usize = daemon.events("t").iter().map(|event| event.to_string().len() + 1).sum();
    assert_eq!(text.lines().skip(1).map(|line| line.len() + 1).sum::<usize>(), logical);
}

/// B163: a log of another version is listed as such, with the direction.
/// B165: a conversation whose stream was packed into rows, one whose deltas stand alone and one with none mean the same.
/// There is no later generation with embedded streams to read.
#[test]
fn format_generations() {
    for (version, word) in [("3", "newer"), ("-1", "older")] {
        let store = Store::with(
            String::from_utf8(log(&turn(1, &[])))
                .unwrap()
                .replace("\"version\":0", &format!("\"version\":{version}")),
        );
        let mut daemon = store.daemon();
        let row = daemon.row("s");
        assert_eq!(row["status"], "unsupported");
        assert!(row["reason"].as_str().unwrap().contains(word), "{row}");
    }
    let delta = |n: usize, text: &str| {
        format!(
            "{{\"type\":\"assistant/chunk\",\"seq\":{},\"time\":{},\"data\":{{\"turn\":1,\"step\":1,\"chunk\":{{\"type\":\"text-delta\",\"index\":0,\"text\":\"{text}\"}}}}}}\n",
            3 + n,
            1003 + n
        )
    };
    let events = turn(1, &[]);
    let all = lines(&events);
    let single: String = ["a", "b", "c"].iter().enumerate().map(|(n, text)| delta(n, text)).collect();
    let packed = "{\"type\":\"text-chunks\",\"seq0\":3,\"time0\":1003,\"data\":{\"turn\":1,\"step\":1,\"index\":0,\"dt\":[1,1],\"texts\":[\"a\",\"b\",\"c\"]}}\n";
    let rest = |by: usize| -> String {
        let line = |(n, line): (usize, &String)| {
            line.replace(&format!("\"seq\":{n}"), &format!("\"seq\":{}", n + by))
        };
        all.iter().enumerate().skip(3).map(line).collect()
    };
    let logs = [all[..3].concat() + &single + &rest(3), all[..3].concat() + packed + &rest(3), all.concat()];
    let read = |text: &String| {
        let store = Store::with(header("s") + text);
        let before = store.bytes("s");
        let mut daemon = store.daemon();
        daemon.ok("session/load", json!({"sessionId": "s"}));
        let seen = (daemon.events("s"), daemon.messages("s"));
        daemon.ok("session/append", to("s", &note(0)));
        assert!(store.bytes("s").starts_with(&before), "an old row keeps its bytes");
        seen
    };
    let [alone, rows, none] = [read(&logs[0]), read(&logs[1]), read(&logs[2])];
    assert_eq!(alone, rows);
    assert_eq!((alone.0.len(), &alone.1), (9, &none.1));
}

/// B172: `protocolVersion` is ACP's, where an agent answers with the version that it speaks; a client that cannot speak
/// it ends the connection. What is no number is refused.
#[test]
fn version_mismatch_list() {
    let store = Store::new();
    for version in [json!(99), json!(0), json!(1)] {
        let mut daemon = store.daemon();
        let params = json!({"protocolVersion": version, "clientCapabilities": {"_meta": {"sessiond": {}}}});
        let hello = daemon.ok("initialize", params);
        let ours = &hello["agentCapabilities"]["_meta"]["sessiond"];
        assert_eq!(
            (&hello["protocolVersion"], &ours["protocol"], &ours["formatVersion"]),
            (&json!(1), &json!(1), &json!(0))
        );
    }
    let mut daemon = store.daemon();
    assert_eq!(daemon.err("initialize", json!({"protocolVersion": "1"})).0, "INVALID_PARAMS");
    assert_eq!(daemon.err("initialize", json!({})).0, "INVALID_PARAMS");
    assert_eq!(daemon.ok("initialize", json!({"protocolVersion": 1}))["protocolVersion"], 1);
}

/// B151: a log that claims this version and holds what this version does not know is refused and left as it is.
#[test]
fn migration_checksum() {
    let foreign = "{\"type\":\"acme/required\",\"seq\":6,\"time\":1,\"data\":{}}\n";
    let store = Store::with([log(&turn(1, &[])), foreign.into()].concat());
    let before = store.files();
    let mut daemon = store.daemon();
    assert_eq!(daemon.row("s")["status"], "unsupported");
    let (code, data) = daemon.err("session/load", json!({"sessionId": "s"}));
    assert_eq!((code.as_str(), &data["direction"]), ("FORMAT_UNSUPPORTED", &json!("unknown")));
    daemon.end();
    assert_eq!(store.files(), before);
    let mut daemon = store.daemon();
    let meta = json!({"sessiond": {"eventTypes": [{"type": "acme/required", "required": true}]}});
    daemon.ok("initialize", json!({"protocolVersion": 1, "clientCapabilities": {"_meta": meta}}));
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 7, "declared, it opens");
}

/// B152: old shapes are read as new ones, in memory: nothing is migrated, so nothing can be half migrated.
#[test]
fn migration_data_loss() {
    let old = "{\"type\":\"turn/start\",\"seq\":0,\"time\":1,\"data\":{\"turn\":1,\"trigger\":{\"kind\":\"user\"}}}\n\
               {\"type\":\"user/message\",\"seq\":1,\"time\":2,\"data\":{\"content\":[],\"source\":{\"kind\":\"user\"}},\"surfaceOp\":\"append\"}\n";
    let store = Store::with(header("s") + old);
    let before = store.bytes("s");
    for round in 0..3 {
        let mut daemon = store.daemon();
        daemon.ok("session/load", json!({"sessionId": "s"}));
        let events = daemon.events("s");
        assert_eq!(events[0]["data"], json!({"turn": 1}));
        assert_eq!(events[1]["data"]["id"], "legacy-message:s:1");
        if round == 1 {
            daemon.ok("session/append", to("s", &note(0)));
        }
        daemon.kill();
        assert!(store.bytes("s").starts_with(&before), "{round}");
    }
}

/// B183: deep values are refused before anything is built of them, wherever they stand, and one at the limit loads.
#[test]
fn deep_nesting() {
    let store = Store::new();
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sessiond"));
    command.args(["serve", "--store", &format!("jsonl:{}", store.root().display())]);
    let mut daemon = crate::wire_support::Daemon::spawn(&mut command);
    daemon.call(1, "session/new", json!({"sessionId": "s", "cwd": "/w"}));
    let mut send = |id: u64, method: &str, params: String| -> Value {
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"");
        daemon.send(format!("{head}method\":\"{method}\",\"params\":{params}}}\n").as_bytes());
        loop {
            let line = daemon.line().unwrap(); // deeper than this reader goes, some of them
            if line.starts_with(&head) {
                return serde_json::from_str(&line).unwrap();
            }
        }
    };
    let append = |data: String| {
        format!("{{\"sessionId\":\"s\",\"type\":\"x/note\",\"ignorable\":true,\"data\":{data}}}")
    };
    let refused = send(2, "session/append", append(nested(100_000)));
    assert_eq!(refused["error"]["data"]["limit"], "maxDepth", "{refused}");
    assert!(refused["error"]["data"]["pointer"].as_str().is_none_or(|pointer| pointer.len() <= 256));
    for (id, method, params) in [
        (3, "session/list", format!("{{\"ignored\":{}}}", nested(100_000))),
        (4, "session/info", format!("{{\"sessionId\":\"s\",\"_meta\":{}}}", nested(100_000))),
        (5, "session/info", nested(100_000)),
        (6, "session/nothing", format!("{{\"x\":{}}}", nested(100_000))),
    ] {
        send(id, method, params); // answered, one way or the other
    }
    assert_eq!(send(7, "session/append", append(nested(1000)))["result"]["seq"], 0);
    assert_eq!(send(8, "session/append", append(nested(1001)))["error"]["data"]["max"], 1000);
    drop(daemon);
    let mut daemon = store.daemon();
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 1);
    let deeper = format!(
        "{{\"type\":\"x/note\",\"seq\":1,\"time\":1,\"data\":{},\"ignorable\":true}}\n",
        nested(100_000)
    );
    store.put("--w--/d/session.jsonl", header("d") + &deeper.replace("\"seq\":1", "\"seq\":0"));
    assert_eq!(daemon.err("session/load", json!({"sessionId": "d"})).0, "LIMIT_EXCEEDED");
    daemon.row("d");
}

/// B185, B187: PROTOCOL 3 keeps lone surrogate escapes as they came, as the reference does: nothing is refused or
/// replaced in the log. What leaves is valid UTF-8 always; only what is shown as ACP text gets U+FFFD.
#[test]
fn lone_surrogate() {
    let store = Store::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sessiond"));
    command.args(["serve", "--store", &format!("jsonl:{}", store.root().display())]);
    let mut daemon = crate::wire_support::Daemon::spawn(&mut command);
    daemon.call(0, "session/new", json!({"sessionId": "s", "cwd": "/w"}));
    let text = r#"half \ud83d of \ud83d\udc4b"#;
    for id in 1..=3_u64 {
        let said = if id == 2 { text } else { "whole" };
        let data = format!(
            r#"{{"id":"m{id}","role":"user","content":[{{"type":"text","text":"{said}"}}],"source":{{"kind":"user"}}}}"#
        );
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/append","params":{{"sessionId":"s","type":"user/message","data":{data},"surfaceOp":"append"}}}}"#
        );
        daemon.send((line + "\n").as_bytes());
        while !daemon.line().unwrap().starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result""#)) {}
    }
    for (from, to) in [(0, 1), (1, 2), (2, 3)] {
        daemon.request(9, "session/events", json!({"sessionId": "s", "fromSeq": from, "toSeq": to}));
        let page = loop {
            let line = daemon.line().unwrap(); // `line` is UTF-8, or there would be none
            if line.contains("\"id\":9") {
                break line;
            }
        };
        assert_eq!(page.contains(text), from == 1, "exactly, and in its own event alone: {page}");
    }
    daemon.request(10, "session/close", json!({"sessionId": "s"}));
    daemon.request(11, "session/load", json!({"sessionId": "s", "replay": "updates"}));
    daemon.close_stdin();
    let rest = daemon.rest_lines().concat();
    assert!(rest.contains("half \u{fffd} of \u{1F44B}") || rest.contains("half \\ufffd of"), "{rest}");
    assert!(String::from_utf8(store.bytes("s")).unwrap().contains(text));
}
