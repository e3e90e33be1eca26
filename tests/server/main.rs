//! A server in this process: the paths of a request, and their order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../storage_support/mod.rs"]
mod storage_support;

mod direct_path;
mod pages;
mod waiting;
