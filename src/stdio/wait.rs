//! The owner's only wait.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{StdioError, WakeFd};

/// Why the wait is over; nothing set = the time is up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ready {
    /// Reading will not block: bytes, the end or an error are there.
    pub input: bool,
    /// Another thread has something for the owner; already cleared.
    pub wake: bool,
    /// Nobody can read the output any more. Stays so.
    pub output_gone: bool,
}

/// Waits until input is there, somebody wakes, the output's reader is gone, or `timeout` is over (`None`: for ever).
///
/// Leave `input` out while it is not to be read: an input that has been hung up is always ready. `output` is
/// watched for its reader's end only, not for room.
///
/// # Errors
/// [`StdioError::Wait`] when the kernel cannot poll; an interruption by a signal is none.
pub fn wait<'a>(
    input: Option<BorrowedFd<'a>>,
    wake: &'a WakeFd,
    output: Option<BorrowedFd<'a>>,
    timeout: Option<Duration>,
) -> Result<Ready, StdioError> {
    // An absent descriptor is stood in for by the wake pipe with no interest, which never reports anything.
    let entry = |fd: Option<BorrowedFd<'a>>, flags| match fd {
        Some(fd) => (fd, flags),
        None => (wake.poll_fd(), PollFlags::empty()),
    };
    let (in_fd, in_flags) = entry(input, PollFlags::IN);
    let (out_fd, out_flags) = entry(output, PollFlags::empty());
    let mut fds = [
        PollFd::from_borrowed_fd(wake.poll_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(in_fd, in_flags),
        PollFd::from_borrowed_fd(out_fd, out_flags),
    ];
    uninterrupted(timeout, |left| poll(&mut fds, left))?;
    let [woken, readable, gone] = fds.each_ref().map(|fd| !fd.revents().is_empty());
    if woken {
        wake.clear();
    }
    Ok(Ready { input: input.is_some() && readable, wake: woken, output_gone: output.is_some() && gone })
}

/// Repeats a call that signals interrupt, with what is left of the time.
fn uninterrupted<T>(
    timeout: Option<Duration>,
    mut call: impl FnMut(Option<&Timespec>) -> Result<T, Errno>,
) -> Result<T, StdioError> {
    // A time too far for the clock is no time limit.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match call(left.as_ref()) {
            Err(Errno::INTR) => {}
            other => return other.map_err(|errno| StdioError::Wait(errno.into())),
        }
    }
}
