//! A mixed load for as long as one likes: several daemons on one store, kills, restarts, failing storage and slow
//! readers, with every promise checked after each round and one daemon watched for growth (`soak.sh`).
//!
//! `SESSIOND_SOAK_SECONDS` for how long, `SESSIOND_STORM_SEED` for another one.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::dur_support::from_env;
use crate::storm_support::{Plan, Storm};

#[test]
fn a_mixed_load_with_kills_and_faults_breaks_no_promise() {
    let seconds = from_env("SESSIOND_SOAK_SECONDS", 0) as u64;
    let plan = Plan {
        seed: from_env("SESSIOND_STORM_SEED", 1) as u64,
        daemons: 4,
        bursts: if seconds == 0 { 40 } else { 150 },
        kills: true,
        faults: true,
        slow_readers: true,
        steady: true,
        until: (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds)),
    };
    let mut storm = Storm::new(plan);
    if seconds == 0 {
        storm.round();
    }
    storm.rounds();
    let count = &storm.ledger().count;
    for (figure, what) in [
        (&count.kills, "kills"),
        (&count.faults, "faults"),
        (&count.storage_failed, "failures of storage that a client saw"),
        (&count.durable, "durable answers"),
    ] {
        assert!(figure.load(Ordering::Relaxed) > 0, "no {what}");
    }
}
