//! Appending to one open log, and making it durable.
//!
//! Three lengths describe a log at any time: what is durable, what is committed (written whole, and answered), and
//! what the file has. The first two only grow. The third equals the second, or a failed write has left something
//! behind it, or another program wrote: then nothing is added until that is sorted out.

use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::lock::{Lock, Named};
use crate::disk::catalog::find::Later;
use crate::disk::fs::{File, FileSystem, read_full, what_helps};

/// Why nothing can be promised of a log: it is not the file any more that this store left under its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The log could not be examined.
    #[error("the log could not be examined ({0}), nothing was changed: {helps}", helps = what_helps(.0))]
    Examine(#[source] io::Error),
    /// The log is longer or shorter than what this store wrote.
    #[error("another program changed the log ({actual} bytes, expected {expected}): rescue the session")]
    ChangedOutside {
        /// The size that this store left.
        expected: u64,
        /// The size now.
        actual: u64,
    },
    /// The log has the length that this store left, and other bytes.
    #[error("another program changed bytes of the log that were written by this store: rescue the session")]
    Rewritten,
    /// The name leads to nothing, or to another file: what is in the log cannot be read under it.
    #[error("another program removed, moved or replaced the log: rescue the session")]
    Removed,
    /// A later generation continues the session beside it: who reads the session from now on reads that (FOREIGN 1).
    #[error("{}", .0.supersedes())]
    Superseded(Later),
}

/// Why bytes were not added. Nothing of them counts as written, and the same append may be tried again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The write failed, and the log is back at its last record boundary.
    #[error("the log could not be written ({0}), nothing was added: {helps}", helps = what_helps(.0))]
    Failed(#[source] io::Error),
    /// The write failed, and so did cutting off what it left. Appends begin with another attempt to cut.
    #[error(
        "the log could not be written ({write}), nor cut back ({rollback}): {helps}", helps = what_helps(write)
    )]
    NotRolledBack {
        /// Why the write failed.
        write: io::Error,
        /// Why the log was not cut back.
        rollback: Box<WriteError>,
    },
    /// The log is not the one that this store left.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A cut was asked for while a sync runs.
    #[error("the log is being synced: cut it after that")]
    Syncing,
}

/// Why committed bytes are not known to be durable. They stay committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The sync failed. The unsynced tail is written again before the next one.
    #[error("the log could not be synced ({0}): its last events may not survive power loss; try again")]
    Failed(#[source] io::Error),
    /// After a failed sync, the tail could not be written again.
    #[error("the end of the log could not be written again ({0}): it may not survive power loss; try again")]
    Rewrite(#[source] io::Error),
    /// The given tail ended before the log does: a bug of the caller, who holds those bytes.
    #[error("the end of the log could not be written again: {missing} bytes of it were not given")]
    TailTooShort {
        /// How many bytes were missing.
        missing: u64,
    },
    /// The log is not the one that this store left; what it has is synced.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The sync never ended (its thread died).
    #[error("the log's sync was lost: its last events may not survive power loss; try again")]
    Lost,
}

/// The writing end of one log, which it owns through its [`Lock`].
pub struct LogWriter {
    lock: Lock,
    len: u64,
    durable: u64,
    /// How far a failed write of ours may reach beyond `len`, as long as it has not been cut off.
    left_behind: Option<u64>,
    /// How often the log was cut, and how many of these cuts are durable.
    cuts: u64,
    durable_cuts: u64,
    /// A sync failed: the kernel may have dropped the tail and call it clean.
    must_rewrite: bool,
    syncing: bool,
    /// The name did not lead here at the last look.
    misplaced: bool,
    /// The log's name is not durable yet.
    name: Option<Name>,
}

/// A name that a sync has to make durable.
#[derive(Clone)]
struct Name {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
}

/// The answer to [`LogWriter::start_sync`].
#[must_use]
pub enum SyncStart {
    /// All that is committed is durable.
    Nothing,
    /// A job is under way; ask again after its end. (Of two at a time, the second could succeed because the first
    /// has already consumed the error.)
    Busy,
    /// To be run on any thread, then handed back with [`LogWriter::finish_sync`].
    Job(SyncJob),
}

/// One sync, detached from its writer.
#[must_use]
pub struct SyncJob {
    log: Named,
    from: u64,
    to: u64,
    cuts: u64,
    rewrite: bool,
    /// Something is not durable yet.
    unsynced: bool,
    name: Option<Name>,
    /// What the log must hold, and where that ends.
    expected: (u64, Vec<u8>),
}

/// A sync that has ended.
#[must_use]
pub struct SyncDone {
    to: u64,
    cuts: u64,
    result: Result<(), SyncError>,
}

impl SyncDone {
    /// Whether it went well.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.result.is_ok()
    }
}

impl LogWriter {
    /// Takes over a log of `len` bytes (as read under the lock), of which `durable` are known to be on stable storage:
    /// 0 for a log that another process wrote.
    #[must_use]
    pub fn new(lock: Lock, len: u64, durable: u64) -> Self {
        let (cuts, durable_cuts) = (0, 0);
        Self {
            lock,
            len,
            durable,
            left_behind: None,
            cuts,
            durable_cuts,
            must_rewrite: false,
            syncing: false,
            misplaced: false,
            name: None,
        }
    }

    /// The same for a log whose name in `dir` is not durable yet: its syncs make that durable, too.
    pub(in crate::disk) fn unsettled(self, fs: Arc<dyn FileSystem>, dir: PathBuf) -> Self {
        Self { name: Some(Name { fs, dir }), ..self }
    }

    /// Whether the log's name is durable.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.name.is_none()
    }

    /// Takes what is behind the first `len` bytes as not durable: without its name nothing is.
    pub(in crate::disk) fn doubt(&mut self, len: u64) {
        self.durable = self.durable.min(len);
    }

    /// The committed length in bytes.
    #[must_use]
    pub fn committed_len(&self) -> u64 {
        self.len
    }

    /// How much of it is known to be durable.
    #[must_use]
    pub fn durable_len(&self) -> u64 {
        self.durable
    }

    /// The log's handle, for reading what it holds and for copying a prefix of it.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn File> {
        self.lock.file()
    }

    /// Adds whole records at the end and returns the new committed length. All or nothing: a write that stops half-way
    /// is continued, so that the system names the cause, and cut off again if it cannot be. The name is looked at only
    /// where the last promise has missed it.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64, WriteError> {
        self.recover()?;
        let actual = self.size()?;
        if actual != self.len {
            return Err(CheckError::ChangedOutside { expected: self.len, actual }.into());
        }
        if self.misplaced {
            self.lock.named().check()?;
            self.misplaced = false;
        }
        // Until all is there: a bug on the way leaves a part of it, as a failure does.
        self.left_behind = Some(self.len + bytes.len() as u64);
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            match self.file().append(rest) {
                Ok(0) => return Err(self.roll_back(done, io::ErrorKind::WriteZero.into())),
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.roll_back(done, error)),
            }
        }
        self.left_behind = None;
        self.len += done as u64;
        Ok(self.len)
    }

    fn roll_back(&mut self, done: usize, write: io::Error) -> WriteError {
        self.left_behind = Some(self.len + done as u64);
        match self.recover() {
            Ok(()) => WriteError::Failed(write),
            Err(rollback) => WriteError::NotRolledBack { write, rollback: Box::new(rollback) },
        }
    }

    /// Cuts off what a failed write has left, if anything. [`append`](Self::append) does this first.
    ///
    /// # Errors
    /// [`WriteError::Failed`] (the cut), [`WriteError::Check`].
    pub fn recover(&mut self) -> Result<(), WriteError> {
        if self.left_behind.is_none() {
            return Ok(());
        }
        self.check()?;
        if self.size()? > self.len {
            self.file().set_len(self.len).map_err(WriteError::Failed)?;
            self.cuts += 1;
        }
        self.left_behind = None;
        Ok(())
    }

    /// Cuts the log to `len` bytes, to drop a torn tail that has been saved elsewhere. The cut is durable with the
    /// next sync, which should come before the next append.
    ///
    /// # Errors
    /// [`WriteError`]; the log is as it was.
    pub fn cut(&mut self, len: u64) -> Result<(), WriteError> {
        if self.syncing {
            return Err(WriteError::Syncing);
        }
        self.recover()?;
        let actual = self.size()?;
        if actual != self.len || len > actual {
            return Err(CheckError::ChangedOutside { expected: self.len, actual }.into());
        }
        self.file().set_len(len).map_err(WriteError::Failed)?;
        self.cuts += 1;
        self.len = len;
        self.durable = self.durable.min(len);
        Ok(())
    }

    /// Whether the log has a name and is as long as what this store has left there.
    ///
    /// # Errors
    /// [`CheckError`].
    pub fn check(&self) -> Result<(), CheckError> {
        let (actual, ours) = (self.size()?, self.left_behind.unwrap_or(self.len));
        match actual < self.len || actual > ours {
            true => Err(CheckError::ChangedOutside { expected: self.len, actual }),
            false => Ok(()),
        }
    }

    /// [`check`](Self::check), and whether the name that this store gave it leads to it, which may wait for the disk.
    ///
    /// # Errors
    /// [`CheckError`].
    pub fn check_named(&self) -> Result<(), CheckError> {
        self.check()?;
        self.lock.named().check().map(|_| ())
    }

    fn size(&self) -> Result<u64, CheckError> {
        let meta = self.file().metadata().map_err(CheckError::Examine)?;
        if meta.links == 0 { Err(CheckError::Removed) } else { Ok(meta.len) }
    }

    /// The name is another log's from now on: this one goes without touching what lies beside that.
    pub fn replaced(&mut self) {
        self.lock.replaced();
    }

    /// Whether a sync is under way.
    #[must_use]
    pub fn is_syncing(&self) -> bool {
        self.syncing
    }

    /// A sync has failed, and none succeeded since: the unsynced tail is to be written again.
    #[must_use]
    pub fn must_rewrite(&self) -> bool {
        self.must_rewrite
    }

    /// Begins to make everything committed so far durable.
    pub fn start_sync(&mut self) -> SyncStart {
        if !self.syncing && !self.is_unsynced() {
            return SyncStart::Nothing;
        }
        self.start_promise()
    }

    /// The same for somebody who is promised that it is durable: the log's name is looked at although nothing may be
    /// left to sync.
    pub fn start_promise(&mut self) -> SyncStart {
        if self.syncing {
            return SyncStart::Busy;
        }
        self.syncing = true;
        SyncStart::Job(SyncJob {
            log: self.lock.named(),
            from: self.durable,
            to: self.len,
            cuts: self.cuts,
            rewrite: self.must_rewrite,
            unsynced: self.is_unsynced(),
            name: self.name.clone(),
            expected: (0, Vec::new()),
        })
    }

    fn is_unsynced(&self) -> bool {
        let in_doubt = self.must_rewrite || !self.is_settled();
        self.durable < self.len || self.durable_cuts < self.cuts || in_doubt
    }

    /// Takes back a sync and returns the new durable length. Appends may have happened in between.
    ///
    /// # Errors
    /// What the sync met; from now on the unsynced tail counts as lost by the kernel, unless it was only not found under
    /// its name ([`SyncError::Check`]).
    pub fn finish_sync(&mut self, done: SyncDone) -> Result<u64, SyncError> {
        self.syncing = false;
        match done.result {
            Ok(()) => {
                (self.must_rewrite, self.name, self.misplaced) = (false, None, false);
                self.durable = done.to;
                self.durable_cuts = done.cuts;
                Ok(self.durable)
            }
            Err(SyncError::Check(error)) => {
                self.misplaced = true;
                Err(error.into())
            }
            Err(error) => {
                self.must_rewrite = true;
                Err(error)
            }
        }
    }

    /// [`start_sync`](Self::start_sync), run and finish in one: for a store without threads. `tail` is called with the
    /// range of the log to be written again, if that is needed.
    ///
    /// # Errors
    /// [`SyncError`].
    pub fn sync<R: Read>(&mut self, tail: impl FnOnce(Range<u64>) -> R) -> Result<u64, SyncError> {
        match self.start_sync() {
            SyncStart::Nothing => Ok(self.durable),
            SyncStart::Busy => Err(SyncError::Lost),
            SyncStart::Job(job) => {
                let done = match job.rewrites() {
                    Some(range) => job.run(&mut tail(range)),
                    None => job.run(&mut io::empty()),
                };
                self.finish_sync(done)
            }
        }
    }
}

impl SyncJob {
    /// The range of the log, in bytes, that has to be written again because an earlier sync failed. The bytes must
    /// come from memory, not from the file: it may have lost them.
    #[must_use]
    pub fn rewrites(&self) -> Option<Range<u64>> {
        self.rewrite.then_some(self.from..self.to)
    }

    /// Has the job look whether the log holds `bytes` in front of the offset `end`.
    pub fn expect(&mut self, end: u64, bytes: Vec<u8>) {
        self.expected = (end, bytes);
    }

    /// Syncs. `tail` gives exactly the bytes of [`rewrites`](Self::rewrites) and is not read when that is `None`.
    ///
    /// They are written over what is there, without a cut before: a process killed in between loses nothing. The look at
    /// the name comes last: what is durable under no name is no promise. What is behind the committed bytes does not
    /// matter, as the log may have grown meanwhile.
    pub fn run(self, tail: &mut dyn Read) -> SyncDone {
        let result = if self.unsynced { self.sync(tail) } else { Ok(()) };
        let result = result.and_then(|()| Ok(self.check()?));
        SyncDone { to: self.to, cuts: self.cuts, result }
    }

    fn check(&self) -> Result<(), CheckError> {
        let actual = self.log.check()?.len;
        if actual < self.to {
            return Err(CheckError::ChangedOutside { expected: self.to, actual });
        }
        let (end, bytes) = &self.expected;
        holds(self.log.file.as_ref(), end.saturating_sub(bytes.len() as u64), bytes)
    }

    fn sync(&self, tail: &mut dyn Read) -> Result<(), SyncError> {
        if self.rewrite {
            self.rewrite(tail)?;
        }
        self.log.file.sync_data().map_err(SyncError::Failed)?;
        let name = self.name.as_ref().map_or(Ok(()), |Name { fs, dir }| fs.sync_dir(dir));
        name.map_err(SyncError::Failed)
    }

    /// What to hand back when the thread that ran the job is gone. The number of bytes that it may have synced does
    /// not matter: they are all written again.
    pub fn lost() -> SyncDone {
        SyncDone { to: 0, cuts: 0, result: Err(SyncError::Lost) }
    }

    fn rewrite(&self, tail: &mut dyn Read) -> Result<(), SyncError> {
        let actual = self.log.file.metadata().map_err(SyncError::Rewrite)?.len;
        if actual < self.to {
            return Err(CheckError::ChangedOutside { expected: self.to, actual }.into());
        }
        let mut at = self.from;
        let mut buf = vec![0; 1 << 16];
        while at < self.to {
            let want = usize::try_from(self.to - at).map_or(buf.len(), |left| left.min(buf.len()));
            let part = buf.get_mut(..want).unwrap_or_default();
            let read = match tail.read(part) {
                Ok(0) => return Err(SyncError::TailTooShort { missing: self.to - at }),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(SyncError::Rewrite(error)),
            };
            let mut rest = part.get(..read).unwrap_or_default();
            while !rest.is_empty() {
                match self.log.file.write_at(at, rest) {
                    Ok(0) => return Err(SyncError::Rewrite(io::ErrorKind::WriteZero.into())),
                    Ok(n) => {
                        at += n as u64;
                        rest = rest.get(n..).unwrap_or_default();
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(SyncError::Rewrite(error)),
                }
            }
        }
        Ok(())
    }
}

/// Whether a log holds `bytes` from the offset `at` on.
///
/// # Errors
/// [`CheckError::Rewritten`]; [`CheckError::Examine`] where it cannot be read.
pub(super) fn holds(log: &dyn File, mut at: u64, bytes: &[u8]) -> Result<(), CheckError> {
    const PIECE: usize = 1 << 16;
    let mut found = vec![0; bytes.len().min(PIECE)];
    for expected in bytes.chunks(PIECE) {
        let found = found.get_mut(..expected.len()).unwrap_or_default();
        let have = read_full(log, at, found).map_err(CheckError::Examine)?;
        if have < expected.len() || found != expected {
            return Err(CheckError::Rewritten);
        }
        at += have as u64;
    }
    Ok(())
}
