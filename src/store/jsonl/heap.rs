//! Freed memory goes back to the system.
//!
//! glibc keeps what is freed between blocks that are still in use, and after it has freed one large block it puts all
//! others up to that size among them. Without a word from us, a log that was closed, loaded and closed again left 87 to
//! 119 % of its memory with the process (`cargo bench --bench suite -- --only memory`).

/// A log that takes less is left to the allocator.
pub(crate) const WORTH_A_TRIM: usize = 1 << 20;

/// Gives back what the allocator holds free. It may take milliseconds: not for the owner thread.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the allocator's own call has no safe form; it is this crate's only one")]
pub(crate) fn give_back() {
    // SAFETY: malloc_trim takes a number and no pointer, touches free memory only, and may be called by any thread at
    // any time (MT-Safe in the manual of glibc).
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators see to it themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}
