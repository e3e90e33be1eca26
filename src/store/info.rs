//! What a store says of itself, and who owns a session.

use std::fmt;

use crate::log::SessionId;

/// A store, as `initialize` and the methods need to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// `memory` or `jsonl`.
    pub kind: &'static str,
    /// Where it lies, without a secret; none where there is no place to name.
    pub location: Option<String>,
    /// What is appended outlives this process. A store that is not durable is handed closed sessions, and no appends.
    pub durable: bool,
    /// Daemons on other hosts use it, too: what it holds may change behind this one, and whoever makes a session
    /// must own it before anybody is told of it.
    pub shared: bool,
}

/// The ownership of a stored session, under which this daemon appends to it. Where a kernel lock is the owner, as on
/// `jsonl:`, the epoch is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease<'s> {
    /// The session.
    pub session: &'s SessionId,
    /// Counts its owners: who appends under an old one is refused.
    pub epoch: u64,
}

/// One life of a daemon, as an owner of sessions is told to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonId {
    /// Unique to this life, where the store keeps such an id: two processes may have had one pid.
    pub id: Option<Box<str>>,
    /// The host, where another one may be meant.
    pub host: Option<Box<str>>,
    /// The process.
    pub pid: u32,
    /// Since when, in milliseconds since the Unix epoch: of this life, or of its ownership, as the store keeps it.
    pub since: u64,
}

impl DaemonId {
    /// A process of this host that has no other name.
    #[must_use]
    pub fn process(pid: u32, since: u64) -> Self {
        Self { id: None, host: None, pid, since }
    }
}

impl fmt::Display for DaemonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        self.host.as_ref().map_or(Ok(()), |host| write!(f, " on {host}"))
    }
}
