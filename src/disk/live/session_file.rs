//! The file of one live session: what of its log is written, what is durable, what is still to be mended.
//!
//! Events go in as the very lines that memory holds. An encoding other than plain wraps each write in a
//! frame. A log that was read with a torn tail or an open turn is mended by its first write, not by its
//! opening (PROTOCOL 3, Load).

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use super::write::{LogWriter, SyncDone, SyncError, SyncJob, SyncStart, WriteError, holds};
use crate::disk::catalog::summary::{TAIL, checksum};
use crate::disk::fs::FileSystem;
use crate::disk::maintenance::salvage::{save_cut, told};
use crate::disk::paths::{Encoding, LogPath};
use crate::disk::read::zstd::{FrameEncoder, FrameError};
use crate::log::{Log, Offset};

/// The compression level of the format's writers.
const LEVEL: i32 = 3;

/// What the first write of a loaded log has to mend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mend {
    /// Where the good records end, if something follows them that is to be cut off.
    pub cut_at: Option<u64>,
    /// Bytes to write before anything else: a missing line end, or records recovered from a torn frame.
    pub first: Vec<u8>,
}

impl Mend {
    /// Whether there is nothing to mend.
    pub fn is_empty(&self) -> bool {
        self.cut_at.is_none() && self.first.is_empty()
    }
}

/// Why a write failed. Nothing of it counts as written, but for [`Unsynced`](Self::Unsynced).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The log could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The cut of a torn end could not be made durable, so nothing was written.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// Everything was written, and counts so; only it could not be made durable.
    #[error("{0}")]
    Unsynced(#[source] SyncError),
    /// The events could not be compressed.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The torn tail could not be saved beside the log, so nothing was cut.
    #[error("the torn end of the log could not be saved ({0}), nothing was changed: try again")]
    Save(#[source] io::Error),
    /// The log was deleted here, though not all that belongs to it.
    #[error("the session's log is deleted: delete it again, or close it")]
    Deleted,
}

/// The open file of one live session.
pub struct SessionFile {
    fs: Arc<dyn FileSystem>,
    path: LogPath,
    writer: LogWriter,
    encoder: Option<FrameEncoder>,
    written: Offset,
    durable: Offset,
    /// What the sync under way will have made durable.
    syncing: Offset,
    /// Frames that are written but not durable: plain lines are taken from memory instead.
    unsynced_frames: Vec<u8>,
    /// A sync has failed: what it was for must be written again, from memory.
    lost: bool,
    /// The lines to write again.
    lost_lines: Vec<u8>,
    /// What mending wrote in front of the lines and is not durable yet: it must be written again with them.
    unsynced_mend: Vec<u8>,
    mend: Mend,
    /// What the mend cuts is saved.
    tail_saved: bool,
    header_line: Option<String>,
    notes: Vec<String>,
    deleted: bool,
    /// Where the next sync must find these bytes: what they end at, and they.
    end: (u64, Vec<u8>),
    /// The checksum of the log's last bytes for its summary, as memory has them, and the size that it is good for.
    tail: Option<(u64, u64)>,
    /// From this event on the file's lines are the very lines of memory.
    ours: Offset,
    /// The file is the header line and then the very lines of memory, so that a fork may copy its bytes.
    verbatim: Option<u64>,
}

impl SessionFile {
    /// The file of a log that was just published with `written` events, all durable if its name is. `header` is the
    /// length of its first line, line end included.
    pub fn published(
        fs: Arc<dyn FileSystem>,
        path: LogPath,
        mut writer: LogWriter,
        written: Offset,
        header: u64,
    ) -> Self {
        let mend = Mend::default();
        let durable = if writer.is_settled() { written } else { Offset::ZERO };
        if durable < written {
            writer.doubt(header);
        }
        Self::new(fs, path, writer, (written, durable), mend, Some(header))
    }

    /// The file of a log that was read up to `stored` events, of which `durable` are known to be on stable storage.
    /// `verbatim` is the length of its first line if it holds nothing but that line and the lines of memory.
    pub fn loaded(
        fs: Arc<dyn FileSystem>,
        path: LogPath,
        writer: LogWriter,
        stored: (Offset, Offset),
        mend: Mend,
        verbatim: Option<u64>,
    ) -> Self {
        let verbatim = verbatim.filter(|_| mend.is_empty());
        Self::new(fs, path, writer, stored, mend, verbatim)
    }

    fn new(
        fs: Arc<dyn FileSystem>,
        path: LogPath,
        writer: LogWriter,
        (written, durable): (Offset, Offset),
        mend: Mend,
        verbatim: Option<u64>,
    ) -> Self {
        let (encoder, unsynced_frames) = (None, Vec::new());
        let verbatim = verbatim.filter(|_| path.encoding() == Encoding::Plain);
        let ours = if verbatim.is_some() { Offset::ZERO } else { written };
        let (syncing, lost, lost_lines) = (durable, false, Vec::new());
        Self {
            fs,
            path,
            writer,
            encoder,
            written,
            durable,
            syncing,
            unsynced_frames,
            lost,
            lost_lines,
            unsynced_mend: Vec::new(),
            mend,
            tail_saved: false,
            header_line: None,
            notes: Vec::new(),
            deleted: false,
            end: (0, Vec::new()),
            tail: None,
            ours,
            verbatim,
        }
    }

    /// Adds the header line as it stands in the file, where that is known, and what is to be told of the log.
    pub fn describe(&mut self, header_line: Option<String>, notes: Vec<String>) {
        (self.header_line, self.notes) = (header_line, notes);
    }

    /// The header line without its end.
    pub fn header_line(&self) -> Option<&str> {
        self.header_line.as_deref()
    }

    /// What is to be told of the log: what a repair cut, or will cut.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Where the log lies.
    pub fn path(&self) -> &LogPath {
        &self.path
    }

    /// The open log.
    pub fn file(&self) -> &Arc<dyn crate::disk::fs::File> {
        self.writer.file()
    }

    /// From now on nothing is written: the log's name is gone, by our own hand.
    pub fn mark_deleted(&mut self) {
        self.deleted = true;
    }

    /// Whether the log was deleted here.
    pub fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// The events that the operating system has.
    pub fn written(&self) -> Offset {
        self.written
    }

    /// The events that are on stable storage.
    pub fn durable(&self) -> Offset {
        self.durable
    }

    /// The file's length in bytes.
    pub fn len(&self) -> u64 {
        self.writer.committed_len()
    }

    /// Whether the file holds nothing. It holds a header at least.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first write has something to mend, or closers to write: work that is not for the hot path.
    pub fn needs_mending(&self) -> bool {
        !self.mend.is_empty()
    }

    /// The log's file and the range of it that holds the first `length` events, for a fork to copy.
    pub fn prefix(&self, log: &Log, length: Offset) -> Option<(Arc<dyn crate::disk::fs::File>, Range<u64>)> {
        let header = self.verbatim?;
        if length > self.written || self.writer.check().is_err() {
            return None;
        }
        let bytes: usize = log.lines(Offset::ZERO, length).map(str::len).sum();
        Some((Arc::clone(self.writer.file()), header..header + bytes as u64))
    }

    /// Hands the events of `log` that are not yet written to the operating system: all of them or none.
    ///
    /// With no such events it looks whether the file is as this process left it, and remembers how it must end. It
    /// remembers the lines that a failed sync has put in doubt, too.
    pub fn write(&mut self, log: &Log) -> Result<(), FileError> {
        if log.len() > self.written {
            self.append_from(log)?;
        } else {
            self.check()?;
            self.remember_end(log);
        }
        if self.lost && self.path.encoding() == Encoding::Plain {
            self.lost_lines = self.unsynced_mend.clone();
            for lines in log.lines(self.durable, self.written) {
                self.lost_lines.extend_from_slice(lines.as_bytes());
            }
        }
        Ok(())
    }

    /// Whether the file is as this process left it, its name aside: what an answer of committed events promises.
    ///
    /// # Errors
    /// [`FileError::Deleted`], else [`FileError::Unsynced`].
    pub fn check(&self) -> Result<(), FileError> {
        if self.deleted {
            return Err(FileError::Deleted);
        }
        self.writer.check().map_err(|error| FileError::Unsynced(error.into()))
    }

    /// The same with its name, which may wait for the disk.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_named(&self) -> Result<(), FileError> {
        self.check()?;
        self.writer.check_named().map_err(|error| FileError::Unsynced(error.into()))
    }

    /// The same, and whether the file holds what memory holds, where its lines are the very lines of memory. Reads all of
    /// them, so not for the owner thread.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_text(&self, log: &Log) -> Result<(), FileError> {
        self.check_named()?;
        if self.path.encoding() != Encoding::Plain {
            return Ok(());
        }
        let holds = |at, lines: &str| {
            let same = holds(self.file().as_ref(), at, lines.as_bytes());
            same.map_err(|error| FileError::Unsynced(error.into()))
        };
        if self.verbatim.is_some() {
            holds(0, self.header_line().unwrap_or_default())?;
        }
        let bytes: usize = log.lines(self.ours, self.written).map(str::len).sum();
        let mut at = self.len().saturating_sub(bytes as u64);
        for lines in log.lines(self.ours, self.written) {
            holds(at, lines)?;
            at += lines.len() as u64;
        }
        Ok(())
    }

    /// Notes how the file must end: what the next sync is to find, and what a summary is good for.
    fn remember_end(&mut self, log: &Log) {
        let (size, end) = (self.len(), self.end_of(log));
        let is_all = end.len() as u64 == size.min(TAIL as u64);
        self.tail = is_all.then(|| (size, checksum(&end)));
        self.end = (size, end);
    }

    /// The checksum of a summary's [tail](crate::disk::catalog::summary::tail_of) as memory has it, where memory has all of
    /// it and the log has not grown since a look at it.
    pub fn tail(&self) -> Option<u64> {
        self.tail.filter(|(size, _)| *size == self.len()).map(|(_, tail)| tail)
    }

    /// The last bytes of the file as memory has them, as many as a summary's tail has; fewer, or none, where the file need
    /// not have the same.
    fn end_of(&self, log: &Log) -> Vec<u8> {
        let mut count = 1;
        while self.path.encoding() == Encoding::Plain {
            let from = self.written.get().saturating_sub(count).max(self.ours.get());
            let from = Offset::new(from).unwrap_or(self.ours);
            let mut end = Vec::new();
            for lines in log.lines(from, self.written) {
                end.extend_from_slice(last(lines.as_bytes(), TAIL));
            }
            if from == self.ours
                && let (Some(_), Some(header)) = (self.verbatim, self.header_line())
            {
                end.splice(0..0, [header.as_bytes(), b"\n"].concat());
            }
            if from == self.ours || end.len() >= TAIL {
                return last(&end, TAIL).to_vec();
            }
            count *= 2;
        }
        Vec::new()
    }

    /// Lets go of a file whose name is another log's of this process from now on.
    pub fn replaced(mut self) {
        self.writer.replaced();
    }

    fn append_from(&mut self, log: &Log) -> Result<(), FileError> {
        if self.deleted {
            return Err(FileError::Deleted);
        }
        let to = log.len();
        let mut runs = log.lines(self.written, to);
        let (first, second) = (runs.next().unwrap_or(""), runs.next());
        match (self.path.encoding(), second) {
            (Encoding::Plain, None) => {
                self.writer.append(first.as_bytes())?;
            }
            (Encoding::Plain, Some(second)) => {
                let joined = join(first, second, runs);
                self.writer.append(joined.as_bytes())?;
            }
            (Encoding::Zstd, second) => {
                let lines = join(first, second.unwrap_or(""), runs);
                self.write_frame(lines.as_bytes())?;
            }
        }
        self.written = to;
        Ok(())
    }

    fn write_frame(&mut self, content: &[u8]) -> Result<(), FileError> {
        if self.encoder.is_none() {
            self.encoder = Some(FrameEncoder::new(LEVEL)?);
        }
        let Some(encoder) = self.encoder.as_mut() else { return Ok(()) };
        let frame = encoder.encode(content)?;
        self.writer.append(&frame)?;
        self.unsynced_frames.extend_from_slice(&frame);
        Ok(())
    }

    /// Mends the log, then writes what is unwritten: saves what is cut beside the log, cuts, completes.
    /// Syncs, so not for the owner thread. What has been done when it fails is not done again.
    pub fn mend_and_write(&mut self, log: &Log) -> Result<(), FileError> {
        if self.deleted {
            return Err(FileError::Deleted);
        }
        if self.needs_mending() {
            self.writer.check_named().map_err(WriteError::from)?; // before anything is put beside it
        }
        if let Some(at) = self.mend.cut_at {
            let (log, end) = (self.path.log(), self.writer.committed_len());
            if !self.tail_saved {
                let saved = save_cut(&self.fs, &log, self.writer.file().as_ref(), at, end);
                let saved = saved.map_err(FileError::Save)?;
                self.tail_saved = true;
                let name = saved.file_name().unwrap_or_default().to_string_lossy().into_owned();
                self.notes.extend(told(&[name]));
            }
            if end > at {
                self.writer.cut(at)?;
            }
            // Else it is cut already, and only that was not made durable.
            self.writer.sync(|_| io::empty())?;
            self.mend.cut_at = None;
        }
        if !self.mend.first.is_empty() {
            let first = std::mem::take(&mut self.mend.first);
            let done = match self.path.encoding() {
                Encoding::Plain => self.writer.append(&first).map(|_| ()).map_err(FileError::from),
                Encoding::Zstd => self.write_frame(&first),
            };
            if let Err(error) = done {
                self.mend.first = first;
                return Err(error);
            }
            if self.path.encoding() == Encoding::Plain {
                self.unsynced_mend = first;
            }
        }
        self.write(log)?;
        self.sync_all().map_err(FileError::Unsynced)?;
        Ok(())
    }

    /// Cuts off what a failed write has left, if anything.
    pub fn recover(&mut self) -> Result<(), FileError> {
        Ok(self.writer.recover()?)
    }

    /// Begins to make everything written durable; with the job come the bytes that it may have to write
    /// again. After a failed sync, [`Self::write`] must have been called since. With `promised` the job looks at the
    /// file's name although nothing may be left to sync.
    pub fn start_sync(&mut self, promised: bool) -> Option<(SyncJob, Vec<u8>)> {
        let unsynced = self.writer.durable_len() < self.writer.committed_len();
        let plain = self.path.encoding() == Encoding::Plain;
        if plain && self.lost && unsynced && self.lost_lines.is_empty() {
            return None; // the next write brings what is to be written again
        }
        let start = if promised { self.writer.start_promise() } else { self.writer.start_sync() };
        match start {
            SyncStart::Nothing | SyncStart::Busy => None,
            SyncStart::Job(mut job) => {
                let (end, bytes) = std::mem::take(&mut self.end);
                job.expect(end, bytes);
                self.syncing = self.written;
                let again = match (job.rewrites(), self.path.encoding()) {
                    (None, _) => Vec::new(),
                    (Some(_), Encoding::Plain) => self.lost_lines.clone(),
                    (Some(_), Encoding::Zstd) => self.unsynced_frames.clone(),
                };
                Some((job, again))
            }
        }
    }

    /// Takes a sync back; gives how far the log is durable now.
    pub fn finish_sync(&mut self, done: SyncDone) -> Result<Offset, SyncError> {
        let result = self.writer.finish_sync(done);
        self.lost = self.writer.must_rewrite();
        result?;
        (self.durable, self.lost_lines) = (self.syncing, Vec::new());
        self.unsynced_mend.clear();
        let unsynced = (self.writer.committed_len() - self.writer.durable_len()) as usize;
        let synced = self.unsynced_frames.len().saturating_sub(unsynced);
        self.unsynced_frames.drain(..synced);
        Ok(self.durable)
    }

    /// Makes everything written durable, on this thread.
    pub fn sync_all(&mut self) -> Result<Offset, SyncError> {
        let Some((job, tail)) = self.start_sync(true) else { return Err(SyncError::Lost) };
        let done = job.run(&mut tail.as_slice() as &mut dyn Read);
        self.finish_sync(done)
    }

    /// Whether a sync is under way: its end must come before another one begins.
    pub fn is_syncing(&self) -> bool {
        self.writer.is_syncing()
    }
}

fn last(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(most)..).unwrap_or_default()
}

fn join<'a>(first: &str, second: &str, rest: impl Iterator<Item = &'a str>) -> String {
    let mut joined = String::with_capacity(2 * (first.len() + second.len()));
    joined.push_str(first);
    joined.push_str(second);
    joined.extend(rest);
    joined
}
