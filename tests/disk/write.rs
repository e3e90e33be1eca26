//! Publishing, appending and syncing under faults at every operation.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use sessiond::disk::fs::fault::{Effect, FaultFs, Op, parse_plan};
use sessiond::disk::fs::os::OsFs;
use sessiond::disk::fs::record::RecordingFs;
use sessiond::disk::fs::{FileSystem, errno_name};
use sessiond::disk::live::lock::{Holder, Lock, LockError};
use sessiond::disk::live::publish::{Piece, PublishError, Publisher};
use sessiond::disk::live::write::{CheckError, LogWriter, SyncError, SyncJob, SyncStart, WriteError};
use sessiond::disk::paths::{Encoding, LogPath};

const ME: Holder = Holder { pid: 1, since_ms: 2 };
const FIRST: &[u8] = b"{\"type\":\"session\"}\n{\"seq\":0}\n";

fn path() -> LogPath {
    LogPath::new(Some("/srv/project"), "id", Encoding::Plain).unwrap()
}

struct Store {
    disk: RecordingFs,
    faults: Arc<FaultFs>,
    publisher: Publisher,
}

fn store() -> Store {
    let disk = RecordingFs::new();
    let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
    let publisher = Publisher::new(faults.clone());
    Store { disk, faults, publisher }
}

impl Store {
    fn publish(&self) -> Result<LogWriter, PublishError> {
        self.publisher.publish(&path(), &[Piece::Bytes(&FIRST[..5]), Piece::Bytes(&FIRST[5..])], ME)
    }

    fn content(&self) -> Vec<u8> {
        self.disk.content(path().log()).unwrap()
    }
}

const EFFECTS: [Effect; 5] = [
    Effect::Errno("ENOSPC"),
    Effect::Errno("EIO"),
    Effect::Errno("EINTR"),
    Effect::Short(0),
    Effect::Short(7),
];

#[test]
fn publishing_survives_a_fault_at_every_operation() {
    let count = {
        let store = store();
        store.publish().unwrap();
        store.faults.take_done().len() as u64
    };
    assert!(count > 12, "{count}");
    for effect in EFFECTS {
        for skip in 0..count {
            let store = store();
            store.faults.fail(None, skip, effect);
            let answer = store.publish();
            let case = format!("{effect:?} at {skip} of {:?}", store.faults.take_done());
            store.faults.clear();
            match answer {
                Ok(writer) => assert_eq!(writer.committed_len(), FIRST.len() as u64, "{case}"),
                Err(error) => {
                    assert!(
                        matches!(error, PublishError::Io { .. } | PublishError::Lock(_)),
                        "{case}: {error}"
                    );
                    assert_eq!(store.disk.content(path().log()), None, "{case}");
                    assert_eq!(
                        store.disk.paths(),
                        Vec::<std::path::PathBuf>::new(),
                        "nothing is left: {case}"
                    );
                    store.publish().unwrap();
                }
            }
            assert_eq!(store.content(), FIRST, "{case}");
            assert!(matches!(store.publish(), Err(PublishError::AlreadyExists)), "{case}");
            assert_eq!(store.content(), FIRST, "{case}");
        }
    }
}

#[test]
fn a_name_that_can_be_neither_kept_nor_taken_back_is_settled_by_a_sync() {
    let store = store();
    store.faults.fail(Some(Op::SyncDir), 2, Effect::Errno("EIO"));
    // The first removal is that of a stale hint.
    store.faults.fail(Some(Op::Unlink), 1, Effect::Errno("EIO"));
    let mut writer = store.publish().unwrap();
    assert_eq!((store.content().as_slice(), writer.is_settled()), (FIRST, false));
    store.faults.fail(Some(Op::SyncDir), 0, Effect::Errno("EIO"));
    assert!(writer.sync(|_| std::io::empty()).is_err());
    assert!(!writer.is_settled());
    writer.sync(|_| std::io::empty()).unwrap();
    assert!(writer.is_settled());
}

#[test]
fn published_means_locked() {
    let dir = tempfile::tempdir().unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(OsFs::new(dir.path()));
    let publisher = Publisher::new(Arc::clone(&fs));
    let mut writer = publisher.publish(&path(), &[Piece::Bytes(FIRST)], ME).unwrap();
    let log = path().log();
    assert!(matches!(Lock::try_acquire(&fs, &log, ME), Err(LockError::Held { holder: Some(ME) })));
    writer.append(b"{\"seq\":1}\n").unwrap();
    // A fork copies the parent's bytes and adds its own.
    let child = LogPath::new(None, "child", Encoding::Plain).unwrap();
    let (from, to) = (19, writer.committed_len());
    let prefix = Piece::Range { file: writer.file().as_ref(), from, to };
    let mut forked =
        publisher.publish(&child, &[Piece::Bytes(b"HEAD\n"), prefix, Piece::Bytes(b"END\n")], ME).unwrap();
    forked.append(b"MORE\n").unwrap();
    let bytes = std::fs::read(dir.path().join(child.log())).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), "HEAD\n{\"seq\":0}\n{\"seq\":1}\nEND\nMORE\n");
    let too_far = Piece::Range { file: writer.file().as_ref(), from, to: to + 3 };
    let other = LogPath::new(None, "other", Encoding::Plain).unwrap();
    let answer = publisher.publish(&other, &[too_far], ME);
    assert!(matches!(answer, Err(PublishError::SourceTooShort { missing: 3 })));
    drop(writer);
    Lock::try_acquire(&fs, &log, ME).unwrap();
    let left: Vec<_> = fs.list_dir(&path().session_dir()).unwrap();
    assert_eq!(left.len(), 1, "no temporary file, no hint: {left:?}");
}

#[test]
fn of_many_publishers_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let winners: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let fs: Arc<dyn FileSystem> = Arc::new(OsFs::new(dir.path().join("root")));
                scope.spawn(move || Publisher::new(fs).publish(&path(), &[Piece::Bytes(FIRST)], ME))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(winners.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(winners.iter().all(|answer| matches!(answer, Ok(_) | Err(PublishError::AlreadyExists))));
}

#[test]
fn directories_removed_under_a_running_store_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let publisher = Publisher::new(Arc::new(OsFs::new(dir.path())));
    publisher.publish(&path(), &[Piece::Bytes(FIRST)], ME).unwrap();
    std::fs::remove_dir_all(dir.path().join(path().project_dir())).unwrap();
    publisher.publish(&path(), &[Piece::Bytes(FIRST)], ME).unwrap();
}

#[test]
fn an_append_is_all_or_nothing_under_every_fault() {
    let batch = b"{\"seq\":1}\n{\"seq\":2}\n";
    for effect in EFFECTS {
        for skip in 0..4 {
            for second in [None, Some(Effect::Errno("ENOSPC"))] {
                let store = store();
                let mut writer = store.publish().unwrap();
                store.faults.fail(None, skip, effect);
                if let Some(second) = second {
                    store.faults.fail(Some(Op::Write), 1, second);
                }
                let answer = writer.append(batch);
                let case = format!("{effect:?} at {skip}, then {second:?}: {answer:?}");
                store.faults.clear();
                match answer {
                    Ok(len) => assert_eq!(len, (FIRST.len() + batch.len()) as u64, "{case}"),
                    Err(_) => {
                        assert_eq!(writer.committed_len(), FIRST.len() as u64, "{case}");
                        assert_eq!(store.content(), FIRST, "back at the last boundary: {case}");
                        writer.append(batch).unwrap();
                    }
                }
                assert_eq!(store.content(), [FIRST, batch].concat(), "exactly one copy: {case}");
            }
        }
    }
}

#[test]
fn a_failed_cut_is_made_up_for_before_the_next_append() {
    let store = store();
    let mut writer = store.publish().unwrap();
    let fail = |op, effect| store.faults.fail(Some(op), 0, effect);
    fail(Op::Write, Effect::Short(4));
    fail(Op::Write, Effect::Errno("ENOSPC"));
    fail(Op::SetLen, Effect::Errno("EIO"));
    match writer.append(b"{\"seq\":1}\n") {
        Err(WriteError::NotRolledBack { write, .. }) => assert_eq!(errno_name(&write), Some("ENOSPC")),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.content().len(), FIRST.len() + 4);
    // Still broken: nothing is added behind the rest.
    fail(Op::SetLen, Effect::Errno("EIO"));
    assert!(matches!(writer.append(b"{\"seq\":1}\n"), Err(WriteError::Failed(_))));
    assert_eq!(store.content().len(), FIRST.len() + 4);
    writer.append(b"{\"seq\":1}\n").unwrap();
    assert_eq!(store.content(), [FIRST, b"{\"seq\":1}\n"].concat());
}

#[test]
fn what_others_did_to_the_log_is_noticed_and_kept() {
    let store = store();
    let log = path().log();
    let mut writer = store.publish().unwrap();
    let other = store.disk.open_append(&log).unwrap();
    other.append(b"foreign\n").unwrap();
    let expected = FIRST.len() as u64;
    match writer.append(b"mine\n") {
        Err(WriteError::Check(CheckError::ChangedOutside { expected: e, actual })) => {
            assert_eq!((e, actual), (expected, expected + 8))
        }
        answer => panic!("{answer:?}"),
    }
    assert_eq!(store.content(), [FIRST, b"foreign\n"].concat());
    other.set_len(3).unwrap();
    assert!(matches!(
        writer.append(b"mine\n"),
        Err(WriteError::Check(CheckError::ChangedOutside { actual: 3, .. }))
    ));
    assert!(matches!(writer.cut(0), Err(WriteError::Check(CheckError::ChangedOutside { .. }))));
    store.disk.unlink(&log).unwrap();
    assert!(matches!(writer.append(b"mine\n"), Err(WriteError::Check(CheckError::Removed))));
}

#[test]
fn a_failed_write_never_cuts_what_others_added() {
    let store = store();
    let mut writer = store.publish().unwrap();
    store.faults.fail(Some(Op::Write), 0, Effect::Short(2));
    store.faults.fail(Some(Op::Write), 0, Effect::Errno("EIO"));
    store.faults.fail(Some(Op::SetLen), 0, Effect::Errno("EIO"));
    writer.append(b"mine\n").unwrap_err();
    store.disk.open_append(&path().log()).unwrap().append(b"foreign\n").unwrap();
    assert!(matches!(writer.append(b"mine\n"), Err(WriteError::Check(CheckError::ChangedOutside { .. }))));
    assert_eq!(store.content(), [FIRST, b"miforeign\n"].concat());
}

fn never(_: std::ops::Range<u64>) -> std::io::Empty {
    panic!("no rewrite is needed")
}

#[test]
fn after_a_failed_sync_the_tail_is_written_again_before_anything_is_promised() {
    let store = store();
    let mut writer = store.publish().unwrap();
    let first = FIRST.len() as u64;
    assert_eq!(writer.durable_len(), first);
    writer.append(b"{\"seq\":1}\n").unwrap();
    store.faults.fail(Some(Op::Sync), 0, Effect::Errno("EIO"));
    assert!(matches!(writer.sync(never), Err(SyncError::Failed(_))));
    assert_eq!((writer.committed_len(), writer.durable_len()), (first + 10, first), "nothing is retracted");
    // Appends go on meanwhile, and are part of what is written again.
    writer.append(b"{\"seq\":2}\n").unwrap();
    let tail = b"{\"seq\":1}\n{\"seq\":2}\n";
    store.faults.fail(Some(Op::WriteAt), 0, Effect::Errno("ENOSPC"));
    assert!(matches!(writer.sync(|_| Cursor::new(tail)), Err(SyncError::Rewrite(_))));
    assert!(matches!(writer.sync(|_| Cursor::new(&tail[..4])), Err(SyncError::TailTooShort { missing: 16 })));
    assert_eq!(writer.durable_len(), first);
    store.faults.fail(Some(Op::WriteAt), 0, Effect::Short(3));
    let mut asked = None;
    let durable = writer.sync(|range| {
        asked = Some(range);
        Cursor::new(tail)
    });
    assert_eq!(durable.unwrap(), first + 20);
    assert_eq!(asked, Some(first..first + 20));
    assert_eq!(store.content(), [FIRST, tail].concat());
    assert_eq!(writer.sync(never).unwrap(), first + 20);
}

#[test]
fn a_sync_elsewhere_lets_appends_go_on() {
    let store = store();
    let mut writer = store.publish().unwrap();
    writer.append(b"a\n").unwrap();
    let SyncStart::Job(job) = writer.start_sync() else { panic!("a job") };
    assert!(matches!(writer.start_sync(), SyncStart::Busy), "one at a time");
    assert!(matches!(writer.cut(0), Err(WriteError::Syncing)));
    writer.append(b"b\n").unwrap();
    let done = std::thread::spawn(move || job.run(&mut std::io::empty())).join().unwrap();
    let first = FIRST.len() as u64;
    assert_eq!(writer.finish_sync(done).unwrap(), first + 2, "only what was there when it began");
    let SyncStart::Job(job) = writer.start_sync() else { panic!("a job") };
    drop(job);
    assert!(matches!(writer.finish_sync(SyncJob::lost()), Err(SyncError::Lost)));
    assert_eq!(writer.sync(|_| Cursor::new(b"b\n")).unwrap(), first + 4);
    assert!(matches!(writer.start_sync(), SyncStart::Nothing));
}

#[test]
fn a_torn_tail_is_cut_and_the_cut_synced() {
    let store = store();
    drop(store.publish().unwrap());
    let log = path().log();
    store.disk.open_append(&log).unwrap().append(b"{\"se").unwrap();
    let fs: Arc<dyn FileSystem> = store.faults.clone();
    let lock = Lock::try_acquire(&fs, &log, ME).unwrap();
    let len = lock.file().metadata().unwrap().len;
    let mut writer = LogWriter::new(lock, len, 0);
    writer.cut(FIRST.len() as u64).unwrap();
    assert_eq!(writer.sync(never).unwrap(), FIRST.len() as u64);
    writer.append(b"{\"seq\":1}\n").unwrap();
    assert_eq!(store.content(), [FIRST, b"{\"seq\":1}\n"].concat());
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let store = store();
    let mut writer = store.publish().unwrap();
    for fault in parse_plan("# a full disk\nwrite ENOSPC *\n").unwrap() {
        store.faults.add(fault.unwrap());
    }
    for _ in 0..3 {
        match writer.append(b"x\n") {
            Err(WriteError::Failed(error)) => assert_eq!(errno_name(&error), Some("ENOSPC")),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(store.content(), FIRST);
    store.faults.clear();
    writer.append(b"x\n").unwrap();
}

#[test]
fn fault_plans_are_read_from_a_file_and_used_up() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan");
    let fs = FaultFs::with_file(Arc::new(RecordingFs::new()), plan.clone());
    let try_it = |name: &str| fs.create_dir(Path::new(name)).err().as_ref().and_then(errno_name);
    // Lines are added, as the replay tool does; each is taken once, and only when it is whole.
    let add = |text: &str| {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&plan).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    };
    assert_eq!(try_it("a"), None);
    add("create_dir +1 ENOSPC\n");
    assert_eq!(try_it("b"), None);
    assert_eq!(try_it("c"), Some("ENOSPC"));
    assert_eq!(try_it("c"), None);
    add("nonsense\ncreate_dir EIO\ncreate_dir ENO");
    assert_eq!(try_it("e"), Some("EIO"));
    assert_eq!(try_it("e"), None);
    add("SPC\n");
    assert_eq!(try_it("f"), Some("ENOSPC"));
    add("any EIO *\n");
    assert_eq!(try_it("d"), Some("EIO"));
    assert_eq!(try_it("d"), Some("EIO"));
    add("clear\n");
    assert_eq!(try_it("d"), None);
    for bad in ["write", "write EWHAT", "scribble EIO", "write 1 EIO", "write +x EIO", "write short:x"] {
        assert!(parse_plan(bad).is_err(), "{bad}");
    }
}
