//! Carries a transcript out against a daemon and collects what comes back for each thing done.
//!
//! Nothing is guessed with sleeps. After the lines of a group goes a *sentinel*, a request for a method that does not
//! exist: its answer marks the end of what the group has caused. A daemon's first request fixes the dialect of the
//! connection, so a sentinel must not be that request. Until one has surely been answered (see [`fixes_dialect`]), a
//! *probe* takes the place of the sentinel: a second daemon gets the same lines and then the end of its input, which
//! tells how many lines come back.
//!
//! Unless the daemon's clock is fixed, a sentinel may overtake what waits for storage: the answers that are owed and the
//! lines that are expected are waited for behind it. `books` puts an answer that comes later still where it belongs.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memchr::memmem;
use serde_json::Value;

use super::books::Books;
use super::child::{Came, Daemon, Failure};
use super::flags::STORE;
use super::plan::Group;
use super::scratch::{Scratch, copy_below};
use super::transcript::{Item, Step, Transcript};

/// Bytes of output that a daemon may give beside what the transcript has itself.
const ROOM: u64 = 64 << 20;

/// How to start daemons.
#[derive(Debug)]
pub(super) struct Setup {
    /// The program and its first arguments; a transcript's flags follow.
    pub(super) command: Vec<OsString>,
    /// How long to wait for a line.
    pub(super) timeout: Duration,
}

/// What came back.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The lines for each group that was carried out; the last one is incomplete if there is a failure.
    pub(super) got: Vec<Vec<Vec<u8>>>,
    /// The lines that came when the transcript had ended and stdin was closed.
    pub(super) rest: Vec<Vec<u8>>,
    /// The line at which it went wrong, and how; nothing after it was carried out.
    pub(super) failure: Option<(usize, Failure)>,
}

/// Why a transcript could not be tried.
#[derive(Debug, thiserror::Error)]
pub(super) enum Obstacle {
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("cannot keep files for the run in the temporary directory: {0}")]
    Scratch(#[from] io::Error),
    #[error("line {line}: cannot copy the fixture {from} into the store: {source}")]
    Copy { line: usize, from: String, source: io::Error },
}

/// Carries out every group, then closes stdin.
pub(super) fn perform(
    setup: &Setup,
    directory: &Path,
    transcript: &Transcript,
    groups: &[Group],
) -> Result<Outcome, Obstacle> {
    let mut stage = Stage::new(setup, transcript)?;
    let mut outcome = Outcome::default();
    for group in groups {
        stage.books.begin();
        if let Err(failure) = stage.carry_out(directory, transcript, group)? {
            outcome.failure = Some((group.head.last().map_or(0, |index| index + 1), failure));
            break;
        }
    }
    let goes_on = stage.running && outcome.failure.is_none();
    if goes_on {
        stage.books.begin();
        let closed = stage.close()?;
        outcome.failure = closed.err().map(|failure| (transcript.items.len(), failure));
    }
    outcome.got = std::mem::take(&mut stage.books).close();
    outcome.got.iter_mut().for_each(|lines| stage.hide_store(lines));
    if goes_on {
        outcome.rest = outcome.got.pop().unwrap_or_default();
    }
    Ok(outcome)
}

/// One transcript being carried out.
struct Stage<'a> {
    setup: &'a Setup,
    transcript: &'a Transcript,
    scratch: Scratch,
    store: PathBuf,
    with_faults: bool,
    /// Whether a daemon runs, or is to be started when something is for it: what is copied before is there by then.
    running: bool,
    daemon: Option<Daemon>,
    /// How many daemons there have been; each has a fault file of its own, so that a restart clears the faults.
    generation: usize,
    sentinels: usize,
    dialect: Dialect,
    books: Books,
}

/// What is known about the dialect of a daemon's connection.
enum Dialect {
    /// A request has been sent that fixes it.
    Fixed,
    /// It may still be open after these bytes, for which so many lines came.
    Open { sent: Vec<u8>, lines: usize },
}

impl<'a> Stage<'a> {
    fn new(setup: &'a Setup, transcript: &'a Transcript) -> io::Result<Self> {
        let scratch = Scratch::create()?;
        Ok(Self {
            setup,
            transcript,
            store: scratch.store(),
            scratch,
            with_faults: transcript.items.iter().any(|item| matches!(item, Item::Step(Step::Fault { .. }))),
            running: true,
            daemon: None,
            generation: 0,
            sentinels: 0,
            dialect: Dialect::Open { sent: Vec::new(), lines: 0 },
            books: Books::default(),
        })
    }

    fn carry_out(
        &mut self,
        directory: &Path,
        transcript: &Transcript,
        group: &Group,
    ) -> Result<Result<(), Failure>, Obstacle> {
        let items: Vec<&Item> = group.head.iter().filter_map(|index| transcript.items.get(*index)).collect();
        match items.as_slice() {
            [Item::Step(step)] => match step {
                Step::Copy(name) => {
                    let line = group.head.first().map_or(0, |index| index + 1);
                    let copied = copy_below(directory, Path::new(name), &self.store);
                    copied.map_err(|source| Obstacle::Copy { line, from: name.clone(), source })?;
                }
                Step::Fault { op, errno } => self.add_fault(op, errno)?,
                Step::Eof => return self.close(),
                Step::Kill => {
                    self.started()?.kill();
                    self.stopped();
                }
                Step::Restart => {
                    let closed = if self.running { self.close()? } else { Ok(()) };
                    self.running = true;
                    return Ok(closed);
                }
            },
            sends => return self.send(sends, group.expects.len()),
        }
        Ok(Ok(()))
    }

    /// Sends the lines of a group and waits until everything that they cause has come.
    fn send(&mut self, sends: &[&Item], expected: usize) -> Result<Result<(), Failure>, Obstacle> {
        let mut bytes = Vec::new();
        let mut complete = true;
        let mut fixes = false;
        for item in sends {
            if let Item::Send { line, ended } = item {
                bytes.extend_from_slice(line);
                if *ended {
                    self.books.sent(line); // one without its newline is answered at the end
                    bytes.push(b'\n');
                }
                complete &= ended;
                fixes |= fixes_dialect(line);
            }
        }
        self.started()?;
        if fixes {
            self.dialect = Dialect::Fixed;
        }
        if !complete {
            self.started()?.send(bytes);
            return Ok(Ok(()));
        }
        if let Dialect::Open { sent, lines } = &mut self.dialect {
            sent.extend_from_slice(&bytes);
            let (sent, before) = (sent.clone(), *lines);
            let all = match self.probe(sent)? {
                Ok(count) => count,
                Err(failure) => return Ok(Err(failure)),
            };
            if let Dialect::Open { lines, .. } = &mut self.dialect {
                *lines = all;
            }
            self.started()?.send(bytes);
            return self.read(all.saturating_sub(before));
        }
        self.sentinels += 1;
        let id = format!("\u{0}replay-{}", self.sentinels);
        bytes.extend_from_slice(&sentinel(&id));
        self.started()?.send(bytes);
        // With a fixed clock nothing comes behind the sentinel's answer.
        let expected = if self.transcript.flags.fix_the_clock() { 0 } else { expected };
        self.read_behind(&id, expected)
    }

    /// Reads so many lines.
    fn read(&mut self, count: usize) -> Result<Result<(), Failure>, Obstacle> {
        for _ in 0..count {
            match self.started()?.line() {
                Ok(Came::Line(line)) => self.books.came(line),
                Ok(Came::End) => return self.ended(),
                Ok(Came::Nothing) => return Ok(Err(self.started()?.hangs())),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        Ok(Ok(()))
    }

    /// Reads until this sentinel is answered, and all that is owed and so many lines of this group have come.
    fn read_behind(&mut self, sentinel: &str, expected: usize) -> Result<Result<(), Failure>, Obstacle> {
        let mut reached = false;
        while !(reached && self.books.is_whole(expected)) {
            match self.started()?.line() {
                Ok(Came::Line(line)) if !reached && answers(&line, sentinel) => reached = true,
                Ok(Came::Line(line)) => self.books.came(line),
                Ok(Came::End) => return self.ended(),
                // What was awaited may never come: that is a difference, not a daemon that hangs.
                Ok(Came::Nothing) if reached => break,
                Ok(Came::Nothing) => return Ok(Err(self.started()?.hangs())),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        Ok(Ok(()))
    }

    /// The output is over although something was awaited.
    fn ended(&mut self) -> Result<Result<(), Failure>, Obstacle> {
        Ok(self.daemon.take().map_or(Ok(()), |daemon| Err(daemon.ended())))
    }

    /// How many lines a fresh daemon over an empty store gives for these bytes. What comes before the first request
    /// other than `initialize` does not look at the store.
    fn probe(&self, sent: Vec<u8>) -> Result<Result<usize, Failure>, Obstacle> {
        let scratch = Scratch::create()?;
        let mut daemon = self.start(&scratch, 0)?;
        daemon.send(sent);
        let mut count = 0;
        Ok(daemon.finish(|_| count += 1).map(|()| count))
    }

    /// The running daemon, started if it is not yet.
    fn started(&mut self) -> Result<&mut Daemon, Obstacle> {
        let daemon = match self.daemon.take() {
            Some(daemon) => daemon,
            None => self.start(&self.scratch, self.generation)?,
        };
        Ok(self.daemon.insert(daemon))
    }

    fn start(&self, scratch: &Scratch, generation: usize) -> Result<Daemon, Obstacle> {
        let store = scratch.store();
        let mut args = self.transcript.flags.words(&store.to_string_lossy());
        if self.with_faults {
            let faults = scratch.faults(generation);
            OpenOptions::new().append(true).create(true).open(&faults)?;
            args.extend(["--fault-file".to_owned(), faults.to_string_lossy().into_owned()]);
        }
        let lines = self.transcript.items.iter().map(|item| match item {
            Item::Expect(line) => line.len() as u64,
            _ => 0,
        });
        let room = ROOM + lines.sum::<u64>();
        Daemon::start(&self.setup.command, &args, self.setup.timeout, room).map_err(|source| {
            let program = self.setup.command.first().map(|name| name.display().to_string());
            Obstacle::Start { program: program.unwrap_or_default(), source }
        })
    }

    /// Closes stdin and waits for the end.
    fn close(&mut self) -> Result<Result<(), Failure>, Obstacle> {
        self.started()?;
        let finished = self.daemon.take().map(|daemon| daemon.finish(|line| self.books.came(line)));
        self.stopped();
        Ok(finished.unwrap_or(Ok(())))
    }

    fn stopped(&mut self) {
        self.daemon = None;
        self.books.forget_owed();
        self.running = false;
        self.generation += 1;
        self.dialect = Dialect::Open { sent: Vec::new(), lines: 0 };
    }

    /// Appends one line to the fault file of the daemon that runs, or of the next one.
    fn add_fault(&self, op: &str, errno: &str) -> io::Result<()> {
        let path = self.scratch.faults(self.generation);
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(format!("{op} {errno}\n").as_bytes())
    }

    /// Writes `$STORE` for the store's directory, as it is and as it stands in JSON text.
    fn hide_store(&self, lines: &mut [Vec<u8>]) {
        let plain = self.store.as_os_str().as_bytes();
        let quoted = serde_json::to_string(&self.store.to_string_lossy()).unwrap_or_default();
        let quoted = quoted.trim_matches('"').as_bytes();
        for line in lines {
            for path in [plain, quoted] {
                if memmem::find(line, path).is_some() {
                    *line = replace(line, path, STORE.as_bytes());
                }
            }
        }
    }
}

/// Whether a line surely fixes the dialect, so that a sentinel after it changes nothing: a well-formed request for
/// anything but `initialize`, which a daemon may refuse and then take again.
fn fixes_dialect(line: &[u8]) -> bool {
    let Ok(Value::Object(request)) = serde_json::from_slice(line) else { return false };
    let has_id = match request.get("id") {
        Some(Value::String(id)) => id.len() <= 100,
        Some(Value::Number(_) | Value::Null) => true,
        _ => false,
    };
    let is_request = has_id
        && request.get("jsonrpc").is_some_and(|version| version == "2.0")
        && matches!(request.get("params"), None | Some(Value::Null | Value::Object(_)));
    let method = request.get("method").and_then(Value::as_str);
    is_request && method.is_some_and(|method| method != "initialize")
}

fn sentinel(id: &str) -> Vec<u8> {
    let request = serde_json::json!({"jsonrpc": "2.0", "id": id, "method": "$/replay_sentinel"});
    format!("{request}\n").into_bytes()
}

/// Whether a line is the answer to the request with this id.
fn answers(line: &[u8], id: &str) -> bool {
    memmem::find(line, id.trim_start_matches('\0').as_bytes()).is_some()
        && serde_json::from_slice::<Value>(line)
            .is_ok_and(|answer| answer.get("id").is_some_and(|found| found == id))
}

fn replace(line: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(line.len());
    let mut from = 0;
    for at in memmem::find_iter(line, old) {
        result.extend_from_slice(line.get(from..at).unwrap_or_default());
        result.extend_from_slice(new);
        from = at + old.len();
    }
    result.extend_from_slice(line.get(from..).unwrap_or_default());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sound_request_surely_fixes_the_dialect() {
        let fixes = [
            r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#,
            r#"{"id":null,"params":{},"jsonrpc":"2.0","method":"x"}"#,
        ];
        let leaves = [
            "",
            "garbage",
            "[]",
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
            r#"{"jsonrpc":"2.0","method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":[],"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[]}"#,
            r#"{"id":1,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        ];
        assert!(fixes.iter().all(|line| fixes_dialect(line.as_bytes())));
        assert!(!leaves.iter().any(|line| fixes_dialect(line.as_bytes())));
    }

    #[test]
    fn sentinels_are_known_by_their_id() {
        let id = "\u{0}replay-1";
        assert_eq!(sentinel(id).iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(answers(br#"{"jsonrpc":"2.0","id":"\u0000replay-1","error":{"code":-32601}}"#, id));
        assert!(!answers(br#"{"jsonrpc":"2.0","id":"\u0000replay-11","error":{"code":-32601}}"#, id));
        assert!(!answers(br#"{"jsonrpc":"2.0","id":1,"result":"\u0000replay-1"}"#, id));
    }

    #[test]
    fn replacing_leaves_the_rest() {
        assert_eq!(replace(b"a/x/x/b/x", b"/x", b"$"), b"a$$/b$");
        assert_eq!(replace(b"ab", b"/x", b"$"), b"ab");
    }
}
