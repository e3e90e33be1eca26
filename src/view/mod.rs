//! Projections of a log: what its events mean together.

mod repair;

pub use repair::{Closer, Closers, closers, open_turn};
