//! Does the owner of a log keep the summary beside it at flush and close (PROTOCOL 3, Listing), and is it what a reading
//! of the log finds?

use std::sync::Arc;

use serde_json::{Value, json};
use sessiond::disk::catalog::summary::{Facts, FactsSink, read_summary, tail_of};
use sessiond::disk::fs::FileSystem;
use sessiond::disk::fs::fault::{Effect, FaultFs, Op};
use sessiond::disk::fs::record::RecordingFs;
use sessiond::disk::paths::{Encoding, LogPath};
use sessiond::disk::read::reader::{ReadLimits, read_log};
use sessiond::session::Limits;

use crate::dur_support::local::{Local, runtime};
use crate::dur_support::{append, note};

struct Store {
    disk: RecordingFs,
    faults: Arc<FaultFs>,
    local: Local,
}

impl Store {
    fn new() -> Self {
        let disk = RecordingFs::new();
        let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
        let local = Local::new(faults.clone(), &runtime());
        Self { disk, faults, local }
    }

    fn path(session: &str) -> LogPath {
        LogPath::new(None, session, Encoding::Plain).unwrap()
    }

    /// The summary, if it is good for the log as it is.
    fn summary(&self, session: &str) -> Option<Facts> {
        let path = Self::path(session);
        let log = self.disk.content(path.log()).unwrap();
        let line = std::str::from_utf8(&log).unwrap().lines().next().unwrap();
        let size = log.len() as u64;
        read_summary(&self.disk, &path, line, size, tail_of(&&log[..], size).unwrap())
    }

    /// What a reading finds.
    fn read(&self, session: &str) -> Facts {
        let file = self.disk.open_read(&Self::path(session).log()).unwrap();
        let (mut sink, len) = (FactsSink::default(), file.metadata().unwrap().len);
        read_log(file.as_ref(), len, Encoding::Plain, ReadLimits::default(), &mut sink).unwrap();
        sink.facts()
    }

    fn append(&mut self, kind: &str, data: Value) {
        let mut params = json!({"sessionId": "s", "type": kind, "data": data});
        if kind == "x/note" {
            params["ignorable"] = json!(true);
        }
        self.local.ok("session/append", params);
    }

    /// Operations on files during a call.
    fn during(&mut self, method: &str, params: Value) -> Vec<Op> {
        let _ = self.faults.take_done();
        self.local.ok(method, params);
        self.faults.take_done()
    }
}

fn s() -> Value {
    json!({"sessionId": "s"})
}

#[test]
fn a_flush_leaves_the_facts_that_a_reading_finds() {
    let mut store = Store::new();
    let types = json!([{"type": "x/mine", "required": true}, {"type": "x/other", "required": true}]);
    store.local.ok(
        "initialize",
        json!({"protocolVersion": 1, "clientCapabilities": {"_meta": {"sessiond": {"eventTypes": types}}}}),
    );
    store.local.ok("session/new", s());
    store.append("session/title", json!({"title": "first \"one\" \u{2028}"}));
    store.append("x/note", json!({"n": 1}));
    assert_eq!(store.summary("s"), None, "nobody has asked for it yet");
    store.local.ok("session/flush", s());
    let told = store.summary("s").expect("a summary");
    assert_eq!(told, store.read("s"));
    assert_eq!((told.events.get(), told.title.as_deref()), (2, Some("first \"one\" \u{2028}")));
    assert_eq!(told.foreign.names(), [] as [String; 0]);
    // It follows what comes: types that must be declared, a title that is no title, retracted events.
    for kind in ["x/mine", "turn/start", "x/other", "x/mine"] {
        store.append(kind, json!({"turn": 1}));
        assert_eq!(store.summary("s"), None, "it is not good for a log that has grown");
        store.local.ok("session/flush", s());
        assert_eq!(store.summary("s").unwrap(), store.read("s"), "after {kind}");
    }
    assert_eq!(store.summary("s").unwrap().foreign.names(), ["x/mine", "x/other"]);
    store.faults.fail(Some(Op::Write), 0, Effect::Errno("ENOSPC"));
    store.local.call("session/append", append("s", &note(9))).unwrap_err();
    store.append("session/title", json!({"title": ""}));
    store.local.ok("session/flush", s());
    let told = store.summary("s").unwrap();
    assert_eq!(told, store.read("s"));
    assert_eq!((told.events.get(), told.title.as_deref()), (7, Some("first \"one\" \u{2028}")));
    // A list opens the log for its header and its end, the summary, and who holds it, as somebody does: nothing more.
    let opens = |ops: &[Op]| ops.iter().filter(|op| **op == Op::Open).count();
    assert_eq!(opens(&store.during("session/list", json!({}))), 3);
    // A flush that changes nothing writes nothing: it looks at the file, before and behind, at its name and beside it.
    assert_eq!(store.during("session/flush", s()), [Op::Stat, Op::Stat, Op::Stat, Op::ListDir, Op::Read]);
    store.local.ok("session/delete", s());
    assert!(store.disk.paths().iter().all(|path| !path.to_string_lossy().contains("/s/")));
}

#[test]
fn a_flush_does_not_read_the_log_and_a_lost_summary_fails_nothing() {
    let mut store = Store::new();
    store.local.ok("session/new", s());
    store.append("x/note", json!({"n": 1}));
    (0..2_000).for_each(|n| store.append("x/note", json!({ "n": n })));
    // But for its last bytes, at once.
    let ops = store.during("session/flush", s());
    assert_eq!(ops.iter().filter(|op| **op == Op::Read).count(), 1, "{ops:?}");
    for op in [Op::CreateNew, Op::Rename] {
        store.append("x/note", json!({"n": 2}));
        store.faults.fail(Some(op), 0, Effect::Errno("ENOSPC"));
        store.local.ok("session/flush", s());
        assert_eq!(store.summary("s"), None);
    }
    // A summary tells of durable events only: a sync that fails leaves none.
    store.append("x/note", json!({"n": 3}));
    store.faults.fail(Some(Op::Sync), 0, Effect::Errno("EIO"));
    let mut durable = append("s", &note(4));
    durable["durable"] = json!(true);
    store.local.call("session/append", durable).unwrap_err();
    store.faults.fail(Some(Op::Sync), 0, Effect::Errno("EIO"));
    store.local.call("session/flush", s()).unwrap_err();
    assert_eq!(store.summary("s"), None);
    store.local.ok("session/flush", s());
    assert_eq!(store.summary("s").unwrap(), store.read("s"));
}

#[test]
fn a_flush_that_mends_and_a_close_leave_it_too() {
    let mut store = Store::new();
    store.local.ok("session/new", s());
    store.append("turn/start", json!({"turn": 1}));
    store.local.ok("session/close", s());
    assert_eq!(store.summary("s").unwrap().events.get(), 1);
    for last in ["session/flush", "session/close"] {
        let file = store.disk.open_append(&Store::path("s").log()).unwrap();
        file.append(b"{\"torn").unwrap();
        store.local.ok("session/load", s());
        store.local.ok(last, s());
        let told = store.summary("s").expect(last);
        assert_eq!(told, store.read("s"));
        assert_eq!(told.events.get(), 2, "the closer is among them");
        store.local.ok("session/close", s());
    }
}

/// Of a log that was mended its mender knows the lines that it has added since.
#[test]
fn a_mended_log_that_is_changed_in_place_gets_no_summary_and_is_not_closed() {
    let mut store = Store::new();
    store.local.ok("session/new", s());
    store.append("x/note", json!({"n": 1}));
    store.local.ok("session/close", s());
    let file = store.disk.open_append(&Store::path("s").log()).unwrap();
    file.append(b"{\"torn").unwrap();
    store.local.ok("session/load", s());
    store.append("x/note", json!({"n": 2}));
    store.local.ok("session/flush", s());
    assert_eq!(store.summary("s").unwrap(), store.read("s"));
    file.write_at(file.metadata().unwrap().len - 2, b"x").unwrap();
    assert_eq!(store.summary("s"), None);
    for method in ["session/flush", "session/close"] {
        let refused = store.local.call(method, s()).unwrap_err();
        assert_eq!(refused["data"]["reason"], "changed_outside", "{method}");
        assert_eq!(store.summary("s"), None, "{method}");
    }
    let rescued = store.local.ok("session/rescue", json!({"sessionId": "s", "childSessionId": "saved"}));
    assert_eq!((&rescued["sessionId"], &rescued["nextSeq"]), (&json!("saved"), &json!(2)));
}

#[test]
fn loading_moves_no_session_in_the_list() {
    let mut store = Store::new();
    let order = |store: &mut Store| -> Vec<String> {
        let list = store.local.ok("session/list", json!({}));
        list["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["sessionId"].as_str().unwrap().to_owned())
            .collect()
    };
    store.local.ok("session/new", s());
    store.append("turn/start", json!({"turn": 1}));
    store.append("step/start", json!({"turn": 1, "step": 1}));
    store.local.ok("session/new", json!({"sessionId": "later"}));
    store.local.ok("session/append", append("later", &note(1)));
    // Titled while its turn runs; then the daemon dies. The closers of its repair take the title's time.
    store.append("session/title", json!({"title": "a name"}));
    let disk = store.disk.clone();
    drop(store.local);
    let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
    let mut store = Store { disk, local: Local::new(faults.clone(), &runtime()), faults };
    let before = store.local.ok("session/list", json!({}))["sessions"].clone();
    assert_eq!(order(&mut store), ["later", "s"]);
    let loaded = store.local.ok("session/load", s());
    assert_eq!(loaded["repaired"]["closers"], 2);
    let events = store.local.events("s");
    assert_eq!(events[4]["time"], events[2]["time"], "FORMAT 12");
    assert_eq!(order(&mut store), ["later", "s"], "live");
    for method in ["session/flush", "session/close"] {
        store.local.ok(method, s());
        assert_eq!(order(&mut store), ["later", "s"], "{method}");
        assert_eq!(store.summary("s").unwrap(), store.read("s"));
    }
    let after = store.local.ok("session/list", json!({}))["sessions"].clone();
    assert_eq!(after, before, "nothing that a list shows has changed");
    // What happens then moves it. (This daemon's clock began anew.)
    store.local.ok("session/load", s());
    (0..20).for_each(|n| store.append("x/note", json!({ "n": n })));
    assert_eq!(order(&mut store), ["s", "later"]);
}

/// A summary cannot know of a change in the middle of its log: what this daemon has met of it, its lists say.
#[test]
fn what_was_refused_is_listed_as_that() {
    for (asking, good) in [("session/load", false), ("session/inspect", true)] {
        let mut store = Store::new();
        store.local.ok("session/new", s());
        for (kind, data) in [("turn/start", json!({"turn": 1})), ("x/note", json!({"n": "x".repeat(9_000)}))]
        {
            store.append(kind, data);
        }
        store.append("turn/end", json!({"turn": 1, "reason": {"kind": "completed"}}));
        (0..9).for_each(|n| store.append("x/note", json!({"n": "y".repeat(1_000 + n)})));
        store.local.ok("session/close", s());
        let listed = |store: &mut Store| store.local.ok("session/list", json!({}))["sessions"][0].clone();
        assert_eq!(listed(&mut store)["status"], "ok");
        // Another program changes a record of the same length, long before the end.
        let (path, file) = (Store::path("s").log(), store.disk.open_append(&Store::path("s").log()).unwrap());
        let log = String::from_utf8(store.disk.content(&path).unwrap()).unwrap();
        file.write_at(log.find("xxx").unwrap() as u64, b"\"\"\"").unwrap();
        assert!(store.summary("s").is_some(), "by its checksums it is good");
        let asked = store.local.call(asking, s());
        assert_eq!(asked.is_ok(), good, "{asked:?}");
        for _ in 0..2 {
            let row = listed(&mut store);
            assert_eq!(row["status"], "corrupt", "{row}");
            assert!(row["reason"].as_str().unwrap().starts_with("line 3 "), "{row}");
        }
    }
}

/// The same of damage that a load opens without the events behind it.
#[test]
fn what_was_found_damaged_is_listed_as_that() {
    let mut store = Store::new();
    store.local.ok("session/new", s());
    store.append("turn/start", json!({"turn": 1}));
    store.append("x/note", json!({"n": "x".repeat(9_000)}));
    (0..9).for_each(|n| store.append("x/note", json!({"n": "y".repeat(1_000 + n)})));
    store.local.ok("session/close", s());
    let (path, file) = (Store::path("s").log(), store.disk.open_append(&Store::path("s").log()).unwrap());
    let log = String::from_utf8(store.disk.content(&path).unwrap()).unwrap();
    file.write_at(log.find("xxx").unwrap() as u64, b"\"\"\"").unwrap();
    assert_eq!(store.local.ok("session/inspect", s())["tornTail"]["events"], 9);
    for _ in 0..2 {
        let row = store.local.ok("session/list", json!({}))["sessions"][0].clone();
        assert_eq!(row["status"], "damaged", "{row}");
        assert!(row["reason"].as_str().unwrap().contains("9 whole events"), "{row}");
    }
}

/// The same of a record that only the validator refuses, which no list reads.
#[test]
fn what_the_validator_refused_is_listed_as_that() {
    for asking in ["session/load", "session/inspect"] {
        let mut store = Store::new();
        store.local.ok("session/new", s());
        let message = json!({"id": "m-1", "role": "user", "content": [], "source": {"kind": "user"}});
        let mut params = json!({"sessionId": "s", "type": "user/message", "data": message});
        params["surfaceOp"] = json!("append");
        store.local.ok("session/append", params);
        (0..9).for_each(|n| store.append("x/note", json!({"n": "y".repeat(1_000 + n)})));
        store.local.ok("session/close", s());
        let file = store.disk.open_append(&Store::path("s").log()).unwrap();
        let log = String::from_utf8(store.disk.content(Store::path("s").log()).unwrap()).unwrap();
        file.write_at(log.find("\"role\":\"user\"").unwrap() as u64, b"\"role\":\"nobo\"").unwrap();
        let _ = store.local.call(asking, s());
        for _ in 0..2 {
            let row = store.local.ok("session/list", json!({}))["sessions"][0].clone();
            assert_eq!((&row["status"], &row["updatedAt"].is_string()), (&json!("corrupt"), &true), "{row}");
        }
    }
}

/// A list says of logs with events over today's limit what a load says, whether it finds a summary, an older one, which
/// it does not believe, or none.
#[test]
fn a_list_agrees_with_a_load_about_events_over_the_limit() {
    let mut store = Store::new();
    let (runtime, disk) = (runtime(), store.disk.clone());
    let mut with = |id: &str, events: &[(&str, Value, &str)]| {
        store.local.ok("session/new", json!({"sessionId": id}));
        for (kind, data, more) in events {
            let mut params = json!({"sessionId": id, "type": kind, "data": data});
            match *more {
                "" => {}
                "ignorable" => params["ignorable"] = json!(true),
                op => params["surfaceOp"] = json!(op),
            }
            store.local.ok("session/append", params);
        }
        store.local.ok("session/close", json!({"sessionId": id}));
    };
    let text = |bytes| Value::from("x".repeat(bytes));
    with("large", &[("x/note", text(9_000), "ignorable"), ("session/title", json!({"title": "kept"}), "")]);
    with("long", &[("x/note", text(3_000), "ignorable"), ("x/note", text(3_000), "ignorable")]);
    with("small", &[("x/note", text(10), "ignorable")]);
    // The closer of this turn is over the limit, and a load lets it pass.
    let call = json!({"type": "tool-call", "id": "c".repeat(1_500), "name": "t", "arguments": {}});
    let source = json!({"kind": "model", "provider": "p", "model": "m"});
    let message = json!({"role": "assistant", "content": [call], "source": source});
    let asked = json!({"turn": 1, "step": 1, "message": message});
    let step = json!({"turn": 1, "step": 1});
    let turn = [
        ("turn/start", json!({"turn": 1}), ""),
        ("step/start", step, ""),
        ("assistant/message", asked, "append"),
    ];
    with("closed", &turn);
    let restart = |max_event_bytes: usize| {
        let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
        let limits = Limits { max_event_bytes, ..Limits::default() };
        (Local::limited(faults.clone(), &runtime, limits), faults)
    };
    let listed = |local: &mut Local| -> Vec<(String, String)> {
        let list = local.ok("session/list", json!({}));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let row = |row: &Value| {
            if row["status"] != "ok" {
                assert!(text(&row["reason"]).contains("--max-event-bytes"), "{row}");
                assert_eq!(row["title"], "kept");
            }
            (text(&row["sessionId"]), text(&row["status"]))
        };
        let mut rows: Vec<_> = list["sessions"].as_array().unwrap().iter().map(row).collect();
        rows.sort_unstable();
        rows
    };
    let summary = |id: &str| Store::path(id).session_dir().join("session.summary.json");
    let (mut local, _) = restart(1 << 20);
    local.ok("session/load", json!({"sessionId": "closed"}));
    local.ok("session/close", json!({"sessionId": "closed"}));
    let expected = |large: &str| {
        [("closed", "ok"), ("large", large), ("long", "ok"), ("small", "ok")]
            .map(|(id, status)| (id.to_owned(), status.to_owned()))
    };
    for kept in ["today's", "older", "none"] {
        for id in ["large", "long", "small", "closed"] {
            let Some(content) = disk.content(summary(id)).filter(|_| kept != "today's") else { continue };
            disk.unlink(&summary(id)).unwrap();
            if kept == "none" {
                continue;
            }
            let text = String::from_utf8(content).unwrap();
            let (before, _) = text.split_once(",\"sum\":").expect("a checksum");
            let older = disk.create_new(&summary(id)).unwrap();
            let before = before.replace("\"version\":2,", "");
            older.append(format!("{before}}}\n").as_bytes()).unwrap();
        }
        let (mut local, faults) = restart(4_096);
        assert_eq!(listed(&mut local), expected("unsupported"), "{kept}");
        let logs = faults.take_done().iter().filter(|op| **op == Op::Open).count();
        // Each log for its header, the summary; and the log once more where there is none.
        let read = match kept {
            "today's" => 0,
            _ => 4,
        };
        assert_eq!(logs, 8 + read, "{kept}");
        let refused = local.call("session/load", json!({"sessionId": "large"})).unwrap_err();
        assert_eq!(refused["data"]["code"], "LIMIT_EXCEEDED");
        local.ok("session/load", json!({"sessionId": "closed"}));
        drop(local);
        let (mut local, _) = restart(1 << 20);
        assert_eq!(listed(&mut local), expected("ok"), "{kept}");
        local.ok("session/load", json!({"sessionId": "large"}));
    }
}

#[test]
fn a_minted_id_is_none_that_is_stored() {
    let mut store = Store::new();
    for taken in ["session-1", "session-2", "session-4"] {
        store.local.ok("session/new", json!({"sessionId": taken}));
        store.local.ok("session/append", append(taken, &note(0)));
        store.local.ok("session/close", json!({"sessionId": taken}));
    }
    // The count begins anew with each daemon.
    let made = store.local.ok("session/new", json!({}));
    assert_eq!(made["sessionId"], "session-3");
    store.local.ok("session/append", append("session-3", &note(1)));
    let refused = store.local.call("session/fork", json!({"sessionId": "session-3", "boundary": 7}));
    assert_eq!(refused.unwrap_err()["data"]["code"], "INVALID_BOUNDARY");
    let forked = store.local.ok("session/fork", json!({"sessionId": "session-3"}));
    assert_eq!(forked["sessionId"], "session-5");
    // Several in one turn do not get one id.
    let made = store.local.turn(&[("session/new", json!({})), ("session/new", json!({}))]);
    let ids: Vec<_> = made.into_iter().map(|answer| answer.unwrap()["sessionId"].clone()).collect();
    assert_eq!(ids, ["session-6", "session-7"]);
    assert_eq!(store.local.inspect("session-1").len(), 1);
}
