//! The adaptive writer, thread's side: a counted queue of buffers and who empties it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::{Waker, fd};

/// Waiting buffers are joined up to this size: what waits costs its bytes, not a buffer per answer.
const JOIN: usize = 256 * 1024;
/// One write at most, so that `queued_bytes` moves while a long answer is being read.
const STEP: usize = 256 * 1024;
/// Buffers up to this capacity are used again, so many of them.
const RECYCLE: usize = 1024 * 1024;
const SPARES: usize = 4;
/// So long a thread that writes waits for more before it ends.
pub(super) const REST: Duration = Duration::from_secs(1);

/// What waits to be written. The owner pushes; the thread writes.
#[derive(Debug)]
pub(super) struct Backlog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    fd: OwnedFd,
    bound: usize,
    waker: Waker,
    /// Bytes in the queue and in the thread's hands. Goes up and to zero under the lock.
    bytes: AtomicUsize,
    closed: AtomicBool,
    /// No thread could be started for what is queued.
    stalled: AtomicBool,
    state: Mutex<State>,
    /// There is work, or it is time to stop.
    work: Condvar,
    /// Nothing is left, or writing has failed.
    empty: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Piece>,
    spares: Vec<Vec<u8>>,
    /// There is a thread: as long as there is anything in the queue, and a while longer, unless none can be started.
    runs: bool,
    stop: bool,
}

/// Bytes that wait to be written.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Vec<u8>,
    /// Where the unwritten part starts.
    from: usize,
}

impl Piece {
    /// The unwritten part.
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.from..).unwrap_or_default()
    }
}

impl Backlog {
    /// Nothing is queued yet, and no thread runs. A process with one thread alone is switched to, and uses its descriptors, at
    /// less cost, and many a conversation needs no second one.
    pub(super) fn new(fd: OwnedFd, bound: usize, waker: Waker) -> Self {
        Self(Arc::new(Shared {
            fd,
            bound,
            waker,
            bytes: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            state: Mutex::default(),
            work: Condvar::new(),
            empty: Condvar::new(),
        }))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }

    pub(super) fn bound(&self) -> usize {
        self.0.bound
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Acquire)
    }

    pub(super) fn closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    pub(super) fn fail(&self, errno: Errno) {
        self.0.fail(errno);
    }

    /// Queues `lines[from..]` and leaves an empty buffer in its place.
    pub(super) fn push(&self, lines: &mut Vec<u8>, from: usize) {
        self.0.push(lines, from);
    }

    /// Whether bytes wait because no thread could be started.
    pub(super) fn is_stalled(&self) -> bool {
        self.0.stalled.load(Ordering::Acquire)
    }

    /// Tries again what could not be started.
    pub(super) fn go_on(&self) {
        if self.is_stalled() && !std::mem::replace(&mut self.0.lock().runs, true) {
            self.0.start();
        }
    }

    /// What comes next, for the owner to write, while no thread can be started.
    pub(super) fn take(&self) -> Option<Piece> {
        if !self.is_stalled() {
            return None;
        }
        let piece = self.0.lock().queue.pop_front();
        self.0.stalled.store(piece.is_some(), Ordering::Release);
        piece
    }

    /// Takes it back with so many more bytes written.
    pub(super) fn put_back(&self, mut piece: Piece, written: usize) {
        self.0.bytes.fetch_sub(written, Ordering::AcqRel);
        piece.from += written;
        match piece.rest().is_empty() {
            true => self.0.recycle(piece.bytes),
            false => self.0.lock().queue.push_front(piece),
        }
    }

    /// Another way into the queue; it does not keep the thread from ending.
    pub(super) fn way_in(&self) -> WayIn {
        WayIn(Arc::clone(&self.0))
    }

    /// Waits until nothing is left or writing has failed; the bytes left.
    pub(super) fn wait_empty(&self, timeout: Duration) -> usize {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.0.lock();
        while self.bytes() > 0 && !self.closed() {
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state = self.0.empty.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.bytes()
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.0.lock().stop = true;
        self.0.work.notify_one();
    }
}

/// Queues bytes behind what is queued already.
#[derive(Debug)]
pub(super) struct WayIn(Arc<Shared>);

impl WayIn {
    /// Queues all bytes and leaves an empty buffer in their place.
    pub(super) fn push(&self, bytes: &mut Vec<u8>) {
        self.0.push(bytes, 0);
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Acquire)
    }
}

impl Shared {
    fn push(self: &Arc<Self>, lines: &mut Vec<u8>, from: usize) {
        let new = lines.len().saturating_sub(from);
        let mut state = self.lock();
        if self.closed.load(Ordering::Acquire) {
            lines.clear();
            return;
        }
        let waiting = !state.queue.is_empty();
        match state.queue.back_mut() {
            Some(last) if last.bytes.len() + new <= JOIN => {
                last.bytes.extend_from_slice(lines.get(from..).unwrap_or_default());
                lines.clear();
            }
            _ => {
                let mut bytes = std::mem::replace(lines, state.spares.pop().unwrap_or_default());
                // In a backlog, memory has to follow the bytes counted.
                if waiting && bytes.capacity() / 2 > bytes.len() {
                    bytes.shrink_to_fit();
                }
                state.queue.push_back(Piece { bytes, from });
            }
        }
        self.bytes.fetch_add(new, Ordering::AcqRel);
        let runs = std::mem::replace(&mut state.runs, true);
        drop(state);
        match runs {
            true => self.work.notify_one(),
            false => self.start(),
        }
    }

    fn start(self: &Arc<Self>) {
        let thread = Arc::clone(self);
        let started = thread::Builder::new().name("stdout".into()).spawn(move || thread.run());
        let was_stalled = self.stalled.swap(started.is_err(), Ordering::AcqRel);
        if let Err(error) = started {
            self.lock().runs = false;
            if !was_stalled {
                tracing::error!(%error, "cannot start the thread that writes to stdout; it is tried again, and meanwhile less is written at once");
            }
        }
    }

    /// Nothing under the lock can be left half done by a panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(piece) = self.next() {
            if let Err(errno) = self.write(&piece) {
                self.fail(errno);
                return;
            }
            self.recycle(piece.bytes);
        }
    }

    /// The next piece, when there is one; `None` when there will be no more.
    fn next(&self) -> Option<Piece> {
        let (mut state, mut rested) = (self.lock(), false);
        loop {
            if let Some(piece) = state.queue.pop_front() {
                return Some(piece);
            }
            self.empty.notify_all();
            if state.stop || rested || self.closed.load(Ordering::Acquire) {
                state.runs = false;
                return None;
            }
            let waited = self.work.wait_timeout(state, REST).unwrap_or_else(PoisonError::into_inner);
            (state, rested) = (waited.0, waited.1.timed_out());
        }
    }

    fn write(&self, piece: &Piece) -> Result<(), Errno> {
        let mut rest = piece.rest();
        while !rest.is_empty() {
            let step = rest.get(..STEP).unwrap_or(rest);
            let n = fd::write_patiently(self.fd.as_fd(), step)?;
            rest = rest.get(n..).unwrap_or_default();
            let before = self.bytes.fetch_sub(n, Ordering::AcqRel);
            if before > self.bound && before - n <= self.bound {
                self.waker.wake();
            }
        }
        Ok(())
    }

    fn recycle(&self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= RECYCLE {
            bytes.clear();
            let mut state = self.lock();
            if state.spares.len() < SPARES {
                state.spares.push(bytes);
            }
        }
    }

    /// The end of the output: what waits is dropped and the owner told.
    fn fail(&self, errno: Errno) {
        let mut state = self.lock();
        let dropped = self.bytes.swap(0, Ordering::AcqRel);
        self.closed.store(true, Ordering::Release);
        state.queue = VecDeque::new();
        drop(state);
        self.work.notify_one();
        self.empty.notify_all();
        // A client that goes away is an ordinary end; a full disk behind a redirected stdout is not.
        if errno == Errno::PIPE || errno == Errno::CONNRESET {
            tracing::debug!(dropped, "the reader of stdout is gone");
        } else {
            tracing::error!(dropped, %errno, "cannot write to stdout");
        }
        self.waker.wake();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::pipe;

    use super::*;
    use crate::stdio::wake_pair;

    #[test]
    fn memory_follows_the_bytes_counted() {
        let (_reader, writer) = pipe().unwrap();
        let backlog = Backlog::new(writer.into(), usize::MAX, wake_pair().unwrap().0);
        // Small answers in big buffers, then middling ones that cannot be joined in pairs.
        for len in std::iter::repeat_n(100, 20_000).chain(std::iter::repeat_n(JOIN / 2 + 1, 50)) {
            let mut lines = Vec::with_capacity(RECYCLE);
            lines.resize(len, b'x');
            backlog.push(&mut lines, 0);
        }
        let held: usize = backlog.0.lock().queue.iter().map(|piece| piece.bytes.capacity()).sum();
        assert!(backlog.bytes() > 8_000_000);
        assert!(held <= 2 * backlog.bytes(), "{held} held for {}", backlog.bytes());
    }
}
