//! The Agent Client Protocol face of a log: ACP v1 `session/update` values.
//!
//! A *projector* reads events and knows nothing of connections, stores or clocks, so that a second
//! one for ACP v2 can stand beside it. Two drivers share it: [`Replay`] gives the history of a
//! `session/load`, [`Follower`] the updates of later appends (`liveUpdates`, PROTOCOL 4). Every id
//! depends on the events before it only: it is the same live, on each replay and in a fork, whose
//! log begins with the very same events.
//!
//! What is shown is the *human* transcript: events with surface op `"append"`, in log order. A
//! rewrite of the surface (compaction, pruning) hides nothing that a person saw (ACP 13).
//!
//! Payloads are unchecked here and texts are copied as JSON text. A value that ACP cannot carry is
//! left out, half of a surrogate pair is shown as U+FFFD; nothing a log can hold makes an update that ACP's schema refuses.

mod calls;
mod content;
mod driver;
mod fields;
mod fold;
mod ids;
mod projector;
mod split;
mod tail;
mod time;
mod tools;
mod unicode;
mod update;

pub use driver::{Follower, Replay};
pub use update::Updates;

/// What the client takes and how large an update may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The client advertised `session.compaction`: compactions are told (ACP 5).
    pub compaction: bool,
    /// The client advertised `session.notices`: notices are told. They are live events and never
    /// replayed (ACP 5), so only a [`Follower`] tells them.
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
