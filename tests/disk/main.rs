//! Files: what is read, written, locked and found, and what is left when a process or the machine dies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../dur_support/mod.rs"]
mod dur_support;
#[path = "../load_support/mod.rs"]
mod load_support;
#[path = "../support/mod.rs"]
mod support;

mod ahead;
mod artifacts;
mod crash;
mod damage;
mod fs;
mod kept;
mod list;
mod load;
mod load_random;
mod load_speed;
mod lock;
mod paths;
mod replace;
mod temporary;
mod write;
mod zstd;
