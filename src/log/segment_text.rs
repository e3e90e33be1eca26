//! Where a segment's lines lie: in a text of its own, or in one that came with its lines in it.

use std::sync::Arc;

/// Lines one behind the other, each ended by `\n`.
#[derive(Debug)]
pub(super) enum SegmentText {
    /// Grows by a line at a time.
    Own(String),
    /// The front of a text that others may hold too, so many bytes of it so far. It never changes.
    Shared { text: Arc<String>, used: usize },
}

impl SegmentText {
    pub(super) fn new(capacity: usize) -> Self {
        Self::Own(String::with_capacity(capacity))
    }

    /// Takes lines over from that text, of which none is taken yet.
    pub(super) fn sharing(text: Arc<String>) -> Self {
        Self::Shared { text, used: 0 }
    }

    /// The text with the lines in front.
    #[inline]
    fn whole(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Shared { text, .. } => text,
        }
    }

    /// A part of the lines, in bytes.
    #[inline]
    pub(super) fn get(&self, from: usize, to: usize) -> Option<&str> {
        self.whole().get(from..to)
    }

    /// Bytes of the lines.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Own(text) => text.len(),
            Self::Shared { used, .. } => *used,
        }
    }

    /// Bytes claimed for text.
    pub(super) fn capacity(&self) -> usize {
        match self {
            Self::Own(text) => text.capacity(),
            Self::Shared { text, .. } => text.capacity(),
        }
    }

    /// Bytes claimed.
    pub(super) fn footprint(&self) -> usize {
        match self {
            Self::Own(text) => text.capacity(),
            Self::Shared { text, .. } => text.capacity() + SHARING,
        }
    }

    /// Bytes that fit without moving the text.
    #[inline]
    pub(super) fn room(&self) -> usize {
        match self {
            Self::Own(text) => text.capacity() - text.len(),
            Self::Shared { .. } => 0,
        }
    }

    /// Whether `line` is the one that stands next in a text that is shared, and its line end behind it.
    #[inline]
    pub(super) fn is_followed_by(&self, line: &str) -> bool {
        matches!(self, Self::Shared { text, used } if stands_at(text, *used, line))
    }

    /// Takes a line: where lines are shared, the one that [stands next](Self::is_followed_by).
    #[inline]
    pub(super) fn take(&mut self, line: &str) {
        match self {
            Self::Own(text) => {
                text.push_str(line);
                text.push('\n');
            }
            Self::Shared { text, used } => {
                debug_assert!(stands_at(text, *used, line));
                *used += line.len() + 1;
            }
        }
    }

    /// Copies shared lines into a text of their own with room for so many bytes, or what they take if that is more.
    #[cold]
    pub(super) fn own(&mut self, capacity: usize) {
        let mut own = String::with_capacity(capacity.max(self.len()));
        own.push_str(self.get(0, self.len()).unwrap_or(""));
        *self = Self::Own(own);
    }

    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Self::Own(text) => text.truncate(len),
            Self::Shared { used, .. } => {
                *used = len.min(*used);
                self.spare();
            }
        }
    }

    /// Whether a shared text is worth its keeping: no more than an eighth of what is kept is beyond the lines.
    pub(super) fn is_worth_sharing(&self) -> bool {
        self.capacity() - self.len() <= self.capacity() / 8
    }

    /// Lets go of a shared text that is not [worth it](Self::is_worth_sharing).
    pub(super) fn spare(&mut self) {
        if matches!(self, Self::Shared { .. }) && !self.is_worth_sharing() {
            self.own(0);
        }
    }

    /// Gives back what is claimed and not used, but for a shared text's last eighth.
    pub(super) fn shrink(&mut self) {
        match self {
            Self::Own(text) => text.shrink_to_fit(),
            Self::Shared { .. } => self.spare(),
        }
    }
}

/// What a shared text takes beside its bytes: the counts and the string behind the `Arc`.
const SHARING: usize = 2 * size_of::<usize>() + size_of::<String>();

/// Whether `line` is the part of `text` that begins at that byte, and a line end follows. Addresses tell: what is
/// borrowed at the same time at the same place is the same.
#[inline]
pub(super) fn stands_at(text: &str, at: usize, line: &str) -> bool {
    text.as_ptr().addr() + at == line.as_ptr().addr()
        && text.as_bytes().get(at + line.len()).is_some_and(|end| *end == b'\n')
}
