//! Giving a new log its name: whole, synced and locked before anybody can see it (FORMAT 13.4).

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::lock::{Holder, Lock, LockError};
use super::temporary::{Temporary, sweep};
use super::write::LogWriter;
use crate::disk::fs::{File, FileSystem, what_helps};
use crate::disk::paths::LogPath;

/// A part of a new log's content.
#[derive(Clone, Copy)]
pub enum Piece<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// A range of another log, copied inside the kernel where that works: the shared prefix of a fork.
    Range {
        /// The other log.
        file: &'a dyn File,
        /// Offset of the first byte.
        from: u64,
        /// Offset after the last byte.
        to: u64,
    },
}

/// Why a log was not published, or not replaced. Except for [`AlreadyExists`](Self::AlreadyExists) and
/// [`Unsettled`](Self::Unsettled) there is no log of that name afterwards.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The name is taken: the session is stored already, or another process was faster.
    #[error("a log of this session is stored already: load it instead, or use another id")]
    AlreadyExists,
    /// A step failed.
    #[error("the session could not be stored ({step}: {source}): {helps}", helps = what_helps(source))]
    Io {
        /// What was being done.
        step: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The log to copy from is shorter than the range asked for.
    #[error(
        "the log to fork from ends {missing} bytes too early, another program changed it: close it and load it"
    )]
    SourceTooShort {
        /// How many bytes were missing.
        missing: u64,
    },
    /// The new file could not be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A log was replaced, and its name could not be made durable.
    #[error(
        "the session is stored but may not survive power loss ({source}): load it, or delete it and try again"
    )]
    Unsettled {
        /// Why its name could not be made durable.
        source: io::Error,
    },
}

/// How often the session's directory may go under our hands.
const ATTEMPTS: u32 = 8;

/// Creates logs below one root. Shared by all sessions, as it remembers which directories are durable.
pub struct Publisher {
    fs: Arc<dyn FileSystem>,
    durable_dirs: Mutex<HashSet<PathBuf>>,
}

impl Publisher {
    /// A publisher for a root, which is created with the first log.
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>) -> Self {
        Self { fs, durable_dirs: Mutex::new(HashSet::new()) }
    }

    /// Makes a log with the given content and returns its writer; name and content are durable and locked for `me`.
    /// A name that could neither be made durable nor be taken back is the writer's to settle
    /// ([`LogWriter::is_settled`]).
    ///
    /// The content goes to a temporary file, which is locked, filled, synced and then linked to its final name. So nobody
    /// ever sees a part of it, and of two processes that create the same log one gets
    /// [`PublishError::AlreadyExists`].
    ///
    /// # Errors
    /// [`PublishError`].
    pub fn publish(
        &self,
        path: &LogPath,
        content: &[Piece<'_>],
        me: Holder,
    ) -> Result<LogWriter, PublishError> {
        let log = path.log();
        let temp = self.make_temporary(path, &log)?;
        let len = self.fill_and_link(temp.file(), content, temp.path(), &log)?;
        let file = Arc::clone(temp.file());
        let published = {
            let lock = Lock::announce(&self.fs, Arc::clone(&file), &log, me);
            match self.fs.sync_dir(&path.session_dir()) {
                Ok(()) => Ok(LogWriter::new(lock, len, len)),
                // Nobody else can have added anything, we hold the lock: take the name back.
                Err(source) => match self.fs.unlink(&log) {
                    Ok(()) => Err(PublishError::Io { step: "sync the directory", source }),
                    // The log is there, whole and ours: only power loss may still take it.
                    Err(_) => {
                        Ok(LogWriter::new(lock, len, len).unsettled(Arc::clone(&self.fs), path.session_dir()))
                    }
                },
            }
        };
        drop(temp);
        if published.is_ok() {
            sweep(self.fs.as_ref(), path, file.as_ref());
        }
        published
    }

    fn fill_and_link(
        &self,
        file: &Arc<dyn File>,
        content: &[Piece<'_>],
        temp: &Path,
        log: &Path,
    ) -> Result<u64, PublishError> {
        let mut len = 0;
        for piece in content {
            len += match *piece {
                Piece::Bytes(bytes) => write_all(file.as_ref(), bytes)?,
                Piece::Range { file: source, from, to } => copy_all(file.as_ref(), source, from, to)?,
            };
        }
        file.sync_data().map_err(step("sync the file"))?;
        match self.fs.hard_link(temp, log) {
            Ok(()) => Ok(len),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(PublishError::AlreadyExists),
            Err(source) => Err(PublishError::Io { step: "name the file", source }),
        }
    }

    /// Makes the directories and the file that is to become the log in them. A deletion of that id by another process
    /// removes the session's directory as long as it is empty: then again.
    fn make_temporary(&self, path: &LogPath, log: &Path) -> Result<Temporary, PublishError> {
        for _ in 1..ATTEMPTS {
            self.make_dirs(path)?;
            match Temporary::create(&self.fs, log) {
                Err(PublishError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                made => return made,
            }
        }
        self.make_dirs(path)?;
        Temporary::create(&self.fs, log)
    }

    /// Makes what is missing of root, project and session directory, each durable in its parent.
    fn make_dirs(&self, path: &LogPath) -> Result<(), PublishError> {
        let session = path.session_dir();
        for attempt in 0..2 {
            self.make_shared_dir(Path::new(""), None)?;
            self.make_shared_dir(path.project_dir(), Some(Path::new("")))?;
            match self.fs.create_dir(&session) {
                // Somebody removed the directories that we remember: forget them, once.
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempt == 0 => self.known().clear(),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(step("create the session directory")(error));
                }
                // Synced even if it was there: whoever made it may have died before syncing.
                _ => break,
            }
        }
        self.fs.sync_dir(path.project_dir()).map_err(step("sync the project directory"))
    }

    fn make_shared_dir(&self, dir: &Path, parent: Option<&Path>) -> Result<(), PublishError> {
        if self.known().contains(dir) {
            return Ok(());
        }
        match self.fs.create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(step("create a directory")(error));
            }
            _ => {}
        }
        if let Some(parent) = parent {
            self.fs.sync_dir(parent).map_err(step("sync a directory"))?;
        }
        self.known().insert(dir.to_path_buf());
        Ok(())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<PathBuf>> {
        self.durable_dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(in crate::disk) fn step(step: &'static str) -> impl FnOnce(io::Error) -> PublishError {
    move |source| PublishError::Io { step, source }
}

pub(in crate::disk) fn write_all(file: &dyn File, bytes: &[u8]) -> Result<u64, PublishError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match file.append(rest) {
            Ok(0) => return Err(step("write the file")(io::ErrorKind::WriteZero.into())),
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(step("write the file")(error)),
        }
    }
    Ok(bytes.len() as u64)
}

pub(in crate::disk) fn copy_all(
    file: &dyn File,
    source: &dyn File,
    from: u64,
    to: u64,
) -> Result<u64, PublishError> {
    let mut at = from;
    while at < to {
        match file.copy_from(source, at, to - at) {
            Ok(0) => return Err(PublishError::SourceTooShort { missing: to - at }),
            Ok(n) => at += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(step("copy the shared prefix")(error)),
        }
    }
    Ok(to.saturating_sub(from))
}
