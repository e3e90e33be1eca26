//! Sixteen bytes of a string looked at together: where it ends or bends, and whether it is ASCII.

use wide::u8x16;

/// Bytes that are looked at together.
pub(super) const LANES: usize = 16;

/// What is to be known of [`LANES`] bytes.
pub(super) struct Marks {
    /// A bit for each byte that ends or bends a string: quote, backslash or control character.
    pub(super) stops: u32,
    /// A bit for each byte that is beyond ASCII.
    pub(super) beyond_ascii: u32,
}

impl Marks {
    /// Looks at the bytes.
    #[inline(always)]
    pub(super) fn of(chunk: &[u8; LANES]) -> Self {
        let bytes = u8x16::new(*chunk);
        let is = |byte| bytes.cmp_eq(u8x16::splat(byte));
        let control = bytes.min(u8x16::splat(0x1F)).cmp_eq(bytes);
        let stops = is(b'"') | is(b'\\') | control;
        Self { stops: stops.move_mask() as u32, beyond_ascii: bytes.move_mask() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_told_at_every_place() {
        for byte in 0..=u8::MAX {
            for at in 0..LANES {
                let chunk = std::array::from_fn(|place| if place == at { byte } else { b'a' });
                let marks = Marks::of(&chunk);
                let stops = matches!(byte, b'"' | b'\\' | 0..0x20);
                assert_eq!(marks.stops, u32::from(stops) << at, "{byte:#x} at {at}");
                assert_eq!(marks.beyond_ascii, u32::from(!byte.is_ascii()) << at, "{byte:#x} at {at}");
            }
        }
    }
}
