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

#[cfg(feature = "daemon")]
pub mod acp;
#[cfg(feature = "daemon")]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "daemon")]
pub mod daemon;
#[cfg(feature = "daemon")]
pub mod disk;
pub mod json;
#[cfg(feature = "daemon")]
pub mod log;
pub mod protocol;
#[cfg(feature = "daemon")]
pub mod replay;
#[cfg(feature = "daemon")]
pub mod server;
#[cfg(feature = "daemon")]
pub mod session;
#[cfg(feature = "daemon")]
pub mod stdio;
#[cfg(feature = "daemon")]
pub mod store;
#[cfg(feature = "daemon")]
pub mod view;
