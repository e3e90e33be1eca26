//! The kept corpus of fuzzing, and a bounded number of mutations of it, held to the checks of
//! `fuzz/checks`. `fuzz.sh` goes on from here.

#[path = "../../fuzz/checks/mod.rs"]
mod checks;

use std::time::{Duration, Instant};

use checks::driver::Corpus;

/// Replays the corpus of a target, and tries so many mutations of it; or as many as the seconds that
/// `fuzz.sh` gives allow.
fn replay(target: &str, mutations: u64) {
    let check = *checks::ALL.iter().find(|(name, _)| *name == target).unwrap();
    let corpus = Corpus::of(check);
    let setting = |name: &str| std::env::var(name).ok();
    corpus.replay();
    let seed = setting("SESSIOND_FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap());
    let tried = match setting("SESSIOND_FUZZ_SECONDS") {
        None => corpus.mutate(seed, |tried| tried < mutations),
        Some(seconds) => {
            let end = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
            corpus.mutate(seed, |_| Instant::now() < end)
        }
    };
    eprintln!("{target}: {tried} inputs tried, corpus of {}, 0 crashes", corpus.len());
}

#[test]
fn lossless() {
    replay("lossless", 20_000);
}

#[test]
fn model() {
    replay("model", 500);
}

#[test]
fn chunk_rows() {
    replay("chunk_rows", 4_000);
}

#[test]
fn paths() {
    replay("paths", 4_000);
}

#[test]
fn lines() {
    replay("lines", 2_000);
}

#[test]
fn loader() {
    replay("loader", 4_000);
}
