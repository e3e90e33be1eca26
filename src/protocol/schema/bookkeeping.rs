//! What writers put into `data` of what stands around the conversation (how the model is called, titles, compaction),
//! and what readers look for: described, not checked, as in `payloads`.

#![expect(dead_code, reason = "the derived schema is all that is used")]

use schemars::JsonSchema;
use serde_json::Value;

use crate::protocol::payloads::ContentBlock;
use crate::protocol::shapes::RequestConfig;

/// How the model is called from here on; the last one holds.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct HeaderEvent {
    /// The model, its settings, its system prompt and its tools.
    header: Header,
    /// Why it was written.
    reason: HeaderReason,
    /// A new series of requests begins at once.
    #[schemars(extend("const" = true))]
    starts_series: Option<bool>,
}

/// The model, its settings, its system prompt and its tools; `adapterDefaults` as in what is checked.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct Header {
    /// The model and how it is called.
    config: RequestConfig,
    /// The system prompt.
    system: Option<String>,
    /// The tools that the model is told of.
    tools: Option<Vec<ToolSpec>>,
    /// A session prefix; never mixed into the messages.
    prefix: Option<Vec<Value>>,
}

/// A tool that the model is told of.
#[derive(JsonSchema)]
struct ToolSpec {
    /// Its name.
    name: String,
    /// What it is for.
    description: String,
    /// The JSON Schema of its arguments.
    parameters: Value,
}

/// Why a header was written: the session's first, the first of a new process over a log that has one, another
/// than before, or the same again where a series begins.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum HeaderReason {
    Initial,
    Resume,
    Change,
    Series,
}

/// The model that the next requests go to; the last one holds, whole.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct RequestContext {
    /// Who serves the model.
    provider: String,
    /// The model.
    model: String,
    /// How many tokens it takes; absent: not known.
    context_window: Option<u64>,
}

/// The model that the user chose.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct ModelSelection {
    /// Who serves the model.
    provider: String,
    /// The model.
    model: String,
    /// How much it is to think.
    reasoning_effort: Option<String>,
}

/// The models that may be chosen for agents that the session starts.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct ModelSelectionPolicy {
    /// Which they are.
    #[schemars(length(min = 1))]
    allowed_models: Vec<AllowedModel>,
}

/// A model that may be chosen.
#[derive(JsonSchema)]
struct AllowedModel {
    /// Who serves it.
    provider: String,
    /// The model.
    model: String,
}

/// How much of the log a service has taken.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct DeliveryAccepted {
    /// The session that was sent; in a fork's inherited events the one that it was forked from.
    session_id: String,
    /// The last event that was sent.
    through_seq: u64,
}

/// Nothing.
#[derive(JsonSchema)]
pub(super) struct EndSeed {}

/// The session's title; the last one that has text holds.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct SessionTitle {
    /// The title; what is no string or is empty changes nothing.
    #[schemars(length(min = 1))]
    title: String,
    /// The messages that it was made from; empty for one that the user gave.
    message_seqs: Vec<u64>,
    /// Who made it.
    source: TitleSource,
}

/// Who made a title: `fallback`, `user` or `provider`.
#[derive(JsonSchema)]
struct TitleSource {
    /// Which of them.
    kind: String,
}

/// A compaction begins.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct CompactionStart {
    /// Names it.
    compaction_id: String,
    /// The command that asked for it.
    source_command_id: Option<String>,
    /// The open turn; null outside one.
    turn: Value,
}

/// What a compaction puts in place of a range. The replacing user/message follows directly.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct CompactionSummary {
    /// The compaction.
    compaction_id: String,
    /// The summary.
    summary: Vec<ContentBlock>,
    #[schemars(flatten)]
    shadowed: Shadowed,
    /// Who serves the model that made it.
    provider: String,
    /// The model that made it.
    model: String,
    /// What the model said.
    raw_output: Option<Value>,
}

/// What a replacement hides. The replacing event follows directly.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct Shadowed {
    /// The range on the surface.
    shadowed_range: SurfaceRange,
    /// Its events.
    shadowed_seqs: Vec<u64>,
    /// Their tokens.
    shadowed_token_count: u64,
}

/// A range on the surface, both ends included.
#[derive(JsonSchema)]
struct SurfaceRange {
    /// The first event.
    start: u64,
    /// The last event.
    end: u64,
}

/// A compaction is over.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct CompactionEnd {
    /// The compaction.
    compaction_id: String,
    /// The open turn; null outside one.
    turn: Value,
    /// It failed: how.
    error: Option<Value>,
}
