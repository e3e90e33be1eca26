//! SIGTERM and SIGINT: the first asks for an orderly end, the second ends at once. SIGXFSZ ends nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};

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
pub fn outlive_file_size_limit() -> std::io::Result<()> {
    // Only to install the handler, which stays when its listener and the runtime are gone.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    signal(SignalKind::from_raw(libc::SIGXFSZ)).map(drop)
}

/// Listens on the runtime's thread and wakes the owner.
pub(super) fn listen(runtime: &Handle, waker: Waker) -> std::io::Result<EndAsked> {
    let asked = EndAsked::default();
    let told = asked.clone();
    let (mut term, mut int) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    runtime.spawn(async move {
        either(&mut term, &mut int).await;
        told.0.store(true, Ordering::Release);
        waker.wake();
        either(&mut term, &mut int).await;
        std::process::exit(FORCED);
    });
    Ok(asked)
}

async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
