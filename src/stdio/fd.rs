//! Reads and writes with their interruptions taken care of.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// One `read`; `Ok(0)` is the end, `AGAIN` only comes from a non-blocking descriptor.
pub(super) fn read(fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::read(fd, &mut *buf) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// One `read` that never waits, whatever the descriptor's flags: `AGAIN` if nothing is there, and where kernel or
/// descriptor do not know the per-call flag.
#[cfg(target_os = "linux")]
pub(super) fn read_now(fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize, Errno> {
    use std::io::IoSliceMut;

    use rustix::io::{ReadWriteFlags, preadv2};

    loop {
        match preadv2(fd, &mut [IoSliceMut::new(buf)], u64::MAX, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE) => return Err(Errno::AGAIN),
            other => return other,
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn read_now(_: BorrowedFd<'_>, _: &mut [u8]) -> Result<usize, Errno> {
    Err(Errno::AGAIN)
}

/// One `write`; `AGAIN` only comes from a non-blocking descriptor.
pub(super) fn write(fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::write(fd, buf) {
            Ok(0) if !buf.is_empty() => return Err(Errno::IO),
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Writes some of `buf`, waiting as long as it takes. A non-blocking descriptor is waited for with `poll`.
pub(super) fn write_patiently(fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize, Errno> {
    let mut waited = false;
    loop {
        match write(fd, buf) {
            Err(Errno::AGAIN) => {
                // A descriptor that polls as writable and then takes nothing must not spin us.
                if waited {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
                match poll(&mut fds, None) {
                    Ok(_) => waited = true,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            other => return other,
        }
    }
}

/// Writes what fits without waiting, whatever the descriptor's flags: `AGAIN` if nothing does, `OPNOTSUPP`,
/// `NOSYS` or `INVAL` if kernel or descriptor do not know the per-call flag (Linux has it for pipes and sockets
/// since 6.4).
#[cfg(target_os = "linux")]
pub(super) fn write_now(fd: BorrowedFd<'_>, buf: &[u8]) -> Result<usize, Errno> {
    use std::io::IoSlice;

    use rustix::io::{ReadWriteFlags, pwritev2};

    // Offset -1 is "at the current position", the only one that pipes and sockets have.
    loop {
        match pwritev2(fd, &[IoSlice::new(buf)], u64::MAX, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn write_now(_: BorrowedFd<'_>, _: &[u8]) -> Result<usize, Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Whether nobody can write to the other end any more; never for files.
pub(super) fn hung_up(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&NOW));
    polled.is_ok() && fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// Whether a write of up to `PIPE_BUF` bytes would go through now (errors count: the write shows them).
pub(super) fn writable_now(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    matches!(poll(&mut fds, Some(&NOW)), Ok(n) if n > 0)
}
