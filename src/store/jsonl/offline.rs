//! A load without a daemon: what the first write after it would mend, mended at once.

use std::sync::Arc;

use super::failures::write_failed;
use super::read;
use super::storage::Shared;
use crate::disk::fs::FileSystem;
use crate::disk::live::lock::Holder;
use crate::log::SessionId;
use crate::session::{Limits, Rules};
use crate::store::StorageError;

/// Loads a session, saves and cuts a torn tail, completes the last record and closes an open turn, durably. Gives
/// what is to be told of it.
pub(crate) fn mend(
    fs: &Arc<dyn FileSystem>,
    me: Holder,
    id: &SessionId,
    rules: Rules<'_>,
) -> Result<Vec<String>, StorageError> {
    let limits: &Limits = rules.limits;
    let shared = Shared::new(Arc::clone(fs), me, limits.max_event_bytes);
    let (loaded, mut file) = read::load(&shared, id, rules.vocabulary, limits)?;
    let known = file.notes().len();
    file.mend_and_write(loaded.history.log()).map_err(|error| write_failed(&error))?;
    Ok(file.notes().iter().skip(known).cloned().collect())
}
