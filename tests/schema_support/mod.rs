//! Holds JSON text to the part of JSON Schema that our schemas use, and walks conversations.
//!
//! Small on purpose: a validator from elsewhere brings thirty crates. A keyword that it does not know
//! is a panic, so nothing in a schema can go unchecked. It reads with the crate's own reader, as lines
//! may hold lone surrogates and deep nesting, which serde_json refuses.

#![allow(dead_code)]

pub(crate) mod conversation;

use serde_json::Value;
use sessiond::json::{Json, Type};

/// What is wrong with a value; empty when it fits. `root` holds the `$defs`.
pub(crate) fn faults(root: &Value, schema: &Value, value: Json<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    Check { root, faults: &mut faults }.value(schema, value, "");
    faults
}

struct Check<'a> {
    root: &'a Value,
    faults: &'a mut Vec<String>,
}

impl Check<'_> {
    fn fault(&mut self, at: &str, what: impl std::fmt::Display) {
        self.faults.push(format!("{}: {what}", if at.is_empty() { "/" } else { at }));
    }

    fn fits(&self, schema: &Value, value: Json<'_>) -> bool {
        faults(self.root, schema, value).is_empty()
    }

    fn value(&mut self, schema: &Value, value: Json<'_>, at: &str) {
        let keywords = match schema {
            Value::Bool(true) => return,
            Value::Bool(false) => return self.fault(at, "nothing may stand here"),
            Value::Object(keywords) => keywords,
            other => panic!("{other} is no schema"),
        };
        for (keyword, want) in keywords {
            match keyword.as_str() {
                "title" | "description" | "default" | "examples" | "$schema" | "$defs" => {}
                "$ref" => {
                    let pointer =
                        want.as_str().and_then(|text| text.strip_prefix('#')).expect("a local $ref");
                    let target = self.root.pointer(pointer).unwrap_or_else(|| panic!("{want} leads nowhere"));
                    self.value(target, value, at);
                }
                "type" => {
                    let kinds = want.as_array().map_or(std::slice::from_ref(want), Vec::as_slice);
                    if !kinds.iter().any(|kind| is_type(kind.as_str().unwrap(), value)) {
                        self.fault(at, format!("not of type {want}: {}", short(value)));
                    }
                }
                "const" => {
                    if !equals(want, value) {
                        self.fault(at, format!("not {want}: {}", short(value)));
                    }
                }
                "enum" => {
                    if !want.as_array().unwrap().iter().any(|want| equals(want, value)) {
                        self.fault(at, format!("not one of {want}: {}", short(value)));
                    }
                }
                "minimum" | "maximum" => {
                    let (bound, number) = (want.as_f64().unwrap(), value.as_f64());
                    let beyond = |number| if keyword == "minimum" { number < bound } else { number > bound };
                    if number.is_some_and(beyond) {
                        self.fault(at, format!("{keyword} is {want}: {}", short(value)));
                    }
                }
                "minLength" => {
                    assert_eq!(want.as_u64(), Some(1), "only an empty string is looked for");
                    if value.as_str().is_some_and(|text| text.is_empty()) {
                        self.fault(at, "an empty string");
                    }
                }
                "minItems" => {
                    let short = value.elements().count() < want.as_u64().unwrap() as usize;
                    if value.kind() == Type::Array && short {
                        self.fault(at, format!("fewer than {want} elements"));
                    }
                }
                "maxItems" => {
                    if value.elements().count() as u64 > want.as_u64().unwrap() {
                        self.fault(at, format!("more than {want} elements"));
                    }
                }
                "uniqueItems" => {
                    let all: Vec<_> = value.elements().map(Json::text).collect();
                    let distinct: std::collections::HashSet<_> = all.iter().collect();
                    if distinct.len() < all.len() {
                        self.fault(at, "an element twice");
                    }
                }
                "items" => {
                    for (index, element) in value.elements().enumerate() {
                        self.value(want, element, &format!("{at}/{index}"));
                    }
                }
                "required" => {
                    for name in want.as_array().unwrap().iter().map(|name| name.as_str().unwrap()) {
                        if value.kind() == Type::Object && value.get(name).is_none() {
                            self.fault(at, format!("{name} is missing"));
                        }
                    }
                }
                "properties" => {
                    for (name, schema) in want.as_object().unwrap() {
                        if let Some(member) = value.get(name) {
                            self.value(schema, member, &format!("{at}/{name}"));
                        }
                    }
                }
                "additionalProperties" => {
                    assert_eq!(want, &Value::Bool(false));
                    let known = keywords.get("properties").and_then(Value::as_object);
                    for (name, _) in value.members() {
                        if known.is_none_or(|known| !known.contains_key(&*name.lossy())) {
                            self.fault(at, format!("no member {:?} is known", name.lossy()));
                        }
                    }
                }
                "not" => {
                    if self.fits(want, value) {
                        self.fault(at, format!("fits what it must not: {}", short(value)));
                    }
                }
                "allOf" => want.as_array().unwrap().iter().for_each(|part| self.value(part, value, at)),
                "anyOf" => {
                    if !want.as_array().unwrap().iter().any(|choice| self.fits(choice, value)) {
                        self.fault(at, format!("fits none of the choices: {}", short(value)));
                    }
                }
                "oneOf" => {
                    let fitting = want.as_array().unwrap().iter().filter(|choice| self.fits(choice, value));
                    let fitting = fitting.count();
                    if fitting != 1 {
                        self.fault(at, format!("fits {fitting} of the choices: {}", short(value)));
                    }
                }
                other => panic!("the keyword {other} is not checked; teach tests/schema_support about it"),
            }
        }
    }
}

fn is_type(kind: &str, value: Json<'_>) -> bool {
    match kind {
        "null" => value.kind() == Type::Null,
        "boolean" => value.kind() == Type::Bool,
        "string" => value.kind() == Type::String,
        "array" => value.kind() == Type::Array,
        "object" => value.kind() == Type::Object,
        "number" => value.kind() == Type::Number,
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("{other} is no type"),
    }
}

fn equals(want: &Value, value: Json<'_>) -> bool {
    match want {
        Value::Null => value.kind() == Type::Null,
        Value::Bool(want) => value.as_bool() == Some(*want),
        Value::Number(want) => value.as_f64() == want.as_f64(),
        Value::String(want) => value.is_str(want),
        other => panic!("const and enum hold no {other}"),
    }
}

fn short(value: Json<'_>) -> String {
    value.text().chars().take(80).collect()
}
