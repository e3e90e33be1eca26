//! How other threads interrupt the owner's wait.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::ioctl_fionbio;

use super::StdioError;

/// Wakes the owner. Put the message where the owner looks first, then wake. Any number of wakes before the owner
/// looks are one.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Bell>);

/// The owner's end, given to `wait`, which clears it.
#[derive(Debug)]
pub struct WakeFd {
    reader: PipeReader,
    bell: Arc<Bell>,
}

#[derive(Debug)]
struct Bell {
    /// Rung and not yet cleared: keeps a wake of the already woken free of system calls.
    rung: AtomicBool,
    writer: PipeWriter,
}

/// A waker and the descriptor that it makes readable.
///
/// # Errors
/// [`StdioError::Wake`] when no pipe can be had.
pub fn wake_pair() -> Result<(Waker, WakeFd), StdioError> {
    let (reader, writer) = pipe().map_err(StdioError::Wake)?;
    ioctl_fionbio(&reader, true).map_err(|errno| StdioError::Wake(errno.into()))?;
    ioctl_fionbio(&writer, true).map_err(|errno| StdioError::Wake(errno.into()))?;
    let bell = Arc::new(Bell { rung: AtomicBool::new(false), writer });
    Ok((Waker(Arc::clone(&bell)), WakeFd { reader, bell }))
}

impl Waker {
    /// The same as a function.
    pub fn into_fn(self) -> Arc<dyn Fn() + Send + Sync> {
        Arc::new(move || self.wake())
    }

    /// Makes the owner's wait return, now or the next time it waits. Never blocks, never fails.
    pub fn wake(&self) {
        if !self.0.rung.swap(true, Ordering::AcqRel) {
            // A full pipe is readable already; without a reader there is nobody to wake.
            let _ = (&self.0.writer).write(&[1]);
        }
    }

    /// A non-blocking descriptor for the handler of a signal: a byte that is written to it wakes the owner, too.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.0.writer.try_clone().map(OwnedFd::from)
    }
}

impl WakeFd {
    /// To poll for reading.
    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// Takes the wake back. Emptied first, unset second: a wake in between is seen by the look that follows.
    pub(super) fn clear(&self) {
        let _ = (&self.reader).read(&mut [0; 64]);
        self.bell.rung.swap(false, Ordering::AcqRel);
    }
}
