//! What the payload of one event says, read once: its message, and the turns, steps, calls and results it names.
//!
//! The shape rules ([`ShapeError`]), the surface and the relations judge a [`Reading`]; none of them reads the
//! payload again.

use std::convert::Infallible;
use std::fmt;

use super::message_id::IdGap;
use super::shape;
use super::shape::{MessageIds, ShapeError};
use crate::json::{Json, JsonStr, MAX_SAFE_INTEGER, Type};
use crate::log::{Draft, Event, Kind};

/// The largest number of a turn.
const MOST: f64 = MAX_SAFE_INTEGER as f64;

/// A turn or step number as JavaScript's `===` sees it.
///
/// ! `null` equals "nothing open", as upstream: a `step/start` that names turn `null` outside a turn passes.
#[derive(Clone, Copy, Debug, Default)]
pub enum TurnNumber {
    /// JSON `null`; of a log: nothing is open.
    #[default]
    Null,
    /// A number, as a double.
    Number(f64),
    /// Absent: equal to nothing.
    Missing,
    /// Of another kind: equal to nothing.
    Other(Type),
}

impl TurnNumber {
    #[inline]
    fn of(value: Option<Json<'_>>) -> Self {
        let Some(value) = value else { return Self::Missing };
        match (value.as_f64(), value.kind()) {
            (Some(number), _) => Self::Number(number),
            (None, Type::Null) => Self::Null,
            (None, kind) => Self::Other(kind),
        }
    }

    pub(super) fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Number(a), Self::Number(b)) => a == b,
            _ => false,
        }
    }

    /// What an event gave in the place of a number, in words.
    pub(super) fn as_given(self) -> String {
        match self {
            Self::Null | Self::Number(_) => self.to_string(),
            Self::Missing => "none".to_owned(),
            Self::Other(Type::String) => "a string".to_owned(),
            Self::Other(Type::Array) => "an array".to_owned(),
            Self::Other(Type::Object) => "an object".to_owned(),
            Self::Other(_) => "a boolean".to_owned(),
        }
    }

    pub(super) fn is_open(self) -> bool {
        !matches!(self, Self::Null)
    }

    /// The number under which a turn is open whose start names this: it itself if a `turn/end` may name it, a safe integer
    /// above 0 (FORMAT 14); else its place in the count of turns, the one after those that have `ended`.
    pub(super) fn turn_number(self, ended: f64) -> Self {
        match self {
            Self::Number(number) if number.fract() == 0.0 && (1.0..=MOST).contains(&number) => self,
            _ => Self::Number(ended + 1.0),
        }
    }
}

impl fmt::Display for TurnNumber {
    /// JSON text: the number, else `null`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Null | Self::Missing | Self::Other(_) => f.write_str("null"),
        }
    }
}

/// What one event says about turns, steps, calls and results (FORMAT 10).
#[derive(Clone, Copy, Debug)]
pub struct TurnFact<'a> {
    pub(super) kind: Kind,
    pub(super) turn: TurnNumber,
    pub(super) step: TurnNumber,
    /// A surface marker other than `"append"`.
    pub(super) replaces: bool,
    /// A call's or a result's call id, if it is a string.
    pub(super) call: Option<JsonStr<'a>>,
    /// The assistant's blocks.
    pub(super) content: Option<Json<'a>>,
    /// A result that stands for a call which was never started.
    pub(super) not_started: bool,
}

/// What the payload of one event says.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Where the id of a message without one belongs (PROTOCOL 3, Message ids).
    pub id_gap: Option<IdGap>,
    /// Whether the event yields a derived message while it is on the surface (FORMAT 6).
    pub yields_message: bool,
    /// Turns, steps, calls and results.
    pub fact: TurnFact<'a>,
}

impl<'a> Reading<'a> {
    /// Reads an event to append, whose message may lack an id.
    ///
    /// # Errors
    /// The first shape rule that the payload breaks (FORMAT 2.1, 4, 14).
    #[inline]
    pub fn of_append(draft: &Draft<'a>) -> Result<Self, ShapeError> {
        Self::judged(draft, MessageIds::Minted)
    }

    /// Reads an event of a seed or a stored log, whose legacy shapes were upgraded before.
    ///
    /// # Errors
    /// The first shape rule that the payload breaks (FORMAT 2.2 steps 2 and 4 to 6, 14).
    #[inline]
    pub fn of_stored(draft: &Draft<'a>) -> Result<Self, ShapeError> {
        Self::judged(draft, MessageIds::Required)
    }

    /// Reads a committed event; its shape was judged when it came in.
    pub fn of_event(event: Event<'a>) -> Self {
        let surface_op = if event.kind().is_surface() { event.surface_op() } else { None };
        let Ok(reading) =
            Self::read(event.kind(), event.data(), surface_op, |_, _| Ok::<_, Infallible>(None));
        reading
    }

    #[inline(always)]
    fn judged(draft: &Draft<'a>, ids: MessageIds) -> Result<Self, ShapeError> {
        if !draft.kind.is_surface() {
            shape::check_payload(draft, ids)?;
        }
        let judge =
            |message: &Message<'_>, source: &Source<'_>| shape::check_message(draft, message, source, ids);
        Self::read(draft.kind, draft.data, draft.surface_op, judge)
    }

    /// Reads a payload; `judge` is given its message, and says where the id belongs that the message lacks.
    #[inline(always)]
    fn read<E>(
        kind: Kind,
        data: Json<'a>,
        surface_op: Option<Json<'a>>,
        judge: impl FnOnce(&Message<'a>, &Source<'a>) -> Result<Option<IdGap>, E>,
    ) -> Result<Self, E> {
        let mut fact = TurnFact {
            kind,
            turn: TurnNumber::Missing,
            step: TurnNumber::Missing,
            replaces: kind.is_surface() && !surface_op.is_some_and(|op| op.is_str("append")),
            call: None,
            content: None,
            not_started: false,
        };
        let (mut id_gap, mut yields_message) = (None, false);
        match kind {
            Kind::UserMessage => {
                let (message, source) = Message::read(Some(data));
                let [kind] = source.fields(&["kind"]);
                id_gap = judge(&message, &Source { kind, ..Source::default() })?;
                yields_message = true;
            }
            Kind::AssistantMessage => {
                let [turn, step, message] = data.fields(&["turn", "step", "message"]);
                (fact.turn, fact.step) = (TurnNumber::of(turn), TurnNumber::of(step));
                let (message, source) = Message::read(message);
                let [kind, provider, model] = source.fields(&["kind", "provider", "model"]);
                id_gap = judge(&message, &Source { kind, provider, model, call_id: None })?;
                yields_message = message.value.is_some() && !message.is_empty();
                fact.content = message.content;
            }
            Kind::ToolResult => {
                let [turn, step, message, error] = data.fields(&["turn", "step", "message", "error"]);
                (fact.turn, fact.step) = (TurnNumber::of(turn), TurnNumber::of(step));
                let (message, source) = Message::read(message);
                let [kind, call_id] = source.fields(&["kind", "callId"]);
                id_gap = judge(&message, &Source { kind, call_id, ..Source::default() })?;
                yields_message = message.value.is_some();
                fact.call = call_id.and_then(Json::as_str);
                fact.not_started = error.is_some_and(|error| message.is_not_started(error));
            }
            Kind::TurnStart | Kind::TurnEnd => fact.turn = TurnNumber::of(data.get("turn")),
            Kind::StepStart | Kind::StepEnd | Kind::AssistantChunk => {
                let [turn, step] = data.fields(&["turn", "step"]);
                (fact.turn, fact.step) = (TurnNumber::of(turn), TurnNumber::of(step));
            }
            Kind::ToolCall => {
                let [turn, step, call] = data.fields(&["turn", "step", "callId"]);
                (fact.turn, fact.step) = (TurnNumber::of(turn), TurnNumber::of(step));
                fact.call = call.and_then(Json::as_str);
            }
            _ => {}
        }
        Ok(Self { id_gap, yields_message, fact })
    }
}

/// The members of a message that the rules ask for (FORMAT 4), but for those of its source.
pub(super) struct Message<'a> {
    /// The message, of whatever kind.
    pub(super) value: Option<Json<'a>>,
    pub(super) id: Option<Json<'a>>,
    pub(super) role: Option<Json<'a>>,
    pub(super) content: Option<Json<'a>>,
}

/// The members of a message's source that the rules ask for (FORMAT 4).
#[derive(Default)]
pub(super) struct Source<'a> {
    pub(super) kind: Option<Json<'a>>,
    pub(super) provider: Option<Json<'a>>,
    pub(super) model: Option<Json<'a>>,
    pub(super) call_id: Option<Json<'a>>,
}

impl<'a> Message<'a> {
    /// The members of a message, and its source.
    #[inline(always)]
    fn read(value: Option<Json<'a>>) -> (Self, Json<'a>) {
        let message = value.unwrap_or(Json::NULL);
        let [id, role, content, source] = message.fields(&["id", "role", "content", "source"]);
        (Self { value, id, role, content }, source.unwrap_or(Json::NULL))
    }

    /// Whether it has a content without a block.
    fn is_empty(&self) -> bool {
        self.content
            .is_some_and(|content| content.kind() == Type::Array && content.elements().next().is_none())
    }

    /// Whether a result with that `error` stands for a call that was never started (FORMAT 10).
    fn is_not_started(&self, error: Json<'_>) -> bool {
        let is_error = || self.content?.elements().next()?.get("isError")?.as_bool();
        error.get("code").is_some_and(|code| code.is_str("TOOL_NOT_STARTED")) && is_error() == Some(true)
    }
}

/// The message that a surface event yields, if any (FORMAT 6): its own value, nothing minted.
pub fn message_of(event: Event<'_>) -> Option<Json<'_>> {
    match event.kind() {
        Kind::UserMessage => Some(event.data()),
        Kind::ToolResult => event.data().get("message"),
        Kind::AssistantMessage => {
            let value = event.data().get("message")?;
            let (message, _) = Message::read(Some(value));
            (!message.is_empty()).then_some(value)
        }
        _ => None,
    }
}
