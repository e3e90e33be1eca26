//! The command line: flags in, exit code out.

mod check;
mod flags;
mod replay;

pub use check::{RepairArgs, VerifyArgs, main_repair, main_verify};
pub use flags::between;
pub use replay::{ReplayArgs, main_replay};
