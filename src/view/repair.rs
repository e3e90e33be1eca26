//! Closing an open tail turn after a crash or an interrupt (FORMAT 12).
//!
//! The events of the open turn stay as they are; what is missing is added: an error result for each
//! tool call without one, the end of the open step, the end of the turn.

use std::borrow::Cow;
use std::collections::HashMap;

use super::reading::Reading;
use super::relations::Open;
use crate::json::{Json, JsonStr, JsonText, MAX_SAFE_INTEGER, Type};
use crate::log::{Draft, Event, Kind, Log, Offset, Seq};

/// What is told of a call that never began.
const NOT_STARTED: Outcome = Outcome {
    name: "ToolNotStartedError",
    code: "TOOL_NOT_STARTED",
    text: "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.",
};

/// What is told of a call that began and whose result is not in the log.
const OUTCOME_UNKNOWN: Outcome = Outcome {
    name: "ToolOutcomeUnknownError",
    code: "TOOL_OUTCOME_UNKNOWN",
    text: "The tool call was interrupted after it was recorded, but no result was durably recorded. Its outcome is \
           unknown. Decide whether to retry from the tool semantics: retry only if the operation is read-only or \
           idempotent; if it may have side effects, first verify external state or ask the user. Do not retry blindly.",
};

struct Outcome {
    name: &'static str,
    code: &'static str,
    text: &'static str,
}

/// The events that close an open turn, in order; none when no turn is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closers {
    /// The time of all of them, in milliseconds.
    pub time: i64,
    /// The events; they get the seqs that follow the log.
    pub events: Vec<Closer>,
}

/// One closing event, with texts of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closer {
    event_type: &'static str,
    data: String,
    surface_op: Option<&'static str>,
    sources: Option<String>,
}

impl Closer {
    /// The event to be appended.
    pub fn draft(&self) -> Draft<'_> {
        // All texts are made of verified ones, and compact.
        Draft {
            surface_op: self.surface_op.map(Json::from_verified),
            sources: self.sources.as_deref().map(Json::from_verified),
            ..Draft::new(JsonStr::from_verified(self.event_type), Json::from_verified(&self.data))
        }
    }

    /// Whether a draft is this very event: of the same type, with the same texts once they are compact.
    pub fn is(&self, draft: &Draft<'_>) -> bool {
        let own = self.draft();
        let same = |own: Option<Json<'_>>, other: Option<Json<'_>>| match (own, other) {
            (None, None) => true,
            (Some(own), Some(other)) => own.text() == JsonText::compact(other).json().text(),
            _ => false,
        };
        own.kind == draft.kind
            && !draft.ignorable
            && same(own.surface_op, draft.surface_op)
            && same(own.sources, draft.sources)
            && same(Some(own.data), Some(draft.data))
    }
}

/// The turn that is open at the end of a log, as [`Relations::open_turn`](super::Relations::open_turn) gives it for one that
/// is followed.
pub fn open_turn(log: &Log) -> Option<Open> {
    let last = log.iter().rev().find(|event| matches!(event.kind(), Kind::TurnStart | Kind::TurnEnd))?;
    let ended = || log.iter().filter(|event| event.kind() == Kind::TurnEnd).count() as f64;
    let open =
        |start| Open { seq: last.seq(), number: Reading::of_event(start).fact.turn.turn_number(ended()) };
    (last.kind() == Kind::TurnStart).then(|| open(last))
}

/// A tool call that an assistant message of the open step asked for.
struct Call<'a> {
    id: JsonStr<'a>,
    /// `,"step":…` of that message, if it has one.
    step: String,
    /// Its `tool/call`, if there was one.
    seq: Option<Seq>,
}

/// Calls without a result, in the order in which they were first asked for.
#[derive(Default)]
struct Pending<'a> {
    calls: Vec<Option<Call<'a>>>,
    /// Where a call stands, by its id in WTF-8: ids are equal in any spelling.
    places: HashMap<Cow<'a, [u8]>, usize>,
}

impl<'a> Pending<'a> {
    fn clear(&mut self) {
        self.calls.clear();
        self.places.clear();
    }

    /// A call that is asked for again keeps its place and forgets its start.
    fn ask(&mut self, call: Call<'a>) {
        let end = self.calls.len();
        let place = *self.places.entry(call.id.wtf8()).or_insert(end);
        match self.calls.get_mut(place) {
            Some(slot) => *slot = Some(call),
            None => self.calls.push(Some(call)),
        }
    }

    fn start(&mut self, id: JsonStr<'_>, seq: Seq) {
        let place = self.places.get(&*id.wtf8());
        if let Some(Some(call)) = place.and_then(|place| self.calls.get_mut(*place)) {
            call.seq = Some(seq);
        }
    }

    fn answer(&mut self, id: JsonStr<'_>) {
        let place = self.places.remove(&*id.wtf8());
        if let Some(slot) = place.and_then(|place| self.calls.get_mut(place)) {
            *slot = None;
        }
    }
}

/// The events that close the open turn of a log; at `now`, or for crash repair at the time of the last event. The cost
/// follows the open turn, not the log.
///
/// All of them name the turn by [`Open::number`]: a `turn/end` without a safe integer above 0 would be loaded by no reader
/// of the format (FORMAT 14). Calls without an id are passed over for the same reason.
pub fn closers(log: &Log, turn: Open, now: Option<i64>) -> Closers {
    let Some(last) = log.last() else { return Closers::default() };
    let number = turn.number.to_string();
    let mut open_step = None;
    let mut pending = Pending::default();
    for event in log.range(turn.seq.after(), log.len()) {
        follow(event, &mut open_step, &mut pending);
    }
    let mut events = Vec::new();
    for call in pending.calls.iter().flatten() {
        let seq = log.len().plus(events.len() as u64);
        events.push(result_of(call, &number, seq));
    }
    let marker = |event_type, data| Closer { event_type, data, surface_op: None, sources: None };
    if let Some(step) = open_step {
        events.push(marker("\"step/end\"", format!("{{\"turn\":{number}{step}}}")));
    }
    let data = format!("{{\"turn\":{number},\"reason\":{{\"kind\":\"interrupted\"}}}}");
    events.push(marker("\"turn/end\"", data));
    let time = now.unwrap_or(last.time());
    debug_assert!(time.unsigned_abs() <= MAX_SAFE_INTEGER);
    Closers { time, events }
}

/// `,"step":…` of a payload, if it has one.
fn step_member(data: Json<'_>) -> String {
    data.get("step").map_or(String::new(), |step| format!(",\"step\":{}", step.text()))
}

fn follow<'a>(event: Event<'a>, open_step: &mut Option<String>, pending: &mut Pending<'a>) {
    let data = event.data();
    match event.kind() {
        Kind::StepStart => {
            let unnamed = data.get("step").is_some_and(|step| step.kind() == Type::Null);
            *open_step = (!unnamed).then(|| step_member(data)); // the reference's "no step" is null
        }
        Kind::StepEnd => {
            *open_step = None;
            pending.clear();
        }
        Kind::AssistantMessage => {
            let blocks = data.at(&["message", "content"]).into_iter().flat_map(Json::elements);
            for block in blocks.filter(|block| block.get("type").is_some_and(|kind| kind.is_str("tool-call")))
            {
                let id = block.get("id").and_then(Json::as_str).filter(|id| !id.is_empty());
                if let Some(id) = id {
                    pending.ask(Call { id, step: step_member(data), seq: None });
                }
            }
        }
        Kind::ToolCall => {
            if let Some(id) = data.get("callId").and_then(Json::as_str) {
                pending.start(id, event.seq());
            }
        }
        Kind::ToolResult => {
            if let Some(id) = data.at(&["message", "source", "callId"]).and_then(Json::as_str) {
                pending.answer(id);
            }
        }
        _ => {}
    }
}

/// The error result of a call; `seq` is where it goes.
fn result_of(call: &Call<'_>, turn: &str, seq: Offset) -> Closer {
    let Outcome { name, code, text } = if call.seq.is_some() { OUTCOME_UNKNOWN } else { NOT_STARTED };
    let id = call.id.text();
    let bare = id.get(1..id.len() - 1).unwrap_or("");
    let step = &call.step;
    let data = format!(
        r#"{{"turn":{turn}{step},"message":{{"id":"interrupted-tool-result-{bare}-{seq}","role":"user","source":{{"kind":"tool","callId":{id}}},"content":[{{"type":"tool-result","toolCallId":{id},"isError":true,"content":[{{"type":"text","text":"{text}"}}]}}]}},"error":{{"name":"{name}","code":"{code}"}}}}"#
    );
    let sources = call.seq.map(|seq| format!("[{seq}]"));
    Closer { event_type: "\"tool/result\"", data, surface_op: Some("\"append\""), sources }
}
