//! A run of encoded events in one text.

use std::sync::Arc;

use super::draft::{Draft, Holder, Line, TimeText};
use super::event::{Event, Meta};
use super::segment_text::SegmentText;
use super::seq::{Offset, Seq};
use super::types::{HeldTypes, TypeSet};

/// Lines of consecutive events, each ended by `\n`, with an index. A log appends to an open segment;
/// a sealed one never changes and is shared by forks and readers.
#[derive(Debug)]
pub(super) struct Segment {
    first: Offset,
    text: SegmentText,
    index: Vec<Meta>,
    types: HeldTypes,
}

impl Segment {
    pub(super) fn new(first: Offset, capacity: usize) -> Self {
        Self::of(first, SegmentText::new(capacity))
    }

    /// One whose lines that text holds already, and which [takes](Self::take) them from its front.
    pub(super) fn sharing(first: Offset, text: Arc<String>) -> Self {
        Self::of(first, SegmentText::sharing(text))
    }

    fn of(first: Offset, text: SegmentText) -> Self {
        Self { first, text, index: Vec::new(), types: HeldTypes::default() }
    }

    /// Events held.
    pub(super) fn len(&self) -> u32 {
        self.index.len() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    pub(super) fn first(&self) -> Offset {
        self.first
    }

    /// Bytes for the segment behind this one: twice as many where lines were written, so that few are needed, and as
    /// many as there are where they were adopted, as nothing may follow them.
    pub(super) fn next_capacity(&self) -> usize {
        match &self.text {
            SegmentText::Own(text) => text.capacity() * 2,
            SegmentText::Shared { used, .. } => *used,
        }
    }

    /// Bytes of lines.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Bytes that fit without moving the text.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.text.room()
    }

    /// Bytes claimed: text, index and names of types.
    pub(super) fn footprint(&self) -> usize {
        self.text.footprint() + self.index.capacity() * size_of::<Meta>() + self.types.footprint()
    }

    /// The seq that the next event gets.
    #[inline]
    fn next_seq(&self) -> Seq {
        self.first.plus(u64::from(self.len())).next()
    }

    #[inline]
    pub(super) fn push(&mut self, draft: &Draft<'_>, time: &TimeText) -> Event<'_> {
        let seq = self.next_seq();
        match self.text {
            SegmentText::Own(ref mut text) => {
                let start = text.len();
                let meta = Meta::of(draft, start, draft.encode(seq, time, text));
                text.push('\n');
                self.index.push(meta);
                self.types.note(draft.kind, draft.type_text);
                Event::new(text.get(start..meta.end as usize).unwrap_or(""), meta, seq)
            }
            SegmentText::Shared { .. } => self.push_behind_shared(draft, time),
        }
    }

    /// A text that others hold does not grow.
    #[cold]
    fn push_behind_shared(&mut self, draft: &Draft<'_>, time: &TimeText) -> Event<'_> {
        self.text.own();
        self.push(draft, time)
    }

    /// Whether the line that is held there is the next one of the segment's text.
    #[inline]
    pub(super) fn goes_on_in(&self, holder: Holder<'_>) -> bool {
        matches!(&self.text, SegmentText::Shared { text, used } if *used == holder.start && Arc::ptr_eq(text, holder.text))
    }

    /// Takes an event whose line is the [next one](Self::goes_on_in).
    #[inline]
    pub(super) fn take(&mut self, draft: &Draft<'_>, line: Line<'_>) -> Event<'_> {
        let (seq, start) = (self.next_seq(), self.text.len());
        let meta = Meta::of(draft, start, draft.within(line.text()));
        self.text.take(line.len() + 1);
        self.index.push(meta);
        self.types.note(draft.kind, draft.type_text);
        Event::new(self.text.get(start, meta.end as usize).unwrap_or(""), meta, seq)
    }

    /// First byte of the line at `at`, or the end of the last one.
    fn line_start(&self, at: u32) -> usize {
        let before =
            at.checked_sub(1).and_then(|before| self.index.get(before as usize).or(self.index.last()));
        before.map_or(0, |meta| meta.end as usize + 1)
    }

    #[inline]
    pub(super) fn event(&self, at: u32) -> Option<Event<'_>> {
        let meta = *self.index.get(at as usize)?;
        let start = match at.checked_sub(1) {
            None => 0,
            Some(before) => self.index.get(before as usize)?.end as usize + 1,
        };
        let line = self.text.get(start, meta.end as usize)?;
        Some(Event::new(line, meta, self.first.plus(u64::from(at)).next()))
    }

    /// The last event.
    #[inline]
    pub(super) fn last(&self) -> Option<Event<'_>> {
        let (meta, before) = self.index.split_last()?;
        let start = before.last().map_or(0, |before| before.end as usize + 1);
        let line = self.text.get(start, meta.end as usize)?;
        Some(Event::new(line, *meta, self.first.plus(before.len() as u64).next()))
    }

    /// The lines of events `from..to`, each with its line end.
    pub(super) fn lines(&self, from: u32, to: u32) -> &str {
        self.text.get(self.line_start(from), self.line_start(to)).unwrap_or("")
    }

    pub(super) fn truncate(&mut self, count: u32) {
        let end = self.line_start(count);
        self.text.truncate(end);
        self.index.truncate(count as usize);
    }

    /// Whether others may hold its text.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.text, SegmentText::Shared { .. })
    }

    /// Gives back what is claimed and not used.
    pub(super) fn shrink(&mut self) {
        self.text.shrink();
        self.index.shrink_to_fit();
        self.types.shrink();
    }
}

/// Consecutive events of one segment, from both ends.
pub struct Run<'a> {
    segment: &'a Segment,
    next: u32,
    end: u32,
}

impl<'a> Run<'a> {
    /// The events of a segment from one index up to another.
    pub(super) fn new(segment: &'a Segment, next: u32, end: u32) -> Self {
        Self { segment, next, end }
    }

    /// Whether an event of these types may be among them; false is certain.
    pub fn may_have(&self, types: &TypeSet<'_>) -> bool {
        types.meets(&self.segment.types)
    }

    /// Their lines, each with its line end.
    pub(super) fn lines(&self) -> &'a str {
        self.segment.lines(self.next, self.end)
    }
}

impl<'a> Iterator for Run<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        let at = self.next;
        (at < self.end).then(|| self.next += 1)?;
        self.segment.event(at)
    }
}

impl DoubleEndedIterator for Run<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        (self.next < self.end).then(|| self.end -= 1)?;
        self.segment.event(self.end)
    }
}

/// Iterator over contiguous runs of lines, each line ended by `\n`: what is written to disk.
pub struct Lines<'a> {
    pub(super) runs: std::vec::IntoIter<&'a str>,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.runs.next()
    }
}
