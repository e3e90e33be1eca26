//! Removing a stored session: its own files and nothing else.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::catalog::find::{Later, OddPlace, Place, find_all, is_absent, later_in, right_of};
use crate::disk::fs::{File, FileKind, FileSystem, what_helps};
use crate::disk::live::lock::{Holder, Lock, LockError};
use crate::disk::live::temporary::{is_temporary, remove_left_over};
use crate::disk::paths::{Encoding, LogPath, OWNER_FILE, SUMMARY_FILE, is_cut};
use crate::log::SessionId;

/// What programs that write later generations lock, in the session directory (FOREIGN 1).
const LATER_LOCK: &str = "session.lock";

/// Why a session was not removed, or not wholly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// Another process owns it, or its log cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The store could not be searched, or the log not removed.
    #[error("the session could not be removed ({0}): {helps}", helps = what_helps(.0))]
    Io(#[source] io::Error),
    /// The id is stored more than once, and nothing tells which of them is meant.
    #[error(transparent)]
    Several(#[from] OddPlace),
    /// A log is removed; a copy, or what lies beside it, is not, or power loss may bring it back.
    #[error("the session's log is removed, but not all that belongs to it ({0}): delete it again")]
    Unfinished(#[source] io::Error),
}

/// Removes a session from the store, its logs of later generations too. Says whether there was one. Where its id is stored
/// more than once, the log that is where its header belongs is the session; the others stay, and are named in the log.
///
/// A log is locked first and goes before what else lies beside it but for hints, so that a deletion that is cut short
/// is either not begun or done but for leftovers, which no list shows and the next deletion removes. Files that are not the store's own
/// stay, and their directory too.
///
/// # Errors
/// [`DeleteError`]; after it the same call may be made again.
pub fn delete(fs: &Arc<dyn FileSystem>, id: &SessionId, me: Holder) -> Result<bool, DeleteError> {
    let traces = find_all(fs.as_ref(), id).map_err(DeleteError::Io)?;
    let mut gone = false;
    if let Some(place) = right_of(fs.as_ref(), id, &traces.places)? {
        delete_place(fs, place, me)?;
        gone = true;
        for other in traces.places.iter().filter(|other| !std::ptr::eq(*other, place)) {
            let place = other.plain.session_dir();
            tracing::warn!(place = %place.display(), "a misplaced copy of a deleted session stays");
        }
    }
    for log in &traces.emptied {
        remove_rest(fs.as_ref(), log, None).map_err(DeleteError::Unfinished)?;
    }
    // There may be one more; what may not be looked into is nobody's here.
    match traces.unseen {
        Some(error) if !gone => Err(DeleteError::Io(error)),
        Some(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(DeleteError::Unfinished(error)),
        _ => Ok(gone),
    }
}

/// Removes the logs of a session in one directory: that of generation 0 first, as it is superseded only while a later
/// one is there.
fn delete_place(fs: &Arc<dyn FileSystem>, place: &Place, me: Holder) -> Result<(), DeleteError> {
    let dir = place.plain.session_dir();
    let lock = lock_later(fs.as_ref(), &dir, &place.later)?;
    let mut gone = false;
    for (log, _) in &place.logs {
        match delete_log(fs, log, me) {
            Ok(()) => gone = true,
            Err(DeleteError::Io(error) | DeleteError::Lock(LockError::Io(error))) if gone => {
                return Err(DeleteError::Unfinished(error));
            }
            Err(error) => return Err(error),
        }
    }
    remove_later(fs.as_ref(), &dir, &place.later, lock.is_some(), gone)?;
    if !place.later.is_empty() {
        remove_rest(fs.as_ref(), &place.plain, None).map_err(DeleteError::Unfinished)?;
    }
    Ok(())
}

/// The lock that programs hold which write later generations; none where none of their logs, or no lock, is there.
fn lock_later(
    fs: &dyn FileSystem,
    dir: &Path,
    later: &[Later],
) -> Result<Option<Arc<dyn File>>, DeleteError> {
    let lock = match later.first().map(|_| fs.open_append(&dir.join(LATER_LOCK))) {
        None => return Ok(None),
        Some(Err(error)) if is_absent(&error) => return Ok(None),
        Some(lock) => lock.map_err(DeleteError::Io)?,
    };
    match lock.try_lock().map_err(DeleteError::Io)? {
        true => Ok(Some(lock)),
        false => Err(LockError::Held { holder: None }.into()),
    }
}

/// Removes the logs of later generations, and their lock where it is `locked`; `gone` says that a log was removed before.
fn remove_later(
    fs: &dyn FileSystem,
    dir: &Path,
    later: &[Later],
    locked: bool,
    mut gone: bool,
) -> Result<(), DeleteError> {
    for Later { path, .. } in later {
        let failed = if gone { DeleteError::Unfinished } else { DeleteError::Io };
        unlink(fs, path.clone()).map_err(failed)?;
        gone = true;
    }
    if locked {
        unlink(fs, dir.join(LATER_LOCK)).map_err(DeleteError::Unfinished)?;
    }
    Ok(())
}

/// Removes one log and what lies beside it. One that has gone meanwhile is somebody else's doing, and what has got its
/// name since is another session.
fn delete_log(fs: &Arc<dyn FileSystem>, log: &LogPath, me: Holder) -> Result<(), DeleteError> {
    match Lock::try_acquire(fs, &log.log(), me) {
        Ok(lock) => {
            remove_locked(fs.as_ref(), log, lock.file().as_ref())?;
            drop(lock);
            remove_dir(fs.as_ref(), log).map_err(DeleteError::Unfinished)
        }
        Err(LockError::Io(error)) if is_absent(&error) => Ok(()),
        // A directory, link or pipe under that name: nothing that anybody could hold open as a log.
        Err(LockError::Io(_)) if is_odd(fs.as_ref(), log) => {
            unlink(fs.as_ref(), log.log()).map_err(DeleteError::Io)?;
            remove_rest(fs.as_ref(), log, None).map_err(DeleteError::Unfinished)
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes the session whose log this process has open and locked as `file`, with the later generations that continue
/// it, and nothing else: what has got its name since another program removed it is another session.
///
/// # Errors
/// [`DeleteError::Io`], [`DeleteError::Unfinished`], and [`DeleteError::Lock`] where another program has a later
/// generation open; after it the same call may be made again.
pub fn delete_open(fs: &dyn FileSystem, log: &LogPath, file: &dyn File) -> Result<(), DeleteError> {
    let ours = file.metadata().map_err(DeleteError::Io)?;
    let is_named = match fs.metadata(&log.log()) {
        Ok(named) if named.is_same_file(&ours) => true,
        Ok(_) => return Ok(()),
        Err(error) if is_absent(&error) => false,
        Err(error) => return Err(DeleteError::Io(error)),
    };
    let dir = log.session_dir();
    let later = match fs.list_dir(&dir) {
        Err(error) if is_absent(&error) => Vec::new(),
        entries => later_in(&dir, &entries.map_err(DeleteError::Io)?),
    };
    let lock = lock_later(fs, &dir, &later)?;
    if is_named {
        remove_locked(fs, log, file)?;
    } else {
        remove_files(fs, log, Some(file)).map_err(DeleteError::Unfinished)?;
    }
    remove_later(fs, &dir, &later, lock.is_some(), true)?;
    remove_dir(fs, log).map_err(DeleteError::Unfinished)
}

/// Removes a log that is locked here as `ours`, and what lies beside it. The hints go first: once the name is free,
/// another process may make a log of that name, and what then lies there is its.
fn remove_locked(fs: &dyn FileSystem, log: &LogPath, ours: &dyn File) -> Result<(), DeleteError> {
    for hint in [SUMMARY_FILE, OWNER_FILE] {
        unlink(fs, log.session_dir().join(hint)).map_err(DeleteError::Io)?;
    }
    unlink(fs, log.log()).map_err(DeleteError::Io)?;
    remove_files(fs, log, Some(ours)).map_err(DeleteError::Unfinished)
}

fn remove_rest(fs: &dyn FileSystem, log: &LogPath, ours: Option<&dyn File>) -> io::Result<()> {
    remove_files(fs, log, ours)?;
    remove_dir(fs, log)
}

fn is_odd(fs: &dyn FileSystem, log: &LogPath) -> bool {
    fs.metadata(&log.log()).is_ok_and(|meta| meta.kind != FileKind::File)
}

/// Makes the removal of a log, which is locked here as `ours`, durable and removes what lay beside it. Where a log is
/// there again, or is being made, the hints are its.
fn remove_files(fs: &dyn FileSystem, log: &LogPath, ours: Option<&dyn File>) -> io::Result<()> {
    let dir = log.session_dir();
    // An earlier attempt may have come as far as the directory, or another process may have removed it.
    match fs.sync_dir(&dir) {
        Err(error) if is_absent(&error) => return Ok(()),
        synced => synced?,
    }
    let entries = match fs.list_dir(&dir) {
        Err(error) if is_absent(&error) => return Ok(()),
        entries => entries?,
    };
    let mut made_anew = entries.iter().any(|entry| entry.name == log.encoding().file_name());
    for entry in entries.iter().filter(|entry| is_temporary(&entry.name)) {
        made_anew |= !remove_left_over(fs, &dir, entry, ours)?;
    }
    // The other encoding's log, should there be one, comes by itself, with its lock.
    let goes = |name: &OsStr| is_kept(name) || (is_hint(name) && !made_anew);
    for entry in entries.iter().filter(|entry| goes(&entry.name)) {
        unlink(fs, dir.join(&entry.name))?;
    }
    Ok(())
}

/// What only says something of a log.
pub(crate) fn is_hint(name: &OsStr) -> bool {
    name == OWNER_FILE || name == SUMMARY_FILE
}

/// What a repair has kept of a log.
pub(crate) fn is_kept(name: &OsStr) -> bool {
    let backup = |rest: &str| rest.starts_with(".backup-");
    let backup_of = |log: Encoding| name.to_str()?.strip_prefix(log.file_name()).map(backup);
    is_cut(name) || [Encoding::Plain, Encoding::Zstd].into_iter().any(|log| backup_of(log) == Some(true))
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
    match fs.sync_dir(log.project_dir()) {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}
