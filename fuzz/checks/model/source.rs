//! Events made of bytes: mostly plausible ones, with something odd here and there.

use super::super::plain::{compact, member};
use super::log::{Event, Mark, is_surface, surface, trace};
use super::rules::{MAX_EVENT_BYTES, OPTIONAL, REQUIRED, ROW_TAGS, Wanted};

/// Bytes that are used up one by one; zeros after the last.
pub struct Source<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Members are left out, doubled or given odd values where the bytes say so.
    wild: bool,
}

/// Values that fit nowhere, or nearly.
const ODD: [&str; 26] = [
    "null",
    "\"\"",
    "\"x\"",
    "0",
    "1",
    "2",
    "1.0",
    "10e-1",
    "-0",
    "1.5",
    "-1",
    "9007199254740991",
    "9007199254740993",
    "1e400",
    "[]",
    "{}",
    "true",
    "\"\\ud800\"",
    "\"\u{2028}\u{85}é\"",
    "[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]",
    "{\"a\":1,\"\\u0061\":2}",
    "[{}]",
    "\"append\"",
    "\"\\u0061ppend\"",
    "false",
    "[null]",
];

impl<'b> Source<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0, wild: false }
    }

    pub fn is_over(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    /// Below `end`, which is at most 256 and not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Once in so many times, and not where the bytes are over.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    pub fn odd(&mut self) -> &'static str {
        self.pick(&ODD)
    }

    /// An odd value that is in its compact form.
    pub fn odd_kept(&mut self) -> &'static str {
        self.pick(&["null", "1", "1.0", "{}", "[]", "\"\"", "{\"a\":1}"])
    }

    /// An object, with its members changed where it is wild.
    fn object(&mut self, members: &[(&str, String)]) -> String {
        let mut out = String::from("{");
        for (name, value) in members {
            let mut value = value.clone();
            if self.wild {
                match self.below(16) {
                    9 => continue,
                    10 | 11 => value = self.odd().to_owned(),
                    12 => out.push_str(&format!(" \"{name}\" : {value} ,")),
                    13 => {
                        out.push_str(&format!("\"\\u{:04x}{}\":{value},", name.as_bytes()[0], &name[1..]));
                        continue;
                    }
                    14 => out.push_str(&format!("\"x{name}\":{},", self.odd())),
                    _ => {}
                }
            }
            out.push_str(&format!("\"{name}\":{value},"));
        }
        if out.ends_with(',') {
            out.pop();
        }
        out.push('}');
        out
    }

    fn text_block(&mut self) -> String {
        let length = if self.once_in(24) { 16 * usize::from(self.byte()) } else { self.below(4) };
        format!("{{\"type\":\"text\",\"text\":\"{}\"}}", "é".repeat(length))
    }

    /// An id for a call: few, in several spellings. The closers of the long one pass the limit of an event.
    fn call_id(&mut self) -> String {
        match self.below(8) {
            at @ 0..=5 => {
                ["\"c1\"", "\"c2\"", "\"c\\u0031\"", "\"\\ud800\"", "\"c/\\\"\"", "\"\""][at].to_owned()
            }
            6 => format!("\"{}\"", "c".repeat(MAX_EVENT_BYTES / 3)),
            _ => "\"c1\"".to_owned(),
        }
    }

    /// An event that fits a log more often than not: as it is sent, and as it is kept.
    pub fn event(&mut self, events: &[Event]) -> (Wanted, Wanted) {
        self.wild = self.once_in(4);
        let mut sent = self.any_event(events);
        if self.wild && self.once_in(4) && !sent.name.is_empty() {
            let (first, rest) = (sent.name.as_bytes()[0], &sent.name[1..]);
            sent.spelled = Some(format!("\"\\u{first:04x}{rest}\""));
        }
        self.wild = false;
        let Wanted { data, op, sources, .. } = &sent;
        let sources = sources.as_deref().map(compact);
        let kept = Wanted { data: compact(data), op: op.as_deref().map(compact), sources, ..sent.clone() };
        (sent, kept)
    }

    fn any_event(&mut self, events: &[Event]) -> Wanted {
        let trace = trace(events);
        let number = |mark: Mark, next: f64| match mark {
            Mark::Number(number) => number,
            _ => next,
        };
        let off = if self.once_in(16) { 1.0 } else { 0.0 };
        let turn = ("turn", (number(trace.turn, trace.next_turn) + off).to_string());
        let step = ("step", number(trace.step, trace.next_step).to_string());
        let plain = |name: &str, data: String| Wanted { name: name.to_owned(), data, ..Wanted::default() };
        let kind = self.below(22);
        match kind {
            0 | 1 if trace.turn == Mark::Null => plain("turn/start", self.object(&[turn])),
            1 | 2 if trace.step == Mark::Null => plain("step/start", self.object(&[turn, step])),
            0..=2 if trace.step != Mark::Null && self.below(2) == 0 => {
                plain("step/end", self.object(&[turn, step]))
            }
            0..=3 => {
                let failure = r#"{"message":"m","code":"c"}"#.to_owned();
                let kinds = ["completed", "aborted", "error", "blocked", "disposed", "other"];
                let kind = ("kind", format!("\"{}\"", self.pick(&kinds)));
                let reason = match &*kind.1 {
                    "\"aborted\"" => self.object(&[kind, ("reason", r#"{"kind":"user"}"#.to_owned())]),
                    "\"error\"" => self.object(&[kind, ("error", failure)]),
                    _ => self.object(&[kind]),
                };
                plain("turn/end", self.object(&[turn, ("reason", reason)]))
            }
            4 => {
                let chunk = r#"{"type":"text-delta","index":0,"text":"t"}"#.to_owned();
                plain("assistant/chunk", self.object(&[turn, step, ("chunk", chunk)]))
            }
            5..=7 => {
                let data = self.user_message();
                self.on_surface("user/message", data, events)
            }
            8..=10 => {
                let data = self.assistant_message(turn, step);
                self.on_surface("assistant/message", data, events)
            }
            11 => {
                let call = self.call_id();
                let rest =
                    [("callId", call), ("name", "\"n\"".to_owned()), ("arguments", "\"{}\"".to_owned())];
                let [id, name, arguments] = rest;
                plain("tool/call", self.object(&[turn, step, id, name, arguments]))
            }
            12 | 13 => {
                let data = self.tool_result(turn, step);
                self.on_surface("tool/result", data, events)
            }
            14 => self.rewrite(events),
            15 => plain("todo/write", self.object(&[("todos", "[]".to_owned())])),
            16 => self.request_header(),
            17 => {
                let model = ("model", format!("\"m{}\"", self.below(3)));
                let data = self.object(&[("provider", "\"p\"".to_owned()), model]);
                plain("request/context", if self.once_in(8) { self.odd().to_owned() } else { data })
            }
            18 => plain("session/end-seed", "{}".to_owned()),
            19 => {
                let [text, reasoning, call] = ROW_TAGS;
                let names = [
                    text,
                    reasoning,
                    call,
                    REQUIRED,
                    OPTIONAL,
                    "plugin/x",
                    "",
                    "request/header-delta",
                    "mode/set",
                    "steering/message",
                ];
                let ignorable = self.pick(&[None, Some("true"), Some("true"), Some("false")]);
                Wanted { ignorable, ..plain(self.pick(&names), self.odd().to_owned()) }
            }
            20 => {
                let data = {
                    let odd = [("a", self.odd().to_owned()), ("b", self.odd().to_owned())];
                    self.object(&odd)
                };
                let event = plain("plan/mode", data);
                match self.below(8) {
                    6 => Wanted { op: Some(self.odd().to_owned()), ..event },
                    7 => Wanted { sources: Some(self.odd().to_owned()), ..event },
                    _ => event,
                }
            }
            _ => {
                let data = format!("{{\"text\":\"{}\"}}", "x".repeat(16 * usize::from(self.byte())));
                plain("session/title", data)
            }
        }
    }

    fn user_message(&mut self) -> String {
        let block = self.text_block();
        let source = self.object(&[("kind", "\"user\"".to_owned())]);
        let id = ("id", format!("\"u{}\"", self.below(8)));
        let rest = [("role", "\"user\"".to_owned()), ("content", format!("[{block}]")), ("source", source)];
        let [role, content, source] = rest;
        if self.below(2) == 0 {
            self.object(&[role, content, source])
        } else {
            self.object(&[id, role, content, source])
        }
    }

    fn assistant_message(&mut self, turn: (&str, String), step: (&str, String)) -> String {
        let blocks: Vec<String> = (0..self.below(4))
            .map(|_| match self.below(3) {
                0 => self.text_block(),
                _ => {
                    let id = self.call_id();
                    self.object(&[
                        ("type", "\"tool-call\"".to_owned()),
                        ("id", id),
                        ("name", "\"n\"".to_owned()),
                    ])
                }
            })
            .collect();
        let source = [("kind", "\"model\""), ("provider", "\"p\""), ("model", "\"m\"")];
        let source = self.object(&source.map(|(name, value)| (name, value.to_owned())));
        let role = ("role", "\"assistant\"".to_owned());
        let content = ("content", format!("[{}]", blocks.join(",")));
        let message = self.object(&[("id", "\"a\"".to_owned()), role, content, ("source", source)]);
        self.object(&[turn, step, ("message", message)])
    }

    fn tool_result(&mut self, turn: (&str, String), step: (&str, String)) -> String {
        let call = self.call_id();
        let (id, own) = (("callId", call.clone()), ("toolCallId", call));
        let source = self.object(&[("kind", "\"tool\"".to_owned()), id]);
        let not_started = self.once_in(6);
        let content = ("content", format!("[{}]", self.text_block()));
        let kind = ("type", "\"tool-result\"".to_owned());
        let mut members = vec![kind, own, content];
        if not_started {
            members.push(("isError", "true".to_owned()));
        }
        let block = self.object(&members);
        let (role, content) = (("role", "\"user\"".to_owned()), ("content", format!("[{block}]")));
        let message = self.object(&[("id", "\"r\"".to_owned()), role, content, ("source", source)]);
        let mut members = vec![turn, step, ("message", message)];
        if not_started {
            members.push(("error", r#"{"name":"N","code":"TOOL_NOT_STARTED"}"#.to_owned()));
        }
        self.object(&members)
    }

    fn request_header(&mut self) -> Wanted {
        let mut config = vec![("provider", "\"p\"".to_owned()), ("model", format!("\"m{}\"", self.below(3)))];
        let effort = self.below(3) == 0;
        if effort {
            config.push(("reasoningEffort", "\"high\"".to_owned()));
        }
        let mut header = vec![("config", self.object(&config))];
        if effort && self.below(2) == 0 {
            header.push(("adapterDefaults", self.object(&[("reasoningEffort", "true".to_owned())])));
        }
        for name in ["tools", "system", "prefix", "other"] {
            if self.below(3) == 2 {
                header.push((name, self.pick(&["[]", "\"\"", "[1, \"a\"]", "\"s\"", "null"]).to_owned()));
            }
        }
        let header = self.object(&header);
        let reason = self.pick(&["\"initial\"", "\"change\"", "\"series\"", "\"fallback\"", "1"]);
        let data = self.object(&[("header", header), ("reason", reason.to_owned())]);
        Wanted { name: "request/header".to_owned(), data, ..Wanted::default() }
    }

    /// A tool result on the surface, said again with other contents.
    fn rewrite(&mut self, events: &[Event]) -> Wanted {
        let (nodes, _) = surface(events);
        let results: Vec<usize> =
            nodes.iter().copied().filter(|node| events[*node].name == "tool/result").collect();
        if results.is_empty() {
            return Wanted { name: "plan/mode".to_owned(), data: "{}".to_owned(), ..Wanted::default() };
        }
        let target = results[self.below(results.len())];
        let old = &events[target].data;
        let block = member(member(old, "message").unwrap(), "content").unwrap();
        let content = member(&block[1..block.len() - 1], "content").unwrap();
        let at = content.as_ptr().addr() - old.as_ptr().addr();
        let (before, after) = (&old[..at], &old[at + content.len()..]);
        let mut data = format!("{before}[\"pruned\"]{after}");
        if self.once_in(6) {
            data = data.replacen("\"role\"", "\"more\":1,\"role\"", 1);
        } else if self.once_in(6) {
            data = data.replacen("\"turn\":1,", "\"turn\":1.0,", 1);
        }
        let op = format!("{{\"op\":\"replace\",\"start\":{target},\"end\":{target}}}");
        let (op, sources) = (Some(op), Some(format!("[{target}]")));
        Wanted { name: "tool/result".to_owned(), data, op, sources, ..Wanted::default() }
    }

    /// Puts an event at the tail of the surface, or in place of some of it.
    fn on_surface(&mut self, name: &str, data: String, events: &[Event]) -> Wanted {
        debug_assert!(is_surface(name));
        let event =
            Wanted { name: name.to_owned(), data, op: Some("\"append\"".to_owned()), ..Wanted::default() };
        let (nodes, _) = surface(events);
        let mut event = if !nodes.is_empty() && self.once_in(3) {
            let first = self.below(nodes.len());
            let last = (first + self.below(4)).min(nodes.len() - 1);
            let (start, end) = (nodes[first], nodes[last]);
            let mut cited: Vec<usize> = nodes[first..=last].to_vec();
            cited.reverse();
            let members =
                [("op", "\"replace\"".to_owned()), ("start", start.to_string()), ("end", end.to_string())];
            Wanted { op: Some(self.object(&members)), sources: Some(format!("{cited:?}")), ..event }
        } else if self.once_in(4) && !events.is_empty() {
            Wanted { sources: Some(format!("[{}]", self.below(events.len() + 1))), ..event }
        } else {
            event
        };
        if self.wild {
            match self.below(8) {
                0 => event.op = None,
                1 => event.op = Some(self.odd().to_owned()),
                2 => event.sources = None,
                3 => event.sources = Some(self.odd().to_owned()),
                4 => event.sources = Some(format!("[{},{}]", self.below(4), self.below(4))),
                5 => {
                    event.op = Some(format!(
                        "{{\"op\":\"replace\",\"start\":{},\"end\":{}}}",
                        self.below(8),
                        self.below(8)
                    ))
                }
                _ => {}
            }
        }
        event
    }
}
