//! Reads of a live session: all messages, those since a count, pages of events.

use std::fs;
use std::time::Instant;

use crate::Suite;
use crate::histories;
use crate::process::{Contender, Process, Took};
use crate::report::{Bound, Row};
use crate::script::{append_message, new, request};
use crate::series::{Series, interleave, median, quantile};

/// A session of messages, about 190 bytes each as a message and 290 as an event.
fn history(process: &mut Process, events: usize) {
    process.call(&new("s"));
    process.call(&append_message(0, "s"));
    histories::fill(process, 1..events, |n| append_message(n, "s"));
}

/// Reads by the daemon beside `cat` of the very bytes that it answers with: `requests` are pipelined.
fn beside_cat(suite: &Suite, case: &str, events: usize, requests: &[String]) -> [Row; 2] {
    let mut process = Process::start(suite, &Contender::Memory);
    history(&mut process, events);
    let answers: Vec<String> = requests.iter().map(|line| process.call(line) + "\n").collect();
    let file = suite.scratch.path().join("answers");
    fs::write(&file, answers.concat()).unwrap();
    let bytes = answers.iter().map(String::len).sum::<usize>();
    let mut cat = Process::start(suite, &Contender::Cat(file));
    let input = requests.join("\n") + "\n";
    // Once before it counts: the file's pages, the pipe's buffers.
    cat.flood(b"\n", answers.len());
    let repeats = (suite.options.size(400, 100) << 20).div_ceil(bytes).min(50);
    let runs = interleave(suite.options.rounds(), &[false, true], |&is_daemon| {
        let one = |_| match is_daemon {
            true => process.flood(input.as_bytes(), answers.len()),
            false => cat.flood(b"\n", answers.len()),
        };
        let all: Vec<Took> = (0..repeats).map(one).collect();
        let sum = |part: fn(&Took) -> f64| all.iter().map(part).sum();
        Took { seconds: sum(|took| took.seconds), cpu: sum(|took| took.cpu) }
    });
    // A megabyte is the operation.
    let megabytes = (repeats * bytes) as f64 / 1e6;
    let series: Vec<Series> = runs.into_iter().map(|runs| Series::of(runs, megabytes)).collect();
    process.kill();
    cat.kill();
    let row = |who: &str, series: &Series| {
        let mut row = Row::new(format!("{case}, {who}"));
        row.rate = Some((series.rate(), "MB"));
        row.cpu = Some(series.cpu());
        row.figure("answers", bytes as f64 / 1e6, "MB")
    };
    let mut read = row("memory:", &series[1]);
    read.ratio = Some((series[1].ratio_to(&series[0]), "cat"));
    [row("cat", &series[0]), read]
}

pub fn messages(suite: &Suite) -> Vec<Row> {
    let events = suite.options.size(80_000, 40_000);
    let whole = request(1, "messages", "s", r#","maxBytes":33000000"#);
    let [cat, row] = beside_cat(suite, "whole list", events, &[whole]);
    let ratio = row.ratio.map_or(0.0, |(ratio, _)| ratio);
    let row = row.target("rate to cat's", ratio, Bound::AtLeast(0.5));
    let row = counted_whole(suite, row);
    let mut rows = vec![cat, row];
    rows.extend(since(suite));
    rows
}

/// Instructions for a message of a whole list.
fn counted_whole(suite: &Suite, mut row: Row) -> Row {
    const EVENTS: usize = 20_000;
    if let Some(mut process) = Process::start_counted(suite, &Contender::Memory) {
        history(&mut process, EVENTS);
        let line = request(1, "messages", "s", r#","maxBytes":33000000"#);
        process.call(&line);
        let count = process.instructions("messages-whole", |process| drop(process.call(&line)));
        process.kill();
        row.instructions = count.map(|count| count as f64 / EVENTS as f64);
    }
    row
}

/// Only the last message, of a short and of a long history.
fn since(suite: &Suite) -> Vec<Row> {
    const ASKED: usize = 500;
    let lengths = [1_000, suite.options.size(1_000_000, 100_000)];
    let line = |events: usize| {
        let more = format!(r#","since":{{"replaceGeneration":0,"count":{}}}"#, events - 1);
        request(1, "messages", &format!("s{events}"), &more)
    };
    let mut process = Process::start(suite, &Contender::Memory);
    lengths.iter().for_each(|&events| histories::messages(&mut process, &format!("s{events}"), events));
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..ASKED {
        for (&events, took) in lengths.iter().zip(&mut took) {
            let line = line(events);
            let begun = Instant::now();
            process.call(&line);
            took.push(begun.elapsed().as_secs_f64() * 1e6);
        }
    }
    process.kill();
    let counts = lengths.map(|_| None);
    let counts = match Process::start_counted(suite, &Contender::Memory) {
        Some(mut process) => {
            let counts = lengths.map(|events| {
                histories::messages(&mut process, &format!("s{events}"), events);
                process.call(&line(events));
                let count = process.instructions(&format!("since-{events}"), |process| {
                    (0..100).for_each(|_| drop(process.call(&line(events))));
                });
                Some(count? as f64 / 100.0)
            });
            process.kill();
            counts
        }
        None => counts,
    };
    let row = |at: usize| {
        let took: &Vec<f64> = &took[at];
        let mut row = Row::new(format!("since, {} events", lengths[at]));
        row.instructions = counts[at];
        row.figure("p50", median(took), "us").figure("p99", quantile(took, 0.99), "us")
    };
    let ratio = counts[0].zip(counts[1]).map(|(few, many)| many / few);
    let long = row(1).gate("instructions to those at 1000 events", ratio, Bound::AtMost(1.1));
    vec![row(0), long]
}

pub fn events(suite: &Suite) -> Vec<Row> {
    const PAGE: usize = 1_000;
    let events = suite.options.size(80_000, 40_000);
    let page = |at: usize| request(at, "events", "s", &format!(r#","fromSeq":{at},"limit":{PAGE}"#));
    let pages: Vec<String> = (0..events).step_by(PAGE).map(page).collect();
    let mut rows = beside_cat(suite, "pages of 1000", events, &pages);
    if let Some(mut process) = Process::start_counted(suite, &Contender::Memory) {
        history(&mut process, 10 * PAGE);
        let count = process.instructions("events", |process| {
            (0..10 * PAGE).step_by(PAGE).for_each(|at| drop(process.call(&page(at))));
        });
        process.kill();
        rows[1].instructions = count.map(|count| count as f64 / (10 * PAGE) as f64);
    }
    rows.into()
}
