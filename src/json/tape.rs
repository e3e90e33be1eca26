//! Where the values of a scanned text stand, noted while it is scanned.
//!
//! With it a value's members are found without looking at the text again. It is a help, never a need:
//! text without a tape, or with too many values for one, is walked by its bytes.

use std::ops::Range;

use super::token::Refused;

/// One value inside a container, with the key that it stands under.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    /// First byte of the value in the scanned text.
    pub(super) start: u32,
    /// One past its last byte.
    pub(super) end: u32,
    /// First byte of its key with the quote; in an array the two are equal.
    pub(super) key: u32,
    /// One past the key's closing quote.
    pub(super) key_end: u32,
    /// Values inside it, all the way down: its next sibling's node comes after theirs. The two high
    /// bits are [`Escapes`].
    inside: u32,
}

const COUNT: u32 = Escapes::IN_KEY.0 - 1;

/// Whether there are escapes in a key, and in its value if that is a string.
#[derive(Clone, Copy, Default)]
pub(super) struct Escapes(u32);

impl Escapes {
    pub(super) const NONE: Self = Self(0);
    pub(super) const IN_KEY: Self = Self(1 << 30);
    pub(super) const IN_VALUE: Self = Self(1 << 31);

    pub(super) fn is_in_key(self) -> bool {
        self.0 & Self::IN_KEY.0 != 0
    }
}

/// The key of a member; an array's element has none.
#[derive(Clone, Copy, Default)]
pub(super) struct KeySpan {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) escapes: Escapes,
}

impl Node {
    /// A scalar, or a container that is not closed yet.
    #[inline(always)]
    pub(super) fn new(key: KeySpan, start: usize, end: usize, value: Escapes) -> Self {
        let inside = key.escapes.0 | value.0;
        Self { start: start as u32, end: end as u32, key: key.start, key_end: key.end, inside }
    }

    /// All that it says; where there is no key, its place is of no meaning.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> [u32; 5] {
        let key = if self.key == self.key_end { [0; 2] } else { [self.key, self.key_end] };
        [self.start, self.end, key[0], key[1], self.inside]
    }

    /// The same without an escape in the value.
    pub(super) fn straight(&self) -> Self {
        Self { inside: self.inside & !Escapes::IN_VALUE.0, ..*self }
    }

    /// Values inside this one.
    #[inline]
    pub(super) fn inside(&self) -> usize {
        (self.inside & COUNT) as usize
    }

    /// The value is a string with an escape in it.
    #[inline]
    pub(super) fn is_escaped(&self) -> bool {
        self.inside & Escapes::IN_VALUE.0 != 0
    }

    /// The key has an escape in it.
    #[inline]
    pub(super) fn is_key_escaped(&self) -> bool {
        self.inside & Escapes::IN_KEY.0 != 0
    }
}

/// The tape of one text in the order of the text, the outermost value first.
#[derive(Default)]
pub(super) struct Tape {
    nodes: Vec<Node>,
    /// There were more values than are noted, or deeper ones: what was noted is of no use.
    full: bool,
}

/// Most values of a text that are noted (1.3 MB); one that holds more is walked by its bytes.
const MAX_NODES: usize = 1 << 16;

impl Tape {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.full = false;
    }

    /// Gives back memory that one extreme text has claimed.
    pub(super) fn trim(&mut self, keep: usize) {
        self.clear();
        self.nodes.shrink_to(keep);
    }

    /// Notes a value; refuses it when there are as many as there may be.
    #[inline(always)]
    pub(super) fn push(&mut self, node: Node) -> Result<(), Refused> {
        if self.nodes.len() == self.nodes.capacity() && !self.grow() {
            return Err(Refused);
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Makes room for one more node at least, unless there are as many as there may be.
    #[cold]
    fn grow(&mut self) -> bool {
        self.full = self.nodes.len() >= MAX_NODES;
        if !self.full {
            self.nodes.reserve(64);
        }
        !self.full
    }

    /// Notes no more: the text is to be read without a tape.
    #[cold]
    pub(super) fn give_up(&mut self) -> Refused {
        self.full = true;
        Refused
    }

    /// Notes these values behind what is noted; where the first is.
    #[inline(always)]
    pub(super) fn append(&mut self, nodes: &[Node]) -> usize {
        let first = self.nodes.len();
        self.nodes.extend_from_slice(nodes);
        first
    }

    /// Forgets what was noted from there on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.nodes.truncate(len);
    }

    /// Some of what is noted.
    #[inline(always)]
    pub(super) fn part(&self, values: Range<usize>) -> Option<&[Node]> {
        self.nodes.get(values)
    }

    /// Those values are so many bytes further on.
    #[inline(always)]
    pub(super) fn shift(&mut self, values: Range<usize>, by: u32) {
        for node in self.nodes.get_mut(values).unwrap_or_default() {
            for place in [&mut node.start, &mut node.end, &mut node.key, &mut node.key_end] {
                *place = place.wrapping_add(by);
            }
        }
    }

    /// That value ends there.
    #[inline(always)]
    pub(super) fn end_at(&mut self, value: usize, end: u32) {
        if let Some(node) = self.nodes.get_mut(value) {
            node.end = end;
        }
    }

    /// That value is a string with an escape in it.
    pub(super) fn bend(&mut self, at: usize) {
        if let Some(node) = self.nodes.get_mut(at) {
            node.inside |= Escapes::IN_VALUE.0;
        }
    }

    /// Where the next value's node goes.
    #[inline(always)]
    pub(super) fn next(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The container that the values from there on are in has ended.
    #[inline(always)]
    pub(super) fn close(&mut self, inside: u32, end: usize) {
        let next = self.next();
        if let Some(node) = self.nodes.get_mut(inside.wrapping_sub(1) as usize) {
            node.end = end as u32;
            node.inside |= next - inside;
        }
    }

    /// The keys of the innermost open object, whose values begin there; each of these has ended.
    pub(super) fn keys_from(&self, inside: u32) -> impl Iterator<Item = KeySpan> {
        let mut rest = self.nodes.get(inside as usize..).unwrap_or(&[]);
        std::iter::from_fn(move || {
            let node = rest.first()?;
            rest = rest.get(1 + node.inside()..).unwrap_or(&[]);
            let escapes = if node.is_key_escaped() { Escapes::IN_KEY } else { Escapes::NONE };
            Some(KeySpan { start: node.key, end: node.key_end, escapes })
        })
    }

    /// Whether there were more values than are noted, or deeper ones.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// The outermost value's node and those inside it; nothing if they were too many.
    pub(super) fn whole(&self) -> &[Node] {
        if self.full { &[] } else { &self.nodes }
    }
}
