//! Lists and reads: derived from the logs alone, complete, and without a trace.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::kit::{Says, Store, header, lines, note, to, turn, turn_start, user};
use crate::dur_support::process::{Daemon, log_of, tree};

fn title(text: &str) -> Value {
    json!({"type": "session/title", "data": {"title": text, "messageSeqs": [], "source": {"kind": "user"}}})
}

fn ids(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["sessionId"].as_str().unwrap()).collect()
}

/// B129, B131: directories of cwds collide, sessions do not; a filter and the latest of a cwd go by the header.
#[test]
fn cwd_slug_collision() {
    let store = Store::new();
    let mut daemon = store.daemon();
    let pairs = [("/a-b/c", "/a/b-c"), ("/h/c-app", "/h/c/app"), ("/\u{e9}", "/e\u{301}"), ("/x", "/x:")];
    let cwds: Vec<&str> = pairs.iter().flat_map(|(one, other)| [*one, *other]).collect();
    for (n, cwd) in cwds.iter().enumerate() {
        daemon.ok("session/new", json!({"sessionId": format!("s{n}"), "cwd": cwd}));
        daemon.put(&format!("s{n}"), &[note(n)]);
    }
    let project =
        |session: &str| log_of(store.root(), session).parent().unwrap().parent().unwrap().to_owned();
    assert_eq!(project("s0"), project("s1"), "they do share a directory");
    for live in [true, false] {
        for (n, cwd) in cwds.iter().enumerate() {
            let rows = daemon.rows(json!({"cwd": cwd}));
            assert_eq!(
                (ids(&rows), &rows[0]["cwd"]),
                (vec![format!("s{n}").as_str()], &json!(cwd)),
                "{live}"
            );
        }
        assert_eq!(daemon.rows(json!({"cwd": "/a"})), [] as [Value; 0]);
        (0..cwds.len()).for_each(|n| drop(daemon.ok("session/close", json!({"sessionId": format!("s{n}")}))));
    }
}

/// B134: what is deleted is gone from the very next list, and announced.
/// B136: a second copy is told as one, and hides no session. B137: there is no index that could lag: a killed owner's
/// last event is in the list. B138: the root is told.
#[test]
fn index_vs_log_drift() {
    let store = Store::new();
    let mut daemon = store.daemon();
    for id in ["a", "b", "c"] {
        daemon.new_with(id, &[user("u", "x")]);
    }
    let (delete, list) =
        (daemon.send("session/delete", json!({"sessionId": "a"})), daemon.send("session/list", json!({})));
    daemon.answer(delete).unwrap();
    let listed = daemon.answer(list).unwrap();
    let mut found = ids(listed["sessions"].as_array().unwrap());
    found.sort_unstable();
    assert_eq!(found, ["b", "c"]);
    let told = daemon
        .notices
        .iter()
        .any(|one| one["method"] == "session/disposed" && one["params"]["sessionId"] == "a");
    assert!(told);

    daemon.ok("session/close", json!({"sessionId": "b"}));
    daemon.ok("session/append", to("c", &title("Said last")));
    daemon.kill();
    let copy = store.root().join("--elsewhere--/b");
    fs::create_dir_all(&copy).unwrap();
    fs::copy(store.log("b"), copy.join("session.jsonl")).unwrap();
    let mut daemon = store.daemon();
    let rows = daemon.rows(json!({}));
    let of_b: Vec<&Value> = rows.iter().filter(|row| row["sessionId"] == "b").collect();
    let [session, copy] = of_b[..] else { panic!("{rows:?}") };
    assert_eq!((&session["status"], &copy["status"]), (&json!("ok"), &json!("corrupt")));
    assert!(copy["reason"].as_str().unwrap().contains("--w--"), "{copy}");
    let row = daemon.row("c");
    assert_eq!((&row["title"], &row["status"]), (&json!("Said last"), &json!("ok")));
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "c"}))["nextSeq"], 2);
    daemon.end();

    let mut daemon = store.daemon();
    let capabilities = json!({"_meta": {"sessiond": {}}});
    let hello = daemon.ok("initialize", json!({"protocolVersion": 1, "clientCapabilities": capabilities}));
    let told = &hello["agentCapabilities"]["_meta"]["sessiond"]["store"];
    assert_eq!(told, &json!({"kind": "jsonl", "root": store.root().to_str().unwrap()}));
}

/// B140, B141: a title moves nothing, nor do the times of files; the last event that is none does.
#[test]
fn mtime_as_activity() {
    let store = Store::new();
    let mut daemon = store.daemon_with(&["--clock", "fixed:1700000000000+1000"]);
    for id in ["old", "mid", "new"] {
        daemon.new_with(id, &[user("u", "x")]);
    }
    let before: Vec<Value> = daemon.rows(json!({}));
    assert_eq!(ids(&before), ["new", "mid", "old"]);
    daemon.ok("session/append", to("old", &title("Renamed")));
    let row = daemon.row("old");
    assert_eq!((&row["title"], &row["updatedAt"]), (&json!("Renamed"), &before[2]["updatedAt"]));
    daemon.end();
    let now = SystemTime::now() + Duration::from_secs(3600);
    for (n, path) in tree(store.root()).into_keys().enumerate() {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(now - Duration::from_secs(60 * n as u64)).unwrap();
    }
    let mut daemon = store.daemon();
    assert_eq!(ids(&daemon.rows(json!({}))), ["new", "mid", "old"]);
    daemon.ok("session/load", json!({"sessionId": "old"}));
    assert_eq!(ids(&daemon.rows(json!({}))), ["new", "mid", "old"], "nor does loading");
    daemon.ok("session/append", to("old", &turn_start(1)));
    assert_eq!(ids(&daemon.rows(json!({}))), ["old", "new", "mid"]);
}

/// B144: pages while appends go on: no gap, no repetition, and every page says how long the log is.
#[test]
fn partial_history_shown() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &[]);
    daemon.put("s", &(0..10_000).map(note).collect::<Vec<_>>());
    for reverse in [false, true] {
        let (mut seqs, mut params) =
            (Vec::new(), json!({"sessionId": "s", "limit": 100, "reverse": reverse}));
        let start = daemon.ok("session/info", json!({"sessionId": "s"}))["nextSeq"].as_u64().unwrap();
        params["toSeq"] = json!(start);
        let mut length = start;
        loop {
            let page = daemon.ok("session/events", params.clone());
            assert_eq!(page["nextSeq"], length);
            seqs.extend(
                page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()),
            );
            daemon.ok("session/append", to("s", &note("meanwhile")));
            length += 1;
            match &page["next"] {
                Value::Null => break,
                next => params[if reverse { "toSeq" } else { "fromSeq" }] = next.clone(),
            }
        }
        seqs.sort_unstable();
        assert_eq!(seqs, (0..start).collect::<Vec<_>>(), "{reverse}");
    }
    // Messages, too: `since` goes on where the last page ended.
    for n in 0..150 {
        daemon.ok("session/append", to("s", &user(&format!("m{n}"), &"x".repeat(100))));
    }
    let (mut got, mut since) = (Vec::new(), Value::Null);
    loop {
        let page = daemon.ok("session/messages", json!({"sessionId": "s", "maxBytes": 2000, "since": since}));
        got.extend(page["messages"].as_array().unwrap().iter().map(|message| message["id"].clone()));
        if got.len() < 200 {
            daemon.ok("session/append", to("s", &user(&format!("m{}", page["total"]), "more")));
        }
        since = page["next"].clone();
        if since.is_null() {
            break;
        }
    }
    assert!(got.len() > 150);
    assert!(got.iter().enumerate().all(|(n, id)| *id == format!("m{n}")), "{got:?}");
}

/// B145: a store that nobody may write is listed, read and verified, and has no trace of it.
#[test]
fn read_has_side_effects() {
    let store = Store::with(header("s") + &lines(&turn(1, &["c"]))[..6].concat() + "{\"type\":\"torn");
    let mut owner = store.daemon();
    owner.new_with("t", &turn(1, &[]));
    owner.end();
    let traces = || -> Vec<(String, SystemTime, u64)> {
        let mut all: Vec<_> = store
            .files()
            .into_iter()
            .map(|(path, bytes)| {
                let at = fs::metadata(&path).unwrap().modified().unwrap();
                (path.display().to_string(), at, bytes.len() as u64)
            })
            .collect();
        for dir in ["", "--w--", "--w--/s", "--w--/t"] {
            let at = fs::metadata(store.root().join(dir)).unwrap().modified().unwrap();
            all.push((dir.to_owned(), at, 0));
        }
        all
    };
    let plan = tempfile::NamedTempFile::new().unwrap();
    let refuse =
        ["create_dir", "create_new", "link", "rename", "unlink", "write", "write_at", "set_len", "sync_dir"];
    fs::write(plan.path(), refuse.map(|op| format!("{op} EROFS *\n")).concat()).unwrap();
    let before = traces();
    // As root, modes alone stop nobody: the plan refuses every operation that writes.
    let mode = |bits| {
        use std::os::unix::fs::PermissionsExt;
        for dir in ["--w--/s", "--w--/t", "--w--", ""] {
            fs::set_permissions(store.root().join(dir), fs::Permissions::from_mode(bits)).unwrap();
        }
    };
    mode(0o500);
    let mut reader = store.daemon_with(&["--fault-file", plan.path().to_str().unwrap()]);
    assert_eq!(reader.rows(json!({"includeEmpty": true})).len(), 2);
    for id in ["s", "t"] {
        let inspected = reader.ok("session/inspect", json!({"sessionId": id}));
        assert_eq!(inspected["tornTail"].is_object(), id == "s");
    }
    reader.end();
    assert_eq!(store.run(&["verify"]).status.code(), Some(0));
    assert_eq!(store.run(&["repair", "s", "--dry-run"]).status.code(), Some(0));
    mode(0o700);
    assert_eq!(traces(), before);
}

/// B146: a session that is put into the store while a daemon runs is listed, and opens.
#[test]
fn repaired_but_hidden() {
    let (store, other) = (Store::new(), Store::new());
    let mut daemon = store.daemon();
    daemon.new_with("mine", &[note(0)]);
    assert_eq!(daemon.rows(json!({})).len(), 1);
    let mut elsewhere = other.daemon();
    elsewhere.new_with("theirs", &turn(1, &[]));
    elsewhere.end();
    for (path, bytes) in other.files() {
        let name = path.strip_prefix(other.root()).unwrap().to_str().unwrap().to_owned();
        store.put(&name, bytes);
    }
    assert_eq!(daemon.row("theirs")["status"], "ok");
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "theirs"}))["nextSeq"], 6);
    // And one that was mended by hand, in its place.
    store.put("--w--/hurt/session.jsonl", "garbage\n");
    assert_eq!(daemon.row("hurt")["status"], "corrupt");
    store.put("--w--/hurt/session.jsonl", header("hurt") + &lines(&turn(1, &[])).concat());
    assert_eq!(daemon.row("hurt")["status"], "ok");
    daemon.ok("session/load", json!({"sessionId": "hurt"}));
}

/// B147: a directory that goes away takes its own session with it, and no other.
#[test]
fn stale_index_rows() {
    let store = Store::new();
    let mut daemon = store.daemon();
    for id in ["a", "b", "c"] {
        daemon.new_with(id, &turn(1, &[]));
        daemon.ok("session/close", json!({"sessionId": id}));
    }
    assert_eq!(daemon.rows(json!({})).len(), 3);
    fs::remove_dir_all(store.root().join("--w--/b")).unwrap();
    let mut left: Vec<String> =
        daemon.rows(json!({})).iter().map(|row| row["sessionId"].as_str().unwrap().to_owned()).collect();
    left.sort_unstable();
    assert_eq!(left, ["a", "c"]);
    for method in ["session/load", "session/inspect"] {
        assert_eq!(daemon.err(method, json!({"sessionId": "b"})).0, "SESSION_NOT_FOUND");
    }
    daemon.ok("session/load", json!({"sessionId": "a"}));
    fs::remove_dir_all(store.root().join("--w--/a")).unwrap();
    assert_eq!(daemon.refused("a", &turn_start(2))["data"]["reason"], "removed");
    daemon.ok("session/load", json!({"sessionId": "c"}));
    daemon.ok("session/append", to("c", &turn_start(2)));
}

/// B148: titles are shown and name nothing: two sessions may have one, and each is addressed by its id alone.
#[test]
fn title_lookup() {
    let store = Store::new();
    let mut daemon = store.daemon();
    for id in ["a", "b"] {
        daemon.new_with(id, &[note(0), title("planb")]);
    }
    let rows = daemon.rows(json!({}));
    let titled: Vec<&Value> = rows.iter().filter(|row| row["title"] == "planb").collect();
    assert_eq!(titled.len(), 2, "a lookup by title finds both");
    for method in ["session/load", "session/inspect", "session/info", "session/events"] {
        assert_eq!(daemon.err(method, json!({"sessionId": "planb"})).0, "SESSION_NOT_FOUND");
    }
    daemon.new_with("planb", &[note(0)]);
    assert_eq!(daemon.row("planb").get("title"), None);
}

/// B196: nothing is ever removed by age: only `session/delete` removes, and a list goes by recorded times.
#[test]
fn retention_surprise() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("used", &turn(1, &[]));
    daemon.ok("session/close", json!({"sessionId": "used"}));
    daemon.end();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let files = store.files();
    for path in files.keys() {
        fs::File::options().append(true).open(path).unwrap().set_modified(old).unwrap();
    }
    for _ in 0..3 {
        let mut daemon: Daemon = store.daemon();
        assert_eq!(daemon.row("used")["status"], "ok");
        daemon.end();
    }
    assert_eq!(store.files(), files);
}
