//! Logs that lost or gained bytes: what opens, what is refused with its place, and that one never harms another.

use serde_json::{Value, json};

use super::kit::{
    Says, Store, assistant, header, lines, log, note, step_start, to, tool_call, tool_result, turn,
    turn_start, user,
};
use crate::dur_support::process::Daemon;

/// A conversation of so many turns, as lines behind the header.
fn long(turns: u64) -> Vec<String> {
    let events: Vec<Value> = (1..=turns).flat_map(|number| turn(number, &[])).collect();
    let mut all = vec![header("s")];
    all.extend(lines(&events));
    all
}

/// What list, inspect, load and verify say of `s`: its status, the events read, and how a load is refused.
fn told(store: &Store) -> (String, u64, Option<Value>, String) {
    let before = store.files();
    let mut daemon = store.daemon();
    let status = daemon.row("s")["status"].as_str().unwrap().to_owned();
    let next = daemon.ok("session/inspect", json!({"sessionId": "s"}))["nextSeq"].as_u64().unwrap();
    let load = daemon.call("session/load", json!({"sessionId": "s"})).err();
    daemon.kill();
    let verified = store.run(&["verify", "--json"]);
    let first: Value =
        serde_json::from_slice(verified.stdout.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let logs = |files: std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| {
        files.into_iter().filter(|(path, _)| path.ends_with("session.jsonl")).collect::<Vec<_>>()
    };
    assert_eq!(logs(store.files()), logs(before), "looking changes nothing");
    (status, next, load.map(|error| error["data"].clone()), first["status"].as_str().unwrap().to_owned())
}

/// B017: cut within a character is a torn tail; a byte that is not UTF-8 before a committed turn end is damage.
#[test]
fn invalid_utf8_tail() {
    let whole = log(&[note("first"), note("wave \u{1F44B}")]);
    let emoji = whole.windows(4).rposition(|bytes| bytes == "\u{1F44B}".as_bytes()).unwrap();
    for cut in emoji + 1..emoji + 4 {
        let store = Store::with(&whole[..cut]);
        let mut daemon = store.daemon();
        let opened = daemon.ok("session/load", json!({"sessionId": "s"}));
        assert_eq!(opened["nextSeq"], 1);
        assert!(opened["repaired"]["cutBytes"].as_u64().unwrap() > 0);
        daemon.ok("session/append", to("s", &note(1)));
    }
    let lines = long(2);
    let at: usize = lines[..3].iter().map(String::len).sum();
    let mut damaged = lines.concat().into_bytes();
    damaged[at + 50] = 0xFF;
    let (status, next, refused, verified) = told(&Store::with(damaged));
    let refused = refused.unwrap();
    assert_eq!((status.as_str(), verified.as_str(), next), ("corrupt", "corrupt", 2));
    assert_eq!((&refused["line"], &refused["offset"]), (&json!(4), &json!(at)));
}

/// B018, B019: NULs at the end are a torn tail, in the middle damage with its offset; all readers agree.
#[test]
fn nul_blocks() {
    let lines = long(2);
    let mut tail = lines.concat().into_bytes();
    let (events, whole) = (lines.len() as u64 - 1, tail.len());
    tail.extend([0; 64 << 10]);
    let store = Store::with(&tail);
    let (_, next, refused, verified) = told(&store);
    assert_eq!((next, refused, verified.as_str()), (events, None, "repairable"));
    let mut daemon = store.daemon();
    let opened = daemon.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(opened["repaired"]["cutBytes"], 64 << 10);
    let warnings = daemon.ok("session/info", json!({"sessionId": "s"}))["warnings"].clone();
    assert!(!warnings.as_array().unwrap().is_empty());
    daemon.ok("session/append", to("s", &note(0)));
    assert!(!store.bytes("s").contains(&0));
    let saved = format!("session.jsonl.cut-{whole}");
    assert_eq!(std::fs::read(store.log("s").with_file_name(saved)).unwrap(), [0; 64 << 10]);

    for count in [1, 4 << 10] {
        let middle =
            [lines[..4].concat().as_bytes(), &vec![0; count], lines[4..].concat().as_bytes()].concat();
        let store = Store::with(middle);
        let (status, next, refused, verified) = told(&store);
        assert_eq!((status.as_str(), verified.as_str(), next), ("corrupt", "corrupt", 3));
        assert_eq!(refused.unwrap()["offset"], lines[..4].concat().len());
        assert!(store.run(&["repair", "s"]).status.success(), "what is before it can be had");
        assert_eq!(
            store.daemon().ok("session/load", json!({"sessionId": "s"}))["nextSeq"],
            5,
            "with the closers"
        );
    }
}

/// B035: blank lines are damage with a line number, wherever they stand.
#[test]
fn bad_line_freezes_ui() {
    let lines = long(1);
    for blank in ["\n", "    \n", "\r\n", "\n\n\n"] {
        let store = Store::with(lines[..3].concat() + blank + &lines[3..].concat());
        let (status, next, refused, verified) = told(&store);
        assert_eq!((status.as_str(), verified.as_str(), next), ("corrupt", "corrupt", 2), "{blank:?}");
        assert_eq!(refused.unwrap()["line"], 4, "{blank:?}");
        let (_, next, refused, _) = told(&Store::with(lines.concat() + blank));
        assert_eq!((next, refused), (lines.len() as u64 - 1, None), "{blank:?}: a torn tail");
    }
}

/// B037: everything that is derived is garbage, and one log is: the daemon starts, says so of that one, reads the rest.
#[test]
fn corrupt_db_blocks_start() {
    let store = Store::with("garbage\n".repeat(100));
    let mut daemon = store.daemon();
    for id in ["a", "b"] {
        daemon.new_with(id, &turn(1, &["c"]));
        daemon.ok("session/close", json!({"sessionId": id}));
    }
    daemon.end();
    for (id, garbage) in [("a", vec![0xFF; 4096]), ("b", b"{\"size\":1}\n".to_vec())] {
        for name in ["session.summary.json", "session.owner"] {
            store.put(&format!("--w--/{id}/{name}"), &garbage);
        }
    }
    let mut daemon = store.daemon();
    assert_eq!(daemon.row("s")["status"], "corrupt");
    assert_eq!(daemon.err("session/load", json!({"sessionId": "s"})).0, "SESSION_CORRUPT");
    for id in ["a", "b"] {
        assert_eq!(daemon.row(id)["status"], "ok");
        assert_eq!(daemon.ok("session/load", json!({"sessionId": id}))["nextSeq"], 8);
        assert_eq!(daemon.messages(id).len(), 3);
    }
}

/// B038: places without a log, with an empty one, or with a file that never got its name.
#[test]
fn empty_files_and_cleanup() {
    let store = Store::new();
    std::fs::create_dir_all(store.root().join("--w--/bare")).unwrap();
    store.put("--w--/empty/session.jsonl", "");
    store.put("--w--/headless/session.jsonl", "{\"type\":\"ses");
    store.put("--w--/temp/session.jsonl.0123456789ab.tmp", "x");
    let mut daemon = store.daemon();
    daemon.new_with("good", &turn(1, &[]));
    daemon.ok("session/close", json!({"sessionId": "good"}));
    for id in ["empty", "headless"] {
        let row = daemon.row(id);
        assert_eq!(row["status"], "corrupt");
        assert!(!row["reason"].as_str().unwrap().is_empty());
        assert_eq!(daemon.err("session/load", json!({"sessionId": id})).0, "SESSION_CORRUPT");
    }
    assert_eq!(
        daemon.rows(json!({"includeEmpty": true})).len(),
        3,
        "a directory without a log is no session"
    );
    for id in ["bare", "temp"] {
        assert_eq!(daemon.err("session/load", json!({"sessionId": id})).0, "SESSION_NOT_FOUND");
    }
    let text = String::from_utf8(store.run(&["verify"]).stdout).unwrap();
    assert!(text.contains("2 directories without a log"), "{text}");
    for id in ["empty", "headless", "bare", "temp"] {
        daemon.ok("session/delete", json!({"sessionId": id}));
    }
    assert_eq!(daemon.rows(json!({"includeEmpty": true})).len(), 1);
    // A place whose session was never written is free for a new one.
    daemon.new_with("temp", &[note(0)]);
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "good"}))["nextSeq"], 4 + 2);
}

/// B042: a byte lost in line 70 of 100 is named, shown, and what is before it kept.
#[test]
fn no_repair_tool() {
    let mut all = long(17);
    all.truncate(100);
    let mut bytes = all.concat().into_bytes();
    let at: usize = all[..69].iter().map(String::len).sum();
    bytes[at + 10] = 0;
    let store = Store::with(&bytes);
    let (_, next, refused, _) = told(&store);
    assert_eq!((next, &refused.unwrap()["line"]), (68, &json!(70)));
    assert_eq!(store.run(&["verify"]).status.code(), Some(1));
    let dry = store.run(&["repair", "s", "--dry-run"]);
    let text = String::from_utf8(dry.stdout).unwrap();
    assert!(text.contains("68 events would be kept, lines 1 to 69"), "{text}");
    assert_eq!(store.bytes("s"), bytes);
    assert!(store.run(&["repair", "s"]).status.success());
    assert_eq!(std::fs::read(store.log("s").with_file_name("session.jsonl.backup-1")).unwrap(), bytes);
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "s"}));
    assert!(daemon.events("s").len() >= 68);
    assert!(store.bytes("s").starts_with(all[..69].concat().as_bytes()));
}

/// B045: a byte order mark before one header is that session's own damage; all others are as they were.
#[test]
fn one_bad_file_blocks_all() {
    let store = Store::with("\u{feff}".to_owned() + &long(1).concat());
    let mut daemon = store.daemon();
    for n in 0..5 {
        daemon.new_with(&format!("good{n}"), &turn(1, &[]));
        daemon.ok("session/close", json!({"sessionId": format!("good{n}")}));
    }
    let bytes = store.bytes("s");
    assert_eq!(daemon.row("s")["status"], "corrupt");
    let (code, data) = daemon.err("session/load", json!({"sessionId": "s"}));
    assert_eq!((code.as_str(), &data["line"]), ("SESSION_CORRUPT", &json!(1)));
    for n in 0..5 {
        let id = format!("good{n}");
        assert_eq!(daemon.row(&id)["status"], "ok");
        daemon.ok("session/load", json!({"sessionId": id}));
        daemon.ok("session/append", to(&id, &turn_start(2)));
    }
    daemon.end();
    assert_eq!(store.bytes("s"), bytes, "and nobody writes to it");
}

/// B047: an id that is not there and one that is damaged are two errors, and neither makes anything.
#[test]
fn silent_new_session() {
    let store = Store::with("garbage\n");
    let before = store.files();
    let mut daemon = store.daemon();
    for method in ["session/load", "session/resume", "session/inspect"] {
        assert_eq!(daemon.err(method, json!({"sessionId": "nope"})).0, "SESSION_NOT_FOUND");
        assert_eq!(daemon.err(method, json!({"sessionId": "s"})).0, "SESSION_CORRUPT");
    }
    for method in ["session/append", "session/fork", "session/events", "session/flush"] {
        let mut params = json!({"sessionId": "nope"});
        if method == "session/append" {
            params = to("nope", &note(0));
        }
        assert_eq!(daemon.err(method, params).0, "SESSION_NOT_FOUND", "{method}");
    }
    daemon.end();
    assert_eq!(store.files(), before);
    assert_eq!(std::fs::read_dir(store.root().join("--w--")).unwrap().count(), 1);
}

/// B050: over a limit is said so, of that session; it is not damage, and hides nothing.
#[test]
fn size_reported_as_corruption() {
    let store = too_large();
    let mut daemon = store.daemon_with(&LOW);
    for id in ["big", "deep"] {
        assert_eq!(daemon.err("session/load", json!({"sessionId": id})).0, "LIMIT_EXCEEDED", "{id}");
        daemon.row(id);
    }
    assert_eq!(daemon.row("small")["status"], "ok");
    daemon.ok("session/load", json!({"sessionId": "small"}));
    daemon.end();
    let mut daemon = store.daemon();
    for id in ["big", "deep"] {
        assert_eq!(daemon.row(id)["status"], "ok");
        daemon.ok("session/load", json!({"sessionId": id}));
    }
}

/// B050, B057: the error names the limit that was met, and its value (PROTOCOL 5).
#[test]
fn size_reported_as_corruption_names_the_limit() {
    let store = too_large();
    let mut daemon = store.daemon_with(&LOW);
    for (id, limit, max) in [("big", "maxEventBytes", 65536), ("deep", "maxDepth", 50)] {
        let (_, data) = daemon.err("session/load", json!({"sessionId": id}));
        assert_eq!((&data["limit"], &data["max"]), (&json!(limit), &json!(max)), "{id}");
    }
}

/// Limits that two sessions of [`too_large`] are over.
const LOW: [&str; 6] = ["--max-event-bytes", "65536", "--max-message-bytes", "131072", "--max-depth", "50"];

fn too_large() -> Store {
    let store = Store::new();
    let mut daemon = store.daemon();
    let deep: Value = serde_json::from_str(&("[".repeat(60) + &"]".repeat(60))).unwrap();
    daemon.new_with("big", &[turn_start(1), note("x".repeat(200 << 10))]);
    daemon.new_with("small", &[note(0)]);
    daemon.new_with("deep", &[note(deep)]);
    daemon.end();
    store
}

/// B048: a list has no limit that it does not tell: what is over a limit has its row, and a page says that it is one.
#[test]
fn silent_skip() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("big", &[note("x".repeat(200 << 10))]);
    for n in 0..20 {
        daemon.new_with(&format!("s{n}"), &[note(n)]);
    }
    daemon.end();
    let mut daemon = store.daemon_with(&["--max-event-bytes", "65536", "--max-message-bytes", "131072"]);
    assert_eq!(daemon.rows(json!({})).len(), 21);
    let page = daemon.ok("session/list", json!({"limit": 5}));
    assert!(page["nextCursor"].is_string());
    assert_eq!(daemon.rows(json!({"limit": 5})).len(), 21);
    let verified = store.run(&["verify", "--json"]);
    assert_eq!(String::from_utf8(verified.stdout).unwrap().lines().count(), 22, "21 sessions and a summary");
}

/// B034: what a load would refuse is refused at append, and the log stays loadable.
#[test]
fn accepts_what_it_cannot_load() {
    let store = Store::new();
    let mut daemon = store.daemon();
    let call = assistant(1, 1, "a", &[tool_call("c")]);
    daemon.new_with("s", &[turn_start(1), step_start(1, 1), call, super::kit::called(1, 1, "c")]);
    let bytes = store.bytes("s");
    for content in [json!([]), json!([{"type": "text", "text": "x"}]), json!("x"), Value::Null] {
        let mut result = tool_result(1, 1, "c");
        result["data"]["message"]["content"] = content.clone();
        let error = daemon.refused("s", &result);
        assert_eq!(error["data"]["code"], "INVALID_EVENT", "{error}");
        assert!(error["data"]["pointer"].as_str().unwrap().contains("content"), "{error}");
    }
    for event in [
        json!({"type": "turn/end", "data": 5}),
        json!({"type": "request/header", "data": {"header": {}, "reason": "initial"}}),
        json!({"type": "acme/unknown", "data": {}}),
    ] {
        daemon.refused("s", &event);
    }
    assert_eq!(store.bytes("s"), bytes);
    daemon.kill();
    let mut daemon = store.daemon();
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 7);
}

/// B034: whatever limits a daemon was given, it loads and lists what it took under them.
#[test]
fn accepts_what_it_cannot_load_of_very_large_events() {
    let store = Store::new();
    let flags = ["--max-message-bytes", "100000000", "--max-event-bytes", "80000000"];
    let mut daemon = store.daemon_with(&flags);
    daemon.new_with("s", &[note("x".repeat(70_000_000))]);
    daemon.ok("session/close", json!({"sessionId": "s"}));
    let summary = store.log("s").with_file_name("session.summary.json");
    std::fs::remove_file(&summary).unwrap();
    assert_eq!(daemon.row("s")["status"], "ok", "{}", daemon.row("s"));
    assert_eq!(daemon.ok("session/inspect", json!({"sessionId": "s", "limit": 1}))["nextSeq"], 1);
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 1);
    daemon.end();
    // Where the limit is at its default again, the log is sound all the same: what is too low is told.
    std::fs::remove_file(&summary).unwrap();
    let before = store.files();
    let mut daemon = store.daemon();
    let row = daemon.row("s");
    assert_eq!(row["status"], "unsupported", "{row}");
    assert!(row["reason"].as_str().unwrap().contains("--max-event-bytes"), "{row}");
    let refused = daemon.call("session/load", json!({"sessionId": "s"})).unwrap_err();
    let told = json!({"code": "LIMIT_EXCEEDED", "limit": "maxEventBytes", "max": 16 << 20});
    assert_eq!(refused["data"], told, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("--max-event-bytes"), "{refused}");
    let inspected = daemon.ok("session/inspect", json!({"sessionId": "s"}));
    assert!(inspected["problems"][0].as_str().unwrap().contains("--max-event-bytes"), "{inspected}");
    daemon.end();
    assert_eq!(store.files(), before);
}

/// B052: after a refusal the corrected append works, on the same connection.
#[test]
fn validation_kills_session() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &[]);
    let pairs = [
        (turn_start(2), turn_start(1)),
        (json!({"type": "user/message", "data": {"role": "user"}, "surfaceOp": "append"}), user("u", "text")),
        (step_start(1, 2), step_start(1, 1)),
        (tool_result(1, 1, "c"), assistant(1, 1, "a", &[tool_call("c")])),
    ];
    for (seq, (wrong, right)) in pairs.into_iter().enumerate() {
        let error = daemon.refused("s", &wrong);
        assert!(error["data"]["pointer"].is_string() || error["data"]["rule"].is_string(), "{error}");
        assert!(!error["message"].as_str().unwrap().is_empty());
        assert_eq!(daemon.ok("session/append", to("s", &right))["seq"], seq);
    }
}

/// B171: a last line without its seq, and a log of a newer writer.
#[test]
fn record_without_ordinal() {
    let sound = long(1);
    let odd = "{\"type\":\"session/title\",\"time\":9,\"data\":{}}\n";
    let store = Store::with(sound.concat() + odd);
    let (_, next, refused, verified) = told(&store);
    assert_eq!((next, refused, verified.as_str()), (sound.len() as u64 - 1, None, "damaged"));
    let text = String::from_utf8(store.run(&["verify"]).stdout).unwrap();
    assert!(text.contains(&format!("line {}", sound.len() + 1)), "{text}");
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "s"}));
    daemon.ok("session/append", to("s", &note(0)));
    drop(daemon);
    let saved = format!("session.jsonl.cut-{}", sound.concat().len());
    assert_eq!(std::fs::read(store.log("s").with_file_name(saved)).unwrap(), odd.as_bytes());

    let store = Store::with(sound.concat().replace("\"version\":0", "\"version\":1"));
    let before = store.files();
    let mut daemon = store.daemon();
    let (code, data) = daemon.err("session/load", json!({"sessionId": "s"}));
    assert_eq!((code.as_str(), &data["direction"]), ("FORMAT_UNSUPPORTED", &json!("newer")));
    assert_eq!(daemon.err("session/append", to("s", &note(0))).0, "SESSION_NOT_FOUND");
    daemon.end();
    assert_eq!(store.files(), before);
}

/// B073, B074: a dangling call is closed once, whoever comes first; a live one on request.
#[test]
fn dangling_tool_call() {
    let open = [turn_start(1), user("u", "go"), step_start(1, 1), assistant(1, 1, "a", &[tool_call("c")])];
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &open);
    daemon.kill();
    let mut seen = Vec::new();
    for round in 0..3 {
        let mut daemon = store.daemon();
        let opened = daemon.ok("session/load", json!({"sessionId": "s"}));
        assert_eq!(opened.get("repaired").is_some(), round == 0, "{opened}");
        seen.push(daemon.messages("s"));
        daemon.ok("session/close", json!({"sessionId": "s"}));
    }
    assert_eq!(String::from_utf8(store.bytes("s")).unwrap().matches("\"interrupted\"").count(), 1, "once");
    assert_eq!((seen[0].len(), &seen[1], &seen[2]), (3, &seen[0], &seen[0]), "and every reader sees it");
    assert_eq!(seen[0][2]["source"]["callId"], "c", "paired");

    // A client goes away without closing; the next one asks for messages, and may close the turn.
    let mut daemon = store.daemon();
    daemon.new_with("t", &open);
    daemon.end();
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "t"}));
    assert_eq!(paired(&mut daemon, "t"), 1);
    daemon.put("t", &[turn_start(2), step_start(2, 1), assistant(2, 1, "b", &[tool_call("d")])]);
    assert_eq!(daemon.ok("session/info", json!({"sessionId": "t"}))["openTurn"], 2, "told, not hidden");
    assert_eq!(daemon.ok("session/interrupt", json!({"sessionId": "t"}))["count"], 3);
    assert_eq!(paired(&mut daemon, "t"), 2);
    assert_eq!(daemon.ok("session/interrupt", json!({"sessionId": "t"}))["count"], 0);
}

/// How many calls there are in the derived messages; each has its one result behind it.
fn paired(daemon: &mut Daemon, session: &str) -> usize {
    let messages = daemon.messages(session);
    let mut calls = 0;
    for (at, message) in messages.iter().enumerate() {
        for block in
            message["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool-call")
        {
            let results =
                messages[at..].iter().filter(|later| later["source"]["callId"] == block["id"]).count();
            assert_eq!(results, 1, "{block}");
            calls += 1;
        }
    }
    calls
}

/// B024: a log is replaced only by a repair, under its lock: not while a daemon has it, and whoever reads it meanwhile
/// goes on reading the old one.
#[test]
fn rename_over_open_file() {
    let mut lines = long(3);
    lines[5] = "garbage\n".to_owned();
    let bytes = lines.concat().into_bytes();
    let store = Store::with(&bytes);
    let mut daemon = store.daemon();
    daemon.new_with("held", &turn(1, &[]));
    let held = store.bytes("held");
    assert_eq!(store.run(&["repair", "held"]).status.code(), Some(1));
    assert_eq!(store.bytes("held"), held);
    let mut reader = std::fs::File::open(store.log("s")).unwrap();
    assert!(store.run(&["repair", "s"]).status.success());
    let mut read = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut read).unwrap();
    assert_eq!(read, bytes);
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 6, "with the closers");
    daemon.ok("session/append", to("held", &turn_start(2)));
}
