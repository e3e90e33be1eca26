//! One turn of the loop: what was committed and answered but not yet handed to the operating system.
//!
//! Appends are answered into the output at once. Before the output leaves, each touched session is
//! written; where that fails, or must wait for the session's file, its lines are taken out of the output
//! again: nothing is announced or answered that was not kept (PROTOCOL 3, Storage failure).

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::pending::Lines;
use super::response::write_error;
use crate::json::Json;
use crate::log::{Offset, SessionId};
use crate::protocol::WireError;
use crate::store::StorageError;

/// A stored session with unwritten events.
#[derive(Debug)]
pub(super) struct Touched {
    pub(super) id: SessionId,
    /// Where its unwritten events begin.
    pub(super) from: Offset,
}

/// Lines of the output that stand or fall with a touched session's write.
#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: usize,
    start: usize,
    end: usize,
    /// An answer that waits for stable storage too.
    durable: bool,
}

/// The unwritten part of a turn.
#[derive(Debug, Default)]
pub(super) struct WriteSet {
    touched: Vec<Touched>,
    /// The slots by session, once there are more than [`FEW`].
    slots: HashMap<SessionId, usize, RandomState>,
    entries: Vec<Entry>,
}

/// Up to so many touched sessions are looked through.
const FEW: usize = 8;

/// What became of a touched session.
#[derive(Debug)]
pub(super) enum WriteOutcome {
    /// Written: its lines go out.
    Kept,
    /// Not written: its answers become this error.
    Failed(WireError),
    /// Not written, as the session is owned no longer.
    Lost(StorageError),
    /// It is to be stored for the first time: its lines wait for that.
    Unstored,
    /// On its way, up to there: its lines wait.
    Queued(Offset),
    /// Written up to there, while lines of earlier appends still wait: its own go out behind them.
    Landed(Offset),
}

/// Lines taken out of the output, by slot.
#[derive(Debug, Default)]
pub(super) struct TakenOut {
    /// Lines of sessions that wait for their file.
    pub(super) waiting: Slots<Lines>,
    /// Answers that wait for stable storage.
    pub(super) durable: Slots<String>,
}

/// Something for some of the slots, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct Slots<T> {
    list: Vec<(usize, T)>,
    /// Where a slot's is in the list.
    places: Vec<Option<usize>>,
}

impl<T: Default> Slots<T> {
    fn of(&mut self, slot: usize) -> Option<&mut T> {
        if self.places.len() <= slot {
            self.places.resize(slot + 1, None);
        }
        let place = *self.places.get_mut(slot)?.get_or_insert(self.list.len());
        if place == self.list.len() {
            self.list.push((slot, T::default()));
        }
        self.list.get_mut(place).map(|(_, own)| own)
    }

    pub(super) fn get(&self, slot: usize) -> Option<&T> {
        let place = *self.places.get(slot)?.as_ref()?;
        self.list.get(place).map(|(_, own)| own)
    }

    pub(super) fn into_list(self) -> Vec<(usize, T)> {
        self.list
    }
}

impl WriteSet {
    pub(super) fn is_empty(&self) -> bool {
        self.touched.is_empty()
    }

    /// The slot of a session whose log was `from` long before; a new one unless it is touched already.
    pub(super) fn touch(&mut self, id: &SessionId, from: Offset) -> usize {
        if let Some(slot) = self.slot_of(id.as_str()) {
            return slot;
        }
        let slot = self.touched.len();
        self.touched.push(Touched { id: id.clone(), from });
        match slot {
            0..FEW => {}
            FEW => {
                let ids = self.touched.iter().map(|touched| touched.id.clone());
                self.slots = ids.zip(0..).collect();
            }
            _ => {
                self.slots.insert(id.clone(), slot);
            }
        }
        slot
    }

    /// The slot of a session that this turn has touched already.
    pub(super) fn slot_of(&self, id: &str) -> Option<usize> {
        let same = |touched: &Touched| touched.id.as_str() == id;
        if self.touched.last().is_some_and(same) {
            return Some(self.touched.len() - 1);
        }
        match self.touched.len() {
            0..=FEW => self.touched.iter().position(same),
            _ => self.slots.get(id).copied(),
        }
    }

    /// Output `start..end` stands or falls with that slot. Adjoining lines become one entry.
    pub(super) fn answered(&mut self, slot: usize, start: usize, end: usize, durable: bool) {
        match self.entries.last_mut() {
            Some(last) if last.slot == slot && last.end == start && !last.durable && !durable => {
                last.end = end
            }
            _ => self.entries.push(Entry { slot, start, end, durable }),
        }
    }

    /// What was said from `start` to `end` and is not covered yet stands or falls with that slot, too.
    pub(super) fn cover(&mut self, slot: usize, start: usize, end: usize) {
        let covered = self.entries.last().map_or(start, |last| last.end.max(start));
        if covered < end {
            self.answered(slot, covered, end, false);
        }
    }

    /// Forgets what a request that met a bug has said: the output from `mark` on.
    pub(super) fn cut(&mut self, mark: usize) {
        self.entries.retain(|entry| entry.start < mark);
        if let Some(last) = self.entries.last_mut() {
            last.end = last.end.min(mark);
        }
    }

    /// Forgets that such a request touched a session first, at that length.
    pub(super) fn untouch(&mut self, id: &SessionId, from: Offset) {
        if self.touched.last().is_some_and(|touched| touched.id == *id && touched.from == from) {
            self.touched.pop();
            self.slots.remove(id);
        }
    }

    /// The touched sessions; the turn is over for them, and its entries are to be settled.
    pub(super) fn take(&mut self) -> (Vec<Touched>, Settling) {
        self.slots.clear();
        (std::mem::take(&mut self.touched), Settling(std::mem::take(&mut self.entries)))
    }

    /// Gives buffers back for the next turn.
    pub(super) fn reuse(&mut self, mut touched: Vec<Touched>, mut settling: Settling) {
        touched.clear();
        settling.0.clear();
        (self.touched, self.entries) = (touched, settling.0);
    }
}

/// The entries of a turn that is over.
#[derive(Debug)]
pub(super) struct Settling(Vec<Entry>);

impl Settling {
    /// Whether every line may stay where it is.
    fn is_plain(&self, outcomes: &[WriteOutcome]) -> bool {
        outcomes.iter().all(|fate| matches!(fate, WriteOutcome::Kept))
            && !self.0.iter().any(|entry| entry.durable)
    }

    /// Takes out of `out` what what became of its session does not let stay. Should that meet a bug, `out` is as it was.
    pub(super) fn settle(&self, outcomes: &[WriteOutcome], out: &mut String) -> TakenOut {
        let mut taken = TakenOut::default();
        if self.is_plain(outcomes) {
            return taken;
        }
        let (before, mut kept) = (out.as_str(), String::with_capacity(out.len()));
        let mut at = 0;
        for entry in &self.0 {
            kept.push_str(before.get(at..entry.start).unwrap_or(""));
            let lines = before.get(entry.start..entry.end).unwrap_or("");
            match outcomes.get(entry.slot) {
                Some(WriteOutcome::Failed(error)) => refuse_lines(lines, error, &mut kept),
                Some(WriteOutcome::Lost(error)) => refuse_lines(lines, &error.clone().into(), &mut kept),
                Some(WriteOutcome::Unstored | WriteOutcome::Queued(_) | WriteOutcome::Landed(_)) => {
                    let Some(waiting) = taken.waiting.of(entry.slot) else { continue };
                    let start = waiting.text.len();
                    waiting.text.push_str(lines);
                    if entry.durable {
                        waiting.durable.push(start..waiting.text.len());
                    }
                }
                _ if entry.durable => {
                    let Some(text) = taken.durable.of(entry.slot) else { continue };
                    text.push_str(lines);
                }
                _ => kept.push_str(lines),
            }
            at = entry.end;
        }
        kept.push_str(before.get(at..).unwrap_or(""));
        *out = kept;
        taken
    }
}

/// Puts an error in the place of every answer among `lines`; notifications are dropped.
pub(super) fn refuse_lines(lines: &str, error: &WireError, out: &mut String) {
    for line in lines.lines() {
        let id = Json::parse(line).ok().and_then(|(line, _)| line.get("id"));
        if let Some(id) = id {
            write_error(out, id.text(), error);
        }
    }
}
