//! Tool calls that wait for a result, and call ids that cannot be told apart.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet, Vector};

use crate::json::{Json, JsonStr};
use crate::log::Seq;

/// A tool call without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The event that made it known: the assistant's message or the `tool/call`.
    pub seq: Seq,
    /// Its id as JSON text, with quotes.
    pub id: Arc<str>,
    /// An assistant's message asked for it.
    pub requested: bool,
    /// A `tool/call` says that it was started.
    pub started: bool,
    /// The step in which it was started, counted over the log.
    step: Option<u64>,
}

/// A call id that a reader of the log cannot follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OddCall {
    /// Requested or started again while the first call of that id had no result.
    Repeated {
        /// The later event.
        seq: Seq,
        /// The id as JSON text, with quotes.
        id: Arc<str>,
    },
    /// Empty, missing or no string.
    Empty {
        /// The event.
        seq: Seq,
    },
}

/// The calls of one log. What is kept grows with unanswered calls only, and clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    /// By id in WTF-8, so that spellings of one id are one call.
    open: OrdMap<Arc<[u8]>, OpenCall>,
    /// The same ids by the event that made them known, so that the first few are found without a sort.
    order: OrdSet<(Seq, Arc<[u8]>)>,
    /// Where the open turn began, and how many of the open calls lie before it.
    turn: Option<(Seq, usize)>,
    step: u64,
    odd: Vector<OddCall>,
    odd_count: u64,
}

impl Calls {
    /// Odd ids that are kept; more are only counted.
    const MAX_ODD: usize = 32;

    /// Takes note of the `tool-call` blocks of an assistant's message.
    pub(super) fn request(&mut self, seq: Seq, content: Json<'_>) {
        for block in content.elements() {
            let [kind, id] = block.fields(&["type", "id"]);
            if kind.is_some_and(|kind| kind.is_str("tool-call")) {
                self.note(seq, id.and_then(Json::as_str), |call| {
                    std::mem::replace(&mut call.requested, true)
                });
            }
        }
    }

    /// Takes note of a `tool/call`.
    pub(super) fn start(&mut self, seq: Seq, id: Option<JsonStr<'_>>) {
        let step = self.step;
        self.note(seq, id, |call| {
            call.step = Some(step);
            std::mem::replace(&mut call.started, true)
        });
    }

    /// `mark` changes the call and says whether it had been so marked before.
    fn note(&mut self, seq: Seq, id: Option<JsonStr<'_>>, mark: impl FnOnce(&mut OpenCall) -> bool) {
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            return self.note_odd(OddCall::Empty { seq });
        };
        let key = id.wtf8();
        let repeated = if let Some(call) = self.open.get_mut(&*key) {
            mark(call).then(|| call.id.clone())
        } else {
            let mut call =
                OpenCall { seq, id: id.text().into(), requested: false, started: false, step: None };
            mark(&mut call);
            let key: Arc<[u8]> = (*key).into();
            self.order.insert((seq, key.clone()));
            self.open.insert(key, call);
            None
        };
        if let Some(id) = repeated {
            self.note_odd(OddCall::Repeated { seq, id });
        }
    }

    fn note_odd(&mut self, odd: OddCall) {
        self.odd_count += 1;
        if self.odd.len() < Self::MAX_ODD {
            self.odd.push_back(odd);
        }
    }

    /// Forgets a call that has its result.
    pub(super) fn answer(&mut self, id: Option<JsonStr<'_>>) {
        if let (Some(id), false) = (id, self.open.is_empty())
            && let Some((key, call)) = self.open.remove_with_key(&*id.wtf8())
        {
            if let Some((start, before)) = &mut self.turn
                && call.seq < *start
            {
                *before -= 1;
            }
            self.order.remove(&(call.seq, key));
        }
    }

    /// Calls that are open by now lie before the turn that begins at `start`.
    pub(super) fn begin_turn(&mut self, start: Seq) {
        self.turn = Some((start, self.open.len()));
    }

    /// No call may get its result in an open turn any more.
    pub(super) fn end_turn(&mut self) {
        self.turn = None;
    }

    /// Calls started so far wait in no step any more.
    pub(super) fn end_step(&mut self) {
        self.step += 1;
    }

    /// Whether a call of that id was started in this step and has no result.
    pub(super) fn waits(&self, id: Option<JsonStr<'_>>) -> bool {
        let call = id.and_then(|id| self.open.get(&*id.wtf8()));
        call.is_some_and(|call| call.step == Some(self.step))
    }

    /// The calls without a result, in the order in which they became known.
    pub(super) fn open(&self) -> impl Iterator<Item = &OpenCall> {
        self.order.iter().filter_map(|(_, id)| self.open.get(id))
    }

    /// So many of them, the first ones, lie before the open turn; outside a turn all.
    pub(super) fn settled_count(&self) -> usize {
        self.turn.map_or(self.open.len(), |(_, before)| before)
    }

    pub(super) fn odd(&self) -> impl Iterator<Item = &OddCall> {
        self.odd.iter()
    }

    pub(super) fn odd_count(&self) -> u64 {
        self.odd_count
    }
}
