//! What can go wrong with the descriptors themselves.

use std::io;

/// Failures of the room. None of them is about what the bytes say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StdioError {
    /// stdin cannot be read any more; end of input for the daemon.
    #[error("cannot read input")]
    Read(#[source] io::Error),
    /// `poll` refused to wait.
    #[error("cannot wait for input")]
    Wait(#[source] io::Error),
    /// The wake-up pipe could not be made.
    #[error("cannot make the wake-up pipe")]
    Wake(#[source] io::Error),
    /// A standard descriptor could not be put away or replaced at start.
    #[error("cannot set up {what}")]
    Protect {
        /// The descriptor, in words.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
}
