//! Power loss at every moment of a repair: the name stands for the old log or the new one, whole, and once it is the
//! new one, the old one is kept beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::path::PathBuf;
use std::sync::Arc;

use sessiond::disk::fs::FileSystem;
use sessiond::disk::lock::{Holder, Lock, LockError};
use sessiond::disk::paths::{Encoding, LogPath};
use sessiond::disk::publish::{Piece, Publisher};
use sessiond::disk::record::RecordingFs;
use sessiond::disk::replace::Replacement;
use sessiond::disk::salvage::save_whole;

const ME: Holder = Holder { pid: 1, since_ms: 2 };
const OLD: &[u8] = b"header\none\ngarbage\nthree\n";
const NEW: &[u8] = b"header\none\nclosed\n";

fn path() -> LogPath {
    LogPath::new(Some("/srv/project"), "id", Encoding::Plain).unwrap()
}

fn backup() -> PathBuf {
    path().session_dir().join("session.jsonl.backup-1")
}

fn stored() -> (RecordingFs, Arc<dyn FileSystem>) {
    let disk = RecordingFs::new();
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    drop(Publisher::new(Arc::clone(&fs)).publish(&path(), &[Piece::Bytes(OLD)], ME).unwrap());
    (disk, fs)
}

fn prepared(fs: &Arc<dyn FileSystem>, lock: &Lock) -> Replacement {
    let file = lock.file().as_ref();
    let content = [Piece::Range { file, from: 0, to: 11 }, Piece::Bytes(b"closed\n")];
    Replacement::prepare(fs, &path(), &content).unwrap()
}

#[test]
fn power_loss_leaves_either_log_and_never_loses_the_old_one() {
    let (disk, fs) = stored();
    let begun = disk.changes();
    let lock = Lock::try_acquire(&fs, &path().log(), ME).unwrap();
    let new = prepared(&fs, &lock);
    assert_eq!(save_whole(fs.as_ref(), &path().log(), lock.file().as_ref(), 25).unwrap(), backup());
    new.commit(&lock, 25).unwrap();
    drop(lock);
    let done = disk.changes();
    assert_eq!(disk.content(path().log()).unwrap(), NEW);
    let mut seen = [0; 2];
    for state in disk.crash_states(1, 300).filter(|state| state.changes >= begun) {
        let log = state.fs.content(path().log()).expect("the log has its name");
        assert!(log == OLD || log == NEW, "{} {}", state.changes, state.story);
        if log == NEW {
            assert_eq!(state.fs.content(backup()).as_deref(), Some(OLD), "{}", state.story);
        }
        assert!(log == NEW || state.changes < done, "what was answered is gone: {}", state.story);
        seen[usize::from(log == NEW)] += 1;
    }
    assert!(seen[0] > 5 && seen[1] > 2, "{seen:?}");
}

#[test]
fn a_repair_that_is_given_up_leaves_nothing() {
    let (disk, fs) = stored();
    let lock = Lock::try_acquire(&fs, &path().log(), ME).unwrap();
    let names = || fs.list_dir(&path().session_dir()).unwrap().len();
    let before = names();
    drop(prepared(&fs, &lock));
    assert_eq!(names(), before);
    // Another program wrote to the log since it was read.
    let new = prepared(&fs, &lock);
    lock.file().append(b"more\n").unwrap();
    new.commit(&lock, 25).unwrap_err();
    assert_eq!(names(), before);
    assert_eq!(disk.content(path().log()).unwrap(), [OLD, b"more\n"].concat());
}

#[test]
fn a_log_is_locked_all_the_time_while_it_is_replaced() {
    let (_, fs) = stored();
    let lock = Lock::try_acquire(&fs, &path().log(), ME).unwrap();
    let new = prepared(&fs, &lock);
    let held = || matches!(Lock::try_acquire(&fs, &path().log(), ME), Err(LockError::Held { .. }));
    assert!(held());
    new.commit(&lock, 25).unwrap();
    drop(lock);
    assert!(!held());
}
