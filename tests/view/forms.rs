//! Is a text that is spelt as earlier ones were read, judged and kept as if it were the first of its kind?

use proptest::prelude::*;

use sessiond::json::{Checks, Json, Scratch, TemplateKey};
use sessiond::log::{Draft, Log, read_event};
use sessiond::view::{Reading, Surface};

const TYPES: [&str; 7] = [
    "user/message",
    "assistant/message",
    "tool/result",
    "tool/call",
    "assistant/chunk",
    "turn/start",
    "step/end",
];

/// A value in place of one that is as it should be: mostly another good one, sometimes none, or one of another kind.
fn instead(good: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
    const OTHERS: [&str; 17] = [
        "\"\"",
        "null",
        "1",
        "-0",
        "[]",
        "{}",
        "true",
        "\"user\"",
        "\"\\u0075ser\"",
        "[1,2]",
        "{\"id\":1}",
        "\"é\"",
        "1e400",
        "-0.0",
        "\"raw \u{2028} and \u{85}\"",
        "\"escaped \\u2028 \\ud83d\"",
        "12345678901234567890",
    ];
    prop_oneof![
        20 => prop::sample::select(good).prop_map(Some),
        1 => prop::sample::select(&OTHERS[..]).prop_map(Some),
        1 => Just(None),
    ]
}

/// An object of those members that are there, in an order that seldom changes.
fn object(members: &[(&str, Option<String>)], turned: bool) -> String {
    let mut members: Vec<String> = members
        .iter()
        .filter_map(|(key, value)| value.as_ref().map(|value| format!("\"{key}\":{value}")))
        .collect();
    if turned {
        members.reverse();
    }
    format!("{{{}}}", members.join(","))
}

/// What varies in the texts of one conversation.
#[derive(Clone, Debug)]
struct Choice {
    values: Vec<Option<&'static str>>,
    turned: u8,
}

fn choice() -> impl Strategy<Value = Choice> {
    let values: Vec<BoxedStrategy<Option<&'static str>>> = vec![
        instead(&["\"m1\"", "\"m2\"", "\"m\\n3\""]).boxed(),
        instead(&["\"user\"", "\"assistant\""]).boxed(),
        instead(&["\"user\"", "\"model\"", "\"tool\""]).boxed(),
        instead(&["\"p\"", "\"q\""]).boxed(),
        instead(&["\"x\"", "\"y\""]).boxed(),
        instead(&["\"c1\"", "\"c2\"", "\"c\\u0031\""]).boxed(),
        instead(&["\"c1\"", "\"c2\""]).boxed(),
        instead(&["1", "2", "1e0"]).boxed(),
        instead(&["1", "2"]).boxed(),
        instead(&["\"tool-result\"", "\"text\""]).boxed(),
        instead(&["\"TOOL_NOT_STARTED\"", "\"OTHER\""]).boxed(),
    ];
    (values, 0..40u8).prop_map(|(values, turned)| Choice { values, turned })
}

impl Choice {
    fn value(&self, at: usize) -> Option<String> {
        self.values[at].map(str::to_owned)
    }

    fn message(&self, has_block: bool) -> String {
        let source = [
            ("kind", self.value(2)),
            ("provider", self.value(3)),
            ("model", self.value(4)),
            ("callId", self.value(5)),
        ];
        let block = [
            ("type", self.value(9)),
            ("toolCallId", self.value(6)),
            ("content", Some("[]".to_owned())),
            ("isError", Some("true".to_owned())),
        ];
        let block = object(&block, self.turned == 1);
        let content = match (has_block, self.turned) {
            (true, 2) => format!("[{block},{block}]"),
            (true, _) => format!("[{block}]"),
            _ => "[]".to_owned(),
        };
        let members = [
            ("id", self.value(0)),
            ("role", self.value(1)),
            ("content", Some(content)),
            ("source", Some(object(&source, self.turned == 3))),
        ];
        object(&members, self.turned == 4)
    }

    /// A payload of that type, or one that could be of another.
    fn payload(&self, kind: &str) -> String {
        if kind == "user/message" && self.turned != 5 {
            return self.message(self.turned == 6);
        }
        let error = [("code", self.value(10))];
        let mut members = vec![("turn", self.value(7)), ("step", self.value(8))];
        match kind {
            "tool/call" => members.push(("callId", self.value(5))),
            "turn/start" if self.turned == 7 => members.push(("trigger", self.value(0))),
            "turn/start" | "step/end" | "assistant/chunk" => {}
            _ => members.push(("message", Some(self.message(kind == "tool/result")))),
        }
        if self.turned.is_multiple_of(2) {
            members.push(("error", Some(object(&error, false))));
        }
        object(&members, self.turned == 8)
    }
}

/// All that is said of a text that would come first in a log, and the line that the log would hold.
fn said(draft: &Draft<'_>, checks: Checks) -> String {
    let mut log = Log::new();
    let append = Reading::of_append(draft);
    let plan = append.as_ref().map(|reading| Surface::default().plan(draft, reading, &Log::new()));
    let line = checks.fault.is_none().then(|| {
        log.push(&Draft { needs_compaction: checks.needs_compaction, line: None, ..*draft }, 5);
        log.last().map(|event| event.line().to_owned())
    });
    format!("{checks:?} {plan:?} {append:?} {:?} {line:?}", Reading::of_stored(draft))
}

/// Holds each text, scanned behind those before it, to the same text scanned first.
fn judge(texts: &[(String, String)], draft_of: impl for<'a> Fn(&'a str, Json<'a>, Checks) -> Draft<'a>) {
    let mut scratch = Scratch::default();
    for (kind, text) in texts {
        let Ok((value, checks)) = scratch.scan_with_hint(text, TemplateKey::named(kind)) else {
            panic!("{text}")
        };
        let behind = said(&draft_of(kind, value, checks), checks);
        let (value, checks) = Json::parse(text).unwrap();
        assert_eq!(behind, said(&draft_of(kind, value, checks), checks), "{kind} {text}");
    }
}

fn payload_draft<'a>(kind: &'a str, data: Json<'a>, _: Checks) -> Draft<'a> {
    let (name, _) = Json::parse(kind).unwrap();
    let op = Json::parse("\"append\"").unwrap().0;
    let draft = Draft::new(name.as_str().unwrap(), data);
    Draft { surface_op: draft.kind.is_surface().then_some(op), ..draft }
}

fn line_draft<'a>(_: &'a str, line: Json<'a>, checks: Checks) -> Draft<'a> {
    read_event(line, checks.needs_compaction).unwrap().2
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn earlier_texts_change_no_judgement(
        choices in prop::collection::vec((prop::sample::select(&TYPES[..]), choice()), 1..80),
    ) {
        let payloads: Vec<(String, String)> = choices
            .iter()
            .map(|(kind, choice)| (format!("\"{kind}\""), choice.payload(kind)))
            .collect();
        judge(&payloads, payload_draft);
        let lines: Vec<(String, String)> = payloads
            .iter()
            .enumerate()
            .map(|(seq, (kind, data))| (kind.clone(), format!("{{\"type\":{kind},\"seq\":{seq},\"time\":5,\"data\":{data},\"surfaceOp\":\"append\"}}")))
            .collect();
        judge(&lines, line_draft);
    }
}

#[test]
fn texts_of_a_form_are_judged_each_by_itself() {
    let message = |id: &str, call: &str, block: &str| {
        format!(
            "{{\"turn\":1,\"step\":1,\"message\":{{\"id\":\"{id}\",\"role\":\"user\",\"source\":{{\"kind\":\"tool\",\
             \"callId\":\"{call}\"}},\"content\":[{{\"type\":\"tool-result\",\"toolCallId\":\"{block}\",\"content\":[]}}]}}}}"
        )
    };
    let texts = [
        ("m1", "c1", "c1"),
        ("m2", "c2", "c2"),
        ("m3", "c3", "c3"),
        ("", "c4", "c4"),
        ("m5", "c5", "c6"),
        ("m6", "", ""),
    ];
    let texts = texts.map(|(id, call, block)| ("\"tool/result\"".to_owned(), message(id, call, block)));
    judge(&texts, payload_draft);
    let classes = texts.each_ref().map(|(kind, text)| {
        let (data, checks) = Json::parse(text).unwrap();
        Reading::of_append(&payload_draft(kind, data, checks)).err().map(|error| error.class())
    });
    let expected =
        [None, None, None, Some("MESSAGE_NO_ID"), Some("MESSAGE_TOOL_CALL_ID"), Some("MESSAGE_TOOL_SOURCE")];
    assert_eq!(classes, expected);
}

#[test]
fn what_a_judgement_asks_for_is_judged_in_each_text() {
    // Role, kind of the source, model. The form is learnt from the second, which is sound, and the third is of it.
    let cases = [
        [("user", "model", "a"), ("assistant", "model", "b"), ("user", "model", "c")],
        [("assistant", "user", "a"), ("assistant", "model", "b"), ("assistant", "tool", "c")],
        [("assistant", "model", ""), ("assistant", "model", "b"), ("assistant", "model", "")],
    ];
    for case in cases {
        let texts = case.map(|(role, kind, model)| {
            let source = format!("{{\"kind\":\"{kind}\",\"provider\":\"p\",\"model\":\"{model}\"}}");
            let message = format!("{{\"id\":\"m\",\"role\":\"{role}\",\"content\":[],\"source\":{source}}}");
            let data = format!("{{\"turn\":1,\"step\":1,\"message\":{message}}}");
            ("\"assistant/message\"".to_owned(), data)
        });
        judge(&texts, payload_draft);
    }
}
