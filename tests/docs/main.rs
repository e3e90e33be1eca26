//! What stands beside the code and must stay true of it: README, `docs/`, SECURITY.md, `schema/`, `transcripts/`, the
//! picture of the rooms.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../schema_support/mod.rs"]
mod schema_support;
#[path = "../support/mod.rs"]
mod support;

mod event_types;
mod readme;
mod rooms;
mod schema;
mod security;
mod transcripts;
