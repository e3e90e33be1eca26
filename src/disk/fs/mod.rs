//! The seam to the file system ([`FileSystem`]), the real one ([`os`]), and its doubles: one that fails on demand
//! ([`fault`]), one that remembers every change ([`record`]) so that power loss can be tried ([`crash`]).

pub mod crash;
pub mod fault;
mod file_system;
pub mod os;
mod os_file;
pub mod record;

pub use file_system::*;
