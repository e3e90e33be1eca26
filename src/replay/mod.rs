//! Transcripts: recorded conversations with the daemon, and the tool that holds a daemon to them.
//!
//! A transcript is a text file with the lines that were sent, the lines that came back, and steps such as a restart;
//! `transcript` is its grammar, `plan` says what belongs together, `runner` carries it out against a child process
//! (`child`, in a `scratch` directory), `diff` shows what differs, `update` writes what came back into the file, and
//! `record` makes a transcript from a live client.
//!
//! This room speaks bytes and lines to a process. It knows nothing of sessions and imports no other room, so that a
//! transcript can judge any daemon.

mod child;
mod cli;
mod diff;
mod plan;
mod record;
mod runner;
mod scratch;
mod transcript;
mod update;
mod walk;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use cli::{ReplayArgs, main_replay};
pub use record::{RecordError, Recorder, Recording};
pub use transcript::Problem;

use plan::Group;
use runner::{Obstacle, Outcome, Setup};
use transcript::{Item, Transcript};

/// So many differing places of one transcript are shown.
const PLACES_SHOWN: usize = 10;
/// So many sent lines are shown above a difference.
const SENT_SHOWN: usize = 3;

/// How to replay.
#[derive(Debug, Clone)]
pub struct Options {
    /// The daemon and its first arguments, before the flags of a transcript; by default this executable with `serve`.
    pub command: Option<Vec<OsString>>,
    /// Whether to rewrite the files with what came back, instead of comparing.
    pub update: bool,
    /// How long to wait for a line or for the daemon's end.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { command: None, update: false, timeout: Duration::from_secs(10) }
    }
}

/// What came of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many transcripts there were.
    pub files: usize,
    /// How many differ, could not be read, or could not be carried out.
    pub failed: usize,
    /// How many files were rewritten.
    pub updated: usize,
}

/// Why a run, or one transcript of it, came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The command holds no program.
    #[error("no command to run: write a program after `--`, or leave `--` out to run this one")]
    NoCommand,
    /// The default daemon is not known.
    #[error("cannot find out which executable this is ({0}); name a daemon after `--`")]
    CurrentExe(#[source] io::Error),
    /// The daemon does not start.
    #[error("cannot start {program} ({source}); check the command after `--`")]
    Start {
        /// The program.
        program: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The report cannot be written.
    #[error("cannot write the report: {0}")]
    Report(#[from] io::Error),
    /// A transcript cannot be read.
    #[error("cannot read the transcript: {0}")]
    Read(#[source] io::Error),
    /// A transcript breaks the grammar.
    #[error("line {line}: {problem}")]
    Parse {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The store for a run, or a fixture in it, cannot be made.
    #[error("{0}")]
    Prepare(String),
    /// A transcript cannot be rewritten.
    #[error("cannot write the updated transcript: {0}; the file is unchanged")]
    Write(#[source] io::Error),
}

impl ReplayError {
    /// Whether the other transcripts would fail in the same way.
    fn ends_the_run(&self) -> bool {
        matches!(self, Self::NoCommand | Self::CurrentExe(_) | Self::Start { .. } | Self::Report(_))
    }
}

/// Replays transcripts one after the other, each against fresh daemons and a fresh store. Differences, and what is
/// wrong with single files, are written to `out` and counted; an error is something that ends the run.
pub fn run(files: &[PathBuf], options: &Options, out: &mut dyn Write) -> Result<Summary, ReplayError> {
    let command = match &options.command {
        Some(command) if command.is_empty() => return Err(ReplayError::NoCommand),
        Some(command) => command.clone(),
        None => vec![std::env::current_exe().map_err(ReplayError::CurrentExe)?.into(), "serve".into()],
    };
    let setup = Setup { command, timeout: options.timeout };
    let mut summary = Summary { files: files.len(), ..Summary::default() };
    for file in files {
        match replay(file, &setup, options.update, out) {
            Ok(Verdict::Same) => {}
            Ok(Verdict::Updated) => summary.updated += 1,
            Ok(Verdict::Failed) => summary.failed += 1,
            Err(error) if error.ends_the_run() => return Err(error),
            Err(error) => {
                writeln!(out, "{}: {error}", file.display())?;
                summary.failed += 1;
            }
        }
    }
    Ok(summary)
}

/// What came of one transcript.
enum Verdict {
    Same,
    Updated,
    Failed,
}

fn replay(file: &Path, setup: &Setup, update: bool, out: &mut dyn Write) -> Result<Verdict, ReplayError> {
    let bytes = fs::read(file).map_err(ReplayError::Read)?;
    let parse_error = |(line, problem)| ReplayError::Parse { line, problem };
    let transcript = Transcript::parse(&bytes).map_err(parse_error)?;
    let groups = plan::plan(&transcript).map_err(parse_error)?;
    let directory = file.parent().unwrap_or(Path::new(""));
    let outcome =
        runner::perform(setup, directory, &transcript, &groups).map_err(|obstacle| match obstacle {
            Obstacle::Start { program, source } => ReplayError::Start { program, source },
            other => ReplayError::Prepare(other.to_string()),
        })?;
    if !update {
        let same = report(file, &transcript, &groups, &outcome, out)?;
        return Ok(if same { Verdict::Same } else { Verdict::Failed });
    }
    if outcome.failure.is_some() {
        report(file, &transcript, &groups, &outcome, out)?;
        writeln!(out, "{}: not updated", file.display())?;
        return Ok(Verdict::Failed);
    }
    let text = update::rewritten(&transcript, &groups, &outcome).print();
    if text.as_bytes() == bytes {
        return Ok(Verdict::Same);
    }
    update::replace_file(file, text.as_bytes()).map_err(ReplayError::Write)?;
    writeln!(out, "{}: updated", file.display())?;
    Ok(Verdict::Updated)
}

/// Writes what differs; true if nothing does.
fn report(
    file: &Path,
    transcript: &Transcript,
    groups: &[Group],
    outcome: &Outcome,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let name = file.display();
    let mut differing = 0;
    for (group, got) in groups.iter().zip(&outcome.got) {
        let expected: Vec<(usize, &[u8])> = group
            .expects
            .iter()
            .filter_map(|index| match transcript.items.get(*index) {
                Some(Item::Expect(line)) => Some((index + 1, line.as_slice())),
                _ => None,
            })
            .collect();
        if expected.iter().map(|(_, line)| *line).eq(got.iter().map(Vec::as_slice)) {
            continue;
        }
        differing += 1;
        if differing <= PLACES_SHOWN {
            let first = group.head.first().map_or(0, |index| index + 1);
            writeln!(out, "{name}:{first}: expected {}, got {}", lines(expected.len()), lines(got.len()))?;
            show_head(transcript, group, out)?;
            diff::show(out, &expected, got)?;
        }
    }
    if differing > PLACES_SHOWN {
        writeln!(out, "{name}: {} more places differ", differing - PLACES_SHOWN)?;
    }
    if !outcome.rest.is_empty() {
        let end = transcript.items.len();
        writeln!(
            out,
            "{name}:{end}: {} came after the end, when stdin was closed",
            lines(outcome.rest.len())
        )?;
        diff::show(out, &[], &outcome.rest)?;
    }
    if let Some((line, failure)) = &outcome.failure {
        writeln!(out, "{name}:{line}: {failure}")?;
    }
    Ok(differing == 0 && outcome.rest.is_empty() && outcome.failure.is_none())
}

/// Shows the end of what was done in a group, under its line numbers.
fn show_head(transcript: &Transcript, group: &Group, out: &mut dyn Write) -> io::Result<()> {
    let hidden = group.head.len().saturating_sub(SENT_SHOWN);
    if hidden > 0 {
        writeln!(out, "           … {} sent before", lines(hidden))?;
    }
    for index in group.head.iter().skip(hidden) {
        let number = index + 1;
        match transcript.items.get(*index) {
            Some(Item::Send { line, .. }) => writeln!(out, "  {number:>6} > {}", diff::shorten(line, 0))?,
            Some(item) => writeln!(out, "  {number:>6} {}", item.print())?,
            None => {}
        }
    }
    Ok(())
}

fn lines(count: usize) -> String {
    match count {
        0 => "no line".to_owned(),
        1 => "1 line".to_owned(),
        _ => format!("{count} lines"),
    }
}
