//! What `data` must be, as schemas: `view::shape` and `view::relations` put so that a client can read it.
//!
//! The checks themselves walk text and allocate nothing, so they are not made from these;
//! `tests/docs/event_types.rs` changes samples in every place and holds both to the same answers.

use serde_json::{Value, json};

use crate::json::MAX_SAFE_INTEGER;
use crate::log::Kind;

/// A text with something in it.
fn filled(description: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "description": description })
}

/// What every append, seed and load checks of `data`; a message's id may be absent in an append only.
pub(super) fn data(kind: Kind) -> Value {
    match kind {
        Kind::UserMessage => message("user", user_source(), json!({ "type": "array" })),
        Kind::AssistantMessage => {
            in_message(message("assistant", model_source(), json!({ "type": "array" })))
        }
        Kind::ToolResult => in_message(message("user", tool_source(), one_result())),
        Kind::RequestHeader => request_header(),
        Kind::TurnStart => json!({
            "description": "Of any kind; a member trigger is of another time.",
            "properties": { "trigger": false }
        }),
        Kind::TurnEnd => turn_end(),
        _ => json!(true),
    }
}

fn in_message(message: Value) -> Value {
    json!({
        "type": "object",
        "description": "More members are kept.",
        "properties": { "message": message },
        "required": ["message"]
    })
}

fn message(role: &str, source: Value, content: Value) -> Value {
    json!({
        "type": "object",
        "description": "More members are kept.",
        "properties": {
            "id": filled("Minted where an append has none; there in a seed and in every committed event."),
            "role": { "const": role },
            "content": content,
            "source": source
        },
        "required": ["role", "content", "source"]
    })
}

fn user_source() -> Value {
    json!({ "type": "object", "properties": { "kind": filled("Any.") }, "required": ["kind"] })
}

fn model_source() -> Value {
    json!({
        "type": "object",
        "properties": {
            "kind": { "const": "model" },
            "provider": filled("Who serves the model."),
            "model": filled("The model.")
        },
        "required": ["kind", "provider", "model"]
    })
}

fn tool_source() -> Value {
    json!({
        "type": "object",
        "properties": { "kind": { "const": "tool" }, "callId": filled("The call.") },
        "required": ["kind", "callId"]
    })
}

fn one_result() -> Value {
    json!({
        "type": "array",
        "minItems": 1,
        "maxItems": 1,
        "items": {
            "type": "object",
            "properties": {
                "type": { "const": "tool-result" },
                "content": { "type": "array" },
                "toolCallId": filled("Equal to the source's callId.")
            },
            "required": ["type", "content", "toolCallId"]
        }
    })
}

/// `adapterDefaults` may mark a member only where the config has it.
fn request_header() -> Value {
    let marked_is_there = |name: &str| {
        json!({ "anyOf": [
            { "properties": { "adapterDefaults": { "properties": { name: false } } } },
            { "properties": { "config": { "required": [name] } } }
        ] })
    };
    json!({
        "type": "object",
        "description": "More members are kept.",
        "properties": {
            "header": {
                "type": "object",
                "properties": {
                    "config": {
                        "type": "object",
                        "description": "More members are kept; maxTokens may be of any kind.",
                        "properties": {
                            "provider": filled("Who serves the model."),
                            "model": filled("The model."),
                            "reasoningEffort": filled("How much it is to think.")
                        },
                        "required": ["provider", "model"]
                    },
                    "adapterDefaults": {
                        "type": "object",
                        "description": "Which members of config are the adapter's defaults; config must have them.",
                        "properties": { "reasoningEffort": { "const": true }, "maxTokens": { "const": true } },
                        "additionalProperties": false
                    }
                },
                "required": ["config"],
                "allOf": [marked_is_there("reasoningEffort"), marked_is_there("maxTokens")]
            },
            "reason": {
                "description": "Anything, or absent, but not the reason of another time.",
                "not": { "const": "fallback" }
            }
        },
        "required": ["header"]
    })
}

/// Reasons that hold nothing but their kind.
const BARE: [&str; 4] = ["completed", "blocked", "max-tokens", "interrupted"];

fn turn_end() -> Value {
    let with = |kind: &str, member: &str| {
        json!({
            "type": "object",
            "description": "More members are kept.",
            "properties": { "kind": { "const": kind } },
            "required": ["kind", member]
        })
    };
    let named = [&BARE[..], &["aborted", "error", "disposed"]].concat();
    let reasons = json!([
        {
            "type": "object",
            "properties": { "kind": { "enum": BARE } },
            "required": ["kind"],
            "additionalProperties": false
        },
        with("aborted", "reason"),
        with("error", "error"),
        {
            "type": "object",
            "description": "Kinds of the future, with any members; disposed is of another time.",
            "properties": { "kind": { "type": "string", "not": { "enum": named } } },
            "required": ["kind"]
        }
    ]);
    json!({
        "description": "Exactly turn and reason. What is no object at all passes, but not where invariants are enforced.",
        "properties": {
            "turn": { "type": "integer", "minimum": 1, "maximum": MAX_SAFE_INTEGER },
            "reason": { "anyOf": reasons }
        },
        "required": ["turn", "reason"],
        "additionalProperties": false
    })
}

/// What is checked besides where invariants are enforced, whatever the log holds; more follows from `rules`.
pub(super) fn enforced(kind: Kind) -> Option<Value> {
    let number = json!({ "type": "integer", "minimum": 1 });
    // As the reference compares them, null is the number of a turn or step while none is open.
    let number_or_none = json!({ "type": ["integer", "null"], "minimum": 1 });
    let place = |turn: &Value, step: &Value| {
        json!({
            "type": "object",
            "properties": { "turn": turn, "step": step },
            "required": ["turn", "step"]
        })
    };
    let schema = match kind {
        Kind::TurnStart | Kind::TurnEnd => {
            json!({ "type": "object", "properties": { "turn": number }, "required": ["turn"] })
        }
        Kind::StepStart => place(&number_or_none, &number),
        Kind::StepEnd | Kind::AssistantChunk | Kind::AssistantMessage | Kind::ToolCall => {
            place(&number_or_none, &number_or_none)
        }
        Kind::ToolResult => {
            let mut schema = place(&number_or_none, &number_or_none);
            if let Some(members) = schema.as_object_mut() {
                let text = "With surfaceOp \"append\"; a replacement repeats what it replaces.";
                members.insert("description".to_owned(), json!(text));
            }
            schema
        }
        _ => return None,
    };
    Some(schema)
}

/// The rules that no schema of one event's data says, by the names that a refusal gives as `data.rule`.
pub(super) fn rules(kind: Kind) -> Vec<(&'static str, &'static str)> {
    const IN_STEP: (&str, &str) =
        ("INV_NOT_IN_OPEN_STEP", "turn and step are the numbers of the open turn and step");
    const IN_TURN: (&str, &str) = ("INV_OUTSIDE_TURN", "a turn is open");
    match kind {
        Kind::TurnStart => vec![
            ("INV_TURN_ALREADY_OPEN", "no turn is open"),
            ("INV_TURN_NUMBER", "turn is one more than the number of turns that ended in this log"),
        ],
        Kind::TurnEnd => vec![
            ("INV_TURN_END_MISMATCH", "turn is the number of the open turn"),
            ("INV_TURN_END_STEP_OPEN", "no step is open"),
        ],
        Kind::StepStart => vec![
            ("INV_STEP_WRONG_TURN", "turn is the number of the open turn"),
            ("INV_STEP_ALREADY_OPEN", "no step is open"),
            ("INV_STEP_NUMBER", "step is one more than the number of steps that ended in this turn"),
        ],
        Kind::StepEnd | Kind::AssistantChunk | Kind::AssistantMessage | Kind::ToolCall => vec![IN_STEP],
        Kind::ToolResult => vec![
            ("MESSAGE_TOOL_CALL_ID", "the block's toolCallId equals the source's callId"),
            ("TOOL_REWRITE_NOT_SINGLE", "a replacement takes the place of one event"),
            ("TOOL_REWRITE_TARGET", "a replacement takes the place of a tool/result"),
            (
                "TOOL_REWRITE_CHANGED",
                "a replacement equals what it replaces but for message.content[0].content",
            ),
            IN_STEP,
            (
                "INV_RESULT_WITHOUT_CALL",
                "a tool/call of this step started the callId and it has no result yet, or error.code is TOOL_NOT_STARTED and the block's isError is true",
            ),
            ("INV_REWRITE_OUTSIDE_TURN", "a replacement is made while a turn is open"),
        ],
        Kind::TodoWrite | Kind::RequestHeader | Kind::RequestContext => vec![IN_TURN],
        _ => Vec::new(),
    }
}
