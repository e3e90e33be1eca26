//! Putting the protocol where nothing else can write.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec, fcntl_getfd};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stderr, stdin, stdout};

use super::StdioError;

/// What the protocol's pipes are grown to if the system allows, in bytes.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 1024 * 1024;
/// Private copies are numbered from here on.
const PRIVATE: RawFd = 3;

/// The protocol's own descriptors, close-on-exec.
#[derive(Debug)]
pub struct Stdio {
    /// What the client writes.
    pub input: OwnedFd,
    /// What the client reads.
    pub output: OwnedFd,
}

/// Takes fd 0 and 1 for the protocol: afterwards fd 0 reads `/dev/null` and fd 1 is stderr, so that no `print!`, C
/// library or child process can reach the protocol's streams. The pipes grow to 1 MiB where that is allowed.
///
/// Call it once, before other threads run. A standard descriptor that was closed at start is `/dev/null` (Rust's
/// runtime does the same on most systems): an input that ends at once, an output that nobody reads.
///
/// # Errors
/// [`StdioError::Protect`] when the process has no descriptors left or no `/dev/null`.
pub fn take_stdio() -> Result<Stdio, StdioError> {
    // Lowest first: each open takes the lowest free number.
    fill_if_closed(fcntl_getfd(stdin()).err(), "stdin", |null| dup2_stdin(null))?;
    fill_if_closed(fcntl_getfd(stdout()).err(), "stdout", |null| dup2_stdout(null))?;
    fill_if_closed(fcntl_getfd(stderr()).err(), "stderr", |null| dup2_stderr(null))?;

    let input = fcntl_dupfd_cloexec(stdin(), PRIVATE).map_err(protect("stdin"))?;
    let output = fcntl_dupfd_cloexec(stdout(), PRIVATE).map_err(protect("stdout"))?;
    let null = open_null().map_err(protect("/dev/null"))?;
    dup2_stdin(&null).map_err(protect("stdin"))?;
    dup2_stdout(stderr()).map_err(protect("stdout"))?;
    grow_pipe(&input);
    grow_pipe(&output);
    Ok(Stdio { input, output })
}

fn fill_if_closed(
    state: Option<Errno>,
    what: &'static str,
    put: fn(BorrowedFd<'_>) -> Result<(), Errno>,
) -> Result<(), StdioError> {
    if state != Some(Errno::BADF) {
        return Ok(());
    }
    let null = open_null().map_err(protect(what))?;
    put(null.as_fd()).map_err(protect(what))?;
    if null.as_raw_fd() < PRIVATE {
        // It landed in the hole itself, and has to stay there.
        let _ = null.into_raw_fd();
    }
    Ok(())
}

fn open_null() -> Result<OwnedFd, Errno> {
    open("/dev/null", OFlags::RDWR, Mode::empty())
}

fn protect(what: &'static str) -> impl FnOnce(Errno) -> StdioError {
    move |errno| StdioError::Protect { what, source: errno.into() }
}

/// Only a help: a bigger pipe saves switches between the two processes. Not a pipe, or over the user's share: as it was.
#[cfg(target_os = "linux")]
fn grow_pipe(fd: impl AsFd) {
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

    if fcntl_getpipe_size(&fd).is_ok_and(|size| size < PIPE_BYTES) {
        let _ = fcntl_setpipe_size(&fd, PIPE_BYTES);
    }
}

#[cfg(not(target_os = "linux"))]
fn grow_pipe(_: impl AsFd) {}
