//! The containers that a scan is in.

/// An open container, or the place around all.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Where what is in it begins: in the tape, or else its keys among those of all open objects.
    pub(super) inside: u32,
    /// How many keys an object has so far, or [`ARRAY`], [`FAR`] or [`OUTSIDE`].
    pub(super) keys: u32,
    /// A bit for each of its keys, by their prints: two equal keys have one bit.
    pub(super) bits: u64,
}

impl Frame {
    pub(super) const AROUND: Self = Self { inside: 0, keys: OUTSIDE, bits: 0 };

    fn far(is_array: bool) -> Self {
        Self { inside: 0, keys: if is_array { ARRAY } else { FAR }, bits: 0 }
    }
}

pub(super) const ARRAY: u32 = u32::MAX;
pub(super) const OUTSIDE: u32 = u32::MAX - 1;
/// An object so far inside that its keys are not compared.
pub(super) const FAR: u32 = u32::MAX - 2;

/// So many levels are known by all that is to be known of them: more than `--max-depth` allows, and what stands around
/// a value. A text of more is refused wherever it could be kept; of the levels beyond is kept, one bit for each, only
/// whether they are arrays, so that a text is JSON or not at any depth.
pub(super) const NEAR: usize = 1 << 14;

/// The containers around the innermost open one, and the place around them all.
#[derive(Default)]
pub(super) struct Nesting {
    near: Vec<Frame>,
    /// Whether each of those beyond is an array, by bits.
    far: Vec<u64>,
    far_len: usize,
}

impl Nesting {
    pub(super) fn clear(&mut self) {
        self.near.clear();
        self.far.clear();
        self.far_len = 0;
    }

    /// Gives back memory that one extreme text has claimed.
    pub(super) fn trim(&mut self) {
        self.far = Vec::new();
    }

    /// How many there are; with `NEAR_ONLY` none of them is far inside.
    #[inline(always)]
    pub(super) fn len<const NEAR_ONLY: bool>(&self) -> usize {
        if NEAR_ONLY { self.near.len() } else { self.near.len() + self.far_len }
    }

    /// Whether a further one is far inside.
    #[inline(always)]
    pub(super) fn is_deep(&self) -> bool {
        self.near.len() >= NEAR
    }

    /// Notes one; false, and not noted, if it is far inside.
    #[inline(always)]
    pub(super) fn push(&mut self, frame: Frame) -> bool {
        if self.near.len() == self.near.capacity() && !self.grow() {
            return false;
        }
        self.near.push(frame);
        true
    }

    /// Makes room for one more, unless there are as many as there may be.
    #[cold]
    fn grow(&mut self) -> bool {
        let more = self.near.len() < NEAR;
        if more {
            self.near.reserve_exact(self.near.len().max(64).min(NEAR - self.near.len()));
        }
        more
    }

    /// Notes one that is far inside.
    #[cold]
    pub(super) fn push_far(&mut self, is_array: bool) {
        let (word, bit) = (self.far_len / 64, self.far_len % 64);
        match self.far.get_mut(word) {
            Some(bits) => *bits = *bits & !(1 << bit) | u64::from(is_array) << bit,
            None => self.far.push(u64::from(is_array)),
        }
        self.far_len += 1;
    }

    /// The innermost of them.
    #[inline(always)]
    pub(super) fn pop<const NEAR_ONLY: bool>(&mut self) -> Frame {
        if !NEAR_ONLY && self.far_len > 0 {
            return self.pop_far();
        }
        self.near.pop().unwrap_or(Frame::AROUND)
    }

    #[cold]
    fn pop_far(&mut self) -> Frame {
        self.far_len -= 1;
        let bits = self.far.get(self.far_len / 64).copied().unwrap_or(0);
        Frame::far(bits >> (self.far_len % 64) & 1 != 0)
    }
}
