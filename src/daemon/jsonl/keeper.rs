//! What takes the events of a log that is read: the one validator, on the way from disk to memory.

use std::sync::Arc;

use crate::disk::damage::{Refused, TooLow, Verdict};
use crate::disk::read::{Sink, StoredEvent};
use crate::json::Parts;
use crate::log::{Event, Kind, Log, Offset, Seq};
use crate::session::{Candidate, History, Refusal, Rules};
use crate::view::{PARTS_OF_LINE, closers, open_turn};

/// Whether a file's lines are the very lines of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Witness {
    /// Every one: a fork may copy the file's bytes.
    Verbatim,
    /// Some differ in spelling, order or packing.
    Respelled,
}

/// Takes events into a history, as an append would.
pub(in crate::daemon) struct Keeper<'r> {
    rules: Rules<'r>,
    history: History,
    witness: Witness,
    /// Goes on behind an event that the validator refuses, to show what lies there.
    lenient: bool,
    refused: Option<Refused>,
    /// The events as they lie there, once the validator has refused one.
    beyond: Option<Log>,
}

impl<'r> Keeper<'r> {
    /// Ends the reading with the first event that the validator refuses.
    pub(in crate::daemon) fn strict(rules: Rules<'r>) -> Self {
        Self {
            rules,
            history: History::default(),
            witness: Witness::Verbatim,
            lenient: false,
            refused: None,
            beyond: None,
        }
    }

    /// Notes what the validator refuses and takes it all the same.
    pub(in crate::daemon) fn lenient(rules: Rules<'r>) -> Self {
        Self { lenient: true, ..Self::strict(rules) }
    }

    pub(super) fn witness(&self) -> Witness {
        self.witness
    }

    pub(super) fn refused(&self) -> Option<&Refused> {
        self.refused.as_ref()
    }

    /// What a model provider would refuse of the valid prefix, in words.
    pub(super) fn warnings(&mut self) -> Vec<String> {
        self.history.warnings()
    }

    pub(in crate::daemon) fn into_history(self) -> History {
        self.history
    }

    /// The events that were read, and those with which a load would close an open turn, as lines.
    pub(super) fn into_log(mut self) -> (Log, Vec<String>) {
        let Some(log) = self.beyond else {
            return (self.history.share_log(), self.history.closer_lines());
        };
        let mut lines = Vec::new();
        if let Some(turn) = open_turn(&log) {
            let closing = closers(&log, turn, None);
            let mut end = Log::starting_at(log.len());
            for closer in &closing.events {
                end.push(&closer.draft(), closing.time);
            }
            lines.extend(end.range(log.len(), end.len()).map(|event| event.line().to_owned()));
        }
        (log, lines)
    }

    fn log(&self) -> &Log {
        self.beyond.as_ref().unwrap_or(self.history.log())
    }
}

impl Sink for Keeper<'_> {
    fn parts(&self) -> Parts {
        PARTS_OF_LINE
    }

    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        if let Some(log) = &mut self.beyond {
            log.push(event.draft, event.time);
            return Ok(());
        }
        let candidate = Candidate::stored(*event.draft, event.row, event.checks);
        match self.history.admit_stored(&candidate, event.time, self.rules) {
            Ok(seq) => {
                // A line that could be taken over was, unless a mark has made it longer.
                let may_be_marked = event.draft.kind == Kind::Other && !event.draft.ignorable;
                let taken_over = event.draft.line.is_some() && !may_be_marked;
                let same = |line: Event<'_>| line.line() == event.row.text();
                if event.changed || !(taken_over || self.history.log().get(seq).is_some_and(same)) {
                    self.witness = Witness::Respelled;
                }
                Ok(())
            }
            Err(refusal) if self.lenient => {
                let (line, byte) = (event.place.line(), event.place.offset);
                let mut refused = refused(&refusal);
                refused.reason = format!("line {line} (byte {byte}): {}", refused.reason);
                self.refused = Some(refused);
                let mut log = self.history.share_log();
                log.push(event.draft, event.time);
                self.beyond = Some(log);
                Ok(())
            }
            Err(refusal) => Err(refused(&refusal)),
        }
    }

    fn offer(&mut self, text: &Arc<String>) {
        if self.beyond.is_none() {
            self.history.offer(text);
        }
    }

    fn withdraw(&mut self) {
        self.history.withdraw();
    }

    fn event_at(&self, seq: Seq) -> Option<Event<'_>> {
        self.log().get(seq)
    }

    fn retract(&mut self, to: Offset) {
        match &mut self.beyond {
            Some(log) => log.truncate(to),
            None => self.history.retract(to),
        }
    }
}

/// Why an event is refused that is stored already, and which cannot be marked any more.
fn reason(refusal: &Refusal) -> String {
    match refusal {
        Refusal::UnknownType(name) => format!(
            "event type {name:?} is not known; declare it: in eventTypes at initialize, with --event-type to verify \
             and repair"
        ),
        refusal => refusal.to_string(),
    }
}

/// A refusal as the disk room passes it on.
fn refused(refusal: &Refusal) -> Refused {
    let (verdict, class) = match refusal {
        Refusal::UnknownType(_) => (Verdict::Unsupported, "EVENT_TYPE_UNKNOWN"),
        Refusal::Shape(error) if error.is_retired() => (Verdict::Unsupported, error.class()),
        Refusal::Shape(error) => (Verdict::Corrupt, error.class()),
        Refusal::Surface(error) => (Verdict::Corrupt, error.rule()),
        Refusal::LossyJson { .. } => (Verdict::Corrupt, "JSON_NOT_LOSSLESS"),
        Refusal::Limit { limit, max } => (Verdict::Limit(TooLow { limit, max: *max }), ""),
        _ => (Verdict::Corrupt, ""),
    };
    Refused { verdict, class, reason: reason(refusal) }
}
