//! `jsonl:DIR`: sessions in files that the format's other readers know, over `disk`.
//!
//! The owner thread only appends to open files. Everything that waits (publishing, mending, syncing,
//! reading, listing, deleting) runs on other threads, which send a message and wake the owner.

mod append;
mod failures;
mod group_commit;
mod heap;
mod keep;
mod live;
mod offline;
mod read;
mod storage;

pub(crate) use offline::mend;
pub use storage::{JsonlOptions, JsonlStorage};
