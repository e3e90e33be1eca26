//! What becomes of a daemon that may start no thread when it needs one? Nothing is lost, and it goes on when it may.
//!
//! The system bounds the threads of users, not those of root: where no daemon can be run as another user, this test says
//! so and passes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::getuid;

/// A user that runs nothing else.
const USER: u32 = 54_321;

/// A daemon of that user's, who may have so many threads in all; none where it cannot be had.
fn start(store: &str, threads: u64) -> Option<(Child, BufReader<ChildStdout>)> {
    let script = format!("ulimit -u {threads}; exec \"$0\" serve --store {store}");
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_sessiond")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let runs = || Command::new(env!("CARGO_BIN_EXE_sessiond")).arg("--version").uid(USER).output();
    if !getuid().is_root() || !runs().is_ok_and(|ran| ran.status.success()) {
        eprintln!("this user may not run the daemon as another one: not tested");
        return None;
    }
    let mut child = command.uid(USER).spawn().ok()?;
    let output = BufReader::new(child.stdout.take().unwrap());
    Some((child, output))
}

fn requests(text: usize) -> String {
    let append = |id: u32, text: usize| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"session/append\",\"params\":{{\"sessionId\":\"s\",\"type\":\"feedback/record\",\
             \"data\":{{\"text\":\"{}\"}}}}}}\n",
            "x".repeat(text)
        )
    };
    let new = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"sessionId\":\"s\"}}\n";
    format!("{new}{}{}", append(2, 10), append(3, text))
}

#[test]
fn output_that_needs_a_thread_waits_for_one() {
    // Another process of the user's takes the thread that the daemon will need.
    let Ok(mut other) = Command::new("sleep").arg("60").uid(USER).spawn() else { return };
    let started = start("memory:", 2);
    let Some((mut child, mut output)) = started else { return other.kill().unwrap() };
    // More than the owner writes by itself.
    let mut input = child.stdin.take().unwrap();
    input.write_all(requests(60_000).as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it lives on");
    other.kill().unwrap();
    other.wait().unwrap();
    let mut lines = Vec::new();
    while lines.len() < 6 {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "after {lines:?}");
        lines.push(line);
    }
    assert!(lines.last().unwrap().contains("\"id\":3"), "{lines:?}");
    drop(input);
    assert!(child.wait().unwrap().success());
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told.matches("cannot start the thread that writes to stdout").count(), 1, "{told}");
}
