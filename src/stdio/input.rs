//! One big read at a time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::{Lines, StdioError, fd, own};

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
    /// The same pipe, for reads that never wait.
    own: Option<OwnedFd>,
    ended: bool,
}

impl Input {
    /// Reads from `fd`, blocking or not.
    pub fn new(fd: OwnedFd) -> Self {
        Self { own: own::reader(fd.as_fd()), fd, ended: false }
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
        self.filled(fd::read(self.fd.as_fd(), lines.spare()), lines)
    }

    /// The same of what is there already: it never waits, and says [`Filled::NotReady`] where nothing is there and where
    /// the system cannot tell.
    ///
    /// # Errors
    /// As those of [`fill`](Self::fill).
    pub fn fill_now(&mut self, lines: &mut Lines) -> Result<Filled, StdioError> {
        if self.ended {
            return Ok(Filled::End);
        }
        let read = match &self.own {
            Some(own) => fd::read(own.as_fd(), lines.spare()),
            None => fd::read_now(self.fd.as_fd(), lines.spare()),
        };
        self.filled(read, lines)
    }

    /// What a read into `lines` means.
    fn filled(&mut self, read: Result<usize, Errno>, lines: &mut Lines) -> Result<Filled, StdioError> {
        match read {
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

    /// Whether the writer is gone, though there may be more to read: for an owner that does not read now.
    pub fn hung_up(&self) -> bool {
        self.ended || fd::hung_up(self.fd.as_fd())
    }

    /// The descriptor to wait for; `None` once the input has ended.
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.ended).then(|| self.fd.as_fd())
    }
}
