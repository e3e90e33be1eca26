//! The protocol: methods, params and results, dialects, errors, notifications (PROTOCOL).
//!
//! [`Server`] takes the lines of one client and gives lines back. It knows no file descriptor: bytes
//! come in and go out as arguments, and what waits for the disk goes through [`storage::Storage`].

pub mod acp;
mod ambient;
mod api;
mod append_reader;
mod connection;
mod envelope;
mod error;
pub mod greeting;
mod guard;
mod methods;
mod misfit;
mod names;
mod order;
mod overlong;
pub mod pairing;
pub mod params;
mod paths;
mod raw;
mod replaying;
mod response;
pub mod results;
pub mod schema;
mod server;
mod service;
pub mod shapes;
pub mod storage;
mod storage_error;
mod trace;
mod turn;
mod waiting;
mod work;

pub use ambient::{Clock, IdSource, iso8601};
#[cfg(feature = "client")]
pub use api::SessionApiClient;
pub use api::SessionApiServer;
pub use connection::{DeclaredType, Dialect, Notice, UPDATE};
pub use envelope::{EnvelopeFault, Incoming, Request};
pub use error::{Code, WireError};
pub use methods::METHODS;
pub use paths::{CanonicalPath, SamePlace};
pub use raw::RawJson;
pub use server::Server;
pub use service::{Outlet, Settings, WireLimits};
