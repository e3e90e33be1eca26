//! Lines out of chunks, with a bound on what one line may hold.

use memchr::memchr;

/// A line is longer than the reader allows. This says nothing about damage: the log may be fine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the line at byte {offset} is longer than {max} bytes: start the daemon with a larger --max-event-bytes to read this log"
)]
pub struct LineTooLong {
    /// Offset of the line's first byte in the decoded log.
    pub offset: u64,
    /// The bound in bytes, newline not counted.
    pub max: usize,
}

/// Cuts a stream of chunks at 0x0A. A line may straddle any number of chunks (and frames); at most one line is held.
pub struct LineSplitter {
    max: usize,
    carry: Vec<u8>,
    /// Offset of the first byte of `carry` in the stream.
    start: u64,
}

impl LineSplitter {
    /// A splitter for lines of up to `max` bytes, newline not counted.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, carry: Vec::new(), start: 0 }
    }

    /// Hands each line that `chunk` completes to `sink`: its offset in the stream and its bytes without the newline.
    ///
    /// # Errors
    /// [`LineTooLong`] as soon as a line passes the bound, complete or not.
    pub fn push(&mut self, chunk: &[u8], sink: &mut dyn FnMut(u64, &[u8])) -> Result<(), LineTooLong> {
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            self.check(line.len())?;
            let length = if self.carry.is_empty() {
                sink(self.start, line);
                line.len()
            } else {
                self.carry.extend_from_slice(line);
                sink(self.start, &self.carry);
                let length = self.carry.len();
                self.carry.clear();
                length
            };
            self.start += length as u64 + 1;
        }
        self.check(rest.len())?;
        self.carry.extend_from_slice(rest);
        Ok(())
    }

    /// What follows the last newline: its offset in the stream and its bytes.
    #[must_use]
    pub fn rest(&self) -> (u64, &[u8]) {
        (self.start, &self.carry)
    }

    fn check(&self, more: usize) -> Result<(), LineTooLong> {
        match self.carry.len().saturating_add(more) > self.max {
            true => Err(LineTooLong { offset: self.start, max: self.max }),
            false => Ok(()),
        }
    }
}
