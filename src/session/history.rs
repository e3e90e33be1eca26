//! A log with everything that is folded from it: the one validator of append, seed and load.

use std::collections::HashMap;
use std::sync::Arc;

use imbl::Vector;

use super::append::{Candidate, Rules};
use super::refusal::Refusal;
use crate::json::Json;
use crate::log::{Draft, Kind, Log, Offset, Seq, is_row_tag};
use crate::view::{Closers, Reading, View, Watch, closers};

/// What an event may be and how large (PROTOCOL 6).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One encoded event, in bytes.
    pub max_event_bytes: usize,
    /// Nesting in `data`; a scalar or flat object is 1.
    pub max_depth: u32,
    /// Events in one batch.
    pub max_batch_events: usize,
    /// Sessions live at once.
    pub max_live_sessions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_event_bytes: 16 << 20,
            max_depth: 1_000,
            max_batch_events: 10_000,
            max_live_sessions: 10_000,
        }
    }
}

/// The event types that a client has declared beyond the known ones (PROTOCOL 2, `eventTypes`).
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    declared: HashMap<String, bool>,
}

/// How an event of some type comes into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// As it is.
    AsIs,
    /// Marked `ignorable: true`, so that the log loads where the type is not declared.
    MarkIgnorable,
    /// Not at all: storage would read its line as a packed row.
    RowTag,
    /// Not at all.
    Unknown,
}

impl Vocabulary {
    /// Declares a type; a required one loads only where it is declared too.
    pub fn declare(&mut self, name: &str, required: bool) {
        self.declared.insert(name.to_owned(), required);
    }

    /// The declared types and whether they are required.
    pub fn declared(&self) -> impl Iterator<Item = (&str, bool)> {
        self.declared.iter().map(|(name, &required)| (name.as_str(), required))
    }

    /// Whether an event of the candidate's type is marked when it comes in.
    pub(super) fn marks_ignorable(&self, candidate: &Candidate<'_>) -> bool {
        self.admission(candidate) == Admission::MarkIgnorable
    }

    pub(super) fn admission(&self, candidate: &Candidate<'_>) -> Admission {
        let draft = &candidate.draft;
        if draft.kind != Kind::Other {
            return Admission::AsIs;
        }
        if is_row_tag(draft.type_text) {
            return Admission::RowTag;
        }
        if draft.ignorable {
            return Admission::AsIs;
        }
        let name = draft.type_text.decode();
        match name.and_then(|name| self.declared.get(&*name).copied()) {
            Some(true) => Admission::AsIs,
            Some(false) => Admission::MarkIgnorable,
            None => Admission::Unknown,
        }
    }
}

/// Whether the turn/step/tool relations (FORMAT 10) are checked or only followed; the wire's `invariants`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// An event that breaks them is refused.
    #[default]
    Enforce,
    /// It is let in and noted.
    Note,
}

/// A log, its projections, and the states that they had at segment starts.
#[derive(Debug, Default)]
pub struct History {
    log: Log,
    view: View,
    /// States at rising offsets: a view of the past is refolded from the nearest one.
    checkpoints: Vector<(Offset, Arc<View>)>,
    watch: Watch,
}

/// A state is kept at each new segment, and after this many events at most.
const CHECKPOINT_EVENTS: u64 = 512;

impl History {
    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The projections of the whole log.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Checks an event and commits it at `time`, or refuses it and changes nothing.
    ///
    /// In the order of PROTOCOL 3: lossless, limits, shape, type, surface, relations, size; the limits are not
    /// for the closers of an open turn. With `mint`
    /// a message may come without an id and gets that one, which is given back.
    pub(super) fn admit(
        &mut self,
        candidate: &Candidate<'_>,
        time: i64,
        validation: Validation,
        rules: Rules<'_>,
        mint: Option<&mut dyn FnMut() -> String>,
    ) -> Result<(Seq, Option<String>), Refusal> {
        let Rules { vocabulary, limits } = rules;
        candidate.check_lossless()?;
        if candidate.depth > limits.max_depth && !self.is_due_closer(candidate) {
            return Err(Refusal::limit("maxDepth", u64::from(limits.max_depth)));
        }
        candidate.check_ignorable()?;
        let draft = &candidate.draft;
        let read = match mint {
            Some(_) => Reading::of_append(draft),
            None => Reading::of_stored(draft),
        };
        let reading = match &read {
            Ok(reading) => reading, // it is large, and stays where it is made
            Err(error) => return Err(Refusal::of(error.clone())),
        };
        // A draft is large: it is copied only where the log gets another.
        let marked;
        let draft = match vocabulary.admission(candidate) {
            Admission::AsIs => draft,
            Admission::MarkIgnorable => {
                marked = Draft { ignorable: true, line: None, ..*draft };
                &marked
            }
            Admission::RowTag => return Err(Refusal::row_tag(draft.type_text)),
            Admission::Unknown => return Err(Refusal::unknown_type(draft.type_text)),
        };
        let effect = self.view.surface.plan(draft, reading, &self.log).map_err(Refusal::of)?;
        if validation == Validation::Enforce {
            self.view.relations.check(&reading.fact).map_err(Refusal::of)?;
        }
        let id = reading.id_gap.and(mint).map(|mint| mint());
        let identified = reading.id_gap.zip(id.as_deref()).map(|(gap, id)| gap.splice(draft.data.text(), id));
        let with_id;
        let draft = match &identified {
            None => draft,
            Some(data) => {
                with_id = Draft { data: Json::from_verified(data), line: None, ..*draft };
                &with_id
            }
        };
        let too_large = |bytes: usize| bytes > limits.max_event_bytes;
        let max_len = draft.max_len();
        // Readers are shown the plain list.
        if draft.packed && too_large(draft.plain_len(self.log.len().next(), time)) {
            return Err(Refusal::limit("maxEventBytes", limits.max_event_bytes as u64));
        }
        if too_large(max_len)
            && too_large(self.log.encoded_len(draft, time))
            && !self.is_due_closer(candidate)
        {
            return Err(Refusal::limit("maxEventBytes", limits.max_event_bytes as u64));
        }
        let (event, fresh) = self.log.put(draft, max_len, time);
        let seq = event.seq();
        if fresh || seq.get() % CHECKPOINT_EVENTS == 0 {
            debug_assert!(self.checkpoints.last().is_none_or(|(offset, _)| *offset <= seq.before()));
            self.checkpoints.push_back((seq.before(), Arc::new(self.view.clone())));
        }
        self.view.apply(event, effect, &reading.fact);
        Ok((seq, id))
    }

    /// Ends an open turn with the closers of FORMAT 12, at `time`, or else at the last event's time as
    /// crash repair does. Says how many there were; all are admitted or none.
    pub fn close_turn(&mut self, time: Option<i64>, rules: Rules<'_>) -> Result<u64, Refusal> {
        let Closers { time, events } = self.closers(time);
        self.all_or_nothing(|history| {
            for closer in &events {
                let candidate = Candidate::closer(closer.draft());
                history.admit(&candidate, time, Validation::Note, rules, None)?;
            }
            Ok(events.len() as u64)
        })
    }

    /// Admits several events; where one is refused, those before it are forgotten.
    pub(super) fn all_or_nothing<T>(
        &mut self,
        admit: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let (start, before) = (self.log.len(), self.view.clone());
        let admitted = admit(self);
        if admitted.is_err() {
            self.back_to(start, before);
        }
        admitted
    }

    /// Whether an event is the very one that would close the open turn next. Closers repeat what the log
    /// holds, so the limits let them pass, wherever they come from: a log that every append accepted is
    /// closed by a load and an interrupt, and read again, planted or appended with its closers. Each one is
    /// the first of those that its prefix needs. The cost follows the open turn; only what is over a limit
    /// pays it.
    fn is_due_closer(&self, candidate: &Candidate<'_>) -> bool {
        let may_close = matches!(candidate.draft.kind, Kind::ToolResult | Kind::StepEnd | Kind::TurnEnd);
        candidate.closes
            || may_close
                && self.closers(None).events.first().is_some_and(|closer| closer.is(&candidate.draft))
    }

    fn closers(&self, time: Option<i64>) -> Closers {
        let turn = self.view.relations.open_turn();
        turn.map_or_else(Closers::default, |turn| closers(&self.log, turn, time))
    }

    /// The events with which a load would close an open turn, as JSON texts.
    pub fn closer_lines(&self) -> Vec<String> {
        let Closers { time, events } = self.closers(None);
        let mut closing = Log::starting_at(self.log.len());
        for closer in &events {
            closing.push(&closer.draft(), time);
        }
        closing.range(self.log.len(), closing.len()).map(|event| event.line().to_owned()).collect()
    }

    /// What a model provider would refuse of it, and the first break of a relation, in words (PROTOCOL 3, Warnings). The
    /// cost follows the events since the last call.
    pub fn warnings(&mut self) -> Vec<String> {
        self.watch.warnings(&self.log, &self.view)
    }

    /// A log that shares the events so far.
    pub fn share_log(&mut self) -> Log {
        let length = self.log.len();
        self.log.fork(length)
    }

    /// Checks an event of a stored log that was scanned as a whole, and takes it: what an append accepts,
    /// this accepts, but for the relations, which are noted only (PROTOCOL 3, Append).
    pub fn admit_stored(
        &mut self,
        candidate: &Candidate<'_>,
        time: i64,
        rules: Rules<'_>,
    ) -> Result<Seq, Refusal> {
        self.admit(candidate, time, Validation::Note, rules, None).map(|(seq, _)| seq)
    }

    /// Takes an event of a stored log that [`Self::admit_stored`] refuses, as it lies there: what follows is judged as in a
    /// log that holds it. A history with such events is looked at and never lived on.
    pub fn take_refused(&mut self, draft: &Draft<'_>, time: i64) {
        let (event, _) = self.log.put(draft, draft.max_len(), time);
        self.view.follow(event);
    }

    /// Everything that was stored is taken: see [`Log::settle`].
    pub fn settle(&mut self) {
        self.log.settle();
    }

    /// The projections after the first `at` events. The cost follows the events since the nearest
    /// checkpoint, not the log.
    pub fn view_at(&self, at: Offset) -> View {
        if at >= self.log.len() {
            return self.view.clone();
        }
        let (mut from, mut view) = self.checkpoint_before(at);
        for event in self.log.range(from, at) {
            view.follow(event);
            from = event.seq().after();
        }
        debug_assert_eq!(from, at);
        view
    }

    fn checkpoint_before(&self, at: Offset) -> (Offset, View) {
        let found = match self.checkpoints.binary_search_by(|(offset, _)| offset.cmp(&at)) {
            Ok(index) => self.checkpoints.get(index),
            Err(index) => index.checked_sub(1).and_then(|index| self.checkpoints.get(index)),
        };
        found.map(|(offset, view)| (*offset, View::clone(view))).unwrap_or_default()
    }

    /// A history of the first `at` events that shares them with this one.
    pub fn fork(&mut self, at: Offset) -> Self {
        let view = self.view_at(at);
        let mut checkpoints = self.checkpoints.clone();
        let keep =
            checkpoints.binary_search_by(|(offset, _)| offset.cmp(&at)).map_or_else(|at| at, |at| at + 1);
        checkpoints.truncate(keep);
        Self { log: self.log.fork(at), view, checkpoints, watch: Watch::default() }
    }

    /// Forgets the events from `at` on: they never became part of the session.
    pub fn retract(&mut self, at: Offset) {
        if at < self.log.len() {
            self.back_to(at, self.view_at(at));
        }
    }

    /// The same where the state after the first `at` events is at hand: nothing is refolded.
    fn back_to(&mut self, at: Offset, view: View) {
        if at < self.log.len() {
            self.view = view;
            self.watch.forget(at);
            let keep =
                self.checkpoints.binary_search_by(|(offset, _)| offset.cmp(&at)).unwrap_or_else(|at| at);
            self.checkpoints.truncate(keep);
            self.log.truncate(at);
        }
    }

    /// Forgets the events from `at` on, and folds the projections again from the rest alone.
    pub(super) fn cut_and_refold(&mut self, at: Offset) {
        self.log.truncate(at);
        self.refold();
    }

    /// Folds the projections again from the log alone, after a fault left them in doubt.
    pub fn refold(&mut self) {
        self.checkpoints = Vector::new();
        self.view = View::default();
        self.watch = Watch::default();
        for event in self.log.iter() {
            self.view.follow(event);
        }
    }
}
