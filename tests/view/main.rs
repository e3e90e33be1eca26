//! What a log means: its shape, its relations, the request that it states.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../support/mod.rs"]
mod support;

mod view_support;

mod forms;
mod relations;
mod request;
mod shape;
