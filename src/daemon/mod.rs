//! Wiring: the protocol, the store's backend, the standard streams, signals and the order of an end.

mod choice;
mod descriptors;
mod eager;
mod flags;
mod heap;
mod jsonl;
mod maintain;
mod memory;
mod owner;
mod paths;
mod root;
mod signals;

pub use choice::{StoreChoice, StoreChoiceError};
pub use flags::between;
pub use jsonl::{JsonlOptions, JsonlStorage};
pub use maintain::{RepairArgs, VerifyArgs, main_repair, main_verify};
pub use memory::MemoryStorage;
pub use owner::{DaemonError, End, background, serve};
pub use paths::canonical_path;
pub use root::{Root, RootError};
pub use signals::outlive_file_size_limit;
