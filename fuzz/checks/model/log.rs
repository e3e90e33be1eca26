//! A log as a plain list of events, and everything that follows from it, folded anew at each question.

use super::super::plain::{Tree, Units, member, parts, tree_of};

/// A committed event.
#[derive(Clone, Debug)]
pub struct Event {
    /// The type, as a reader sees it; lone surrogates are no known type.
    pub name: String,
    pub time: i64,
    /// Compact JSON texts.
    pub data: String,
    pub sources: Option<String>,
    pub op: Option<String>,
    pub ignorable: bool,
    /// The message id in it was minted.
    pub minted: Option<String>,
    /// The line that memory, wire and disk hold.
    pub line: String,
    /// The data, read.
    pub tree: Tree,
    /// `(start, end)` of a replacement.
    pub replaces: Option<(usize, usize)>,
}

/// `(start, end)` of a marker that replaces.
pub fn replaces(op: Option<&str>) -> Option<(usize, usize)> {
    let op = tree_of(op?);
    let seq = |name| op.get(name).and_then(Tree::safe_int).map(|seq| seq as usize);
    Some((seq("start")?, seq("end")?))
}

impl Event {
    /// The message that it gives, as text.
    pub fn message(&self) -> Option<&str> {
        match &*self.name {
            "user/message" => Some(&self.data),
            "tool/result" => member(&self.data, "message"),
            "assistant/message" => {
                member(&self.data, "message").filter(|message| member(message, "content") != Some("[]"))
            }
            _ => None,
        }
    }
}

pub fn is_surface(name: &str) -> bool {
    matches!(name, "user/message" | "assistant/message" | "tool/result")
}

/// The surface: the seqs of its nodes in order, and the count of replacements.
pub fn surface(events: &[Event]) -> (Vec<usize>, u64) {
    let (mut nodes, mut generation) = (Vec::new(), 0);
    for (seq, event) in events.iter().enumerate().filter(|(_, event)| is_surface(&event.name)) {
        match event.replaces {
            None => nodes.push(seq),
            Some((start, end)) => {
                let place = |wanted| nodes.iter().position(|node| *node == wanted).unwrap();
                nodes.splice(place(start)..=place(end), [seq]);
                generation += 1;
            }
        }
    }
    (nodes, generation)
}

/// The derived messages, as texts.
pub fn messages(events: &[Event]) -> Vec<&str> {
    surface(events).0.into_iter().filter_map(|seq| events[seq].message()).collect()
}

/// The last event of a type.
pub fn last(events: &[Event], name: &str) -> Option<usize> {
    events.iter().rposition(|event| event.name == name)
}

/// The canonical request header of a `request/header` event (FORMAT 7).
pub fn canonical(event: &Event) -> String {
    let header = member(&event.data, "header").unwrap();
    let tree = tree_of(header);
    let length = |name: &str| match tree.get(name) {
        Some(Tree::Text(units)) => units.len(),
        Some(Tree::Array(items)) => items.len(),
        _ => 0,
    };
    let kept = |name: &str| match name {
        "adapterDefaults" => ["reasoningEffort", "maxTokens"].into_iter().any(|mark| {
            matches!(tree.get(name).and_then(|defaults| defaults.get(mark)), Some(Tree::Bool(true)))
        }),
        "system" | "tools" => length(name) > 0,
        "prefix" => matches!(tree.get(name), Some(Tree::Array(items)) if !items.is_empty()),
        _ => true,
    };
    let names = ["config", "adapterDefaults", "system", "tools", "prefix"];
    let members = names.into_iter().filter(|name| kept(name)).filter_map(|name| {
        let text = member(header, name)?;
        Some(format!("\"{name}\":{text}"))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// The latest turn marker if it is a `turn/start`.
pub fn open_turn(events: &[Event]) -> Option<usize> {
    let at = events.iter().rposition(|event| matches!(&*event.name, "turn/start" | "turn/end"))?;
    (events[at].name == "turn/start").then_some(at)
}

/// Where `onOpenTurn: "clip"` cuts a prefix.
pub fn clip(events: &[Event]) -> usize {
    match open_turn(events) {
        None => events.len(),
        Some(_) => last(events, "turn/end").map_or(0, |seq| seq + 1),
    }
}

/// A number that an event names; null is a name of "nothing open", and anything else equals nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    Null,
    Number(f64),
    Nothing,
}

impl Mark {
    pub fn of(data: &Tree, name: &str) -> Self {
        match data.get(name) {
            Some(Tree::Null) => Self::Null,
            Some(Tree::Number(number)) => Self::Number(*number),
            _ => Self::Nothing,
        }
    }

    fn is(self, other: Self) -> bool {
        self != Self::Nothing && self == other
    }
}

/// What the relations of FORMAT 10 have seen.
#[derive(Clone, Debug)]
pub struct Trace {
    pub turn: Mark,
    pub step: Mark,
    pub next_turn: f64,
    pub next_step: f64,
    calls: Vec<Units>,
    /// The first event that broke a relation, and the rule.
    pub broken: Option<(usize, &'static str)>,
}

/// The relations over a log.
pub fn trace(events: &[Event]) -> Trace {
    let mut trace = Trace {
        turn: Mark::Null,
        step: Mark::Null,
        next_turn: 1.0,
        next_step: 1.0,
        calls: Vec::new(),
        broken: None,
    };
    for (seq, event) in events.iter().enumerate() {
        trace.follow(seq, &event.name, &event.tree, event.replaces.is_some());
    }
    trace
}

fn call_id<'t>(data: &'t Tree, path: &[&str]) -> Option<&'t Units> {
    match path.iter().try_fold(data, |tree, name| tree.get(name)) {
        Some(Tree::Text(units)) => Some(units),
        _ => None,
    }
}

impl Trace {
    /// The rule that an event would break if it came next.
    pub fn breaks(&self, name: &str, data: &Tree, replaces: bool) -> Option<&'static str> {
        let (turn, step) = (Mark::of(data, "turn"), Mark::of(data, "step"));
        let in_step = turn.is(self.turn) && step.is(self.step);
        let rules: &[(bool, &'static str)] = match name {
            "turn/start" => &[
                (self.turn == Mark::Null, "INV_TURN_ALREADY_OPEN"),
                (turn.is(Mark::Number(self.next_turn)), "INV_TURN_NUMBER"),
            ],
            "turn/end" => &[
                (turn.is(self.turn), "INV_TURN_END_MISMATCH"),
                (self.step == Mark::Null, "INV_TURN_END_STEP_OPEN"),
            ],
            "step/start" => &[
                (turn.is(self.turn), "INV_STEP_WRONG_TURN"),
                (self.step == Mark::Null, "INV_STEP_ALREADY_OPEN"),
                (step.is(Mark::Number(self.next_step)), "INV_STEP_NUMBER"),
            ],
            "step/end" | "assistant/chunk" | "assistant/message" | "tool/call" => {
                &[(in_step, "INV_NOT_IN_OPEN_STEP")]
            }
            "tool/result" if replaces => &[(self.turn != Mark::Null, "INV_REWRITE_OUTSIDE_TURN")],
            "tool/result" => &[
                (in_step, "INV_NOT_IN_OPEN_STEP"),
                (self.waits_or_never_started(data), "INV_RESULT_WITHOUT_CALL"),
            ],
            "todo/write" | "request/header" | "request/context" => {
                &[(self.turn != Mark::Null, "INV_OUTSIDE_TURN")]
            }
            _ => &[],
        };
        rules.iter().find(|(holds, _)| !holds).map(|(_, rule)| *rule)
    }

    fn waits_or_never_started(&self, data: &Tree) -> bool {
        let waits = call_id(data, &["message", "source", "callId"]).is_some_and(|id| self.calls.contains(id));
        let block = data.get("message").and_then(|message| match message.get("content") {
            Some(Tree::Array(blocks)) => blocks.first(),
            _ => None,
        });
        let is_error = matches!(block.and_then(|block| block.get("isError")), Some(Tree::Bool(true)));
        let code = data.get("error").and_then(|error| error.get("code")).and_then(Tree::text);
        waits || is_error && code.as_deref() == Some("TOOL_NOT_STARTED")
    }

    /// Moves on with a committed event. After a break nothing but [`Self::broken`] means anything.
    pub fn follow(&mut self, seq: usize, name: &str, data: &Tree, replaces: bool) {
        if let (None, Some(rule)) = (self.broken, self.breaks(name, data, replaces)) {
            self.broken = Some((seq, rule));
        }
        match name {
            "turn/start" => (self.turn, self.next_step) = (Mark::of(data, "turn"), 1.0),
            "turn/end" => {
                self.turn = Mark::Null;
                self.next_turn += 1.0;
            }
            "step/start" => self.step = Mark::of(data, "step"),
            "step/end" => {
                self.step = Mark::Null;
                self.next_step += 1.0;
                self.calls.clear();
            }
            "tool/call" => self.calls.extend(call_id(data, &["callId"]).cloned()),
            "tool/result" if !replaces => {
                if let Some(id) = call_id(data, &["message", "source", "callId"]) {
                    self.calls.retain(|call| call != id);
                }
            }
            _ => {}
        }
    }
}

/// An event that closes an open turn: type, data, surfaceOp, sources.
pub type Closer = (&'static str, String, Option<&'static str>, Option<String>);

const NOT_STARTED: [&str; 3] = [
    "ToolNotStartedError",
    "TOOL_NOT_STARTED",
    "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.",
];
const UNKNOWN: [&str; 3] = [
    "ToolOutcomeUnknownError",
    "TOOL_OUTCOME_UNKNOWN",
    "The tool call was interrupted after it was recorded, but no result was durably recorded. Its outcome is unknown. Decide whether to retry from the tool semantics: retry only if the operation is read-only or idempotent; if it may have side effects, first verify external state or ask the user. Do not retry blindly.",
];

/// A call of the open turn without a result.
struct Pending {
    id: Units,
    /// The id's own text, with quotes.
    text: String,
    step: Option<String>,
    seq: Option<usize>,
}

/// The number of the turn that a `turn/start` opens: its own if a `turn/end` may name it, else as turns are counted.
pub fn turn_number(events: &[Event], start: usize) -> i64 {
    let own = events[start].tree.get("turn").and_then(Tree::safe_int).filter(|turn| *turn >= 1);
    let ended = events[..start].iter().filter(|event| event.name == "turn/end").count();
    own.unwrap_or(ended as i64 + 1)
}

/// The closers of FORMAT 12. A call without an id gets none.
pub fn closers(events: &[Event]) -> Vec<Closer> {
    let Some(start) = open_turn(events) else { return Vec::new() };
    let turn = turn_number(events, start);
    let (mut step, mut pending): (Option<Option<String>>, Vec<Pending>) = (None, Vec::new());
    for (seq, event) in events.iter().enumerate().skip(start + 1) {
        let own_step = member(&event.data, "step").map(str::to_owned);
        match &*event.name {
            "step/start" => step = (own_step.as_deref() != Some("null")).then_some(own_step),
            "step/end" => (step, pending) = (None, Vec::new()),
            "assistant/message" => {
                let content = member(&event.data, "message").and_then(|message| member(message, "content"));
                for block in parts(content.unwrap_or("[]")) {
                    let text = match tree_of(block).get("type").and_then(Tree::text).as_deref() {
                        Some("tool-call") => member(block, "id").unwrap_or("null"),
                        _ => continue,
                    };
                    let Tree::Text(id) = tree_of(text) else { continue };
                    if id.is_empty() {
                        continue;
                    }
                    let call =
                        Pending { id: id.clone(), text: text.to_owned(), step: own_step.clone(), seq: None };
                    match pending.iter_mut().find(|call| call.id == id) {
                        Some(place) => *place = call,
                        None => pending.push(call),
                    }
                }
            }
            "tool/call" => {
                let id = call_id(&event.tree, &["callId"]);
                if let Some(call) = pending.iter_mut().find(|call| Some(&call.id) == id) {
                    call.seq = Some(seq);
                }
            }
            "tool/result" => {
                let id = call_id(&event.tree, &["message", "source", "callId"]);
                pending.retain(|call| Some(&call.id) != id);
            }
            _ => {}
        }
    }
    let with_step =
        |step: &Option<String>| step.as_ref().map_or(String::new(), |step| format!(",\"step\":{step}"));
    let mut all: Vec<Closer> = Vec::new();
    for call in &pending {
        let [name, code, told] = if call.seq.is_some() { UNKNOWN } else { NOT_STARTED };
        let (id, step, seq) = (&call.text, with_step(&call.step), events.len() + all.len());
        let bare = &id[1..id.len() - 1];
        let data = format!(
            "{{\"turn\":{turn}{step},\"message\":{{\"id\":\"interrupted-tool-result-{bare}-{seq}\",\"role\":\"user\",\"source\":{{\"kind\":\"tool\",\"callId\":{id}}},\"content\":[{{\"type\":\"tool-result\",\"toolCallId\":{id},\"isError\":true,\"content\":[{{\"type\":\"text\",\"text\":\"{told}\"}}]}}]}},\"error\":{{\"name\":\"{name}\",\"code\":\"{code}\"}}}}"
        );
        all.push(("tool/result", data, Some("\"append\""), call.seq.map(|seq| format!("[{seq}]"))));
    }
    if let Some(step) = &step {
        all.push(("step/end", format!("{{\"turn\":{turn}{}}}", with_step(step)), None, None));
    }
    all.push((
        "turn/end",
        format!("{{\"turn\":{turn},\"reason\":{{\"kind\":\"interrupted\"}}}}"),
        None,
        None,
    ));
    all
}
