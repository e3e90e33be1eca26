//! What one event says about turns, steps, calls and results (FORMAT 10), read once.

use std::fmt;

use super::payload::{
    ERROR_CODE, PAYLOAD, Payload, Placed, SOURCE_CALL, SOURCE_CONTENT, Sought, TURN, TURN_STEP,
    TURN_STEP_CALL, TURN_STEP_MESSAGE_ERROR, message_group,
};
use crate::json::{Json, JsonStr, MAX_SAFE_INTEGER, Places, Type};
use crate::log::{Draft, Event, Kind};

/// The largest number of a turn.
const MOST: f64 = MAX_SAFE_INTEGER as f64;

/// A turn or step number as JavaScript's `===` sees it.
///
/// ! `null` equals "nothing open", as upstream: a `step/start` that names turn `null` outside a turn passes.
#[derive(Clone, Copy, Debug, Default)]
pub enum Mark {
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

impl Mark {
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

impl fmt::Display for Mark {
    /// JSON text: the number, else `null`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Null | Self::Missing | Self::Other(_) => f.write_str("null"),
        }
    }
}

/// What one event says about turns, steps, calls and results.
#[derive(Clone, Copy, Debug)]
pub struct Fact<'a> {
    pub(super) kind: Kind,
    pub(super) turn: Mark,
    pub(super) step: Mark,
    /// A surface marker other than `"append"`.
    pub(super) replaces: bool,
    /// A call's or a result's call id, if it is a string.
    pub(super) call: Option<JsonStr<'a>>,
    /// The assistant's blocks.
    pub(super) content: Option<Json<'a>>,
    /// A result that stands for a call which was never started.
    pub(super) not_started: bool,
}

impl<'a> Fact<'a> {
    /// Reads a draft; `places` as for [`check_shape`](super::check_shape).
    pub fn of(draft: &Draft<'a>, places: Option<&Places>) -> Self {
        match places {
            Some(places) => Self::read(draft.kind, Placed(draft.data, places), draft.surface_op),
            None => Self::read(draft.kind, Sought(draft.data), draft.surface_op),
        }
    }

    /// Reads a committed event.
    pub fn of_event(event: Event<'a>) -> Self {
        let surface_op = if event.kind().is_surface() { event.surface_op() } else { None };
        Self::read(event.kind(), Sought(event.data()), surface_op)
    }

    fn read(kind: Kind, payload: impl Payload<'a>, surface_op: Option<Json<'a>>) -> Self {
        let mut fact = Self {
            kind,
            turn: Mark::Missing,
            step: Mark::Missing,
            replaces: kind.is_surface() && !surface_op.is_some_and(|op| op.is_str("append")),
            call: None,
            content: None,
            not_started: false,
        };
        match kind {
            Kind::TurnStart | Kind::TurnEnd => {
                let [turn] = payload.own(&TURN);
                fact.turn = Mark::of(turn);
            }
            Kind::StepStart | Kind::StepEnd | Kind::AssistantChunk => {
                let [turn, step] = payload.own(&TURN_STEP);
                (fact.turn, fact.step) = (Mark::of(turn), Mark::of(step));
            }
            Kind::ToolCall => {
                let [turn, step, call] = payload.own(&TURN_STEP_CALL);
                (fact.turn, fact.step) = (Mark::of(turn), Mark::of(step));
                fact.call = call.and_then(Json::as_str);
            }
            Kind::AssistantMessage | Kind::ToolResult => fact.read_message(payload),
            _ => {}
        }
        fact
    }

    fn read_message(&mut self, payload: impl Payload<'a>) {
        let group = message_group(self.kind);
        let [turn, step, message, error] = payload.own(&TURN_STEP_MESSAGE_ERROR);
        (self.turn, self.step) = (Mark::of(turn), Mark::of(step));
        let [source, content] = payload.fields(message, group, &SOURCE_CONTENT);
        self.content = content;
        if self.kind == Kind::ToolResult {
            let [call] = payload.fields(source, group, &SOURCE_CALL);
            self.call = call.and_then(Json::as_str);
        }
        let [code] = payload.fields(error, PAYLOAD, &ERROR_CODE);
        self.not_started = code.is_some_and(|code| code.is_str("TOOL_NOT_STARTED"))
            && self.content.and_then(|content| content.elements().next()?.get("isError")?.as_bool())
                == Some(true);
    }
}
