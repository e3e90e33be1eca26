//! Making, mending, letting go and deleting the files of one session, its summary among them. Runs off the owner thread.

use std::ops::Range;
use std::sync::Arc;

use super::failures::{detail, failed, lost, sync_failed, write_failed};
use super::read::{EPOCH, find, locked, not_searched, odd_place};
use super::storage::Shared;
use crate::disk::catalog::find::is_taken;
use crate::disk::catalog::summary::{Facts, tail_of, write_summary};
use crate::disk::fs::{File, remedy};
use crate::disk::live::publish::{Piece, PublishError};
use crate::disk::live::session_file::{FileError, SessionFile};
use crate::disk::live::write::{CheckError, SyncError};
use crate::disk::maintenance::delete::{DeleteError, delete as delete_stored, delete_open};
use crate::disk::paths::{Encoding, LogPath};
use crate::log::{Header, Log, Offset, Seq, SessionId, header_line};
use crate::session::Session;
use crate::store::storage::{Created, ListFacts, Publication, Rescued, StoredSummary};
use crate::store::{Loss, Outcome, StorageError};

/// Makes a session's file, or writes to the one it has; gives the file and what is durable.
pub(super) fn publish(
    shared: &Shared,
    file: Option<SessionFile>,
    publication: &Publication,
    parent: Option<(Arc<dyn File>, Range<u64>)>,
) -> (Option<SessionFile>, Result<Created, StorageError>) {
    let created = |durable| Created { epoch: EPOCH, durable };
    if let Some(file) = file {
        let (file, result) = mend(file, &publication.log);
        if let (Ok(_), Some(facts)) = (&result, publication.summary.as_deref()) {
            leave_summary(shared, &file, facts.clone());
        }
        return (Some(file), result.map(created));
    }
    match publish_new(shared, publication, parent) {
        // A name that is in doubt gets another chance; without it the file is there all the same.
        Ok(mut file) => {
            let durable = file.sync_all().map(Offset::last).map_err(|error| sync_failed(&error));
            (Some(file), durable.map(created))
        }
        Err(error) => (None, Err(error)),
    }
}

/// Mends a file and writes what it lacks of a log, durably; gives it back, and its last durable event.
pub(super) fn mend(mut file: SessionFile, log: &Log) -> (SessionFile, Result<Option<Seq>, StorageError>) {
    let result = file.mend_and_write(log).map_err(|error| write_failed(&error));
    let durable = file.durable().last();
    (file, result.map(|()| durable))
}

fn publish_new(
    shared: &Shared,
    publication: &Publication,
    parent: Option<(Arc<dyn File>, Range<u64>)>,
) -> Result<SessionFile, StorageError> {
    let id = &publication.header.id;
    if find(shared, id, false)?.is_some() {
        return Err(exists(shared, id));
    }
    publish_at(shared, publication, parent, place(&publication.header)?)
}

fn place(header: &Header) -> Result<LogPath, StorageError> {
    LogPath::new(header.cwd.as_deref(), header.id.as_str(), Encoding::Plain).map_err(|error| {
        failed(&error.to_string(), &std::io::ErrorKind::InvalidInput.into(), Outcome::NotCommitted)
    })
}

fn publish_at(
    shared: &Shared,
    publication: &Publication,
    parent: Option<(Arc<dyn File>, Range<u64>)>,
    path: LogPath,
) -> Result<SessionFile, StorageError> {
    let Publication { header, inherited, log, .. } = publication;
    let id = &header.id;
    let mut first = header_line(header, *inherited);
    first.push('\n');
    let mut content = vec![Piece::Bytes(first.as_bytes())];
    let own_from = match &parent {
        Some((file, range)) => {
            content.push(Piece::Range { file: file.as_ref(), from: range.start, to: range.end });
            *inherited
        }
        None => Offset::ZERO,
    };
    content.extend(log.lines(own_from, log.len()).map(|lines| Piece::Bytes(lines.as_bytes())));
    match shared.publisher.publish(&path, &content, shared.me) {
        Ok(writer) => {
            let header = first.len() as u64;
            let mut file = SessionFile::published(Arc::clone(&shared.fs), path, writer, log.len(), header);
            first.pop();
            file.describe(Some(first), Vec::new());
            Ok(file)
        }
        Err(PublishError::AlreadyExists) => Err(exists(shared, id)),
        Err(PublishError::Io { step, source }) => {
            Err(failed(&format!("storing the session ({step})"), &source, Outcome::NotCommitted))
        }
        // Only replacing one gives this.
        Err(PublishError::Unsettled { source }) => {
            Err(failed("storing the session", &source, Outcome::Committed))
        }
        Err(PublishError::SourceTooShort { missing }) => {
            let expected = parent.as_ref().map_or(0, |(_, range)| range.end);
            let how = Loss::Changed { expected, actual: expected.saturating_sub(missing) };
            Err(lost("copying the parent's log", Outcome::NotCommitted, how))
        }
        Err(PublishError::Lock(error)) => Err(locked(id, error)),
    }
}

/// The id is taken, with what is known of who has it.
fn exists(shared: &Shared, id: &SessionId) -> StorageError {
    match find(shared, id, true) {
        Ok(found) => StorageError::Exists { id: id.clone(), summary: found.unwrap_or_default() },
        Err(error) => error,
    }
}

/// Stores a live session anew if its file is not what this process left under its name (PROTOCOL 3.1, Rescue): under
/// its own id if that is free, else under the other one. Gives its file, of a failure the one that it had.
pub(super) fn rescue(
    shared: &Shared,
    file: Option<SessionFile>,
    mut publication: Publication,
    other: Option<SessionId>,
) -> (Option<SessionFile>, Result<Rescued, StorageError>) {
    match file.as_ref().map(|file| file.check_text(&publication.log)) {
        Some(Ok(())) => return (file, Ok(Rescued::Sound)),
        Some(Err(FileError::Unsynced(SyncError::Check(CheckError::Examine(error))))) => {
            return (file, Err(failed("examining the session's log", &error, Outcome::NotCommitted)));
        }
        Some(Err(FileError::Deleted)) => return (file, Err(write_failed(&FileError::Deleted))),
        Some(Err(_)) | None => {}
    }
    let (mut made, how) = match store_anew(shared, &mut publication, other.as_ref()) {
        Ok(made) => made,
        Err(error) => return (file, Err(error)),
    };
    let settled = made.sync_all().map_err(|error| sync_failed(&error));
    if let (Err(error), Rescued::Renamed(..)) = (&settled, &how) {
        return (file, Err(error.clone())); // as of a fork: what is stored of it can be loaded
    }
    let at = made.path().log();
    tracing::warn!(at = %at.display(), "another program changed or removed a session's log; it is stored anew");
    if let (Some(file), Rescued::Anew) = (file, &how) {
        file.replaced();
    }
    (Some(made), settled.map(|_| how))
}

/// The file of a session under its own id, if nothing stands in its way, else under the other one.
fn store_anew(
    shared: &Shared,
    publication: &mut Publication,
    other: Option<&SessionId>,
) -> Result<(SessionFile, Rescued), StorageError> {
    let (id, path) = (publication.header.id.clone(), place(&publication.header)?);
    if !is_taken(shared.fs.as_ref(), &id, &path).map_err(|unsearched| not_searched(&unsearched))? {
        match publish_at(shared, publication, None, path) {
            Ok(made) => return Ok((made, Rescued::Anew)),
            Err(StorageError::Exists { .. }) => {} // another process has taken it a moment ago
            Err(error) => return Err(error),
        }
    }
    let Some(other) = other else {
        return Err(StorageError::Exists { id, summary: StoredSummary::default() });
    };
    publication.header.id = other.clone();
    Ok((publish_new(shared, publication, None)?, Rescued::Renamed(other.clone(), EPOCH)))
}

/// Makes a session that is no longer live durable, leaves its summary and gives up its lock.
pub(super) fn close(shared: &Shared, mut file: SessionFile, session: &Session) -> Result<(), StorageError> {
    if file.is_deleted() {
        return Ok(()); // nothing is left that could be promised
    }
    let log = session.history().log();
    let settled = match settle(&mut file, log) {
        // Once more, while memory has what the failed sync may have lost: afterwards nobody has.
        Err(FileError::Unsynced(_)) => settle(&mut file, log),
        settled => settled,
    };
    settled.map_err(|error| write_failed(&error))?;
    leave_summary(shared, &file, ListFacts::of(session.history()));
    Ok(())
}

fn leave_summary(shared: &Shared, file: &SessionFile, facts: ListFacts) {
    if let Some(summary) = Summary::of(file, facts) {
        summary.leave(shared);
    }
}

/// Writes everything that the log holds and makes it durable.
fn settle(file: &mut SessionFile, log: &Log) -> Result<(), FileError> {
    // What a failed write left behind may look like records that were refused.
    file.recover()?;
    // Also remembers what an earlier failed sync has put in doubt.
    file.mend_and_write(log)
}

/// Removes a session's files; a file that was open comes back when that fails.
pub(super) fn delete(
    shared: &Shared,
    id: &SessionId,
    file: Option<SessionFile>,
) -> Result<(), (Option<Box<SessionFile>>, StorageError)> {
    match remove(shared, id, file.as_ref()) {
        Ok(()) => Ok(()),
        Err(error) => {
            let gone = matches!(error, StorageError::Undeleted { .. });
            let mark = |mut file: SessionFile| {
                if gone {
                    file.mark_deleted();
                }
                Box::new(file)
            };
            Err((file.map(mark), error))
        }
    }
}

/// Removes a session's files; `file` is its log if this process has it open.
fn remove(shared: &Shared, id: &SessionId, file: Option<&SessionFile>) -> Result<(), StorageError> {
    let deleted = match file {
        Some(file) => delete_open(shared.fs.as_ref(), file.path(), file.file().as_ref()).map(|()| true),
        None => delete_stored(&shared.fs, id, shared.me),
    };
    match deleted {
        Ok(_) => Ok(()),
        Err(DeleteError::Lock(error)) => Err(locked(id, error)),
        Err(DeleteError::Several(odd)) => Err(odd_place(id, &odd)),
        Err(DeleteError::Io(error)) => Err(failed("removing the session", &error, Outcome::NotCommitted)),
        Err(DeleteError::Unfinished(error)) => {
            Err(StorageError::Undeleted { detail: detail(&error), remedy: remedy(&error) })
        }
    }
}

/// A summary to be left beside a log, for cheap lists: it is good for the log as long as that has this size.
pub(super) struct Summary {
    path: LogPath,
    log: Arc<dyn File>,
    header_line: String,
    size: u64,
    /// None where memory does not have all of it: then the file's.
    tail: Option<u64>,
    facts: Facts,
}

impl Summary {
    /// The summary of a file that holds exactly what the facts tell; none of one whose header line is not at hand.
    pub(super) fn of(file: &SessionFile, facts: ListFacts) -> Option<Self> {
        if facts.length != file.written() {
            return None;
        }
        let ListFacts { length: events, last_time, title, foreign, longest } = facts;
        Some(Self {
            path: file.path().clone(),
            log: Arc::clone(file.file()),
            header_line: file.header_line()?.to_owned(),
            size: file.len(),
            tail: file.tail(),
            facts: Facts { events, last_time, title, foreign, longest },
        })
    }

    /// The size of the log that it is good for.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Leaves it. Losing it costs a reading.
    pub(super) fn leave(&self, shared: &Shared) {
        let Self { path, log, header_line, size, tail, facts } = self;
        let left = tail
            .map_or_else(|| tail_of(log.as_ref(), *size), Ok)
            .and_then(|tail| write_summary(shared.fs.as_ref(), path, header_line, *size, tail, facts));
        if let Err(error) = left {
            tracing::debug!(%error, "no summary was left");
        }
    }
}
