//! What a killed process has left on its way to a name goes with the next owner of the session; what another process is
//! writing stays, whatever comes in between.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use sessiond::disk::fs::fault::{Effect, Op};
use sessiond::disk::fs::os::OsFs;
use sessiond::disk::fs::{File, Metadata, ReadAt};
use sessiond::disk::live::lock::Holder;
use sessiond::disk::live::publish::{Piece, PublishError, Publisher};
use sessiond::disk::paths::{Encoding, LogPath};

use crate::dur_support::bench::Bench;
use crate::dur_support::local::runtime;
use crate::dur_support::process::{Daemon, log_of};
use crate::dur_support::{append, note};

fn s() -> Value {
    json!({"sessionId": "s"})
}

const LOG: &str = "{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":5,\"delegationDepth\":0}\n";

/// Gives its bytes once a line comes from stdin.
struct Slow(std::sync::atomic::AtomicBool);

impl ReadAt for Slow {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        if !self.0.swap(true, std::sync::atomic::Ordering::Relaxed) {
            eprintln!("under way");
            std::io::stdin().read_line(&mut String::new())?;
        }
        LOG.as_bytes().read_at(offset, buf)
    }
}

fn never<T>() -> std::io::Result<T> {
    Err(std::io::ErrorKind::Unsupported.into())
}

impl File for Slow {
    fn append(&self, _: &[u8]) -> std::io::Result<usize> {
        never()
    }
    fn write_at(&self, _: u64, _: &[u8]) -> std::io::Result<usize> {
        never()
    }
    fn copy_from(&self, _: &dyn File, _: u64, _: u64) -> std::io::Result<u64> {
        never()
    }
    fn set_len(&self, _: u64) -> std::io::Result<()> {
        never()
    }
    fn sync_data(&self) -> std::io::Result<()> {
        never()
    }
    fn metadata(&self) -> std::io::Result<Metadata> {
        never()
    }
    fn try_lock(&self) -> std::io::Result<bool> {
        never()
    }
    fn unlock(&self) -> std::io::Result<()> {
        never()
    }
}

/// Not a test of its own: what the next ones run in another process.
#[test]
fn publish_in_child() {
    let Some(root) = std::env::var_os("DISK_TEMPORARY_ROOT") else { return };
    let publisher = Publisher::new(Arc::new(OsFs::new(PathBuf::from(root))));
    let path = LogPath::new(None, "s", Encoding::Plain).unwrap();
    let slow = Slow(false.into());
    let content = [Piece::Range { file: &slow, from: 0, to: LOG.len() as u64 }];
    match publisher.publish(&path, &content, Holder { pid: std::process::id(), since_ms: 7 }) {
        Ok(_) => eprintln!("published"),
        Err(PublishError::AlreadyExists) => eprintln!("taken"),
        Err(error) => eprintln!("{error}"),
    }
}

/// A process in the middle of a publication.
struct Publishing {
    child: Child,
    says: BufReader<std::process::ChildStderr>,
}

impl Publishing {
    fn begin(store: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["temporary::publish_in_child", "--exact", "--nocapture"])
            .env("DISK_TEMPORARY_ROOT", store)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut says = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while line.trim_end() != "under way" {
            line.clear();
            assert!(says.read_line(&mut line).unwrap() > 0, "it ended before it began");
        }
        Self { child, says }
    }

    /// Lets it go on; what became of it.
    fn end(mut self) -> String {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut said = String::new();
        self.says.read_to_string(&mut said).unwrap();
        self.child.wait().unwrap();
        said.trim().to_owned()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The names beside the log of `s` that end with `.tmp`.
fn temporaries(store: &Path) -> Vec<String> {
    let dir = store.join("_no-cwd/s");
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".tmp"));
    names.sort_unstable();
    names
}

fn stored() -> (tempfile::TempDir, Daemon) {
    let store = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(store.path());
    daemon.ok("session/new", s());
    daemon.ok("session/append", append("s", &note(0)));
    daemon.ok("session/close", s());
    (store, daemon)
}

#[test]
fn a_publication_under_way_is_taken_away_by_nobody() {
    let (store, mut daemon) = stored();
    let publishing = Publishing::begin(store.path());
    let under_way = temporaries(store.path());
    assert_eq!(under_way.len(), 1);
    // Loaded, flushed, closed; loaded and deleted; made anew; closed and deleted: each of these sweeps.
    for method in ["session/load", "session/flush", "session/close", "session/load", "session/delete"] {
        daemon.ok(method, s());
        assert_eq!(temporaries(store.path()), under_way, "{method}");
    }
    daemon.ok("session/new", s());
    daemon.ok("session/append", append("s", &note(1)));
    assert_eq!(temporaries(store.path()), under_way, "published");
    daemon.ok("session/close", s());
    daemon.ok("session/delete", s());
    daemon.ok("session/delete", s()); // what is left of one that is gone
    assert_eq!(temporaries(store.path()), under_way, "deleted");
    assert_eq!(publishing.end(), "published");
    assert_eq!(temporaries(store.path()), [] as [String; 0]);
    assert_eq!(std::fs::read_to_string(log_of(store.path(), "s")).unwrap(), LOG);
    // And where the name is taken, that is all that it is told.
    let publishing = Publishing::begin(store.path());
    daemon.ok("session/load", s());
    assert_eq!(publishing.end(), "taken");
    assert_eq!(temporaries(store.path()), [] as [String; 0]);
}

#[test]
fn what_a_killed_process_has_left_goes_with_the_next_owner() {
    let cases: [(&str, &[&str]); 3] = [
        ("loaded", &["session/load"]),
        ("deleted", &["session/delete"]),
        ("published", &["session/delete", "session/new", "session/append"]),
    ];
    for (what, methods) in cases {
        let (store, mut daemon) = stored();
        let dir = store.path().join("_no-cwd/s");
        Publishing::begin(store.path()).kill();
        assert_eq!(temporaries(store.path()).len(), 1);
        // Killed behind the naming of the log, and in a summary; and what no store has named.
        let put = |name: &str| std::fs::write(dir.join(name), "x").unwrap();
        std::fs::hard_link(dir.join("session.jsonl"), dir.join("session.jsonl.0123456789ab.tmp")).unwrap();
        put("session.summary.json.0123456789ab.tmp");
        put("session.jsonl.zstd.0123456789ab.tmp");
        let foreign = ["notes.tmp", "session.jsonl.012345678.tmp", "session.jsonl.zzzzzzzzzzzz.tmp"];
        foreign.iter().for_each(|name| put(name));
        // Looking takes nothing away.
        daemon.ok("session/list", json!({}));
        daemon.ok("session/inspect", s());
        assert_eq!(temporaries(store.path()).len(), 7);
        for method in methods {
            let params = if *method == "session/append" { append("s", &note(1)) } else { s() };
            daemon.ok(method, params);
        }
        assert_eq!(temporaries(store.path()), foreign, "{what}");
        if what == "loaded" {
            assert_eq!(daemon.events("s").len(), 1);
            daemon.ok("session/append", append("s", &note(1)));
        }
    }
}

/// A sweeper that comes between the making of a file and its locking costs another name.
#[test]
fn a_file_that_is_swept_before_it_is_locked_is_made_again() {
    let runtime = runtime();
    for faults in [vec![(Op::Lock, "EAGAIN")], vec![(Op::Stat, "ENOENT")], vec![(Op::Lock, "EAGAIN"); 5]] {
        let mut bench = Bench::new(&runtime);
        bench.local.ok("session/new", s());
        bench.local.ok("session/new", json!({"sessionId": "seeded", "seed": []})); // the directories are there
        let retries = faults.len();
        for (op, errno) in faults {
            // The first look is at the open file, the second at its name.
            let skip = if op == Op::Stat { 3 } else { 0 };
            bench.faults.fail(Some(op), skip, Effect::Errno(errno));
        }
        let _ = bench.faults.take_done();
        bench.local.ok("session/append", append("s", &note(0)));
        let made = bench.faults.take_done().into_iter().filter(|op| *op == Op::CreateNew).count();
        assert_eq!(made, 2 + retries, "the log's file, so often again, and the owner's hint");
        bench.local.ok("session/close", s());
        let left = bench.disk.paths().into_iter().find(|path| path.to_str().unwrap().ends_with(".tmp"));
        assert_eq!(left, None);
        bench.local.ok("session/load", s());
    }
}

/// A sweep that fails fails nothing: what stays is removed by the next one.
#[test]
fn a_sweep_that_fails_is_made_up_for() {
    let runtime = runtime();
    let mut bench = Bench::new(&runtime);
    bench.local.ok("session/new", s());
    bench.local.ok("session/append", append("s", &note(0)));
    let log = bench.disk.paths().into_iter().find(|path| path.ends_with("s/session.jsonl")).unwrap();
    let left = log.with_file_name("session.jsonl.0123456789ab.tmp");
    let there = |bench: &Bench| bench.disk.content(&left).is_some();
    bench.local.ok("session/close", s());
    sessiond::disk::fs::FileSystem::create_new(&bench.disk, &left).unwrap();
    bench.local.ok("session/inspect", s());
    let _ = bench.faults.take_done();
    bench.faults.fail(Some(Op::ListDir), 3, Effect::Errno("EIO")); // those before find the log
    bench.local.ok("session/load", s());
    assert!(there(&bench));
    for (op, skip) in [(Op::Open, 1), (Op::Lock, 1)] {
        bench.local.ok("session/close", s());
        bench.faults.clear();
        bench.faults.fail(Some(op), skip, Effect::Errno("EMFILE"));
        bench.local.ok("session/load", s());
        assert!(there(&bench), "{op:?}");
    }
    bench.faults.clear();
    bench.local.ok("session/close", s());
    bench.local.ok("session/load", s());
    assert!(!there(&bench));
}
