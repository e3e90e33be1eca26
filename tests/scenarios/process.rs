//! How a daemon starts, ends and idles, and what it holds on to.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::kit::{Says, Store, descriptors, note, resident, to, turn};
use crate::dur_support::is_whole;
use crate::wire_support::{Daemon, WATCHDOG, line};

fn sessiond(args: &[&str], stdin: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sessiond")).args(args).stdin(stdin).output().unwrap()
}

/// Processor time that a process has used, in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// B120, B128: whoever cannot start says why, in one line, and with another code than a good end has. There is no lock
/// at the start: one is taken for each session, and the refusal is that request's answer (`lock_timeouts`).
#[test]
fn silent_death() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let within = file.path().join("x");
    for (args, code) in [
        (vec!["serve", "--store", "memory:", "--record", within.to_str().unwrap()], 3),
        (vec!["serve", "--store", "nowhere:"], 2),
        (
            vec!["serve", "--store", "memory:", "--max-message-bytes", "65536", "--max-event-bytes", "65536"],
            2,
        ),
        (vec!["serve", "--store", "memory:", "--clock", "sundial"], 2),
        (vec!["serve", "--no-such-flag"], 2),
    ] {
        let output = sessiond(&args, Stdio::null());
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {log}");
        assert!(output.stdout.is_empty());
        assert!(code == 2 && !log.is_empty() || log.lines().count() == 1, "{args:?}: {log}");
    }
    let output = sessiond(&["serve", "--store", "memory:"], Stdio::null());
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "a good end is quiet");
}

/// B120: a store that is no directory any more fails the requests that need it, each with its reason; the connection
/// lives, and nothing ends with 0 that has lost something.
#[test]
fn dead_connection_reuse() {
    let store = Store::new();
    let mut daemon = crate::dur_support::process::Daemon::start(&store.root().join("file/below"));
    assert!(daemon.rows(json!({})).is_empty(), "it has started");
    store.put("file", "");
    for (method, params) in [
        ("session/new", json!({"sessionId": "s"})),
        ("session/load", json!({"sessionId": "s"})),
        ("session/list", json!({})),
        ("session/list", json!({})),
    ] {
        let (code, data) = daemon.err(method, params);
        assert_eq!((code.as_str(), &data["errno"]), ("STORAGE_FAILED", &json!("ENOTDIR")), "{method}");
    }
    // Once it is one, the same requests succeed on the same connection.
    std::fs::remove_file(store.root().join("file")).unwrap();
    daemon.new_with("s", &[note(0)]);
    assert_eq!(daemon.rows(json!({})).len(), 1);
    daemon.end();
}

/// B121: SIGTERM in the middle of large appends: what was answered is there, the log is whole, the lock is free.
/// `wire::a_second_signal_does_not_wait_for_anybody` for the second one.
#[test]
fn orphan_process() {
    let store = Store::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    let mut daemon =
        Daemon::spawn(command.args(["serve", "--store", &format!("jsonl:{}", store.root().display())]));
    daemon.call(0, "session/new", json!({"sessionId": "s", "cwd": "/w"}));
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || {
        for id in 1..=25 {
            let event = note(format!("{id} {}", "x".repeat(4 << 20)));
            if std::io::Write::write_all(&mut stdin, line(id, "session/append", to("s", &event)).as_bytes())
                .is_err()
            {
                break;
            }
        }
    });
    daemon.answer(2);
    daemon.signal(Signal::TERM);
    let answered = 2 + daemon.rest_lines().iter().filter(|line| line.contains("\"id\":")).count() as u64;
    assert_eq!(daemon.status().code(), Some(0));
    writer.join().unwrap();
    assert!(is_whole(&store.bytes("s")));
    assert_eq!(store.daemon().ok("session/load", json!({"sessionId": "s"}))["nextSeq"], answered);
}

/// B121: an end does not wait for the window of a group commit: it makes everything durable itself.
#[test]
fn orphan_process_waits_for_no_window() {
    for signal in [None, Some(Signal::TERM)] {
        let store = Store::new();
        let spec = format!("jsonl:{}", store.root().display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
        let mut daemon = Daemon::spawn(command.args(["serve", "--store", &spec, "--sync-window", "60000"]));
        daemon.call(0, "session/new", json!({"sessionId": "s", "cwd": "/w"}));
        (1..=3).for_each(|id| drop(daemon.call(id, "session/append", to("s", &note(id)))));
        match signal {
            None => daemon.close_stdin(),
            Some(signal) => daemon.signal(signal),
        }
        assert!(daemon.ends_within(Duration::from_secs(30)), "{signal:?}: waits for its window of a minute");
        assert_eq!(store.daemon().ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 3);
    }
}

/// B122: an idle daemon uses no processor time; when its client is killed, it is gone.
#[test]
fn orphan_process_of_a_killed_client() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("to-daemon");
    // The shell becomes the client, which holds the daemon's stdin and nothing else.
    let script =
        "mkfifo \"$1\"; \"$0\" serve --store memory: <\"$1\" >/dev/null & echo $!; exec sleep 600 >\"$1\"";
    let mut client = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_sessiond")])
        .arg(&fifo)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(client.stdout.take().unwrap()), &mut pid)
        .unwrap();
    let pid: u32 = pid.trim().parse().unwrap();
    let alive = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    };
    std::thread::sleep(std::time::Duration::from_millis(300)); // it has started
    let before = ticks(pid);
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(alive() && ticks(pid) <= before + 3, "a loop would have used 70 ticks");
    client.kill().unwrap();
    client.wait().unwrap();
    let started = Instant::now();
    while alive() {
        if started.elapsed() > WATCHDOG {
            kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
            panic!("still there");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// B123: an input that ends at once, and inputs that cannot be read at all.
#[test]
fn orphan_process_without_an_input() {
    let dir = tempfile::tempdir().unwrap();
    let written = std::fs::File::create(dir.path().join("x")).unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    std::io::Write::write_all(&mut &near, b"unread").unwrap();
    drop(far); // what the daemon gets is a connection that was reset
    let directory = std::fs::File::open(dir.path()).unwrap();
    for stdin in [Stdio::null(), OwnedFd::from(written).into(), OwnedFd::from(near).into(), directory.into()]
    {
        let output = sessiond(&["serve", "--store", "memory:"], stdin);
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{log}");
        assert!(log.lines().count() <= 1, "no loop: {log}");
    }
}

/// B126: five hundred sessions opened and closed: descriptors and memory are as before.
#[test]
fn orphan_process_keeps_nothing_of_closed_sessions() {
    let store = Store::new();
    let mut daemon = store.daemon();
    let mut rounds = Vec::new();
    for round in 0..5 {
        for n in 0..100 {
            let id = format!("s{round}-{n}");
            daemon.new_with(&id, &turn(1, &["c"]));
            daemon.put(&id, &[note("x".repeat(20_000))]);
            daemon.ok("session/close", json!({"sessionId": id}));
        }
        daemon.notices.clear();
        rounds.push((descriptors(daemon.pid()), resident(daemon.pid())));
    }
    let ((fds, memory), (fds_last, memory_last)) = (rounds[0], rounds[4]);
    assert!(fds_last <= fds + 2, "{rounds:?}");
    assert!(memory_last < memory + (8 << 10), "{rounds:?} KiB");
    assert_eq!(daemon.rows(json!({"live": true})), [] as [Value; 0]);
}

/// B127: a session that is loaded a thousand times is one instance with one descriptor.
#[test]
fn reload_leak() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &turn(1, &["c"]));
    daemon.put("s", &[note("x".repeat(100_000))]);
    let first = daemon.ok("session/load", json!({"sessionId": "s"}))["instanceId"].clone();
    let (fds, memory) = (descriptors(daemon.pid()), resident(daemon.pid()));
    for _ in 0..1000 {
        assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["instanceId"], first);
    }
    assert!(descriptors(daemon.pid()) <= fds + 1);
    assert!(resident(daemon.pid()) < memory + (8 << 10));
    assert_eq!(daemon.rows(json!({"live": true})).len(), 1);
    let made = daemon.notices.iter().filter(|notice| notice["method"] == "session/created").count();
    assert_eq!(made, 1);
}
