//! From the start of the process to its first answer, and the size of the executable.

use std::fs;
use std::time::Instant;

use crate::Suite;
use crate::process::{Contender, Process};
use crate::report::{Bound, Row};
use crate::series::{interleave, median, quantile};

pub fn start(suite: &Suite) -> Vec<Row> {
    const STARTS: usize = 20;
    let contenders =
        [Contender::Floor, Contender::Memory, Contender::Jsonl(suite.scratch.path().join("start"))];
    let runs = interleave(STARTS * suite.options.rounds(), &contenders, |who| {
        let begun = Instant::now();
        let mut process = Process::start(suite, who);
        if *who == Contender::Floor {
            process.ask("");
        }
        let took = begun.elapsed().as_secs_f64() * 1e6;
        let (cpu, memory) = (process.cpu() * 1e6, process.memory());
        process.kill();
        [took, cpu, memory as f64 / 1024.0]
    });
    let figure = |who: usize, at: usize| -> Vec<f64> { runs[who].iter().map(|run| run[at]).collect() };
    let daemon = fs::metadata(&suite.options.daemon).map_or(0, |metadata| metadata.len());
    let rows = contenders.iter().enumerate().map(|(at, who)| {
        let ratios: Vec<f64> = figure(at, 0).iter().zip(figure(0, 0)).map(|(a, b)| a / b).collect();
        let mut row = Row::new(who)
            .figure("p50", median(&figure(at, 0)), "us")
            .figure("p99", quantile(&figure(at, 0), 0.99), "us")
            .figure("memory", median(&figure(at, 2)), "KiB");
        row.cpu = Some(median(&figure(at, 1)));
        row.ratio = Some((median(&ratios), "floor's time"));
        match who {
            Contender::Floor => row,
            _ => row.figure("executable", daemon as f64 / 1e6, "MB").target(
                "time to the floor's",
                median(&ratios),
                Bound::AtMost(3.0),
            ),
        }
    });
    rows.collect()
}
