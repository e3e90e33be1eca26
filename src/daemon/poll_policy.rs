//! Whether it pays to read before waiting.
//!
//! A client that an answer has woken may run before the daemon goes on, and write its next request: where both share a
//! processor that is most often so, and a wait would only be one more system call. Where they do not, the input is
//! empty, and the read is the one too many. So it is tried while it mostly succeeds.

use crate::stdio::Filled;

/// What the last tries have found.
#[derive(Debug, Default)]
pub(crate) struct Eager {
    luck: u8,
    /// Turns since the last try.
    rested: u8,
    /// Tries one behind the other.
    row: u8,
}

impl Eager {
    /// After so many turns without luck it is tried again.
    const REST: u8 = 16;
    /// Luck is not saved up beyond this: after four tries in a row that fail there is none.
    const MOST: u8 = 8;
    /// After so many tries in a row it is waited, as only a wait tells that the output's reader is gone.
    const ROW: u8 = 32;

    /// Whether to try in this turn.
    pub(crate) fn tries(&mut self) -> bool {
        self.rested = if self.luck > 0 { 0 } else { (self.rested + 1) % Self::REST };
        let tries = self.rested == 0 && self.row < Self::ROW;
        self.row = if tries { self.row + 1 } else { 0 };
        tries
    }

    /// What a try has found: none if that was nothing.
    pub(crate) fn note<E>(&mut self, tried: Result<Filled, E>) -> Option<Result<Filled, E>> {
        let found = !matches!(tried, Ok(Filled::NotReady));
        self.luck = if found { (self.luck + 1).min(Self::MOST) } else { self.luck.saturating_sub(2) };
        found.then_some(tried)
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
                eager.note::<()>(Ok(if finds(*turn) { Filled::Bytes(1) } else { Filled::NotReady }));
            }
            tries
        };
        (0..turns).filter(tries).count()
    }

    #[test]
    fn it_is_tried_while_it_mostly_succeeds_and_seldom_otherwise() {
        assert_eq!(tried(1_600, |_| false), 100);
        assert!((1_501..1_560).contains(&tried(1_600, |_| true)), "now and then it is waited");
        assert!(tried(1_600, |turn| turn % 9 != 0) > 1_500);
        assert!(tried(1_600, |turn| turn % 3 == 0) < 400);
    }
}
