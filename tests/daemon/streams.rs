//! Does the daemon get along with the standard streams that it is given, and end as it should when one of them or a signal
//! says so?

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use nix::sys::signal::SigSet;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::wire_support::{Daemon, line, title};

#[test]
fn the_end_of_input_in_the_middle_of_a_line_is_the_end_of_that_line() {
    for (tail, code) in [
        (title(2, "s", json!(1)).trim_end().to_owned(), None),
        (r#"{"jsonrpc":"2.0","id":2,"method":"session/ap"#.to_owned(), Some("PARSE_ERROR")),
    ] {
        let mut daemon = Daemon::start(&[]);
        daemon.request(1, "session/new", json!({"sessionId": "s"}));
        daemon.send(tail.as_bytes());
        daemon.close_stdin();
        let mut last = Value::Null;
        while let Some(line) = daemon.line() {
            last = serde_json::from_str(&line).unwrap();
        }
        match code {
            None => assert_eq!(last["result"]["seq"], 0, "{last}"),
            Some(code) => assert_eq!(last["error"]["data"]["code"], code, "{last}"),
        }
        assert!(daemon.status().success());
        assert_eq!(daemon.log(), "", "an end is quiet");
    }
}

#[test]
fn a_signal_ends_the_daemon_after_what_it_has_taken_is_answered() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut daemon = Daemon::start(&[]);
        daemon.call(0, "session/new", json!({"sessionId": "s"}));
        let batch: String = (1..=2_000).map(|id| title(id, "s", json!(id))).collect();
        let mut stdin = daemon.take_stdin();
        // What the daemon does not take any more is lost, and the pipe breaks: both are fine.
        let writer = std::thread::spawn(move || while stdin.write_all(batch.as_bytes()).is_ok() {});
        daemon.answer(1_000);
        daemon.signal(signal);
        // Every event is followed by the answer that it belongs to, to the very last line.
        let mut open = None;
        let mut answered = 1_000;
        while let Some(line) = daemon.line() {
            let line: Value = serde_json::from_str(&line).unwrap();
            match line["method"].as_str() {
                Some("session/event") => open = Some(line["params"]["event"]["data"].as_u64().unwrap()),
                _ => {
                    assert_eq!(open.take(), line["id"].as_u64(), "{line}");
                    answered = answered % 2_000 + 1;
                    assert_eq!(line["id"].as_u64(), Some(answered), "in order");
                }
            }
        }
        assert_eq!(open, None, "an event without its answer");
        assert_eq!(daemon.status().code(), Some(0));
        assert_eq!(daemon.log(), "", "an end is quiet");
        writer.join().unwrap();
    }
}

#[test]
fn a_second_signal_does_not_wait_for_anybody() {
    let mut daemon = Daemon::start(&[]);
    daemon.request(0, "session/new", json!({"sessionId": "s"}));
    // The start of an answer shows that signals are listened for; nobody reads the rest, so that a first
    // signal alone would wait for 5 seconds.
    daemon.send(title(1, "s", json!("x".repeat(4 << 20))).as_bytes());
    daemon.read_some();
    daemon.signal(Signal::TERM);
    daemon.signal(Signal::INT);
    assert_eq!(daemon.status().code(), Some(130));
}

#[test]
fn a_second_hang_up_is_no_hurry() {
    let mut daemon = Daemon::start(&[]);
    daemon.request(0, "session/new", json!({"sessionId": "s"}));
    daemon.send(title(1, "s", json!("x".repeat(4 << 20))).as_bytes());
    daemon.read_some();
    daemon.signal(Signal::HUP);
    daemon.signal(Signal::HUP);
    while daemon.line().is_some() {}
    assert_eq!(daemon.status().code(), Some(0));
}

#[test]
fn a_signal_that_the_parent_had_blocked_ends_the_daemon_all_the_same() {
    let signals = [Signal::TERM, Signal::INT, Signal::HUP];
    // A child has the mask of the thread that starts it.
    let mask =
        SigSet::from_iter([nix::sys::signal::SIGTERM, nix::sys::signal::SIGINT, nix::sys::signal::SIGHUP]);
    for signal in signals {
        mask.thread_block().unwrap();
        let mut daemon = Daemon::start(&[]);
        mask.thread_unblock().unwrap();
        daemon.call(0, "session/new", json!({"sessionId": "s"}));
        daemon.signal(signal);
        while daemon.line().is_some() {}
        assert_eq!(daemon.status().code(), Some(0));
        assert_eq!(daemon.log(), "", "an end is quiet");
    }
}

#[cfg(target_os = "linux")] // elsewhere nothing tells what was ignored, and SIGHUP is left as it is
#[test]
fn a_hang_up_that_was_ignored_at_the_start_stays_so() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let script = r#"trap '' HUP; exec "$0" serve --store memory:"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_sessiond")]);
    let mut child = command
        .stdin(OwnedFd::from(theirs.try_clone().unwrap()))
        .stdout(OwnedFd::from(theirs))
        .spawn()
        .unwrap();
    drop(command);
    let mut answers = BufReader::new(&ours);
    for id in 0..3 {
        (&ours).write_all(line(id, "session/list", json!({})).as_bytes()).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains("\"result\""), "{id}: {answer}");
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::HUP).unwrap();
    }
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn on_a_terminal_it_says_once_what_it_is_and_serves() {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    command.args(["serve", "--store", "memory:"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdin(terminal.slave).spawn().unwrap();
    drop(command);
    let mut typed = std::fs::File::from(terminal.master);
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    for id in 0..2 {
        typed.write_all(line(id, "session/list", json!({})).as_bytes()).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains("\"sessions\":[]"), "{answer}");
    }
    typed.write_all(b"\x04").unwrap(); // Ctrl-D
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told.matches("speaks JSON-RPC over stdin and stdout").count(), 1, "{told}");
    assert!(told.contains("sessiond --help") && told.lines().all(|line| line.len() <= 81), "{told}");
}

#[test]
fn a_reader_that_goes_away_ends_the_daemon_quietly() {
    // While it waits for input …
    let mut daemon = Daemon::start(&[]);
    daemon.close_stdout();
    assert_eq!(daemon.status().code(), Some(0));
    assert_eq!(daemon.log(), "");
    // … and while it has much to write.
    let mut daemon = Daemon::start(&[]);
    daemon.send(line(0, "session/new", json!({"sessionId": "s"})).as_bytes());
    daemon.send(title(1, "s", json!("x".repeat(4 << 20))).as_bytes());
    daemon.close_stdout();
    assert_eq!(daemon.status().code(), Some(0));
    assert_eq!(daemon.log(), "");
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let mut daemon = Daemon::start(&["--log", "trace"]);
    // Each of these is worth a line in the log.
    let noise = r#"{"jsonrpc":"2.0","method":"session/close","params":{"sessionId":"s"}}"#.to_owned() + "\n";
    for id in 0..50 {
        daemon.send(noise.repeat(1_000).as_bytes());
        daemon.call(id, "session/list", json!({}));
    }
    daemon.close_stdin();
    assert_eq!(daemon.line(), None);
    assert!(daemon.status().success());
}

#[test]
fn standard_streams_that_are_closed_or_null_are_no_trouble() {
    let daemon = env!("CARGO_BIN_EXE_sessiond");
    let run = |redirections: &str| {
        let script = format!("exec {daemon:?} serve --store memory: {redirections}");
        let request = line(1, "session/new", json!({"sessionId": "s"}));
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(request.as_bytes());
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (child.wait().unwrap().code(), out)
    };
    assert_eq!(run("</dev/null"), (Some(0), String::new()));
    let (code, out) = run("2>&-");
    assert_eq!((code, out.lines().count()), (Some(0), 2), "without a stderr: {out}");
    assert_eq!(run(">/dev/null"), (Some(0), String::new()));
    let (_, out) = run("<&-");
    assert_eq!(out, "", "without a stdin");
    let (_, out) = run(">&-");
    assert_eq!(out, "", "without a stdout");
}

#[test]
fn open_files_that_the_client_shares_keep_their_flags() {
    let ((input, mut requests), (mut answers, output)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    command.args(["serve", "--store", "memory:"]);
    command.stdin(input.try_clone().unwrap()).stdout(output.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    requests.write_all(line(1, "session/new", json!({"sessionId": "s"})).as_bytes()).unwrap();
    // More than the pipe takes, so that it is written in every way there is.
    requests.write_all(title(2, "s", json!("x".repeat(4 << 20))).as_bytes()).unwrap();
    let mut seen = Vec::new();
    while lines_in(&seen) < 4 {
        let mut buf = vec![0; 1 << 16];
        let n = answers.read(&mut buf).unwrap();
        seen.extend_from_slice(&buf[..n]);
        for (ours, what) in [(input.as_fd(), "stdin"), (output.as_fd(), "stdout")] {
            assert!(!rustix::fs::fcntl_getfl(ours).unwrap().contains(rustix::fs::OFlags::NONBLOCK), "{what}");
        }
    }
    drop(requests);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn lines_in(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

#[test]
fn named_pipes_and_sockets_are_as_good_as_pipes() {
    let daemon = env!("CARGO_BIN_EXE_sessiond");
    // A client that opens a pipe for both keeps it from ending: a signal has to.
    for (redirections, ends) in [("<in >out", true), ("<in 1<>out", true), ("<>in >out", false)] {
        let directory = tempfile::tempdir().unwrap();
        let script =
            format!("mkfifo in out && echo made && exec {daemon:?} serve --store memory: {redirections}");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .current_dir(&directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 5]).unwrap();
        let open = || std::fs::OpenOptions::new().write(true).open(directory.path().join("in")).unwrap();
        let mut requests = open();
        let mut answers = BufReader::new(std::fs::File::open(directory.path().join("out")).unwrap());
        let mut answer = |requests: &mut std::fs::File, request: String| {
            requests.write_all(request.as_bytes()).unwrap();
            loop {
                let mut line = String::new();
                answers.read_line(&mut line).unwrap();
                let line: Value = serde_json::from_str(&line).unwrap();
                if line.get("id").is_some() {
                    return line;
                }
            }
        };
        answer(&mut requests, line(1, "session/new", json!({"sessionId": "s"})));
        for id in 2..200 {
            let answer = answer(&mut requests, title(id, "s", json!(id)));
            assert_eq!(answer["result"]["seq"], id - 2, "{redirections}");
        }
        drop(requests);
        if !ends {
            answer(&mut open(), title(200, "s", json!(1)));
            rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(0), "{redirections}");
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new(daemon);
    command.args(["serve", "--store", "memory:"]);
    command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    drop(command);
    (&ours).write_all(line(1, "session/new", json!({"sessionId": "s"})).as_bytes()).unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut out = String::new();
    (&ours).read_to_string(&mut out).unwrap();
    assert_eq!(out.lines().count(), 2, "{out}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[cfg(target_os = "linux")] // threads are counted in /proc
#[test]
fn a_thread_is_there_while_it_has_something_to_do() {
    let mut daemon = Daemon::start(&["--log", "debug"]);
    let threads =
        |daemon: &Daemon| std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap().count();
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    for id in 1..=100 {
        daemon.call(id, "session/append", json!({"sessionId": "s", "type": "session/title", "data": id}));
    }
    assert_eq!(threads(&daemon), 1);
    // More than a pipe takes, and a line for the log; then one more, when both threads have ended.
    for round in 0..2 {
        daemon.send(title(1000 + round, "s", json!("x".repeat(4 << 20))).as_bytes());
        daemon.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"session/close\",\"params\":{}}\n");
        // It cannot end before the answer is read.
        while threads(&daemon) == 1 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        daemon.answer(1000 + round);
        while threads(&daemon) > 1 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    daemon.close_stdin();
    assert_eq!(daemon.line(), None);
    assert!(daemon.status().success());
    assert_eq!(daemon.log().lines().count(), 2);
}
