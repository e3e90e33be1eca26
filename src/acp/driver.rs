//! The two drivers: history on request, and what is appended later.

use super::Options;
use super::projector::{Mode, Projector};
use super::update::Updates;
use crate::log::{Log, Offset};

/// The history of a log as updates, one at a time (`session/load`, ACP 4 and 13).
///
/// It borrows nothing: the log is passed at each step, so that a long replay can rest while its client
/// does not read and the log goes on. What is replayed is the log as it was at the beginning. One
/// event's updates are held at most, and one update of a folded stream.
#[derive(Debug)]
pub struct Replay {
    projector: Projector,
    next: Offset,
    end: Offset,
    finished: bool,
    ready: Updates,
    taken: usize,
    total: u64,
}

impl Replay {
    /// A replay of all that the log holds now.
    pub fn new(log: &Log, options: Options) -> Self {
        Self::until(log.len(), options)
    }

    /// A replay of the events before `end`.
    pub fn until(end: Offset, options: Options) -> Self {
        Self {
            projector: Projector::new(options, Mode::Replay),
            next: Offset::ZERO,
            end,
            finished: false,
            ready: Updates::default(),
            taken: 0,
            total: 0,
        }
    }

    /// Appends the next update to `out`; false when there is none left. `log` must be the log that
    /// the replay was made for, grown or not.
    pub fn next_into(&mut self, log: &Log, out: &mut String) -> bool {
        loop {
            if let Some(update) = self.ready.get(self.taken) {
                out.push_str(update);
                self.taken += 1;
                self.total += 1;
                return true;
            }
            self.ready.clear();
            self.taken = 0;
            if self.finished {
                return false;
            }
            self.advance(log);
        }
    }

    /// Goes on until there are updates, or to the end.
    fn advance(&mut self, log: &Log) {
        for event in log.range(self.next, self.end) {
            while self.projector.must_fold(log, &event, self.end) {
                self.projector.pump(log, &mut self.ready);
                if !self.ready.is_empty() {
                    return; // the event is taken once the fold is done
                }
            }
            self.projector.apply(log, &event, &mut self.ready);
            self.next = event.seq().after();
            if !self.ready.is_empty() {
                return;
            }
        }
        self.projector.finish(log, self.end, &mut self.ready);
        self.finished = true;
    }

    /// How many updates were given so far; at the end it depends on the log and the options only.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// A follower that begins where this replay ends. What was not taken yet is not given any more.
    pub fn into_follower(mut self, log: &Log) -> Follower {
        while !self.finished {
            self.ready.clear();
            self.advance(log);
        }
        self.projector.mode = Mode::Live;
        Follower { projector: self.projector, next: self.end }
    }
}

/// The updates of what is appended to a log (`liveUpdates`, PROTOCOL 2 and 4): assembled messages,
/// calls and results, plan, title, usage, and compactions and notices where the client takes them.
/// Ids are those that a replay gives, and so is the order, but for the text of a stream that turns out to have no message
/// after something that came in its middle was told.
#[derive(Debug)]
pub struct Follower {
    projector: Projector,
    next: Offset,
}

impl Follower {
    /// A follower of what comes after the events that the log holds now. Reads the log once.
    pub fn new(log: &Log, options: Options) -> Self {
        Replay::new(log, options).into_follower(log)
    }

    /// Adds the updates of the events that the log got since the last call. To be called once events
    /// are committed: one that is retracted after that leaves the follower behind its log.
    pub fn advance(&mut self, log: &Log, updates: &mut Updates) {
        for event in log.range(self.next, log.len()) {
            while self.projector.must_fold(log, &event, log.len()) {
                self.projector.pump(log, updates);
            }
            self.projector.apply(log, &event, updates);
            self.projector.tell_latest(&event, updates);
            self.next = event.seq().after();
        }
    }

    /// The gap up to which events were taken.
    pub fn position(&self) -> Offset {
        self.next
    }
}
