//! Session ids (PROTOCOL 3, Ids).

use std::fmt;

use crate::json::JsonStr;

/// A session id: non-empty valid Unicode whose path segment has at most 255 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Box<str>);

/// Why a text is no session id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionIdError {
    /// The empty text.
    #[error("a session id must not be empty")]
    Empty,
    /// Its path segment would pass 255 bytes.
    #[error("the session id needs {0} bytes as a path segment; the most is 255: shorten it")]
    TooLong(usize),
    /// Half of a surrogate pair is in it: other programs of this format may write such ids.
    #[error("the session id holds a lone surrogate: it must be valid Unicode")]
    LoneSurrogate,
}

impl SessionId {
    /// Longest path segment, in bytes.
    pub const MAX_SEGMENT: usize = 255;

    /// Checks an id.
    pub fn new(id: &str) -> Result<Self, SessionIdError> {
        let segment = segment_len(id);
        if id.is_empty() {
            Err(SessionIdError::Empty)
        } else if segment > Self::MAX_SEGMENT {
            Err(SessionIdError::TooLong(segment))
        } else {
            Ok(Self(id.into()))
        }
    }

    /// Checks an id that stands in JSON.
    pub fn from_json(id: JsonStr<'_>) -> Result<Self, SessionIdError> {
        Self::new(&id.decode().ok_or(SessionIdError::LoneSurrogate)?)
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for SessionId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Bytes of an id's path segment: `[A-Za-z0-9._-]` stand for themselves, other UTF-16 units take five.
fn segment_len(id: &str) -> usize {
    if matches!(id, "." | "..") {
        return 5 * id.len();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    id.chars().map(|c| if plain(c) { 1 } else { 5 * c.len_utf16() }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_bounded_by_their_path_segment() {
        assert_eq!(SessionId::new(""), Err(SessionIdError::Empty));
        assert!(SessionId::new(&"a".repeat(255)).is_ok());
        assert_eq!(SessionId::new(&"a".repeat(256)), Err(SessionIdError::TooLong(256)));
        assert!(SessionId::new(&"/".repeat(51)).is_ok());
        assert_eq!(SessionId::new(&"é".repeat(52)), Err(SessionIdError::TooLong(260)));
        assert_eq!(SessionId::new(&"😀".repeat(26)), Err(SessionIdError::TooLong(260)));
        assert!(SessionId::new("..").is_ok());
    }
}
