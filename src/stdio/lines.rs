//! Chunks in, lines out, in place.

use std::ops::Range;

use memchr::memchr;

/// How much is read at once, in bytes.
const CHUNK: usize = 256 * 1024;
/// More buffer than this is given back as soon as no line needs it.
const KEEP: usize = 2 * CHUNK;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One item of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A line that is not empty, without its `\n` and without one `\r` before that. Any bytes, not only UTF-8.
    Line(&'a [u8]),
    /// A line over the limit: said once, when the limit is passed; its bytes are skipped.
    TooLong,
}

/// Splits a byte stream into lines without copying those that lie whole in a chunk.
///
/// Read into [`spare`](Self::spare), say how much came with [`commit`](Self::commit), take
/// [`next_frame`](Self::next_frame) until it is `None`, and so on; after the end of input call
/// [`finish`](Self::finish) and take frames once more. Empty lines are skipped, and so is a BOM at the very
/// start. Memory stays under the limit plus one chunk (256 KiB), and under two chunks between long lines.
#[derive(Debug)]
pub struct Lines {
    /// Initialised all over; input is in `start..end`.
    buf: Vec<u8>,
    start: usize,
    /// `start..searched` is known to hold no line end, so that a line in many pieces is searched once.
    searched: usize,
    end: usize,
    max: usize,
    /// Inside a line that was reported as too long.
    skipping: bool,
    /// The first bytes have not been looked at yet.
    at_start: bool,
    finished: bool,
}

impl Lines {
    /// A splitter for lines of at most `max_line_bytes`, the line end not counted.
    pub fn new(max_line_bytes: usize) -> Self {
        Self {
            buf: Vec::new(),
            start: 0,
            searched: 0,
            end: 0,
            max: max_line_bytes,
            skipping: false,
            at_start: true,
            finished: false,
        }
    }

    /// Room to read into: at least 128 KiB, whatever is pending.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.buf.len() - self.end < CHUNK / 2 {
            self.move_to_front();
            if self.buf.len() - self.end < CHUNK / 2 {
                // Doubling keeps the copying linear; the ceiling is what one acceptable line can need.
                let ceiling = self.max.saturating_add(1).saturating_add(CHUNK);
                let len = (self.buf.len() * 2).max(CHUNK).min(ceiling).max(self.end + CHUNK / 2);
                self.buf.reserve_exact(len - self.buf.len());
                self.buf.resize(len, 0);
            }
        }
        self.buf.get_mut(self.end..).unwrap_or_default()
    }

    /// The first `n` bytes of [`spare`](Self::spare) are input now.
    pub fn commit(&mut self, n: usize) {
        self.end = self.end.saturating_add(n).min(self.buf.len());
    }

    /// The input has ended: what is pending is the last line, though no `\n` follows it.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The next line, or `None` when more input is needed.
    pub fn next_frame(&mut self) -> Option<Frame<'_>> {
        if self.start == self.end {
            self.settle();
            return None; // as behind each request of a client that waits for the answer
        }
        match self.find() {
            Some(Some(line)) => self.buf.get(line).map(Frame::Line),
            Some(None) => Some(Frame::TooLong),
            None => {
                self.settle();
                None
            }
        }
    }

    /// Bytes of memory held now.
    pub fn held_bytes(&self) -> usize {
        self.buf.capacity()
    }

    /// The place of the next line, `Some(None)` for one that is too long.
    fn find(&mut self) -> Option<Option<Range<usize>>> {
        if self.at_start && !self.pass_bom() {
            return None;
        }
        loop {
            let rest = self.buf.get(self.searched..self.end).unwrap_or_default();
            let Some(at) = memchr(b'\n', rest) else { break };
            let line = self.start..self.searched + at;
            self.start = line.end + 1;
            self.searched = self.start;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            let line = self.without_cr(line);
            if line.len() > self.max {
                return Some(None);
            }
            if !line.is_empty() {
                return Some(Some(line));
            }
        }
        self.searched = self.end;
        let pending = self.start..self.end;
        if self.skipping {
            self.start = self.end;
            return None;
        }
        let line = self.without_cr(pending.clone());
        if line.len() > self.max {
            self.start = self.end;
            self.skipping = true;
            return Some(None);
        }
        if self.finished {
            self.start = self.end;
            return (!line.is_empty()).then_some(Some(line));
        }
        None
    }

    /// Skips a BOM at the start; false while it cannot be told yet.
    fn pass_bom(&mut self) -> bool {
        let input = self.buf.get(self.start..self.end).unwrap_or_default();
        if input.starts_with(BOM) {
            self.start += BOM.len();
            self.searched = self.start;
        } else if BOM.starts_with(input) && !self.finished {
            return false;
        }
        self.at_start = false;
        true
    }

    fn without_cr(&self, line: Range<usize>) -> Range<usize> {
        match self.buf.get(line.clone()) {
            Some([.., b'\r']) => line.start..line.end - 1,
            _ => line,
        }
    }

    /// After the last line of a chunk: start over at the front, and give back what a huge line has taken.
    fn settle(&mut self) {
        let pending = self.end - self.start;
        if pending == 0 {
            (self.start, self.searched, self.end) = (0, 0, 0);
        }
        if self.buf.len() > KEEP && pending + CHUNK <= KEEP {
            self.move_to_front();
            self.buf.truncate(KEEP);
            self.buf.shrink_to_fit();
        }
    }

    fn move_to_front(&mut self) {
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.searched -= self.start;
            self.end -= self.start;
            self.start = 0;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `None` stands for a line that is too long.
    type Seen = Vec<Option<Vec<u8>>>;

    fn take(lines: &mut Lines, seen: &mut Seen) {
        while let Some(frame) = lines.next_frame() {
            seen.push(match frame {
                Frame::Line(line) => Some(line.to_vec()),
                Frame::TooLong => None,
            });
        }
    }

    fn feed(lines: &mut Lines, mut bytes: &[u8], seen: &mut Seen) {
        while !bytes.is_empty() {
            let spare = lines.spare();
            let n = spare.len().min(bytes.len());
            spare[..n].copy_from_slice(&bytes[..n]);
            lines.commit(n);
            bytes = &bytes[n..];
            take(lines, seen);
        }
    }

    fn split<'a>(max: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Seen {
        let (mut lines, mut seen) = (Lines::new(max), Seen::new());
        for chunk in chunks {
            feed(&mut lines, chunk, &mut seen);
        }
        lines.finish();
        take(&mut lines, &mut seen);
        assert_eq!(lines.next_frame(), None);
        seen
    }

    fn naive(max: usize, bytes: &[u8]) -> Seen {
        let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        bytes
            .split(|b| *b == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty())
            .map(|line| (line.len() <= max).then(|| line.to_vec()))
            .collect()
    }

    #[test]
    fn every_split_point_gives_the_same_lines() {
        let text = b"\xEF\xBB\xBF{\"a\":1}\r\n\n\r\n12345678\n123456789\n12345678\r\n12345678\r\r\n\xEF\xBB\xBFx\n\xff\ntail\r";
        let expected = naive(8, text);
        assert_eq!(expected.iter().filter(|line| line.is_none()).count(), 2);
        for a in 0..=text.len() {
            for b in a..=text.len() {
                assert_eq!(split(8, [&text[..a], &text[a..b], &text[b..]]), expected, "split at {a} and {b}");
            }
        }
        assert_eq!(split(8, text.chunks(1)), expected);
    }

    #[test]
    fn a_torn_bom_is_a_line() {
        assert_eq!(split(8, [&b"\xEF\xBB"[..]]), [Some(b"\xEF\xBB".to_vec())]);
        assert_eq!(split(8, [&b"\xEF\n\xBB\xBF"[..]]), naive(8, b"\xEF\n\xBB\xBF"));
        assert_eq!(split(8, [BOM]), Seen::new());
    }

    #[test]
    fn too_long_is_said_before_the_line_ends_and_once() {
        let (mut lines, mut seen) = (Lines::new(4), Seen::new());
        feed(&mut lines, b"12345", &mut seen);
        assert_eq!(seen, [None]);
        feed(&mut lines, b"678", &mut seen);
        feed(&mut lines, b"9\nab\n", &mut seen);
        assert_eq!(seen, [None, Some(b"ab".to_vec())]);
    }

    #[test]
    fn a_huge_line_is_skipped_in_bounded_memory() {
        let max = 4 << 20;
        let (mut lines, mut seen) = (Lines::new(max), Seen::new());
        let (mut peak, chunk) = (0, vec![b'x'; 1 << 20]);
        for _ in 0..100 {
            feed(&mut lines, &chunk, &mut seen);
            peak = peak.max(lines.held_bytes());
        }
        assert!(peak <= max + 1 + CHUNK, "held {peak}");
        feed(&mut lines, b"\nnext\n", &mut seen);
        assert_eq!(seen, [None, Some(b"next".to_vec())]);
        assert!(lines.held_bytes() <= KEEP);
    }

    #[test]
    fn memory_goes_back_after_a_long_line_even_with_a_partial_one_behind_it() {
        let (mut lines, mut seen) = (Lines::new(8 << 20), Seen::new());
        let mut text = vec![b'y'; 8 << 20];
        text.extend_from_slice(b"\npart");
        feed(&mut lines, &text, &mut seen);
        assert!(lines.held_bytes() <= KEEP, "held {}", lines.held_bytes());
        feed(&mut lines, b"ial\n", &mut seen);
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1].as_deref(), Some(&b"partial"[..]));
    }

    proptest! {
        #[test]
        fn any_chunking_equals_a_plain_split(
            pieces in prop::collection::vec(prop_oneof![
                Just(b"\n".to_vec()), Just(b"\r".to_vec()), Just(b"\r\n".to_vec()), Just(BOM.to_vec()),
                prop::collection::vec(any::<u8>(), 0..12),
                // Long enough to move and to grow the buffer.
                (any::<u8>(), 1usize..300_000).prop_map(|(b, n)| vec![b; n]),
            ], 0..20),
            max in prop_oneof![0usize..16, 100_000usize..400_000],
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let text = pieces.concat();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
            prop_assert_eq!(split(max, chunks), naive(max, &text));
        }
    }
}
