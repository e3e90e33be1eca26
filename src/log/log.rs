//! The log: shared sealed segments and an open tail, whose lines are written, or adopted with the text that holds them.

use std::collections::HashSet;
use std::sync::Arc;

use imbl::Vector;

use super::draft::{Draft, Holder, Line, TimeText, is_time};
use super::event::Event;
use super::segment::{Lines, Run, Segment};
use super::seq::{Offset, Seq};

/// A sealed segment and how much of it this log sees: a fork may end inside one.
#[derive(Clone, Debug)]
struct Part {
    segment: Arc<Segment>,
    count: u32,
}

/// An append-only sequence of encoded events.
///
/// Cloning, forking and cutting share the sealed segments, so their cost does not follow the length.
#[derive(Debug)]
pub struct Log {
    parts: Vector<Part>,
    tail: Segment,
    /// Bytes of lines in the segments since the last one that was told as fresh.
    untold: usize,
    /// The time of the last event that was written.
    time: TimeText,
}

/// Bytes of a log's first segment; each next one doubles, up to [`SEGMENT_MAX`].
const SEGMENT_MIN: usize = 1 << 10;
const SEGMENT_MAX: usize = 1 << 20;

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}

impl Log {
    /// An empty log. It claims no memory.
    pub fn new() -> Self {
        Self::starting_at(Offset::ZERO)
    }

    /// A log without events whose first one gets that seq: for encoding events apart from their log.
    pub fn starting_at(offset: Offset) -> Self {
        Self { parts: Vector::new(), tail: Segment::new(offset, 0), untold: 0, time: TimeText::default() }
    }

    /// Events held: the seq that the next one gets.
    pub fn len(&self) -> Offset {
        self.tail.first().plus(u64::from(self.tail.len()))
    }

    /// Whether it holds no event.
    pub fn is_empty(&self) -> bool {
        self.len() == Offset::ZERO
    }

    /// Encodes an event at the end and gives its seq. `time` must be a safe integer.
    ///
    /// True after the call: a new segment was begun for it, so that a caller who keeps states per
    /// segment can take one. Of [adopted](Self::put) segments, one in each 1 MiB counts as new.
    pub fn push(&mut self, draft: &Draft<'_>, time: i64) -> (Seq, bool) {
        let (event, fresh) = self.put(draft, draft.max_len(), time);
        (event.seq(), fresh)
    }

    /// The same where the draft's [`Draft::max_len`] is known, in bytes; gives the event itself.
    ///
    /// Where encoding would give the line that the draft was read from, and a [text holds it](Line::held_by) at its
    /// start or behind the line that was adopted last, nothing is copied: the text becomes a segment. The log keeps it
    /// if no more than an eighth of its memory is beside the lines that were adopted; see [`Self::settle`].
    #[inline]
    pub fn put(&mut self, draft: &Draft<'_>, max_len: usize, time: i64) -> (Event<'_>, bool) {
        debug_assert!(is_time(time));
        if let Some(line) = draft.line
            && let Some(holder) = line.holder()
            && let Some((line, fresh)) = self.adopt(draft, holder, time)
        {
            return (self.tail.take(draft, line), fresh);
        }
        let need = max_len + 1;
        let fresh = self.tail.room() < need && self.make_room(need);
        self.time.set(time);
        (self.tail.push(draft, &self.time), fresh)
    }

    /// Makes the tail one to which the held line belongs next, if there is such a tail; true with it: a segment was begun
    /// that is to be told.
    #[inline(never)]
    fn adopt<'d>(&mut self, draft: &Draft<'d>, holder: Holder<'d>, time: i64) -> Option<(Line<'d>, bool)> {
        let line = draft.line_at(self.len().next(), time)?;
        if self.tail.goes_on_in(holder) {
            return Some((line, false));
        }
        // Places in a segment have 32 bits.
        if holder.start > 0 || u32::try_from(holder.text.len()).is_err() {
            return None;
        }
        self.untold += self.tail.bytes();
        let fresh = self.untold >= SEGMENT_MAX;
        if fresh {
            self.untold = 0;
        }
        self.seal(0);
        self.tail = Segment::sharing(self.len(), Arc::clone(holder.text));
        Some((line, fresh))
    }

    /// No more lines are adopted for now: gives back what is kept for little.
    pub fn settle(&mut self) {
        if self.tail.is_shared() {
            self.tail.shrink();
        }
    }

    /// Sees to it that so many bytes fit into the tail; true if it is a new one.
    fn make_room(&mut self, need: usize) -> bool {
        let next = self.tail.next_capacity().clamp(SEGMENT_MIN, SEGMENT_MAX);
        self.seal(next.max(need));
        self.untold = 0;
        true
    }

    /// The exact length of the line that a draft would get, in bytes.
    pub fn encoded_len(&self, draft: &Draft<'_>, time: i64) -> usize {
        draft.encoded_len(self.len().next(), time)
    }

    /// Shares the tail, so that what follows goes into a new segment.
    fn seal(&mut self, next_capacity: usize) {
        let next = Segment::new(self.len(), next_capacity);
        let mut sealed = std::mem::replace(&mut self.tail, next);
        if !sealed.is_empty() {
            sealed.shrink();
            let count = sealed.len();
            self.parts.push_back(Part { segment: Arc::new(sealed), count });
        }
    }

    /// The part that holds `seq`, by index.
    fn part_of(&self, seq: Seq) -> Option<&Part> {
        let at = match self.parts.binary_search_by(|part| part.segment.first().cmp(&seq.before())) {
            Ok(at) => at,
            Err(after) => after.checked_sub(1)?,
        };
        self.parts.get(at)
    }

    /// The event at `seq`.
    pub fn get(&self, seq: Seq) -> Option<Event<'_>> {
        if let Some(at) = seq.get().checked_sub(self.tail.first().get()) {
            return self.tail.event(u32::try_from(at).ok()?);
        }
        let part = self.part_of(seq)?;
        let at = u32::try_from(seq.get() - part.segment.first().get()).ok()?;
        if at < part.count { part.segment.event(at) } else { None }
    }

    /// The last event.
    #[inline]
    pub fn last(&self) -> Option<Event<'_>> {
        // The tail of a log that was cut, or shared a moment ago, is empty.
        self.tail.last().or_else(|| self.len().last().and_then(|seq| self.get(seq)))
    }

    /// The events from `from` up to, not including, `to`; both ends are cut to the log.
    pub fn range(&self, from: Offset, to: Offset) -> Range<'_> {
        let to = to.min(self.len());
        Range { found: self.finder(), next: from.min(to), end: to }
    }

    /// Looks up events that mostly lie close together.
    pub fn finder(&self) -> Finder<'_> {
        Finder { log: self, run: None }
    }

    /// All events.
    pub fn iter(&self) -> Range<'_> {
        self.range(Offset::ZERO, self.len())
    }

    /// A segment with the seq of its first event and the count of its visible ones, that holds `seq`.
    fn run_at(&self, seq: Seq) -> Option<(&Segment, u32)> {
        if seq.before() >= self.tail.first() {
            return Some((&self.tail, self.tail.len()));
        }
        let part = self.part_of(seq)?;
        Some((&part.segment, part.count))
    }

    /// The events from `from` up to, not including, `to`, by the segments that hold them; both ends are cut to the log.
    pub fn runs(&self, from: Offset, to: Offset) -> impl DoubleEndedIterator<Item = Run<'_>> {
        let to = to.min(self.len());
        let from = from.min(to);
        // Offsets rise along the parts: these are the first that ends behind `from` and the first that begins at `to`.
        let index = |offset: Offset| self.parts.binary_search_by(|part| part.segment.first().cmp(&offset));
        let first = index(from).unwrap_or_else(|after| after.saturating_sub(1));
        let last = index(to).unwrap_or_else(|after| after).max(first);
        let parts = self.parts.focus().narrow(first..last).into_iter();
        let runs = parts.map(|part| (&*part.segment, part.count)).chain([(&self.tail, self.tail.len())]);
        runs.filter_map(move |(segment, count)| {
            let start = segment.first();
            let (from, to) = (from.max(start), to.min(start.plus(u64::from(count))));
            let at = |offset: Offset| (offset.get() - start.get()) as u32;
            (from < to).then(|| Run::new(segment, at(from), at(to)))
        })
    }

    /// The lines of `from..to` in contiguous runs, each line ended by `\n`.
    pub fn lines(&self, from: Offset, to: Offset) -> Lines<'_> {
        let runs: Vec<_> = self.runs(from, to).map(|run| run.lines()).collect();
        Lines { runs: runs.into_iter() }
    }

    /// A log of the first `length` events, which shares them with this one. The length is cut to the log.
    pub fn fork(&mut self, length: Offset) -> Self {
        if length > self.tail.first() {
            self.seal(0);
        }
        let mut child = Self { parts: self.parts.clone(), ..Self::starting_at(self.len()) };
        child.truncate(length);
        child
    }

    /// Forgets the events from `length` on: they were never written. Shared segments stay whole for others.
    pub fn truncate(&mut self, length: Offset) {
        if length >= self.len() {
            return;
        }
        if let Some(keep) = length.get().checked_sub(self.tail.first().get()) {
            self.tail.truncate(keep as u32);
            return;
        }
        while let Some(mut part) = self.parts.pop_back() {
            let first = part.segment.first();
            if first < length {
                part.count = part.count.min((length.get() - first.get()) as u32);
                self.parts.push_back(part);
                break;
            }
        }
        self.tail = Segment::new(length, 0);
    }

    /// Bytes of memory that this log's lines and indexes take, shared ones included.
    pub fn footprint(&self) -> usize {
        self.parts.iter().map(|part| part.segment.footprint()).sum::<usize>() + self.tail.footprint()
    }

    /// Bytes of lines that this log keeps in memory, but for the segments that are in `seen`, to which it adds its own:
    /// what logs share is counted once.
    pub fn held_bytes(&self, seen: &mut HashSet<usize>) -> usize {
        let unseen = self.parts.iter().filter(|part| seen.insert(Arc::as_ptr(&part.segment).addr()));
        unseen.map(|part| part.segment.bytes()).sum::<usize>() + self.tail.bytes()
    }
}

/// Looks up events; it remembers where the last one was.
#[derive(Clone)]
pub struct Finder<'a> {
    log: &'a Log,
    /// The segment that the last event was in, with the count of its visible events.
    run: Option<(&'a Segment, u32)>,
}

impl<'a> Finder<'a> {
    /// The event at `seq`.
    pub fn get(&mut self, seq: Seq) -> Option<Event<'a>> {
        let inside = |(segment, count): &(&Segment, u32)| {
            let first = segment.first().get();
            (first..first + u64::from(*count)).contains(&seq.get())
        };
        if !self.run.as_ref().is_some_and(inside) {
            self.run = self.log.run_at(seq);
        }
        let (segment, _) = self.run?;
        segment.event((seq.get() - segment.first().get()) as u32)
    }
}

/// Iterator over consecutive events, from both ends.
#[derive(Clone)]
pub struct Range<'a> {
    found: Finder<'a>,
    next: Offset,
    end: Offset,
}

impl<'a> Iterator for Range<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        if self.next >= self.end {
            return None;
        }
        let seq = self.next.next();
        self.next = seq.after();
        self.found.get(seq)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end.get() - self.next.get()) as usize;
        (left, Some(left))
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        let seq = self.end.last()?;
        self.end = seq.before();
        self.found.get(seq)
    }
}

impl ExactSizeIterator for Range<'_> {}
