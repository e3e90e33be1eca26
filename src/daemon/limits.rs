//! How many file descriptors the process may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit (`ulimit -n`) as far as it may go: each live session that is stored keeps its log open.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as low as it was");
    }
}
