//! The command line as a whole: which command, and how each is run.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::exit_code::could_not_start;
use super::schema::{SchemaArgs, run_schema};
use super::serve::{ServeArgs, run_serve};
use super::{RepairArgs, ReplayArgs, VerifyArgs, main_repair, main_replay, main_verify};
use crate::daemon::outlive_file_size_limit;

/// What stands below a short help text.
const MORE: &str = "Limits, clock, ids and more: sessiond --help";

/// Keeps event-sourced agent sessions and speaks JSON-RPC over stdio.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, after_help = MORE, after_long_help = "")]
pub(super) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Serve one client over stdin and stdout (the default).
    #[command(after_help = MORE, after_long_help = "")]
    Serve(ServeArgs),
    /// Hold a daemon to recorded conversations.
    Replay(ReplayArgs),
    /// Print the JSON Schema of every method, notification and error.
    Schema(SchemaArgs),
    /// List what is wrong with stored sessions, without changing anything.
    Verify(VerifyArgs),
    /// Mend a stored session, or keep the sound part of a damaged one.
    Repair(RepairArgs),
}

/// Runs the command that the process's arguments ask for.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = outlive_file_size_limit() {
        return could_not_start(&error);
    }
    match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(args) => run_serve(args),
        Command::Replay(args) => {
            let code = main_replay(args, &mut std::io::stdout().lock(), &mut std::io::stderr().lock());
            let _ = std::io::stdout().flush();
            code
        }
        Command::Verify(args) => reported(|out, err, progress| main_verify(args, out, err, progress)),
        Command::Repair(args) => reported(|out, err, progress| main_repair(args, out, err, progress)),
        Command::Schema(args) => run_schema(&args),
    }
}

/// Runs a command that reports on stdout and, when stderr is a terminal, shows there how far it is.
fn reported(
    run: impl FnOnce(&mut dyn Write, &mut dyn Write, Option<Box<dyn Write + Send>>) -> ExitCode,
) -> ExitCode {
    let stderr = std::io::stderr();
    let progress = stderr.is_terminal().then(|| Box::new(std::io::stderr()) as Box<dyn Write + Send>);
    run(&mut std::io::BufWriter::new(std::io::stdout().lock()), &mut std::io::stderr(), progress)
}
