//! [`salvage`] keeps what is cut off or replaced, [`delete`](mod@delete) removes.

pub mod delete;
pub mod salvage;
