//! Faults that users of agent session stores and of stdio servers have met in public, provoked on the real daemon.
//!
//! Each test is named by its kind, and says which entries of the kind it provokes. `fixtures/scenarios.tsv` lists every
//! entry: the tests that provoke it, where the contract wants something else than the entry does, and what does not
//! apply here, with what to do instead. `scenarios::table` holds the list and the tests to each other.
#![cfg(target_os = "linux")]
#![allow(unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod dur_support;
mod storage_support;
mod support;
mod wire_support;

mod scenarios {
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
}
