//! The command line: flags in, exit codes out. A file a command; `command` chooses among them.

mod check;
mod command;
mod exit_code;
mod flag_table;
mod flags;
mod replay;
mod schema;
mod serve;

pub use check::{RepairArgs, VerifyArgs, main_repair, main_verify};
pub use command::main;
pub use flag_table::flag_table;
pub use flags::between;
pub use replay::{ReplayArgs, main_replay};
