//! Where sessions are kept: the seam between the server and a store, and the engines behind it.
//!
//! [`storage`] says what an engine does, `request` what it is asked and answers, `list` what a page of a list is, `error` why a store cannot, `info` what a
//! store is and who owns a session;
//! `memory` and [`jsonl`] are the engines, `url` tells which of them a `--store` names. `loader` folds what a
//! store reads into a history; [`check`] verifies and repairs stored logs; `working_directory` tells which working
//! directories are one.

pub mod check;
mod error;
mod info;
pub mod jsonl;
mod list;
mod loader;
mod memory;
mod request;
mod root;
pub mod storage;
mod url;
mod working_directory;

pub use error::{Detail, Loss, Outcome, StorageError};
pub use info::{DaemonId, Lease, StoreInfo};
pub use jsonl::{JsonlOptions, JsonlStorage};
pub use memory::MemoryStorage;
pub use root::{Root, RootError};
pub use url::{StoreChoice, StoreChoiceError};
pub use working_directory::{CanonicalPath, SamePlace};
