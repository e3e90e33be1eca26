//! The words of the wire: methods, params and results, notifications, errors, and their schemas (PROTOCOL 3 to 6).

#[allow(missing_docs)]
pub mod bookkeeping;
mod dialect;
mod errors;
pub mod initialize;
#[cfg(feature = "daemon")]
mod method;
#[cfg(any(feature = "daemon", feature = "client"))]
mod methods;
#[cfg(feature = "daemon")]
pub(crate) mod names;
pub mod pairing;
pub mod params;
#[allow(missing_docs)]
pub mod payloads;
mod raw;
pub mod results;
#[cfg(feature = "daemon")]
pub mod schema;
pub mod shapes;
mod typed;

pub use dialect::{Dialect, Notice, PROTOCOL, UPDATE};
pub use errors::{Code, FactKind, WireError};
#[cfg(feature = "daemon")]
pub use method::{Acp, AcpResult, METHODS, Method, Scope};
#[cfg(any(feature = "daemon", feature = "client"))]
pub(crate) use methods::methods;
pub use raw::RawJson;
pub(crate) use raw::given;
