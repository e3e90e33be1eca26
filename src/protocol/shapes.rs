//! Shapes that pass through as text and are only described: for the schemas and for clients, not for the daemon.
//!
//! The daemon never builds these types from a line; `view` and `session` check the text itself. The
//! schema test holds transcripts to them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::RawJson;
use super::payloads::ContentBlock;

/// A JSON object, kept as text.
#[derive(Clone, Debug)]
pub struct AnyObject;

impl JsonSchema for AnyObject {
    fn schema_name() -> Cow<'static, str> {
        "AnyObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// How an event joins the surface: `"append"`, or in place of a range of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "SurfaceOpText")]
pub enum SurfaceOp {
    /// A new node at the end.
    Append,
    /// A node in place of the nodes from start to end, both included.
    Replace {
        /// The seq of the first of them.
        start: u64,
        /// The seq of the last of them.
        end: u64,
    },
}

/// The same as it is spelt.
#[derive(Deserialize)]
#[serde(untagged)]
enum SurfaceOpText {
    Word(AppendWord),
    Object { op: ReplaceWord, start: u64, end: u64 },
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum AppendWord {
    Append,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReplaceWord {
    Replace,
}

impl From<SurfaceOpText> for SurfaceOp {
    fn from(text: SurfaceOpText) -> Self {
        match text {
            SurfaceOpText::Word(AppendWord::Append) => Self::Append,
            SurfaceOpText::Object { op: ReplaceWord::Replace, start, end } => Self::Replace { start, end },
        }
    }
}

impl Serialize for SurfaceOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawJson::from(*self).serialize(serializer)
    }
}

impl From<SurfaceOp> for RawJson {
    fn from(op: SurfaceOp) -> Self {
        Self::from_text(match op {
            SurfaceOp::Append => "\"append\"".to_owned(),
            SurfaceOp::Replace { start, end } => {
                format!("{{\"op\":\"replace\",\"start\":{start},\"end\":{end}}}")
            }
        })
    }
}

impl JsonSchema for SurfaceOp {
    fn schema_name() -> Cow<'static, str> {
        "SurfaceOp".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let seq = generator.subschema_for::<u64>();
        json_schema!({
            "description": "How a user/message, assistant/message or tool/result joins the surface; no other type has it.",
            "anyOf": [
                { "const": "append", "description": "A new node at the end." },
                {
                    "type": "object",
                    "description": "A node in place of the nodes from start to end, both included, as they stand on the surface now.",
                    "properties": { "op": { "const": "replace" }, "start": seq, "end": seq },
                    "required": ["op", "start", "end"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

/// A committed event, its members in this order: the same bytes in memory, on disk and on the wire.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Event {
    /// One of the known types, a type that this client has declared, or any type when `ignorable`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The position in the log, from 0 without gaps.
    pub seq: u64,
    /// Milliseconds since the Unix epoch by the writer's clock, which may step back.
    pub time: i64,
    /// The payload: any JSON value; number and string texts and key order are kept.
    pub data: RawJson,
    /// The earlier events that a message was made from; a replacement cites every event that it shadows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("uniqueItems" = true))]
    pub source_event_seqs: Option<Vec<u64>>,
    /// How the event joins the surface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surface_op: Option<SurfaceOp>,
    /// Readers that do not know the type may pass the event over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("const" = true))]
    pub ignorable: Option<bool>,
}

/// Who speaks in a message on the surface: a tool's result speaks as the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Role {
    User,
    Assistant,
}

/// A message as the log holds it: the data of a `user/message`, or `data.message` of an
/// `assistant/message` or `tool/result`. It may hold more members.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Minted by an append that gives none.
    #[schemars(length(min = 1))]
    pub id: String,
    /// Who speaks.
    pub role: Role,
    /// Blocks: text, reasoning, image, tool-call, tool-result, and kinds of the future.
    #[schemars(with = "Vec<RawJson>")]
    pub content: Vec<ContentBlock>,
    /// Where the message comes from.
    pub source: MessageSource,
}

/// Where a message comes from: `{kind: "user"}`, `{kind: "plugin", plugin}`, `{kind: "model", provider,
/// model}`, `{kind: "tool", callId}`, and kinds of the future.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageSource {
    /// What kind of source; an assistant's message has `model`, a tool's result `tool`.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Its other members.
    #[serde(flatten)]
    #[schemars(skip)]
    pub facts: Map<String, Value>,
}

/// A canonical request header: empty members are left out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestHeader {
    /// The model and how it is called.
    pub config: RequestConfig,
    /// Which members of the config are the adapter's defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    pub adapter_defaults: Option<RawJson>,
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<RawJson>,
    /// The tools that are offered to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<RawJson>,
    /// A session prefix; never mixed into the messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<RawJson>,
}

/// The model and how it is called. It may hold more members, such as temperature, maxTokens and stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestConfig {
    /// Who serves the model.
    #[schemars(length(min = 1))]
    pub provider: String,
    /// The model.
    #[schemars(length(min = 1))]
    pub model: String,
    /// How much it is to think.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub reasoning_effort: Option<String>,
}

/// The params of the `session/update` notification hold an update of ACP: its tag and what that needs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionUpdate {
    /// ACP's tag, such as `user_message_chunk`, `agent_message_chunk`, `tool_call` or `plan`.
    pub session_update: String,
}

/// A request's id.
#[derive(Clone, Debug)]
pub struct RequestId;

impl JsonSchema for RequestId {
    fn schema_name() -> Cow<'static, str> {
        "RequestId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "null"] })
    }

    fn inline_schema() -> bool {
        true
    }
}
