//! Reading a stored log: one pass, a record at a time, with the events given to the caller (FORMAT 13.1, 13.2).
//!
//! Reading never writes. What has to be cut, written again or refused is told in a [`Scan`]; load, inspection,
//! listing and verification all read through here, so that they agree about every log.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::compressed::read_zstd;
use super::damage::{Damage, Place, Problem, ReadError, Refused};
use super::plain::read_plain;
use crate::disk::fs::{File, ReadAt};
use crate::disk::paths::Encoding;
use crate::json::{Checks, Json};
use crate::log::{Draft, Event, Header, Offset, Seq};

/// How much one record may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// The longest line in bytes. Of long lines (beyond 512 KiB) at most one is held in memory. It must leave room for
    /// packed rows, which hold many events; 4 GiB is the most that counts.
    pub max_line: usize,
}

/// Room for packed rows and for logs that others have written, however small the events are kept here.
const MIN_LINE: usize = 64 << 20;

impl ReadLimits {
    /// For logs whose appends are held to so many bytes for an event: what was accepted reads back. The closers of an
    /// open turn may pass that limit; they repeat a call's id three times, and the numbers of its step and turn.
    #[must_use]
    pub fn for_events(max_event_bytes: usize) -> Self {
        const AROUND: usize = 64 << 10;
        Self { max_line: max_event_bytes.saturating_mul(4).saturating_add(AROUND).max(MIN_LINE) }
    }
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { max_line: MIN_LINE }
    }
}

/// One event of a stored log, in order and with nothing of its meaning checked.
#[derive(Clone, Copy, Debug)]
pub struct StoredEvent<'a> {
    /// Its position; always the next one.
    pub seq: Seq,
    /// Its time.
    pub time: i64,
    /// The rest, in today's shape.
    pub draft: &'a Draft<'a>,
    /// What the scanner said, counted as for a whole event: there is no fault, and depth counts the envelope.
    pub checks: Checks,
    /// The row that it comes from, as it stands in the log.
    pub row: Json<'a>,
    /// Where that row is.
    pub place: Place,
    /// The row does not hold it in this shape: it was packed, of an old shape, or had compressed sources.
    pub changed: bool,
}

/// Who takes the events of a log that is read.
pub trait Sink {
    /// Takes the header, before any event; may refuse the log by it.
    ///
    /// # Errors
    /// The refusal, which ends the reading.
    fn header(&mut self, header: &Header, inherited: Offset) -> Result<(), Refused> {
        let _ = (header, inherited);
        Ok(())
    }

    /// Validates and takes the next event.
    ///
    /// # Errors
    /// The refusal, which ends the reading: the log is then what [`Refused::verdict`] says.
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused>;

    /// Whether it judges every record: the reading goes on behind damage and refusals of which one is enough for a load.
    fn judges_all(&self) -> bool {
        false
    }

    /// Judges an event behind damage by itself, as nobody knows what led up to it. It is not taken.
    ///
    /// # Errors
    /// The refusal, which is noted.
    fn stranded(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        let _ = event;
        Ok(())
    }

    /// An event taken before: an old replacement inherits the id of the message that it replaces (FORMAT 14). A sink
    /// that keeps no events cannot know, and such a log is then refused or shown without that id.
    fn event_at(&self, seq: Seq) -> Option<Event<'_>> {
        let _ = seq;
        None
    }

    /// A frame begins whose events may be given back, all of them, at its end.
    fn frame_begins(&mut self) {}

    /// Gives back the events from `to` on: their frame turned out to be damaged, or their row was refused in its
    /// middle. The reading ends here.
    fn retract(&mut self, to: Offset) {
        let _ = to;
    }
}

/// The end of a log that a load cuts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Its first byte in the file.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// Events in its whole records: they are lost to the log though no byte of theirs is.
    pub events: u64,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, bytes, events } = self;
        write!(f, "{} from byte {offset} on hold ", counted(*bytes, "byte"))?;
        match events {
            0 => f.write_str("no whole record"),
            events => f.write_str(&counted(*events, "whole event")),
        }
    }
}

/// A count with its noun.
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What a log holds and how it ends.
#[derive(Debug)]
pub struct Scan {
    /// The header.
    pub header: Header,
    /// Events that came from the parent.
    pub inherited: Offset,
    /// Bytes of the file that the header takes, its line end or its frame included.
    pub header_bytes: u64,
    /// Events in the longest sound prefix: as many as the sink holds.
    pub events: Offset,
    /// The size of the file's sound part: the next write goes here, after what follows has been saved and cut.
    pub committed: u64,
    /// What follows the sound part. In a log that is [refused](Self::failure) it is not to be cut by a load.
    pub torn: Option<TornTail>,
    /// The events from here on stand in no complete frame: after the cut they are written again, before anything
    /// else. Equal to `events` for a plain log, and for most compressed ones.
    pub recovered_from: Offset,
    /// The last record has no line end yet: the next write begins with one.
    pub missing_newline: bool,
    /// What is wrong, in order, up to [`MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// How many things are wrong.
    pub problem_count: u64,
    /// The record that makes earlier damage fatal: a turn was committed there.
    pub witness: Option<Place>,
    /// The first problem keeps the log from being opened.
    pub(in crate::disk) fatal: bool,
    /// Counts of what was seen.
    pub counts: Counts,
}

/// Problems that a [`Scan`] names; more are only counted.
pub const MAX_PROBLEMS: usize = 100;

/// A log that is read while its lock is held here. Nobody may shorten it then, and an early end is no torn tail.
pub struct Held<'f> {
    file: &'f dyn File,
    len: u64,
    short: AtomicBool,
}

impl<'f> Held<'f> {
    /// A log of `len` bytes, as seen under the lock.
    #[must_use]
    pub fn new(file: &'f dyn File, len: u64) -> Self {
        Self { file, len, short: AtomicBool::new(false) }
    }

    /// Notes an end where there was more when the lock was taken.
    fn note(&self, offset: u64, read: usize, room: usize) {
        if read == 0 && offset < self.len && room > 0 {
            self.short.store(true, Ordering::Relaxed);
        }
    }

    /// Whether another program, which asks no lock, has changed its length since.
    ///
    /// # Errors
    /// That of asking for the length.
    pub fn was_changed(&self) -> io::Result<bool> {
        Ok(self.short.load(Ordering::Relaxed) || self.file.metadata()?.len != self.len)
    }
}

impl ReadAt for Held<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(offset, buf)?;
        self.note(offset, read, buf.len());
        Ok(read)
    }

    fn read_behind(&self, offset: u64, out: &mut Vec<u8>) -> io::Result<usize> {
        let room = out.capacity() - out.len();
        let read = self.file.read_behind(offset, out)?;
        self.note(offset, read, room);
        Ok(read)
    }
}

/// What was seen in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records after the header, damaged ones included.
    pub rows: u64,
    /// Packed rows among the sound ones.
    pub packed: u64,
    /// Events that had an old shape (FORMAT 14). Their text in memory is not in the file: a fork of such a log
    /// cannot be made of the parent's bytes, since the ids that they get hold the session's id.
    pub upgraded: u64,
    /// Events whose sources stood as ranges (FORMAT 16).
    pub ranged: u64,
    /// Events in records that are whole by themselves, from the first damage on.
    pub stranded: u64,
    /// Bytes of the decoded text.
    pub text_bytes: u64,
}

impl Scan {
    /// What keeps the log from being opened, if anything does. A torn tail does not.
    #[must_use]
    pub fn failure(&self) -> Option<&Problem> {
        self.problems.first().filter(|_| self.fatal)
    }

    /// Why a load that opens the log loses more than a crash explains: whole events, or a record that was whole. A torn
    /// last record alone is what crashes leave.
    #[must_use]
    pub fn loss(&self) -> Option<String> {
        let (problem, torn) = (self.problems.first().filter(|_| !self.fatal)?, self.torn?);
        let by_crash = matches!(problem.damage, Damage::Incomplete | Damage::Nuls(_));
        let is_ordinary = by_crash && self.problem_count <= 1 && torn.events == 0;
        (!is_ordinary).then(|| format!("{problem}; {torn}, which a load cuts off"))
    }
}

/// Reads the first `len` bytes of a log and gives its events to `sink`.
///
/// The prefix ends with the first damaged record; the rest is a torn tail, unless a turn was committed in it, or the
/// damage is in a complete frame, which no crash leaves (FORMAT 13.1 and 13.2). Where this differs from the reference
/// on purpose (PROTOCOL 9.2, 9.3): a lossy record is damaged, a record that is not UTF-8 is too, and a complete last
/// record without its line end is kept.
///
/// # Errors
/// [`ReadError`] when there is no header to speak of, or the disk fails. All else is told by the [`Scan`].
pub fn read_log(
    source: &dyn ReadAt,
    len: u64,
    encoding: Encoding,
    limits: ReadLimits,
    sink: &mut dyn Sink,
) -> Result<Scan, ReadError> {
    let limits = ReadLimits { max_line: limits.max_line.min(u32::MAX as usize - 1) };
    match encoding {
        Encoding::Plain => read_plain(source, len, limits, sink),
        Encoding::Zstd => read_zstd(source, len, limits, sink),
    }
}
