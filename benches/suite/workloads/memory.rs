//! Memory beside the bytes of the log, what closing gives back, and idle sessions.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Suite;
use crate::histories;
use crate::process::{Contender, Process};
use crate::report::{Bound, Row};
use crate::script::{append, append_message, new, open_step, request};
use crate::stored;

pub fn memory(suite: &Suite) -> Vec<Row> {
    let events = suite.options.size(300_000, 150_000);
    let chunk = |n: usize| {
        let data =
            format!(r#"{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":" token{n}"}}}}"#);
        append(n, "s", "assistant/chunk", &data, false)
    };
    let mut rows = vec![
        kept(suite, "messages", events, |n| append_message(n, "s")),
        kept(suite, "chunks of tokens", events, chunk),
    ];
    rows.push(idle(suite, Contender::Memory));
    rows.push(idle(suite, Contender::Jsonl(suite.scratch.path().join("idle"))));
    rows
}

/// Memory for an event of a session on `jsonl:`, and what is left of it once the session is closed.
fn kept(suite: &Suite, what: &str, events: usize, line: impl Fn(usize) -> String) -> Row {
    let store = suite.scratch.path().join("kept");
    let who = Contender::Jsonl(store.clone()).fresh();
    let mut process = Process::start(suite, &who);
    // Buffers of input and output grow to what this client needs before anything is weighed; the session
    // stays, so that nothing of it is free to be used again.
    histories::messages(&mut process, "warm", 50_000);
    open_step("s").iter().for_each(|line| drop(process.call(line)));
    let before = settled(&process);
    let bytes_before = log_bytes(&store);
    histories::fill(&mut process, 1..events + 1, &line);
    let full = settled(&process);
    let bytes = log_bytes(&store) - bytes_before;
    process.call(&request(1, "close", "s", ""));
    let closed = settled(&process);
    // Once more: what the first one left behind may not make the allocator keep the second.
    process.call(&request(1, "load", "s", ""));
    let loaded = settled(&process);
    process.call(&request(1, "close", "s", ""));
    let closed_again = settled(&process);
    process.end();
    let per_event = |bytes: u64| bytes as f64 / events as f64;
    let (line, memory) = (per_event(bytes), per_event(full.saturating_sub(before)));
    let part = |memory: u64| memory.saturating_sub(before) as f64 / full.saturating_sub(before) as f64;
    let left = part(closed.max(closed_again)) * 100.0;
    Row::new(format!("{what}, {events} events"))
        .figure("line", line, "B")
        .figure("memory", memory, "B/event")
        .figure("to the line", memory / line, "")
        .figure("left after close", part(closed) * 100.0, "%")
        .figure("loaded again", part(loaded) * 100.0, "%")
        .figure("left after that", part(closed_again) * 100.0, "%")
        .gate("memory for an event, B", Some(memory), Bound::AtMost(1.25 * line + 32.0))
        .gate("left after close, % of what it took", Some(left), Bound::AtMost(15.0))
}

fn log_bytes(store: &Path) -> u64 {
    fs::metadata(stored::log_path(store, "s")).unwrap().len()
}

/// A thousand sessions that are made and not used.
fn idle(suite: &Suite, who: Contender) -> Row {
    const SESSIONS: u64 = 1_000;
    let who = who.fresh();
    let mut process = Process::start(suite, &who);
    process.call(&new("first"));
    let before = settled(&process);
    (0..SESSIONS).for_each(|n| drop(process.call(&new(&format!("s{n}")))));
    let memory = settled(&process) - before;
    let cpu = process.measured(|_| std::thread::sleep(Duration::from_secs(1))).cpu;
    process.end();
    Row::new(format!("{who} {SESSIONS} idle sessions"))
        .figure("memory", memory as f64 / SESSIONS as f64, "B/session")
        .figure("processor time in a second", cpu * 1e6, "us")
}

/// Its memory once that stands still: output is drained and jobs have ended.
fn settled(process: &Process) -> u64 {
    let (mut last, begun) = (process.memory(), Instant::now());
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = process.memory();
        if now == last || begun.elapsed() > Duration::from_secs(5) {
            return now;
        }
        last = now;
    }
}
