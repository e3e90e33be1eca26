//! What a failure of the disk is to a client.

use crate::disk::catalog::find::Later;
use crate::disk::fs::{errno_name, remedy};
use crate::disk::live::session_file::FileError;
use crate::disk::live::write::{CheckError, SyncError, WriteError};
use crate::store::{Detail, Loss, Outcome, StorageError};

/// An I/O error's name.
pub(super) fn detail(error: &std::io::Error) -> Detail {
    Detail::File(errno_name(error).unwrap_or("EIO").to_owned())
}

/// An I/O error as the protocol tells it.
pub(super) fn failed(doing: &str, error: &std::io::Error, outcome: Outcome) -> StorageError {
    let (detail, remedy) = (detail(error), remedy(error));
    StorageError::Failed { detail, doing: doing.to_owned(), outcome, remedy }
}

pub(super) fn lost(doing: &str, outcome: Outcome, how: Loss) -> StorageError {
    StorageError::Lost { doing: doing.to_owned(), outcome, how }
}

/// A failed write: nothing of it was kept, unless only its sync failed.
pub(super) fn write_failed(error: &FileError) -> StorageError {
    const DOING: &str = "writing the session's log";
    match error {
        FileError::Write(WriteError::Failed(error)) => failed(DOING, error, Outcome::NotCommitted),
        FileError::Write(WriteError::NotRolledBack { write, .. }) => {
            failed(DOING, write, Outcome::NotCommitted)
        }
        FileError::Write(WriteError::Check(error)) => not_ours(DOING, error, Outcome::NotCommitted),
        FileError::Deleted => lost(DOING, Outcome::NotCommitted, Loss::Deleted),
        FileError::Save(error) => failed("saving the log's torn end", error, Outcome::NotCommitted),
        FileError::Write(WriteError::Syncing) | FileError::Frame(_) => {
            failed(DOING, &std::io::Error::other("sync"), Outcome::NotCommitted)
        }
        FileError::Sync(error) => not_synced(error, Outcome::NotCommitted),
        FileError::Unsynced(error) => sync_failed(error),
    }
}

/// A failed sync: the events are kept, though not durable.
pub(super) fn sync_failed(error: &SyncError) -> StorageError {
    not_synced(error, Outcome::Committed)
}

fn not_synced(error: &SyncError, outcome: Outcome) -> StorageError {
    const DOING: &str = "making the session's log durable";
    match error {
        SyncError::Failed(error) | SyncError::Rewrite(error) => failed(DOING, error, outcome),
        SyncError::Check(error) => not_ours(DOING, error, outcome),
        SyncError::TailTooShort { .. } | SyncError::Lost => {
            failed(DOING, &std::io::Error::other("lost"), outcome)
        }
    }
}

/// A log that is not the one that this process left, or cannot be examined.
fn not_ours(doing: &str, error: &CheckError, outcome: Outcome) -> StorageError {
    match *error {
        CheckError::Examine(ref error) => failed(doing, error, outcome),
        CheckError::ChangedOutside { expected, actual } => {
            lost(doing, outcome, Loss::Changed { expected, actual })
        }
        CheckError::Rewritten => lost(doing, outcome, Loss::Rewritten),
        CheckError::Removed => lost(doing, outcome, Loss::Removed),
        CheckError::Superseded(Later { generation, .. }) => {
            lost(doing, outcome, Loss::Superseded { generation })
        }
    }
}
