//! What an ACP client sees of a daemon in a process of its own: replays of real logs, very long ones, to
//! slow clients, cancelled ones; what is refused; which directories are the same.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use sessiond::disk::paths::{Encoding, LogPath};
use sessiond::log::parse_header_line;

use crate::support;
use crate::support::daemon::{Daemon, Replayed};

/// Puts a log where a store keeps it; the session's id. None if one of that id is there, or if it has
/// no header.
fn put(root: &Path, text: &str, taken: &mut HashSet<String>) -> Option<String> {
    let (header, _) = parse_header_line(text.lines().next()?).ok()?;
    let id = header.id.as_str().to_owned();
    if !taken.insert(id.clone()) {
        return None;
    }
    let paths = LogPath::new(header.cwd.as_deref(), &id, Encoding::Plain).unwrap();
    std::fs::create_dir_all(root.join(paths.session_dir())).unwrap();
    std::fs::write(root.join(paths.log()), text).unwrap();
    Some(id)
}

/// A replay without what hangs on the session's last event: a fork ends with a marker of its own.
fn prefix(updates: &[String]) -> Vec<&String> {
    updates.iter().filter(|update| !update.contains("\"session_info_update\"")).collect()
}

fn compactions() -> Value {
    json!({"session": {"compaction": {}}})
}

/// The project's own: a conversation of every kind of update, and the small logs of a store.
#[test]
fn a_replay_depends_on_the_log_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sound = root.join("transcripts/store/sound");
    let logs = ["old", "titled"].map(|id| sound.join(format!("--w--/{id}/session.jsonl")));
    let conversation = root.join("tests/fixtures/acp/conversation.jsonl");
    let (loaded, updates) = replayed(logs.into_iter().chain([conversation]).collect());
    assert!(loaded == 6 && updates > 20, "{loaded} {updates}");
}

#[test]
#[ignore = "needs ../shared/corpus"]
fn a_replay_of_real_logs_depends_on_the_log_alone() {
    let folder = std::fs::read_dir(support::needed("corpus/fixtures/rehydrated")).unwrap();
    let (loaded, updates) = replayed(folder.map(|entry| entry.unwrap().path()).collect());
    assert!(loaded > 160 && updates > 1000, "{loaded} {updates}");
}

/// Replays each log and a fork of it: live, after a restart and after a close. How many there were, and their updates.
fn replayed(mut left: Vec<PathBuf>) -> (usize, usize) {
    let (mut loaded, mut updates, mut refused) = (0, 0, 0);
    left.sort();
    // Logs of one id cannot lie in one store: those go into the next.
    while !left.is_empty() {
        let root = tempfile::tempdir().unwrap();
        let store = format!("jsonl:{}", root.path().display());
        let mut taken = HashSet::new();
        let (mut ids, mut next) = (Vec::new(), Vec::new());
        for path in left {
            let mut text = std::fs::read_to_string(&path).unwrap();
            if !text.starts_with("{\"type\":\"session\"") {
                text.insert_str(0, "{\"type\":\"session\",\"version\":0,\"id\":\"own\",\"createdAt\":1,\"delegationDepth\":0}\n");
            }
            match put(root.path(), &text, &mut taken) {
                Some(id) => ids.push(id),
                None => next.push(path),
            }
        }
        assert!(!ids.is_empty(), "{next:?}");
        left = next;

        let mut first: Vec<(String, Vec<String>)> = Vec::new();
        let mut daemon = Daemon::acp(&["--store", &store], compactions());
        for id in ids {
            let request = daemon.send("session/load", json!({"sessionId": id, "cwd": "/", "mcpServers": []}));
            let Replayed { updates, response } = daemon.replayed(request, &id);
            if response.get("error").is_some() {
                assert!(updates.is_empty(), "{id}");
                refused += 1;
                continue;
            }
            assert_eq!(daemon.load(&id), updates, "{id}: of a live session");
            let fork = daemon.call("session/fork", json!({"sessionId": id, "cwd": "/", "mcpServers": []}));
            let child =
                fork["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{id}: {fork}")).to_owned();
            let forked = daemon.load(&child);
            assert_eq!(prefix(&forked), prefix(&updates), "{id}: of its fork");
            first.push((id, updates));
            first.push((child, forked));
        }
        daemon.end();
        // Another process finds the repaired log, and forks that are logs of their own.
        let mut daemon = Daemon::acp(&["--store", &store], compactions());
        for (id, before) in first {
            assert_eq!(daemon.load(&id), before, "{id}: after a restart");
            let closed = daemon.ok("session/close", json!({"sessionId": id}));
            assert_eq!(closed, json!({}));
            assert_eq!(daemon.load(&id), before, "{id}: after a close");
            loaded += 1;
            updates += before.len();
        }
        daemon.end();
    }
    eprintln!("{loaded} replays with {updates} updates; {refused} logs are refused as by the reference");
    (loaded, updates)
}

#[test]
fn a_log_that_is_its_own_ancestor_loads_with_a_warning() {
    let root = tempfile::tempdir().unwrap();
    for (id, parent) in [("self", "self"), ("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "gone")] {
        let header = format!(
            "{{\"type\":\"session\",\"version\":0,\"id\":\"{id}\",\"createdAt\":1,\"parentSession\":\"{parent}\",\"seedLength\":0,\"delegationDepth\":0}}\n"
        );
        let event = "{\"type\":\"session/title\",\"seq\":0,\"time\":1,\"data\":{}}\n";
        put(root.path(), &(header + event), &mut HashSet::new()).unwrap();
    }
    let mut daemon = Daemon::acp(&["--store", &format!("jsonl:{}", root.path().display())], json!({}));
    let listed = daemon.ok("session/list", json!({}));
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 6, "{listed}");
    for (id, warned) in [("self", true), ("a", true), ("b", true), ("c", true), ("d", false), ("e", false)] {
        let problems = daemon.ok("_session/inspect", json!({"sessionId": id}))["problems"].clone();
        assert_eq!(problems.as_array().unwrap().len(), usize::from(warned), "{id}: {problems}");
        daemon.ok("session/resume", json!({"sessionId": id, "cwd": "/", "mcpServers": []}));
        let warnings = daemon.ok("_session/info", json!({"sessionId": id}))["warnings"].clone();
        assert_eq!(warnings, problems, "{id}");
    }
    daemon.end();
}

/// Messages `m0`, `m1`, …: one update each.
fn seed(count: usize, text: &str) -> Value {
    let message = |n: usize| {
        let content = json!([{"type": "text", "text": format!("{n} {text}")}]);
        let data =
            json!({"id": format!("m{n}"), "role": "user", "content": content, "source": {"kind": "user"}});
        json!({"type": "user/message", "seq": n, "time": n, "data": data, "surfaceOp": "append"})
    };
    (0..count).map(message).collect()
}

/// A session of so many messages, on a daemon of an ACP client.
fn long_session(args: &[&str], count: usize, text: &str) -> (Daemon, String) {
    let mut daemon = Daemon::acp(args, json!({}));
    let own = json!({"seed": seed(count, text), "invariants": "off"});
    let params = json!({"cwd": "/w", "mcpServers": [], "_meta": {"sessiond": own}});
    let id = daemon.ok("session/new", params)["sessionId"].as_str().unwrap().to_owned();
    (daemon, id)
}

fn in_order(updates: &[String]) {
    for (n, update) in updates.iter().enumerate() {
        let head = format!(
            "{{\"sessionUpdate\":\"user_message_chunk\",\"messageId\":\"m{n}\",\"content\":{{\"type\":\"text\",\"text\":\"{n} "
        );
        assert!(update.starts_with(&head), "{update} is not update {n}");
    }
}

#[test]
fn twenty_thousand_updates_come_in_order_before_the_response() {
    let (mut daemon, id) = long_session(&["--store", "memory:"], 20_000, "x");
    for _ in 0..2 {
        let updates = daemon.load(&id);
        assert_eq!(updates.len(), 20_000);
        in_order(&updates);
    }
    // Requests behind a load are answered behind it, in their order, those of other sessions meanwhile.
    let load = daemon.send("session/load", json!({"sessionId": id, "cwd": "/w", "mcpServers": []}));
    let behind: Vec<u64> = (0..50).map(|_| daemon.send("_session/info", json!({"sessionId": id}))).collect();
    let replayed = daemon.replayed(load, &id);
    assert!(replayed.response.get("result").is_some() && replayed.updates.len() == 20_000);
    for request in behind {
        assert_eq!(daemon.response(request)["result"]["nextSeq"], 20_001);
    }
    daemon.end();
}

#[test]
fn a_slow_client_loses_nothing_and_costs_no_memory() {
    const COUNT: usize = 8_000;
    let text = "y".repeat(3_000);
    let (mut daemon, id) =
        long_session(&["--store", "memory:", "--max-queued-bytes", "1048576"], COUNT, &text);
    let params = json!({"sessionId": id, "cwd": "/w", "mcpServers": []});
    let before = daemon.resident();
    let load = daemon.send("session/load", params.clone());
    // The client stands still; the daemon may hold its queue's bound, not the whole history.
    std::thread::sleep(Duration::from_millis(700));
    if let (Some(before), Some(now)) = (before, daemon.resident()) {
        assert!(now < before + (14 << 20), "{before} bytes grew to {now}: a replay of 24 MB is held");
    }
    let other =
        daemon.send("_session/append", json!({"sessionId": id, "type": "turn/start", "data": {"turn": 1}}));
    let mut updates = Vec::new();
    for n in 0..COUNT {
        if n % 800 == 0 {
            std::thread::sleep(Duration::from_millis(30));
        }
        let line = daemon.line();
        let at = line.find("\"update\":").unwrap_or_else(|| panic!("{n}: {line:.300}"));
        updates.push(line[at + 9..].to_owned());
    }
    in_order(&updates);
    assert!(daemon.response(load).get("result").is_some());
    // What was asked for meanwhile took effect after the load: its event is no part of that replay.
    assert_eq!(daemon.response(other)["result"]["seq"], COUNT + 1);
    daemon.is_silent();
    daemon.end();
}

#[test]
fn a_long_load_can_be_cancelled() {
    let text = "z".repeat(3_000);
    let (mut daemon, id) =
        long_session(&["--store", "memory:", "--max-queued-bytes", "1048576"], 8_000, &text);
    for known in [false, true] {
        if !known {
            daemon.ok("session/close", json!({"sessionId": id}));
        }
        let load = daemon.send("session/load", json!({"sessionId": id, "cwd": "/w", "mcpServers": []}));
        daemon.notify("$/cancel_request", json!({"requestId": load + 100}));
        daemon.notify("$/cancel_request", json!({"requestId": load}));
        let Replayed { updates, response } = daemon.replayed(load, &id);
        assert_eq!(response["error"]["code"], -32800, "{response}");
        assert!(updates.len() < 8_000);
        in_order(&updates);
        daemon.is_silent();
        // A load that opened the session has let it go again; one of a live session has not.
        let info = daemon.call("_session/info", json!({"sessionId": id}));
        assert_eq!(info.get("error").is_some(), !known, "{info}");
        assert_eq!(daemon.load(&id).len(), 8_000, "a later load is whole");
    }
    daemon.end();
}

#[test]
fn what_a_store_cannot_do_is_refused_and_writes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::acp(&["--store", &format!("jsonl:{}", root.path().display())], json!({}));
    let id = daemon.ok("session/new", json!({"cwd": "/w", "mcpServers": []}))["sessionId"].clone();
    daemon.ok("_session/append", json!({"sessionId": id, "type": "session/title", "data": {"title": "T", "messageSeqs": [], "source": {"kind": "user"}}}));
    let before = daemon.ok("_session/events", json!({"sessionId": id}));
    let calls = [
        ("session/prompt", json!({"sessionId": id, "prompt": [{"type": "text", "text": "hi"}]})),
        ("session/set_mode", json!({"sessionId": id, "modeId": "code"})),
        ("session/set_config_option", json!({"sessionId": id, "configId": "model", "value": "x"})),
        ("authenticate", json!({"methodId": "none"})),
        ("logout", json!({})),
    ];
    for (method, params) in calls {
        let error = daemon.error(method, params);
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32601), &json!("no_model")),
            "{method}"
        );
        assert_eq!(error["data"]["method"], method);
    }
    daemon.notify("session/cancel", json!({"sessionId": id}));
    assert_eq!(daemon.ok("_session/events", json!({"sessionId": id})), before);
    for method in ["session/load", "session/resume", "session/fork"] {
        let error = daemon.error(method, json!({"sessionId": "unknown", "cwd": "/w", "mcpServers": []}));
        assert_eq!(
            (&error["code"], &error["data"]["sessionId"]),
            (&json!(-32002), &json!("unknown")),
            "{method}"
        );
    }
    for method in ["session/close", "session/delete"] {
        assert_eq!(daemon.ok(method, json!({"sessionId": "unknown"})), json!({}));
    }
    daemon.end();
}

#[test]
fn a_list_and_a_replay_tell_one_title() {
    let root = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::acp(&["--store", &format!("jsonl:{}", root.path().display())], json!({}));
    // The last one that is a text, and not an empty one, holds (FORMAT 3.1): the store takes any data.
    let odd = ["", "3", "null", "[\"x\"]", "{}"].map(|title| match title {
        "" => r#"{"title":""}"#.to_owned(),
        "{}" => "{}".to_owned(),
        other => format!(r#"{{"title":{other}}}"#),
    });
    let mut logs: Vec<(Vec<String>, Option<&str>)> =
        odd.iter().map(|odd| (vec![r#"{"title":"First"}"#.to_owned(), odd.clone()], Some("First"))).collect();
    logs.extend(odd.iter().map(|odd| (vec![odd.clone()], None)));
    let new = r#"{"title":"N\ud83dew"}"#.to_owned();
    logs.push((vec![r#"{"title":"Old"}"#.to_owned(), odd[0].clone(), new], Some("N\u{fffd}ew")));
    let mut ids = Vec::new();
    for (titles, _) in &logs {
        let id = daemon.ok("session/new", json!({"cwd": "/w", "mcpServers": []}))["sessionId"].clone();
        let id = id.as_str().unwrap().to_owned();
        for data in titles {
            daemon.send_line(&format!(
                r#"{{"jsonrpc":"2.0","id":"a","method":"_session/append","params":{{"sessionId":"{id}","type":"session/title","data":{data}}}}}"#
            ));
            let answer = daemon.line();
            assert!(answer.contains("\"result\""), "{answer}");
        }
        ids.push(id);
    }
    // Live; stored, with what its owner has left for lists; without that, so that the log is read.
    for stage in ["live", "stored", "read"] {
        let rows = daemon.ok("session/list", json!({}))["sessions"].clone();
        for ((titles, expected), id) in logs.iter().zip(&ids) {
            let row = rows.as_array().unwrap().iter().find(|row| row["sessionId"] == **id).unwrap();
            assert_eq!(row["title"].as_str(), *expected, "{stage}, listed: {titles:?}");
            let updates: Vec<Value> =
                daemon.load(id).iter().map(|update| serde_json::from_str(update).unwrap()).collect();
            let told = updates.iter().find(|update| update["sessionUpdate"] == "session_info_update");
            let told = told.map(|update| update["title"].as_str().unwrap());
            assert_eq!(told, *expected, "{stage}, replayed: {titles:?}");
            daemon.ok("session/close", json!({"sessionId": id}));
            if stage == "stored" {
                let log = LogPath::new(Some("/w"), id, Encoding::Plain).unwrap();
                std::fs::remove_file(root.path().join(log.session_dir()).join("session.summary.json"))
                    .unwrap();
            }
        }
    }
    daemon.end();
}

#[test]
fn a_directory_is_found_by_any_of_its_names() {
    let root = tempfile::tempdir().unwrap();
    let (real, link, other) = (root.path().join("real"), root.path().join("link"), root.path().join("other"));
    std::fs::create_dir_all(&real).unwrap();
    std::fs::create_dir_all(&other).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (real, link, other, gone) = (text(&real), text(&link), text(&other), text(&root.path().join("gone")));
    let store = format!("jsonl:{}", root.path().join("store").display());
    for again in [false, true] {
        let mut daemon = Daemon::acp(&["--store", &store], json!({}));
        if !again {
            for (cwd, id) in [(&real, "real"), (&link, "link"), (&other, "other"), (&gone, "gone")] {
                let own = json!({"sessionId": id});
                daemon.ok("session/new", json!({"cwd": cwd, "mcpServers": [], "_meta": {"sessiond": own}}));
                daemon.ok(
                    "_session/append",
                    json!({"sessionId": id, "type": "session/title", "data": {"title": "T", "messageSeqs": [], "source": {"kind": "user"}}}),
                );
            }
        }
        let mut listed = |cwd: &str| -> Vec<(String, String)> {
            let list = daemon.ok("session/list", json!({"cwd": cwd}));
            let member = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
            let rows = list["sessions"].as_array().unwrap();
            let mut rows: Vec<_> =
                rows.iter().map(|row| (member(row, "sessionId"), member(row, "cwd"))).collect();
            rows.sort();
            rows
        };
        // Each with the spelling that it was made with.
        let both = vec![("link".to_owned(), link.clone()), ("real".to_owned(), real.clone())];
        assert_eq!(listed(&link), both);
        assert_eq!(listed(&real), both);
        assert_eq!(listed(&format!("{other}/../link/")), both);
        assert_eq!(listed(&other), [("other".to_owned(), other.clone())]);
        // One that is not there, by what is: its ancestors.
        for gone_too in [gone.clone(), format!("{gone}/"), format!("{other}/..//./gone")] {
            assert_eq!(listed(&gone_too), [("gone".to_owned(), gone.clone())], "{gone_too}");
        }
        assert!(listed(&text(root.path())).is_empty() && listed(&format!("{gone}/x")).is_empty());
        daemon.end();
    }
}

#[test]
fn half_a_character_is_shown_as_one_and_kept_as_it_is() {
    let mut daemon = Daemon::acp(&["--store", "memory:", "--ids", "sequential"], json!({}));
    daemon.ok("session/new", json!({"cwd": "/w", "mcpServers": []}));
    let data = r#"{"id":"\ud800","role":"user","content":[{"type":"text","text":"a\ud83db \ud83d\ude00 \\ud83d"}],"source":{"kind":"user"}}"#;
    daemon.send_line(&format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"_session/append","params":{{"sessionId":"session-1","type":"user/message","surfaceOp":"append","data":{data}}}}}"#
    ));
    assert!(daemon.line().contains("\"result\""));
    let [update] = &*daemon.load("session-1") else { panic!("one update") };
    // A client on serde can read it.
    let shown: Value = serde_json::from_str(update).unwrap();
    assert_eq!(shown["content"]["text"], "a\u{fffd}b \u{1f600} \\ud83d");
    assert_eq!(shown["messageId"], "message-0");
    daemon.send("_session/events", json!({"sessionId": "session-1"}));
    assert!(daemon.line().contains(data), "the log keeps it");
    daemon.end();
}
