//! A large log, one event a line, made live: beside a plain read and the strict scan alone.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use crate::Suite;
use crate::process::{Contender, Process, Took};
use crate::report::{Bound, Row};
use crate::script::request;
use crate::series::{Series, interleave};
use crate::stored;

pub fn load(suite: &Suite) -> Vec<Row> {
    let store = suite.scratch.path().join("load");
    let (path, bytes, events) = stored::conversation(&store, "s", suite.options.size(100 << 20, 32 << 20));
    let contenders = [None, Some(Contender::Scan(path.clone())), Some(Contender::Jsonl(store.clone()))];
    let runs = interleave(suite.options.rounds(), &contenders, |who| match who {
        None => (read(&path), 0),
        Some(who) => load_once(suite, who),
    });
    let held = runs[2].iter().map(|&(_, memory)| memory).max().unwrap_or(0);
    let megabytes = bytes as f64 / 1e6;
    let took = |runs: Vec<(Took, u64)>| Series::of(runs.into_iter().map(|(took, _)| took), megabytes);
    let series: Vec<Series> = runs.into_iter().map(took).collect();
    let mut rows: Vec<Row> = ["plain read", "strict scan alone", "jsonl:"]
        .into_iter()
        .zip(&series)
        .map(|(name, one)| {
            let mut row = Row::new(name);
            row.rate = Some((one.rate(), "MB"));
            row.ratio = Some((one.ratio_to(&series[1]), "scan"));
            row.cpu = Some(one.cpu()).filter(|&cpu| cpu > 0.0);
            row
        })
        .collect();
    let loaded = rows.pop().unwrap();
    let mut loaded = loaded
        .figure("log", megabytes, "MB")
        .figure("memory", held as f64 / events as f64, "B/event")
        .figure("line", bytes as f64 / events as f64, "B/event")
        .figure("processor time to the scan's", series[2].cpu_ratio_to(&series[1]), "")
        .target("rate to the scan's", series[2].ratio_to(&series[1]), Bound::AtLeast(0.6));
    let small = suite.scratch.path().join("load-small");
    let (path, _, events) = stored::conversation(&small, "s", 8 << 20);
    rows[1].instructions = counted(suite, &Contender::Scan(path), "load-scan", events);
    loaded.instructions = counted(suite, &Contender::Jsonl(small), "load", events);
    rows.push(loaded);
    rows
}

fn ask(process: &mut Process, who: &Contender) {
    match who {
        Contender::Jsonl(_) => drop(process.call(&request(1, "load", "s", ""))),
        _ => drop(process.ask("")),
    }
}

/// What loading took, and the memory that it took.
fn load_once(suite: &Suite, who: &Contender) -> (Took, u64) {
    let mut process = Process::start(suite, who);
    let before = process.memory();
    if matches!(who, Contender::Scan(_)) {
        // Reads the file into memory, and is warm then.
        ask(&mut process, who);
    }
    let took = process.measured(|process| ask(process, who));
    let memory = process.memory() - before;
    process.kill();
    (took, memory)
}

fn counted(suite: &Suite, who: &Contender, name: &str, events: usize) -> Option<f64> {
    let mut process = Process::start_counted(suite, who)?;
    let count = process.instructions(name, |process| ask(process, who));
    process.kill();
    Some(count? as f64 / events as f64)
}

fn read(path: &Path) -> Took {
    let (mut file, mut piece) = (File::open(path).unwrap(), vec![0; 128 << 10]);
    let begun = Instant::now();
    while file.read(&mut piece).unwrap() > 0 {}
    Took { seconds: begun.elapsed().as_secs_f64(), cpu: 0.0 }
}
