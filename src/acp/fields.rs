//! Optional members of a payload.

use super::split;
use crate::json::{Json, JsonStr, Type};

/// The string of an optional member.
pub(super) fn string(value: Option<Json<'_>>) -> Option<JsonStr<'_>> {
    value.and_then(Json::as_str)
}

/// The string of an optional member when it is not empty.
pub(super) fn filled(value: Option<Json<'_>>) -> Option<JsonStr<'_>> {
    string(value).filter(|text| !text.is_empty())
}

/// The value of an optional member unless it is `null`.
pub(super) fn present(value: Option<Json<'_>>) -> Option<Json<'_>> {
    value.filter(|json| json.kind() != Type::Null)
}

/// The JSON text of a string without its quotes.
pub(super) fn inner(text: JsonStr<'_>) -> &str {
    let text = text.text();
    text.get(1..text.len().saturating_sub(1)).unwrap_or("")
}

/// Whether a path is absolute, as ACP wants every path: from a root, or from a drive of Windows.
pub(super) fn is_absolute(path: JsonStr<'_>) -> bool {
    let (head, _) = split::head(inner(path), 32);
    let head = format!("\"{head}\"");
    let head = JsonStr::from_verified(&head).lossy();
    match head.as_bytes() {
        [b'/', ..] => true,
        [drive, b':', b'/' | b'\\', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

/// The text on one line of at most `most` characters, for people: what is cut off leaves an ellipsis, and runs of line
/// ends and control characters are one space.
pub(super) fn one_line(text: JsonStr<'_>, most: usize) -> String {
    // No character takes more than twelve bytes of JSON text.
    let (head, rest) = split::head(inner(text), 12 * most);
    let head = format!("\"{head}\"");
    let mut line = String::new();
    let mut left = most;
    let mut is_cut = !rest.is_empty();
    let mut in_break = false;
    for c in JsonStr::from_verified(&head).lossy().chars() {
        let is_break = c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        let c = if is_break { ' ' } else { c };
        in_break = is_break || in_break && c == ' ';
        if c == ' ' && (line.is_empty() || in_break && line.ends_with(' ')) {
            continue;
        }
        if left == 0 {
            is_cut = true;
            break;
        }
        left -= 1;
        line.push(c);
    }
    line.truncate(line.trim_end().len());
    if is_cut {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_one_and_short() {
        let line = |text, most| one_line(JsonStr::from_verified(text), most);
        assert_eq!(line(r#""a  b""#, 9), "a  b");
        assert_eq!(line(r#"" \n\t a\r\n\u2028  b \u0000""#, 9), "a b");
        assert_eq!(line(r#""\ud83d\ude00\ud83d\ude00\ud83d""#, 2), "😀😀…");
        assert_eq!(line(r#""\ud83d""#, 2), "\u{fffd}");
        assert_eq!(line(r#""abc""#, 3), "abc");
        assert_eq!(line(r#""abcd""#, 3), "abc…");
        let long = format!("\"{}\"", "x".repeat(1000));
        assert_eq!(one_line(JsonStr::from_verified(&long), 5), "xxxxx…");
        assert_eq!(line(r#""""#, 5), "");
    }

    #[test]
    fn absolute_paths_begin_at_a_root() {
        let is = |text| is_absolute(JsonStr::from_verified(text));
        for path in [r#""/""#, r#""\/a""#, r#""\u002fa""#, r#""C:\\a""#, r#""c:/a""#] {
            assert!(is(path), "{path}");
        }
        for path in [r#""""#, r#""a/b""#, r#""~/a""#, r#""C:a""#, r#""file:///a""#, r#""1:/""#] {
            assert!(!is(path), "{path}");
        }
    }
}
