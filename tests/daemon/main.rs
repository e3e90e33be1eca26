//! One daemon in a process of its own: its streams, its limits, its clients, its end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../dur_support/mod.rs"]
mod dur_support;
#[path = "../support/mod.rs"]
mod support;
#[path = "../wire_support/mod.rs"]
mod wire_support;

mod replay_support;

#[cfg(target_os = "linux")]
mod backpressure;
mod bounds;
#[cfg(feature = "client")]
mod client;
mod limits;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod memory_returned;
mod replay_tool;
mod stdio;
mod streams;
mod threads;
mod wire;
