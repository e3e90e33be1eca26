//! The owner's only wait.

use std::os::fd::{BorrowedFd, OwnedFd};
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

/// An input, a wake pipe and an output as one set that the kernel keeps: most waits are for all three, and a set is
/// waited for in less time than three descriptors are polled, which counts where each request waits for the last answer.
#[derive(Debug)]
pub struct Watch {
    /// None on other systems, and for descriptors that are always ready, as files are: the kernel takes no such.
    set: Option<OwnedFd>,
}

impl Watch {
    /// A set of these three, which must stay open while it is used.
    pub fn new(input: BorrowedFd<'_>, wake: &WakeFd, output: BorrowedFd<'_>) -> Self {
        Self { set: set::of(input, wake.poll_fd(), output).ok() }
    }

    /// [`wait`] for all three.
    ///
    /// # Errors
    /// As those of [`wait`].
    pub fn wait(
        &self,
        input: BorrowedFd<'_>,
        wake: &WakeFd,
        output: BorrowedFd<'_>,
        timeout: Option<Duration>,
    ) -> Result<Ready, StdioError> {
        let Some(set) = &self.set else { return wait(Some(input), wake, Some(output), timeout) };
        let ready = uninterrupted(timeout, |left| set::wait(set, left))?;
        if ready.wake {
            wake.clear();
        }
        Ok(ready)
    }
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

#[cfg(target_os = "linux")]
mod set {
    use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

    use super::*;

    const INPUT: u64 = 0;
    const WAKE: u64 = 1;
    const OUTPUT: u64 = 2;

    pub(super) fn of(
        input: BorrowedFd<'_>,
        wake: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> Result<OwnedFd, Errno> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&set, input, EventData::new_u64(INPUT), EventFlags::IN)?;
        epoll::add(&set, wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        // Its end and its errors are told in any case.
        epoll::add(&set, output, EventData::new_u64(OUTPUT), EventFlags::empty())?;
        Ok(set)
    }

    pub(super) fn wait(set: &OwnedFd, timeout: Option<&Timespec>) -> Result<Ready, Errno> {
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(INPUT) };
        let mut events = [none; 3];
        let count = epoll::wait(set, &mut events, timeout)?;
        let mut ready = Ready::default();
        for event in events.iter().take(count) {
            match event.data.u64() {
                INPUT => ready.input = true,
                WAKE => ready.wake = true,
                _ => ready.output_gone = true,
            }
        }
        Ok(ready)
    }
}

#[cfg(not(target_os = "linux"))]
mod set {
    use super::*;

    pub(super) fn of(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    pub(super) fn wait(_: &OwnedFd, _: Option<&Timespec>) -> Result<Ready, Errno> {
        Err(Errno::OPNOTSUPP)
    }
}
