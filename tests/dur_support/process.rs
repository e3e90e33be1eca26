//! A daemon of its own process, and a client of it that never waits without an end.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::{append, note};

/// So long a test waits for anything before it fails.
const WATCHDOG: Duration = Duration::from_secs(120);

pub struct Daemon {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    next: u64,
    answers: HashMap<u64, Value>,
    /// Notifications, in order.
    pub notices: Vec<Value>,
}

/// An answer: the result, or the error.
pub type Answer = Result<Value, Value>;

impl Daemon {
    pub fn start(store: &Path) -> Self {
        Self::with(store, &[])
    }

    pub fn with(store: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
        command.arg("serve").arg("--store").arg(format!("jsonl:{}", store.display())).args(flags);
        Self::run(command)
    }

    pub fn run(command: Command) -> Self {
        Self::run_with(command, Stdio::inherit())
    }

    pub fn run_with(mut command: Command, stderr: Stdio) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                // A daemon that is killed may leave a part of a line: that was not received.
                if line.ends_with(b"\n") {
                    let value = serde_json::from_slice(&line).expect("a line of the daemon is JSON");
                    let _ = sender.send(value);
                }
                line.clear();
            }
        });
        Self { child, input, lines, next: 1, answers: HashMap::new(), notices: Vec::new() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request and gives its id; a daemon that is gone reads nothing.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let _ = self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes());
        id
    }

    /// Sends many lines from another thread, so that the daemon may answer meanwhile.
    pub fn send_all(&mut self, requests: &[(String, Value)]) -> (u64, std::thread::JoinHandle<ChildStdin>) {
        let first = self.next;
        let mut text = Vec::new();
        for (method, params) in requests {
            let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
            text.push(format!("{line}\n"));
            self.next += 1;
        }
        let mut input = self.input.take().unwrap();
        let thread = std::thread::spawn(move || {
            for part in text.chunks(20) {
                if input.write_all(part.concat().as_bytes()).is_err() {
                    break;
                }
            }
            input
        });
        (first, thread)
    }

    /// Takes the input back from the thread that has sent many lines.
    pub fn give_back(&mut self, thread: std::thread::JoinHandle<ChildStdin>) {
        self.input = Some(thread.join().unwrap());
    }

    fn take(&mut self, line: Value) {
        match line["id"].as_u64() {
            Some(id) => drop(self.answers.insert(id, line)),
            None => self.notices.push(line),
        }
    }

    pub fn answer(&mut self, id: u64) -> Answer {
        while !self.answers.contains_key(&id) {
            let line = self.lines.recv_timeout(WATCHDOG).expect("an answer");
            self.take(line);
        }
        let mut line = self.answers.remove(&id).unwrap();
        match line.get("error") {
            Some(_) => Err(line["error"].take()),
            None => Ok(line["result"].take()),
        }
    }

    pub fn call(&mut self, method: &str, params: Value) -> Answer {
        let id = self.send(method, params);
        self.answer(id)
    }

    pub fn ok(&mut self, method: &str, params: Value) -> Value {
        self.call(method, params.clone()).unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    /// The code and data of a refusal.
    pub fn err(&mut self, method: &str, params: Value) -> (String, Value) {
        let error = match self.call(method, params.clone()) {
            Err(error) => error,
            Ok(result) => panic!("{method} {params}: {result}"),
        };
        (error["data"]["code"].as_str().unwrap().to_owned(), error["data"].clone())
    }

    /// Waits until so many lines have come, or no more do for a while.
    pub fn wait_for_lines(&mut self, count: usize, quiet: Duration) {
        for _ in 0..count {
            match self.lines.recv_timeout(quiet) {
                Ok(line) => self.take(line),
                Err(_) => return,
            }
        }
    }

    /// SIGKILL; the answers that had come by then.
    pub fn kill(mut self) -> HashMap<u64, Value> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.drain();
        std::mem::take(&mut self.answers)
    }

    /// The same, with the notifications that had come.
    pub fn kill_with_notices(mut self) -> (HashMap<u64, Value>, Vec<Value>) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.drain();
        (std::mem::take(&mut self.answers), std::mem::take(&mut self.notices))
    }

    fn drain(&mut self) {
        while let Ok(line) = self.lines.recv_timeout(WATCHDOG) {
            self.take(line);
        }
    }

    /// The end of its input: it ends by itself, quietly; the answers that were not asked for.
    pub fn end(mut self) -> HashMap<u64, Value> {
        assert_eq!(self.end_of_input(), Some(0));
        std::mem::take(&mut self.answers)
    }

    /// The same; its exit code.
    pub fn end_with(mut self) -> Option<i32> {
        self.end_of_input()
    }

    fn end_of_input(&mut self) -> Option<i32> {
        drop(self.input.take());
        self.drain(); // until its output closes
        self.child.wait().unwrap().code()
    }

    /// All events of a session.
    pub fn events(&mut self, session: &str) -> Vec<Value> {
        pages(|from| self.ok("session/events", json!({"sessionId": session, "fromSeq": from})))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn pages(mut page: impl FnMut(u64) -> Value) -> Vec<Value> {
    let (mut events, mut from) = (Vec::new(), 0);
    loop {
        let mut found = page(from);
        events.extend(std::mem::take(found["events"].as_array_mut().unwrap()));
        match found["next"].as_u64() {
            Some(next) => from = next,
            None => break,
        }
    }
    for (seq, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], seq, "seqs are contiguous");
    }
    events
}

/// Every file below a directory with its bytes; links are not followed.
pub fn tree(dir: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(dir) else { return files };
    for entry in entries {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            files.extend(tree(&path));
        } else if kind.is_file() {
            let mut bytes = Vec::new();
            std::fs::File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
            files.insert(path, bytes);
        }
    }
    files
}

/// The one log of a session whose directory has that name.
pub fn log_of(store: &Path, session: &str) -> PathBuf {
    let logs = tree(store).into_keys().filter(|path| {
        let name = path.file_name().unwrap();
        let parent = path.parent().unwrap().file_name().unwrap();
        parent == session && (name == "session.jsonl" || name == "session.jsonl.zstd")
    });
    let logs: Vec<_> = logs.collect();
    assert_eq!(logs.len(), 1, "{logs:?}");
    logs.into_iter().next().unwrap()
}

/// Makes a session with one note in it.
pub fn with_note(daemon: &mut Daemon, session: &str) {
    daemon.ok("session/new", json!({"sessionId": session, "cwd": "/w"}));
    daemon.ok("session/append", append(session, &note(0)));
}
