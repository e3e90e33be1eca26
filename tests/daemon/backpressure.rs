//! What happens to a daemon whose client does not read?

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::wire_support::{Daemon, line};

/// Writes all of `bytes` on a thread and counts what the daemon's pipe has taken.
fn write_counted(daemon: &mut Daemon, bytes: Vec<u8>) -> (Arc<AtomicUsize>, std::thread::JoinHandle<()>) {
    let written = Arc::new(AtomicUsize::new(0));
    let (count, mut stdin) = (Arc::clone(&written), daemon.take_stdin());
    let thread = std::thread::spawn(move || {
        for chunk in bytes.chunks(16 << 10) {
            stdin.write_all(chunk).unwrap();
            count.fetch_add(chunk.len(), Ordering::Relaxed);
        }
    });
    (written, thread)
}

/// Waits until nothing has been taken for a while, or all has.
fn settled(written: &AtomicUsize, all: usize) -> usize {
    let mut last = written.load(Ordering::Relaxed);
    loop {
        std::thread::sleep(Duration::from_millis(1_500));
        let now = written.load(Ordering::Relaxed);
        if now == last || now == all {
            return now;
        }
        last = now;
    }
}

#[test]
fn a_client_that_never_reads_is_no_longer_read_and_nothing_is_lost_when_it_does() {
    const APPENDS: u64 = 400_000;
    let mut daemon = Daemon::start(&["--max-queued-bytes", "1048576"]);
    let mut bytes = line(0, "session/new", json!({"sessionId": "s", "ephemeral": true})).into_bytes();
    for id in 1..=APPENDS {
        // Refused, so that the log does not grow: every bit of memory is for what waits.
        let refused = json!({"sessionId": "s", "type": "session/title", "data": {}, "expectedSeq": 9});
        bytes.extend(line(id, "session/append", refused).into_bytes());
    }
    let all = bytes.len();
    let (written, writer) = write_counted(&mut daemon, bytes);
    let taken = settled(&written, all);
    assert!(taken < all, "stdin was read to its end although nobody reads stdout");
    let resident = daemon.resident();
    assert!(resident < 64 << 10, "{resident} KiB are resident for a queue of 1 MiB");
    // The client wakes up: every answer is there, in order.
    daemon.answer(0);
    daemon.line();
    for id in 1..=APPENDS {
        let answer = daemon.line().unwrap();
        assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":"#)), "{answer}");
    }
    writer.join().unwrap();
    assert_eq!(daemon.line(), None);
    assert!(daemon.status().success());
    assert!(daemon.log().is_empty());
}

/// Short requests with long answers: one read of stdin holds thousands of them.
#[test]
fn long_answers_to_short_requests_are_not_piled_up() {
    const READS: u64 = 400;
    let mut daemon = Daemon::start(&["--max-queued-bytes", "1048576"]);
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    let data = "x".repeat(300 << 10);
    daemon.call(1, "session/append", json!({"sessionId": "s", "type": "session/title", "data": data}));
    let before = daemon.resident();
    let bytes: String =
        (2..2 + READS).map(|id| line(id, "session/events", json!({"sessionId": "s"}))).collect();
    assert!(bytes.len() < 60 << 10, "all of it fits into the pipe");
    daemon.send(bytes.as_bytes());
    std::thread::sleep(Duration::from_millis(1_500));
    let resident = daemon.resident();
    assert!(resident < before + (24 << 10), "{resident} KiB after {before}, for a queue of 1 MiB");
    for id in 2..2 + READS {
        let answer = daemon.line().unwrap();
        assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)));
    }
}

/// The same when they have waited for a session's file: what they waited for is done at once, and all are free.
#[test]
fn long_answers_to_requests_that_waited_are_not_piled_up() {
    const READS: u64 = 400;
    let store = tempfile::tempdir().unwrap();
    let store = format!("jsonl:{}", store.path().display());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sessiond"));
    let mut daemon =
        Daemon::spawn(command.args(["serve", "--max-queued-bytes", "1048576", "--store", &store]));
    let before = daemon.resident();
    let data = "x".repeat(300 << 10);
    let mut bytes = line(0, "session/new", json!({"sessionId": "s"}));
    bytes += &line(1, "session/append", json!({"sessionId": "s", "type": "session/title", "data": data}));
    bytes.extend((2..2 + READS).map(|id| line(id, "session/events", json!({"sessionId": "s"}))));
    daemon.send(bytes.as_bytes());
    std::thread::sleep(Duration::from_millis(1_500));
    let resident = daemon.resident();
    assert!(resident < before + (24 << 10), "{resident} KiB after {before}, for a queue of 1 MiB");
    for id in 0..2 + READS {
        let answer = loop {
            let line = daemon.line().unwrap();
            if !line.starts_with(r#"{"jsonrpc":"2.0","method":"#) {
                break line;
            }
        };
        assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)));
    }
}

#[test]
fn what_is_over_the_bound_at_the_end_of_input_is_answered_too() {
    const READS: u64 = 200;
    let mut daemon = Daemon::start(&["--max-queued-bytes", "65536"]);
    daemon.request(0, "session/new", json!({"sessionId": "s"}));
    let data = "x".repeat(100 << 10);
    daemon.request(1, "session/append", json!({"sessionId": "s", "type": "session/title", "data": data}));
    for id in 2..2 + READS {
        daemon.request(id, "session/events", json!({"sessionId": "s"}));
    }
    daemon.close_stdin();
    std::thread::sleep(Duration::from_millis(500));
    daemon.answer(1);
    for id in 2..2 + READS {
        let answer = daemon.line().unwrap();
        assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)));
    }
    assert_eq!(daemon.line(), None);
    assert!(daemon.status().success());
}

/// PROTOCOL 1: at the end, a blocked stdout gets 5 seconds.
#[test]
fn a_client_that_has_closed_stdin_and_does_not_read_is_not_waited_for_for_ever() {
    for bound in ["65536", "67108864"] {
        let mut daemon = Daemon::start(&["--max-queued-bytes", bound]);
        daemon.request(0, "session/new", json!({"sessionId": "s"}));
        let data = "x".repeat(100 << 10);
        daemon.request(1, "session/append", json!({"sessionId": "s", "type": "session/title", "data": data}));
        for id in 2..100 {
            daemon.request(id, "session/events", json!({"sessionId": "s"}));
        }
        daemon.close_stdin();
        assert_eq!(daemon.status().code(), Some(0));
    }
}

/// A load streams its history before it is answered.
fn with_history(daemon: &mut Daemon, messages: u64) {
    let mut bytes = line(0, "session/new", json!({"sessionId": "s"}));
    for id in 1..=messages {
        let content = json!([{"type": "text", "text": "x".repeat(4_000)}]);
        let data =
            json!({"id": format!("m{id}"), "role": "user", "content": content, "source": {"kind": "user"}});
        let params = json!({"sessionId": "s", "type": "user/message", "data": data, "surfaceOp": "append"});
        bytes.push_str(&line(id, "session/append", params));
        if bytes.len() > 1 << 16 || id == messages {
            daemon.send(bytes.as_bytes());
            daemon.answer(id);
            bytes.clear();
        }
    }
}

#[test]
fn a_history_is_streamed_as_fast_as_it_is_read_and_holds_nobody_up() {
    const MESSAGES: u64 = 10_000;
    let mut daemon = Daemon::start(&["--max-queued-bytes", "1048576"]);
    with_history(&mut daemon, MESSAGES);
    let before = daemon.resident();
    let mut bytes = line(1, "session/load", json!({"sessionId": "s", "replay": "updates"}));
    // Requests of that session wait for the load; more of them than may wait.
    for id in 2..60_000 {
        bytes.push_str(&line(id, "session/surface", json!({"sessionId": "s", "throughSeq": 0})));
    }
    let all = bytes.len();
    let (written, writer) = write_counted(&mut daemon, bytes.into_bytes());
    assert!(settled(&written, all) < all, "stdin was read to its end although nobody reads stdout");
    let resident = daemon.resident();
    assert!(resident < before + (24 << 10), "{resident} KiB after {before}, for a queue of 1 MiB");
    let mut updates = 0;
    let mut id = 1;
    while let Some(line) = daemon.line() {
        if line.contains("\"method\":\"session/update\"") {
            assert_eq!(id, 1, "the history comes before the load's response");
            updates += 1;
        } else {
            assert!(line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)), "{line}");
            id += 1;
        }
    }
    writer.join().unwrap();
    assert_eq!((updates, id), (MESSAGES, 60_000));
    assert!(daemon.status().success());
}

#[test]
fn a_history_for_nobody_does_not_hold_up_the_end() {
    let mut daemon = Daemon::start(&["--max-queued-bytes", "65536"]);
    with_history(&mut daemon, 2_000);
    daemon.request(1, "session/load", json!({"sessionId": "s", "replay": "updates"}));
    daemon.close_stdin();
    assert_eq!(daemon.status().code(), Some(0));
}

#[test]
fn a_client_that_closes_stdout_is_gone_though_it_goes_on_writing_what_has_no_answer() {
    for flood in ["\n", "{\"jsonrpc\":\"2.0\",\"method\":\"nobody\"}\n"] {
        let mut daemon = Daemon::start(&[]);
        let mut stdin = daemon.take_stdin();
        let chunk = flood.repeat(4_000);
        let (begun, has_begun) = std::sync::mpsc::channel();
        // Until the daemon has ended: then nobody reads any more.
        let writer = std::thread::spawn(move || {
            for at in 0.. {
                if stdin.write_all(chunk.as_bytes()).is_err() {
                    return;
                }
                if at == 100 {
                    let _ = begun.send(());
                }
            }
        });
        has_begun.recv().unwrap();
        daemon.close_stdout();
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while !writer.is_finished() {
            assert!(std::time::Instant::now() < deadline, "still read, a minute after stdout was closed");
            std::thread::sleep(Duration::from_millis(5));
        }
        writer.join().unwrap();
    }
}
