//! The scanner, and the text that it has verified.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../support/mod.rs"]
mod support;

mod faults;
mod grammar;
mod speed;
mod text;
mod vectors;
