//! The server: lines of one client in, lines out (PROTOCOL 1 to 3).
//!
//! [`Server`] knows no file descriptor: bytes come in and go out as arguments, and what waits for a store goes
//! through [`crate::store::storage::Storage`].

mod append_reader;
mod call;
mod clock;
mod connection;
mod dispatch;
mod envelope;
mod errors;
mod history_stream;
mod id_source;
mod methods;
mod order;
mod panics;
mod params_error;
mod pending;
mod pump;
mod response;
#[allow(clippy::module_inception)]
mod server;
mod service;
mod splice;
mod tape_reader;
mod too_large;
mod trace;
mod write_out;
mod write_set;

pub use clock::Clock;
pub use connection::DeclaredType;
pub use envelope::{EnvelopeFault, Incoming, Request};
pub use id_source::IdSource;
pub use server::Server;
pub use service::{Settings, WireLimits};
pub use splice::Outlet;
