//! Faults that users of agent session stores and of stdio servers have met in public, provoked on the real daemon.
//!
//! Each test is named by its kind, and says which entries of the kind it provokes. `tests/fixtures/scenarios.tsv` lists every
//! entry: the tests that provoke it, where the contract wants something else than the entry does, and what does not
//! apply here, with what to do instead. `table` holds the list and the tests to each other.
#![cfg(target_os = "linux")]
#![allow(unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../dur_support/mod.rs"]
mod dur_support;
#[path = "../storage_support/mod.rs"]
mod storage_support;
#[path = "../support/mod.rs"]
mod support;
#[path = "../wire_support/mod.rs"]
mod wire_support;

mod kit;

mod access;
mod damage;
mod durability;
mod forks;
mod formats;
mod isolation;
mod listing;
mod locks;
mod process;
mod sizes;
mod surface;
mod table;
mod wire;
