//! A daemon under replay: a child process whose lines arrive through a channel, so that every wait has a deadline.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How much of the end of stderr is kept for a report.
const STDERR_KEPT: usize = 2048;
/// What holding a line takes beside its bytes.
const LINE_COST: u64 = 64;
/// A wait in which lines go on coming lasts at most so many timeouts.
const WAITS: u32 = 60;

/// Why a daemon did not do what every daemon has to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("no answer for {0:?}: the daemon hangs, or does not answer unknown requests; it was killed")]
    Silent(Duration),
    #[error("the daemon ended by itself ({status}) before it had answered{stderr}")]
    Ended { status: String, stderr: String },
    #[error("the daemon left with {status} after its stdin was closed; 0 was expected{stderr}")]
    Exit { status: String, stderr: String },
    #[error("the daemon wrote more than {} MiB; it was killed", .0 >> 20)]
    Floods(u64),
    #[error("the daemon still ran {0:?} after its stdin was closed; it was killed")]
    Lingers(Duration),
    #[error("the daemon's last line has no newline: `{0}`")]
    Torn(String),
    #[error("the daemon could not be waited for: {0}")]
    Wait(String),
}

/// What the reading thread saw.
enum Seen {
    Line(Vec<u8>),
    Torn(Vec<u8>),
    /// More than it may hold; nothing is read any more.
    Flood,
}

/// What waiting for a line came to.
pub(super) enum Came {
    Line(Vec<u8>),
    /// The output is over.
    End,
    /// Nothing, for as long as the timeout.
    Nothing,
}

/// A running daemon; dropping it kills it.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Child,
    /// None once stdin is closed.
    input: Option<Sender<Vec<u8>>>,
    lines: Receiver<Seen>,
    stderr: Receiver<String>,
    timeout: Duration,
    /// How many bytes of output may be held.
    room: u64,
    /// When the wait for what was last sent is over, whatever comes.
    deadline: Instant,
}

impl Daemon {
    /// Starts `command` with `args`. `SESSIOND_STORE` names a store in memory, so that a transcript without `--store`
    /// cannot touch the user's own sessions. Of its output, `room` bytes are held at most.
    pub(super) fn start(
        command: &[OsString],
        args: &[String],
        timeout: Duration,
        room: u64,
    ) -> io::Result<Self> {
        let (program, first) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program)
            .args(first)
            .args(args)
            .env("SESSIOND_STORE", "memory:")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: `! kill -9` reaches what a wrapper script has started, too.
            .process_group(0)
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Self {
            child,
            input: Some(write_all(stdin)),
            lines: read_lines(stdout, room),
            stderr: read_tail(stderr),
            timeout,
            room,
            deadline: Instant::now() + WAITS * timeout,
        })
    }

    /// Sends bytes; what a daemon that has ended does not take is lost, and reading tells.
    pub(super) fn send(&mut self, bytes: Vec<u8>) {
        self.deadline = Instant::now() + WAITS * self.timeout;
        if let Some(input) = &self.input {
            let _ = input.send(bytes);
        }
    }

    /// The next line. After a failure nothing more comes.
    pub(super) fn line(&mut self) -> Result<Came, Failure> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(self.timeout.min(left)) {
            Ok(Seen::Line(line)) => Ok(Came::Line(line)),
            Ok(Seen::Torn(line)) => Err(Failure::Torn(super::diff::shorten(&line, 0))),
            Ok(Seen::Flood) => {
                self.kill();
                Err(Failure::Floods(self.room))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(Came::End),
            Err(RecvTimeoutError::Timeout) => Ok(Came::Nothing),
        }
    }

    /// Kills a daemon that was waited for long enough.
    pub(super) fn hangs(&mut self) -> Failure {
        self.kill();
        Failure::Silent(self.timeout)
    }

    /// Closes stdin, hands on the lines that still come, and waits for the end with exit code 0.
    pub(super) fn finish(mut self, mut take: impl FnMut(Vec<u8>)) -> Result<(), Failure> {
        self.input = None;
        self.deadline = Instant::now() + WAITS * self.timeout;
        loop {
            match self.line()? {
                Came::Line(line) => take(line),
                Came::End => break,
                Came::Nothing => {
                    self.kill();
                    return Err(Failure::Lingers(self.timeout));
                }
            }
        }
        match self.wait()? {
            status if status.success() => Ok(()),
            status => Err(Failure::Exit { status: status.to_string(), stderr: self.stderr_tail() }),
        }
    }

    /// Says how a daemon ended whose output is over although an answer is owed.
    pub(super) fn ended(mut self) -> Failure {
        match self.wait() {
            Ok(status) => Failure::Ended { status: status.to_string(), stderr: self.stderr_tail() },
            Err(failure) => failure,
        }
    }

    /// Kills the daemon, as `kill -9` does, and reaps it.
    pub(super) fn kill(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw)
            {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn wait(&mut self) -> Result<ExitStatus, Failure> {
        let deadline = Instant::now() + self.timeout;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
                Ok(None) => {
                    self.kill();
                    return Err(Failure::Lingers(self.timeout));
                }
                Err(error) => return Err(Failure::Wait(error.to_string())),
            }
        }
    }

    /// The last lines of stderr, indented, for the end of a message.
    fn stderr_tail(&self) -> String {
        let tail = self.stderr.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        tail.lines().fold(String::new(), |text, line| text + "\n      stderr: " + line)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes on a thread of its own, since a daemon that hangs does not read; ends when the sender is dropped.
fn write_all(mut stdin: ChildStdin) -> Sender<Vec<u8>> {
    let (sender, chunks) = mpsc::channel::<Vec<u8>>();
    thread::spawn(move || {
        for chunk in chunks {
            if stdin.write_all(&chunk).is_err() {
                break;
            }
        }
    });
    sender
}

fn read_lines(stdout: ChildStdout, mut room: u64) -> Receiver<Seen> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::with_capacity(1 << 16, stdout);
        loop {
            let mut line = Vec::new();
            match reader.by_ref().take(room).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) if room > 0 => break,
                _ => {}
            }
            room = room.saturating_sub(line.len() as u64 + LINE_COST);
            let seen = match line.pop_if(|byte| *byte == b'\n') {
                _ if room == 0 => Seen::Flood,
                Some(_) => Seen::Line(line),
                None => Seen::Torn(line),
            };
            if sender.send(seen).is_err() || room == 0 {
                break;
            }
        }
    });
    lines
}

/// Reads stderr to its end, so that a daemon never blocks on it, and then gives its last lines.
fn read_tail(mut stderr: ChildStderr) -> Receiver<String> {
    let (sender, tail) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut buffer) {
            kept.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let surplus = kept.len().saturating_sub(STDERR_KEPT);
            kept.drain(..surplus);
        }
        let _ = sender.send(String::from_utf8_lossy(&kept).trim().to_owned());
    });
    tail
}
