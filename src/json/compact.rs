//! The one-line form of a text: no white space between tokens, no raw line separator.

use memchr::memchr2;

/// Appends the compact form of verified JSON text: white space between tokens dropped, raw U+0085,
/// U+2028 and U+2029 written as escapes. Every string and number keeps its spelling.
pub fn write_compact(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    // Mostly there is no separator: one look at the whole is less than one at each run.
    let has_none = !has_separator(text);
    let put = |run: Option<&str>, out: &mut String| match run {
        Some(run) if has_none => out.push_str(run),
        run => escape_separators(run.unwrap_or(""), out),
    };
    let (mut kept, mut at) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = super::token::string_end(bytes, at + 1).at,
            b' ' | b'\t' | b'\r' | b'\n' => {
                put(text.get(kept..at), out);
                at += 1;
                kept = at;
            }
            _ => at += 1,
        }
    }
    put(text.get(kept..), out);
}

/// Appends `text` with raw U+0085, U+2028 and U+2029 written as JSON escapes.
///
/// These characters stand only inside strings in JSON, so any JSON text may be passed.
pub fn escape_separators(text: &str, out: &mut String) {
    /// Ids and names are mostly short and ASCII: a look at them costs less than a search.
    const SHORT: usize = 32;
    if text.len() <= SHORT && text.is_ascii() {
        return out.push_str(text);
    }
    let mut rest = text;
    while let Some((before, escape, after)) = split_at_separator(rest) {
        out.push_str(before);
        out.push_str(escape);
        rest = after;
    }
    out.push_str(rest);
}

/// Whether `text` holds a raw U+0085, U+2028 or U+2029.
pub(super) fn has_separator(text: &str) -> bool {
    split_at_separator(text).is_some()
}

fn split_at_separator(text: &str) -> Option<(&str, &'static str, &str)> {
    let mut from = 0;
    // 0xE2 and 0xC2 begin other characters too (dashes, accents): look on until a separator is met.
    while let Some(found) = memchr2(0xE2, 0xC2, text.as_bytes().get(from..)?) {
        let at = from + found;
        let rest = text.get(at..)?;
        let escape = match rest.chars().next()? {
            '\u{85}' => "\\u0085",
            '\u{2028}' => "\\u2028",
            '\u{2029}' => "\\u2029",
            other => {
                from = at + other.len_utf8();
                continue;
            }
        };
        let width = if escape == "\\u0085" { 2 } else { 3 };
        return Some((text.get(..at)?, escape, rest.get(width..)?));
    }
    None
}
