//! The adaptive writer, owner's side.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::pipe::PIPE_BUF;

use super::writer::Backlog;
use super::{Waker, fd, own};

/// Buffers up to this many bytes are tried without the writer thread: what a chunk of small appends is answered with, and
/// more. Another processor would first have to fetch what this one has just written.
const INLINE_MAX: usize = 512 * 1024;
/// So long what could not be written waits for its thread or for room, where there is no thread to wait for that.
pub const SOON: Duration = Duration::from_millis(10);

/// How [`Output::drain`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Everything handed over was written.
    All,
    /// The reader is gone, or writing failed.
    Closed,
    /// Time was up with this many bytes unwritten.
    TimedOut(usize),
}

/// How to write without the risk of blocking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inline {
    /// The kernel takes a per-call "do not wait".
    NoWait,
    /// Up to `PIPE_BUF` bytes after each `poll` that says writable: that much a pipe guarantees.
    Polled,
    /// A terminal or another device, of which nothing is known.
    Never,
}

/// The writing end of the protocol: takes whole lines, keeps their order, never makes the owner wait.
///
/// What is small and fits is written by the owner at once; everything else goes to a thread. Dropping it does not
/// wait: [`drain`](Self::drain) first. The thread ends when all is written or the reader is gone.
#[derive(Debug)]
pub struct Output {
    backlog: Backlog,
    /// The same pipe, for writes that never wait.
    own: Option<OwnedFd>,
    /// How without one.
    inline: Inline,
}

impl Output {
    /// Writes to `fd`, blocking or not; its flags are left alone, as the client may share them. `bound` is the
    /// number of unread bytes up to which the owner means to go on: `waker` wakes it when
    /// [`queued_bytes`](Self::queued_bytes) comes back to it from above, and when writing has failed.
    pub fn new(fd: OwnedFd, bound: usize, waker: Waker) -> Self {
        let own = own::writer(fd.as_fd());
        Self { backlog: Backlog::new(fd, bound, waker), own, inline: Inline::NoWait }
    }

    /// Takes whole lines, ends included, and leaves an empty buffer to go on with. Never blocks. Once
    /// [`closed`](Self::closed), the bytes are dropped.
    pub fn hand_over(&mut self, lines: &mut String) {
        let written = self.write_now(lines.as_bytes());
        if written < lines.len() {
            as_bytes(lines, |bytes| self.backlog.push(bytes, written));
        }
        lines.clear();
    }

    /// A way to hand over the beginning of a line that is still being made, for the one who makes it: the thread writes
    /// it meanwhile. The bytes go behind all that was handed over, and the buffer is left empty.
    pub fn outlet(&self) -> impl FnMut(&mut String) + Send + 'static {
        let way_in = self.backlog.way_in();
        move |text: &mut String| as_bytes(text, |bytes| way_in.push(bytes))
    }

    /// A look at [`Self::queued_bytes`] for who does not have the output.
    pub fn gauge(&self) -> impl Fn() -> usize + Send + 'static {
        let way_in = self.backlog.way_in();
        move || way_in.bytes()
    }

    /// Bytes handed over and not yet taken by the kernel.
    pub fn queued_bytes(&self) -> usize {
        self.backlog.bytes()
    }

    /// Whether more is queued than the bound: time to stop reading until woken.
    pub fn over_bound(&self) -> bool {
        self.backlog.bytes() > self.backlog.bound()
    }

    /// Tries again to start the thread, if that has failed; as long as it fails, writes what fits without a wait. False
    /// while anything is left to be written so: to be called again [`SOON`].
    pub fn go_on(&mut self) -> bool {
        self.backlog.go_on();
        while let Some(piece) = self.backlog.take() {
            let step = piece.rest().get(..INLINE_MAX).unwrap_or(piece.rest());
            let written = self.write_inline(step);
            self.backlog.put_back(piece, *written.as_ref().unwrap_or(&0));
            match written {
                Ok(0) => return false,
                Ok(_) => {}
                Err(errno) => self.backlog.fail(errno),
            }
        }
        true
    }

    /// The bound.
    pub fn bound(&self) -> usize {
        self.backlog.bound()
    }

    /// Whether the reader is gone or writing has failed for good.
    pub fn closed(&self) -> bool {
        self.backlog.closed()
    }

    /// Waits until all is written, the output is closed or `timeout` is over.
    pub fn drain(&mut self, timeout: Duration) -> Drained {
        let deadline = Instant::now().checked_add(timeout);
        let left = loop {
            let pause = if self.go_on() { timeout } else { timeout.min(SOON) };
            let left = self.backlog.wait_empty(pause);
            if left == 0 || self.closed() || deadline.is_some_and(|at| at <= Instant::now()) {
                break left;
            }
        };
        if self.closed() {
            Drained::Closed
        } else if left == 0 {
            Drained::All
        } else {
            Drained::TimedOut(left)
        }
    }

    /// The descriptor to watch for its reader's end; `None` once closed.
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.closed()).then(|| self.backlog.fd())
    }

    /// Writes what may be written without the thread; how much that was.
    fn write_now(&mut self, lines: &[u8]) -> usize {
        // Nothing queued means that the thread has nothing in its hands either, so order holds.
        if lines.len() > INLINE_MAX || self.backlog.bytes() > 0 || self.closed() {
            return 0;
        }
        self.write_inline(lines).unwrap_or_else(|errno| {
            self.backlog.fail(errno);
            0
        })
    }

    /// Writes what fits now and says how much that was.
    fn write_inline(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        if let Some(own) = &self.own {
            return match fd::write(own.as_fd(), bytes) {
                Err(Errno::AGAIN) => Ok(0),
                other => other,
            };
        }
        if self.inline == Inline::NoWait {
            match fd::write_now(self.backlog.fd(), bytes) {
                Err(Errno::AGAIN) => return Ok(0),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.inline = without_nowait(self.backlog.fd());
                }
                other => return other,
            }
        }
        let mut written = 0;
        if self.inline == Inline::Polled {
            for piece in bytes.chunks(PIPE_BUF) {
                if !fd::writable_now(self.backlog.fd()) {
                    break;
                }
                match fd::write(self.backlog.fd(), piece) {
                    Ok(n) if n == piece.len() => written += n,
                    Ok(n) => return Ok(written + n),
                    Err(Errno::AGAIN) => break,
                    Err(errno) => return Err(errno),
                }
            }
        }
        Ok(written)
    }
}

/// Lets `queue` take a text's buffer as bytes and leave another one, which is empty.
fn as_bytes(text: &mut String, queue: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::mem::take(text).into_bytes();
    queue(&mut bytes);
    *text = String::from_utf8(bytes).unwrap_or_default();
}

/// What is safe where the kernel has no per-call flag.
fn without_nowait(fd: BorrowedFd<'_>) -> Inline {
    match fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Fifo | FileType::Socket | FileType::RegularFile) => Inline::Polled,
        _ => Inline::Never,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;
    use crate::stdio::wake_pair;

    fn old_kernel(fd: impl Into<OwnedFd>) -> Output {
        let mut output = Output::new(fd.into(), 1 << 20, wake_pair().unwrap().0);
        (output.own, output.inline) = (None, without_nowait(output.backlog.fd()));
        output
    }

    #[test]
    fn without_the_per_call_flag_a_pipe_is_polled_and_nothing_is_lost() {
        let (mut reader, writer) = pipe().unwrap();
        let mut output = old_kernel(writer);
        assert_eq!(output.inline, Inline::Polled);
        let mut expected = Vec::new();
        // Fills the pipe in uneven steps, so that all of: whole, in part, not at all.
        for n in 0..400 {
            let mut lines = format!("{n} {}\n", "-".repeat(n * 37));
            expected.extend_from_slice(lines.as_bytes());
            output.hand_over(&mut lines);
        }
        assert!(output.queued_bytes() > 0);
        let mut seen = vec![0; expected.len()];
        reader.read_exact(&mut seen).unwrap();
        assert!(seen == expected);
        assert_eq!(output.drain(Duration::from_secs(60)), Drained::All);
        output.hand_over(&mut "at once\n".to_owned());
        assert_eq!(output.queued_bytes(), 0);
    }

    #[test]
    fn a_device_is_left_to_the_thread() {
        let null = std::fs::File::create("/dev/null").unwrap();
        let mut output = old_kernel(null);
        assert_eq!(output.inline, Inline::Never);
        output.hand_over(&mut "line\n".to_owned());
        assert_eq!(output.drain(Duration::from_secs(60)), Drained::All);
    }
}
