//! The executable: its command line is in the library, `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sessiond::cli::main()
}
