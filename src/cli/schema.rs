//! `sessiond schema`: the JSON Schema of the wire, on stdout or as files.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::exit_code::COULD_NOT_START;
use crate::protocol::schema;

#[derive(Args)]
pub(super) struct SchemaArgs {
    /// Write one file per method and notification under DIR instead.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs `sessiond schema`.
pub(super) fn run_schema(args: &SchemaArgs) -> ExitCode {
    match write_schema(args.out.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "the schema cannot be written: {error}");
            ExitCode::from(COULD_NOT_START)
        }
    }
}

fn write_schema(out: Option<&Path>) -> std::io::Result<()> {
    let Some(out) = out else { return std::io::stdout().lock().write_all(schema::bundle().as_bytes()) };
    for (name, text) in schema::files() {
        let file = out.join(name);
        let at = |path: &Path, error: std::io::Error| {
            std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(|error| at(folder, error))?;
        }
        std::fs::write(&file, text).map_err(|error| at(&file, error))?;
    }
    Ok(())
}
