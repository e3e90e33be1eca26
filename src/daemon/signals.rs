//! SIGTERM and SIGINT: the first asks for an orderly end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Listens on a thread of its own and wakes the owner.
pub(super) fn listen(waker: Waker) -> std::io::Result<EndAsked> {
    let asked = EndAsked::default();
    let told = asked.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut term, mut int) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            either(&mut term, &mut int).await;
            told.0.store(true, Ordering::Release);
            waker.wake();
            either(&mut term, &mut int).await;
            std::process::exit(FORCED);
        });
    })?;
    Ok(asked)
}

async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
