//! Updates hold valid Unicode: a lone surrogate is shown as U+FFFD.
//!
//! An event may hold half of a surrogate pair as an escape and keeps it (PROTOCOL 3, Lossless). ACP's
//! clients cannot take it: those on serde drop the whole update, those on Python fail when they print
//! it. So the *update* shows a replacement character; the *event*, and every native read, is untouched.

use memchr::{memchr, memmem};

/// The escape of U+FFFD, as long as the one that it replaces.
const REPLACEMENT: &str = "\\ufffd";

/// Replaces the escapes of lone surrogates in the JSON text from `from` on.
pub(super) fn mend(text: &mut String, from: usize) {
    let written = text.as_bytes().get(from..).unwrap_or(&[]);
    // Only now and then does a text hold a surrogate at all.
    if memmem::find(written, b"\\ud").is_none() && memmem::find(written, b"\\uD").is_none() {
        return;
    }
    for lone in lone_surrogates(written) {
        let start = from + lone;
        text.replace_range(start..start + REPLACEMENT.len(), REPLACEMENT);
    }
}

/// Where the escapes of lone surrogates stand in a JSON text.
fn lone_surrogates(text: &[u8]) -> Vec<usize> {
    let mut lone = Vec::new();
    let mut at = 0;
    while let Some(found) = memchr(b'\\', text.get(at..).unwrap_or(&[])) {
        let escape = at + found;
        at = match surrogate(text, escape) {
            None => escape + 2, // the escaped character may be a backslash
            Some(Half::High) if surrogate(text, escape + 6) == Some(Half::Low) => escape + 12,
            Some(_) => {
                lone.push(escape);
                escape + 6
            }
        };
    }
    lone
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    High,
    Low,
}

/// The surrogate whose escape begins at `at`.
fn surrogate(text: &[u8], at: usize) -> Option<Half> {
    match text.get(at..at + 6)? {
        [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..] => Some(Half::High),
        [b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..] => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::mend;

    fn mended(text: &str) -> String {
        let mut whole = format!(r#""\ud83d"{text}"#);
        mend(&mut whole, 8);
        assert!(whole.starts_with(r#""\ud83d""#), "what stands before is left alone");
        whole.split_off(8)
    }

    #[test]
    fn only_lone_halves_are_replaced() {
        for kept in [r"\ud83d\ude00", r"\uD83D\uDE00", r"\\ud83d", r"\ud7ff", r"\ue000", "é😀", r"\n\\\u0041"]
        {
            assert_eq!(mended(kept), kept);
        }
        assert_eq!(mended(r"\ud83d"), r"\ufffd");
        assert_eq!(mended(r"a\uDE00b"), r"a\ufffdb");
        assert_eq!(mended(r"\ud83d\ud83d\ude00\ude00"), r"\ufffd\ud83d\ude00\ufffd");
        assert_eq!(mended(r"\\\ud83d\\ude00"), r"\\\ufffd\\ude00");
    }
}
