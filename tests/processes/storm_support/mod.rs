//! Several daemons on one store under random load: clients that remember what they were promised, and a checker that
//! holds every log to it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing)]

pub mod check;
pub mod client;
pub mod errand;
pub mod judge;
pub mod ledger;
pub mod reader;
pub mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Client;
use ledger::Ledger;

/// What a storm is made of.
#[derive(Clone)]
pub struct Plan {
    pub seed: u64,
    /// Daemons, each with its client.
    pub daemons: usize,
    /// Bursts of requests that each client sends in a round.
    pub bursts: usize,
    pub kills: bool,
    pub faults: bool,
    pub slow_readers: bool,
    /// Whether the first daemon lives through all rounds, and is watched.
    pub steady: bool,
    /// When rounds end early.
    pub until: Option<Instant>,
}

/// One store with its clients, through any number of rounds.
pub struct Storm {
    store: tempfile::TempDir,
    plan: Plan,
    ledger: Arc<Ledger>,
    steady: Option<Client>,
    rounds: u64,
}

impl Storm {
    pub fn new(plan: Plan) -> Self {
        let store = tempfile::tempdir().unwrap();
        Self { store, plan, ledger: Arc::default(), steady: None, rounds: 0 }
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// All clients at once, and then the checker.
    pub fn round(&mut self) {
        self.rounds += 1;
        let clients: Vec<Client> = (0..self.plan.daemons)
            .map(|index| {
                let kept = (index == 0 && self.plan.steady).then(|| self.steady.take()).flatten();
                kept.unwrap_or_else(|| {
                    let life = self.rounds * 1_000 + index as u64;
                    Client::new(self.store.path(), &self.plan, Arc::clone(&self.ledger), life)
                })
            })
            .collect();
        let threads: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                std::thread::spawn(move || {
                    client.run();
                    client
                })
            })
            .collect();
        let (mut clients, mut failed) = (Vec::new(), None);
        for thread in threads {
            match thread.join() {
                Ok(client) => clients.push(client),
                Err(panic) => failed = Some(panic),
            }
        }
        if let Some(panic) = failed {
            eprintln!("seed {}, round {}: a promise is broken", self.plan.seed, self.rounds);
            std::panic::resume_unwind(panic);
        }
        if self.plan.steady {
            let mut first = clients.remove(0);
            first.rest();
            self.steady = Some(first);
        }
        clients.into_iter().for_each(Client::finish);
        check::check(self.store.path(), &self.ledger, &self.plan);
    }

    /// Rounds until the plan's time is up, at least one.
    pub fn rounds(&mut self) {
        loop {
            self.round();
            if self.plan.until.is_none_or(|until| Instant::now() + Duration::from_secs(1) > until) {
                break;
            }
        }
        if let Some(steady) = self.steady.take() {
            steady.judge_growth();
            steady.finish();
        }
        eprintln!("{} rounds of {} daemons: {}", self.rounds, self.plan.daemons, self.ledger.figures());
    }
}
