//! One big read at a time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::{Lines, StdioError, fd};

/// What one read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// So many new bytes.
    Bytes(usize),
    /// Nothing yet: wait and try again (a non-blocking descriptor, or another reader was faster).
    NotReady,
    /// The input has ended, for good. [`Lines::finish`] was called: take frames once more.
    End,
}

/// The reading end of the protocol.
#[derive(Debug)]
pub struct Input {
    fd: OwnedFd,
    ended: bool,
}

impl Input {
    /// Reads from `fd`, blocking or not.
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd, ended: false }
    }

    /// Reads once into `lines`. On a blocking descriptor this waits unless [`wait`](super::wait) said that
    /// input is ready.
    ///
    /// # Errors
    /// [`StdioError::Read`] for a hard error, once; the input has ended then, and a partial line is not taken for
    /// a whole one.
    pub fn fill(&mut self, lines: &mut Lines) -> Result<Filled, StdioError> {
        if self.ended {
            return Ok(Filled::End);
        }
        match fd::read(self.fd.as_fd(), lines.spare()) {
            Ok(0) => {
                self.ended = true;
                lines.finish();
                Ok(Filled::End)
            }
            Ok(n) => {
                lines.commit(n);
                Ok(Filled::Bytes(n))
            }
            Err(Errno::AGAIN) => Ok(Filled::NotReady),
            Err(errno) => {
                self.ended = true;
                Err(StdioError::Read(errno.into()))
            }
        }
    }

    /// Reads into `lines` what is there already, and never waits; says whether there was something. It says no as well
    /// at the end, on an error and where the system cannot tell: [`fill`](Self::fill) says what it is.
    pub fn fill_now(&self, lines: &mut Lines) -> bool {
        if self.ended {
            return false;
        }
        match fd::read_now(self.fd.as_fd(), lines.spare()) {
            Ok(n) if n > 0 => {
                lines.commit(n);
                true
            }
            _ => false,
        }
    }

    /// Whether the writer is gone, though there may be more to read: for an owner that does not read now.
    pub fn hung_up(&self) -> bool {
        self.ended || fd::hung_up(self.fd.as_fd())
    }

    /// The descriptor to wait for; `None` once the input has ended.
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.ended).then(|| self.fd.as_fd())
    }
}
