//! An event-sourced session store for agent front-ends, and the daemon that serves it.
//!
//! Rooms, lowest first; a room names only rooms to its left (`ARCHITECTURE.md`):
//!
//! ```text
//! json <- log <- view <- session <- rpc <- stdio <- daemon <- main
//! json, log <- disk <- daemon
//! replay <- daemon, main
//! json, rpc <- client (feature `client`)
//! ```

#[cfg(feature = "client")]
pub mod client;
pub mod daemon;
pub mod disk;
pub mod json;
pub mod log;
pub mod replay;
pub mod rpc;
pub mod session;
pub mod stdio;
pub mod view;
