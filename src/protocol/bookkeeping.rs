//! What writers put into `data` of what stands around the conversation (how the model is called, titles, compaction),
//! and what readers look for: described, not checked, as in `payloads`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::payloads::ContentBlock;
use super::shapes::RequestConfig;

/// How the model is called from here on; the last one holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeaderEvent {
    /// The model, its settings, its system prompt and its tools.
    pub header: Header,
    /// Why it was written.
    pub reason: HeaderReason,
    /// A new series of requests begins at once.
    #[schemars(extend("const" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_series: Option<bool>,
}

/// The model, its settings, its system prompt and its tools; `adapterDefaults` as in what is checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The model and how it is called.
    pub config: RequestConfig,
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The tools that are offered to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSpec>>,
    /// A session prefix; never mixed into the messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Vec<Value>>,
}

/// A tool that is offered to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// Why a header was written: the session's first, the first of a new process over a log that has one, another
/// than before, or the same again where a series begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HeaderReason {
    Initial,
    Resume,
    Change,
    Series,
}

/// The model that the next requests go to; the last one holds, whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestContext {
    /// Who serves the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// How many tokens it takes; absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

/// The model that the user chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSelection {
    /// Who serves the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// How much it is to think.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
}

/// The models that may be chosen for agents that the session starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSelectionPolicy {
    /// Which they are.
    #[schemars(length(min = 1))]
    pub allowed_models: Vec<AllowedModel>,
}

/// A model that may be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AllowedModel {
    /// Who serves it.
    pub provider: String,
    /// The model.
    pub model: String,
}

/// How much of the log a service has taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAccepted {
    /// The session that was sent; in a fork's inherited events the one that it was forked from.
    pub session_id: String,
    /// The last event that was sent.
    pub through_seq: u64,
}

/// Nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EndSeed {}

/// The session's title; the last one that has text holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionTitle {
    /// The title; what is no string or is empty changes nothing.
    #[schemars(length(min = 1))]
    pub title: String,
    /// The messages that it was made from; empty for one that the user gave.
    pub message_seqs: Vec<u64>,
    /// Who made it.
    pub source: TitleSource,
}

/// Who made a title: `fallback`, `user` or `provider`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TitleSource {
    /// Which of them.
    pub kind: String,
}

/// A compaction begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactionStart {
    /// Names it.
    pub compaction_id: String,
    /// The command that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_command_id: Option<String>,
    /// The open turn; null outside one.
    pub turn: Value,
}

/// What a compaction puts in place of a range. The replacing user/message follows directly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactionSummary {
    /// The compaction.
    pub compaction_id: String,
    /// The summary.
    pub summary: Vec<ContentBlock>,
    #[serde(flatten)]
    pub shadowed: Shadowed,
    /// Who serves the model that made it.
    pub provider: String,
    /// The model that made it.
    pub model: String,
    /// What the model said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Value>,
}

/// What a replacement hides. The replacing event follows directly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shadowed {
    /// The range on the surface.
    pub shadowed_range: SurfaceRange,
    /// Its events.
    pub shadowed_seqs: Vec<u64>,
    /// Their tokens.
    pub shadowed_token_count: u64,
}

/// A range on the surface, both ends included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SurfaceRange {
    /// The first event.
    pub start: u64,
    /// The last event.
    pub end: u64,
}

/// A compaction is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactionEnd {
    /// The compaction.
    pub compaction_id: String,
    /// The open turn; null outside one.
    pub turn: Value,
    /// It failed: how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
}
