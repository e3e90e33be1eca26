//! Events, headers, rows and prefixes of a log.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../support/mod.rs"]
mod support;

mod chunk_rows;
mod corpus;
mod events;
mod headers;
mod prefixes;
mod repair;
