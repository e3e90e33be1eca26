//! What a session's header says, beside its log (FORMAT 8 and 13).

use std::fmt;

/// A session id: non-empty valid Unicode whose path segment has at most 255 bytes (PROTOCOL 3, Ids).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Box<str>);

/// Why a text is no session id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionIdError {
    /// The empty text.
    #[error("a session id must not be empty")]
    Empty,
    /// Its path segment would pass 255 bytes.
    #[error("the session id needs {0} bytes as a path segment; the most is 255: shorten it")]
    TooLong(usize),
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

/// The logical header: `{version: 0, id, createdAt, cwd?, parentSession?, isSeeded, origin?,
/// delegationDepth?, agentPreset?}` in that order. Fixed at creation and outside the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The session's id.
    pub id: SessionId,
    /// Milliseconds since the Unix epoch, a safe integer.
    pub created_at: u64,
    /// Absolute, not normalised.
    pub cwd: Option<String>,
    /// The id of the session it was forked from.
    pub parent_session: Option<String>,
    /// Whether fork history exists; how much of it is the session's inherited event count.
    pub is_seeded: bool,
    /// `origin: "subagent"`.
    pub subagent: bool,
    /// How deep in delegation, a safe integer.
    pub delegation_depth: Option<u64>,
    /// A front-end's own name of the agent's set-up.
    pub agent_preset: Option<String>,
}
