//! Positions in a log.

use std::fmt;

use crate::json::MAX_SAFE_INTEGER;

/// The position of an existing event: 0 for the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

/// A gap between events: a prefix length, a log length or a read bound. It may equal the event count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(u64);

impl Seq {
    /// The first event.
    pub const ZERO: Self = Self(0);

    /// A seq is a safe integer (below 2^53).
    pub fn new(value: u64) -> Option<Self> {
        (value <= MAX_SAFE_INTEGER).then_some(Self(value))
    }

    /// The number on the wire and on disk.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The gap before this event: the length of the prefix that ends just before it.
    pub fn before(self) -> Offset {
        Offset(self.0)
    }

    /// The gap after this event: the length of the prefix that ends with it.
    pub fn after(self) -> Offset {
        Offset(self.0 + 1)
    }
}

impl Offset {
    /// The gap before the first event.
    pub const ZERO: Self = Self(0);

    /// An offset is a safe integer (below 2^53).
    pub fn new(value: u64) -> Option<Self> {
        (value <= MAX_SAFE_INTEGER).then_some(Self(value))
    }

    /// The number on the wire and on disk.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The seq of the event after this gap.
    pub fn next(self) -> Seq {
        Seq(self.0)
    }

    /// The seq of the event before this gap; none at the start.
    pub fn last(self) -> Option<Seq> {
        self.0.checked_sub(1).map(Seq)
    }

    /// This gap moved on by `count` events.
    pub fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
