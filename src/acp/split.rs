//! Cutting a long text without decoding it.

/// The longest beginning of `inner`, the JSON text of a string without quotes, that has at most `max`
/// bytes and ends between characters: not inside an escape, and not between two escapes that are one
/// surrogate pair. At least one character is taken, so that cutting ends.
pub(super) fn head(inner: &str, max: usize) -> (&str, &str) {
    if inner.len() <= max {
        return (inner, "");
    }
    let bytes = inner.as_bytes();
    let mut at = 0;
    let cut = loop {
        let window = bytes.get(at..max).unwrap_or(&[]);
        let Some(found) = memchr::memchr(b'\\', window) else { break boundary(inner, max.max(at)) };
        let escape = at + found;
        let end = escape + escape_len(bytes.get(escape..).unwrap_or(&[]));
        if end > max {
            break escape;
        }
        at = end;
    };
    if cut > 0 {
        return inner.split_at_checked(cut).unwrap_or((inner, ""));
    }
    // Not even one character fits.
    let first = match bytes.first() {
        Some(b'\\') => escape_len(bytes),
        _ => inner.chars().next().map_or(inner.len(), char::len_utf8),
    };
    inner.split_at_checked(first).unwrap_or((inner, ""))
}

/// The last character boundary at or before `at`.
fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Bytes of the escape at the start: 2, 6, or 12 for both halves of a surrogate pair.
fn escape_len(bytes: &[u8]) -> usize {
    match bytes {
        [b'\\', b'u', high, half, _, _, b'\\', b'u', low, other, _, _, ..]
            if is_surrogate(*high, *half, b"89abAB") && is_surrogate(*low, *other, b"cdefCDEF") =>
        {
            12
        }
        [b'\\', b'u', ..] => 6,
        _ => 2,
    }
}

fn is_surrogate(first: u8, second: u8, seconds: &[u8]) -> bool {
    matches!(first, b'd' | b'D') && seconds.contains(&second)
}

#[cfg(test)]
mod tests {
    use super::head;

    fn pieces(mut rest: &str, max: usize) -> Vec<&str> {
        let mut out = Vec::new();
        while !rest.is_empty() {
            let (piece, after) = head(rest, max);
            out.push(piece);
            rest = after;
        }
        out
    }

    #[test]
    fn cuts_fall_between_characters_and_escapes() {
        assert_eq!(pieces("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(pieces("ab\u{e9}cd", 3), ["ab", "\u{e9}c", "d"]);
        assert_eq!(pieces(r"a\\\n\u0041b", 4), [r"a\\", r"\n", r"\u0041", "b"]);
        assert_eq!(pieces(r"x\ud83d\ude00y", 12), ["x", r"\ud83d\ude00", "y"]);
        assert_eq!(pieces(r"\uD83D\ud83d", 7), [r"\uD83D", r"\ud83d"]);
        assert_eq!(pieces(r"\\u1234", 3), [r"\\u", "123", "4"]);
    }

    #[test]
    fn every_cut_of_a_mixed_text_is_json_and_nothing_is_lost() {
        let text = r#"a\"\\\ud83d\ude00\ud83dé𝄞\u2028\n\\\\uz"#;
        for max in 0..text.len() + 2 {
            let parts = pieces(text, max);
            assert_eq!(parts.concat(), text);
            for part in parts {
                assert!(crate::json::Json::parse(&format!("\"{part}\"")).is_ok(), "{part}");
                assert!(!part.starts_with(r"\ude00"), "a pair was cut");
            }
        }
    }
}
