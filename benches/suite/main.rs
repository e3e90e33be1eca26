//! The benchmark suite: `cargo bench --bench suite [-- FLAGS]` (`-- --help` lists them).
//!
//! Every workload runs its contenders in turn, round by round, floods and pings part by part, and reports medians: figures
//! of one run compare with each other, not with those of another machine or minute. Contenders are a floor (this
//! executable as a child that echoes two lines for each, what no daemon can beat), the daemon on `memory:`
//! and `jsonl:`, and the reference where `--peer` says that it is installed.
//!
//! Instructions are counted by callgrind where `valgrind` is installed, only while the operations run and
//! not while the daemon starts or a history is built. They repeat, so they make gates; rates are reported.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::print_stdout)]
#![allow(missing_docs, unreachable_pub)]

mod counted;
mod histories;
mod options;
mod process;
mod report;
mod roles;
mod script;
mod series;
mod stored;
mod workloads;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use options::Options;
use report::Report;

/// What every workload gets: the flags and a directory of this run.
pub struct Suite {
    pub options: Options,
    pub scratch: tempfile::TempDir,
}

fn main() -> ExitCode {
    if roles::play() {
        return ExitCode::SUCCESS;
    }
    let options = Options::parse();
    let scratch = match &options.scratch {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    };
    let suite = Suite { options, scratch: scratch.expect("a directory for stores") };
    let mut report = Report::begin(&suite.options);
    for (name, has_gates, run) in workloads::ALL {
        if !suite.options.wants(name) || (suite.options.gate && !has_gates) {
            continue;
        }
        let begun = Instant::now();
        let rows = run(&suite);
        report.add(name, rows, begun.elapsed());
    }
    report.end(&suite.options)
}
