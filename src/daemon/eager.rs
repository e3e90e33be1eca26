//! Whether it pays to read before waiting.
//!
//! A client that an answer has woken may run before the daemon goes on, and write its next request: where both share a
//! processor that is most often so, and a wait would only be one more system call. Where they do not, the input is
//! empty, and the read is the one too many. So it is tried while it mostly succeeds.

/// What the last tries have found.
#[derive(Debug, Default)]
pub(super) struct Eager {
    luck: u8,
    /// Turns since the last try.
    rested: u8,
}

impl Eager {
    /// After so many turns without luck it is tried again.
    const REST: u8 = 16;
    /// Luck is not saved up beyond this: after four tries in a row that fail there is none.
    const MOST: u8 = 8;

    /// Whether to try in this turn.
    pub(super) fn tries(&mut self) -> bool {
        self.rested = if self.luck > 0 { 0 } else { (self.rested + 1) % Self::REST };
        self.rested == 0
    }

    /// A try has found something, or not.
    pub(super) fn note(&mut self, found: bool) {
        self.luck = if found { (self.luck + 1).min(Self::MOST) } else { self.luck.saturating_sub(2) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many turns are tried where that is what a try finds.
    fn tried(turns: usize, finds: impl Fn(usize) -> bool) -> usize {
        let mut eager = Eager::default();
        let tries = |turn: &usize| {
            let tries = eager.tries();
            if tries {
                eager.note(finds(*turn));
            }
            tries
        };
        (0..turns).filter(tries).count()
    }

    #[test]
    fn it_is_tried_while_it_mostly_succeeds_and_seldom_otherwise() {
        assert_eq!(tried(1_600, |_| false), 100);
        assert!(tried(1_600, |_| true) > 1_500);
        assert!(tried(1_600, |turn| turn % 9 != 0) > 1_500);
        assert!(tried(1_600, |turn| turn % 3 == 0) < 400);
    }
}
