//! Why transcripts could not be replayed.

use std::io;

use super::transcript::Problem;

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
    /// A transcript is a pipe, a directory or a device.
    #[error("a transcript is a file; this is none")]
    NotAFile,
    /// A transcript is too large to be held.
    #[error("a transcript has at most {0} bytes")]
    TooLarge(u64),
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
    pub(super) fn ends_the_run(&self) -> bool {
        matches!(self, Self::NoCommand | Self::CurrentExe(_) | Self::Start { .. } | Self::Report(_))
    }
}
