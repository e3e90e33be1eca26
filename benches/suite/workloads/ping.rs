//! One append at a time, both ends on one processor.

use std::time::Instant;

use crate::Suite;
use crate::process::{Contender, Process, on_one_processor};
use crate::report::{Bound, Row};
use crate::script::{append_message, open_session};
use crate::series::{interleave, median, quantile};

pub fn ping(suite: &Suite) -> Vec<Row> {
    let pings = suite.options.size(20_000, 5_000);
    let mut contenders =
        vec![Contender::Floor, Contender::Memory, Contender::Jsonl(suite.scratch.path().join("store"))];
    if suite.options.peer.is_some() {
        contenders.push(Contender::Peer { persist: None });
    }
    let rounds = suite.options.rounds();
    let (runs, pinned) = on_one_processor(|| {
        interleave(rounds, &contenders, |who| {
            let (mut process, who) = begin(Process::start(suite, &who.fresh()), who);
            converse(&mut process, 1..pings / 10);
            let (mut each, before) = (Vec::new(), process.cpu());
            let first = pings / 10;
            for line in lines(first..first + pings) {
                let begun = Instant::now();
                process.write(&line);
                process.await_lines(2);
                each.push(begun.elapsed().as_secs_f64() * 1e6);
            }
            let cpu = (process.cpu() - before) * 1e6 / pings as f64;
            drop(who);
            process.kill();
            [median(&each), quantile(&each, 0.99), cpu]
        })
    });
    let figure = |who: usize, at: usize| median(&runs[who].iter().map(|run| run[at]).collect::<Vec<_>>());
    // A ratio of its own for each round: a slow minute slows all.
    let ratio = |who: usize, to: usize| {
        let ratios: Vec<f64> = runs[who].iter().zip(&runs[to]).map(|(a, b)| a[0] / b[0]).collect();
        median(&ratios)
    };
    let rows = contenders.iter().enumerate().map(|(at, who)| {
        let mut row = Row::new(who).figure("p50", figure(at, 0), "us").figure("p99", figure(at, 1), "us");
        row.ratio = Some((ratio(at, 0), "floor's p50"));
        row.cpu = Some(figure(at, 2));
        if !pinned {
            row = row.figure("not pinned", 1.0, "");
        }
        if !matches!(who, Contender::Peer { .. }) {
            row.instructions = counted(suite, who);
        }
        match who {
            Contender::Memory => {
                let row = row.target("p50 to the floor's", ratio(at, 0), Bound::AtMost(1.25));
                match contenders.len() {
                    4 => row.target("p50 to the reference's", ratio(at, 3), Bound::AtMost(1.0 / 8.0)),
                    _ => row,
                }
            }
            _ => row,
        }
    });
    rows.collect()
}

fn begin(mut process: Process, who: &Contender) -> (Process, Contender) {
    if who.is_store() {
        for request in open_session("s") {
            process.call(&request);
        }
    }
    (process, who.clone())
}

fn lines(numbers: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    numbers.map(|n| (append_message(n, "s") + "\n").into_bytes()).collect()
}

fn converse(process: &mut Process, numbers: std::ops::Range<usize>) {
    for line in lines(numbers) {
        process.write(&line);
        process.await_lines(2);
    }
}

fn counted(suite: &Suite, who: &Contender) -> Option<f64> {
    const PINGS: usize = 1_000;
    let (mut process, _) = begin(Process::start_counted(suite, &who.fresh())?, who);
    converse(&mut process, 1..100);
    let name = format!("ping-{}", who.to_string().trim_end_matches(':'));
    let count = process.instructions(&name, |process| converse(process, 100..100 + PINGS));
    process.kill();
    Some(count? as f64 / PINGS as f64)
}
