//! Flags.

use std::path::PathBuf;

use clap::Parser;

/// Benchmarks of the daemon beside their floors, interleaved, with a table and a JSON file.
#[derive(Debug, Parser)]
#[command(name = "suite")]
pub struct Options {
    /// Smaller sizes and fewer rounds: two minutes instead of ten.
    #[arg(long)]
    pub quick: bool,
    /// Runs only the workloads whose name holds this text; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// How often each contender runs; the median counts.
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
    /// Where the figures go as JSON.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_TARGET_TMPDIR"), "/../bench-suite.json"))]
    pub json: PathBuf,
    /// An installed copy of the reference's stdio server: a directory with `peer-stdio.mjs` and `node_modules`.
    #[arg(long, value_name = "DIR", env = "SESSIOND_BENCH_PEER")]
    pub peer: Option<PathBuf>,
    /// Checks the repeatable targets only (instructions, memory, what must not follow the history), counts
    /// nothing else, and fails if one is missed.
    #[arg(long)]
    pub gate: bool,
    /// The daemon to measure, by default the one built with this suite.
    #[arg(long, value_name = "FILE", default_value = env!("CARGO_BIN_EXE_sessiond"))]
    pub daemon: PathBuf,
    /// Counts no instructions.
    #[arg(long)]
    pub no_count: bool,
    /// Keeps callgrind's files here, one a counted case, for `callgrind_annotate`.
    #[arg(long, value_name = "DIR")]
    pub profiles: Option<PathBuf>,
    /// Where stores are made, by default the directory for temporary files. Another file system has other figures.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// What `cargo bench` says to every benchmark.
    #[arg(long, hide = true)]
    pub bench: bool,
}

impl Options {
    pub fn wants(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| workload.contains(text.as_str()))
    }

    /// How often each contender runs. Gates do not look at time: once will do.
    pub fn rounds(&self) -> usize {
        match self.rounds {
            Some(rounds) => rounds.max(1),
            None if self.gate => 1,
            None if self.quick => 3,
            None => 5,
        }
    }

    /// A size for the default run, or its quick form.
    pub fn size(&self, full: usize, quick: usize) -> usize {
        if self.quick || self.gate { quick } else { full }
    }

    pub fn counts(&self) -> bool {
        !self.no_count
    }
}
