//! Removing a stored session: its own files and nothing else.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::find::{find_all, find_emptied, is_absent};
use super::fs::{File, FileSystem, what_helps};
use super::lock::{Holder, Lock, LockError};
use super::paths::{Encoding, LogPath, OWNER_FILE};
use super::summary::SUMMARY_FILE;
use super::temporary::{is_temporary, remove_left_over};
use crate::log::SessionId;

/// Why a session was not removed, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// Another process owns it, or its log cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The store could not be searched, or the log not removed.
    #[error("the session could not be removed ({0}): {helps}", helps = what_helps(.0))]
    Io(#[source] io::Error),
    /// A log is removed; a copy, or what lies beside it, is not, or power loss may bring it back.
    #[error("the session's log is removed, but not all that belongs to it ({0}): delete it again")]
    Unfinished(#[source] io::Error),
}

/// Removes a session from the store; every copy of it, should there be several. Says whether there was one.
///
/// A log is locked first and goes before what lies beside it, so that a deletion that is cut short is either not begun
/// or done but for leftovers, which no list shows and the next deletion removes. Files that are not the store's own
/// stay, and their directory too.
///
/// # Errors
/// [`DeleteError`]; after it the same call may be made again.
pub fn delete(fs: &Arc<dyn FileSystem>, id: &SessionId, me: Holder) -> Result<bool, DeleteError> {
    let logs = find_all(fs.as_ref(), id).map_err(DeleteError::Io)?;
    if logs.is_empty() {
        for log in find_emptied(fs.as_ref(), id).map_err(DeleteError::Io)? {
            remove_rest(fs.as_ref(), &log, None).map_err(DeleteError::Unfinished)?;
        }
    }
    for (index, log) in logs.iter().enumerate() {
        let begun = |error| if index == 0 { DeleteError::Io(error) } else { DeleteError::Unfinished(error) };
        let lock = match Lock::try_acquire(fs, &log.log(), me) {
            Ok(lock) => Some(lock),
            Err(LockError::Io(error)) if is_absent(&error) => None,
            Err(LockError::Io(error)) if index > 0 => return Err(DeleteError::Unfinished(error)),
            // A directory, link or pipe under that name: nothing that anybody could hold open as a log.
            Err(LockError::Io(error)) if !is_regular(fs.as_ref(), log) => {
                drop(error);
                None
            }
            Err(error) => return Err(error.into()),
        };
        unlink(fs.as_ref(), log.log()).map_err(begun)?;
        let ours = lock.as_ref().map(|lock| lock.file().as_ref());
        remove_files(fs.as_ref(), log, ours).map_err(DeleteError::Unfinished)?;
        drop(lock);
        remove_dir(fs.as_ref(), log).map_err(DeleteError::Unfinished)?;
    }
    Ok(!logs.is_empty())
}

/// Removes the session whose log this process has open and locked as `file`, and nothing else: what has got its name
/// since another program removed it is another session.
///
/// # Errors
/// [`DeleteError::Io`] and [`DeleteError::Unfinished`]; after it the same call may be made again.
pub fn delete_open(fs: &dyn FileSystem, log: &LogPath, file: &dyn File) -> Result<(), DeleteError> {
    let ours = file.metadata().map_err(DeleteError::Io)?;
    match fs.metadata(&log.log()) {
        Ok(named) if named.is_same_file(&ours) => unlink(fs, log.log()).map_err(DeleteError::Io)?,
        Ok(_) => return Ok(()),
        Err(error) if is_absent(&error) => {
            return remove_rest(fs, log, Some(file)).map_err(DeleteError::Unfinished);
        }
        Err(error) => return Err(DeleteError::Io(error)),
    }
    remove_rest(fs, log, Some(file)).map_err(DeleteError::Unfinished)
}

fn remove_rest(fs: &dyn FileSystem, log: &LogPath, ours: Option<&dyn File>) -> io::Result<()> {
    remove_files(fs, log, ours)?;
    remove_dir(fs, log)
}

fn is_regular(fs: &dyn FileSystem, log: &LogPath) -> bool {
    fs.metadata(&log.log()).is_ok_and(|meta| meta.kind == super::fs::FileKind::File)
}

/// Makes the removal of a log, which is locked here as `ours`, durable and removes what lay beside it. Where no log was a
/// moment ago, or is none now, another process may be making one: that stays.
fn remove_files(fs: &dyn FileSystem, log: &LogPath, ours: Option<&dyn File>) -> io::Result<()> {
    let dir = log.session_dir();
    // An earlier attempt may have come as far as the directory.
    match fs.sync_dir(&dir) {
        Err(error) if is_absent(&error) => return Ok(()),
        synced => synced?,
    }
    // The other encoding's log, should there be one, comes by itself, with its lock.
    let is_log = |name: &OsStr| Encoding::of_file_name(name).is_some();
    for entry in fs.list_dir(&dir)? {
        if is_temporary(&entry.name) {
            remove_left_over(fs, &dir, &entry, ours)?;
        } else if is_own(&entry.name) && !is_log(&entry.name) {
            unlink(fs, dir.join(&entry.name))?;
        }
    }
    Ok(())
}

/// Whether a name in a session directory is one that the store gives to a file that has come to stay.
fn is_own(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let kept = |rest: &str| rest.starts_with(".cut-") || rest.starts_with(".backup-");
    let kept_of = |stem: &str| name.strip_prefix(stem).is_some_and(kept);
    let logs = [Encoding::Plain, Encoding::Zstd].map(Encoding::file_name);
    name == OWNER_FILE || name == SUMMARY_FILE || logs.iter().any(|log| name == *log || kept_of(log))
}

fn unlink(fs: &dyn FileSystem, path: PathBuf) -> io::Result<()> {
    match fs.unlink(&path) {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

fn remove_dir(fs: &dyn FileSystem, log: &LogPath) -> io::Result<()> {
    match fs.remove_dir(&log.session_dir()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty || is_absent(&error) => {}
        Err(error) => return Err(error),
    }
    fs.sync_dir(log.project_dir())
}
