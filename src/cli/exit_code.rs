//! How a command ends (PROTOCOL 8); 0 is done.

use std::io::Write;
use std::process::ExitCode;

/// What was asked for was found to be wrong, or not all of it could be done.
pub(super) const FOUND_SOMETHING: u8 = 1;

/// The flags do not fit.
pub(super) const USAGE: u8 = 2;

/// The command could not start, or could read nothing of what was asked for.
pub(super) const COULD_NOT_START: u8 = 3;

/// Tells why a command could not start.
pub(super) fn could_not_start(error: &dyn std::error::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "sessiond could not start: {error}");
    ExitCode::from(COULD_NOT_START)
}
