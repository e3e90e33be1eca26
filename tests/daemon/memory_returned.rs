//! Does closing a session give its memory back to the system?

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::daemon::Daemon;

const EVENTS: usize = 24_000;
const BATCH: usize = 2_000;

fn resident(daemon: &Daemon) -> u64 {
    daemon.resident().expect("the system tells a process's memory")
}

/// What the daemon holds once it is below `bound`, or does not get there.
fn shrunk(daemon: &Daemon, bound: u64) -> u64 {
    let begun = Instant::now();
    while resident(daemon) >= bound && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
    resident(daemon)
}

/// glibc keeps what is freed between other allocations, and after the first large one is freed it puts all others up
/// to that size among them: then a session that was loaded again was kept whole after its close.
#[test]
fn a_closed_session_gives_its_memory_back_each_time() {
    let store = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(&["--store", &format!("jsonl:{}", store.path().display())]);
    let quiet = json!({"_meta": {"sessiond": {"notifications": []}}});
    daemon.ok("initialize", json!({"protocolVersion": 1, "clientCapabilities": quiet}));
    daemon.ok("session/new", json!({"sessionId": "s"}));
    let before = resident(&daemon);
    let text = "x".repeat(1_000);
    let event = |n: usize| {
        let content = json!([{"type": "text", "text": text}]);
        let data =
            json!({"id": format!("m{n}"), "role": "user", "content": content, "source": {"kind": "user"}});
        json!({"type": "user/message", "data": data, "surfaceOp": "append"})
    };
    for first in (0..EVENTS).step_by(BATCH) {
        let events: Vec<Value> = (first..first + BATCH).map(event).collect();
        daemon.ok("session/append_batch", json!({"sessionId": "s", "events": events}));
    }
    for round in 0..3 {
        let full = resident(&daemon);
        assert!(full > before + 24_000_000, "round {round}: {full} bytes with the log, {before} before");
        daemon.ok("session/close", json!({"sessionId": "s"}));
        let bound = before + (full - before) / 2;
        let closed = shrunk(&daemon, bound);
        assert!(closed < bound, "round {round}: {closed} bytes after the close of {full}, {before} before");
        daemon.ok("session/load", json!({"sessionId": "s"}));
    }
    daemon.end();
}
