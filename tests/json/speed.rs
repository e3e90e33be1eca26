//! How fast the strict scan is beside serde_json's `RawValue`, which checks only the grammar.
//!
//! `cargo test --release --test json -- --ignored --nocapture speed::`. The numbers of one run may be
//! compared with each other, not with those of another run.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use sessiond::json::{Scratch, write_compact};

fn corpus() -> Vec<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/corpus/fixtures/rehydrated");
    let Ok(files) = std::fs::read_dir(root) else {
        println!("not there, skipped: {root}");
        return Vec::new();
    };
    let mut lines = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        lines.extend(text.lines().map(str::to_owned));
    }
    lines
}

fn wide(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| line.replace("the", "的确").replace(" and ", "—また…")).collect()
}

fn small() -> Vec<String> {
    let data = r#"{"turn":1,"step":2,"chunk":{"type":"text-delta","index":0,"text":"some words of a reply, about as long as they are"}}"#;
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":123456,"method":"session/append","params":{{"sessionId":"session-0198c0de-7000-8000-9000-a0b0c0d0e0f0","type":"assistant/chunk","data":{data}}}}}"#
    );
    vec![line; 3000]
}

/// The best of some interleaved rounds, in bytes per second.
fn race(name: &str, lines: &[String]) {
    let bytes: usize = lines.iter().map(String::len).sum();
    let rounds = 24 + (64 << 20) / bytes.max(1) / 8;
    let mut best = [f64::MAX; 3];
    let mut scratch = Scratch::default();
    let mut out = String::new();
    for _ in 0..rounds {
        let start = Instant::now();
        for line in lines {
            std::hint::black_box(scratch.scan(line).unwrap());
        }
        best[0] = best[0].min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        for line in lines {
            std::hint::black_box(serde_json::from_str::<&serde_json::value::RawValue>(line).unwrap());
        }
        best[1] = best[1].min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        for line in lines {
            out.clear();
            write_compact(line, &mut out);
        }
        best[2] = best[2].min(start.elapsed().as_secs_f64());
    }
    let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
    println!(
        "{name:>7}: {bytes:>8} B in {:>5} lines; scan {:.2} GB/s, RawValue {:.2} GB/s, compact {:.2} GB/s; ratio {:.2}",
        lines.len(),
        rate(best[0]),
        rate(best[1]),
        rate(best[2]),
        best[1] / best[0]
    );
}

#[test]
#[ignore = "a measurement"]
fn scan_speed() {
    let logs = corpus();
    if !logs.is_empty() {
        race("logs", &logs);
        race("wide", &wide(&logs));
    }
    race("append", &small());
}

/// For callgrind: `valgrind --tool=callgrind … scan_once` with `SCANS` lines of about 300 bytes.
#[test]
#[ignore = "a measurement"]
fn scan_once() {
    let count = std::env::var("SCANS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let line = &small()[0];
    let mut scratch = Scratch::default();
    for _ in 0..count {
        std::hint::black_box(scratch.scan(line).unwrap());
    }
    println!("{count} lines of {} bytes", line.len());
}
