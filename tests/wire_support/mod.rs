//! A daemon as a client has it: a child process with three pipes. Every wait has a watchdog.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Longer than anything takes on a busy machine: a test that waits so long has failed.
pub const WATCHDOG: Duration = Duration::from_secs(180);

/// A running daemon over a store in memory; dropping it kills it.
pub struct Daemon {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
    lines: Option<Receiver<String>>,
}

impl Daemon {
    pub fn start(args: &[&str]) -> Self {
        Self::spawn(
            Command::new(env!("CARGO_BIN_EXE_sessiond")).args(["serve", "--store", "memory:"]).args(args),
        )
    }

    pub fn spawn(command: &mut Command) -> Self {
        Self::spawn_with(command, Stdio::piped())
    }

    /// The same with a stderr of the caller's.
    pub fn spawn_with(command: &mut Command, stderr: Stdio) -> Self {
        let piped = || Stdio::piped();
        let mut child = command.stdin(piped()).stdout(piped()).stderr(stderr).spawn().unwrap();
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Self { child, stdin, stdout, stderr, lines: None }
    }

    pub fn stdin(&mut self) -> &mut ChildStdin {
        self.stdin.as_mut().unwrap()
    }

    /// Takes stdin out, for a thread that writes.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().unwrap()
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Closes stdout, also when lines of it have been read: the thread that reads ends with its next line.
    pub fn hang_up(&mut self) {
        (self.stdout, self.lines) = (None, None);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that is still to come, as bytes; of a daemon of which no line was read.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
        rest
    }

    /// The lines that are still to come.
    pub fn rest_lines(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stdin().write_all(bytes).unwrap();
    }

    pub fn request(&mut self, id: u64, method: &str, params: Value) {
        self.send(line(id, method, params).as_bytes());
    }

    /// Reads a little of what comes, and nothing more.
    pub fn read_some(&mut self) {
        let mut little = [0; 8];
        self.stdout.as_mut().unwrap().read_exact(&mut little).unwrap();
    }

    /// The next line, read by a thread that this call starts; none at the end of the output.
    pub fn line(&mut self) -> Option<String> {
        let stdout = &mut self.stdout;
        let lines = self.lines.get_or_insert_with(|| {
            let reader = BufReader::with_capacity(1 << 16, stdout.take().unwrap());
            let (sender, lines) = sync_channel(64); // reads little ahead
            std::thread::spawn(move || {
                for line in reader.lines() {
                    if sender.send(line.unwrap()).is_err() {
                        break;
                    }
                }
            });
            lines
        });
        match lines.recv_timeout(WATCHDOG) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line for {WATCHDOG:?}"),
        }
    }

    pub fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().expect("a line")).unwrap()
    }

    /// Reads on to the response of that id.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = self.json();
            if line.get("id").and_then(Value::as_u64) == Some(id) {
                return line;
            }
        }
    }

    /// A request and its answer.
    pub fn call(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.request(id, method, params);
        self.answer(id)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end.
    pub fn status(&mut self) -> ExitStatus {
        let deadline = Instant::now() + WATCHDOG;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "still running after {WATCHDOG:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether it ends, well, before so long has passed.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// What was logged, once the daemon has ended.
    pub fn log(&mut self) -> String {
        let mut log = String::new();
        self.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        log
    }

    /// Resident memory in KiB.
    #[cfg(target_os = "linux")]
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request's line.
pub fn line(id: u64, method: &str, params: Value) -> String {
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// An append of a title with that data.
pub fn title(id: u64, session: &str, data: Value) -> String {
    line(id, "session/append", json!({"sessionId": session, "type": "session/title", "data": data}))
}
