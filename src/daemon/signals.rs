//! SIGTERM and SIGINT: the first asks for an orderly end, the second ends at once. SIGXFSZ ends nothing.
//!
//! The handlers set a flag and ring the owner's bell, so that no thread waits for signals.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};

use crate::stdio::Waker;

/// Exit code of a second signal: 128 + SIGINT.
const FORCED: i32 = 130;

/// Whether an orderly end was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct EndAsked(Arc<AtomicBool>);

impl EndAsked {
    pub(super) fn is_set(&self) -> bool {
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

/// Listens, and wakes the owner.
pub(super) fn listen(waker: &Waker) -> io::Result<EndAsked> {
    let asked = EndAsked::default();
    for signal in [SIGTERM, SIGINT] {
        // They run in this order: the first signal finds the flag unset, and the flag is set when the owner looks.
        flag::register_conditional_shutdown(signal, FORCED, Arc::clone(&asked.0))?;
        flag::register(signal, Arc::clone(&asked.0))?;
        low_level::pipe::register(signal, waker.descriptor()?)?;
    }
    Ok(asked)
}
