//! Requests that cannot be answered yet: for a job, or for another request of their session.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

use super::service::Found;
use super::storage::Ticket;
use crate::log::{Offset, SessionId};

/// What a failed job takes back.
#[derive(Debug)]
pub(super) enum Undo {
    /// Nothing: what was committed stays so.
    Nothing,
    /// The session never became live.
    Close(SessionId),
    /// The events from there on were never committed.
    Retract(SessionId, Offset),
}

/// Lines that wait for a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    pub(super) text: String,
    /// Where the answers lie that promise stable storage.
    pub(super) durable: Vec<Range<usize>>,
}

impl From<String> for Lines {
    fn from(text: String) -> Self {
        Self { text, durable: Vec::new() }
    }
}

/// A request that waits for a job.
#[derive(Debug)]
pub(super) enum Waiting {
    /// It runs again with the job's result.
    Rerun {
        /// Its line.
        line: Box<str>,
        /// The session ids that it names.
        names: Vec<String>,
        /// What it has learned of ids so far.
        found: Vec<Found>,
    },
    /// Its response is ready and goes out when the job is done.
    Hold {
        /// The response and what goes out with it; a failure puts an error in the response's place.
        lines: Lines,
        /// The session ids that it names.
        names: Vec<String>,
        /// What is taken back when the job fails.
        undo: Undo,
    },
    /// It was cancelled: nobody wants the result.
    Nobody {
        /// The session ids that it named.
        names: Vec<String>,
    },
}

/// What waits, and for what.
#[derive(Debug, Default)]
pub(super) struct Queue {
    last: Ticket,
    jobs: HashMap<Ticket, Waiting>,
    /// Sessions that a waiting request works on: later requests that name them wait in turn.
    busy: HashSet<String>,
    /// Requests that wait for a busy session, in order of arrival.
    behind: VecDeque<(Box<str>, Vec<String>)>,
    /// How often a session is named there.
    named: HashMap<String, usize>,
    /// Those among them that wait for more than the sessions that they name, as a list does, which shows what all before
    /// it have done: nothing overtakes one that waits.
    wide: usize,
    /// Bytes of their lines.
    bytes: usize,
    /// How far the search for a free request has come since a session was last freed.
    search: Option<Search>,
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// Jobs that requests or answers wait for.
    pub(super) jobs: u64,
    /// Requests behind busy sessions.
    pub(super) requests: u64,
    /// Bytes of their lines.
    pub(super) bytes: u64,
}

/// A search through the requests that wait: what it has passed is still held up.
#[derive(Debug)]
struct Search {
    at: usize,
    /// The busy sessions, and those that the passed requests name.
    held: HashSet<String>,
    /// It has come to one of those that nothing overtakes.
    blocked: bool,
}

/// What a request waits for beside the sessions that it names. What comes behind one that waits for more than that,
/// waits too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Nothing.
    Named,
    /// A list: all sessions that are worked on.
    Sessions,
    /// `initialize`: all that is not answered, as the first answer fixes the dialect (PROTOCOL 2).
    Everything,
}

impl Reach {
    fn of(names: &[String]) -> Self {
        match names {
            [name] if name.is_empty() => Self::Sessions,
            [one, two] if one.is_empty() && two.is_empty() => Self::Everything,
            _ => Self::Named,
        }
    }

    fn is_wide(self) -> bool {
        self != Self::Named
    }
}

/// The names of a request that waits for everything before it.
pub(super) fn everything() -> Vec<String> {
    vec![String::new(); 2]
}

impl Queue {
    /// Whether anything waits.
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.behind.is_empty()
    }

    /// Whether nothing waits for that session, nor a request for it behind another one.
    pub(super) fn is_free(&self, id: &str) -> bool {
        !self.busy.contains(id) && !self.named.contains_key(id) && self.wide == 0
    }

    /// Whether a request that names these sessions must wait: for one of them, or for an older one
    /// that does. An empty name stands for the list of all sessions.
    pub(super) fn is_busy(&self, names: &[String]) -> bool {
        let reach = Reach::of(names);
        if self.wide > 0 || self.holds(reach) || (reach.is_wide() && !self.behind.is_empty()) {
            return true;
        }
        names.iter().any(|name| self.busy.contains(name) || self.named.contains_key(name))
    }

    /// Whether work is under way for which a request of that reach waits, beside that for the sessions that it names.
    fn holds(&self, reach: Reach) -> bool {
        match reach {
            Reach::Named => false,
            Reach::Sessions => !self.busy.is_empty(),
            Reach::Everything => !self.jobs.is_empty(),
        }
    }

    /// Whether one that has waited must go on waiting: only for sessions that a request works on. Older
    /// ones that name them there are none, and the younger ones wait for it.
    pub(super) fn is_held(&self, names: &[String]) -> bool {
        self.holds(Reach::of(names)) || names.iter().any(|name| self.busy.contains(name))
    }

    /// What waits, as a status tells it.
    pub(super) fn waits(&self) -> Waits {
        let (jobs, requests) = (self.jobs.len() as u64, self.behind.len() as u64);
        Waits { jobs, requests, bytes: self.bytes as u64 }
    }

    /// Bytes of the requests that wait behind busy sessions.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a session's making, or its last events, are not told yet: no line may name them.
    pub(super) fn is_untold(&self, id: &SessionId) -> bool {
        let holds = |waiting: &Waiting| match waiting {
            Waiting::Hold { undo: Undo::Close(held) | Undo::Retract(held, _), .. } => held == id,
            _ => false,
        };
        self.jobs.values().any(holds)
    }

    /// Puts a request behind the busy sessions.
    pub(super) fn push_behind(&mut self, line: Box<str>, names: Vec<String>) {
        self.count(&line, &names);
        self.behind.push_back((line, names));
    }

    /// Puts one that has waited in front of all others again.
    pub(super) fn push_ahead(&mut self, line: Box<str>, names: Vec<String>) {
        self.count(&line, &names);
        self.behind.push_front((line, names));
        self.search = None;
    }

    fn count(&mut self, line: &str, names: &[String]) {
        self.bytes += line.len();
        self.wide += usize::from(Reach::of(names).is_wide());
        for name in names {
            *self.named.entry(name.clone()).or_default() += 1;
        }
    }

    /// Takes the request at `at` out of the line.
    fn leave(&mut self, at: usize) -> Option<Box<str>> {
        let (line, names) = self.behind.remove(at)?;
        self.bytes = self.bytes.saturating_sub(line.len());
        self.wide -= usize::from(Reach::of(&names).is_wide());
        for name in names {
            if let Some(count) = self.named.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    self.named.remove(&name);
                }
            }
        }
        Some(line)
    }

    /// Lets a request wait for a job.
    pub(super) fn wait(&mut self, waiting: Waiting) -> Ticket {
        self.busy.extend(waiting.names().iter().cloned());
        if let Some(search) = &mut self.search {
            search.held.extend(waiting.names().iter().cloned());
        }
        self.last += 1;
        self.jobs.insert(self.last, waiting);
        self.last
    }

    /// The request that waited for a job; its sessions are free again.
    pub(super) fn done(&mut self, ticket: Ticket) -> Option<Waiting> {
        let waiting = self.jobs.remove(&ticket)?;
        self.search = None;
        for name in waiting.names() {
            self.busy.remove(name);
        }
        // Two waiting requests never name one session, but several may name the list.
        let listed = self.jobs.values().any(|other| other.names().iter().any(String::is_empty));
        if listed {
            self.busy.insert(String::new());
        }
        Some(waiting)
    }

    /// Whether [`Self::next_free`] has not yet looked at all that waits.
    pub(super) fn may_be_free(&self) -> bool {
        let more = |search: &Search| !search.blocked && search.at < self.behind.len();
        self.search.as_ref().map_or(!self.behind.is_empty(), more)
    }

    /// The first request that waits behind no busy session any more. What was looked at in vain is not
    /// looked at again before a session is freed.
    pub(super) fn next_free(&mut self) -> Option<Box<str>> {
        let (sessions, everything) = (self.holds(Reach::Sessions), self.holds(Reach::Everything));
        let start = || Search { at: 0, held: self.busy.clone(), blocked: false };
        let search = self.search.get_or_insert_with(start);
        while let Some((_, names)) = self.behind.get(search.at).filter(|_| !search.blocked) {
            search.blocked = match Reach::of(names) {
                Reach::Named => false,
                Reach::Sessions => search.at > 0 || sessions,
                Reach::Everything => search.at > 0 || everything,
            };
            if search.blocked {
                break;
            }
            if names.iter().all(|name| !search.held.contains(name)) {
                let at = search.at;
                return self.leave(at);
            }
            search.held.extend(names.iter().cloned());
            search.at += 1;
        }
        None
    }

    /// Takes a request back that `is_it` knows by its line; the line, or none if no such request waits
    /// that can be taken back. One whose effect is done is not.
    pub(super) fn cancel(&mut self, is_it: impl Fn(&str) -> bool) -> Option<Box<str>> {
        if let Some(at) = self.behind.iter().position(|(line, _)| is_it(line)) {
            self.search = None;
            return self.leave(at);
        }
        for waiting in self.jobs.values_mut() {
            if let Waiting::Rerun { line, names, .. } = waiting
                && is_it(line)
            {
                let (line, names) = (std::mem::take(line), std::mem::take(names));
                *waiting = Waiting::Nobody { names };
                return Some(line);
            }
        }
        None
    }
}

impl Waiting {
    fn names(&self) -> &[String] {
        match self {
            Self::Rerun { names, .. } | Self::Hold { names, .. } | Self::Nobody { names } => names,
        }
    }
}
