//! Files on their way to a name: whole before they get it, and gone if they never do.
//!
//! A file that is to become a log is locked before anything is in it, and the lock dies with its process. So what a killed
//! process has left can be told from what another one is writing, whoever looks and whenever: the lock is free, or it is
//! not. A summary on its way is the log's owner's: whoever has the log's lock knows that nobody writes one.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lock::{Lock, LockError, Named, contained};
use super::publish::{PublishError, step};
use crate::disk::catalog::find::is_absent;
use crate::disk::fs::{DirEntry, File, FileKind, FileSystem};
use crate::disk::paths::{Encoding, LogPath, SUMMARY_FILE};

/// A new file beside a log, locked, under a name that nobody else has thought of; the name is gone when this is dropped.
pub(in crate::disk) struct Temporary {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    file: Arc<dyn File>,
}

/// How often a sweeper may take the file between its making and its locking.
const ATTEMPTS: u32 = 8;

impl Temporary {
    /// Makes and locks the file.
    pub(in crate::disk) fn create(fs: &Arc<dyn FileSystem>, log: &Path) -> Result<Self, PublishError> {
        for _ in 0..ATTEMPTS {
            let path = temporary_name(log);
            let file = fs.create_new(&path).map_err(step("create the file"))?;
            let this = Self { fs: Arc::clone(fs), path, file };
            match Lock::lock_unpublished(this.file.as_ref()) {
                Ok(()) => {}
                Err(LockError::Held { .. }) => continue, // a sweeper has it, for a moment, and removes it
                Err(error) => return Err(error.into()),
            }
            // A sweeper may have had it before: then it has no name any more.
            let named = Named::new(fs, &this.file, &this.path);
            if named.leads_here().map_err(step("examine the file"))? {
                return Ok(this);
            }
        }
        Err(LockError::Replaced.into())
    }

    /// The file, open for reading and appending.
    pub(in crate::disk) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Its name.
    pub(in crate::disk) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Best effort, and nothing to remove where it was renamed: readers ignore such files, sweepers remove them.
        contained(|| drop(self.fs.unlink(&self.path)));
    }
}

/// A name beside `file` that nobody else has thought of; readers ignore it.
pub(in crate::disk) fn temporary_name(file: &Path) -> PathBuf {
    let random = uuid::Uuid::new_v4().simple().to_string();
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.tmp", random.get(..12).unwrap_or(&random)));
    PathBuf::from(name)
}

/// Whether a name in a session directory is one that the store gives to a file on its way.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    is_temporary_of(name, SUMMARY_FILE) || is_temporary_log(name)
}

fn is_temporary_log(name: &OsStr) -> bool {
    [Encoding::Plain, Encoding::Zstd].iter().any(|encoding| is_temporary_of(name, encoding.file_name()))
}

fn is_temporary_of(name: &OsStr, file: &str) -> bool {
    let middle =
        name.to_str().and_then(|name| name.strip_prefix(file)?.strip_prefix('.')?.strip_suffix(".tmp"));
    middle.is_some_and(|hex| hex.len() == 12 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Removes what killed processes have left on its way in the directory of a log that is locked here as `ours`. Whatever
/// fails stays for the next sweep.
pub fn sweep(fs: &dyn FileSystem, log: &LogPath, ours: &dyn File) {
    let dir = log.session_dir();
    let Ok(entries) = fs.list_dir(&dir) else { return };
    for entry in entries.iter().filter(|entry| is_temporary(&entry.name)) {
        if let Err(error) = remove_left_over(fs, &dir, entry, Some(ours)) {
            tracing::debug!(%error, "a file that a killed process has left stays");
        }
    }
}

/// Removes a file on its way unless another process is writing it: then it says false. `ours` is the log if it is locked here; nobody makes a
/// summary where it is locked here or there is none.
pub(in crate::disk) fn remove_left_over(
    fs: &dyn FileSystem,
    dir: &Path,
    entry: &DirEntry,
    ours: Option<&dyn File>,
) -> io::Result<bool> {
    let path = dir.join(&entry.name);
    // Held until the name is gone: whoever has made it a moment ago sees that, and makes another.
    let mut _held = None;
    if entry.kind == FileKind::File && is_temporary_log(&entry.name) {
        let file = match fs.open_read(&path) {
            Err(error) if is_absent(&error) => return Ok(true),
            file => file?,
        };
        // The log itself may have kept its first name: its maker was killed behind giving it the second.
        let is_ours = || {
            Ok::<_, io::Error>(match ours {
                Some(ours) => ours.metadata()?.is_same_file(&file.metadata()?),
                None => false,
            })
        };
        if !file.try_lock()? && !is_ours()? {
            return Ok(false);
        }
        _held = Some(file);
    }
    match fs.unlink(&path) {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(true),
    }
}
