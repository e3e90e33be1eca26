//! Logging that cannot block the daemon.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pipe::PIPE_BUF;
use tracing_subscriber::fmt::MakeWriter;

use super::fd;
use super::writer::REST;

/// Where `tracing_subscriber::fmt` writes: a bounded queue and a thread that empties it to a descriptor, and is there only
/// while there is something to write and for a second behind it. Lines that
/// find it full are dropped, and their number is written once there is room. A descriptor that fails swallows
/// everything from then on.
#[derive(Clone)]
pub struct StderrLog(Arc<Shared>);

struct Shared {
    fd: Box<dyn AsFd + Send + Sync>,
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
    /// There is a thread.
    runs: bool,
    /// It is writing.
    busy: bool,
    closed: bool,
}

impl StderrLog {
    /// Logs to fd 2, holding up to `capacity` bytes that wait and as many that are being written.
    pub fn new(capacity: usize) -> Self {
        Self::to(rustix::stdio::stderr(), capacity)
    }

    /// The same to any descriptor, blocking or not.
    pub fn to(fd: impl AsFd + Send + Sync + 'static, capacity: usize) -> Self {
        Self(Arc::new(Shared {
            fd: Box::new(fd),
            capacity,
            state: Mutex::default(),
            work: Condvar::new(),
            idle: Condvar::new(),
        }))
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
        let runs = std::mem::replace(&mut state.runs, true);
        drop(state);
        match runs {
            true => self.0.work.notify_one(),
            false => self.0.start(),
        }
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

    /// Without a thread, what goes without a wait is written here; the rest waits for the next line, which tries again.
    fn start(self: &Arc<Self>) {
        let thread = Arc::clone(self);
        if thread::Builder::new().name("stderr".into()).spawn(move || thread.run()).is_ok() {
            return;
        }
        let mut state = self.lock();
        state.runs = false;
        let mut written = 0;
        while let Some(rest) = state.pending.get(written..).filter(|rest| !rest.is_empty())
            && fd::writable_now(self.fd.as_fd())
            && let Ok(count) = fd::write(self.fd.as_fd(), rest.get(..PIPE_BUF).unwrap_or(rest))
        {
            written += count;
        }
        state.pending.drain(..written);
    }

    fn run(&self) {
        let mut batch = Vec::new();
        while self.take(&mut batch) {
            let mut rest = batch.as_slice();
            while !rest.is_empty() {
                match fd::write_patiently(self.fd.as_fd(), rest) {
                    Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                    Err(_) => return self.close(),
                }
            }
        }
    }

    /// Waits for something to write and takes it, the notice behind the lines that came before the gap; false: nothing
    /// came, and the thread is to end.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        batch.clear();
        let (mut state, mut rested) = (self.lock(), false);
        state.busy = false;
        while state.is_idle() {
            self.idle.notify_all();
            if rested {
                state.runs = false;
                return false;
            }
            let waited = self.work.wait_timeout(state, REST).unwrap_or_else(PoisonError::into_inner);
            (state, rested) = (waited.0, waited.1.timed_out());
        }
        std::mem::swap(batch, &mut state.pending);
        let dropped = std::mem::take(&mut state.dropped);
        state.busy = true;
        drop(state);
        if dropped > 0 {
            batch.extend_from_slice(format!("{dropped} log lines dropped: stderr was not read\n").as_bytes());
        }
        true
    }

    fn close(&self) {
        let mut state = self.lock();
        *state = State { closed: true, ..State::default() };
        drop(state);
        self.idle.notify_all();
    }
}
