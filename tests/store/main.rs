//! A store of sessions behind a server in this process, or under the commands that mend one: failures, power loss,
//! removal, lists, repairs; and the laws of every engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../dur_support/mod.rs"]
mod dur_support;
#[path = "../support/mod.rs"]
mod support;

mod maintain_support;
mod remote_support;

mod artifacts;
mod bugs;
mod engine_laws;
mod every_record;
mod faults;
mod list_pages;
mod maintain;
mod mending;
mod power;
mod refusals;
mod remote;
mod removal;
mod repair;
mod summaries;
