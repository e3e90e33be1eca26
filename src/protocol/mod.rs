//! The words of the wire: methods, params and results, notifications, errors, and their schemas (PROTOCOL 3 to 6).

mod dialect;
mod errors;
pub mod initialize;
mod methods;
pub(crate) mod names;
pub mod pairing;
pub mod params;
mod raw;
pub mod results;
pub mod schema;
pub mod shapes;

pub use dialect::{Dialect, Notice, UPDATE};
pub(crate) use dialect::{PROTOCOL, acp_params};
pub(crate) use errors::FactKind;
pub use errors::{Code, WireError};
#[cfg(feature = "client")]
pub use methods::SessionApiClient;
pub use methods::SessionApiServer;
pub use raw::RawJson;
pub(crate) use raw::given;
