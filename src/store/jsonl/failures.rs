//! What a failure of the disk is to a client.

use crate::disk::fs::{errno_name, remedy};
use crate::disk::live::session_file::FileError;
use crate::disk::live::write::{CheckError, SyncError, WriteError};
use crate::store::{Loss, StorageError};

/// An I/O error's name.
pub(super) fn errno(error: &std::io::Error) -> String {
    errno_name(error).unwrap_or("EIO").to_owned()
}

/// An I/O error as the protocol tells it.
pub(super) fn failed(doing: &str, error: &std::io::Error, committed: bool) -> StorageError {
    let (errno, remedy) = (errno(error), remedy(error));
    StorageError::Failed { errno, doing: doing.to_owned(), committed, remedy }
}

pub(super) fn lost(doing: &str, committed: bool, how: Loss) -> StorageError {
    StorageError::Lost { doing: doing.to_owned(), committed, how }
}

/// A failed write: nothing of it was kept, unless only its sync failed.
pub(super) fn write_failed(error: &FileError) -> StorageError {
    const DOING: &str = "writing the session's log";
    match error {
        FileError::Write(WriteError::Failed(error)) => failed(DOING, error, false),
        FileError::Write(WriteError::NotRolledBack { write, .. }) => failed(DOING, write, false),
        FileError::Write(WriteError::Check(error)) => not_ours(DOING, error, false),
        FileError::Deleted => lost(DOING, false, Loss::Deleted),
        FileError::Save(error) => failed("saving the log's torn end", error, false),
        FileError::Write(WriteError::Syncing) | FileError::Frame(_) => {
            failed(DOING, &std::io::Error::other("sync"), false)
        }
        FileError::Sync(error) => not_synced(error, false),
        FileError::Unsynced(error) => sync_failed(error),
    }
}

/// A failed sync: the events are kept, though not durable.
pub(super) fn sync_failed(error: &SyncError) -> StorageError {
    not_synced(error, true)
}

fn not_synced(error: &SyncError, committed: bool) -> StorageError {
    const DOING: &str = "making the session's log durable";
    match error {
        SyncError::Failed(error) | SyncError::Rewrite(error) => failed(DOING, error, committed),
        SyncError::Check(error) => not_ours(DOING, error, committed),
        SyncError::TailTooShort { .. } | SyncError::Lost => {
            failed(DOING, &std::io::Error::other("lost"), committed)
        }
    }
}

/// A log that is not the one that this process left, or cannot be examined.
fn not_ours(doing: &str, error: &CheckError, committed: bool) -> StorageError {
    match *error {
        CheckError::Examine(ref error) => failed(doing, error, committed),
        CheckError::ChangedOutside { expected, actual } => {
            lost(doing, committed, Loss::Changed { expected, actual })
        }
        CheckError::Removed => lost(doing, committed, Loss::Removed),
    }
}
