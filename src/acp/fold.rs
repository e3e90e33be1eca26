//! Streams of steps that never got their message: deltas put together again.
//!
//! A step's deltas are shown only if the step ends, or its turn does, without an `assistant/message`:
//! a crash (ACP 13). They stand in the order of the log: what comes in the middle of a stream parts it. Nothing is kept of
//! a stream but where it begins; folding reads the log again.

use std::collections::BTreeMap;

use super::calls;
use super::calls::{Calls, Facts};
use super::fields::{inner, string};
use super::ids::Ids;
use super::split;
use super::update::{At, Updates};
use crate::json::{Json, JsonStr};
use crate::log::{Event, Kind, Log, Offset, Seq};

/// An unanswered stream: its step and its first chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) step: Step,
    pub(super) first: Seq,
    /// The gap up to which its text has been shown.
    pub(super) shown: Offset,
    /// Whether it stays without a message, as far as that was asked ([`Stream::is_orphan`]).
    pub(super) orphan: Option<bool>,
}

impl Stream {
    pub(super) fn new(step: Step, first: Seq) -> Self {
        Self { step, first, shown: first.before(), orphan: None }
    }

    /// Whether the step of an event is another one that is not answered either: one step streams at a time, so this
    /// stream is over then.
    pub(super) fn is_left_by(&self, step: Option<Step>, answered: Option<Step>) -> bool {
        step.is_some_and(|step| step != self.step && answered != Some(step))
    }

    /// Whether the events from `from` to `end` leave it without a message and without a new attempt. What is still open
    /// there is no orphan: a message may follow.
    pub(super) fn is_orphan(
        &self,
        ids: &Ids,
        mut answered: Option<Step>,
        log: &Log,
        [from, end]: [Offset; 2],
    ) -> bool {
        for event in log.range(from, end) {
            match event.kind() {
                Kind::TurnStart | Kind::TurnEnd | Kind::StepStart | Kind::StepEnd => return true,
                Kind::AssistantChunk if self.is_left_by(Step::of(ids, &event), answered) => return true,
                Kind::AssistantMessage if is_appended(&event) => {
                    let step = Step::of(ids, &event);
                    if step == Some(self.step) {
                        return false;
                    }
                    answered = step.or(answered);
                }
                Kind::Known if is_retry(&event) => return false,
                _ => {}
            }
        }
        false
    }
}

/// Whether the event adds to the surface; else it rewrites it, or has no part in it.
pub(super) fn is_appended(event: &Event<'_>) -> bool {
    event.surface_op().is_some_and(|op| op.is_str("append"))
}

/// Whether a new attempt begins: what the failed one streamed is no part of the answer.
pub(super) fn is_retry(event: &Event<'_>) -> bool {
    let name = event.type_text();
    name.is("llm/retry") || name.is("llm/retry-started")
}

/// A step: equal for chunks and messages of the same turn and step. Both may be any JSON (FORMAT 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Numbers(i64, i64),
    /// A hash of two texts.
    Odd(u64),
}

impl Step {
    /// The step that an `assistant/chunk` or `assistant/message` event names; none if it names none.
    pub(super) fn of(ids: &Ids, event: &Event<'_>) -> Option<Self> {
        let [turn, step] = event.data().fields(&["turn", "step"]);
        let (turn, step) = (turn?, step?);
        Some(match (turn.as_safe_int(), step.as_safe_int()) {
            (Some(turn), Some(step)) => Self::Numbers(turn, step),
            _ => Self::Odd(ids.pair(turn.text(), step.text())),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Text,
    Reasoning,
}

/// Deltas of one block that follow each other.
#[derive(Debug)]
struct Run {
    voice: Voice,
    index: u64,
    at: At,
    /// JSON text without quotes.
    text: String,
}

/// A call that was still being written.
#[derive(Debug)]
struct Partial {
    at: At,
    seq: Seq,
    id: String,
    name: Option<String>,
    /// JSON text that wants its closing quote; only a beginning once `full`.
    arguments: String,
    full: bool,
}

/// A fold under way: it stops after each few updates, so that memory does not follow the stream.
#[derive(Debug)]
pub(super) struct Fold {
    stream: Stream,
    next: Offset,
    end: Offset,
    /// The stream is over: calls that it was still writing are shown, too.
    is_last: bool,
    run: Option<Run>,
    partials: BTreeMap<u64, Partial>,
}

/// Where a fold writes, and what it may write.
pub(super) struct Target<'t> {
    pub(super) updates: &'t mut Updates,
    pub(super) ids: &'t mut Ids,
    pub(super) calls: &'t mut Calls,
    pub(super) max_text: usize,
    pub(super) limit: usize,
}

impl Fold {
    /// A fold of the stream's chunks before `end`, where the stream is over.
    pub(super) fn last(stream: Stream, end: Offset) -> Self {
        let next = stream.first.before();
        Self { stream, next, end, is_last: true, run: None, partials: BTreeMap::new() }
    }

    /// A fold of the text before `end`, where something else stands between it and the rest.
    pub(super) fn part(stream: Stream, end: Offset) -> Self {
        Self { next: stream.shown, is_last: false, ..Self::last(stream, end) }
    }

    /// Goes on until there is an update. True when the fold is complete.
    pub(super) fn pump(&mut self, log: &Log, target: &mut Target<'_>) -> bool {
        for event in log.range(self.next, self.end) {
            self.next = event.seq().after();
            match event.kind() {
                Kind::AssistantChunk => self.chunk(&event, target),
                // It was fully said, and has its own events.
                Kind::ToolCall => {
                    let id = string(event.data().get("callId"));
                    self.partials.retain(|_, partial| Some(JsonStr::from_verified(&partial.id)) != id);
                }
                _ => {}
            }
            if !target.updates.is_empty() {
                return false;
            }
        }
        if let Some(run) = self.run.take() {
            self.write(&run, target);
        }
        for (_, partial) in std::mem::take(&mut self.partials) {
            write_call(&partial, target);
        }
        true
    }

    fn chunk(&mut self, event: &Event<'_>, target: &mut Target<'_>) {
        if Step::of(target.ids, event) != Some(self.stream.step) {
            return;
        }
        let Some(chunk) = event.data().get("chunk") else { return };
        let [kind, index, text] = chunk.fields(&["type", "index", "text"]);
        let Some(kind) = string(kind) else { return };
        let index = index.and_then(Json::as_safe_uint).unwrap_or(0);
        let voice = if kind.is("text-delta") {
            Voice::Text
        } else if kind.is("reasoning-delta") {
            Voice::Reasoning
        } else {
            if self.is_last && kind.is("tool-call-delta") {
                self.arguments(event, index, chunk, target.max_text);
            }
            return;
        };
        let Some(text) = string(text).filter(|_| event.seq().before() >= self.stream.shown) else { return };
        if let Some(run) = self.run.take_if(|run| run.voice != voice || run.index != index) {
            self.write(&run, target);
        }
        let mut run = self.run.take().unwrap_or_else(|| Run {
            voice,
            index,
            at: At::event(event),
            text: String::new(),
        });
        run.text.push_str(inner(text));
        let mut rest = &*run.text;
        while rest.len() > target.max_text {
            let (head, after) = split::head(rest, target.max_text);
            self.write_text(&run, head, target);
            rest = after;
        }
        run.text.drain(..run.text.len() - rest.len());
        self.run = Some(run);
    }

    fn arguments(&mut self, event: &Event<'_>, index: u64, chunk: Json<'_>, max: usize) {
        let [id, name, delta] = chunk.fields(&["id", "name", "argumentsDelta"]);
        let Some(id) = string(id) else { return };
        let partial = self.partials.entry(index).or_insert_with(|| Partial {
            at: At::event(event),
            seq: event.seq(),
            id: id.text().to_owned(),
            name: None,
            arguments: "\"".to_owned(),
            full: false,
        });
        if partial.name.is_none() {
            partial.name = string(name).map(|name| name.text().to_owned());
        }
        if let Some(delta) = string(delta).map(inner).filter(|_| !partial.full) {
            let (head, rest) = split::head(delta, max.saturating_sub(partial.arguments.len()));
            partial.arguments.push_str(head);
            partial.full = !rest.is_empty();
        }
    }

    fn write(&self, run: &Run, target: &mut Target<'_>) {
        if !run.text.is_empty() {
            self.write_text(run, &run.text, target);
        }
    }

    fn write_text(&self, run: &Run, text: &str, target: &mut Target<'_>) {
        // From the first chunk's seq: a fork holds that event too, at the same place.
        let (tag, id) = match run.voice {
            Voice::Text => ("agent_message_chunk", format!("\"stream-{}\"", self.stream.first)),
            Voice::Reasoning => {
                ("agent_thought_chunk", format!("\"stream-{}/r{}\"", self.stream.first, run.index))
            }
        };
        target
            .updates
            .begin(tag, target.limit)
            .json("messageId", &id)
            .text(text, "")
            .meta("interrupted", "true")
            .finish(run.at);
    }
}

/// A call that was never fully said has failed. One that was shown already ends by its own events.
fn write_call(partial: &Partial, target: &mut Target<'_>) {
    let id = JsonStr::from_verified(&partial.id);
    let Some(shown) = target.calls.begin(target.ids, id, partial.seq).map(str::to_owned) else { return };
    target.calls.end(target.ids, id);
    let arguments = format!("{}\"", partial.arguments);
    let facts = Facts {
        id,
        name: partial.name.as_deref().map(JsonStr::from_verified),
        arguments: Some(Json::from_verified(&arguments)),
    };
    calls::shown(target.updates, target.limit, &shown, facts, "failed")
        .meta("interrupted", "true")
        .finish(partial.at);
}
