//! What takes the events of a log that is read: the one validator, on the way from disk to memory.

use crate::disk::read::damage::{Problem, Refused, TooLow, Verdict};
use crate::disk::read::reader::{MAX_PROBLEMS, Scan, Sink, StoredEvent};
use crate::log::{Event, Kind, Offset, Seq};
use crate::session::{Candidate, History, Refusal, Rules};

/// Whether a file's lines are the very lines of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteFidelity {
    /// Every one: a fork may copy the file's bytes.
    Verbatim,
    /// Some differ in spelling, order or packing.
    Respelled,
}

/// Takes events into a history, as an append would.
pub(crate) struct LogLoader<'r> {
    rules: Rules<'r>,
    history: History,
    fidelity: ByteFidelity,
    /// Goes on behind an event that the validator refuses, to judge what lies there.
    lenient: bool,
    /// The first events that the validator refuses, up to [`MAX_PROBLEMS`], and how many there are.
    refused: Vec<Problem>,
    refused_count: u64,
}

impl<'r> LogLoader<'r> {
    /// Ends the reading with the first event that the validator refuses.
    pub(crate) fn strict(rules: Rules<'r>) -> Self {
        Self {
            rules,
            history: History::default(),
            fidelity: ByteFidelity::Verbatim,
            lenient: false,
            refused: Vec::new(),
            refused_count: 0,
        }
    }

    /// Notes what the validator refuses and takes it all the same: every record is judged.
    pub(crate) fn lenient(rules: Rules<'r>) -> Self {
        Self { lenient: true, ..Self::strict(rules) }
    }

    pub(crate) fn fidelity(&self) -> ByteFidelity {
        self.fidelity
    }

    /// All that is wrong with a log that was read into this loader, in the order of its lines and one thing for each, up to
    /// [`MAX_PROBLEMS`]; and how many more there are.
    pub(crate) fn problems<'k>(&'k self, scan: &'k Scan) -> (Vec<&'k Problem>, u64) {
        let mut all: Vec<&Problem> = scan.problems.iter().chain(&self.refused).collect();
        let found = all.len();
        all.sort_by_key(|problem| problem.place.row);
        all.dedup_by_key(|problem| problem.place);
        let doubled = (found - all.len()) as u64;
        all.truncate(MAX_PROBLEMS);
        let count = scan.problem_count + self.refused_count - doubled;
        let more = count - all.len() as u64;
        (all, more)
    }

    /// Whether the validator has refused an event.
    pub(crate) fn refuses(&self) -> bool {
        self.refused_count > 0
    }

    /// What a model provider would refuse of the log as it lies there, in words.
    pub(crate) fn warnings(&mut self) -> Vec<String> {
        self.history.warnings()
    }

    pub(crate) fn into_history(mut self) -> History {
        self.history.settle();
        self.history
    }
}

impl Sink for LogLoader<'_> {
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        let candidate = Candidate::stored(*event.draft, event.row, event.checks);
        match self.history.admit_stored(&candidate, event.time, self.rules) {
            Ok(seq) => {
                // A line that could be taken over was, unless a mark has made it longer.
                let may_be_marked = event.draft.kind == Kind::Other && !event.draft.ignorable;
                let taken_over = event.draft.line.is_some() && !may_be_marked;
                let same = |line: Event<'_>| line.line() == event.row.text();
                if event.changed || !(taken_over || self.history.log().get(seq).is_some_and(same)) {
                    self.fidelity = ByteFidelity::Respelled;
                }
                Ok(())
            }
            Err(refusal) if self.lenient => {
                self.refused_count += 1;
                if self.refused.len() < MAX_PROBLEMS {
                    self.refused.push(Problem::refused(event.place, refused(&refusal)));
                }
                self.history.take_refused(event.draft, event.time);
                Ok(())
            }
            Err(refusal) => Err(refused(&refusal)),
        }
    }

    fn judges_all(&self) -> bool {
        self.lenient
    }

    fn stranded(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        let candidate = Candidate::stored(*event.draft, event.row, event.checks);
        self.rules.judge_alone(&candidate).map_err(|refusal| refused(&refusal))
    }

    fn event_at(&self, seq: Seq) -> Option<Event<'_>> {
        self.history.log().get(seq)
    }

    fn retract(&mut self, to: Offset) {
        self.history.retract(to);
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
