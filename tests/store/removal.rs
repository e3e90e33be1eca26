//! Removing sessions: deletions that fail half-way, that meet others of the same id, and what they must leave alone; and
//! logs that another program takes from a live session, of which nothing is promised and which are rescued.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use sessiond::disk::fs::fault::{Effect, FaultFs, Op};
use sessiond::disk::fs::record::RecordingFs;
use sessiond::disk::fs::{DirEntry, File, FileSystem, Metadata};
use sessiond::disk::live::lock::{Holder, Lock, LockError};
use sessiond::disk::live::publish::{Piece, Publisher};
use sessiond::disk::live::write::LogWriter;
use sessiond::disk::maintenance::delete::{DeleteError, delete};
use sessiond::disk::paths::{Encoding, LogPath};
use sessiond::log::SessionId;
use sessiond::session::Limits;

use crate::dur_support::bench::{Bench, expect_bugs, refusal};
use crate::dur_support::local::{Local, runtime};
use crate::dur_support::process::{Daemon, log_of, with_note};
use crate::dur_support::{Said, append, entry, note, said};

const ME: Holder = Holder { pid: 1, since_ms: 1 };
const OTHER: Holder = Holder { pid: 2, since_ms: 2 };

#[test]
fn a_delete_that_fails_half_way_is_gone_on_with_or_closed() {
    let runtime = runtime();
    let places = [
        (Op::Unlink, 0),
        (Op::SyncDir, 0),
        (Op::ListDir, 0),
        (Op::Unlink, 1),
        (Op::RemoveDir, 0),
        (Op::SyncDir, 1),
        (Op::Stat, 0),
        (Op::Stat, 1),
    ];
    let s = || json!({"sessionId": "s"});
    // A log that waits to be mended, and one that has nothing left to do.
    for (op, skip) in places {
        for mended in [false, true] {
            for then in ["session/close", "session/delete", "the end", "session/flush", "session/append"] {
                let context = format!("{op:?}+{skip}, mended {mended}, {then}");
                let mut bench = Bench::torn(&runtime, b"{\"type\"", false);
                bench.local.ok("session/load", s());
                if mended {
                    bench.local.ok("session/append", append("s", &note(2)));
                }
                bench.faults.fail(Some(op), skip, Effect::Errno("EIO"));
                let refused = refusal(bench.local.call("session/delete", s()));
                let gone = bench.log("s").is_none();
                assert_eq!(
                    (&refused["errno"], &refused["committed"]),
                    (&json!("EIO"), &json!(gone)),
                    "{context}"
                );
                bench.faults.clear();
                // Until it is let go of it can be read.
                assert_eq!(bench.local.events("s").len(), 3 + usize::from(mended), "{context}");
                let request = if then == "session/append" { append("s", &note(3)) } else { s() };
                match then {
                    "the end" => {}
                    "session/flush" | "session/append" if gone => {
                        let refused = refusal(bench.local.call(then, request));
                        assert_eq!(
                            (&refused["reason"], &refused["committed"]),
                            (&json!("deleted"), &json!(false))
                        );
                        bench.local.ok("session/delete", s());
                    }
                    _ => drop(bench.local.ok(then, request)),
                }
                bench = bench.restart(false);
                let stays = !gone && then != "session/delete";
                assert_eq!(bench.log("s").is_some(), stays, "{context}");
                bench.local.ok("session/delete", s());
                let left = bench.disk.paths().into_iter().find(|path| path.to_str().unwrap().contains("/s/"));
                assert_eq!(left, None, "{context}");
            }
        }
    }
}

#[test]
fn a_delete_of_a_lost_log_leaves_alone_who_has_its_name_now() {
    let runtime = runtime();
    let mut bench = Bench::new(&runtime);
    bench.local.ok("session/new", json!({"sessionId": "s"}));
    bench.local.ok("session/append", append("s", &note(0)));
    let path = bench.disk.paths().into_iter().find(|path| path.ends_with("s/session.jsonl")).unwrap();
    sessiond::disk::fs::FileSystem::unlink(&bench.disk, &path).unwrap();
    let mut other = Local::new(Arc::new(bench.disk.clone()), &runtime);
    other.ok("session/new", json!({"sessionId": "s"}));
    other.ok("session/append", append("s", &note(1)));
    bench.local.ok("session/delete", json!({"sessionId": "s"}));
    other.ok("session/append", append("s", &note(2)));
    other.ok("session/close", json!({"sessionId": "s"}));
    assert_eq!(bench.stored("s"), [note(1), note(2)]);
}

fn path(project: &str) -> LogPath {
    LogPath::new(Some(project), "s", Encoding::Plain).unwrap()
}

fn publish(fs: &Arc<dyn FileSystem>, project: &str, me: Holder) -> LogWriter {
    Publisher::new(Arc::clone(fs)).publish(&path(project), &[Piece::Bytes(b"{}\n")], me).unwrap()
}

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

type Act = dyn Fn(&Arc<dyn FileSystem>) + Send + Sync;

/// Another process at work between two operations of ours.
struct Between {
    inner: Arc<dyn FileSystem>,
    /// Operations of ours that are still to come before that.
    left: AtomicU32,
    act: Box<Act>,
}

impl Between {
    fn pass(&self) -> &Arc<dyn FileSystem> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            (self.act)(&self.inner);
        }
        &self.inner
    }
}

impl FileSystem for Between {
    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.pass().open_append(path)
    }
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.pass().open_read(path)
    }
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.pass().create_new(path)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.pass().create_dir(path)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass().hard_link(from, to)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass().rename(from, to)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.pass().unlink(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.pass().remove_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.pass().sync_dir(path)
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.pass().list_dir(path)
    }
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.pass().metadata(path)
    }
}

/// Deletes `s` with another process at work after so many operations; whether that came to be.
fn delete_around(at: u32, act: impl Fn(&Arc<dyn FileSystem>) + Send + Sync + 'static) -> (RecordingFs, bool) {
    let disk = RecordingFs::new();
    let inner: Arc<dyn FileSystem> = Arc::new(disk.clone());
    drop(publish(&inner, "/p", OTHER));
    let between = Arc::new(Between { inner, left: AtomicU32::new(at), act: Box::new(act) });
    let fs: Arc<dyn FileSystem> = between.clone();
    match delete(&fs, &id(), ME) {
        // The other one's, by then.
        Ok(_) | Err(DeleteError::Lock(LockError::Held { holder: Some(OTHER) })) => {}
        Err(error) => panic!("at {at}: {error}"),
    }
    (disk, between.left.load(Ordering::Relaxed) > at)
}

#[test]
fn a_delete_leaves_alone_what_another_process_makes_of_that_id_meanwhile() {
    let mut met = 0;
    for at in 0.. {
        let kept = Arc::new(std::sync::Mutex::new(None));
        let theirs = Arc::clone(&kept);
        let (disk, happened) = delete_around(at, move |fs| {
            // Both refuse while we hold the log's lock.
            if delete(fs, &id(), OTHER).is_ok() {
                *theirs.lock().unwrap() =
                    Publisher::new(Arc::clone(fs)).publish(&path("/p"), &[Piece::Bytes(b"{}\n")], OTHER).ok();
            }
        });
        if !happened {
            break;
        }
        let Some(mut writer) = kept.lock().unwrap().take() else { continue };
        met += 1;
        writer.append(b"{}\n").unwrap_or_else(|error| panic!("at {at}: {error}"));
        let fs: Arc<dyn FileSystem> = Arc::new(disk);
        assert_eq!(Lock::holder(fs.as_ref(), &path("/p").log()).unwrap(), Some(Some(OTHER)), "at {at}");
    }
    assert!(met >= 5, "{met}");
}

#[test]
fn two_deletes_of_one_id_both_succeed() {
    for at in 0.. {
        let (disk, happened) = delete_around(at, |fs| drop(delete(fs, &id(), OTHER)));
        let left = disk.paths().into_iter().find(|path| path.to_str().unwrap().contains("/s"));
        assert_eq!(left, None, "at {at}");
        if !happened {
            break;
        }
    }
}

#[test]
fn a_log_is_made_though_another_process_deletes_that_id_meanwhile() {
    let mut at = 0;
    loop {
        let inner: Arc<dyn FileSystem> = Arc::new(RecordingFs::new());
        drop(publish(&inner, "/p", OTHER));
        delete(&inner, &id(), OTHER).unwrap();
        let act: Box<Act> = Box::new(|fs| {
            // Either it has no log yet, or it is locked.
            match delete(fs, &id(), OTHER) {
                Ok(false) | Err(DeleteError::Lock(LockError::Held { .. })) => {}
                deleted => panic!("{deleted:?}"),
            }
        });
        let between = Arc::new(Between { inner: Arc::clone(&inner), left: AtomicU32::new(at), act });
        let fs: Arc<dyn FileSystem> = between.clone();
        let mut writer = publish(&fs, "/p", ME);
        writer.append(b"{}\n").unwrap_or_else(|error| panic!("at {at}: {error}"));
        if between.left.load(Ordering::Relaxed) <= at {
            break;
        }
        at += 1;
    }
    assert!(at > 8, "{at}");
}

#[test]
fn a_delete_that_cannot_see_everything_says_so_and_the_next_one_leaves_nothing() {
    for op in [Op::Stat, Op::ListDir, Op::SyncDir, Op::Unlink, Op::RemoveDir, Op::Open, Op::Lock] {
        for skip in 0..8 {
            let disk = RecordingFs::new();
            let inner: Arc<dyn FileSystem> = Arc::new(disk.clone());
            drop((publish(&inner, "/p", OTHER), publish(&inner, "/q", OTHER)));
            inner.unlink(&path("/q").log()).unwrap();
            for name in ["session.summary.json", "session.jsonl.zstd"] {
                inner.create_new(&path("/p").session_dir().join(name)).unwrap();
            }
            let faults = Arc::new(FaultFs::new(inner));
            let fs: Arc<dyn FileSystem> = faults.clone();
            faults.fail(Some(op), skip, Effect::Errno("EIO"));
            let left =
                || disk.paths().into_iter().filter(|path| path.to_str().unwrap().contains("/s")).count();
            let names = ["s/session.jsonl", "s/session.jsonl.zstd"];
            let is_log = |path: &std::path::PathBuf| names.iter().any(|name| path.ends_with(name));
            let logs = || disk.paths().into_iter().filter(is_log).count();
            match delete(&fs, &id(), ME) {
                Ok(_) => assert_eq!(left(), 0, "{op:?}+{skip}: done, it says"),
                Err(DeleteError::Unfinished(_)) => assert!(logs() < 2, "{op:?}+{skip}: begun, it says"),
                Err(error) => assert_eq!(logs(), 2, "{op:?}+{skip}: not begun, it says: {error}"),
            }
            faults.clear();
            delete(&fs, &id(), ME).unwrap();
            assert_eq!(left(), 0, "{op:?}+{skip}");
        }
    }
}

#[test]
fn a_load_whose_log_another_program_shortens_meanwhile_is_refused() {
    let runtime = runtime();
    for skip in 0..3 {
        let mut bench = Bench::new(&runtime);
        bench.local.ok("session/new", json!({"sessionId": "s"}));
        for _ in 0..4 {
            let event = json!({"type": "x/note", "data": "x".repeat(1_200), "ignorable": true});
            bench.local.ok("session/append_batch", json!({"sessionId": "s", "events": vec![event; 250]}));
        }
        let whole = bench.log("s").unwrap();
        bench = bench.restart(false);
        bench.faults.fail(Some(Op::Read), skip, Effect::Short(0));
        let refused = refusal(bench.local.call("session/load", json!({"sessionId": "s"})));
        assert_eq!((&refused["errno"], &refused["committed"]), (&json!("EBUSY"), &json!(false)), "{skip}");
        assert_eq!(bench.log("s").unwrap(), whole, "nothing was changed");
        assert_eq!(bench.local.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 1_000);
    }
}

type TakeInMemory = fn(&RecordingFs, &Path);
type TakeFromDisk = fn(&Path);

/// What another program does to a log in the double, and whether its id is free then.
const TAKEN_IN_MEMORY: [(&str, TakeInMemory, bool); 3] = [
    ("removed", |disk, log| disk.unlink(log).unwrap(), true),
    ("emptied", |disk, log| disk.open_append(log).unwrap().set_len(0).unwrap(), false),
    (
        "replaced",
        |disk, log| {
            disk.unlink(log).unwrap();
            disk.create_new(log).unwrap().append(b"another program's\n").unwrap();
        },
        false,
    ),
];

/// A session of three events, the last ones not durable, whose log another program took.
fn taken(runtime: &Arc<tokio::runtime::Runtime>, take: TakeInMemory) -> Bench {
    let mut bench = Bench::new(runtime);
    bench.local.ok("session/new", json!({"sessionId": "s"}));
    bench.local.ok("session/append", append("s", &note(0)));
    bench.faults.fail(Some(Op::Sync), 0, Effect::Errno("EIO"));
    bench.local.ok("session/append", append("s", &("turn/start".to_owned(), json!({"turn": 1}))));
    bench.local.ok("session/append", append("s", &note(2)));
    let log = bench.disk.paths().into_iter().find(|path| path.ends_with("s/session.jsonl")).unwrap();
    take(&bench.disk, &log);
    let _ = bench.faults.take_done();
    bench
}

/// What the log of a rescued session must hold.
fn whole() -> [Said; 3] {
    [note(0), ("turn/start".to_owned(), json!({"turn": 1})), note(2)]
}

#[test]
fn a_rescue_may_fail_anywhere_and_the_next_one_stores_all_that_was_answered() {
    expect_bugs();
    let runtime = runtime();
    for (what, take, free) in TAKEN_IN_MEMORY {
        let mut bench = taken(&runtime, take);
        bench.local.ok("session/rescue", json!({"sessionId": "s"}));
        let count = bench.faults.take_done().len() as u64;
        assert!(count > 10, "{count}");
        for skip in 0..count {
            for effect in [Effect::Errno("EIO"), Effect::Panic] {
                let context = format!("{what} +{skip} {effect:?}");
                let mut bench = taken(&runtime, take);
                bench.faults.fail(None, skip, effect);
                let first = bench.local.call("session/rescue", json!({"sessionId": "s"}));
                bench.faults.clear();
                if let Err(error) = &first {
                    let code = error["data"]["code"].as_str().unwrap();
                    assert!(matches!(code, "STORAGE_FAILED" | "INTERNAL"), "{context}: {error}");
                    assert_eq!(bench.local.events("s").len(), 3, "{context}: it stays live");
                }
                let rescued =
                    first.unwrap_or_else(|_| bench.local.ok("session/rescue", json!({"sessionId": "s"})));
                let id = rescued["sessionId"].as_str().unwrap().to_owned();
                assert!(free || id != "s", "{context}");
                bench.local.ok("session/append", append(&id, &note(3)));
                bench.local.ok("session/flush", json!({"sessionId": id}));
                let expected = [&whole()[..], &[note(3)]].concat();
                assert_eq!(bench.stored(&id), expected, "{context}");
                for killed in [true, false] {
                    bench = bench.restart(killed);
                    bench.local.ok("session/load", json!({"sessionId": id}));
                    let events: Vec<Said> = bench.local.events(&id).iter().map(said).collect();
                    assert_eq!(events[..4], expected, "{context}");
                }
            }
        }
    }
}

#[test]
fn an_end_that_meets_a_fault_rescues_all_or_says_that_it_did_not() {
    expect_bugs();
    let runtime = runtime();
    for (what, take, _) in TAKEN_IN_MEMORY {
        for at in 0.. {
            let (skip, effect) = (at / 2, [Effect::Errno("EIO"), Effect::Panic][at as usize % 2]);
            let context = format!("{what} +{skip} {effect:?}");
            let Bench { disk, faults, local, .. } = taken(&runtime, take);
            faults.fail(None, skip, effect);
            let saved = local.end();
            let met = faults.take_done().len() as u64 > skip;
            let mut bench = Bench::on(disk, &runtime);
            let list = bench.local.ok("session/list", json!({}));
            let ids =
                list["sessions"].as_array().unwrap().iter().map(|row| row["sessionId"].as_str().unwrap());
            let stored: Vec<_> = ids.map(|id| bench.stored(id)).collect();
            assert!(!saved || stored.contains(&whole().to_vec()), "{context}: {stored:?}");
            if !met {
                assert!(saved, "{context}");
                break;
            }
        }
    }
}

#[test]
fn a_cancelled_rescue_or_deletion_that_is_under_way_takes_effect_and_is_answered() {
    let runtime = runtime();
    for method in ["session/rescue", "session/delete"] {
        let mut bench = taken(&runtime, TAKEN_IN_MEMORY[2].1);
        let answer = bench.local.call_and_cancel(method, json!({"sessionId": "s"})).unwrap();
        assert_eq!(answer["sessionId"].is_null(), method == "session/delete", "{answer}");
        let refused = bench.local.call("session/append", append("s", &note(3))).unwrap_err();
        assert_eq!(refused["data"]["code"], "SESSION_NOT_FOUND");
    }
}

#[test]
fn what_is_rescued_under_another_id_is_the_same_log_and_not_one_session_more() {
    let runtime = runtime();
    let disk = RecordingFs::new();
    let limits = Limits { max_live_sessions: 2, ..Limits::default() };
    let mut local = Local::limited(Arc::new(disk.clone()), &runtime, limits);
    let meta = json!({"origin": "subagent", "delegationDepth": 3, "agentPreset": "p"});
    local.ok("session/new", json!({"sessionId": "s", "cwd": "/w", "meta": meta}));
    for n in 0..2 {
        local.ok("session/append", append("s", &note(n)));
    }
    local.ok("session/fork", json!({"sessionId": "s", "childSessionId": "c", "invariants": "off"}));
    let batch = json!({"sessionId": "c", "events": [entry(&note(2)), entry(&note(3))], "expectedSeq": 3});
    local.ok("session/append_batch", batch.clone());
    for (id, other) in [("s", "s2"), ("c", "c2")] {
        let log =
            disk.paths().into_iter().find(|path| path.ends_with(format!("{id}/session.jsonl"))).unwrap();
        TAKEN_IN_MEMORY[2].1(&disk, &log);
        if id == "c" {
            // A batch that had been there before is promised again, or not.
            let refused = refusal(local.call("session/append_batch", batch.clone()));
            assert_eq!((&refused["reason"], &refused["committed"]), (&json!("removed"), &json!(true)));
        }
        let (before, events) = (local.ok("session/info", json!({"sessionId": id})), local.events(id));
        let refused =
            local.call("session/rescue", json!({"sessionId": id, "childSessionId": id})).unwrap_err();
        assert_eq!(refused["data"]["code"], "SESSION_ALREADY_EXISTS");
        let rescued = local.ok("session/rescue", json!({"sessionId": id, "childSessionId": other}));
        let mut header = before["header"].clone();
        header["id"] = json!(other);
        assert_eq!(rescued["header"], header);
        for same in ["inheritedEventCount", "nextSeq", "invariants"] {
            assert_eq!(rescued[same], before[same], "{id} {same}");
        }
        assert_ne!(rescued["instanceId"], before["instanceId"]);
        let gone = local.call("session/rescue", json!({"sessionId": id})).unwrap_err();
        assert_eq!(gone["data"]["code"], "SESSION_NOT_FOUND", "it has worked");
        local.ok("session/close", json!({"sessionId": other}));
        let loaded = local.ok("session/load", json!({"sessionId": other}));
        assert_eq!(loaded["inheritedEventCount"], before["inheritedEventCount"]);
        assert_eq!(loaded["header"]["parentSession"], before["header"]["parentSession"]);
        assert_eq!(local.events(other), events);
    }
}

/// What another program does to a live session's log, whether its id is free then, and whether the file itself shows it.
const TAKEN: [(&str, TakeFromDisk, bool, bool); 7] = [
    ("emptied", |log| std::fs::File::create(log).map(drop).unwrap(), false, true),
    ("removed", |log| std::fs::remove_file(log).unwrap(), true, true),
    (
        "replaced",
        |log| {
            let other = log.with_extension("other");
            std::fs::write(&other, "something else\n").unwrap();
            std::fs::rename(other, log).unwrap();
        },
        false,
        true,
    ),
    ("moved away", |log| std::fs::rename(log, log.with_extension("bak")).unwrap(), true, false),
    ("with its directory", |log| to_bak(log.parent().unwrap()), true, false),
    ("with its project", |log| to_bak(log.parent().unwrap().parent().unwrap()), true, false),
    (
        "continued",
        |log| std::fs::write(log.with_file_name("session.v1.jsonl"), "{}\n").unwrap(),
        false,
        false,
    ),
];

fn to_bak(dir: &Path) {
    std::fs::rename(dir, dir.with_extension("bak")).unwrap();
}

#[test]
fn nothing_is_promised_of_a_log_that_another_program_took_and_it_can_be_rescued() {
    for (what, meddle, free, shown) in TAKEN {
        let reason = json!(match what {
            "emptied" => "changed_outside",
            "continued" => "superseded",
            _ => "removed",
        });
        let store = tempfile::tempdir().unwrap();
        // Only what asks for it is made durable.
        let mut daemon = Daemon::with(store.path(), &["--sync-window", "60000"]);
        with_note(&mut daemon, "s");
        daemon.ok("session/append", append("s", &("turn/start".to_owned(), json!({"turn": 1}))));
        let mut answered = 2;
        meddle(&log_of(store.path(), "s"));
        daemon.notices.clear();
        let repeated = |durable: bool| {
            let mut params = append("s", &note(0));
            (params["expectedSeq"], params["durable"]) = (json!(0), json!(durable));
            params
        };
        if shown {
            let (code, data) = daemon.err("session/append", repeated(false));
            assert_eq!((code.as_str(), &data["reason"]), ("STORAGE_FAILED", &reason), "{what}");
        } else {
            // It still goes to the file, wherever that is.
            assert_eq!(daemon.ok("session/append", append("s", &note(2)))["seq"], 2, "{what}");
            answered = 3;
        }
        for (method, params) in [
            ("session/flush", json!({"sessionId": "s"})),
            ("session/append", repeated(true)),
            ("session/close", json!({"sessionId": "s"})),
            ("session/flush", json!({"sessionId": "s"})),
        ] {
            let (code, data) = daemon.err(method, params);
            assert_eq!((code.as_str(), &data["reason"]), ("STORAGE_FAILED", &reason), "{what} {method}");
            assert_eq!(data["committed"], true, "{what} {method}");
        }
        // Once a promise has missed the name, appends look for it too.
        let (_, data) = daemon.err("session/append", append("s", &note("refused")));
        assert_eq!((&data["reason"], &data["committed"]), (&reason, &json!(false)), "{what}");
        let told = daemon.notices.iter().filter(|notice| notice["method"] != "session/event");
        assert_eq!(told.count(), 0, "{what}: neither durable nor disposed");
        assert_eq!(daemon.events("s").len(), answered, "{what}: it stays live");
        let rescued = daemon.ok("session/rescue", json!({"sessionId": "s"}));
        let id = rescued["sessionId"].as_str().unwrap().to_owned();
        assert_eq!(id == "s", free, "{what}");
        assert_eq!(rescued["nextSeq"], answered, "{what}: its open turn is no end");
        let end = ("turn/end".to_owned(), json!({"turn": 1, "reason": {"kind": "completed"}}));
        daemon.ok("session/append", append(&id, &end));
        assert_eq!(daemon.ok("session/rescue", json!({"sessionId": id}))["nextSeq"], answered + 1);
        let events = daemon.events(&id);
        assert_eq!(daemon.ok("session/flush", json!({"sessionId": id}))["durableSeq"], answered, "{what}");
        daemon.end();
        let mut daemon = Daemon::start(store.path());
        assert!(daemon.ok("session/load", json!({"sessionId": id}))["repaired"].is_null(), "{what}");
        assert_eq!(daemon.events(&id), events, "{what}");
    }
}

#[test]
fn a_log_with_other_bytes_of_the_same_length_is_not_closed_and_can_be_rescued() {
    // A promise looks at a log's end, a rescue at all of it.
    for (events, end) in [(1, true), (2_000, true), (2_000, false)] {
        let store = tempfile::tempdir().unwrap();
        let mut daemon = Daemon::start(store.path());
        with_note(&mut daemon, "s");
        for n in 1..events {
            daemon.ok("session/append", append("s", &note(n)));
        }
        daemon.ok("session/flush", json!({"sessionId": "s"}));
        let before = daemon.events("s");
        let log = log_of(store.path(), "s");
        let mut bytes = std::fs::read(&log).unwrap();
        let text: &[u8] = b"{\"type\"";
        let mut places =
            bytes.windows(text.len()).enumerate().filter(|(_, found)| *found == text).map(|(at, _)| at);
        let at = if end { places.next_back() } else { places.next() }.unwrap();
        bytes[at] = b'x';
        std::fs::OpenOptions::new().write(true).open(&log).unwrap().write_all(&bytes).unwrap();
        for method in ["session/flush", "session/close"].into_iter().filter(|_| end) {
            let (code, data) = daemon.err(method, json!({"sessionId": "s"}));
            assert_eq!((code.as_str(), &data["reason"]), ("STORAGE_FAILED", &json!("changed_outside")));
        }
        assert_eq!(daemon.events("s"), before, "memory is the last good copy");
        let rescued = daemon.ok("session/rescue", json!({"sessionId": "s"}));
        let id = rescued["sessionId"].as_str().unwrap().to_owned();
        assert_ne!(id, "s", "what another program wrote stays under its name");
        daemon.ok("session/close", json!({"sessionId": id}));
        daemon.ok("session/load", json!({"sessionId": id}));
        assert_eq!(daemon.events(&id), before);
        assert_eq!(std::fs::read(&log).unwrap(), bytes);
    }
}

#[test]
fn the_watermark_is_not_told_of_a_log_that_another_program_took() {
    for (what, meddle, _, _) in TAKEN {
        let (mut daemon, _store) = loop {
            let store = tempfile::tempdir().unwrap();
            let mut daemon = Daemon::with(store.path(), &["--sync-window", "300"]);
            with_note(&mut daemon, "s");
            daemon.ok("session/append", append("s", &note(1)));
            meddle(&log_of(store.path(), "s"));
            if daemon.ok("session/info", json!({"sessionId": "s"}))["durableSeq"] == 0 {
                break (daemon, store); // else its window was over before
            }
        };
        // Until the window's promise has missed the name.
        while daemon.call("session/append", append("s", &note("more"))).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
        daemon.wait_for_lines(1, Duration::from_millis(400));
        let mut durable = daemon.notices.iter().filter(|notice| notice["method"] == "session/durable");
        assert!(durable.all(|notice| notice["params"]["durableSeq"] == 0), "{what}");
    }
}

#[test]
fn the_end_rescues_says_where_and_fails_where_it_cannot() {
    for (what, meddle, free, _) in TAKEN {
        for rescues in [true, false] {
            let (store, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let (stderr, faults) = (logs.path().join("stderr"), logs.path().join("faults"));
            let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
            command.arg("serve").arg("--store").arg(format!("jsonl:{}", store.path().display()));
            command.arg("--fault-file").arg(&faults);
            let mut daemon = Daemon::run_with(command, std::fs::File::create(&stderr).unwrap().into());
            with_note(&mut daemon, "s");
            daemon.ok("session/new", json!({"sessionId": "other"}));
            daemon.ok("session/append", append("other", &note(0)));
            let events = daemon.events("s");
            meddle(&log_of(store.path(), "s"));
            if !rescues {
                std::fs::write(&faults, "create_new EIO *\n").unwrap();
            }
            assert_eq!(daemon.end_with(), Some(i32::from(!rescues)), "{what}");
            let said = std::fs::read_to_string(&stderr).unwrap();
            let Some((_, at)) = said.split_once("stored anew at=") else {
                assert!(
                    !rescues && said.contains("session s is not stored whole: storing "),
                    "{what}: {said}"
                );
                continue;
            };
            let log = store.path().join(at.split_whitespace().next().unwrap());
            let id = log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!(id == "s", free, "{what}");
            let mut daemon = Daemon::start(store.path());
            daemon.ok("session/load", json!({"sessionId": id}));
            assert_eq!(daemon.events(&id), events, "{what}");
        }
    }
}
