//! The owner thread: reads a chunk of stdin, carries out every whole line in it, writes stdout once.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::poll_policy::Eager;
use super::{limits as descriptors, signals};
use crate::replay::{RecordError, Recorder};
use crate::server::{Server, Settings};
use crate::stdio::{
    Drained, Filled, Frame, Input, Lines, Output, SOON, Stdio, StdioError, WakeFd, Waker, wait, wake_pair,
};
use crate::store::storage::Storage;

/// How long an end waits for a client that does not read (PROTOCOL 1).
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Threads that may wait for the disk at once.
const BLOCKING_THREADS: usize = 16;
/// How long a wait lasts that something else than news may end.
const TICK: Duration = Duration::from_millis(100);
/// So much output is handed on before a chunk of input is through.
const HAND_OVER_AT: usize = 1 << 20;

/// Why the daemon could not start or go on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum DaemonError {
    #[error(transparent)]
    Stdio(#[from] StdioError),
    #[error(
        "cannot start threads: {0}; end other processes of this user, or allow it more (ulimit -u, a container's limit)"
    )]
    Threads(io::Error),
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
}

/// How a daemon has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All that was answered is stored.
    Whole,
    /// A session could not be stored with all that was answered; the log says which and why.
    Unsaved,
}

/// Threads for timers and work that waits, for a storage that needs them; never for the standard streams.
///
/// What one of them does for timers and one for work is done as long as the runtime is there, whatever the system
/// refuses later: work for which no further thread can be started waits for one that there is.
///
/// # Errors
/// [`DaemonError::Threads`] when these two cannot be started.
pub fn background() -> Result<Runtime, DaemonError> {
    let start = || {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(BLOCKING_THREADS).enable_all();
        let runtime = builder.thread_keep_alive(Duration::MAX).build()?; // none ends for having nothing to do
        runtime.spawn_blocking(|| ());
        Ok(runtime)
    };
    // Where there is no thread to be had, tokio panics; it runs none yet whose panics would go unheard meanwhile.
    let usual = take_hook();
    set_hook(Box::new(|_| {}));
    let started = catch_unwind(AssertUnwindSafe(start));
    set_hook(usual);
    let refused = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast::<String>().map_or_else(|_| "tokio panicked".to_owned(), |text| *text);
        Err(io::Error::other(text))
    };
    started.unwrap_or_else(refused).map_err(DaemonError::Threads)
}

/// Serves one client over `stdio` until its input ends, its output closes or a signal asks for the end.
pub fn serve(
    stdio: Stdio,
    settings: Settings,
    storage: impl FnOnce(Waker) -> Box<dyn Storage + Send>,
    recorder: Option<Recorder>,
) -> Result<End, DaemonError> {
    descriptors::raise_limit();
    let (waker, wake) = wake_pair()?;
    let end_asked = signals::listen(&waker).map_err(DaemonError::Signals)?;
    let output = Output::new(stdio.output, settings.wire.max_queued_bytes, waker.clone());
    let (max_line, step_by_step) = (settings.wire.max_message_bytes, settings.clock.is_fixed());
    let mut server = Server::new(settings, storage(waker)).with_unread(output.gauge());
    if recorder.is_none() {
        server = server.with_outlet(Box::new(output.outlet())); // a recording is made of whole lines
    }
    let mut owner = Owner {
        lines: Lines::new(max_line),
        output,
        step_by_step,
        server,
        recorder,
        unread: false,
        given_up: false,
    };
    let mut input = Input::new(stdio.input);
    let mut ended = false;
    let (mut eager, mut busy) = (Eager::default(), false);
    let mut patience = Patience::new(LAST_WORDS);
    loop {
        if owner.output.closed() || end_asked.is_set() {
            break;
        }
        let (blocked, full) = (owner.is_blocked(), owner.output.over_bound());
        let reads = !blocked && !owner.unread;
        let pause = match (blocked, full) {
            (_, false) if owner.server.has_more() => Some(Duration::ZERO),
            (true, _) => Some(TICK), // to see the end of an input that is not read now
            (false, _) => owner.unread.then_some(Duration::ZERO),
        };
        let pause = match owner.output.go_on() {
            true => pause,
            false => Some(pause.map_or(SOON, |pause| pause.min(SOON))),
        };
        // Not while anything is under way: no other thread's news is to be passed over.
        let at_rest = reads && !ended && pause.is_none() && owner.server.is_idle();
        let found = match busy && at_rest && eager.tries() {
            true => eager.note(input.fill_now(&mut owner.lines)),
            false => None,
        };
        let came = match found {
            Some(found) => Some(found),
            None => {
                let wanted = if reads { input.poll_fd() } else { None };
                let ready = wait(wanted, &wake, owner.output.poll_fd(), pause)?;
                if ready.output_gone || owner.output.closed() || end_asked.is_set() {
                    break;
                }
                if !full {
                    owner.server.advance();
                }
                ready.input.then(|| input.fill(&mut owner.lines))
            }
        };
        busy = came.is_some();
        match came {
            None | Some(Ok(Filled::Bytes(_) | Filled::NotReady)) => {}
            Some(Ok(Filled::End)) => ended = true,
            Some(Err(error)) => {
                tracing::warn!(%error, "stdin failed; ending as at its end");
                ended = true;
            }
        }
        owner.carry_out(|tick| wake_is_enough(&wake, tick));
        owner.hand_over();
        if ended && !owner.unread && !owner.server.has_more() {
            break;
        }
        // The client is gone, or as good as gone, while somebody else keeps its end of stdout open.
        let gone = owner.output.over_bound() && (ended || input.hung_up());
        if patience.is_over(gone.then(|| owner.output.queued_bytes())) {
            break;
        }
    }
    owner.finish(&wake);
    Ok(if owner.server.is_unsaved() { End::Unsaved } else { End::Whole })
}

/// How long an end waits for a client that reads nothing at all.
struct Patience {
    limit: Duration,
    queued: Option<usize>,
    since: Instant,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { limit, queued: None, since: Instant::now() }
    }

    /// Whether so long nothing was read; `queued` is what waits to be read now, none for as long as an
    /// end is not in sight.
    fn is_over(&mut self, queued: Option<usize>) -> bool {
        if queued != self.queued {
            (self.queued, self.since) = (queued, Instant::now());
        }
        queued.is_some() && self.since.elapsed() >= self.limit
    }
}

/// Waits until some other thread has news, or so long.
fn wake_is_enough(wake: &WakeFd, tick: Duration) {
    let _ = wait(None, wake, None, Some(tick));
}

struct Owner {
    lines: Lines,
    server: Server,
    output: Output,
    /// Every line is carried out, storage included, before the next is read (PROTOCOL 7).
    step_by_step: bool,
    recorder: Option<Recorder>,
    /// Lines may be left in `lines`, because more waits than its bound.
    unread: bool,
    /// A client that reads nothing was waited for long enough: what is more than the bound is dropped.
    given_up: bool,
}

impl Owner {
    /// Whether what waits, to be read by the client or to be carried out, is over its bound.
    fn is_blocked(&self) -> bool {
        self.output.over_bound() || self.server.waiting_bytes() > self.output.bound()
    }

    /// Carries out the lines that are there; stops between two of them while [`Self::is_blocked`].
    fn carry_out(&mut self, pause: impl Fn(Duration)) {
        loop {
            if self.server.output().is_some_and(|out| out.len() >= HAND_OVER_AT) {
                self.hand_over();
            }
            self.unread = self.is_blocked();
            if self.unread {
                return;
            }
            let Some(frame) = self.lines.next_frame() else { return };
            match frame {
                Frame::Line(line) => {
                    record(&mut self.recorder, |recorder| recorder.received(line));
                    self.server.receive(line);
                }
                Frame::TooLong => {
                    record(&mut self.recorder, |recorder| recorder.received_oversized(0));
                    self.server.receive_too_large();
                }
            }
            if self.step_by_step {
                self.run_dry(&pause, None);
            }
            if self.recorder.is_some() {
                self.hand_over();
            }
        }
    }

    /// Goes on until nothing waits any more, or until `patience` with a client that does not read is over.
    fn run_dry(&mut self, pause: &impl Fn(Duration), mut patience: Option<&mut Patience>) {
        loop {
            let tick = if self.output.go_on() { TICK } else { SOON };
            match &mut patience {
                Some(patience) if self.output.over_bound() => {
                    pause(tick);
                    if patience.is_over(Some(self.output.queued_bytes())) {
                        return;
                    }
                    continue;
                }
                _ => self.server.advance(),
            }
            self.hand_over();
            if self.server.is_idle() {
                return;
            }
            if !self.server.has_more() {
                pause(tick);
            }
        }
    }

    /// Ends a turn, and gives what is ready to the writer.
    fn hand_over(&mut self) {
        let full = self.output.over_bound();
        self.server.hold(full && !self.given_up);
        self.server.settle();
        let Some(out) = self.server.output() else { return };
        if full && self.given_up {
            out.clear();
        }
        if out.is_empty() {
            return;
        }
        record(&mut self.recorder, |recorder| {
            for line in out.split('\n').filter(|line| !line.is_empty()) {
                recorder.sent(line.as_bytes())?;
            }
            Ok(())
        });
        self.output.hand_over(out);
    }

    /// What was accepted is carried out, flushed and answered; a client that does not read gets 5 s.
    fn finish(&mut self, wake: &WakeFd) {
        let pause = |tick| wake_is_enough(wake, tick);
        let mut patience = Patience::new(LAST_WORDS);
        self.run_dry(&pause, Some(&mut patience));
        self.given_up = !self.server.is_idle();
        self.server.close_outlet();
        self.server.shut_down();
        self.run_dry(&pause, None);
        record(&mut self.recorder, Recorder::end_of_input);
        self.hand_over();
        if let Some(Err(error)) = self.recorder.take().map(Recorder::finish) {
            tracing::warn!(%error, "the recording is not whole");
        }
        while let Drained::TimedOut(left) = self.output.drain(TICK) {
            if patience.is_over(Some(left)) {
                break;
            }
        }
    }
}

/// Recording never stops the daemon: its first failure is said once.
fn record(recorder: &mut Option<Recorder>, act: impl FnOnce(&mut Recorder) -> Result<(), RecordError>) {
    if let Some(recorder) = recorder
        && let Err(error) = act(recorder)
    {
        tracing::warn!(%error, "recording has stopped");
    }
}
