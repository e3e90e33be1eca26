//! What the clients of all daemons were told, in one order of time.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A point in the order in which all clients sent and received.
pub type Stamp = u64;

/// From one stamp to another, in one life of a daemon.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub life: u64,
    pub from: Stamp,
    pub to: Stamp,
}

impl Window {
    fn overlaps(&self, other: &Self) -> bool {
        self.from < other.to && other.from < self.to
    }

    fn holds(&self, other: &Self) -> bool {
        self.from < other.from && other.to < self.to
    }
}

/// What is known of one session. An id is given once and never again, so that "deleted" is for ever.
#[derive(Default)]
pub struct Record {
    /// The parent, and how many events come from it.
    pub fork: Option<(String, usize)>,
    /// When an answer promised its file.
    pub stored_at: Option<Stamp>,
    /// When a delete was answered.
    pub gone_at: Option<Stamp>,
    /// Deletes that may have had an effect.
    pub deletes: Vec<Window>,
    /// Deletes that were granted.
    pub deleted: Vec<Window>,
    /// The digest of each event that was announced, by seq.
    pub told: Vec<Option<u64>>,
    /// Notes that were refused as not committed.
    pub refused: HashSet<u64>,
    /// When a daemon surely owned it, and when one may have held its lock, be it for a moment.
    pub owned: Vec<Window>,
    pub held: Vec<Window>,
    /// Loads that succeeded, were refused as locked, were refused as not found.
    pub opened: Vec<Window>,
    pub locked: Vec<Window>,
    pub absent: Vec<Window>,
    /// What was asked and answered last, for whoever looks for the cause of a breach.
    pub trace: VecDeque<String>,
}

impl Record {
    pub fn tell(&mut self, name: &str, seq: usize, digest: u64) {
        if self.told.len() <= seq {
            self.told.resize(seq + 1, None);
        }
        match self.told[seq].replace(digest) {
            Some(other) if other != digest => panic!("{name}: event {seq} was announced as two"),
            _ => {}
        }
    }

    pub fn note(&mut self, line: String) {
        self.trace.truncate(60);
        self.trace.push_front(line);
    }

    /// The last of what happened to it, newest first.
    pub fn history(&self) -> String {
        self.trace.iter().fold(String::new(), |text, line| text + "\n  " + line)
    }

    /// One owner at a time, and a reason for every refusal.
    pub fn judge_owners(&mut self, name: &str) {
        let Self { owned, held, opened, locked, absent, deletes, deleted, trace, .. } = self;
        let history = || trace.iter().fold(String::new(), |text, line| text + "\n  " + line);
        owned.sort_unstable_by_key(|window| window.from);
        for pair in owned.windows(2) {
            assert!(!pair[0].overlaps(&pair[1]), "{name} had two owners: {pair:?}{}", history());
        }
        let others = |windows: &[Window], one: &Window, fits: fn(&Window, &Window) -> bool| {
            windows.iter().any(|other| other.life != one.life && fits(other, one))
        };
        for load in opened.iter() {
            let free = !others(owned, load, Window::holds);
            assert!(free, "{name} was loaded while it had an owner: {load:?}{}", history());
        }
        for refusal in locked.iter() {
            let reason = others(held, refusal, Window::overlaps);
            assert!(reason, "{name} was refused as locked, and nobody held it: {refusal:?}{}", history());
        }
        for delete in deleted.iter() {
            let free = !others(owned, delete, Window::holds);
            assert!(free, "{name} was deleted in its owner's hands: {delete:?}{}", history());
        }
        for miss in absent.iter() {
            let stored = self.stored_at.is_some_and(|stored| stored < miss.from);
            let deleted = deletes.iter().any(|delete| delete.from < miss.to);
            assert!(
                !stored || deleted,
                "{name} was not found, and nobody had deleted it: {miss:?}{}",
                history()
            );
        }
        if let Some(gone) = self.gone_at {
            let back = opened.iter().find(|load| load.from > gone);
            assert!(back.is_none(), "{name} was deleted at {gone} and loaded at {back:?}");
        }
        for windows in [owned, held, opened, locked, absent, deleted] {
            windows.clear();
        }
    }
}

macro_rules! figures {
    ($($name:ident: $text:literal),+ $(,)?) => {
        /// What happened, in numbers.
        #[derive(Default)]
        pub struct Figures { $(pub $name: AtomicU64),+ }

        impl std::fmt::Display for Figures {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let parts = [$((self.$name.load(Ordering::Relaxed), $text)),+];
                let parts: Vec<String> = parts.iter().map(|(count, text)| format!("{count} {text}")).collect();
                out.write_str(&parts.join(", "))
            }
        }
    };
}

figures! {
    requests: "requests",
    refused: "refused",
    unanswered: "unanswered",
    told: "events acknowledged",
    durable: "durable answers",
    forks: "forks",
    deletes: "deletes",
    locked: "SESSION_LOCKED",
    lost_races: "lost races for an id",
    kills: "SIGKILLs",
    ends: "orderly ends",
    faults: "faults planned",
    storage_failed: "STORAGE_FAILED",
    retries: "retries",
    duplicates: "answered as duplicates",
    logs: "logs checked",
    lines: "events compared",
    closers: "closers",
    torn: "torn ends",
    left: "files left by what was cut short",
}

#[derive(Default)]
pub struct Ledger {
    clock: AtomicU64,
    names: AtomicU64,
    /// Ids that are raced for are those of a round, so that none is made anew after it.
    pub round: AtomicU64,
    sessions: Mutex<BTreeMap<String, Record>>,
    pub count: Figures,
}

impl Ledger {
    pub fn stamp(&self) -> Stamp {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// A number that nobody else gets.
    pub fn number(&self) -> u64 {
        self.names.fetch_add(1, Ordering::SeqCst)
    }

    pub fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn with<R>(&self, name: &str, act: impl FnOnce(&mut Record) -> R) -> R {
        let mut sessions = self.sessions();
        if !sessions.contains_key(name) {
            sessions.insert(name.to_owned(), Record::default());
        }
        act(sessions.get_mut(name).unwrap())
    }

    /// Sessions that are stored and not deleted, as far as is known.
    pub fn stored(&self) -> Vec<String> {
        let sessions = self.sessions();
        let there = |record: &Record| record.stored_at.is_some() && record.gone_at.is_none();
        sessions.iter().filter(|(_, record)| there(record)).map(|(name, _)| name.clone()).collect()
    }

    pub fn figures(&self) -> &Figures {
        &self.count
    }
}

/// One more of a figure.
pub fn one(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}
