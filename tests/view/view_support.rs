//! Conformance vectors and small helpers for the tests of the view room.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::print_stdout)]

use serde_json::Value;
use sessiond::json::{Json, JsonStr, JsonText};
use sessiond::log::{Draft, Log, Seq, read_event};

use crate::support::{vector_cases, vector_files};

/// The cases of the vector files whose names begin so.
pub(crate) fn cases(prefixes: &[&str]) -> Vec<Value> {
    let cases: Vec<_> = vector_files(prefixes).iter().flat_map(|file| vector_cases(file)).collect();
    assert!(!cases.is_empty());
    cases
}

/// All operations of those cases, each with its case's id.
pub(crate) fn ops(prefixes: &[&str]) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for case in cases(prefixes) {
        let id = case["id"].as_str().unwrap();
        all.extend(case["ops"].as_array().unwrap().iter().map(|op| (id.to_owned(), op.clone())));
    }
    all
}

/// A member that holds text.
pub(crate) fn text<'v>(op: &'v Value, name: &str) -> &'v str {
    op[name].as_str().unwrap()
}

/// A member that holds an array of texts.
pub(crate) fn texts<'v>(op: &'v Value, name: &str) -> Vec<&'v str> {
    op[name]
        .as_array()
        .map(|list| list.iter().map(|text| text.as_str().unwrap()).collect())
        .unwrap_or_default()
}

/// The class of the expected error, and its alternatives.
pub(crate) fn expected_classes(op: &Value) -> Vec<String> {
    let err = &op["expect"]["err"];
    let alternatives = err["alt"].as_array().cloned().unwrap_or_default();
    let class = err.get("class").cloned();
    class.into_iter().chain(alternatives).map(|class| class.as_str().unwrap().to_owned()).collect()
}

/// A JSON string made from a Rust one.
pub(crate) fn quoted(text: &str) -> String {
    sessiond::json::quote(text)
}

/// Runs `then` on the draft of an appended event.
pub(crate) fn with_draft<T>(
    kind: &str,
    data: &str,
    surface_op: Option<&str>,
    then: impl FnOnce(Draft<'_>, bool) -> T,
) -> T {
    let name = quoted(kind);
    let (name, _) = Json::parse(&name).unwrap();
    let (data, checks) = Json::parse(data).unwrap();
    let surface_op = surface_op.map(|text| Json::parse(text).unwrap().0);
    let draft =
        Draft { surface_op, needs_compaction: checks.needs_compaction, ..Draft::new(name_of(name), data) };
    then(draft, checks.fault.is_none())
}

fn name_of(name: Json<'_>) -> JsonStr<'_> {
    name.as_str().unwrap()
}

/// A log of stored lines.
pub(crate) fn log_of(lines: &[impl AsRef<str>]) -> Log {
    let mut log = Log::new();
    for line in lines {
        let (event, checks) = Json::parse(line.as_ref()).unwrap();
        let (seq, time, draft) = read_event(event, checks.needs_compaction).unwrap();
        assert_eq!(log.push(&draft, time).0, seq);
    }
    log
}

/// Whether two texts are the same value to a JSON reader.
pub(crate) fn same_value(a: &str, b: &str) -> bool {
    let (a, b) = (JsonText::parse(a).unwrap().0, JsonText::parse(b).unwrap().0);
    sessiond::json::equal(a.json(), b.json())
}

/// A seq.
pub(crate) fn seq(value: u64) -> Seq {
    Seq::new(value).unwrap()
}
