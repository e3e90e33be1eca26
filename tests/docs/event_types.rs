//! Does `schema/events.json` say what `session/append` checks of an event's data, no more and no less?
//!
//! Samples of every type are changed in every place; each change is put to the schema and to a daemon. Then each
//! keyword of the schemas is left out in turn: what no sample notices says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use sessiond::json::Json;
use sessiond::log::Kind;
use sessiond::protocol::payloads::Payload;
use sessiond::protocol::schema;
use sessiond::protocol::shapes::Event;
use sessiond::server::{Server, Settings};
use sessiond::store::MemoryStorage;
use sessiond::view::RETIRED;

use crate::schema_support::faults;
use crate::support;

fn document() -> Value {
    serde_json::from_str(&schema::files()["events.json"]).unwrap()
}

fn types(document: &Value) -> &Map<String, Value> {
    document["types"].as_object().unwrap()
}

fn fits(document: &Value, schema: &Value, data: &str) -> bool {
    let (data, _) = Json::parse(data).unwrap();
    faults(document, schema, data).is_empty()
}

fn examples(entry: &Value) -> Vec<Value> {
    entry.get("examples").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// A daemon over memory, and its sessions one after the other.
struct Daemon {
    server: Server,
    invariants: &'static str,
    session: u64,
}

impl Daemon {
    fn new(invariants: &'static str) -> Self {
        let settings = Settings {
            clock: "fixed:1700000000000+1000".parse().unwrap(),
            ids: "sequential".parse().unwrap(),
            ..Settings::default()
        };
        let server = Server::new(settings, Box::new(MemoryStorage::default()));
        Self { server, invariants, session: 0 }
    }

    fn answer(&mut self, method: &str, params: &str) -> Value {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        self.server.receive(line.as_bytes());
        let lines = std::mem::take(self.server.output().unwrap());
        let answer = lines.lines().find(|line| line.starts_with(r#"{"jsonrpc":"2.0","id":1,"#));
        serde_json::from_str(answer.unwrap_or_else(|| panic!("{line} gives {lines:?}"))).unwrap()
    }

    /// A session with these events in it.
    fn begin(&mut self, events: &[(&str, &str)]) {
        let old = self.session;
        self.session += 1;
        if old > 0 {
            self.answer("session/delete", &format!(r#"{{"sessionId":"s{old}"}}"#));
        }
        let params = format!(r#"{{"sessionId":"s{}","invariants":"{}"}}"#, self.session, self.invariants);
        self.answer("session/new", &params);
        for (kind, data) in events {
            self.append(kind, data, marker(kind))
                .unwrap_or_else(|refusal| panic!("{kind} {data}: {refusal:?}"));
        }
    }

    /// Appends an event with more members as they stand; why it is refused: the error's name and rule.
    fn append(&mut self, kind: &str, data: &str, more: &str) -> Result<(), (String, String)> {
        let params = format!(r#"{{"sessionId":"s{}","type":"{kind}","data":{data}{more}}}"#, self.session);
        let answer = self.answer("session/append", &params);
        let Some(error) = answer.get("error") else { return Ok(()) };
        let text = |name: &str| error["data"][name].as_str().unwrap_or_default().to_owned();
        Err((text("code"), text("rule")))
    }
}

fn marker(kind: &str) -> &'static str {
    if Kind::of(kind).is_surface() { r#","surfaceOp":"append""# } else { "" }
}

/// Every value that a keyword `const` or `enum` names.
fn named_values(schema: &Value, found: &mut Vec<Value>) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    "const" => found.push(member.clone()),
                    "enum" => found.extend(member.as_array().unwrap().iter().cloned()),
                    _ => named_values(member, found),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| named_values(element, found)),
        _ => {}
    }
}

/// What is put in the place of a value: each kind, the bounds, and what the schema names.
fn others(schema: &Value) -> Vec<Value> {
    let plain = json!([
        null, true, false, 0, 1, 2, -1, 1.0, 1.5, 9007199254740991u64, 9007199254740992u64, "", "x", "fallback", [], [1], {},
        { "kind": "x" }, { "kind": "aborted" }, { "kind": "error" }, { "kind": "aborted", "reason": null }
    ]);
    let mut all = plain.as_array().unwrap().clone();
    named_values(schema, &mut all);
    all
}

/// The value with one place of it changed, in every way.
fn changed(value: &Value, others: &[Value]) -> Vec<Value> {
    const MEMBERS: [&str; 9] =
        ["zz", "trigger", "id", "reason", "error", "kind", "adapterDefaults", "reasoningEffort", "maxTokens"];
    let mut all = others.to_vec();
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let with = |new: Option<Value>| {
                    let mut members = members.clone();
                    match new {
                        Some(new) => members.insert(name.clone(), new),
                        None => members.remove(name),
                    };
                    Value::Object(members)
                };
                all.push(with(None));
                all.extend(changed(member, others).into_iter().map(|new| with(Some(new))));
            }
            for name in MEMBERS.into_iter().filter(|name| !members.contains_key(*name)) {
                for new in [json!(null), json!(true), json!({ "maxTokens": true })] {
                    let mut members = members.clone();
                    members.insert(name.to_owned(), new);
                    all.push(Value::Object(members));
                }
            }
        }
        Value::Array(elements) => {
            for index in 0..elements.len() {
                let with = |new: Value| {
                    let mut elements = elements.clone();
                    elements[index] = new;
                    Value::Array(elements)
                };
                all.extend(changed(&elements[index], others).into_iter().map(with));
            }
            if let Some(first) = elements.first() {
                all.push(Value::Array([elements.as_slice(), std::slice::from_ref(first)].concat()));
            }
        }
        _ => {}
    }
    all
}

/// The texts to put to a type: its examples, what others appended, and all of them changed.
fn probes(entry: &Value, seen: Option<&BTreeSet<String>>) -> BTreeSet<String> {
    let others = others(&json!([entry["data"], entry.get("enforced")]));
    let mut all: BTreeSet<String> = examples(entry)
        .iter()
        .flat_map(|example| changed(example, &others))
        .map(|value| value.to_string())
        .collect();
    all.extend(others.iter().chain(&examples(entry)).map(Value::to_string));
    // As the reference compares them, null is the number of what is not open.
    for mut example in examples(entry).into_iter().filter(|example| example.get("step").is_some()) {
        (example["turn"], example["step"]) = (Value::Null, Value::Null);
        all.insert(example.to_string());
    }
    all.extend(seen.into_iter().flatten().cloned());
    all
}

/// What transcripts and vectors append, by type: JSON texts.
fn appended_elsewhere() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut note = |kind: &str, data: &str| {
        found.entry(kind.to_owned()).or_default().insert(data.to_owned());
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        let text = fs::read_to_string(entry.path()).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("> ")) {
            let Ok((line, _)) = Json::parse(line) else { continue };
            let Some(params) = line.get("params") else { continue };
            let events: Vec<Json<'_>> =
                params.get("events").map_or(vec![params], |all| all.elements().collect());
            for event in events {
                if let (Some(kind), Some(data)) =
                    (event.get("type").and_then(Json::as_str), event.get("data"))
                {
                    note(&kind.lossy(), data.text());
                }
            }
        }
    }
    for file in support::vector_files(&["02", "03", "11", "12", "20", "29"]) {
        for case in support::vector_cases(&file) {
            for op in case["ops"].as_array().unwrap() {
                if let (Some(kind), Some(data)) = (op["type"].as_str(), op["dataJson"].as_str())
                    && Json::parse(data).is_ok()
                {
                    note(kind, data);
                }
            }
        }
    }
    found
}

#[test]
fn every_known_type_is_described_and_no_other() {
    let document = document();
    let described: BTreeSet<&str> = types(&document).keys().map(String::as_str).collect();
    assert_eq!(described, Kind::known_names().collect());
    for (name, entry) in types(&document) {
        let purpose = entry["description"].as_str().unwrap();
        assert!(purpose.ends_with('.') && purpose.len() > 15, "{name}: {purpose}");
        assert_eq!(entry.get("usual").is_some(), !examples(entry).is_empty(), "{name}: shape and examples");
    }
    let mut daemon = Daemon::new("off");
    daemon.begin(&[]);
    let retired: BTreeSet<&str> =
        document["retired"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(retired, RETIRED.iter().map(|(name, _)| *name).collect());
    for name in retired {
        assert_eq!(daemon.append(name, "{}", "").unwrap_err().0, "INVALID_EVENT", "{name}");
    }
}

/// What a log holds by the time that a type may come.
const TURN: (&str, &str) = ("turn/start", r#"{"turn":1}"#);
const STEP: (&str, &str) = ("step/start", r#"{"turn":1,"step":1}"#);
const CALL: (&str, &str) =
    ("tool/call", r#"{"turn":1,"step":1,"callId":"call-1","name":"read","arguments":"{}"}"#);
const TURN_END: (&str, &str) = ("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#);
const STEP_END: (&str, &str) = ("step/end", r#"{"turn":1,"step":1}"#);

const STATES: [&[(&str, &str)]; 6] =
    [&[], &[TURN], &[TURN, STEP], &[TURN, STEP, CALL], &[TURN, TURN_END], &[TURN, STEP, STEP_END]];

#[test]
fn examples_fit_and_are_accepted_where_invariants_are_enforced() {
    let document = document();
    let mut daemon = Daemon::new("enforce");
    let mut shown = 0;
    for (name, entry) in types(&document) {
        for example in examples(entry).iter().map(Value::to_string) {
            for part in ["data", "enforced", "usual"] {
                let schema = entry.get(part).unwrap_or(&Value::Bool(true));
                let (value, _) = Json::parse(&example).unwrap();
                assert_eq!(faults(&document, schema, value), [""; 0], "{name} {part} {example}");
            }
            let accepted = STATES.iter().any(|state| {
                daemon.begin(state);
                daemon.append(name, &example, marker(name)).is_ok()
            });
            assert!(accepted, "{name} {example}");
            shown += 1;
        }
    }
    assert!(shown > 25, "{shown}");
}

#[test]
fn markers_are_required_and_forbidden_as_it_says() {
    let document = document();
    let mut daemon = Daemon::new("off");
    for (name, entry) in types(&document) {
        let data = examples(entry).first().map_or("{}".to_owned(), Value::to_string);
        let mut refusal = |more: &str| {
            daemon.begin(&[TURN]);
            daemon.append(name, &data, more).err().map_or(String::new(), |(_, rule)| rule)
        };
        let (op, both) = (r#","surfaceOp":"append""#, r#","surfaceOp":"append","sourceEventSeqs":[0]"#);
        let empty = r#","surfaceOp":"append","sourceEventSeqs":[]"#;
        let sources = r#","sourceEventSeqs":[0]"#;
        match (entry["surfaceOp"].as_str().unwrap(), entry["sourceEventSeqs"].as_str().unwrap()) {
            ("required", "optional") => {
                assert_eq!([refusal(""), refusal(sources)], ["SURFACE_OP_MISSING"; 2], "{name}");
                assert_eq!([refusal(op), refusal(both)], [""; 2], "{name}");
                let may = if name == "assistant/message" { "" } else { "SOURCES_EMPTY" };
                assert_eq!(refusal(empty), may, "{name}");
            }
            ("forbidden", "forbidden") => {
                assert_eq!([refusal(op), refusal(both)], ["SURFACE_OP_ON_LOG_ONLY"; 2], "{name}");
                assert_eq!(refusal(sources), "SOURCES_ON_LOG_ONLY", "{name}");
                assert_eq!(refusal(""), "", "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Schemas that say one thing less, each with what is left out.
fn weaker(schema: &Value) -> Vec<(String, Value)> {
    let Value::Object(keywords) = schema else { return Vec::new() };
    let mut all = Vec::new();
    for (keyword, want) in keywords.iter().filter(|(keyword, _)| *keyword != "description") {
        let with = |what: &str, new: Option<Value>| {
            let mut keywords = keywords.clone();
            match new {
                Some(new) => keywords.insert(keyword.clone(), new),
                None => keywords.remove(keyword),
            };
            (format!("{keyword} {what}"), Value::Object(keywords))
        };
        if keyword != "properties" {
            all.push(with("", None));
        }
        match (keyword.as_str(), want) {
            ("properties", Value::Object(members)) => {
                for (name, member) in members {
                    let within = |new: Value| {
                        let mut members = members.clone();
                        members.insert(name.clone(), new);
                        Some(Value::Object(members))
                    };
                    // Not left out: that would be told of as an unknown member.
                    all.push(with(name, within(json!(true))));
                    all.extend(
                        weaker(member)
                            .into_iter()
                            .map(|(what, new)| with(&format!("{name}/{what}"), within(new))),
                    );
                }
            }
            ("required" | "enum" | "type" | "anyOf" | "allOf", Value::Array(elements)) => {
                for (index, element) in elements.iter().enumerate() {
                    let mut fewer = elements.clone();
                    fewer.remove(index);
                    if !fewer.is_empty() {
                        all.push(with(&element.to_string(), Some(Value::Array(fewer))));
                    }
                    for (what, new) in weaker(element) {
                        let mut changed = elements.clone();
                        changed[index] = new;
                        all.push(with(&format!("{index}/{what}"), Some(Value::Array(changed))));
                    }
                }
            }
            ("items" | "not", _) => {
                all.extend(weaker(want).into_iter().map(|(what, new)| with(&what, Some(new))));
            }
            _ => {}
        }
    }
    all
}

#[test]
fn data_is_exactly_what_every_append_checks() {
    let document = document();
    let elsewhere = appended_elsewhere();
    let mut daemon = Daemon::new("off");
    daemon.begin(&[]);
    for (name, entry) in types(&document) {
        let mut verdicts = Vec::new();
        for data in probes(entry, elsewhere.get(name)) {
            let accepted = match daemon.append(name, &data, marker(name)) {
                Ok(()) => true,
                // What no schema says, and the document does.
                Err((code, _)) if code == "LOSSY_JSON" || code == "LIMIT_EXCEEDED" => continue,
                // Two members that differ; what is no filled text is refused by the schema too.
                Err((_, rule))
                    if rule == "MESSAGE_TOOL_CALL_ID" && fits(&document, &entry["data"], &data) =>
                {
                    assert!(entry["rules"].get(&rule).is_some(), "{data}");
                    continue;
                }
                Err((code, rule)) => {
                    assert_eq!(code, "INVALID_EVENT", "{name} {data} {rule}");
                    false
                }
            };
            assert_eq!(fits(&document, &entry["data"], &data), accepted, "{name} {data}");
            verdicts.push((data, accepted));
        }
        assert!(verdicts.len() > 15, "{name}");
        for (what, schema) in weaker(&entry["data"]) {
            let noticed = verdicts.iter().any(|(data, accepted)| fits(&document, &schema, data) != *accepted);
            assert!(noticed, "{name}: no sample needs {what}");
        }
    }
}

#[test]
fn what_enforced_refuses_no_state_lets_in_and_the_rules_are_those_met() {
    let document = document();
    let mut daemon = Daemon::new("enforce");
    for (name, entry) in types(&document) {
        let rules: BTreeSet<&str> = entry
            .get("rules")
            .and_then(Value::as_object)
            .map_or(BTreeSet::new(), |rules| rules.keys().map(String::as_str).collect());
        let (data_schema, anything) = (&entry["data"], json!(true));
        let enforced = entry.get("enforced").unwrap_or(&anything);
        let mut met = BTreeSet::new();
        let probes: Vec<String> = probes(entry, None).into_iter().collect();
        let shaped: Vec<bool> = probes.iter().map(|data| fits(&document, data_schema, data)).collect();
        let fitting: Vec<bool> = probes.iter().map(|data| fits(&document, enforced, data)).collect();
        let mut let_in = vec![false; probes.len()];
        for state in STATES {
            daemon.begin(state);
            for (at, data) in probes.iter().enumerate() {
                match daemon.append(name, data, marker(name)) {
                    Ok(()) => {
                        assert!(shaped[at] && fitting[at], "{name} {data} is accepted behind {state:?}");
                        let_in[at] = true;
                        daemon.begin(state);
                    }
                    Err((code, rule)) => {
                        let known = rules.contains(&*rule) || !shaped[at] && code == "INVALID_EVENT";
                        assert!(known, "{name} {data}: {code} {rule} behind {state:?}");
                        met.insert(rule);
                    }
                }
            }
        }
        for (what, schema) in weaker(enforced) {
            let noticed = probes.iter().enumerate().any(|(at, data)| {
                let now = fits(&document, &schema, data);
                // What fits and is let in nowhere breaks a rule; only these two tell of the schema.
                now && !fitting[at] || !now && let_in[at]
            });
            assert!(noticed, "{name}: no sample needs {what}");
        }
        let relations: BTreeSet<&str> = rules
            .iter()
            .copied()
            .filter(|rule| rule.starts_with("INV_") && !rule.contains("REWRITE"))
            .collect();
        let unmet: Vec<_> = relations.iter().filter(|rule| !met.contains(**rule)).collect();
        assert!(unmet.is_empty(), "{name}: never met: {unmet:?}");
    }
}

#[test]
fn replacements_of_results_are_held_to_their_rules() {
    let document = document();
    let rules = &types(&document)["tool/result"]["rules"];
    let data = types(&document)["tool/result"]["examples"][0]
        .to_string()
        .replace("\"role\"", "\"id\":\"m\",\"role\"");
    let said = r#"{"role":"user","content":[],"source":{"kind":"user"}}"#;
    let mut daemon = Daemon::new("enforce");
    daemon.begin(&[TURN, ("user/message", said), STEP, CALL, ("tool/result", &data)]);
    let mut replace = |data: &str, start: u64, end: u64| {
        let sources = if start == end { format!("{start}") } else { format!("{start},{end}") };
        let more = format!(
            r#","surfaceOp":{{"op":"replace","start":{start},"end":{end}}},"sourceEventSeqs":[{sources}]"#
        );
        let rule = daemon.append("tool/result", data, &more).err().map(|(_, rule)| rule);
        assert!(rule.as_ref().is_none_or(|rule| rules.get(rule).is_some()), "{rule:?}");
        rule
    };
    let rule = |name: &str| Some(name.to_owned());
    assert_eq!(replace(&data, 1, 4), rule("TOOL_REWRITE_NOT_SINGLE"));
    assert_eq!(replace(&data, 1, 1), rule("TOOL_REWRITE_TARGET"));
    assert_eq!(replace(&data.replace("\"turn\":1", "\"turn\":2"), 4, 4), rule("TOOL_REWRITE_CHANGED"));
    assert_eq!(replace(&data.replace("\"a\"", "\"b\""), 4, 4), None);
    daemon.append("step/end", STEP_END.1, "").unwrap();
    daemon.append("turn/end", TURN_END.1, "").unwrap();
    let more = r#","surfaceOp":{"op":"replace","start":5,"end":5},"sourceEventSeqs":[5]"#;
    let (_, rule) = daemon.append("tool/result", &data, more).unwrap_err();
    assert_eq!(rule, "INV_REWRITE_OUTSIDE_TURN");
    assert!(rules.get(&rule).is_some());
}

/// The logs of the reference's own tests.
#[test]
#[ignore = "needs ../shared/corpus"]
fn what_the_reference_writes_is_usual() {
    let folder = support::needed("corpus/fixtures/rehydrated");
    let document = document();
    let mut met: BTreeMap<String, u64> = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        let text = fs::read_to_string(entry.path()).unwrap();
        for line in text.lines().skip(1) {
            let Ok((event, _)) = Json::parse(line) else { continue };
            let (Some(kind), Some(data)) = (event.get("type").and_then(Json::as_str), event.get("data"))
            else {
                continue;
            };
            let name = kind.lossy().into_owned();
            let Some(described) = types(&document).get(&name) else { continue };
            // Placeholders stand for the texts of headers.
            let odd = name == "request/header";
            let is_current = fits(&document, &described["data"], data.text());
            if let (Some(usual), true, false) = (described.get("usual"), is_current, odd) {
                assert_eq!(faults(&document, usual, data), [""; 0], "{name} {}", data.text());
                *met.entry(name).or_default() += 1;
            }
        }
    }
    assert!(met.len() > 12, "{met:?}");
}

#[test]
fn the_examples_of_each_type_read_as_its_payload() {
    const TYPED: [&str; 18] = [
        "assistant/chunk",
        "assistant/message",
        "compaction/end",
        "compaction/prune",
        "compaction/start",
        "compaction/summary",
        "model/selection",
        "request/context",
        "request/header",
        "session/title",
        "step/end",
        "step/start",
        "todo/write",
        "tool/call",
        "tool/result",
        "turn/end",
        "turn/start",
        "user/message",
    ];
    let mut met: Vec<&str> = Vec::new();
    let document = document();
    for (name, entry) in types(&document) {
        for data in examples(entry) {
            let line = json!({ "type": name, "seq": 0, "time": 0, "data": data }).to_string();
            let payload = Payload::of(&serde_json::from_str::<Event>(&line).unwrap());
            assert_eq!(payload == Payload::Other, !TYPED.contains(&&**name), "{line} {payload:?}");
            met.extend(TYPED.iter().find(|typed| *typed == name));
        }
    }
    met.dedup();
    assert_eq!(met, TYPED);
}
