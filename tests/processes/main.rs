//! Several daemons on one store, and such as are killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../dur_support/mod.rs"]
mod dur_support;

mod storm_support;

mod concurrency;
mod crash;
mod several;
mod soak;
mod starts;
