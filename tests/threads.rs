//! What becomes of a daemon that may start no thread when it needs one? Nothing is lost, and it goes on: with output at
//! once, as far as that takes no wait.
//!
//! The system bounds the threads of users, not those of root: where no daemon can be run as another user, this test says
//! so and passes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getuid, kill_process};

/// Users that run nothing else, one for each test.
const USERS: [u32; 1] = [54_321];
/// So long a daemon that hangs is waited for.
const TOO_LONG: Duration = Duration::from_secs(60);

/// A daemon of a user's, who may have so many threads in all; none where it cannot be had.
fn start(user: u32, args: &str, threads: u64) -> Option<(Child, BufReader<ChildStdout>)> {
    let script = format!("ulimit -u {threads}; exec \"$0\" serve {args}");
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_sessiond")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let runs = || Command::new(env!("CARGO_BIN_EXE_sessiond")).arg("--version").uid(user).output();
    if !getuid().is_root() || !runs().is_ok_and(|ran| ran.status.success()) {
        eprintln!("this user may not run the daemon as another one: not tested");
        return None;
    }
    let mut child = command.uid(user).spawn().ok()?;
    let output = BufReader::new(child.stdout.take().unwrap());
    Some((child, output))
}

/// A process that does not outlive its test.
struct Process(Child);

impl Process {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Another process of the user's, which takes a thread that the daemon may need.
fn other(user: u32) -> Option<Process> {
    Command::new("sleep").arg("120").uid(user).spawn().ok().map(Process)
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
fn output_that_needs_a_thread_goes_out_without_one() {
    let Some(_other) = other(USERS[0]) else { return };
    let Some((mut child, mut output)) = start(USERS[0], "--store memory:", 2) else { return };
    let _watched = watch(&child);
    let mut input = child.stdin.take().unwrap();
    // More than the owner would write by itself, and than the pipe holds.
    input.write_all(requests(200_000).as_bytes()).unwrap();
    let mut lines = Vec::new();
    while lines.len() < 6 {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "after {lines:?}");
        lines.push(line);
    }
    assert!(lines.last().unwrap().contains("\"id\":3"), "{lines:?}");
    // And the same at the end of the input.
    input.write_all(requests(200_000).replace("\"s\"", "\"t\"").as_bytes()).unwrap();
    drop(input);
    let (mut rest, mut told) = (String::new(), String::new());
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(
        rest.len() > 200_000 && rest.lines().last().unwrap().contains("\"id\":3"),
        "{} bytes",
        rest.len()
    );
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(told.contains("cannot start the thread that writes to stdout"), "{told}");
}

/// Ends a daemon that hangs, so that the test ends; it does not when the other side is gone before.
fn watch(child: &Child) -> Sender<()> {
    let (alive, gone) = channel::<()>();
    let pid = Pid::from_child(child);
    thread::spawn(move || {
        if gone.recv_timeout(TOO_LONG) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    alive
}
