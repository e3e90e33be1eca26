//! A daemon's process with its lines as they came, so that events can be compared byte for byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::value::RawValue;

/// So long anything is waited for.
const WATCHDOG: Duration = Duration::from_secs(180);

#[derive(Deserialize)]
pub struct Line {
    pub id: Option<u64>,
    pub method: Option<String>,
    pub params: Option<Box<RawValue>>,
    pub result: Option<Box<RawValue>>,
    pub error: Option<WireError>,
}

#[derive(Deserialize, Debug)]
pub struct WireError {
    pub code: i64,
    pub message: String,
    pub data: ErrorData,
}

#[derive(Deserialize, Debug)]
pub struct ErrorData {
    pub code: String,
    pub committed: Option<bool>,
    pub pid: Option<u32>,
}

pub struct Wire {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Line>,
    /// The reader takes its time.
    pub slow: Arc<AtomicBool>,
}

impl Wire {
    pub fn start(store: &Path, flags: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
        command.arg("serve").arg("--store").arg(format!("jsonl:{}", store.display())).args(flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        let slow = Arc::new(AtomicBool::new(false));
        let pause = Arc::clone(&slow);
        std::thread::spawn(move || {
            let mut output = BufReader::with_capacity(4096, output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                // A daemon that is killed may leave a part of a line: that was not received.
                if line.ends_with(b"\n") {
                    let line = serde_json::from_slice(&line).unwrap_or_else(|error| {
                        panic!("not a line of the protocol ({error}): {}", String::from_utf8_lossy(&line))
                    });
                    let _ = sender.send(line);
                }
                line.clear();
                if pause.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_micros(300));
                }
            }
        });
        Self { child, input, lines, slow }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A daemon that is gone reads nothing.
    pub fn send(&mut self, text: &str) {
        let _ = self.input.as_mut().unwrap().write_all(text.as_bytes());
    }

    /// The next line; none at the end of the output.
    pub fn line(&self) -> Option<Line> {
        match self.lines.recv_timeout(WATCHDOG) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line for {WATCHDOG:?}"),
        }
    }

    /// SIGKILL; what it has said is still to be read.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn terminate(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Its exit code, once its output has ended.
    pub fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Open descriptors, and resident memory in KiB.
    pub fn weight(&self) -> Option<(usize, u64)> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).ok()?.count();
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        Some((files, line.split_whitespace().nth(1)?.parse().ok()?))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
