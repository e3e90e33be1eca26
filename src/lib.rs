//! An event-sourced session store for agent front-ends, and the daemon that serves it.
//!
//! Rooms, lowest first; a room names only rooms to its left (`ARCHITECTURE.md`):
//!
//! ```text
//! json <- log <- view <- session <- rpc <- stdio <- daemon <- main
//! json, log <- disk <- daemon
//! ```

pub mod json;
pub mod log;
pub mod rpc;
