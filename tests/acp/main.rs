//! What clients of ACP see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../schema_support/mod.rs"]
mod schema_support;
#[path = "../support/mod.rs"]
mod support;

mod acp_support;

mod laws;
mod projector;
mod wire;
