//! Finding, reading and listing stored sessions. Runs off the owner thread.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::failures::failed;
use super::storage::Shared;
use crate::disk::catalog::find::{
    Beside, FindError, OddPlace, Unsearched, check_place, find as find_log, is_absent, shown,
};
use crate::disk::catalog::lineage::lineage_loop;
use crate::disk::catalog::list::{Artifact, Skipped, Status};
use crate::disk::catalog::records::{Catalogue, Failure, Listed as Found};
use crate::disk::catalog::summary::{Facts, FactsSink};
use crate::disk::fs::{File, Metadata, read_full};
use crate::disk::live::lock::{Holder, Lock, LockError, Owners};
use crate::disk::live::session_file::{Mend, SessionFile};
use crate::disk::live::temporary::sweep;
use crate::disk::live::write::LogWriter;
use crate::disk::maintenance::salvage::told;
use crate::disk::paths::{Encoding, LogPath};
use crate::disk::read::damage::{Place, ReadError, TooLow, Verdict};
use crate::disk::read::reader::{Held, Scan, read_log};
use crate::log::{Log, SessionId};
use crate::session::{Limits, Mended, Rules, Vocabulary};
use crate::store::loader::{ByteFidelity, LogLoader};
use crate::store::storage::TornTail;
use crate::store::storage::{Inspected, ListFacts, ListPage, ListQuery, Loaded, StoredInfo, StoredSummary};
use crate::store::{DaemonId, Detail, Outcome, StorageError};

/// The lock that is held is the ownership: no two count.
pub(super) const EPOCH: u64 = 0;

/// What lists have read of logs that have no summary.
pub(super) struct Seen(Mutex<Catalogue>);

impl Seen {
    pub(super) fn new(max_event_bytes: usize) -> Self {
        Self(Mutex::new(Catalogue::for_events(max_event_bytes)))
    }

    fn catalogue(&self) -> MutexGuard<'_, Catalogue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A log was read and refused, or found damaged: lists say so, whatever its summary says. What is refused for its types is not noted:
    /// others may be declared by then, and lists know the types.
    fn refuse(&self, meta: &Metadata, failure: Option<Failure>) {
        if failure.as_ref().is_none_or(|failure| failure.0 != Verdict::Unsupported) {
            self.catalogue().refuse(meta, failure);
        }
    }
}

/// Whether a session is stored; with `facts`, what is known of it.
pub(super) fn find(
    shared: &Shared,
    id: &SessionId,
    facts: bool,
) -> Result<Option<StoredSummary>, StorageError> {
    let blank = StoredSummary::default();
    let path = match find_log(shared.fs.as_ref(), id) {
        Ok(None) => return Ok(None),
        Ok(Some(path)) if facts => path,
        // What is stored oddly is there too: its id is taken.
        Ok(Some(_)) | Err(FindError::Odd(_) | FindError::Later(_)) => return Ok(Some(blank)),
        Err(FindError::Io(unsearched)) => return Err(not_searched(&unsearched)),
    };
    let mut sink = FactsSink::default();
    let file = match open(shared, id, &path) {
        Err(StorageError::NotFound(_)) => return Ok(None),
        file => file?,
    };
    match read_file(shared, file.as_ref(), path.encoding(), &mut sink) {
        Ok(scan) => Ok(Some(StoredSummary {
            parent_session: scan.header.parent_session,
            inherited: scan.inherited,
            next_seq: sink.facts().events,
        })),
        Err(_) => Ok(Some(blank)),
    }
}

pub(super) fn not_searched(Unsearched { path, error }: &Unsearched) -> StorageError {
    failed(&format!("searching the store at {}", shown(path)), error, Outcome::NotCommitted)
}

fn read_file(
    shared: &Shared,
    file: &dyn File,
    encoding: Encoding,
    sink: &mut dyn crate::disk::read::reader::Sink,
) -> Result<Scan, ReadError> {
    let len = file.metadata().map_err(ReadError::Io)?.len;
    read_log(file, len, encoding, shared.limits, sink)
}

/// The log of a session, or why there is none to read.
fn locate(shared: &Shared, id: &SessionId) -> Result<LogPath, StorageError> {
    match find_log(shared.fs.as_ref(), id) {
        Ok(Some(path)) => Ok(path),
        Ok(None) => Err(StorageError::NotFound(id.clone())),
        Err(FindError::Odd(odd)) => Err(odd_place(id, &odd)),
        Err(FindError::Later(later)) => Err(newer(id, later.to_string())),
        Err(FindError::Io(unsearched)) => Err(not_searched(&unsearched)),
    }
}

/// Opens a log that was found. Another process may have removed it since.
fn open(shared: &Shared, id: &SessionId, path: &LogPath) -> Result<Arc<dyn File>, StorageError> {
    shared.fs.open_read(&path.log()).map_err(|error| match is_absent(&error) {
        true => StorageError::NotFound(id.clone()),
        false => failed("opening the log", &error, Outcome::NotCommitted),
    })
}

fn newer(id: &SessionId, reason: String) -> StorageError {
    StorageError::Unsupported { id: id.clone(), reason, direction: "newer" }
}

/// What lies beside a log.
fn beside(shared: &Shared, path: &LogPath) -> Result<Beside, StorageError> {
    match Beside::look(shared.fs.as_ref(), &path.session_dir()) {
        Ok(beside) => Ok(beside),
        Err(error) if is_absent(&error) => Ok(Beside::default()),
        Err(error) => Err(failed("reading the session's directory", &error, Outcome::NotCommitted)),
    }
}

pub(super) fn odd_place(id: &SessionId, odd: &OddPlace) -> StorageError {
    corrupt(id, odd.to_string(), Place::default(), odd.class(), None)
}

/// What helps where a header reads: both take its session.
const INSPECT_OR_REPAIR: &str = "see session/inspect, or run sessiond repair";
/// What helps where neither of them could tell anything of the session.
const RESTORE: &str = "restore the log from a copy, or delete the session";
/// What helps where no prefix could be kept.
const INSPECT_AND_RESTORE: &str = "see session/inspect, and restore the log from a copy";

fn corrupt(
    id: &SessionId,
    reason: String,
    place: Place,
    rule: &'static str,
    remedy: Option<&'static str>,
) -> StorageError {
    StorageError::Corrupt { id: id.clone(), reason, line: place.line(), offset: place.offset, rule, remedy }
}

fn judged(
    id: &SessionId,
    verdict: Verdict,
    reason: String,
    place: Place,
    rule: &'static str,
    remedy: Option<&'static str>,
    limits: &Limits,
) -> StorageError {
    match verdict {
        Verdict::Corrupt => corrupt(id, reason, place, rule, remedy),
        Verdict::Unsupported => StorageError::Unsupported { id: id.clone(), reason, direction: "unknown" },
        // A line may be longer than an event: what is told is the flag's own value.
        Verdict::Limit(TooLow { limit: limit @ "maxEventBytes", .. }) => {
            StorageError::Limit { id: id.clone(), reason, limit, max: limits.max_event_bytes as u64 }
        }
        Verdict::Limit(TooLow { limit, max }) => StorageError::Limit { id: id.clone(), reason, limit, max },
    }
}

fn unreadable(id: &SessionId, error: &ReadError, limits: &Limits) -> StorageError {
    match (error, error.verdict()) {
        (ReadError::Io(error), _) => failed("reading the log", error, Outcome::NotCommitted),
        (ReadError::Header(header), Some(Verdict::Unsupported)) => StorageError::Unsupported {
            id: id.clone(),
            reason: header.to_string(),
            direction: header.fault.direction().unwrap_or("unknown"),
        },
        (_, Some(verdict)) => {
            // The others say themselves what helps.
            let is_bare = matches!(error, ReadError::Header(_) | ReadError::Frame(_) | ReadError::Refused(_));
            let remedy = is_bare.then_some(RESTORE);
            judged(id, verdict, error.to_string(), Place::default(), error.class(), remedy, limits)
        }
        (_, None) => failed("reading the log", &std::io::Error::other("codec"), Outcome::NotCommitted),
    }
}

pub(super) fn locked(id: &SessionId, error: LockError) -> StorageError {
    match error {
        LockError::Held { holder } => StorageError::Locked { id: id.clone(), by: holder.map(locked_by) },
        LockError::Io(error) if is_absent(&error) => StorageError::NotFound(id.clone()),
        LockError::Io(error) => failed("opening the log for writing", &error, Outcome::NotCommitted),
        LockError::Unsupported(error) => failed("locking the log", &error, Outcome::NotCommitted),
        LockError::Replaced => StorageError::Failed {
            detail: Detail::File("EBUSY".to_owned()),
            doing: "locking the log".to_owned(),
            outcome: Outcome::NotCommitted,
            remedy: Some("stop the program that replaces it over and over"),
        },
    }
}

fn locked_by(holder: Holder) -> DaemonId {
    DaemonId::process(holder.pid, holder.since_ms)
}

/// Reads a session to make it live, and takes its lock.
pub(super) fn load(
    shared: &Shared,
    id: &SessionId,
    vocabulary: &Vocabulary,
    limits: &Limits,
) -> Result<(Loaded, SessionFile), StorageError> {
    let path = locate(shared, id)?;
    let Beside { later, cuts } = beside(shared, &path)?;
    if let Some(later) = later {
        return Err(newer(id, later.supersedes()));
    }
    let lock = Lock::try_acquire(&shared.fs, &path.log(), shared.me).map_err(|error| locked(id, error))?;
    let file = std::sync::Arc::clone(lock.file());
    let meta = file.metadata().map_err(|error| failed("reading the log", &error, Outcome::NotCommitted))?;
    let size = meta.len;
    let rules = Rules { vocabulary, limits };
    let mut loader = LogLoader::strict(rules);
    let held = Held::new(file.as_ref(), size);
    let scan = read_log(&held, size, path.encoding(), shared.limits, &mut loader);
    if held.was_changed().map_err(|error| failed("reading the log", &error, Outcome::NotCommitted))? {
        return Err(StorageError::Failed {
            detail: Detail::File("EBUSY".to_owned()),
            doing: "reading the log".to_owned(),
            outcome: Outcome::NotCommitted,
            remedy: Some("stop the program that changes it meanwhile"),
        });
    }
    let scan = scan.map_err(|error| unreadable(id, &error, limits))?;
    check_place(&scan.header, id, &path).map_err(|odd| odd_place(id, &odd))?;
    if let Some(problem) = scan.failure() {
        let verdict = problem.damage.verdict();
        let (reason, remedy) = (problem.to_string(), Some(INSPECT_OR_REPAIR));
        shared.seen.refuse(&meta, Some((verdict, problem.class(), reason.clone())));
        return Err(judged(id, verdict, reason, problem.place, problem.class(), remedy, limits));
    }
    // What another process has written may not be durable yet, and its bytes may not be ours to write again.
    file.sync_data().map_err(|error| failed("making the log durable", &error, Outcome::NotCommitted))?;
    let fidelity = loader.fidelity();
    let mut history = loader.into_history();
    let closers = history.close_turn(None, rules).map_err(|refusal| {
        let reason = format!("the open turn cannot be closed: {refusal}");
        shared.seen.refuse(&meta, Some((Verdict::Corrupt, "", reason.clone())));
        corrupt(id, reason, Place::default(), "", Some(INSPECT_AND_RESTORE))
    })?;
    let (cut_bytes, cut_events) = scan.torn.map_or((0, 0), |torn| (torn.bytes, torn.events));
    let mended = Mended { closers, cut_bytes, cut_events, is_loss: scan.loss().is_some() };
    let loaded = |history| Loaded {
        header: scan.header.clone(),
        inherited: scan.inherited,
        history,
        mended: (closers > 0 || cut_bytes > 0).then_some(mended),
        epoch: EPOCH,
    };
    let mend = mend(&scan, history.log());
    let lineage = lineage_loop(shared.fs.as_ref(), &scan.header);
    let notes =
        scan.torn.map(|torn| format!("{torn}; the first write saves them beside the log and cuts them off"));
    sweep(shared.fs.as_ref(), &path, file.as_ref());
    let writer = LogWriter::new(lock, size, size);
    let stored = (scan.events, scan.recovered_from.min(scan.events));
    let verbatim = (fidelity == ByteFidelity::Verbatim).then_some(scan.header_bytes);
    let header_line = first_line(file.as_ref(), path.encoding(), scan.header_bytes);
    let mut open =
        SessionFile::loaded(std::sync::Arc::clone(&shared.fs), path, writer, stored, mend, verbatim);
    open.describe(header_line, told(&cuts).into_iter().chain(notes).chain(lineage).collect());
    Ok((loaded(history), open))
}

fn mend(scan: &Scan, log: &Log) -> Mend {
    let cut_at = scan.torn.map(|_| scan.committed);
    let mut first = Vec::new();
    if scan.missing_newline {
        first.push(b'\n');
    }
    for lines in log.lines(scan.recovered_from, scan.events) {
        first.extend_from_slice(lines.as_bytes());
    }
    Mend { cut_at, first }
}

/// The header line of a plain log, without its end; a summary is good for that very line.
fn first_line(file: &dyn File, encoding: Encoding, bytes: u64) -> Option<String> {
    const MOST: u64 = 1 << 16;
    if encoding != Encoding::Plain || !(1..=MOST).contains(&bytes) {
        return None;
    }
    let mut line = vec![0; bytes as usize - 1];
    let have = read_full(file, 0, &mut line).ok()?;
    String::from_utf8(line).ok().filter(|line| line.len() == have)
}

/// A session as it lies there.
pub(super) fn inspect(
    shared: &Shared,
    id: &SessionId,
    vocabulary: &Vocabulary,
    limits: &Limits,
) -> Result<Box<Inspected>, StorageError> {
    let path = locate(shared, id)?;
    let file = open(shared, id, &path)?;
    let mut loader = LogLoader::lenient(Rules { vocabulary, limits });
    let scan = read_file(shared, file.as_ref(), path.encoding(), &mut loader)
        .map_err(|error| unreadable(id, &error, limits))?;
    let (found, more) = loader.problems(&scan);
    let is_refused = scan.failure().is_some() || loader.refuses();
    let failure = found.first().filter(|_| is_refused);
    let failure = failure.map(|problem| (problem.damage.verdict(), problem.class(), problem.to_string()));
    if let (true, Ok(meta)) = (is_refused || scan.loss().is_some(), file.metadata()) {
        shared.seen.refuse(&meta, failure);
    }
    let Beside { later, cuts } = beside(shared, &path)?;
    let mut problems: Vec<String> = later.map(|later| later.supersedes()).into_iter().collect();
    problems.extend(check_place(&scan.header, id, &path).err().map(|odd| odd.to_string()));
    problems.extend(lineage_loop(shared.fs.as_ref(), &scan.header));
    problems.extend(found.into_iter().map(ToString::to_string));
    if more > 0 {
        problems.push(format!("{more} more records are damaged"));
    }
    problems.extend(loader.warnings());
    problems.extend(told(&cuts));
    let meta = file.metadata().ok();
    let locked_by =
        meta.and_then(|meta| owner(shared, &Owners::look(shared.fs.as_ref()), &path.log(), &meta));
    let mut history = loader.into_history();
    let (log, closers) = (history.share_log(), history.closer_lines());
    Ok(Box::new(Inspected {
        header: scan.header,
        inherited: scan.inherited,
        log,
        closers,
        torn_tail: scan.torn.map(|torn| TornTail {
            offset: torn.offset,
            bytes: torn.bytes,
            events: torn.events,
        }),
        problems,
        locked_by,
    }))
}

/// A page of all stored sessions.
pub(super) fn list(shared: &Shared, query: Box<ListQuery>) -> Result<ListPage, StorageError> {
    let fs = shared.fs.as_ref();
    let mut catalogue = shared.seen.catalogue();
    let listing = catalogue
        .list(fs)
        .map_err(|error| failed("listing the store's root directory", &error, Outcome::NotCommitted))?;
    let (mut sessions, mut logs) = (Vec::new(), Vec::new());
    for Found { artifact, facts } in listing.sessions {
        let is_new = artifact.header.as_ref().is_some_and(|header| query.is_new(header.created_at));
        let active = match query.moment_before(facts.last_time) {
            Some(moment) if !is_new => match query.moved.get(&artifact.id) {
                Some(active) => *active,
                None => catalogue.active_until(fs, &artifact, moment),
            },
            _ => facts.last_time,
        };
        logs.push(artifact.log.as_ref().map(LogPath::log).zip(artifact.meta));
        sessions.push(stored_info(artifact, facts, active, &query.vocabulary));
    }
    drop(catalogue);
    sessions.extend(listing.skipped.iter().filter(|skipped| skipped.may_hold).map(unsearched));
    let mut owners = None;
    Ok(query.page(sessions, |index| {
        let (path, meta) = logs.get(index)?.as_ref()?;
        owner(shared, owners.get_or_insert_with(|| Owners::look(fs)), path, meta)
    }))
}

/// Who owns a log, when that is another process that has said who it is.
fn owner(shared: &Shared, owners: &Owners, path: &Path, meta: &Metadata) -> Option<DaemonId> {
    let holder = owners.of(shared.fs.as_ref(), path, meta).ok()???;
    (holder.pid != shared.me.pid).then(|| locked_by(holder))
}

/// A directory whose sessions cannot be listed: itself a row, as it hides nobody knows what.
fn unsearched(Skipped { path, why, .. }: &Skipped) -> StoredInfo {
    let (name, place) = (path.file_name().unwrap_or_default(), path.display());
    StoredInfo {
        id: name.to_string_lossy().into_owned(),
        place: place.to_string(),
        header: None,
        facts: ListFacts::default(),
        active: None,
        status: Status::Corrupt,
        reason: Some(format!("sessions in {place} are not listed: {why}")),
        locked_by: None,
    }
}

fn stored_info(artifact: Artifact, facts: Facts, active: Option<i64>, vocabulary: &Vocabulary) -> StoredInfo {
    let mut status = artifact.status;
    let mut reason = artifact.reason.filter(|_| status != Status::Ok);
    let declared = |name: &String| vocabulary.declared().any(|(declared, _)| declared == name);
    if let (Status::Ok | Status::Damaged, Some(name)) =
        (status, facts.foreign.names().iter().find(|name| !declared(name)))
    {
        status = Status::Unsupported;
        reason = Some(format!(
            "it holds events of type {name:?}, which is not known: declare it in eventTypes at initialize"
        ));
    }
    let place = if artifact.is_found_by_id { String::new() } else { artifact.path.display().to_string() };
    StoredInfo {
        id: artifact.id,
        place,
        header: artifact.header,
        facts: ListFacts {
            length: facts.events,
            last_time: facts.last_time,
            title: facts.title,
            foreign: facts.foreign,
            longest: facts.longest,
        },
        active,
        status,
        reason,
        locked_by: None,
    }
}
