//! A lenient walk over the tokens of a JSON text that knows where it is. It never refuses what it can still follow:
//! it serves diffs and the blanking of secrets, not validation.

use std::ops::Range;

/// One level of nesting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// In an array, at this index.
    Array(usize),
    /// In an object, at the member whose key (a string token, quotes included) lies here; none before the first.
    Object(Option<Range<usize>>),
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A bracket, comma or colon.
    Mark,
    /// A member's key.
    Key,
    /// A string, number or literal that is a value.
    Scalar,
}

/// Calls `visit` with the nesting and every token. The error is the offset of the first token that cannot be followed:
/// a string that does not end, or a bracket that closes nothing.
pub(super) fn walk(text: &[u8], mut visit: impl FnMut(&[Frame], Kind, Range<usize>)) -> Result<(), usize> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut key_next = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let token = at..token_end(text, at).ok_or(at)?;
        at = token.end;
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'{' | b'[' => {
                visit(&frames, Kind::Mark, token);
                key_next = byte == b'{';
                frames.push(if key_next { Frame::Object(None) } else { Frame::Array(0) });
            }
            b'}' | b']' => {
                match (frames.pop(), byte) {
                    (Some(Frame::Object(_)), b'}') | (Some(Frame::Array(_)), b']') => {}
                    _ => return Err(token.start),
                }
                key_next = false;
                visit(&frames, Kind::Mark, token);
            }
            b',' => {
                visit(&frames, Kind::Mark, token);
                match frames.last_mut() {
                    Some(Frame::Array(index)) => *index += 1,
                    Some(Frame::Object(_)) => key_next = true,
                    None => {}
                }
            }
            b':' => visit(&frames, Kind::Mark, token),
            b'"' if key_next => {
                key_next = false;
                if let Some(Frame::Object(key)) = frames.last_mut() {
                    *key = Some(token.clone());
                }
                visit(&frames, Kind::Key, token);
            }
            _ => visit(&frames, Kind::Scalar, token),
        }
    }
    if frames.is_empty() { Ok(()) } else { Err(text.len()) }
}

/// The text of a key, its escapes undone; none for a frame that is not at a member or a key that is not valid text.
pub(super) fn key_text(text: &[u8], frame: &Frame) -> Option<String> {
    match frame {
        Frame::Object(Some(key)) => serde_json::from_slice(text.get(key.clone())?).ok(),
        _ => None,
    }
}

/// The JSON Pointer of what stands at a byte offset; none if the text ends before, or cannot be followed so far.
pub(super) fn pointer_at(text: &[u8], offset: usize) -> Option<String> {
    let mut found = None;
    let walked = walk(text, |frames, _, token| {
        if found.is_none() && token.end > offset {
            found = Some(pointer(text, frames));
        }
    });
    walked.ok().and(found)
}

fn pointer(text: &[u8], frames: &[Frame]) -> String {
    let mut pointer = String::new();
    for frame in frames {
        match frame {
            Frame::Array(index) => pointer.push_str(&format!("/{index}")),
            Frame::Object(None) => {}
            Frame::Object(Some(_)) => {
                let key = key_text(text, frame).unwrap_or_else(|| "?".to_owned());
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
        }
    }
    pointer
}

fn token_end(text: &[u8], start: usize) -> Option<usize> {
    let rest = text.get(start..)?;
    let length = match rest.first()? {
        b'"' => {
            let mut escaped = false;
            let inner = rest.iter().skip(1).position(|byte| match byte {
                _ if escaped => {
                    escaped = false;
                    false
                }
                b'\\' => {
                    escaped = true;
                    false
                }
                byte => *byte == b'"',
            })?;
            inner + 2
        }
        b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => 1,
        _ => rest.iter().position(|byte| b"{}[],:\" \t\r\n".contains(byte)).unwrap_or(rest.len()),
    };
    Some(start + length)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pointers_name_what_stands_at_an_offset() {
        let text = br#"{"a":[1,{"b/\u0063":"x\"y"}],"d":[]}"#;
        let at = |part: &str| {
            let offset = std::str::from_utf8(text).unwrap().find(part).unwrap();
            pointer_at(text, offset).unwrap()
        };
        assert_eq!(at("1,"), "/a/0");
        assert_eq!(at("x\\"), "/a/1/b~1c");
        assert_eq!(at("y\""), "/a/1/b~1c");
        assert_eq!(at("[]"), "/d");
        assert_eq!(pointer_at(text, text.len()), None);
    }

    #[test]
    fn what_cannot_be_followed_is_said() {
        for (text, at) in [("{\"a", 1), ("[1]]", 3), ("{]", 1), ("[1", 2)] {
            assert_eq!(walk(text.as_bytes(), |_, _, _| {}), Err(at), "{text}");
        }
        assert_eq!(walk(b"\xff nonsense, {\"a\":,}", |_, _, _| {}), Ok(()));
    }
}
