//! What the scanner refuses, and where that lies.

use super::string::JsonStr;
use super::token::string_end;

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON at byte {offset}")]
pub struct SyntaxError {
    /// Bytes from the start of the scanned text.
    pub offset: usize,
}

/// What would be lost if a value went through doubles and objects (FORMAT 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// `-0` in any spelling that rounds to it.
    #[error("-0 does not survive JSON; write 0")]
    NegativeZero,
    /// Beyond the range of a double.
    #[error("the number is beyond the range of a double")]
    Overflow,
    /// The same key twice in one object.
    #[error("the key appears twice in one object")]
    DuplicateKey,
}

/// A fault and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultAt {
    /// What is lost there.
    pub kind: FaultKind,
    /// Bytes from the start of the checked value: a number's first byte, a key's opening quote.
    pub offset: usize,
}

/// Longest pointer that an error carries, in bytes (PROTOCOL 5).
const MAX_POINTER: usize = 256;

/// A pointer of at most 256 bytes: of one that is longer, the part that still is a pointer, to what the place lies in.
pub fn fit_pointer(mut pointer: String) -> String {
    if pointer.len() > MAX_POINTER {
        let end = pointer.bytes().take(MAX_POINTER + 1).rposition(|byte| byte == b'/');
        pointer.truncate(end.unwrap_or(0));
    }
    pointer
}

/// The RFC 6901 pointer of the token at byte `offset` of verified JSON text, cut to 256 bytes.
///
/// One pass over the text before that byte; depth is the sender's to choose, so nothing recurses.
pub fn pointer_at(text: &str, offset: usize) -> String {
    enum Level<'a> {
        Array(usize),
        Object(&'a str),
    }
    let bytes = text.as_bytes();
    // Of the open containers those that a pointer can show: each adds a byte at least. Beyond them only their number.
    let mut path: Vec<Level<'_>> = Vec::new();
    let mut beyond = 0_usize;
    let mut at = 0;
    let mut key_next = false;
    while let Some(&byte) = bytes.get(at) {
        let token = at;
        at += 1;
        match byte {
            b'{' | b'[' if path.len() > MAX_POINTER => beyond += 1,
            b'}' | b']' if beyond > 0 => beyond -= 1,
            b',' if beyond > 0 => {}
            b'{' => {
                path.push(Level::Object("\"\""));
                key_next = true;
            }
            b'[' => path.push(Level::Array(0)),
            b'}' | b']' => {
                path.pop();
            }
            b',' => match path.last_mut() {
                Some(Level::Array(index)) => *index += 1,
                _ => key_next = true,
            },
            b'"' => {
                at = string_end(bytes, at).at;
                if key_next && beyond == 0 {
                    if let (Some(Level::Object(key)), Some(name)) = (path.last_mut(), text.get(token..at)) {
                        *key = name;
                    }
                    key_next = false;
                }
            }
            _ => {}
        }
        if token >= offset {
            break;
        }
    }
    let mut out = String::new();
    for level in &path {
        out.push('/');
        match level {
            Level::Array(index) => out.push_str(&index.to_string()),
            Level::Object(key) => {
                let name = JsonStr::from_verified(key).lossy();
                out.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
        }
        if out.len() > MAX_POINTER {
            let end = (0..=MAX_POINTER).rev().find(|&end| out.is_char_boundary(end));
            out.truncate(end.unwrap_or(0));
            break;
        }
    }
    out
}
