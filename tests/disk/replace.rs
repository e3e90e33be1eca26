//! Power loss at every moment of a repair: the name stands for the old log or the new one, whole, and once it is the
//! new one, the old one is kept beside it.

use std::path::PathBuf;
use std::sync::Arc;

use sessiond::disk::fs::FileSystem;
use sessiond::disk::fs::record::RecordingFs;
use sessiond::disk::live::lock::{Holder, Lock, LockError};
use sessiond::disk::live::publish::{Piece, Publisher};
use sessiond::disk::live::replace::Replacement;
use sessiond::disk::live::temporary::sweep;
use sessiond::disk::maintenance::salvage::{save_cut, save_whole};
use sessiond::disk::paths::{Encoding, LogPath};

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
    assert_eq!(save_whole(&fs, &path().log(), lock.file().as_ref(), 25).unwrap(), backup());
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

/// Whatever ends the saving, power loss or a kill: what has the name of what was kept is all of it, and the next one keeps
/// it again.
#[test]
fn what_is_kept_beside_a_log_has_its_name_when_it_is_whole() {
    let (disk, fs) = stored();
    let lock = Lock::try_acquire(&fs, &path().log(), ME).unwrap();
    let begun = disk.changes();
    let cut = save_cut(&fs, &path().log(), lock.file().as_ref(), 11, 25).unwrap();
    assert_eq!(cut, path().session_dir().join("session.jsonl.cut-11"));
    let between = disk.changes();
    save_whole(&fs, &path().log(), lock.file().as_ref(), 25).unwrap();
    drop(lock);
    let whole = |fs: &RecordingFs, context: &str| {
        let kept = [(&cut, &OLD[11..]), (&backup(), OLD)].map(|(path, content)| {
            let found = fs.content(path);
            assert!(found.as_deref().is_none_or(|found| found == content), "{context}: {found:?}");
            found.is_some()
        });
        kept.into_iter().filter(|there| *there).count()
    };
    let mut seen = [0; 3];
    for state in disk.crash_states(1, 300).filter(|state| state.changes >= begun) {
        let context = format!("{} {}", state.changes, state.story);
        let there = whole(&state.fs, &context);
        assert!(there > 0 || state.changes < between, "what was answered is gone: {context}");
        seen[there] += 1;
        // The next owner: loaded, and saved anew.
        let fs: Arc<dyn FileSystem> = Arc::new(state.fs.clone());
        let lock = Lock::try_acquire(&fs, &path().log(), ME).unwrap();
        sweep(fs.as_ref(), &path(), lock.file().as_ref());
        let again = save_cut(&fs, &path().log(), lock.file().as_ref(), 11, 25).unwrap();
        assert_eq!(state.fs.content(&again).unwrap(), OLD[11..], "{context}");
        whole(&state.fs, &context);
        let left = state.fs.paths().into_iter().find(|path| path.to_str().unwrap().ends_with(".tmp"));
        assert_eq!(left, None, "{context}");
    }
    assert!(seen.iter().all(|count| *count > 2), "{seen:?}");
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
