//! Finding, reading and listing stored sessions. Runs off the owner thread.

use super::storage::Shared;
use crate::disk::session_file::SessionFile;
use crate::log::SessionId;
use crate::rpc::storage::{Inspected, Loaded, StorageError, StoredInfo, StoredSummary};
use crate::session::{Limits, Session, Vocabulary};

/// What lists have read of logs that have no summary.
#[derive(Debug, Default)]
pub(super) struct Seen;

pub(super) fn find(_: &Shared, _: &SessionId) -> Result<Option<StoredSummary>, StorageError> {
    Ok(None)
}

pub(super) fn list(_: &Shared) -> Result<Vec<StoredInfo>, StorageError> {
    Ok(Vec::new())
}

pub(super) fn inspect(_: &Shared, id: &SessionId) -> Result<Box<Inspected>, StorageError> {
    Err(StorageError::NotFound(id.clone()))
}

pub(super) fn load(
    _: &Shared,
    id: &SessionId,
    _: &Vocabulary,
    _: &Limits,
) -> Result<(Loaded, SessionFile), StorageError> {
    Err(StorageError::NotFound(id.clone()))
}

pub(super) fn leave_summary(_: &Shared, _: &SessionFile, _: &Session) {}

pub(super) fn delete(_: &Shared, _: &SessionId, _: Option<&SessionFile>) -> Result<(), StorageError> {
    Ok(())
}
