//! The daemon's descriptors: bytes in, whole lines out, and never a wait for a peer that does not read.
//!
//! One thread owns the protocol. It waits (`wait`) for input or for a [`Waker`], reads one big chunk
//! ([`Input`]), takes the lines out of it ([`Lines`]) and hands over all that they caused as one buffer
//! ([`Output`]), which it writes itself when that surely does not block and leaves to a writer thread
//! otherwise. [`take_stdio`] puts the protocol's descriptors where no other code can write to them, and
//! [`StderrLog`] keeps logging from ever blocking the owner.
//!
//! Absent on purpose: JSON, methods and sessions; changing `O_NONBLOCK` of the client's open files
//! (it may share them); async I/O on fd 0 and 1 (measured at 0.01 to 0.4 of this loop's rate).

mod error;
mod fd;
mod input;
mod lines;
mod output;
mod own;
mod protect;
mod stderr;
mod wait;
mod wake;
mod writer;

pub use error::StdioError;
pub use input::{Filled, Input};
pub use lines::{Frame, Lines};
pub use output::{Drained, Output, SOON};
pub use protect::{Stdio, take_stdio};
pub use stderr::StderrLog;
pub use wait::{Ready, wait};
pub use wake::{WakeFd, Waker, wake_pair};
