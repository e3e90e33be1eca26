//! Wiring: the protocol, the store's backend, the standard streams, signals and the order of an end.

mod jsonl;
mod memory;
mod owner;
mod paths;
mod signals;

pub use jsonl::{JsonlOptions, JsonlStorage};
pub use memory::MemoryStorage;
pub use owner::{DaemonError, serve};
pub use paths::canonical_path;
