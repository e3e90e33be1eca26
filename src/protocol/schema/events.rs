//! The event types that are known, and what each one's `data` is (FORMAT 3 to 5, 10).

use serde_json::{Map, Value, json};

use super::defs::Defs;
use super::event_types::{KNOWN, usual};
use super::{Document, checks, document as titled};
use crate::log::Kind;
use crate::protocol::shapes::SurfaceOp;
use crate::view::RETIRED;

const DESCRIPTION: &str = "The known event types. Of each: what it is for; data, all that is checked of its data; \
    enforced, what is checked besides in a session with invariants \"enforce\" (the default); usual, what \
    writers put there and readers look for, unchecked beyond data and enforced: its kinds are those that are \
    known, and a log may hold others, anything else in its place, and more members; surfaceOp and sourceEventSeqs, required, optional or forbidden beside \
    data; rules, by the names that a refusal gives as data.rule, what no schema of one event says (INV_ ones \
    only where invariants are enforced); examples of data. Everywhere data may be any JSON value without -0, \
    numbers beyond a double and duplicate keys. Other types need ignorable: true, or to be declared in \
    initialize, and have any data; only known types join the surface.";

/// The document of the known types.
pub(super) fn document(defs: &mut Defs) -> Document {
    let types: Map<String, Value> = KNOWN
        .iter()
        .map(|(name, purpose, examples)| ((*name).to_owned(), one(defs, name, purpose, examples)))
        .collect();
    let retired: Map<String, Value> =
        RETIRED.iter().map(|(name, instead)| ((*name).to_owned(), json!(instead))).collect();
    titled(
        "events",
        DESCRIPTION,
        [
            ("types", Value::Object(types)),
            ("retired", Value::Object(retired)),
            ("surfaceOp", defs.described::<SurfaceOp>()),
            ("sourceEventSeqs", sources()),
        ],
    )
}

fn one(defs: &mut Defs, name: &str, purpose: &str, examples: &[&str]) -> Value {
    let kind = Kind::of(name);
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    put("description", json!(purpose));
    put("data", checks::data(kind));
    if let Some(schema) = checks::enforced(kind) {
        put("enforced", schema);
    }
    if let Some(schema) = usual(defs, name, kind) {
        put("usual", schema);
    }
    put("surfaceOp", json!(if kind.is_surface() { "required" } else { "forbidden" }));
    put("sourceEventSeqs", json!(if kind.is_surface() { "optional" } else { "forbidden" }));
    let rules: Map<String, Value> =
        checks::rules(kind).into_iter().map(|(rule, text)| (rule.to_owned(), json!(text))).collect();
    if !rules.is_empty() {
        put("rules", Value::Object(rules));
    }
    let examples: Vec<Value> = examples.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    if !examples.is_empty() {
        put("examples", json!(examples));
    }
    Value::Object(entry)
}

fn sources() -> Value {
    json!({
        "description": "Seqs of earlier events of this log, in any order, on the surface or not. A replacement cites at least every event that it shadows. An empty list is for an assistant/message only.",
        "type": "array",
        "items": { "type": "integer", "minimum": 0, "maximum": crate::json::MAX_SAFE_INTEGER },
        "uniqueItems": true
    })
}
