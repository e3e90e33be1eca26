//! Forks: of histories of rising length, and durable ones beside a plain copy.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::Suite;
use crate::histories;
use crate::process::{Contender, Process};
use crate::report::{Bound, Row};
use crate::script::request;
use crate::series::{median, quantile};
use crate::stored;

fn fork(session: &str, child: &str) -> String {
    request(1, "fork", session, &format!(r#","childSessionId":"{child}""#))
}

pub fn in_memory(suite: &Suite) -> Vec<Row> {
    const FORKS: usize = 200;
    let longest = suite.options.size(1_000_000, 100_000);
    let lengths: Vec<usize> =
        [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|&n| n <= longest).collect();
    let name = |events: usize| format!("s{events}");
    let mut process = Process::start(suite, &Contender::Memory);
    lengths.iter().for_each(|&events| histories::messages(&mut process, &name(events), events));
    // In turn over the lengths, so that a slow moment hits all.
    let mut took: Vec<Vec<f64>> = lengths.iter().map(|_| Vec::new()).collect();
    for n in 0..FORKS {
        for (&events, took) in lengths.iter().zip(&mut took) {
            let line = fork(&name(events), &format!("c{events}-{n}"));
            let begun = Instant::now();
            process.call(&line);
            took.push(begun.elapsed().as_secs_f64() * 1e6);
        }
    }
    process.kill();
    let counts = counted(suite, &[1_000, longest]);
    let mut rows: Vec<Row> = lengths
        .iter()
        .zip(&took)
        .map(|(&events, took)| {
            let mut row = Row::new(format!("memory:, {events} events"));
            row.rate = Some((1e6 / median(took), "forks"));
            row.figure("p50", median(took), "us").figure("p99", quantile(took, 0.99), "us")
        })
        .collect();
    if let [Some(few), Some(many)] = counts[..] {
        rows[0].instructions = Some(few);
        let last = rows.len() - 1;
        rows[last].instructions = Some(many);
        let row = std::mem::take(&mut rows[last]);
        rows[last] = row
            .gate("instructions to those at 1000 events", Some(many / few), Bound::AtMost(1.1))
            .gate("instructions to those at 1000 events", Some(many / few), Bound::AtLeast(0.9));
    }
    rows.extend(of_reference(suite));
    rows
}

fn counted(suite: &Suite, lengths: &[usize]) -> Vec<Option<f64>> {
    const FORKS: usize = 50;
    let Some(mut process) = Process::start_counted(suite, &Contender::Memory) else { return Vec::new() };
    let counts = lengths.iter().map(|&events| {
        let session = format!("s{events}");
        histories::messages(&mut process, &session, events);
        process.call(&fork(&session, &format!("first{events}")));
        let count = process.instructions(&format!("fork-{events}"), |process| {
            for n in 0..FORKS {
                process.call(&fork(&session, &format!("c{events}-{n}")));
            }
        });
        Some(count? as f64 / FORKS as f64)
    });
    let counts = counts.collect();
    process.kill();
    counts
}

fn of_reference(suite: &Suite) -> Vec<Row> {
    if suite.options.peer.is_none() {
        return Vec::new();
    }
    let lengths = [1_000, 10_000].into_iter();
    let rows = lengths.map(|events| {
        let mut process = Process::start(suite, &Contender::Peer { persist: None });
        histories::messages(&mut process, "s", events);
        let mut took = Vec::new();
        for n in 0..10 {
            // It announces nothing of a child, but announces the child's marker before the answer.
            let begun = Instant::now();
            process.call(&fork("s", &format!("c{n}")));
            took.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        process.kill();
        let mut row = Row::new(format!("reference, {events} events"));
        row.rate = Some((1e6 / median(&took), "forks"));
        row.figure("p50", median(&took), "us")
    });
    rows.collect()
}

/// A fork on `jsonl:` is published before it is answered: beside a copy of the same file, synced as well.
pub fn durable(suite: &Suite) -> Vec<Row> {
    let sizes = [1 << 20, suite.options.size(100 << 20, 32 << 20)];
    sizes.into_iter().flat_map(|bytes| of_size(suite, bytes)).collect()
}

fn of_size(suite: &Suite, bytes: usize) -> [Row; 2] {
    let store = suite.scratch.path().join("forks");
    let _ = fs::remove_dir_all(&store);
    let (path, bytes, events) = stored::conversation(&store, "s", bytes);
    File::open(&path).unwrap().sync_all().unwrap();
    let mut process = Process::start(suite, &Contender::Jsonl(store.clone()));
    process.call(&request(1, "resume", "s", ""));
    let rounds = suite.options.rounds().max(3);
    let (mut forks, mut copies, mut ratios, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for n in 0..rounds {
        let child = format!("c{n}");
        let line = fork("s", &child);
        let took = process.measured(|process| drop(process.call(&line)));
        let copied = copy(&path, &store.join("copy"));
        process.call(&request(2, "delete", &child, ""));
        forks.push(took.seconds);
        cpu.push(took.cpu * 1e6);
        copies.push(copied);
        ratios.push(took.seconds / copied);
    }
    process.end();
    let _ = fs::remove_dir_all(&store);
    let rate = |seconds: &[f64]| bytes as f64 / 1e6 / median(seconds);
    let size = format!("{:.0} MB, {events} events", bytes as f64 / 1e6);
    let mut copy = Row::new(format!("copy, {size}"));
    copy.rate = Some((rate(&copies), "MB"));
    let copy = copy.figure("took", median(&copies) * 1e3, "ms");
    let mut fork = Row::new(format!("jsonl:, {size}"));
    fork.rate = Some((rate(&forks), "MB"));
    fork.cpu = Some(median(&cpu));
    fork.ratio = Some((1.0 / median(&ratios), "copy"));
    let fork = fork.figure("took", median(&forks) * 1e3, "ms");
    // Of a small one the time is that of the syncs of file and directories, of which a copy has fewer.
    let fork = match bytes > 10_000_000 {
        true => fork.target("time to the copy's", median(&ratios), Bound::AtMost(1.3)),
        false => fork,
    };
    [copy, fork]
}

/// Seconds that a plain copy takes, until the file and its name are on the disk.
fn copy(from: &Path, dir: &Path) -> f64 {
    fs::create_dir_all(dir).unwrap();
    let to: PathBuf = dir.join("copy");
    let begun = Instant::now();
    fs::copy(from, &to).unwrap();
    File::open(&to).unwrap().sync_all().unwrap();
    File::open(dir).unwrap().sync_all().unwrap();
    let took = begun.elapsed().as_secs_f64();
    fs::remove_file(&to).unwrap();
    took
}
