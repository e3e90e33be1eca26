//! A plain log as batches of whole lines, each read and scanned at once.
//!
//! Nothing is decided here: a line that does not scan, or is no UTF-8, is given on as bytes, and whoever takes it scans
//! it again and says what is wrong. So it does not matter which thread fills a batch and which one takes it.

use std::io;
use std::sync::Arc;

use crate::disk::fs::ReadAt;
use crate::json::{Checks, Json, Scanned, Scratch, Tapes};

/// Bytes of a batch, unless one line is longer. Its text may become a log's segment: it is large enough for a mapping of
/// its own with few of them, for which an allocator's words beside it take no page more, and small enough for the
/// processor's cache, with the tapes that go with it.
pub(in crate::disk) const BATCH: usize = (512 << 10) - 32;

/// Bytes of a page, or a part of them where pages are larger.
const PAGE: usize = 4 << 10;

/// What a longer line has claimed for its scan is given back.
pub(in crate::disk) const LONG: usize = 1 << 16;

/// Lines one behind the other.
#[derive(Default)]
pub(in crate::disk) struct Batch {
    /// Offset of the first byte in the log.
    start: u64,
    text: Text,
    lines: Vec<Line>,
    tapes: Tapes,
    /// What comes behind the lines.
    next: Next,
    /// Bytes of the log that were still to be read when this was filled.
    left: u64,
}

enum Text {
    /// Shared with a log that keeps it.
    Utf8(Arc<String>),
    /// Somewhere in it is no UTF-8.
    Bytes(Vec<u8>),
}

/// A line by its place in the text, without its line end.
struct Line {
    start: usize,
    end: usize,
    scanned: Option<Scanned>,
}

/// What comes behind the lines of a batch.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::disk) enum Next {
    /// More lines, or a failure to read them.
    #[default]
    More,
    /// The end of the log, at this offset: the last line lacks its line end if that is so in the log.
    End(u64),
    /// A line that is longer than allowed, from this offset on.
    TooLong(u64),
}

/// One line of a batch.
pub(in crate::disk) struct BatchLine<'a> {
    /// Offset of its first byte in the log.
    pub(in crate::disk) offset: u64,
    /// Its first byte in the batch's text.
    pub(in crate::disk) start: usize,
    pub(in crate::disk) bytes: &'a [u8],
    /// What the scan gave, if it went well.
    pub(in crate::disk) scanned: Option<(Json<'a>, Checks)>,
    /// A line end follows.
    pub(in crate::disk) ended: bool,
}

impl Default for Text {
    fn default() -> Self {
        Self::Utf8(Arc::default())
    }
}

impl Text {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Utf8(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Its memory, unless somebody keeps it.
    fn into_buffer(self) -> Vec<u8> {
        let mut bytes = match self {
            Self::Utf8(text) => Arc::try_unwrap(text).map(String::into_bytes).unwrap_or_default(),
            Self::Bytes(bytes) => bytes,
        };
        bytes.clear();
        bytes
    }
}

impl Batch {
    /// The lines in order.
    pub(in crate::disk) fn lines(&self) -> impl Iterator<Item = BatchLine<'_>> {
        let bytes = self.text.bytes();
        self.lines.iter().map(move |line| BatchLine {
            offset: self.start + line.start as u64,
            start: line.start,
            bytes: bytes.get(line.start..line.end).unwrap_or_default(),
            scanned: self.scanned(line),
            ended: line.end < bytes.len(),
        })
    }

    fn scanned(&self, line: &Line) -> Option<(Json<'_>, Checks)> {
        let Text::Utf8(text) = &self.text else { return None };
        self.tapes.value(text.get(line.start..line.end)?, line.scanned.as_ref()?)
    }

    /// The text that the lines are in, if it is one.
    pub(in crate::disk) fn text(&self) -> Option<&Arc<String>> {
        match &self.text {
            Text::Utf8(text) => Some(text),
            Text::Bytes(_) => None,
        }
    }

    /// What comes behind the lines.
    pub(in crate::disk) fn next(&self) -> Next {
        self.next
    }

    /// Bytes of the log that were still to be read when this was filled.
    pub(in crate::disk) fn left(&self) -> u64 {
        self.left
    }

    /// Forgets its lines, and claims memory for the next text if somebody keeps that of the last one. Its pages are
    /// touched here, which is most of what they cost: who fills the batch needs not do it.
    pub(in crate::disk) fn make_ready(&mut self) {
        self.lines.clear();
        let mut bytes = self.take_buffer();
        if bytes.capacity() < BATCH {
            bytes = vec![0; BATCH];
            bytes.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1); // zeros are promised, and not touched
            bytes.clear();
        }
        self.text = Text::Bytes(bytes);
    }

    /// Bytes claimed for the next text.
    #[cfg(test)]
    pub(in crate::disk) fn room(self) -> usize {
        self.text.into_buffer().capacity()
    }

    /// The buffer for the next text, with the memory of the last one unless that was extreme, or is kept.
    fn take_buffer(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.text).into_buffer();
        if bytes.capacity() > 2 * BATCH {
            bytes = Vec::new();
            self.tapes.trim(BATCH / 4);
        }
        bytes
    }

    /// Cuts the text into lines and scans each one.
    fn set(&mut self, start: u64, bytes: Vec<u8>, next: Next, max_line: usize, scratch: &mut Scratch) {
        (self.start, self.next) = (start, next);
        self.lines.clear();
        self.tapes.clear();
        self.text = match String::from_utf8(bytes) {
            Ok(text) => Text::Utf8(Arc::new(text)),
            Err(error) => Text::Bytes(error.into_bytes()),
        };
        let (bytes, mut from) = (self.text.bytes(), 0);
        while from < bytes.len() {
            let rest = bytes.get(from..).unwrap_or_default();
            let end = from + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            if end - from > max_line {
                self.next = Next::TooLong(start + from as u64);
                break;
            }
            let scanned = match &self.text {
                Text::Utf8(text) => text.get(from..end).and_then(|line| self.tapes.scan(line, scratch)),
                Text::Bytes(_) => None,
            };
            if end - from > LONG {
                scratch.trim();
            }
            self.lines.push(Line { start: from, end, scanned });
            from = end + 1;
        }
    }
}

/// Reads a plain log from some line on, a batch at a time.
pub(in crate::disk) struct BatchReader<'s> {
    source: &'s dyn ReadAt,
    max_line: usize,
    /// The next byte to read.
    at: u64,
    /// Where the log ends.
    len: u64,
    /// What was read of a line whose end was not.
    rest: Vec<u8>,
    failed: Option<io::Error>,
    scratch: Scratch,
}

impl<'s> BatchReader<'s> {
    /// Reads the lines in `at..len` of a log. One may have up to `max_line` bytes, its line end not counted.
    pub(in crate::disk) fn new(
        source: &'s dyn ReadAt,
        at: u64,
        len: u64,
        max_line: usize,
        scratch: Scratch,
    ) -> Self {
        Self { source, max_line, at, len, rest: Vec::new(), failed: None, scratch }
    }

    /// Bytes that are not read yet.
    pub(in crate::disk) fn left(&self) -> u64 {
        self.len.saturating_sub(self.at)
    }

    /// Reads the next lines. `may_grow` is asked before a line that fits no batch claims more than one's room, and may
    /// wait until no other batch is held; when it says no, the reading is over.
    ///
    /// # Errors
    /// That of the disk, behind the lines before it.
    pub(in crate::disk) fn fill(
        &mut self,
        batch: &mut Batch,
        may_grow: &mut dyn FnMut() -> bool,
    ) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut bytes = batch.take_buffer();
        bytes.append(&mut self.rest);
        let start = self.at - bytes.len() as u64;
        let mut grown = false;
        let next = loop {
            let have = bytes.len();
            if self.read_on(&mut bytes) {
                break Next::End(self.at);
            }
            if let Some(last) = memchr::memrchr(b'\n', bytes.get(have..).unwrap_or_default()) {
                let end = have + last + 1;
                self.rest.extend_from_slice(bytes.get(end..).unwrap_or_default());
                bytes.truncate(end);
                break Next::More;
            }
            if bytes.len() > self.max_line {
                break Next::TooLong(start);
            }
            if self.failed.is_some() || !(grown || may_grow()) {
                bytes.clear();
                break Next::More;
            }
            grown = true;
        };
        batch.left = self.left();
        batch.set(start, bytes, next, self.max_line, &mut self.scratch);
        Ok(())
    }

    /// Reads on until [`BATCH`] bytes are there, or so many more if they are; true at the end of the log. A failure is
    /// kept for the next call of [`fill`](Self::fill).
    fn read_on(&mut self, bytes: &mut Vec<u8>) -> bool {
        let most = |room| usize::try_from(self.left()).map_or(room, |left| left.min(room));
        match BATCH.checked_sub(bytes.len()) {
            Some(room @ 1..) => {
                bytes.reserve_exact(most(room)); // it may be kept: no more is claimed than what is read
                self.fill_up(bytes);
            }
            _ => {
                let mut more = Vec::with_capacity(most(BATCH));
                self.fill_up(&mut more);
                bytes.append(&mut more);
            }
        }
        self.failed.is_none() && self.left() == 0
    }

    /// Reads as much as fits.
    fn fill_up(&mut self, bytes: &mut Vec<u8>) {
        while self.left() > 0 && bytes.len() < bytes.capacity() {
            let have = bytes.len();
            match self.source.read_behind(self.at, bytes) {
                Ok(0) => self.len = self.at, // cut by another program since its size was read
                Ok(read) => {
                    let read = usize::try_from(self.left()).map_or(read, |left| left.min(read));
                    bytes.truncate(have + read); // another program may have added to it
                    self.at += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
    }
}
