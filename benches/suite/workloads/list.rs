//! Lists of a large store: the first of a process, with and without summaries, and the next ones.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use crate::Suite;
use crate::process::{Contender, Process, Took};
use crate::report::Row;
use crate::script::request;
use crate::series::{Series, interleave};
use crate::stored;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Walk,
    NoSummaries,
    Again,
    Summaries,
}

pub fn list(suite: &Suite) -> Vec<Row> {
    let sessions = suite.options.size(5_000, 1_000);
    let [bare, summed] = ["bare", "summed"].map(|name| suite.scratch.path().join(name));
    for store in [&bare, &summed] {
        (0..sessions).for_each(|n| drop(stored::short(store, &format!("s{n}"), 1_700_000_000_000 + n)));
    }
    summarise(suite, &summed, sessions);
    let cases = [Case::Walk, Case::NoSummaries, Case::Again, Case::Summaries];
    let runs = interleave(suite.options.rounds(), &cases, |&case| match case {
        Case::Walk => walk(&bare),
        Case::NoSummaries | Case::Again => in_fresh_process(suite, &bare, sessions, case),
        Case::Summaries => in_fresh_process(suite, &summed, sessions, case),
    });
    let series: Vec<Series> = runs.into_iter().map(|runs| Series::of(runs, sessions as f64)).collect();
    let names =
        ["walk that reads 4 KiB each", "first list, no summaries", "second list", "first list, summaries"];
    let rows = names.into_iter().zip(&series).map(|(name, one)| {
        let mut row = Row::new(name);
        row.rate = Some((one.rate(), "sessions"));
        row.ratio = Some((one.ratio_to(&series[0]), "walk"));
        row.cpu = Some(one.cpu()).filter(|&cpu| cpu > 0.0);
        row
    });
    let rows = rows.collect();
    let _ = fs::remove_dir_all(bare).and_then(|()| fs::remove_dir_all(summed));
    rows
}

/// Opens and closes every session: closing leaves a summary.
fn summarise(suite: &Suite, store: &Path, sessions: usize) {
    let mut process = Process::start(suite, &Contender::Jsonl(store.to_owned()));
    let mut input = String::new();
    for n in 0..sessions {
        for method in ["resume", "close"] {
            input.push_str(&request(n, method, &format!("s{n}"), ""));
            input.push('\n');
        }
    }
    process.flood(input.as_bytes(), 2 * sessions);
    process.end();
}

fn in_fresh_process(suite: &Suite, store: &Path, sessions: usize, case: Case) -> Took {
    let mut process = Process::start(suite, &Contender::Jsonl(store.to_owned()));
    let line =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session/list","params":{{"limit":{sessions}}}}}"#);
    if case == Case::Again {
        process.call(&line);
    }
    let mut answer = String::new();
    let took = process.measured(|process| answer = process.call(&line));
    let found = memchr::memmem::find_iter(answer.as_bytes(), br#""sessionId":"#).count();
    assert_eq!(found, sessions, "all are listed");
    process.kill();
    took
}

/// What no list can do without: each directory looked at, each log opened and begun.
fn walk(store: &Path) -> Took {
    let (mut buffer, begun) = (vec![0; 4 << 10], Instant::now());
    for project in fs::read_dir(store).unwrap().flatten() {
        for session in fs::read_dir(project.path()).unwrap().flatten() {
            let mut file = File::open(session.path().join("session.jsonl")).unwrap();
            file.metadata().unwrap();
            let _ = file.read(&mut buffer).unwrap();
        }
    }
    Took { seconds: begun.elapsed().as_secs_f64(), cpu: 0.0 }
}
