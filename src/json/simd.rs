//! Bytes of a text looked at together: where a string ends or bends, and whether they are ASCII.

use wide::u8x16;

/// Bytes that the processor looks at together.
pub(super) const LANES: usize = 16;
/// Bytes that [`Marks::at`] looks at: a bit for each.
pub(super) const WIDTH: usize = 64;

/// What is to be known of up to [`WIDTH`] bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// A bit for each byte that ends or bends a string: quote, backslash or control character.
    pub(super) stops: u64,
    /// A bit for each place of [`LANES`] at which, in any of them, a byte beyond ASCII is.
    pub(super) beyond_ascii: u32,
}

impl Marks {
    /// Looks at `N` bytes, a multiple of [`LANES`] and [`WIDTH`] at most.
    #[inline(always)]
    pub(super) fn of<const N: usize>(bytes: &[u8; N]) -> Self {
        let (mut stops, mut beyond_ascii) = (0, u8x16::ZERO);
        for (at, lanes) in bytes.as_chunks::<LANES>().0.iter().enumerate() {
            let lanes = u8x16::new(*lanes);
            let is = |byte| lanes.cmp_eq(u8x16::splat(byte));
            let control = lanes.min(u8x16::splat(0x1F)).cmp_eq(lanes);
            let stop = is(b'"') | is(b'\\') | control;
            stops |= u64::from(stop.move_mask() as u32) << (at * LANES);
            beyond_ascii |= lanes;
        }
        Self { stops, beyond_ascii: beyond_ascii.move_mask() as u32 }
    }

    /// Looks at [`WIDTH`] bytes from there on. What is beyond the end of the text is a stop.
    #[inline(never)] // one copy of it for all kinds of string
    pub(super) fn at(text: &[u8], from: usize) -> Self {
        let rest = text.get(from..).unwrap_or(&[]);
        match rest.first_chunk::<WIDTH>() {
            Some(whole) => Self::of(whole),
            None => {
                let mut last = [0; WIDTH];
                last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                Self::of(&last)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_told_at_every_place() {
        for byte in 0..=u8::MAX {
            for at in 0..WIDTH {
                let chunk: [u8; WIDTH] = std::array::from_fn(|place| if place == at { byte } else { b'a' });
                let marks = Marks::of(&chunk);
                let stops = matches!(byte, b'"' | b'\\' | 0..0x20);
                assert_eq!(marks.stops, u64::from(stops) << at, "{byte:#x} at {at}");
                assert_eq!(marks.beyond_ascii != 0, !byte.is_ascii(), "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn what_is_beyond_the_end_is_a_stop() {
        for len in 0..2 * WIDTH {
            let text = vec![b'a'; len];
            for from in 0..=len {
                let stop = Marks::at(&text, from).stops.trailing_zeros() as usize;
                assert_eq!(stop, (len - from).min(WIDTH), "{from} of {len}");
            }
        }
    }
}
