//! What `repair` does with one session, under its lock.
//!
//! A log that loads is mended as the first write after a load mends it. Of a log that a load refuses as damaged the
//! longest valid prefix is kept, and nothing is guessed: the log as it was is copied beside it first, then the prefix,
//! with an open turn closed, takes its name in one step. Whatever else is wrong is for a person to decide.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::examine::{Examined, Sound, Status, examine};
use super::progress::{Progress, Watched};
use super::report::shown;
use crate::disk::catalog::find::{
    Beside, FindError, Unsearched, check_place, find, is_absent, shown as place,
};
use crate::disk::fs::{File, FileSystem, ReadAt, read_full, what_helps};
use crate::disk::live::lock::{Holder, Lock, LockError};
use crate::disk::live::publish::{Piece, PublishError};
use crate::disk::live::replace::Replacement;
use crate::disk::maintenance::salvage::save_whole;
use crate::disk::paths::{Encoding, LogPath};
use crate::disk::read::reader::counted;
use crate::disk::read::zstd::{FrameEncoder, FrameError};
use crate::log::{SessionId, header_line};
use crate::session::Rules;
use crate::store::StorageError;
use crate::store::jsonl;

/// The compression level of the format's writers.
const LEVEL: i32 = 3;

/// Why a session was not repaired.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RepairError {
    #[error("no session {0:?} is stored here: `sessiond verify` lists what there is")]
    NotFound(String),
    #[error("{0}")]
    Odd(String),
    #[error("SESSION_LOCKED: {0}")]
    Locked(LockError),
    #[error("{0}")]
    Lock(LockError),
    #[error("the store could not be searched at {}: {}: {helps}", place(&.0.path), .0.error, helps = what_helps(&.0.error))]
    Search(Unsearched),
    /// The store or the log could not be read.
    #[error("the session could not be read: {0}: {helps}", helps = what_helps(.0))]
    Io(#[from] std::io::Error),
    /// The disk does not give a part of the log.
    #[error("{0}; nothing was changed: copy what can be read of the disk")]
    Unreadable(String),
    #[error("{0}; this is not repaired: {1}")]
    Hopeless(String, &'static str),
    #[error("the log could not be kept beside itself ({0}), nothing was changed: {helps}", helps = what_helps(.0))]
    Backup(std::io::Error),
    #[error("{0}")]
    Replace(#[from] PublishError),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("the sound part would not load either, nothing was changed: restore the session from a copy")]
    WouldNotLoad,
    #[error("{0}")]
    Mend(String),
}

impl RepairError {
    fn from_storage(error: StorageError) -> Self {
        match error {
            StorageError::NotFound(id) => Self::NotFound(id.as_str().to_owned()),
            StorageError::Locked { by, .. } => {
                let holder = by.map(|by| Holder { pid: by.pid, since_ms: by.since });
                Self::Locked(LockError::Held { holder })
            }
            StorageError::Failed { detail, doing, remedy, .. } => {
                let first = remedy.map(|remedy| format!("{remedy}, then ")).unwrap_or_default();
                Self::Mend(format!("{doing} failed with {}: {first}try again", detail.code()))
            }
            StorageError::Undeleted { detail, .. } => {
                Self::Mend(format!("removing a file failed with {}", detail.code()))
            }
            StorageError::Corrupt { reason, .. }
            | StorageError::Unsupported { reason, .. }
            | StorageError::Limit { reason, .. } => Self::Mend(reason),
            StorageError::Lost { .. }
            | StorageError::LeaseLost { .. }
            | StorageError::Exists { .. }
            | StorageError::Overtaken { .. }
            | StorageError::Bug => Self::Mend("the log was changed meanwhile: try again".to_owned()),
        }
    }

    /// Whether nothing could be begun, as opposed to: the session is as bad as before.
    pub(crate) fn could_not_start(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Unreadable(_) | Self::Search(_))
    }
}

/// What to repair and how.
pub(crate) struct Repair<'r> {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) me: Holder,
    pub(crate) rules: Rules<'r>,
    pub(crate) dry_run: bool,
    pub(crate) progress: &'r Progress,
}

impl Repair<'_> {
    /// Repairs a session; says what was done, or would be.
    pub(crate) fn run(&self, id: &SessionId) -> Result<Vec<String>, RepairError> {
        let path = match find(self.fs.as_ref(), id) {
            Ok(Some(path)) => path,
            Ok(None) => return Err(RepairError::NotFound(id.as_str().to_owned())),
            Err(FindError::Odd(odd)) => return Err(RepairError::Odd(odd.to_string())),
            Err(FindError::Later(later)) => return Err(RepairError::Odd(later.to_string())),
            Err(FindError::Io(unsearched)) => return Err(RepairError::Search(unsearched)),
        };
        if let Some(later) = Beside::look(self.fs.as_ref(), &path.session_dir())?.later {
            return Err(RepairError::Odd(later.supersedes()));
        }
        let file = self.fs.open_read(&path.log()).map_err(|error| match is_absent(&error) {
            true => RepairError::NotFound(id.as_str().to_owned()),
            false => error.into(),
        })?;
        if self.dry_run {
            if let Ok(Some(holder)) = Lock::holder(self.fs.as_ref(), &path.log()) {
                return Err(RepairError::Locked(LockError::Held { holder }));
            }
            let (_, plan) = self.plan(id, &path, file.as_ref())?;
            return Ok(plan.lines(true, None));
        }
        drop(file); // It can be read: what fails from here on is a repair.
        let lock = Lock::try_acquire(&self.fs, &path.log(), self.me).map_err(|error| match error {
            held @ LockError::Held { .. } => RepairError::Locked(held),
            LockError::Io(error) if is_absent(&error) => RepairError::NotFound(id.as_str().to_owned()),
            error => RepairError::Lock(error),
        })?;
        let file = Arc::clone(lock.file());
        let (len, plan) = self.plan(id, &path, file.as_ref())?;
        match &plan {
            Plan::Nothing => Ok(plan.lines(false, None)),
            Plan::Mend(_) => {
                drop(lock); // the load takes it again, and reads again what may have changed
                let notes =
                    jsonl::mend(&self.fs, self.me, id, self.rules).map_err(RepairError::from_storage)?;
                let mut lines = plan.lines(false, None);
                lines.extend(notes);
                Ok(lines)
            }
            Plan::KeepPrefix { log, .. } => {
                let backup = self.keep_prefix(&path, &lock, len, log)?;
                Ok(plan.lines(false, Some(&backup)))
            }
        }
    }

    fn plan(&self, id: &SessionId, path: &LogPath, file: &dyn File) -> Result<(u64, Plan), RepairError> {
        let len = file.metadata()?.len;
        let Examined { status, findings, log, .. } = self.examine(id, path.encoding(), file, len);
        let first = || {
            let of_line = |line: Option<u64>| line.map(|line| format!("line {line}: ")).unwrap_or_default();
            findings.first().map(|first| of_line(first.line) + &shown(&first.message)).unwrap_or_default()
        };
        let hopeless = |why| Err(RepairError::Hopeless(first(), why));
        if let Some(log) = &log {
            check_place(&log.scan.header, id, path).map_err(|odd| RepairError::Odd(odd.to_string()))?;
        }
        match (status, log) {
            (Status::Ok, _) => Ok((len, Plan::Nothing)),
            (Status::Repairable | Status::Damaged, Some(log)) => Ok((len, Plan::Mend(Box::new(log)))),
            (Status::Corrupt, Some(log)) if log.closers.is_some() => {
                let left_out = left_out(file, len, path.encoding(), &log)?;
                Ok((len, Plan::KeepPrefix { found: first(), left_out, log: Box::new(log) }))
            }
            (Status::Corrupt, Some(_)) => hopeless("restore the session from a copy"),
            (Status::Unsupported, _) => hopeless(
                "it may be sound for a newer version, or where its event types are declared (--event-type)",
            ),
            (Status::Limit, _) => hopeless("it may be sound with a larger --max-event-bytes or --max-depth"),
            (Status::Unreadable, _) => Err(RepairError::Unreadable(first())),
            _ => hopeless("without its header nothing can be told of a log"),
        }
    }

    fn examine(&self, id: &SessionId, encoding: Encoding, file: &dyn File, len: u64) -> Examined {
        self.progress.begin(format!("reading {id}"), len);
        let examined = examine(&Watched { source: file, progress: self.progress }, len, encoding, self.rules);
        self.progress.clear();
        examined
    }

    /// Puts the valid prefix in the place of the log; gives the copy of what was there.
    fn keep_prefix(
        &self,
        path: &LogPath,
        lock: &Lock,
        len: u64,
        log: &Sound,
    ) -> Result<PathBuf, RepairError> {
        let (file, scan) = (lock.file().as_ref(), &log.scan);
        let inherited = scan.inherited.min(scan.events);
        let (mut header, mut tail) = (Vec::new(), log.first_write(log.history.log().len()));
        if inherited != scan.inherited {
            header = (header_line(&scan.header, inherited) + "\n").into_bytes();
        }
        if path.encoding() == Encoding::Zstd {
            let mut encoder = FrameEncoder::new(LEVEL)?;
            for part in [&mut header, &mut tail].into_iter().filter(|part| !part.is_empty()) {
                *part = encoder.encode(part)?;
            }
        }
        let old_header = if header.is_empty() { scan.header_bytes } else { 0 };
        let content = [
            Piece::Bytes(&header),
            Piece::Range { file, from: 0, to: old_header },
            Piece::Range { file, from: scan.header_bytes, to: scan.committed },
            Piece::Bytes(&tail),
        ];
        let new = Replacement::prepare(&self.fs, path, &content)?;
        let examined = self.examine(&scan.header.id, path.encoding(), new.file(), new.size());
        let events = examined.log.map(|log| log.scan.events);
        if examined.status != Status::Ok || events != Some(log.history.log().len()) {
            return Err(RepairError::WouldNotLoad);
        }
        let backup = save_whole(&self.fs, &path.log(), file, len).map_err(RepairError::Backup)?;
        new.commit(lock, len)?;
        Ok(backup)
    }
}

/// What is to be done.
enum Plan {
    Nothing,
    /// What the first write after a load does.
    Mend(Box<Sound>),
    /// See [`Repair::keep_prefix`].
    KeepPrefix {
        found: String,
        left_out: String,
        log: Box<Sound>,
    },
}

impl Plan {
    /// What is done, or would be.
    fn lines(&self, dry: bool, backup: Option<&Path>) -> Vec<String> {
        let would = |verb: &str| if dry { format!("would be {verb}") } else { verb.to_owned() };
        let kept = |log: &Sound| format!("{} {}", counted(log.scan.events.get(), "event"), would("kept"));
        let closed = |log: &Sound| {
            log.closers.filter(|count| *count > 0).map(|count| {
                let stored = counted(log.scan.events.get() + count, "event");
                let (closed, added) = (would("closed"), would("added"));
                format!(
                    "the open turn {closed}: {} {added}, {stored} {}",
                    counted(count, "event"),
                    would("stored")
                )
            })
        };
        match self {
            Self::Nothing => vec!["nothing to do: the session loads as it is".to_owned()],
            Self::Mend(log) => {
                let mut lines = Vec::new();
                if let Some(torn) = log.scan.torn {
                    lines.extend(log.scan.problems.first().map(|problem| shown(&problem.to_string())));
                    let cut = would("cut off");
                    lines.push(format!(
                        "{torn}; they {} and kept beside the log",
                        if dry { cut } else { format!("were {cut}") }
                    ));
                }
                if log.scan.missing_newline {
                    lines.push(format!("the line end that the last line lacks {}", would("added")));
                }
                lines.push(kept(log));
                lines.extend(closed(log));
                lines
            }
            Self::KeepPrefix { found, left_out, log } => {
                let mut lines = vec![found.clone()];
                let through = log.first_bad_line().map_or(String::new(), |line| {
                    if line > 2 {
                        format!(", lines 1 to {}", line - 1)
                    } else {
                        ", the header line".to_owned()
                    }
                });
                lines.push(kept(log) + &through);
                if log.scan.inherited > log.scan.events {
                    let text = "the header's count of inherited events";
                    lines.push(format!(
                        "{text} {} from {} to {}",
                        would("lowered"),
                        log.scan.inherited,
                        log.scan.events
                    ));
                }
                lines.extend(closed(log));
                if !left_out.is_empty() {
                    let whole = counted(log.beyond, "whole event");
                    lines.push(format!("{left_out} {}, {whole} among them", would("left out")));
                }
                let name = backup.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
                let place = name.map_or("beside it".to_owned(), |name| format!("beside it in {name}"));
                lines.push(format!(
                    "the whole log as it {} {place}",
                    if dry { "is would be kept" } else { "was is kept" }
                ));
                lines
            }
        }
    }
}

/// The lines that are no part of the valid prefix.
fn left_out(file: &dyn File, len: u64, encoding: Encoding, log: &Sound) -> Result<String, RepairError> {
    let Some(first) = log.first_bad_line() else { return Ok(String::new()) };
    if encoding == Encoding::Zstd {
        return Ok(format!("everything from line {first} on"));
    }
    let last = first + count_lines(file, log.scan.committed, len)?.saturating_sub(1);
    Ok(if last > first { format!("lines {first} to {last}") } else { format!("line {first}") })
}

fn count_lines(file: &dyn ReadAt, mut at: u64, len: u64) -> Result<u64, RepairError> {
    let (mut buf, mut lines, mut open) = (vec![0; 128 << 10], 0, false);
    while at < len {
        let want = usize::try_from(len - at).map_or(buf.len(), |left| left.min(buf.len()));
        let part = buf.get_mut(..want).unwrap_or_default();
        let read = read_full(file, at, part)?;
        let Some(part) = part.get(..read).filter(|part| !part.is_empty()) else { break };
        lines += memchr::memchr_iter(b'\n', part).count() as u64;
        open = part.last() != Some(&b'\n');
        at += read as u64;
    }
    Ok(lines + u64::from(open))
}
