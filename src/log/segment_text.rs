//! Where a segment's lines lie: in a text of its own, or in one that came with its lines in it.

use std::sync::Arc;

/// Lines one behind the other, each ended by `\n`.
#[derive(Debug)]
pub(super) enum SegmentText {
    /// Grows by a line at a time.
    Own(String),
    /// The front of a text that others may hold too, so many bytes of it. It never changes.
    Shared { text: Arc<String>, used: usize },
}

impl SegmentText {
    pub(super) fn new(capacity: usize) -> Self {
        Self::Own(String::with_capacity(capacity))
    }

    /// Takes lines of that text, of which none is taken yet.
    pub(super) fn sharing(text: Arc<String>) -> Self {
        Self::Shared { text, used: 0 }
    }

    /// A part of the lines, in bytes.
    #[inline]
    pub(super) fn get(&self, from: usize, to: usize) -> Option<&str> {
        match self {
            Self::Own(text) => text.get(from..to),
            Self::Shared { text, .. } => text.get(from..to),
        }
    }

    /// Bytes of the lines.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Own(text) => text.len(),
            Self::Shared { used, .. } => *used,
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

    /// Takes the next line of a text that is shared, with so many bytes and its line end.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) {
        if let Self::Shared { text, used } = self {
            debug_assert!(text.get(*used..*used + bytes).is_some_and(|line| line.ends_with('\n')));
            *used += bytes;
        }
    }

    /// Copies shared lines into a text of their own.
    #[cold]
    pub(super) fn own(&mut self) {
        *self = Self::Own(self.get(0, self.len()).unwrap_or("").to_owned());
    }

    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Self::Own(text) => text.truncate(len),
            Self::Shared { used, .. } => {
                *used = len.min(*used);
                self.shrink();
            }
        }
    }

    /// Gives back what is claimed and not used, but for a shared text's last eighth.
    pub(super) fn shrink(&mut self) {
        match self {
            Self::Own(text) => text.shrink_to_fit(),
            Self::Shared { text, used } if text.capacity() - *used <= text.capacity() / 8 => {}
            Self::Shared { .. } => self.own(),
        }
    }
}

/// What a shared text takes beside its bytes: the counts and the string behind the `Arc`.
const SHARING: usize = 2 * size_of::<usize>() + size_of::<String>();
