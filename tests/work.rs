//! Does any request cost more the longer the log is, though its answer is not longer, or the more others wait or are
//! live? Work is counted, not timed.
//!
//! Here in allocations. In instructions, where valgrind is installed, and for longer logs:
//! `SESSIOND_WORK_SIZE=1000000 cargo test --test work -- --ignored --nocapture no_request`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod load_support;
mod storage_support;
mod work_support;

use std::alloc::System;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sessiond::disk::paths::Encoding;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use work_support::crowd::Crowd;
use work_support::{Bench, Meter};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations of all threads are counted: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const SMALL: u64 = 1_000;
/// So many waiting requests and live sessions, and ten times as many.
const FEW: u64 = 100;

/// The least count of each request, by its name.
type Counts = BTreeMap<String, u64>;

fn least(counts: &mut Counts, name: &str, count: u64) {
    let least = counts.entry(name.to_owned()).or_insert(count);
    *least = (*least).min(count);
}

/// Those that are counted for each of so many members.
fn per_member(name: &str) -> bool {
    name.contains(", each ")
}

/// Reads of the past fold at most 512 events again, and how many those are is chance.
const REFOLDED: u64 = 512;

/// Says what each request costs in a short and in a long log, and which of them grow.
///
/// `slack` is what a count may differ by, `an_event` what folding one event takes at most.
fn judge(
    unit: &str,
    (small, short): (u64, &Counts),
    (large, long): (u64, &Counts),
    (slack, an_event): (u64, u64),
) {
    let mut grown = Vec::new();
    eprintln!("{unit} at {small} and at {large}:");
    for (name, &least) in short {
        let most = long[name];
        let slack = if name.contains("past") { slack + REFOLDED * an_event } else { slack };
        let allowed = if per_member(name) { (least + slack) * (large / small) } else { least + slack };
        // A sort of them is allowed, and buffers that grow anew because they are too large to be kept.
        let most_allowed = if per_member(name) { 2 * allowed } else { allowed + allowed / 2 };
        let grows = most > most_allowed;
        eprintln!("{least:>12} {most:>14} {} {name}", if grows { "GROWS" } else { "     " });
        if grows {
            grown.push(name.as_str());
        }
    }
    assert!(grown.is_empty(), "more {unit} where there is more: {grown:?}");
}

#[derive(Default)]
struct Allocations(Counts);

impl Meter for Allocations {
    fn count(&mut self, name: &str, run: &mut dyn FnMut()) {
        let region = Region::new(ALLOCATOR);
        run();
        let done = region.change();
        least(&mut self.0, name, (done.allocations + done.reallocations) as u64);
    }
}

fn allocations(size: u64) -> Counts {
    let mut bench = Bench::new(size);
    bench.set_up();
    let mut meter = Allocations::default();
    bench.ask_everything(&mut meter);
    meter.0
}

/// A log of so many messages, each of which cites all before it as one range (FORMAT 16).
fn log_of_ranges(size: usize) -> Vec<u8> {
    let mut log = String::from(
        "{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":1,\"delegationDepth\":0}\n",
    );
    for seq in 0..size {
        let cited = if seq == 0 { String::new() } else { format!(r#""sourceEventSeqs":[[0,{}]],"#, seq - 1) };
        let message = format!(r#"{{"id":"m{seq}","role":"user","content":[],"source":{{"kind":"user"}}}}"#);
        log.push_str(&format!(
            r#"{{"type":"user/message","seq":{seq},"time":1,"data":{message},{cited}"surfaceOp":"append"}}"#
        ));
        log.push('\n');
    }
    log.into_bytes()
}

#[test]
fn a_log_that_cites_ranges_takes_memory_as_any_log() {
    let _alone = alone();
    let most = |size: usize| {
        let log = log_of_ranges(size);
        let region = Region::new(ALLOCATOR);
        let loaded = load_support::load(&log, Encoding::Plain).unwrap();
        assert_eq!(loaded.scan.counts.ranged, size as u64 - 1);
        let all = region.change().bytes_allocated;
        (log.len(), all)
    };
    let (short, long) = (most(2_000), most(16_000));
    for (bytes, allocated) in [short, long] {
        assert!(allocated < 24 * bytes, "{allocated} bytes for a log of {bytes}");
    }
}

#[test]
fn no_request_allocates_more_the_longer_the_log_is() {
    let _alone = alone();
    let (small, large) = (allocations(SMALL), allocations(100 * SMALL));
    judge("allocations", (SMALL, &small), (100 * SMALL, &large), (8, 0));
}

fn allocations_in_a_crowd(size: u64) -> Counts {
    let mut meter = Allocations::default();
    Crowd::new(size).ask_everything(&mut meter);
    meter.0
}

#[test]
fn no_request_allocates_more_the_more_others_wait_or_are_live() {
    let _alone = alone();
    let (few, many) = (allocations_in_a_crowd(FEW), allocations_in_a_crowd(10 * FEW));
    judge("allocations", (FEW, &few), (10 * FEW, &many), (8, 0));
}

/// A scan takes memory for what it must know of the levels around a place; at a depth that is refused anyway that is little.
#[test]
fn a_deep_line_takes_less_memory_than_its_text() {
    let _alone = alone();
    for (open, shut) in [("[", "]"), ("{\"\":", "}"), ("[{\"k\":", "}]")] {
        let levels = (8 << 20) / open.len();
        for text in [open.repeat(levels), format!("{}0{}", open.repeat(levels), shut.repeat(levels))] {
            let region = Region::new(ALLOCATOR);
            let depth = sessiond::json::Json::parse(&text).map(|(_, checks)| checks.depth as usize);
            let taken = region.change().bytes_allocated;
            assert_eq!(depth.is_ok(), text.ends_with(shut), "{open}");
            assert!(depth.is_err() || depth.is_ok_and(|depth| depth >= levels));
            assert!(taken < text.len() / 4, "{taken} bytes for {}", text.len());
        }
    }
}

/// Everything between its call and its return is counted by callgrind, and nothing else.
#[inline(never)]
fn counted_by_callgrind(run: &mut dyn FnMut()) {
    run();
    std::hint::black_box(());
}

struct Callgrind;

impl Meter for Callgrind {
    fn count(&mut self, name: &str, run: &mut dyn FnMut()) {
        eprintln!("counted: {name}");
        counted_by_callgrind(run);
    }
}

fn turn_callgrind_on() {
    let mut on = Command::new("callgrind_control");
    on.args(["-i", "on", &std::process::id().to_string()]).stdout(Stdio::null());
    assert!(on.status().unwrap().success());
}

/// What runs below callgrind.
#[test]
#[ignore = "only as a child of instructions"]
fn child() {
    let Ok(size) = std::env::var("SESSIOND_WORK_CHILD") else { return };
    let mut bench = Bench::new(size.parse().unwrap());
    bench.set_up();
    turn_callgrind_on();
    bench.ask_everything(&mut Callgrind);
}

/// The same.
#[test]
#[ignore = "only as a child of instructions"]
fn crowd() {
    let Ok(size) = std::env::var("SESSIOND_WORK_CHILD") else { return };
    let mut crowd = Crowd::new(size.parse().unwrap());
    turn_callgrind_on();
    crowd.ask_everything(&mut Callgrind);
}

fn instructions(child: &str, size: u64, out: &Path) -> Counts {
    let file = out.join(format!("{child}.{size}"));
    let child = Command::new("valgrind")
        .args(["--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no"])
        .args(["--toggle-collect=work::counted_by_callgrind", "--dump-after=work::counted_by_callgrind"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", child, "--nocapture", "--test-threads", "1"])
        .env("SESSIOND_WORK_CHILD", size.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    let mut counts = Counts::new();
    for (at, name) in said.lines().filter_map(|line| line.split_once("counted: ")).enumerate() {
        let dump = std::fs::read_to_string(format!("{}.{}", file.display(), at + 1)).unwrap();
        let total = dump.lines().rev().find_map(|line| line.strip_prefix("totals:")).unwrap();
        least(&mut counts, name.1, total.trim().parse().unwrap());
    }
    counts
}

#[test]
#[ignore = "takes minutes, and needs valgrind"]
fn no_request_takes_more_instructions_the_longer_the_log_is() {
    let size = std::env::var("SESSIOND_WORK_SIZE").map_or(100 * SMALL, |size| size.parse().unwrap());
    let out = tempfile::tempdir().unwrap();
    let of = |size| instructions("child", size, out.path());
    judge("instructions", (SMALL, &of(SMALL)), (size, &of(size)), (20_000, 2_500));
}

#[test]
#[ignore = "takes minutes, and needs valgrind"]
fn no_request_takes_more_instructions_the_more_others_wait_or_are_live() {
    let out = tempfile::tempdir().unwrap();
    let of = |size| instructions("crowd", size, out.path());
    judge("instructions", (FEW, &of(FEW)), (10 * FEW, &of(10 * FEW)), (20_000, 0));
}
