//! `sessiond replay`: flags in, exit code out.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::exit_code::{COULD_NOT_START, FOUND_SOMETHING};
use crate::replay::{Options, run};

/// The flags of `sessiond replay`.
#[derive(Debug, Clone, clap::Args)]
pub struct ReplayArgs {
    /// Transcripts to replay, each against a fresh daemon
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Rewrite the files with what came back
    #[arg(long)]
    pub update: bool,
    /// How many seconds to wait for a line
    ///
    /// 1 to 3,600
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// The daemon to try instead of this one
    ///
    /// The flags of a transcript are added
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Runs `sessiond replay`: differences and a summary go to `out`, what ends the run to `err`. Exit code 0: everything
/// matched or was updated; 1: something differs or is wrong with a file; 3: no daemon could be started.
pub fn main_replay(args: ReplayArgs, out: &mut dyn Write, err: &mut dyn Write) -> ExitCode {
    let options = Options {
        command: (!args.command.is_empty()).then_some(args.command),
        update: args.update,
        timeout: Duration::from_secs(args.timeout),
    };
    let summary = match run(&args.files, &options, out) {
        Ok(summary) => summary,
        Err(error) => {
            let _ = writeln!(err, "sessiond replay: {error}");
            return ExitCode::from(COULD_NOT_START);
        }
    };
    let plural = if summary.files == 1 { "" } else { "s" };
    let good = summary.files - summary.failed;
    let written = match (summary.failed, args.update) {
        (0, true) => writeln!(out, "{} transcript{plural}, {} updated", summary.files, summary.updated),
        (0, false) => writeln!(out, "{} transcript{plural}, all match", summary.files),
        (failed, _) => writeln!(out, "{} transcript{plural}: {good} good, {failed} failed", summary.files),
    };
    if summary.failed > 0 || written.and_then(|()| out.flush()).is_err() {
        return ExitCode::from(FOUND_SOMETHING);
    }
    ExitCode::SUCCESS
}
