//! One append at a time, both ends on one processor.

use std::thread;
use std::time::{Duration, Instant};

use crate::Suite;
use crate::process::{Contender, Process, on_one_processor};
use crate::report::{Bound, Row};
use crate::script::{append_message, open_session};
use crate::series::{median, quantile};

/// In so many parts a conversation is held, one contender after the other: whatever slows the machine for longer than one
/// part slows them alike.
const PARTS: usize = 20;
/// So long the reference has things to do behind its answers.
const PEER_GOES_ON: Duration = Duration::from_millis(20);

/// What the parts of one conversation took.
#[derive(Default)]
struct Pinged {
    /// Of each part, in microseconds.
    p50: Vec<f64>,
    each: Vec<f64>,
    cpu: f64,
}

pub fn ping(suite: &Suite) -> Vec<Row> {
    let mut contenders =
        vec![Contender::Floor, Contender::Memory, Contender::Jsonl(suite.scratch.path().join("store"))];
    if suite.options.peer.is_some() {
        contenders.push(Contender::Peer { persist: None });
    }
    let (runs, pinned) = on_one_processor(|| {
        let rounds = (0..suite.options.rounds()).map(|_| in_turn(suite, &contenders));
        rounds.collect::<Vec<_>>()
    });
    let figure = |who: usize, of: &dyn Fn(&Pinged) -> f64| {
        median(&runs.iter().map(|run| of(&run[who])).collect::<Vec<_>>())
    };
    // A ratio of its own for each part.
    let ratio = |who: usize, to: usize| {
        let parts = runs.iter().flat_map(|run| run[who].p50.iter().zip(&run[to].p50));
        median(&parts.map(|(own, other)| own / other).collect::<Vec<_>>())
    };
    let rows = contenders.iter().enumerate().map(|(at, who)| {
        let p99 = figure(at, &|run| quantile(&run.each, 0.99));
        let p50 = figure(at, &|run| median(&run.each));
        let mut row = Row::new(who).figure("p50", p50, "us").figure("p99", p99, "us");
        row.ratio = Some((ratio(at, 0), "floor's p50"));
        row.cpu = Some(figure(at, &|run| run.cpu));
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

/// Starts the contenders, warms them, and holds their conversations part by part.
fn in_turn(suite: &Suite, contenders: &[Contender]) -> Vec<Pinged> {
    let pings = suite.options.size(20_000, 5_000);
    let started = contenders.iter().map(|who| {
        let mut process = begin(Process::start(suite, &who.fresh()), who);
        converse(&mut process, 1..pings / 10);
        (process, Pinged::default())
    });
    let mut started: Vec<_> = started.collect();
    for part in 0..PARTS {
        let first = pings / 10 + part * pings / PARTS;
        let lines = lines(first..first + pings / PARTS);
        for ((process, pinged), who) in started.iter_mut().zip(contenders) {
            let (cpu, before) = (process.cpu(), pinged.each.len());
            for line in &lines {
                let begun = Instant::now();
                process.write(line);
                process.await_lines(2);
                pinged.each.push(begun.elapsed().as_secs_f64() * 1e6);
            }
            pinged.p50.push(median(&pinged.each[before..]));
            pinged.cpu += (process.cpu() - cpu) * 1e6 / pings as f64;
            if matches!(who, Contender::Peer { .. }) {
                thread::sleep(PEER_GOES_ON); // not into the next one's part
            }
        }
    }
    let ended = started.into_iter().map(|(process, pinged)| {
        process.kill();
        pinged
    });
    ended.collect()
}

fn begin(mut process: Process, who: &Contender) -> Process {
    if who.is_store() {
        for request in open_session("s") {
            process.call(&request);
        }
    }
    process
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
    let mut process = begin(Process::start_counted(suite, &who.fresh())?, who);
    converse(&mut process, 1..100);
    let name = format!("ping-{}", who.to_string().trim_end_matches(':'));
    let count = process.instructions(&name, |process| converse(process, 100..100 + PINGS));
    process.kill();
    Some(count? as f64 / PINGS as f64)
}
