//! Wiring: the server, the standard streams, signals and the order of an end.

mod limits;
mod owner;
mod paths;
mod poll_policy;
mod signals;

pub use owner::{DaemonError, End, background, serve};
pub use paths::canonical_path;
pub use signals::outlive_file_size_limit;
