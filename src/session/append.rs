//! Appending: candidates, conditional and repeated appends, batches.

use super::history::{Admission, History, Limits, Validation, Vocabulary};
use super::refusal::Refusal;
use super::session::{Context, Session};
use crate::json::{Checks, FaultAt, Json, JsonStr, fit_pointer, pointer_at, write_compact};
use crate::log::{Draft, EnvelopeError, Event, Kind, Offset, Seq};
use crate::view::{Reading, check_marker, message_id_missing, minted_id, same_data};

/// An event that somebody wants in the log: verified JSON, nothing of its meaning checked yet.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    pub(super) draft: Draft<'a>,
    /// The first lossy place. It is rare, and candidates are moved often.
    fault: Option<Box<Lossy<'a>>>,
    pub(super) depth: u32,
    /// Whether `ignorable`, if it was given, is `true`: nothing else will do.
    pub(super) ignorable: Option<bool>,
    /// It closes a turn, and is bounded by what it repeats of the log instead of by the limits.
    pub(super) closes: bool,
}

/// A lossy place: in which member, of which value, where.
#[derive(Clone, Copy, Debug)]
struct Lossy<'a> {
    member: &'static str,
    value: Json<'a>,
    at: FaultAt,
}

impl<'a> Lossy<'a> {
    fn of(member: &'static str, value: Json<'a>, checks: Checks) -> Option<Box<Self>> {
        checks.fault.map(|at| Box::new(Self { member, value, at }))
    }

    #[cold]
    fn refusal(&self) -> Refusal {
        let pointer = format!("{}{}", self.member, pointer_at(self.value.text(), self.at.offset));
        Refusal::LossyJson { kind: self.at.kind, pointer: fit_pointer(pointer) }
    }
}

impl<'a> Candidate<'a> {
    /// An event of a type and a payload, with what the scanner said of the payload.
    #[inline(always)] // it is large, and made where it is used
    pub fn new(type_text: JsonStr<'a>, data: Json<'a>, checks: Checks) -> Self {
        let draft = Draft { needs_compaction: checks.needs_compaction, ..Draft::new(type_text, data) };
        let fault = Lossy::of("/data", data, checks);
        Self { draft, fault, depth: checks.depth, ignorable: None, closes: false }
    }

    /// Gives it a surface marker.
    #[inline(always)]
    pub fn set_surface_op(&mut self, value: Json<'a>, checks: Checks) {
        self.draft.surface_op = Some(value);
        self.note("/surfaceOp", value, checks);
    }

    /// Gives it cited events.
    #[inline(always)]
    pub fn set_sources(&mut self, value: Json<'a>, checks: Checks) {
        self.draft.sources = Some(value);
        self.note("/sourceEventSeqs", value, checks);
    }

    /// Marks it so that readers that do not know its type may pass it over.
    #[inline]
    pub fn set_ignorable(&mut self, value: Json<'a>) {
        self.draft.ignorable = true;
        self.ignorable = Some(value.as_bool() == Some(true));
    }

    /// A draft read from a seed or a stored line that was scanned as a whole.
    pub fn stored(draft: Draft<'a>, line: Json<'a>, checks: Checks) -> Self {
        // The envelope is one level around the payload.
        let depth = checks.depth.saturating_sub(1).max(1);
        Self { draft, fault: Lossy::of("", line, checks), depth, ignorable: None, closes: false }
    }

    /// An event with which this program closes a turn.
    pub(super) fn closer(draft: Draft<'a>) -> Self {
        Self { draft, fault: None, depth: 1, ignorable: None, closes: true }
    }

    /// A whole event whose envelope is not read yet: good for [`Self::check_lossless`] alone.
    pub(super) fn whole(line: Json<'a>, checks: Checks) -> Self {
        Self::stored(Draft::new(JsonStr::EMPTY, line), line, checks)
    }

    #[inline(always)]
    fn note(&mut self, member: &'static str, value: Json<'a>, checks: Checks) {
        self.draft.needs_compaction |= checks.needs_compaction;
        if checks.fault.is_some() && self.fault.is_none() {
            self.fault = Lossy::of(member, value, checks);
        }
    }

    #[inline]
    pub(super) fn check_lossless(&self) -> Result<(), Refusal> {
        self.fault.as_deref().map_or(Ok(()), |fault| Err(fault.refusal()))
    }

    /// An `ignorable` that is there is `true`. A repetition is held to it as a first append is: no event is
    /// stored with another.
    pub(super) fn check_ignorable(&self) -> Result<(), Refusal> {
        if self.ignorable == Some(false) { Err(EnvelopeError::Ignorable.into()) } else { Ok(()) }
    }

    /// Whether a stored event is this one: equal type, data text, surfaceOp, sourceEventSeqs and
    /// ignorable (PROTOCOL 3, `expectedSeq`); a message id that was minted is left out.
    fn is_stored_as(&self, event: Event<'_>, vocabulary: &Vocabulary) -> bool {
        let optional = |mine: Option<Json<'_>>, stored: Option<&str>| match (mine, stored) {
            (None, None) => true,
            (Some(mine), Some(stored)) => compact(mine) == stored,
            _ => false,
        };
        let draft = &self.draft;
        event.type_text() == draft.type_text
            && event.ignorable() == (draft.ignorable || vocabulary.marks_ignorable(self))
            && optional(draft.surface_op, event.surface_op().map(Json::text))
            && optional(draft.sources, event.plain_sources().as_deref())
            && same_data(event.data(), draft)
    }
}

fn compact(value: Json<'_>) -> String {
    let mut out = String::with_capacity(value.text().len());
    write_compact(value.text(), &mut out);
    out
}

/// The condition and the place of an append.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expect {
    /// The append is on condition that the log is that long, and safe to repeat.
    pub seq: Option<Offset>,
}

/// What an append did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The event's position.
    pub seq: Seq,
    /// Its time, milliseconds since the Unix epoch.
    pub time: i64,
    /// The message id that was minted for it.
    pub message_id: Option<String>,
    /// It had been there before: nothing was committed.
    pub duplicate: bool,
}

/// What a batch did: events `first..first + count`, of which those from `committed` on are new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendBatch {
    /// The first event's position.
    pub first: Offset,
    /// Events in the batch.
    pub count: u64,
    /// The first event that this call committed; the end of the batch when all had been there.
    pub committed: Offset,
    /// The first event's time.
    pub time: i64,
}

impl AppendBatch {
    /// All of it had been there before.
    pub fn duplicate(&self) -> bool {
        self.count > 0 && self.committed == self.first.plus(self.count)
    }
}

/// What every append is checked against.
#[derive(Clone, Copy)]
pub struct Rules<'r> {
    /// The types beyond the known ones.
    pub vocabulary: &'r Vocabulary,
    /// How large events may be.
    pub limits: &'r Limits,
}

impl Rules<'_> {
    /// Judges an event without the log that leads up to it: what an append refuses wherever it comes. Limits are left out for
    /// what may close a turn, as they are not for the closers of an open one.
    ///
    /// # Errors
    /// The first rule that it breaks, in the order of PROTOCOL 3.
    pub fn judge_alone(&self, candidate: &Candidate<'_>) -> Result<(), Refusal> {
        let (draft, limits) = (&candidate.draft, self.limits);
        let is_bounded = !matches!(draft.kind, Kind::ToolResult | Kind::StepEnd | Kind::TurnEnd);
        candidate.check_lossless()?;
        if is_bounded && candidate.depth > limits.max_depth {
            return Err(Refusal::limit("maxDepth", u64::from(limits.max_depth)));
        }
        candidate.check_ignorable()?;
        Reading::of_stored(draft)?;
        match self.vocabulary.admission(candidate) {
            Admission::AsIs | Admission::MarkIgnorable => {}
            Admission::RowTag => return Err(Refusal::row_tag(draft.type_text)),
            Admission::Unknown => return Err(Refusal::unknown_type(draft.type_text)),
        }
        check_marker(draft)?;
        if is_bounded && draft.data.text().len() > limits.max_event_bytes {
            return Err(Refusal::limit("maxEventBytes", limits.max_event_bytes as u64));
        }
        Ok(())
    }
}

impl Session {
    pub(super) fn append(
        &mut self,
        candidate: &Candidate<'_>,
        expect: Expect,
        context: &mut Context<'_>,
        rules: Rules<'_>,
    ) -> Result<Appended, Refusal> {
        if let Some(expected) = expect.seq {
            let actual = self.history.log().len();
            if expected != actual {
                return self.find_repeated(candidate, expected, rules);
            }
        }
        let time = context.now();
        let validation = self.invariants();
        let (seq, message_id) = commit(&mut self.history, candidate, validation, context, rules)?;
        Ok(Appended { seq, time, message_id, duplicate: false })
    }

    fn find_repeated(
        &self,
        candidate: &Candidate<'_>,
        at: Offset,
        rules: Rules<'_>,
    ) -> Result<Appended, Refusal> {
        let stored = self.history.log().get(at.next());
        if stored.is_some() {
            candidate.check_ignorable()?;
        }
        match stored {
            Some(event) if candidate.is_stored_as(event, rules.vocabulary) => {
                // The first answer may never have arrived: a minted id is told again.
                let minted = message_id_missing(&candidate.draft)
                    .and_then(|_| minted_id(candidate.draft.kind, event.data()))
                    .map(str::to_owned);
                Ok(Appended { seq: event.seq(), time: event.time(), message_id: minted, duplicate: true })
            }
            _ => Err(Refusal::SeqConflict { expected: at, actual: self.history.log().len() }),
        }
    }

    pub(super) fn append_batch(
        &mut self,
        batch: &[Candidate<'_>],
        expect: Expect,
        context: &mut Context<'_>,
        rules: Rules<'_>,
    ) -> Result<AppendBatch, Refusal> {
        let actual = self.history.log().len();
        let first = expect.seq.unwrap_or(actual);
        let conflict = Refusal::SeqConflict { expected: first, actual };
        let Some(stored) = actual.get().checked_sub(first.get()) else { return Err(conflict) };
        // A crash may have left a prefix of the batch: what is there must be the batch's own events.
        let there = batch.iter().zip(self.history.log().range(first, actual));
        for (index, (candidate, event)) in there.enumerate() {
            candidate.check_ignorable().map_err(|refusal| refusal.at_index(index))?;
            if !candidate.is_stored_as(event, rules.vocabulary) {
                return Err(conflict);
            }
        }
        let rest = batch.get((stored as usize).min(batch.len())..).unwrap_or(&[]);
        let validation = self.invariants();
        self.history.all_or_nothing(|history| {
            for (candidate, index) in rest.iter().zip(batch.len() - rest.len()..) {
                commit(history, candidate, validation, context, rules)
                    .map_err(|refusal| refusal.at_index(index))?;
            }
            Ok(())
        })?;
        let time = self.history.log().get(first.next()).map_or(context.now(), Event::time);
        let end = first.plus(batch.len() as u64);
        let committed = if rest.is_empty() { end } else { actual };
        Ok(AppendBatch { first, count: batch.len() as u64, committed, time })
    }
}

/// Commits an event now; a message that lacks an id gets one, which is given back.
fn commit(
    history: &mut History,
    candidate: &Candidate<'_>,
    validation: Validation,
    context: &mut Context<'_>,
    rules: Rules<'_>,
) -> Result<(Seq, Option<String>), Refusal> {
    let (time, ids) = (context.now(), &mut *context.ids);
    history.admit(candidate, time, validation, rules, Some(&mut || ids.message_id()))
}
