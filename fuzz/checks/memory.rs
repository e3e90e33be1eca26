//! How much memory a check takes, where the program that runs it counts.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes allocated now, and the most that were since [`measure`] began. A counting allocator keeps them
/// (`fuzz_targets/loader.rs`); without one both stay 0.
pub static NOW: AtomicUsize = AtomicUsize::new(0);
pub static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Runs it, and gives the most bytes that it held beyond what was held before.
pub fn measure<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let done = run();
    (done, PEAK.load(Relaxed).saturating_sub(before))
}

/// Counts bytes that were allocated.
pub fn taken(bytes: usize) {
    let now = NOW.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
}

/// Counts bytes that were given back.
pub fn given(bytes: usize) {
    NOW.fetch_sub(bytes, Relaxed);
}
