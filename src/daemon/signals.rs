//! SIGTERM, SIGINT and SIGHUP ask for an orderly end; SIGTERM and SIGINT behind one of them end at once. SIGXFSZ ends
//! nothing.
//!
//! The handlers set a flag and ring the owner's bell, so that no thread waits for signals.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};

use crate::stdio::Waker;

/// Exit code of a second signal: 128 + SIGINT.
const FORCED: i32 = 130;

/// Whether an orderly end was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndAsked(Arc<AtomicBool>);

impl EndAsked {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A write beyond the limit of a file's size (`ulimit -f`) fails with `EFBIG` from now on, as on a full disk, instead of
/// ending the process by SIGXFSZ.
///
/// # Errors
/// Whatever keeps the system from listening for signals.
pub fn outlive_file_size_limit() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop) // only to have a handler
}

/// Listens, and wakes the owner; to be called by its thread. What a parent had blocked reaches it from now on.
pub(crate) fn listen(waker: &Waker) -> io::Result<EndAsked> {
    let asked = EndAsked::default();
    let mut heard = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    for signal in [SIGTERM, SIGINT] {
        // Before what sets the flag: the first signal finds it unset.
        flag::register_conditional_shutdown(signal, FORCED, Arc::clone(&asked.0))?;
    }
    // A second one ends nothing: as a terminal closes, both its shell and the system send one.
    if !is_ignored(SIGHUP) {
        heard.add(Signal::SIGHUP);
    }
    for signal in &heard {
        // In this order: the flag is set when the owner looks.
        flag::register(signal as i32, Arc::clone(&asked.0))?;
        low_level::pipe::register(signal as i32, waker.descriptor()?)?;
    }
    heard.thread_unblock()?;
    Ok(asked)
}

/// Whether whoever started this process had it ignore a signal, as `nohup` does. Where nothing tells (there is no safe
/// call for it, and `/proc` is Linux's) the signal is left as it is.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & (1 << (signal - 1)) != 0)
}
