//! The error object, from the one table of codes (PROTOCOL 5).

use serde_json::{Map, Value, json};

use super::{Document, document as titled};
use crate::json::MAX_SAFE_INTEGER;
use crate::protocol::{Code, FactKind};

/// The document of the error object.
pub(super) fn document() -> Document {
    let mut document = titled(
        "error",
        "The error of a response. data.code is the stable name; data holds the facts of that name and may hold more.",
        [
            ("type", json!("object")),
            ("required", json!(["code", "message", "data"])),
            ("additionalProperties", json!(false)),
            ("oneOf", Code::ALL.iter().copied().map(one).collect()),
        ],
    );
    let properties = json!({
        "code": { "type": "integer", "description": "The JSON-RPC number; several names may share one." },
        "message": { "type": "string", "description": "What was wrong and what to do, for people." },
        "data": {
            "type": "object",
            "required": ["code"],
            "properties": { "code": { "type": "string", "description": "The stable name." } }
        }
    });
    document.insert("properties".to_owned(), properties);
    document
}

/// One code: its number, its name, its facts.
fn one(code: Code) -> Value {
    let mut required = vec!["code"];
    let mut properties = Map::new();
    properties.insert("code".to_owned(), json!({ "const": code.name() }));
    for (name, kind) in code.facts() {
        let bare = name.trim_end_matches('?');
        if bare == *name {
            required.push(bare);
        }
        properties.insert(bare.to_owned(), fact(*kind));
    }
    json!({
        "title": code.name(),
        "description": code.meaning(),
        "properties": {
            "code": { "const": code.number() },
            "data": { "properties": properties, "required": required }
        }
    })
}

fn fact(kind: FactKind) -> Value {
    match kind {
        FactKind::Text => json!({ "type": "string" }),
        FactKind::Count => json!({ "type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER }),
        FactKind::CountOrNull => {
            json!({ "type": ["integer", "null"], "minimum": 0, "maximum": MAX_SAFE_INTEGER })
        }
        FactKind::Names => json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
        FactKind::Flag => json!({ "type": "boolean" }),
        FactKind::Any => json!(true),
    }
}
