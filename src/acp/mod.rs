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
//! Payloads are unchecked here and texts are copied as JSON text. A block that ACP cannot carry is shown by its text or
//! by a placeholder, any other value that it cannot carry is left out, and half of a surrogate pair is shown as U+FFFD;
//! nothing a log can hold makes an update that ACP's schema refuses.

mod arguments;
mod calls;
mod content;
mod driver;
mod fields;
mod fold;
mod ids;
mod options;
mod projector;
mod split;
mod tail;
mod tools;
mod unicode;
mod update;

pub use driver::{Follower, Replay};
pub use options::Options;
pub use update::Updates;
