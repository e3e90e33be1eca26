//! What becomes of a daemon that may start no thread when it needs one? Nothing is lost, and it goes on: with output when
//! it may, with a store on disk at once, by the thread that it has from its start on.
//!
//! The system bounds the threads of users, not those of root: where no daemon can be run as another user, this test says
//! so and passes.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getuid, kill_process};

/// Users that run nothing else, one for each test.
const USERS: [u32; 4] = [54_321, 54_322, 54_323, 54_324];
/// Longer than a thread without work is usually kept.
const LONG_REST: Duration = Duration::from_secs(11);
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
    input.write_all(requests(700_000).as_bytes()).unwrap();
    let mut lines = Vec::new();
    while lines.len() < 6 {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "after {lines:?}");
        lines.push(line);
    }
    assert!(lines.last().unwrap().contains("\"id\":3"), "{lines:?}");
    // And the same at the end of the input.
    input.write_all(requests(700_000).replace("\"s\"", "\"t\"").as_bytes()).unwrap();
    drop(input);
    let (mut rest, mut told) = (String::new(), String::new());
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(
        rest.len() > 700_000 && rest.lines().last().unwrap().contains("\"id\":3"),
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

/// A daemon over a store on disk that has all the threads that it ever gets.
struct Poor {
    daemon: Process,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    stderr: ChildStderr,
    #[allow(dead_code)] // there until this ends
    held: (Option<Process>, Sender<()>),
    id: u32,
}

impl Poor {
    fn start(user: u32, args: &str) -> Option<Self> {
        let (mut child, output) = start(user, args, 3)?;
        let (input, stderr) = (child.stdin.take(), child.stderr.take().unwrap());
        let held = (None, watch(&child));
        let mut this = Self { daemon: Process(child), input, output, stderr, held, id: 0 };
        this.call("ping", "{}"); // it has started, and has what it has at rest
        this.held.0 = Some(other(user)?);
        Some(this)
    }

    fn send(&mut self, method: &str, params: &str) -> u32 {
        self.id += 1;
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",\"params\":{params}}}\n",
            self.id
        );
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        self.id
    }

    fn call(&mut self, method: &str, params: &str) -> String {
        let id = format!("\"id\":{},", self.send(method, params));
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).unwrap() == 0 {
                let mut told = String::new();
                self.stderr.read_to_string(&mut told).unwrap();
                panic!("{method} {params}: no answer; {told}");
            }
            if line.contains(&id) {
                return line;
            }
        }
    }

    fn ok(&mut self, method: &str, params: &str) {
        let answer = self.call(method, params);
        assert!(answer.contains("\"result\""), "{method} {params}: {answer}");
    }

    /// What it said while it ended, which it must by itself; what it logged.
    fn end(mut self) -> (String, String) {
        let (mut said, mut told) = (String::new(), String::new());
        self.output.read_to_string(&mut said).unwrap();
        let ended = self.daemon.0.wait().unwrap();
        self.stderr.read_to_string(&mut told).unwrap();
        assert!(ended.success(), "{ended}: {told}");
        (said, told)
    }
}

/// A store that everybody may write to.
fn store() -> (tempfile::TempDir, String) {
    let store = tempfile::tempdir().unwrap();
    std::fs::set_permissions(store.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let spec = format!("--store jsonl:{}", store.path().display());
    (store, spec)
}

fn note(session: &str) -> String {
    format!("{{\"sessionId\":\"{session}\",\"type\":\"feedback/record\",\"data\":{{\"text\":\"x\"}}}}")
}

#[test]
fn a_store_on_disk_has_a_thread_from_the_start_to_the_end() {
    let ((dir, spec), s) = (store(), "{\"sessionId\":\"s\"}");
    let plan = dir.path().join("plan");
    std::fs::write(&plan, "list_dir panic\n").unwrap();
    let Some(mut daemon) = Poor::start(USERS[1], &format!("{spec} --fault-file {}", plan.display())) else {
        return;
    };
    // A job that panics, and a rest, take no thread away.
    let bug = daemon.call("session/list", "{}");
    assert!(bug.contains("INTERNAL"), "{bug}");
    thread::sleep(LONG_REST);
    daemon.ok("session/list", "{}");
    daemon.ok("session/new", s);
    daemon.ok("session/append", &note("s"));
    daemon.ok("session/flush", s);
    daemon.ok("session/fork", "{\"sessionId\":\"s\",\"childSessionId\":\"child\"}");
    daemon.ok("session/close", s);
    daemon.ok("session/load", s);
    daemon.ok("session/inspect", s);
    daemon.ok("session/delete", "{\"sessionId\":\"child\"}");
    // More at once than there are threads at the best of times, and the end behind them.
    for n in 0..40 {
        daemon.send("session/new", &format!("{{\"sessionId\":\"s{n}\"}}"));
        daemon.send("session/append", &note(&format!("s{n}")));
    }
    daemon.input = None;
    let (said, told) = daemon.end();
    assert_eq!(said.matches("\"result\"").count(), 80, "{said}");
    assert_eq!(told.matches("a job of the store met a bug").count(), 1, "{told}");
    let stored =
        |n: u32| std::fs::read_to_string(dir.path().join(format!("_no-cwd/s{n}/session.jsonl"))).unwrap();
    assert!((0..40).all(|n| stored(n).lines().count() == 2));
}

#[test]
fn a_signal_ends_a_daemon_that_gets_no_more_threads() {
    let (_dir, spec) = store();
    let Some(mut daemon) = Poor::start(USERS[2], &spec) else { return };
    daemon.ok("session/new", "{\"sessionId\":\"s\"}");
    daemon.ok("session/append", &note("s"));
    kill_process(Pid::from_child(&daemon.daemon.0), Signal::TERM).unwrap();
    daemon.end();
}

#[test]
fn a_store_on_disk_that_cannot_have_its_threads_does_not_start() {
    let (_dir, spec) = store();
    for threads in [1, 2] {
        let Some((mut child, mut output)) = start(USERS[3], &spec, threads) else { return };
        drop(child.stdin.take());
        let _watched = watch(&child);
        let (mut said, mut told) = (String::new(), String::new());
        output.read_to_string(&mut said).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3), "{threads}: {told}");
        assert_eq!(said, "");
        assert_eq!(told.lines().count(), 1, "{threads}: {told}");
        assert!(told.contains("cannot start threads: "), "{threads}: {told}");
    }
}
