//! One owner per live session: a kernel lock on the log itself, and a hint beside it that says who.
//!
//! The lock is `flock` on the very file that it protects, through the very handle that appends to it:
//! - it dies with the process, however that ends, and waits for no time-out;
//! - handles are close-on-exec, so that no child keeps a session locked;
//! - a copied or restored directory carries no lock, since there is no lock file that could be copied;
//! - a log is locked before it gets its name (see `publish`), so that nobody opens it in between.
//!
//! A log may be removed and made anew between opening and locking it. Then the lock is on a file without a name, and
//! two owners could believe in theirs: so after locking, the name is looked up again and must stand for the same file.
//!
//! The hint (`session.owner`) is for error messages only. It is never asked whether a session is locked: a stale or
//! forged hint, or a process that got the same pid, cannot keep anybody out.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::write::CheckError;
use crate::disk::catalog::find::{Beside, is_absent, is_link};
use crate::disk::fs::{File, FileSystem, HeldLock, Metadata, errno_error, read_full};
use crate::disk::paths::OWNER_FILE;

/// Who holds a lock, as far as the hint tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// When it took the lock, in milliseconds since 1970.
    pub since_ms: u64,
}

/// Why a log could not be locked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process, or another session store in this one, owns the log.
    #[error("the session is open in {}: close it there first", describe(.holder.as_ref()))]
    Held {
        /// The owner's hint, when it is readable.
        holder: Option<Holder>,
    },
    /// The file system has no locks (some network mounts).
    #[error("the store's file system does not support file locks ({0}): keep the store on a local disk")]
    Unsupported(#[source] io::Error),
    /// The log is replaced faster than it can be locked.
    #[error("the log is being replaced by another program: stop it, then try again")]
    Replaced,
    /// The log could not be opened or locked.
    #[error("the log could not be opened for writing: {0}")]
    Io(#[source] io::Error),
}

fn describe(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |holder| format!("process {}", holder.pid))
}

/// Ownership of one log, until dropped.
pub struct Lock {
    fs: Arc<dyn FileSystem>,
    file: Arc<dyn File>,
    log: PathBuf,
    me: Holder,
    /// Another log lies under the name, with a hint of its own.
    replaced: bool,
}

/// A reader that asks who holds a lock takes it for a moment; an owner-to-be looks again before it gives up.
const RETRIES: u32 = 3;
const RETRY_AFTER: Duration = Duration::from_millis(1);

impl Lock {
    /// Opens and locks an existing log (path relative to the root), waiting at most 3 ms. `me` is what the hint will
    /// say.
    ///
    /// # Errors
    /// [`LockError`]; a log that does not exist is `Io` with `NotFound`.
    pub fn try_acquire(fs: &Arc<dyn FileSystem>, log: &Path, me: Holder) -> Result<Self, LockError> {
        for _ in 0..8 {
            let file = fs.open_append(log).map_err(LockError::Io)?;
            let mut retries = RETRIES;
            while !file.try_lock().map_err(lock_failure)? {
                if retries == 0 {
                    return Err(LockError::Held { holder: read_hint(fs.as_ref(), log) });
                }
                retries -= 1;
                std::thread::sleep(RETRY_AFTER);
            }
            if Named::new(fs, &file, log).leads_here().map_err(LockError::Io)? {
                return Ok(Self::announce(fs, file, log, me));
            }
        }
        Err(LockError::Replaced)
    }

    /// Locks a file that has no name as a log yet; [`announce`](Self::announce) makes it a [`Lock`] once it has.
    pub(crate) fn lock_unpublished(file: &dyn File) -> Result<(), LockError> {
        match file.try_lock().map_err(lock_failure)? {
            true => Ok(()),
            false => Err(LockError::Held { holder: None }),
        }
    }

    /// Wraps a locked file and leaves the hint. The hint is best effort: not being able to write it blocks nobody.
    pub(crate) fn announce(fs: &Arc<dyn FileSystem>, file: Arc<dyn File>, log: &Path, me: Holder) -> Self {
        let hint = log.with_file_name(OWNER_FILE);
        // A new file each time: a link or a pipe that lies there under this name is removed, not written through.
        let _ = fs.unlink(&hint);
        let _ = fs.create_new(&hint).and_then(|file| file.append(hint_text(me).as_bytes()));
        Self { fs: Arc::clone(fs), file, log: log.to_owned(), me, replaced: false }
    }

    /// The locked log, open for reading and appending.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// The log and the name under which it was locked.
    pub(in crate::disk) fn named(&self) -> Named {
        Named::new(&self.fs, &self.file, &self.log)
    }

    /// The name and the hint beside it are another log's from now on, of this process too.
    pub(in crate::disk) fn replaced(&mut self) {
        self.replaced = true;
    }

    /// Who owns a log at this moment, as [`Owners::of`] says.
    ///
    /// # Errors
    /// As [`Owners::of`], and the errno of finding the log.
    pub fn holder(fs: &dyn FileSystem, log: &Path) -> Result<Option<Option<Holder>>, LockError> {
        let meta = fs.metadata(log).map_err(LockError::Io)?;
        Owners::look(fs).of(fs, log, &meta)
    }
}

/// Who owns logs at one moment, asked without taking their locks (PROTOCOL 3.1): of the kernel's list of locks, by inode.
/// Where there is none, a shared lock is taken for an instant, and only where an owner has left its hint: who loads the
/// session outwaits that.
pub struct Owners(Option<HashMap<u64, Vec<HeldLock>>>);

impl Owners {
    /// Looks at all locks that are held.
    #[must_use]
    pub fn look(fs: &dyn FileSystem) -> Self {
        Self(fs.held_locks().map(|held| {
            let mut by_ino: HashMap<u64, Vec<HeldLock>> = HashMap::new();
            for lock in held {
                by_ino.entry(lock.ino).or_default().push(lock);
            }
            by_ino
        }))
    }

    /// Who owns the log of these facts; `None` when nobody does. An owner without a readable hint is `Some(None)`.
    ///
    /// # Errors
    /// [`LockError::Io`] and [`LockError::Unsupported`].
    pub fn of(
        &self,
        fs: &dyn FileSystem,
        log: &Path,
        meta: &Metadata,
    ) -> Result<Option<Option<Holder>>, LockError> {
        let Some(held) = &self.0 else {
            let hint = read_hint(fs, log);
            let is_free = hint.is_none() || is_free(fs, log)?;
            return Ok((!is_free).then_some(hint));
        };
        let Some(locks) = held.get(&meta.ino) else { return Ok(None) };
        let hint = read_hint(fs, log);
        let device = (rustix::fs::major(meta.dev), rustix::fs::minor(meta.dev));
        // Where a file's facts name a device of their own, the hint tells whether it is this file.
        let is_it = |lock: &HeldLock| lock.device == device || hint.is_some_and(|hint| hint.pid == lock.pid);
        Ok(locks.iter().any(is_it).then_some(hint))
    }
}

fn is_free(fs: &dyn FileSystem, log: &Path) -> Result<bool, LockError> {
    let file = fs.open_read(log).map_err(LockError::Io)?;
    let is_free = file.try_lock_shared().map_err(lock_failure)?;
    if is_free {
        file.unlock().map_err(LockError::Io)?;
    }
    Ok(is_free)
}

/// An open file and the name that should lead to it.
pub(in crate::disk) struct Named {
    fs: Arc<dyn FileSystem>,
    pub(in crate::disk) file: Arc<dyn File>,
    name: PathBuf,
}

impl Named {
    pub(in crate::disk) fn new(fs: &Arc<dyn FileSystem>, file: &Arc<dyn File>, name: &Path) -> Self {
        Self { fs: Arc::clone(fs), file: Arc::clone(file), name: name.to_owned() }
    }

    /// Whether the name leads to this very file: not if another program removed, moved or replaced it, or a directory
    /// above it.
    pub(in crate::disk) fn leads_here(&self) -> io::Result<bool> {
        self.leads_to(&self.file.metadata()?)
    }

    /// The facts of a log of which something is promised. What may not be looked at is no sign that it is gone, nor that
    /// another log is there.
    pub(in crate::disk) fn check(&self) -> Result<Metadata, CheckError> {
        let ours = self.file.metadata().map_err(CheckError::Examine)?;
        if let Ok(false) = self.leads_to(&ours) {
            return Err(CheckError::Removed);
        }
        let beside = self.name.parent().map(|dir| Beside::look(self.fs.as_ref(), dir));
        match beside {
            Some(Ok(Beside { later: Some(later), .. })) => Err(CheckError::Superseded(later)),
            _ => Ok(ours),
        }
    }

    fn leads_to(&self, ours: &Metadata) -> io::Result<bool> {
        match self.fs.metadata(&self.name) {
            Ok(named) => Ok(named.is_same_file(ours)),
            Err(error) if is_absent(&error) || is_link(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before the unlock, so that it is never the next owner's hint that goes; and only ours, should the log have
        // been replaced by another program and be owned by another process by now.
        contained(|| {
            if !self.replaced && read_hint(self.fs.as_ref(), &self.log) == Some(self.me) {
                let _ = self.fs.unlink(&self.log.with_file_name(OWNER_FILE));
            }
        });
        // Explicitly, because a sync on another thread may still hold a clone of the handle.
        contained(|| drop(self.file.unlock()));
    }
}

/// Keeps a bug in the letting go of a file from ending the process, as it would where another one is unwinding.
pub(in crate::disk) fn contained(act: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(act)).is_err() {
        tracing::error!("letting go of a file met a bug");
    }
}

fn lock_failure(error: io::Error) -> LockError {
    let none = [Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL];
    match none.iter().any(|errno| errno_error(*errno).raw_os_error() == error.raw_os_error()) {
        true => LockError::Unsupported(error),
        false => LockError::Io(error),
    }
}

fn hint_text(holder: Holder) -> String {
    format!("{{\"pid\":{},\"since\":{}}}\n", holder.pid, holder.since_ms)
}

/// The hint beside `log`; anything but what [`hint_text`] writes is no hint.
fn read_hint(fs: &dyn FileSystem, log: &Path) -> Option<Holder> {
    let file = fs.open_read(&log.with_file_name(OWNER_FILE)).ok()?;
    let mut buf = [0; 64];
    let read = read_full(file.as_ref(), 0, &mut buf).ok()?;
    let text = std::str::from_utf8(buf.get(..read)?).ok()?;
    let (pid, since) = text.strip_prefix("{\"pid\":")?.strip_suffix("}\n")?.split_once(",\"since\":")?;
    Some(Holder { pid: pid.parse().ok()?, since_ms: since.parse().ok()? })
}
