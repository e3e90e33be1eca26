//! Seeds: events that a new session begins with.

use super::append::{Candidate, Rules};
use super::history::{History, Validation};
use super::refusal::Refusal;
use crate::json::{Json, Scratch, Type};
use crate::log::{Kind, Offset, read_event};

/// A seed: an array of whole events, and what the header is to say of them.
#[derive(Clone, Copy, Debug)]
pub struct Seed<'a> {
    /// The array, as verified JSON text.
    pub events: Json<'a>,
}

/// What a `meta` says of the lineage (PROTOCOL 3, Snapshot = seed).
#[derive(Clone, Copy, Debug, Default)]
pub struct SeedMeta {
    /// Events that come from the parent.
    pub seed_length: Option<Offset>,
    /// Whether a parent is named.
    pub has_parent: bool,
}

impl SeedMeta {
    /// The inherited event count of a session with `length` seed events, and whether it is seeded.
    pub fn inherited(self, seed: Option<Offset>) -> Result<(Offset, bool), Refusal> {
        let invalid = |text: &str| Err(Refusal::Invalid(text.to_owned()));
        match (seed, self.seed_length) {
            (None, None) => Ok((Offset::ZERO, false)),
            (None, Some(_)) => {
                invalid("meta.seedLength needs a seed; give the seed's events, or leave it out")
            }
            (Some(_), None) if self.has_parent => invalid(
                "a seed with meta.parentSession needs meta.seedLength: how many of its events come from the parent",
            ),
            (Some(_), None) => Ok((Offset::ZERO, false)),
            (Some(length), Some(count)) if count > length => {
                invalid("meta.seedLength exceeds the number of seed events")
            }
            (Some(_), Some(count)) => Ok((count, true)),
        }
    }
}

/// Checks a seed's events and makes a history of them (FORMAT 2.2).
pub(super) fn from_seed(
    seed: Seed<'_>,
    validation: Validation,
    rules: Rules<'_>,
) -> Result<History, Refusal> {
    if seed.events.kind() != Type::Array {
        return Err(Refusal::Invalid("seed must be an array of events".to_owned()));
    }
    let mut history = History::default();
    let mut scratch = Scratch::default();
    for (index, value) in seed.events.elements().enumerate() {
        admit_whole(&mut history, value, validation, rules, &mut scratch)
            .map_err(|refusal| refusal.at_index(index))?;
    }
    Ok(history)
}

fn admit_whole(
    history: &mut History,
    value: Json<'_>,
    validation: Validation,
    rules: Rules<'_>,
    scratch: &mut Scratch,
) -> Result<(), Refusal> {
    // Scanned again by itself: the line it came in was scanned as a whole.
    let (value, checks) = scratch.scan(value.text()).map_err(|error| Refusal::Invalid(error.to_string()))?;
    Candidate::whole(value, checks).check_lossless()?; // before its envelope (FORMAT 2.2)
    let (seq, time, draft) = read_event(value, checks.needs_compaction)?;
    let candidate = Candidate::stored(draft, value, checks);
    let expected = history.log().len();
    if seq.before() != expected {
        return Err(Refusal::SeedSeq { expected: expected.get(), actual: seq });
    }
    history.admit(&candidate, time, validation, rules, None).map(|_| ())
}

/// Whether a log ends in the marker that closes a seed.
pub(super) fn ends_in_marker(history: &History) -> bool {
    history.log().last().is_some_and(|event| event.kind() == Kind::SessionEndSeed)
}
