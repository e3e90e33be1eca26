//! What one event says about turns, steps, calls and results (FORMAT 10), read once.

use std::fmt;

use crate::json::{Json, JsonStr};
use crate::log::{Draft, Event, Kind};

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
    /// Absent, or of another kind: equal to nothing.
    Other,
}

impl Mark {
    fn of(value: Json<'_>) -> Self {
        match value.as_f64() {
            Some(number) => Self::Number(number),
            None if value.text() == "null" => Self::Null,
            None => Self::Other,
        }
    }

    pub(super) fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Number(a), Self::Number(b)) => a == b,
            _ => false,
        }
    }

    pub(super) fn is_open(self) -> bool {
        !matches!(self, Self::Null)
    }
}

impl fmt::Display for Mark {
    /// JSON text: the number, else `null`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Null | Self::Other => f.write_str("null"),
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
    /// Reads a draft.
    pub fn of(draft: &Draft<'a>) -> Self {
        Self::read(draft.kind, draft.data, draft.surface_op)
    }

    /// Reads a committed event.
    pub fn of_event(event: Event<'a>) -> Self {
        let surface_op = if event.kind().is_surface() { event.surface_op() } else { None };
        Self::read(event.kind(), event.data(), surface_op)
    }

    fn read(kind: Kind, data: Json<'a>, surface_op: Option<Json<'a>>) -> Self {
        let mut fact = Self {
            kind,
            turn: Mark::Other,
            step: Mark::Other,
            replaces: kind.is_surface() && !surface_op.is_some_and(|op| op.is_str("append")),
            call: None,
            content: None,
            not_started: false,
        };
        match kind {
            Kind::TurnStart | Kind::TurnEnd => fact.turn = data.get("turn").map_or(Mark::Other, Mark::of),
            Kind::StepStart | Kind::StepEnd | Kind::AssistantChunk => {
                let [turn, step] = data.fields(&["turn", "step"]);
                fact.read_place(turn, step);
            }
            Kind::ToolCall | Kind::AssistantMessage | Kind::ToolResult => fact.read_call(data),
            _ => {}
        }
        fact
    }

    fn read_place(&mut self, turn: Option<Json<'a>>, step: Option<Json<'a>>) {
        let mark = |value: Option<Json<'a>>| value.map_or(Mark::Other, Mark::of);
        (self.turn, self.step) = (mark(turn), mark(step));
    }

    fn read_call(&mut self, data: Json<'a>) {
        if self.kind == Kind::ToolCall {
            let [turn, step, call] = data.fields(&["turn", "step", "callId"]);
            self.read_place(turn, step);
            self.call = call.and_then(Json::as_str);
            return;
        }
        let [turn, step, message, error] = data.fields(&["turn", "step", "message", "error"]);
        self.read_place(turn, step);
        let [content, source] = message.unwrap_or(Json::NULL).fields(&["content", "source"]);
        self.content = content;
        if self.kind == Kind::ToolResult {
            self.call = source.and_then(|source| source.get("callId")).and_then(Json::as_str);
        }
        let code = error.and_then(|error| error.get("code"));
        self.not_started = code.is_some_and(|code| code.is_str("TOOL_NOT_STARTED"))
            && self.content.and_then(|content| content.elements().next()?.get("isError")?.as_bool())
                == Some(true);
    }
}
