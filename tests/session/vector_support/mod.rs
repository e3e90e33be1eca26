//! Carries out the cases of the conformance vectors against a store, and holds each answer to the recorded one.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing)]

pub mod class;
pub mod run;
