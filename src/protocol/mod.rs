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

pub(crate) use dialect::PROTOCOL;
pub use dialect::{Dialect, Notice, UPDATE};
pub(crate) use errors::FactKind;
pub use errors::{Code, WireError};
pub(crate) use methods::methods;
pub use methods::{Acp, AcpResult, METHODS, Method, Scope};
pub use raw::RawJson;
pub(crate) use raw::given;
