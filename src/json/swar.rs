//! Decimal digits, eight looked at together.

/// Digits that are looked at together.
const EIGHT: usize = 8;
const ZEROS: u64 = u64::from_le_bytes([b'0'; EIGHT]);
/// Added to a digit's value it stays below 128, added to any greater byte it does not.
const OVER_NINE: u64 = u64::from_le_bytes([0x80 - 10; EIGHT]);
const HIGH_BITS: u64 = u64::from_le_bytes([0x80; EIGHT]);

/// How many of the bytes are digits before the first that is none.
#[inline(always)]
pub(super) fn leading(bytes: [u8; EIGHT]) -> usize {
    let values = u64::from_le_bytes(bytes) ^ ZEROS;
    // A byte that is no digit may carry into those behind it, never into one before it.
    let others = (values.wrapping_add(OVER_NINE) | values) & HIGH_BITS;
    others.trailing_zeros() as usize / 8
}

/// One past the run of digits that begins there.
#[inline]
pub(super) fn end_of_digits(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let count = leading(*chunk);
        at += count;
        if count < EIGHT {
            return at;
        }
    }
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    at
}

/// The number that up to eighteen digits spell; none for other bytes and for no or more digits.
#[inline]
pub(super) fn value_of(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let (mut value, mut rest) = (0, digits);
    while let Some((chunk, after)) = rest.split_first_chunk() {
        if leading(*chunk) < EIGHT {
            return None;
        }
        (value, rest) = (value * 100_000_000 + value_of_eight(*chunk), after);
    }
    for byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(value)
}

/// Pairs, fours and eights of digits are put together, all at each step.
#[inline(always)]
fn value_of_eight(digits: [u8; EIGHT]) -> i64 {
    let ones = u64::from_le_bytes(digits) ^ ZEROS;
    let pairs = ones.wrapping_mul(10).wrapping_add(ones >> 8) & 0x00FF_00FF_00FF_00FF;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_FFFF_0000_FFFF;
    (fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xFFFF_FFFF) as i64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_every_byte_that_is_no_digit() {
        for len in 0..20 {
            for byte in 0..=u8::MAX {
                let mut text = vec![b'7'; len];
                text.push(byte);
                text.extend_from_slice(b"123456789012");
                let expected = if byte.is_ascii_digit() { text.len() } else { len };
                assert_eq!(end_of_digits(&text, 0), expected, "{byte:#x} at {len}");
                let one = &text[..=len];
                assert_eq!(value_of(one).is_some(), byte.is_ascii_digit() && len < 18, "{byte:#x} at {len}");
            }
        }
    }

    #[test]
    fn values_are_those_of_the_standard_library() {
        let mut number: u64 = 1;
        for _ in 0..20_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            for digits in 1..=18 {
                let text = (number % 10_u64.pow(digits)).to_string();
                assert_eq!(value_of(text.as_bytes()), Some(text.parse().unwrap()), "{text}");
            }
        }
        assert_eq!([value_of(b""), value_of(b"00000000000000001")], [None, Some(1)]);
    }
}
