//! One line on a terminal that says how far long work is. Without a terminal: nothing.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::disk::fs::ReadAt;

/// Work that is done sooner shows nothing.
const QUIET_FOR: Duration = Duration::from_millis(400);
const EVERY: Duration = Duration::from_millis(100);

/// How far the work is.
pub(crate) struct Progress(Mutex<State>);

struct State {
    terminal: Option<Box<dyn Write + Send>>,
    next: Instant,
    shown: bool,
    doing: String,
    bytes: u64,
    of: u64,
}

impl Progress {
    /// Shown on a terminal, if there is one.
    pub(crate) fn new(terminal: Option<Box<dyn Write + Send>>) -> Self {
        let next = Instant::now() + QUIET_FOR;
        let state = State { terminal, next, shown: false, doing: String::new(), bytes: 0, of: 0 };
        Self(Mutex::new(state))
    }

    /// Begins with something of so many bytes.
    pub(crate) fn begin(&self, doing: String, of: u64) {
        let mut state = self.state();
        (state.doing, state.bytes, state.of) = (doing, 0, of);
        state.show();
    }

    fn add(&self, bytes: u64) {
        let mut state = self.state();
        state.bytes += bytes;
        state.show();
    }

    /// Clears the line, before other output and at the end.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.shown) {
            state.write("\r\x1b[K");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn show(&mut self) {
        if self.terminal.is_none() || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        self.shown = true;
        let percent = if self.of < 1 << 20 {
            String::new()
        } else {
            // A log behind a refused event is read twice.
            format!(" {}%", (self.bytes.min(self.of) * 100).checked_div(self.of).unwrap_or(100))
        };
        let text: String = self.doing.chars().filter(|c| !c.is_control()).take(66).collect();
        self.write(&format!("\r\x1b[K{text}{percent}"));
    }

    fn write(&mut self, text: &str) {
        if let Some(terminal) = &mut self.terminal {
            // A terminal that has gone stops no work.
            let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
        }
    }
}

/// A log whose reading is shown.
pub(crate) struct Watched<'a> {
    pub(crate) source: &'a dyn ReadAt,
    pub(crate) progress: &'a Progress,
}

impl ReadAt for Watched<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read_at(offset, buf)?;
        self.progress.add(read as u64);
        Ok(read)
    }
}
