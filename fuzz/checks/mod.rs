//! What fuzzing holds this program to: one function over arbitrary bytes for each target.
//!
//! They are called by the fuzzer (`fuzz/fuzz_targets`) and, over the kept corpus and mutations of it,
//! by the ordinary tests (`tests/fuzz/corpus.rs`). A check panics when something does not hold.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

pub mod chunk_rows;
pub mod driver;
pub mod lines;
pub mod loader;
pub mod lossless;
pub mod memory;
pub mod model;
pub mod paths;
pub mod plain;
pub mod stored;

/// A check, by the name of its target.
pub type Check = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: [Check; 6] = [
    ("loader", loader::loader),
    ("lines", lines::lines),
    ("lossless", lossless::lossless),
    ("chunk_rows", chunk_rows::chunk_rows),
    ("model", model::model),
    ("paths", paths::paths),
];
