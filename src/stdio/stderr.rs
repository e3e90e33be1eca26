//! Logging that cannot block the daemon.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

use super::{StdioError, fd};

/// Where `tracing_subscriber::fmt` writes: a bounded queue and a thread that empties it to a descriptor. Lines that
/// find it full are dropped, and their number is written once there is room. A descriptor that fails swallows
/// everything from then on.
#[derive(Debug, Clone)]
pub struct StderrLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    capacity: usize,
    state: Mutex<State>,
    /// There are bytes to write, or nobody logs any more.
    work: Condvar,
    /// All is written, or the descriptor has failed.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pending: Vec<u8>,
    /// Lines dropped since the last notice.
    dropped: u64,
    /// The thread is writing.
    busy: bool,
    closed: bool,
}

impl StderrLog {
    /// Logs to fd 2, holding up to `capacity` bytes that wait and as many that are being written.
    ///
    /// # Errors
    /// [`StdioError::Thread`] when the thread cannot be started.
    pub fn new(capacity: usize) -> Result<Self, StdioError> {
        Self::to(rustix::stdio::stderr(), capacity)
    }

    /// The same to any descriptor, blocking or not.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn to(fd: impl AsFd + Send + 'static, capacity: usize) -> Result<Self, StdioError> {
        let name = "stderr";
        let shared = Arc::new(Shared {
            capacity,
            state: Mutex::default(),
            work: Condvar::new(),
            idle: Condvar::new(),
        });
        let thread = Arc::clone(&shared);
        // The log lives as long as the process: a thread that waits for ever is no leak.
        thread::Builder::new()
            .name(name.into())
            .spawn(move || thread.run(fd.as_fd()))
            .map_err(|source| StdioError::Thread { name, source })?;
        Ok(Self(shared))
    }

    /// Waits until all that was logged is written (or cannot be), at most `timeout`; whether it came to that.
    pub fn flush(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.0.lock();
        while !state.is_idle() {
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            state = self.0.idle.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Lines dropped that no notice has been written for yet.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }
}

impl<'a> MakeWriter<'a> for StderrLog {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// One `write` is one line, kept whole or dropped whole; `fmt` makes one per event.
impl io::Write for &StderrLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        if state.closed {
            return Ok(line.len());
        }
        if state.pending.len() + line.len() > self.0.capacity {
            state.dropped += 1;
        } else {
            state.pending.extend_from_slice(line);
        }
        drop(state);
        self.0.work.notify_one();
        Ok(line.len())
    }

    /// Nothing to do: the thread never holds back.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.closed || (self.pending.is_empty() && self.dropped == 0 && !self.busy)
    }
}

impl Shared {
    /// Nothing under the lock can be left half done by a panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, fd: BorrowedFd<'_>) {
        let mut batch = Vec::new();
        loop {
            self.take(&mut batch);
            let mut rest = batch.as_slice();
            while !rest.is_empty() {
                match fd::write_patiently(fd, rest) {
                    Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                    Err(_) => return self.close(),
                }
            }
        }
    }

    /// Waits for something to write and takes it, the notice behind the lines that came before the gap.
    fn take(&self, batch: &mut Vec<u8>) {
        batch.clear();
        let mut state = self.lock();
        state.busy = false;
        while state.is_idle() {
            self.idle.notify_all();
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(batch, &mut state.pending);
        let dropped = std::mem::take(&mut state.dropped);
        state.busy = true;
        drop(state);
        if dropped > 0 {
            batch.extend_from_slice(format!("{dropped} log lines dropped: stderr was not read\n").as_bytes());
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        *state = State { closed: true, ..State::default() };
        drop(state);
        self.idle.notify_all();
    }
}
