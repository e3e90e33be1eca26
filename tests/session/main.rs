//! Live sessions: laws on random ones, the reference's answers, real logs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../support/mod.rs"]
mod support;

mod vector_support;

mod corpus;
mod laws;
mod long_lives;
mod vectors;
