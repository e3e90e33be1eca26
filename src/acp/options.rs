//! What one client takes of the projector.

/// What the client takes and how large an update may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The client advertised `session.compaction`: compactions are told (ACP 5).
    pub compaction: bool,
    /// The client advertised `session.notices`: notices are told. They are live events and never
    /// replayed (ACP 5), so only a [`Follower`](crate::acp::Follower) tells them.
    pub notices: bool,
    /// Later appends reach this client. A replay then leaves calls that are still running
    /// `in_progress`; else it ends them as `failed`, because no update would ever end them.
    pub live: bool,
    /// Longest text of one message chunk, in bytes of JSON text; longer ones are split (ACP 13).
    pub max_text_bytes: usize,
    /// Largest update, in bytes. Content that does not fit is left out and
    /// `_meta.sessiond.truncated` says so. By default nothing that `maxEventBytes` admits comes near.
    pub max_update_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            compaction: false,
            notices: false,
            live: false,
            max_text_bytes: 1 << 20,
            max_update_bytes: 31 << 20,
        }
    }
}
