//! One owner per log: across handles, processes, crashes, children and replaced files.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use sessiond::disk::fs::FileSystem;
use sessiond::disk::fs::fault::{Effect, FaultFs, Op};
use sessiond::disk::fs::os::OsFs;
use sessiond::disk::fs::record::RecordingFs;
use sessiond::disk::live::lock::{Holder, Lock, LockError};

const ME: Holder = Holder { pid: 4711, since_ms: 1_700_000_000_000 };
const LOG: &str = "session.jsonl";

fn log() -> &'static Path {
    Path::new(LOG)
}

fn store() -> (tempfile::TempDir, Arc<dyn FileSystem>) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(LOG), "{}\n").unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(OsFs::new(dir.path()));
    (dir, fs)
}

fn held(answer: Result<Lock, LockError>) -> Option<Holder> {
    match answer {
        Err(LockError::Held { holder }) => holder,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("should be held"),
    }
}

#[test]
fn one_owner_at_a_time_and_a_hint_that_goes_with_it() {
    let (dir, fs) = store();
    assert_eq!(Lock::holder(fs.as_ref(), log()).unwrap(), None);
    let lock = Lock::try_acquire(&fs, log(), ME).unwrap();
    assert_eq!(held(Lock::try_acquire(&fs, log(), ME)), Some(ME));
    assert_eq!(Lock::holder(fs.as_ref(), log()).unwrap(), Some(Some(ME)));
    let text = std::fs::read_to_string(dir.path().join("session.owner")).unwrap();
    assert_eq!(text, "{\"pid\":4711,\"since\":1700000000000}\n");
    drop(lock);
    assert!(!dir.path().join("session.owner").exists());
    Lock::try_acquire(&fs, log(), ME).unwrap();
    assert_eq!(std::fs::read(dir.path().join(LOG)).unwrap(), b"{}\n", "the log itself is not touched");
}

/// Who owns a log is asked without its lock where the kernel tells, and else for an instant that a load outwaits, only
/// where an owner has left its hint.
#[test]
fn an_owner_is_asked_for_without_its_lock() {
    let (dir, os) = store();
    let faults = Arc::new(FaultFs::new(os));
    let inner: Arc<dyn FileSystem> = faults.clone();
    // This double does not tell of the kernel's locks.
    let untold = Replacing { inner: Arc::clone(&inner), root: dir.path().to_path_buf(), times: 0.into() };
    for (fs, asks) in [(inner, 0), (Arc::new(untold), 1)] {
        let locks = || faults.take_done().iter().filter(|op| **op == Op::Lock).count();
        let lock = Lock::try_acquire(&fs, log(), ME).unwrap();
        let _ = locks();
        assert_eq!(Lock::holder(fs.as_ref(), log()).unwrap(), Some(Some(ME)));
        assert_eq!(locks(), asks);
        drop(lock);
        // A hint that a killed owner has left is no owner.
        fs.create_new(Path::new("session.owner")).unwrap().append(b"{\"pid\":4711,\"since\":1}\n").unwrap();
        let _ = locks();
        assert_eq!(Lock::holder(fs.as_ref(), log()).unwrap(), None);
        assert_eq!(locks(), asks);
        fs.unlink(Path::new("session.owner")).unwrap();
        assert_eq!(Lock::holder(fs.as_ref(), log()).unwrap(), None);
        assert_eq!(locks(), 0, "nobody has left a hint");
        drop(Lock::try_acquire(&fs, log(), ME).unwrap());
    }
}

#[test]
fn a_hint_is_never_trusted() {
    let (dir, fs) = store();
    let hint = dir.path().join("session.owner");
    // A live process that has nothing to do with it, garbage, a directory, a link: nothing keeps us out.
    std::fs::write(&hint, format!("{{\"pid\":{},\"since\":1}}\n", std::process::id())).unwrap();
    drop(Lock::try_acquire(&fs, log(), ME).unwrap());
    std::fs::write(&hint, vec![0xFF; 100_000]).unwrap();
    drop(Lock::try_acquire(&fs, log(), ME).unwrap());
    let precious = dir.path().join("precious");
    std::fs::write(&precious, "keep").unwrap();
    std::os::unix::fs::symlink(&precious, &hint).unwrap();
    drop(Lock::try_acquire(&fs, log(), ME).unwrap());
    assert_eq!(std::fs::read(&precious).unwrap(), b"keep");
    std::fs::create_dir(&hint).unwrap();
    let lock = Lock::try_acquire(&fs, log(), ME).unwrap();
    assert_eq!(held(Lock::try_acquire(&fs, log(), ME)), None, "locked, whoever it is");
    drop(lock);
}

#[test]
fn children_do_not_inherit_a_lock() {
    let (_dir, fs) = store();
    let lock = Lock::try_acquire(&fs, log(), ME).unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    drop(lock);
    let again = Lock::try_acquire(&fs, log(), ME);
    child.kill().unwrap();
    child.wait().unwrap();
    again.unwrap();
}

/// Not a test of its own: what the next one runs in another process.
#[test]
fn hold_in_child() {
    let Some(root) = std::env::var_os("DISK_LOCK_ROOT") else { return };
    let fs: Arc<dyn FileSystem> = Arc::new(OsFs::new(PathBuf::from(root)));
    let me = Holder { pid: std::process::id(), since_ms: 7 };
    let _lock = Lock::try_acquire(&fs, log(), me).unwrap();
    eprintln!("locked");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_killed_owner_leaves_nothing_to_wait_for() {
    let (dir, fs) = store();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["lock::hold_in_child", "--exact", "--nocapture"])
        .env("DISK_LOCK_ROOT", dir.path())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "locked"));
    assert_eq!(held(Lock::try_acquire(&fs, log(), ME)), Some(Holder { pid: child.id(), since_ms: 7 }));
    // SIGKILL: nothing of the owner's gets to run.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(dir.path().join("session.owner").exists(), "the hint is stale");
    assert_eq!(Lock::holder(fs.as_ref(), log()).unwrap(), None);
    let lock = Lock::try_acquire(&fs, log(), ME).unwrap();
    assert_eq!(Lock::holder(fs.as_ref(), log()).unwrap(), Some(Some(ME)), "and replaced");
    drop(lock);
}

/// Replaces the log after it has been opened, as often as told: what another process may do at the worst moment.
struct Replacing {
    inner: Arc<dyn FileSystem>,
    root: PathBuf,
    times: std::sync::atomic::AtomicU32,
}

impl FileSystem for Replacing {
    fn open_append(&self, path: &Path) -> std::io::Result<Arc<dyn sessiond::disk::fs::File>> {
        let file = self.inner.open_append(path);
        let left = self.times.load(std::sync::atomic::Ordering::Relaxed);
        if left > 0 {
            self.times.store(left - 1, std::sync::atomic::Ordering::Relaxed);
            std::fs::remove_file(self.root.join(path)).unwrap();
            std::fs::write(self.root.join(path), "new\n").unwrap();
        }
        file
    }
    fn open_read(&self, path: &Path) -> std::io::Result<Arc<dyn sessiond::disk::fs::File>> {
        self.inner.open_read(path)
    }
    fn create_new(&self, path: &Path) -> std::io::Result<Arc<dyn sessiond::disk::fs::File>> {
        self.inner.create_new(path)
    }
    fn create_dir(&self, path: &Path) -> std::io::Result<()> {
        self.inner.create_dir(path)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.inner.hard_link(from, to)
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.inner.rename(from, to)
    }
    fn unlink(&self, path: &Path) -> std::io::Result<()> {
        self.inner.unlink(path)
    }
    fn remove_dir(&self, path: &Path) -> std::io::Result<()> {
        self.inner.remove_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> std::io::Result<()> {
        self.inner.sync_dir(path)
    }
    fn list_dir(&self, path: &Path) -> std::io::Result<Vec<sessiond::disk::fs::DirEntry>> {
        self.inner.list_dir(path)
    }
    fn metadata(&self, path: &Path) -> std::io::Result<sessiond::disk::fs::Metadata> {
        self.inner.metadata(path)
    }
}

#[test]
fn a_log_replaced_between_open_and_lock_is_opened_again() {
    let (dir, inner) = store();
    let replacing = |times: u32| -> Arc<dyn FileSystem> {
        let times = std::sync::atomic::AtomicU32::new(times);
        Arc::new(Replacing { inner: Arc::clone(&inner), root: dir.path().to_path_buf(), times })
    };
    let fs = replacing(3);
    let lock = Lock::try_acquire(&fs, log(), ME).unwrap();
    let named = fs.metadata(log()).unwrap();
    assert!(
        lock.file().metadata().unwrap().is_same_file(&named),
        "the lock is on the file that has the name"
    );
    drop(lock);
    assert!(matches!(Lock::try_acquire(&replacing(1000), log(), ME), Err(LockError::Replaced)));
}

#[test]
fn a_file_system_without_locks_is_named_as_the_cause() {
    for (errno, unsupported) in [("ENOLCK", true), ("EOPNOTSUPP", true), ("ENOSYS", true), ("EIO", false)] {
        let recording = RecordingFs::new();
        recording.create_new(log()).unwrap();
        let faulty = Arc::new(FaultFs::new(Arc::new(recording)));
        faulty.fail(Some(Op::Lock), 0, Effect::Errno(errno));
        let fs: Arc<dyn FileSystem> = faulty;
        match Lock::try_acquire(&fs, log(), ME) {
            Err(error @ LockError::Unsupported(_)) => {
                assert!(unsupported);
                assert!(error.to_string().contains("local disk"));
            }
            Err(LockError::Io(_)) => assert!(!unsupported),
            _ => panic!("should fail"),
        }
    }
}

#[test]
fn a_hint_that_cannot_be_written_blocks_nobody() {
    let recording = RecordingFs::new();
    recording.create_new(log()).unwrap();
    let faulty = Arc::new(FaultFs::new(Arc::new(recording)));
    let fs: Arc<dyn FileSystem> = faulty.clone();
    faulty.fail(Some(Op::CreateNew), 0, Effect::Errno("EROFS"));
    let lock = Lock::try_acquire(&fs, log(), ME).unwrap();
    assert_eq!(held(Lock::try_acquire(&fs, log(), ME)), None);
    drop(lock);
}
