//! Long histories and large payloads: what they cost, and what is said when one is too large.

use std::io::Write;

use serde_json::{Value, json};

use super::kit::{Says, Store, header, lines, log, note, replacing, resident, to, turn, turn_start, user};
use crate::dur_support::process::Daemon;

/// A session of so many MiB in notes of 64 KiB.
fn large(daemon: &mut Daemon, session: &str, mib: u64) {
    daemon.new_with(session, &[]);
    for _ in 0..mib {
        daemon.put(session, &vec![note("x".repeat(65_000)); 16]);
    }
    daemon.notices.clear();
}

/// Bytes that a process has read so far.
fn bytes_read(pid: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// B057, B058, B061: a history that no line could hold is read in pages, and what would be too long says what to read
/// instead; what is asked of a session at a glance does not read it.
#[test]
fn huge_session() {
    let store = Store::new();
    let mut daemon = store.daemon();
    large(&mut daemon, "s", 40);
    let page = daemon.ok("session/events", json!({"sessionId": "s"}));
    let bytes: usize = page["events"].as_array().unwrap().iter().map(|event| event.to_string().len()).sum();
    assert!(bytes < 1 << 21 && page["next"].is_u64(), "{bytes} bytes without being asked for less");
    let error = daemon.call("session/snapshot", json!({"sessionId": "s"})).unwrap_err();
    assert_eq!(
        (&error["data"]["code"], &error["data"]["limit"]),
        (&json!("LIMIT_EXCEEDED"), &json!("maxMessageBytes"))
    );
    assert!(error["message"].as_str().unwrap().contains("session/events"), "{error}");
    let last = daemon.ok("session/events", json!({"sessionId": "s", "reverse": true, "limit": 2}));
    assert_eq!(last["events"][0]["seq"], 639);
    let before = resident(daemon.pid());
    for _ in 0..500 {
        assert_eq!(daemon.ok("session/info", json!({"sessionId": "s"}))["nextSeq"], 640);
        daemon.row("s");
    }
    assert!(resident(daemon.pid()) < before + (8 << 10));
    daemon.end();
    // Nor does a list, once its owner has left a summary.
    let mut daemon = store.daemon();
    let before = bytes_read(daemon.pid());
    daemon.row("s");
    assert!(bytes_read(daemon.pid()) - before < 1 << 20);
}

/// B057: offsets beyond 4 GiB (a file with a hole) are told as they are. Reads 4 GiB:
/// `cargo test --release --test scenarios -- --ignored beyond_32_bits`
#[test]
#[ignore = "reads 4 GiB of a hole: half a minute"]
fn huge_session_beyond_32_bits() {
    const SIZE: u64 = (4 << 30) + (64 << 20);
    let whole = log(&turn(1, &[]));
    let store = Store::with(&whole);
    std::fs::File::options().append(true).open(store.log("s")).unwrap().set_len(SIZE).unwrap();
    let mut daemon = store.daemon();
    let inspected = daemon.ok("session/inspect", json!({"sessionId": "s"}));
    let tail = json!({"offset": whole.len(), "bytes": SIZE - whole.len() as u64});
    assert_eq!((&inspected["nextSeq"], &inspected["tornTail"]), (&json!(6), &tail));
    assert!(resident(daemon.pid()) < 64 << 10);
}

/// B060: a replacement names what it replaces and holds none of it.
#[test]
fn huge_session_of_compactions() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &[]);
    daemon.put("s", &(0..100).map(|n| user(&format!("m{n}"), &"x".repeat(10_000))).collect::<Vec<_>>());
    let before = store.bytes("s").len();
    let all: Vec<u64> = (0..100).collect();
    let mut batch = vec![replacing(user("k0", "summary"), 0, 99, &all)];
    for n in 1..1000_u64 {
        let seq = 100 + 2 * n - 2;
        batch.push(user(&format!("n{n}"), "new"));
        batch.push(replacing(user(&format!("k{n}"), "summary"), seq, seq + 1, &[seq, seq + 1]));
    }
    daemon.put("s", &batch);
    let grown = store.bytes("s").len() - before;
    assert!(grown < 1000 * 700, "{grown} bytes for 1,000 compactions of 1 MB");
    assert_eq!(daemon.messages("s").len(), 1);
    let by_type =
        daemon.ok("session/events", json!({"sessionId": "s", "types": ["user/message"], "limit": 1}));
    assert_eq!(by_type["nextSeq"], 2099);
}

/// B062: a payload is an event's own bytes, once for each event that holds it; there is no blob store. What bounds it is
/// `maxEventBytes`; what is shared, by forks, costs no memory. An image that is needed often is a file of the client's,
/// which its blocks name.
#[test]
fn large_inline_blobs() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &[]);
    let image = json!({"type": "image", "attachment": {"data": "iVBORw0KGgo".repeat(100_000)}});
    let mut message = user("m", "");
    message["data"]["content"] = json!([image]);
    let size = message["data"].to_string().len();
    for n in 0..5 {
        message["data"]["id"] = json!(format!("m{n}"));
        daemon.ok("session/append", to("s", &message));
        daemon.notices.clear();
    }
    let stored = store.bytes("s").len();
    assert!(stored > 5 * size && stored < 5 * (size + 300), "{stored}");
    assert!(daemon.messages("s").iter().all(|message| message["content"][0] == image));
    let before = resident(daemon.pid());
    (0..20).for_each(|n| {
        drop(daemon.ok("session/fork", json!({"sessionId": "s", "childSessionId": format!("c{n}")})))
    });
    assert!(resident(daemon.pid()) < before + (16 << 10));
    let error = daemon.refused("s", &note("x".repeat(17 << 20)));
    assert_eq!((&error["data"]["limit"], &error["data"]["max"]), (&json!("maxEventBytes"), &json!(16 << 20)));
}

/// B064: ten times the events take about ten times the processor time to load, and never a hundred times.
/// `cargo test --release --test disk -- --ignored --nocapture load_speed::` measures it.
#[test]
fn quadratic_load() {
    let used = |turns: u64| {
        let events: Vec<Value> = (1..=turns).flat_map(|number| turn(number, &["c"])).collect();
        let store = Store::with(log(&events));
        let mut daemon = store.daemon();
        assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], events.len());
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let (small, large) = (used(1_000), used(10_000));
    eprintln!("8,000 events: {small} ticks; 80,000: {large}");
    assert!(large <= 30 * small.max(2), "{small} ticks for 8,000 events, {large} for 80,000");
}

/// B066: starting reads nothing of the store, however large it is; a list reads each log once.
#[test]
fn slow_start_scan() {
    const SESSIONS: usize = 800;
    let store = Store::new();
    for n in 0..SESSIONS {
        let id = format!("s{n}");
        store.put(&format!("--w--/{id}/session.jsonl"), header(&id) + &lines(&[turn_start(1)]).concat());
    }
    store.put("--w--/long/session.jsonl", header("long") + &lines(&[note("x".repeat(12 << 20))]).concat());
    let plan = tempfile::NamedTempFile::new().unwrap();
    let mut daemon = store.daemon_with(&["--fault-file", plan.path().to_str().unwrap()]);
    let daemon_pid = daemon.pid();
    writeln!(plan.as_file(), "any EIO *").unwrap();
    let hello = json!({"protocolVersion": 1, "clientCapabilities": {"_meta": {"sessiond": {}}}});
    daemon.ok("initialize", hello);
    assert_eq!(daemon.err("session/list", json!({})).0, "STORAGE_FAILED", "the plan does what it says");
    writeln!(plan.as_file(), "clear").unwrap();
    assert_eq!(daemon.rows(json!({})).len(), SESSIONS + 1);
    let read = || bytes_read(daemon_pid);
    let before = read();
    let rows = daemon.rows(json!({}));
    assert!(rows.len() == SESSIONS + 1 && rows.iter().all(|row| row["status"] == "ok"));
    assert!(read() - before < 4 << 20, "{} bytes: only first lines are read again", read() - before);
}
