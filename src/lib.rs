//! An event-sourced session store for agent front-ends, and the daemon that serves it.
//!
//! Rooms, lowest first; a room names only rooms to its left (`ARCHITECTURE.md`):
//!
//! ```text
//! json <- log <- view <- session <- store <- server <- daemon <- cli <- main
//! json, log <- disk <- store
//! json, log <- acp <- server
//! json, log, view <- protocol <- server, client (feature `client`)
//! stdio <- daemon
//! replay <- daemon, cli
//! ```

pub mod acp;
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
pub mod daemon;
pub mod disk;
pub mod json;
pub mod log;
pub mod protocol;
pub mod replay;
pub mod server;
pub mod session;
pub mod stdio;
pub mod store;
pub mod view;
