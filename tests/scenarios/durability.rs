//! Crashes, full disks and failing writes: nothing answered is lost, nothing refused is there.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::kit::{
    Says, Store, assistant, called, header, lines, log, note, replacing, step_start, to, tool_call,
    tool_result, turn, turn_start, user,
};
use crate::dur_support::process::Daemon;
use crate::dur_support::{Random, from_env, is_whole};

/// A daemon and the plan of faults that it meets.
fn faulty(store: &Store) -> (Daemon, tempfile::NamedTempFile) {
    let plan = tempfile::NamedTempFile::new().unwrap();
    let daemon = store.daemon_with(&["--fault-file", plan.path().to_str().unwrap()]);
    (daemon, plan)
}

fn fail(plan: &tempfile::NamedTempFile, faults: &str) {
    writeln!(plan.as_file(), "{faults}").unwrap();
}

/// B016: the system itself stops taking bytes in the middle of a record, then takes them again.
#[test]
fn disk_full() {
    const ROOM: u64 = 64 << 10;
    let store = Store::new();
    let mut command = Command::new("sh");
    // A file that may not grow: a write is cut short at the limit, and the next one fails with EFBIG.
    let script = "trap '' XFSZ; exec \"$0\" serve --store \"jsonl:$1\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_sessiond")]).arg(store.root());
    let mut daemon = Daemon::run(command);
    daemon.new_with("s", &[note(0)]);
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    let limit = |current| prlimit(pid, Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
    limit(Some(ROOM));
    let event = note("x".repeat(1000));
    let mut taken = 1;
    let error = loop {
        match daemon.call("session/append", to("s", &event)) {
            Ok(answer) => assert_eq!(answer["seq"], taken),
            Err(error) => break error,
        }
        taken += 1;
    };
    let data = &error["data"];
    assert_eq!((&data["code"], &data["errno"]), (&json!("STORAGE_FAILED"), &json!("EFBIG")), "{error}");
    assert_eq!(data["committed"], false);
    let full = store.bytes("s");
    assert!(is_whole(&full), "the file ends at a record");
    assert!(full.len() as u64 <= ROOM && full.len() as u64 + 2000 > ROOM, "{}", full.len());
    assert_eq!(daemon.events("s").len() as u64, taken, "reads go on");
    assert!(daemon.call("session/append", to("s", &event)).is_err());
    limit(None);
    assert_eq!(
        daemon.ok("session/append", to("s", &event))["seq"],
        taken,
        "the same append, once there is room"
    );
    assert_eq!(daemon.ok("session/flush", json!({"sessionId": "s"}))["durableSeq"], taken);
    daemon.kill();
    assert_eq!(store.daemon().ok("session/load", json!({"sessionId": "s"}))["nextSeq"], taken + 1);
}

/// B025: a seed is whole on disk before its session is told of.
#[test]
fn seed_not_persisted() {
    let store = Store::new();
    let mut daemon = store.daemon();
    let seed: Vec<Value> = lines(&(0..50).map(note).collect::<Vec<_>>())
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let meta = json!({"parentSession": "elsewhere", "seedLength": 50});
    daemon.ok("session/new", json!({"sessionId": "s", "seed": seed, "meta": meta}));
    daemon.kill();
    let mut daemon = store.daemon();
    let opened = daemon.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!((&opened["nextSeq"], &opened["inheritedEventCount"]), (&json!(51), &json!(50)));
    let events = daemon.events("s");
    assert_eq!(events[..50], seed);
    assert_eq!(events[50]["type"], "session/end-seed");
}

/// B026: one write fails; that append fails aloud, the next one is stored, and nothing lives in memory alone.
#[test]
fn sticky_write_failure() {
    let store = Store::new();
    let (mut daemon, plan) = faulty(&store);
    daemon.new_with("s", &[]);
    for n in 1..=4 {
        if n == 3 {
            fail(&plan, "write EIO");
            let error = daemon.refused("s", &note(3));
            assert_eq!(
                (&error["data"]["errno"], &error["data"]["committed"]),
                (&json!("EIO"), &json!(false))
            );
        } else {
            daemon.ok("session/append", to("s", &note(n)));
        }
    }
    let said = |events: Vec<Value>| events.iter().map(|event| event["data"]["n"].clone()).collect::<Vec<_>>();
    assert_eq!(said(daemon.events("s")), [1, 2, 4]);
    let announced = daemon.notices.iter().filter(|notice| notice["method"] == "session/event").count();
    assert_eq!(announced, 3);
    daemon.kill();
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(said(daemon.events("s")), [1, 2, 4]);
}

/// B029: the last record is cut at every byte; each time the session opens and takes an event.
/// B031, B032: a write that is cut short and then fails leaves the file as it was, and its retry writes one copy.
#[test]
fn torn_tail_fused() {
    let whole = log(&[note("first"), note("wave \u{1F44B}")]);
    let sound = header("s").len() + lines(&[note("first")])[0].len();
    let store = Store::new();
    let mut daemon = store.daemon();
    for cut in sound..=whole.len() {
        store.put("--w--/s/session.jsonl", &whole[..cut]);
        // With its last brace the record is whole, with or without its line end.
        let kept = if cut + 1 >= whole.len() { 2 } else { 1 };
        assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], kept, "cut at {cut}");
        assert_eq!(daemon.ok("session/append", to("s", &note("new")))["seq"], kept, "cut at {cut}");
        daemon.ok("session/close", json!({"sessionId": "s"}));
        let bytes = store.bytes("s");
        assert!(is_whole(&bytes), "cut at {cut}");
        assert!(bytes.starts_with(&whole[..if kept == 2 { whole.len() - 1 } else { sound }]), "cut at {cut}");
        assert_eq!(String::from_utf8(bytes).unwrap().lines().count() as u64, kept + 2, "cut at {cut}");
        fs::remove_dir_all(store.root().join("--w--/s")).unwrap();
    }
    let (mut daemon, plan) = faulty(&store);
    daemon.new_with("r", &[note(0)]);
    for (half, errno) in [(1, "EIO"), (30, "ENOSPC"), (60, "EIO")] {
        let before = store.bytes("r");
        fail(&plan, &format!("write short:{half}\nwrite {errno}"));
        assert_eq!(daemon.refused("r", &note(errno))["data"]["errno"], errno);
        assert_eq!(store.bytes("r"), before, "back at the committed length");
        daemon.ok("session/append", to("r", &note(errno)));
        let added = String::from_utf8(store.bytes("r")[before.len()..].to_vec()).unwrap();
        assert_eq!((added.lines().count(), added.matches(errno).count()), (1, 1), "one copy: {added}");
    }
}

/// B028: only the last line end is missing.
#[test]
fn torn_tail_complete_record() {
    let whole = log(&turn(1, &["c"]));
    let store = Store::with(&whole[..whole.len() - 1]);
    let mut daemon = store.daemon();
    let opened = daemon.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!((&opened["nextSeq"], opened.get("repaired")), (&json!(8), None));
    daemon.ok("session/append", to("s", &turn_start(2)));
    daemon.kill();
    assert!(store.bytes("s").starts_with(&whole));
    assert!(is_whole(&store.bytes("s")));
}

/// B021, B023: killed while it appends and reads; whatever events name is there, and every line but the last is whole.
/// `SESSIOND_CRASH_ROUNDS=92` for the long form.
#[test]
fn partial_json_array() {
    let mut random = Random(0xf00d);
    for round in 0..from_env("SESSIOND_CRASH_ROUNDS", 8) {
        let store = Store::new();
        let mut daemon = store.daemon_with(&["--sync-window", "1"]);
        daemon.new_with("s", &[]);
        let mut requests = Vec::new();
        for n in 0..1000 {
            let event = if n % 10 == 9 {
                replacing(user(&format!("m{n}"), "summary"), n - 1, n - 1, &[n - 1])
            } else {
                user(&format!("m{n}"), "text")
            };
            requests.push(("session/append".to_owned(), to("s", &event)));
            if n % 5 == 0 {
                requests.push(("session/messages".to_owned(), json!({"sessionId": "s"})));
            }
        }
        let (first, sender) = daemon.send_all(&requests);
        daemon.wait_for_lines(random.below(2200), Duration::from_millis(500));
        let answers = daemon.kill();
        drop(sender.join().unwrap());
        let answered = requests.iter().enumerate().filter(|(index, (method, _))| {
            let answer = answers.get(&(first + *index as u64));
            method == "session/append" && answer.is_some_and(|answer| answer.get("result").is_some())
        });
        let answered = answered.count();
        let mut daemon = store.daemon();
        if answered == 0 && daemon.call("session/load", json!({"sessionId": "s"})).is_err() {
            continue;
        }
        let bytes = store.bytes("s");
        let end = bytes.iter().rposition(|byte| *byte == b'\n').unwrap();
        assert!(is_whole(&bytes[..=end]), "{round}");
        let _ = daemon.call("session/load", json!({"sessionId": "s"}));
        let events = daemon.events("s");
        assert!(events.len() >= answered, "{round}: {} of {answered}", events.len());
        let ids: BTreeMap<&str, usize> = events
            .iter()
            .enumerate()
            .map(|(seq, event)| (event["data"]["id"].as_str().unwrap(), seq))
            .collect();
        assert_eq!(ids.len(), events.len(), "{round}: each once");
        for (seq, event) in events.iter().enumerate() {
            let cited = event["sourceEventSeqs"].as_array();
            assert!(cited.is_none_or(|cited| cited.iter().all(|one| one.as_u64().unwrap() < seq as u64)));
        }
        let messages = daemon.messages("s");
        assert!(messages.iter().all(|message| ids.contains_key(message["id"].as_str().unwrap())));
        assert_eq!(messages.len(), events.len() - events.len() / 10, "{round}: a replacement shadows one");
    }
}

/// B006: three results sent at once keep their order; killed after the second, repair closes exactly one call.
#[test]
fn dropped_parallel_result() {
    let calls = ["c1", "c2", "c3"];
    let blocks: Vec<Value> = calls.iter().map(|call| tool_call(call)).collect();
    let mut events = vec![turn_start(1), step_start(1, 1), assistant(1, 1, "a", &blocks)];
    events.extend(calls.iter().map(|call| called(1, 1, call)));
    for sent in [3, 2] {
        let store = Store::new();
        let mut daemon = store.daemon();
        daemon.new_with("s", &events);
        let asked: Vec<u64> = calls[..sent]
            .iter()
            .map(|call| daemon.send("session/append", to("s", &tool_result(1, 1, call))))
            .collect();
        for (index, id) in asked.into_iter().enumerate() {
            assert_eq!(daemon.answer(id).unwrap()["seq"], 6 + index as u64, "in the order of arrival");
        }
        daemon.kill();
        let mut daemon = store.daemon();
        daemon.ok("session/load", json!({"sessionId": "s"}));
        let results: Vec<(String, bool)> = daemon
            .messages("s")
            .iter()
            .filter(|message| message["source"]["kind"] == "tool")
            .map(|message| {
                let closed = message["content"][0]["isError"] == true;
                (message["source"]["callId"].as_str().unwrap().to_owned(), closed)
            })
            .collect();
        let closed = results.iter().filter(|(_, closed)| *closed).count();
        assert_eq!(results.iter().map(|(call, _)| call.as_str()).collect::<Vec<_>>(), calls);
        assert_eq!((closed, results[2].1), (3 - sent, sent < 3), "exactly the call without a result");
    }
}

/// B014: a log that cannot be read for once is an error, and stays as it is.
#[test]
fn destructive_open() {
    let store = Store::with(&log(&turn(1, &["c"]))[..600]);
    let before = store.files();
    let (mut daemon, plan) = faulty(&store);
    for (op, errno) in [("open", "EACCES"), ("read", "EIO"), ("stat", "EACCES"), ("list_dir", "EACCES")] {
        fail(&plan, &format!("{op} {errno}"));
        let (code, data) = daemon.err("session/load", json!({"sessionId": "s"}));
        assert_eq!((code.as_str(), &data["errno"]), ("STORAGE_FAILED", &json!(errno)), "{op}");
        assert_eq!(store.files(), before, "{op}");
    }
    // Readable again, it loads, and loading alone still writes nothing to it.
    let next = daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"].clone();
    assert_eq!(store.bytes("s"), before.into_values().next().unwrap());
    daemon.ok("session/append", to("s", &note(0)));
    assert!(next.as_u64().unwrap() > 0);
}

/// B040: killed between a compaction's start and its replacement: the old surface stands, and the next one works.
/// What marks a compaction is log-only, so nothing is half done; its bracket stays open in the log (FORMAT 12).
#[test]
fn half_done_operation() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &[turn_start(1), user("u1", "one"), user("u2", "two")]);
    let start = json!({"type": "compaction/start", "data": {"compactionId": "k", "turn": 1}});
    daemon.ok("session/append", to("s", &start));
    let surface =
        |daemon: &mut Daemon| daemon.ok("session/surface", json!({"sessionId": "s"}))["nodes"].clone();
    assert_eq!(surface(&mut daemon), json!([1, 2]));
    daemon.kill();
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(surface(&mut daemon), json!([1, 2]));
    assert_eq!(daemon.kinds("s").last().unwrap(), "turn/end");
    // Start, summary and replacement in one batch stand or fall together for every reader.
    let summary = json!({"type": "compaction/summary", "data": {"compactionId": "k2", "summary": []}});
    let replace = replacing(user("k2", "both"), 1, 2, &[1]);
    let refused = daemon.call(
        "session/append_batch",
        json!({"sessionId": "s", "events": [turn_start(2), start, summary, replace]}),
    );
    assert_eq!(refused.unwrap_err()["data"]["index"], 3);
    assert_eq!(daemon.kinds("s").len(), 5);
    daemon.put("s", &[replacing(user("k2", "both"), 1, 2, &[1, 2])]);
    assert_eq!(surface(&mut daemon), json!([5]));
}

/// B119: requests and the end of input in one breath: all is answered and stored, and the lock is free.
#[test]
fn connection_loss_not_terminal() {
    let store = Store::new();
    let mut daemon = store.daemon();
    let mut asked = vec![daemon.send("session/new", json!({"sessionId": "s", "cwd": "/w"}))];
    for n in 0..20 {
        let mut params = to("s", &note(n));
        params["durable"] = json!(n % 4 == 0);
        asked.push(daemon.send("session/append", params));
    }
    let answers = daemon.end();
    assert!(asked.iter().all(|id| answers[id].get("result").is_some()), "{answers:?}");
    let mut next = store.daemon();
    assert_eq!(next.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 20);
}
