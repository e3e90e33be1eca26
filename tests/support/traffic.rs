//! What agents write, made from small numbers: plausible events that fit a session's state, and events
//! that are wrong in one way or another.

use sessiond::json::Json;
use sessiond::log::{Kind, Log, Offset};
use sessiond::session::Session;

use super::bench::Event;

/// One act: what is done, a variant of it, and two numbers that it takes places from.
pub type Act = (u8, u8, u16, u16);

/// Acts are taken modulo this.
pub const KINDS: u8 = 28;

/// A type that the laws declare as required, and one that they declare as it is by default.
pub const REQUIRED: &str = "team/required";
pub const OPTIONAL: &str = "team/optional";

struct Numbers {
    turn: String,
    step: String,
    open: bool,
}

/// The numbers that fit: of what is open, else of what comes next.
fn numbers(session: &Session) -> Numbers {
    let relations = &session.view().relations;
    let log = session.history().log();
    let next_turn = log.iter().filter(|event| event.kind() == Kind::TurnEnd).count() + 1;
    let since = relations.open_turn().map_or(Offset::ZERO, |open| open.seq.after());
    let ended = log.range(since, log.len()).filter(|event| event.kind() == Kind::StepEnd).count();
    let number = |text: String| if text == "null" { "1".to_owned() } else { text };
    Numbers {
        turn: number(relations.open_turn().map_or(next_turn.to_string(), |open| open.number.to_string())),
        step: number(relations.open_step().map_or((ended + 1).to_string(), |open| open.number.to_string())),
        open: relations.open_turn().is_some(),
    }
}

/// The ids of calls that were asked for or started and have no result.
fn unanswered(log: &Log) -> Vec<String> {
    let mut waiting = Vec::new();
    for event in log.iter() {
        let data = event.data();
        let message = data.get("message");
        let ids: Vec<String> = match event.kind() {
            Kind::ToolCall => data.get("callId").into_iter().collect(),
            Kind::ToolResult => {
                message.and_then(|message| message.at(&["source", "callId"])).into_iter().collect()
            }
            Kind::AssistantMessage => {
                let blocks =
                    message.and_then(|message| message.get("content")).into_iter().flat_map(Json::elements);
                blocks.filter_map(|block| block.get("id")).collect()
            }
            _ => Vec::new(),
        }
        .into_iter()
        .map(|id: Json<'_>| id.text().trim_matches('"').to_owned())
        .collect();
        waiting.retain(|id| !ids.contains(id));
        if event.kind() != Kind::ToolResult {
            waiting.extend(ids);
        }
    }
    waiting
}

fn text_block(n: u16) -> String {
    format!(r#"{{"type":"text","text":"t{n} é\u2028"}}"#)
}

pub fn user(n: u16) -> String {
    format!(r#"{{"id":"u{n}","role":"user","content":[{}],"source":{{"kind":"user"}}}}"#, text_block(n))
}

fn assistant(numbers: &Numbers, n: u16, content: &str) -> String {
    let Numbers { turn, step, .. } = numbers;
    format!(
        r#"{{"turn":{turn},"step":{step},"message":{{"id":"a{n}","role":"assistant","content":[{content}],"source":{{"kind":"model","provider":"p","model":"m"}}}}}}"#
    )
}

fn result(numbers: &Numbers, id: &str, output: &str) -> String {
    let Numbers { turn, step, .. } = numbers;
    format!(
        r#"{{"turn":{turn},"step":{step},"message":{{"id":"r{id}","role":"user","source":{{"kind":"tool","callId":"{id}"}},"content":[{{"type":"tool-result","toolCallId":"{id}","content":[{output}]}}]}}}}"#
    )
}

const APPEND: &str = r#""append""#;

/// A replacement of the nodes from one index to another, citing them and one event more.
fn replacing(event: Event, nodes: &[u64], first: usize, last: usize) -> Event {
    let shadowed = nodes.get(first..=last).unwrap_or(&[]);
    let mut cited = shadowed.to_vec();
    cited.reverse(); // their order is free
    let (start, end) = (nodes.get(first).copied().unwrap_or(0), nodes.get(last).copied().unwrap_or(0));
    event.op(format!(r#"{{"op":"replace","start":{start},"end":{end}}}"#)).citing(format!("{cited:?}"))
}

/// The event that an act stands for in a session.
pub fn event_of((kind, variant, b, c): Act, session: &Session) -> Event {
    let numbers = numbers(session);
    let Numbers { turn, step, open } = &numbers;
    let place = format!(r#"{{"turn":{turn},"step":{step}}}"#);
    let log = session.history().log();
    let nodes: Vec<u64> = session.view().surface.nodes().map(|seq| seq.get()).collect();
    let at = |n: u16| if nodes.is_empty() { 0 } else { usize::from(n) % nodes.len() };
    let (mut first, mut last) = (at(b), at(b).saturating_add(usize::from(c % 4)).min(nodes.len().max(1) - 1));
    let waiting = unanswered(log);
    let call = waiting.get(usize::from(b) % waiting.len().max(1)).cloned();
    let call = call.unwrap_or_else(|| format!("c{}", b % 5));
    match kind % KINDS {
        0 | 1 if !open => Event::new("turn/start", format!(r#"{{"turn":{turn}}}"#)),
        0 if session.view().relations.open_step().is_some() => Event::new("step/end", place),
        0 => {
            let reason = [r#"{"kind":"completed"}"#, r#"{"kind":"aborted","reason":{"kind":"user"}}"#];
            Event::new("turn/end", format!(r#"{{"turn":{turn},"reason":{}}}"#, reason[usize::from(variant % 2)]))
        }
        1 | 2 => Event::new("step/start", place),
        3 => Event::new("step/end", place),
        4 => Event::new(
            "assistant/chunk",
            format!(r#"{{"turn":{turn},"step":{step},"chunk":{{"type":"text-delta","index":0,"text":"{b}"}}}}"#),
        ),
        5 | 6 => Event::new("user/message", user(b)).op(APPEND),
        7 => Event::new("assistant/message", assistant(&numbers, b, "")).op(APPEND).citing("[]"),
        8 => {
            let block = format!(r#"{{"type":"tool-call","id":"c{}","name":"n","arguments":"{{}}"}}"#, b % 5);
            Event::new("assistant/message", assistant(&numbers, b, &format!("{},{block}", text_block(c)))).op(APPEND)
        }
        9 => Event::new("tool/call", format!(r#"{{"turn":{turn},"step":{step},"callId":"{call}","name":"n","arguments":""}}"#)),
        10 => Event::new("tool/result", result(&numbers, &call, &text_block(b))).op(APPEND),
        11 => replacing(Event::new("user/message", user(b)), &nodes, first, last),
        12 => {
            let content = if variant % 2 == 0 { String::new() } else { text_block(b) };
            replacing(Event::new("assistant/message", assistant(&numbers, b, &content)), &nodes, first, last)
        }
        13 | 14 => {
            // A tool result on the surface whose output is pruned; in act 14 more than that changes.
            let is_result = |index: &usize| {
                let event = sessiond::log::Seq::new(nodes[*index]).and_then(|seq| log.get(seq));
                event.is_some_and(|event| event.kind() == Kind::ToolResult)
            };
            let found: Vec<usize> = (0..nodes.len()).filter(is_result).collect();
            let Some(index) = found.get(usize::from(b) % found.len().max(1)).copied() else {
                return Event::new("todo/write", r#"{"todos":[]}"#);
            };
            (first, last) = (index, index);
            let old = log.get(sessiond::log::Seq::new(nodes[index]).unwrap()).unwrap().data().text().to_owned();
            let cut = old.find(r#","content":[{"type":"text""#).map_or(old.clone(), |at| {
                let end = old.rfind("]}]}").unwrap_or(at);
                format!(r#"{},"content":[{}"#, &old[..at], &old[end..])
            });
            let cut = if kind % KINDS == 14 { cut.replacen("\"role\"", "\"more\":1,\"role\"", 1) } else { cut };
            replacing(Event::new("tool/result", cut), &nodes, first, last)
        }
        15 => {
            // A replacement that is wrong in one way.
            let event = replacing(Event::new("user/message", user(b)), &nodes, first, last);
            let next = log.len().get();
            let result = || Event::new("tool/result", result(&numbers, &call, ""));
            match variant % 12 {
                0 => Event { sources: None, ..event },
                1 => event.citing("[]"),
                2 => event.citing(format!("[{next}]")),
                3 => event.citing("[0,0]"),
                4 => event.citing("[0.5]"),
                5 => event.citing("null"),
                6 => event.op(format!(r#"{{"op":"replace","start":{next},"end":{next}}}"#)),
                7 => replacing(Event::new("user/message", user(b)), &nodes, nodes.len().max(1) - 1, 0),
                8 => replacing(result(), &nodes, 0, nodes.len().max(1) - 1),
                9 => replacing(result(), &nodes, first, first),
                10 => event.op(format!(r#"{{"op":"replace","start":{},"end":{next}}}"#, nodes.first().unwrap_or(&0))),
                _ => event.op(format!(r#"{{"op":"replace","start":0,"end":{},"x":1}}"#, c % 9)),
            }
        }
        16 => Event::new("todo/write", format!(r#"{{"todos":[{{"content":"{b}","status":"pending"}}]}}"#)),
        17 => {
            let tools = if variant % 2 == 0 { "" } else { r#","tools":[{"name":"n"}],"system":"s","junk":1"# };
            Event::new("request/header", format!(r#"{{"reason":"change","header":{{"config":{{"provider":"p","model":"m{}"}}{tools}}}}}"#, b % 3))
        }
        18 => Event::new("request/context", format!(r#"{{"provider":"p","model":"m{}"}}"#, b % 3)),
        19 => Event { ignorable: Some("true".to_owned()), ..Event::new("plugin/x", format!("[{b},1.0,null]")) },
        20 => Event::new([REQUIRED, OPTIONAL][usize::from(variant % 2)], format!(r#"{{"n":{b}}}"#)),
        21 => Event::new("plugin/unknown", "{}"),
        22 => Event::new("session/title", format!(r#"{{"title":"t{b}","messageSeqs":[],"source":{{"kind":"user"}}}}"#)),
        23 => Event::new("session/end-seed", "{}"),
        // Without an id, and with white space and raw separators.
        24 => Event::new(
            "user/message",
            format!("{{ \"role\" : \"user\",\n \"content\": [ {{\"type\":\"text\",\"text\":\"\u{2028}{b}\u{85}\"}} ], \"source\":{{\"kind\":\"user\"}} }}"),
        )
        .op(" \"append\" "),
        25 => Event::new("plan/mode", format!(r#"{{"deep":{}{b}{}}}"#, "[".repeat(usize::from(c % 7)), "]".repeat(usize::from(c % 7)))),
        26 => match variant % 12 {
            0 => Event::new("user/message", user(b)),
            1 => Event::new("todo/write", "{}").op(APPEND),
            2 => Event::new("todo/write", "{}").citing("null"),
            3 => Event::new("user/message", user(b)).op(r#""prepend""#),
            4 => Event::new("plan/mode", r#"{"x":-0.0}"#),
            5 => Event::new("plan/mode", r#"{"x":1,"x":2}"#),
            6 => Event::new("user/message", r#"{"id":"","role":"user","content":[],"source":{"kind":"user"}}"#).op(APPEND),
            7 => Event::new("turn/end", r#"{"turn":0,"reason":{"kind":"completed"}}"#),
            8 => Event::new("request/header", "{}"),
            9 => Event::new("mode/set", "{}"),
            10 => Event { ignorable: Some("false".to_owned()), ..Event::new("plan/mode", "{}") },
            _ => Event::new("plan/mode", format!("{}{}", "[".repeat(1001), "]".repeat(1001))),
        },
        // Numbers that mostly do not fit.
        _ => {
            let kinds = ["turn/start", "turn/end", "step/start", "step/end", "tool/call"];
            let kind = kinds[usize::from(variant) % kinds.len()];
            let reason = if kind == "turn/end" { r#""reason":{"kind":"blocked"}"# } else { r#""step":1,"callId":"c1""# };
            Event::new(kind, format!(r#"{{"turn":{},{reason}}}"#, b % 3 + 1))
        }
    }
}

/// Numbers that look random and are the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}
