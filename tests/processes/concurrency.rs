//! Several daemons on one store, all opening, appending, forking, closing, deleting and dying at once: is every
//! promise kept, and has every session one owner (PROTOCOL 3, 9.4)?
//!
//! `SESSIOND_STORM_BURSTS` for longer rounds, `SESSIOND_STORM_SEED` for others.

use std::sync::atomic::Ordering;

use crate::dur_support::from_env;
use crate::storm_support::{Plan, Storm};

fn plan(daemons: usize, bursts: usize) -> Plan {
    Plan {
        seed: from_env("SESSIOND_STORM_SEED", 1) as u64,
        daemons,
        bursts: from_env("SESSIOND_STORM_BURSTS", bursts),
        kills: false,
        faults: false,
        slow_readers: false,
        steady: false,
        until: None,
    }
}

#[test]
fn daemons_on_one_store_keep_every_promise_and_leave_nothing_behind() {
    let mut storm = Storm::new(plan(4, 120));
    storm.rounds();
    let count = &storm.ledger().count;
    for (figure, what) in [
        (&count.told, "events"),
        (&count.forks, "forks"),
        (&count.deletes, "deletes"),
        (&count.locked, "refusals of a session that another holds"),
        (&count.ends, "orderly ends"),
    ] {
        assert!(figure.load(Ordering::Relaxed) > 0, "no {what}");
    }
}

#[test]
fn daemons_on_one_store_may_be_killed_at_any_moment() {
    let mut storm = Storm::new(Plan { kills: true, ..plan(4, 60) });
    storm.round();
    storm.rounds(); // what the killed have left is gone on with
    let count = &storm.ledger().count;
    for (figure, what) in
        [(&count.kills, "kills"), (&count.unanswered, "unanswered requests"), (&count.locked, "refusals")]
    {
        assert!(figure.load(Ordering::Relaxed) > 0, "no {what}");
    }
}
