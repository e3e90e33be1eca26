//! Transcript files, one after the other: each replayed, and compared or rewritten.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::error::ReplayError;
use super::report::report;
use super::runner;
use super::runner::{Obstacle, Setup};
use super::transcript::Transcript;
use super::{plan, update};

/// A transcript of more bytes is refused.
const MAX_BYTES: u64 = 256 << 20;

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

/// The content of a transcript. What is no file is refused without a wait for whoever may write to it.
fn read(path: &Path) -> Result<Vec<u8>, ReplayError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|errno| ReplayError::Read(errno.into()))?);
    if !file.metadata().map_err(ReplayError::Read)?.is_file() {
        return Err(ReplayError::NotAFile);
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(ReplayError::Read)?;
    if bytes.len() as u64 > MAX_BYTES { Err(ReplayError::TooLarge(MAX_BYTES)) } else { Ok(bytes) }
}

fn replay(file: &Path, setup: &Setup, update: bool, out: &mut dyn Write) -> Result<Verdict, ReplayError> {
    let bytes = read(file)?;
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
