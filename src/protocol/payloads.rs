//! What writers put into `data` of turns, messages, calls and lists of things to do, and what readers look for:
//! described, not checked.
//!
//! The daemon never builds these types; they are FORMAT 3, 3.1 and 4 as schemas and for clients. What is checked is in
//! `schema/checks.rs`. The sets of kinds are closed here and open there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bookkeeping::*;
use super::shapes::{AnyObject, Event};

/// What an event says, for the types that writers and readers of conversations share.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Payload {
    TurnStart(TurnStart),
    TurnEnd(TurnEnd),
    StepStart(Place),
    StepEnd(Place),
    UserMessage(UserMessage),
    AssistantChunk(AssistantChunk),
    AssistantMessage(AssistantMessage),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    TodoWrite(TodoWrite),
    RequestHeader(HeaderEvent),
    RequestContext(RequestContext),
    SessionTitle(SessionTitle),
    CompactionStart(CompactionStart),
    CompactionSummary(CompactionSummary),
    CompactionPrune(Shadowed),
    CompactionEnd(CompactionEnd),
    ModelSelection(ModelSelection),
    /// Another type, or data that is not as writers put it there: [`Event::data`] has it.
    Other,
}

impl Payload {
    /// Reads the data of an event.
    pub fn of(event: &Event) -> Self {
        let data = &event.data;
        let read = match &*event.kind {
            "turn/start" => data.read().map(Self::TurnStart),
            "turn/end" => data.read().map(Self::TurnEnd),
            "step/start" => data.read().map(Self::StepStart),
            "step/end" => data.read().map(Self::StepEnd),
            "user/message" => data.read().map(Self::UserMessage),
            "assistant/chunk" => data.read().map(Self::AssistantChunk),
            "assistant/message" => data.read().map(Self::AssistantMessage),
            "tool/call" => data.read().map(Self::ToolCall),
            "tool/result" => data.read().map(Self::ToolResult),
            "todo/write" => data.read().map(Self::TodoWrite),
            "request/header" => data.read().map(Self::RequestHeader),
            "request/context" => data.read().map(Self::RequestContext),
            "session/title" => data.read().map(Self::SessionTitle),
            "compaction/start" => data.read().map(Self::CompactionStart),
            "compaction/summary" => data.read().map(Self::CompactionSummary),
            "compaction/prune" => data.read().map(Self::CompactionPrune),
            "compaction/end" => data.read().map(Self::CompactionEnd),
            "model/selection" => data.read().map(Self::ModelSelection),
            _ => return Self::Other,
        };
        read.unwrap_or(Self::Other)
    }
}

/// A turn begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnStart {
    /// Counts the session's turns from 1.
    #[schemars(range(min = 1))]
    pub turn: u64,
}

/// A turn is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnEnd {
    /// The open turn.
    #[schemars(range(min = 1))]
    pub turn: u64,
    /// Why it is over.
    pub reason: TurnEndReason,
}

/// Why a turn is over. The set is open: other kinds with any members are accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TurnEndReason {
    /// The model had nothing more to do.
    #[schemars(extend("additionalProperties" = false))]
    Completed,
    /// Something refused to let it go on.
    #[schemars(extend("additionalProperties" = false))]
    Blocked,
    /// The model's output reached its limit.
    #[schemars(extend("additionalProperties" = false))]
    MaxTokens,
    /// The writer died; written by repair.
    #[schemars(extend("additionalProperties" = false))]
    Interrupted,
    /// Someone ended it.
    Aborted {
        /// Who did.
        reason: AbortedBy,
    },
    /// It failed.
    Error {
        /// How.
        error: Failure,
    },
}

/// Who ended a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AbortedBy {
    /// The user.
    User,
    /// The parent of a delegated session.
    Parent,
    /// The end of the session.
    Disposed,
    /// Not known: an old log does not say.
    Legacy,
    /// A hook.
    Hook {
        /// The hook's own words.
        reason: String,
    },
}

/// A failure of a model's call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// For people.
    pub message: String,
    /// For programs.
    pub code: String,
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i64>,
    /// How long the provider asks to wait, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_retry_after_ms: Option<f64>,
    /// The provider's name of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Where in a turn something happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The open turn.
    #[schemars(range(min = 1))]
    pub turn: u64,
    /// The step; counts the turn's steps from 1.
    #[schemars(range(min = 1))]
    pub step: u64,
}

/// One piece of the model's stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantChunk {
    #[serde(flatten)]
    pub place: Place,
    /// The piece.
    pub chunk: Chunk,
}

/// A piece of a stream. `index` names the block that it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Chunk {
    /// A block begins.
    BlockStart {
        /// The block.
        index: u64,
        /// Its type.
        block_type: String,
    },
    /// More text.
    TextDelta {
        /// The block.
        index: u64,
        /// What comes behind the text so far.
        text: String,
    },
    /// More reasoning.
    ReasoningDelta {
        /// The block.
        index: u64,
        /// What comes behind the text so far.
        text: String,
    },
    /// More of a tool call.
    ToolCallDelta {
        /// The block.
        index: u64,
        /// The call.
        id: String,
        /// The tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What comes behind the arguments so far.
        arguments_delta: String,
    },
    /// A block is whole.
    BlockEnd {
        /// The block.
        index: u64,
        /// The whole of it.
        block: ContentBlock,
    },
    /// What the call took.
    Usage {
        /// The counts.
        usage: TokenUsage,
    },
    /// The stream is over: stop, tool-calls, max-tokens, aborted or error.
    Finish {
        /// Why.
        reason: Value,
        /// What the provider wants to see again.
        #[serde(skip_serializing_if = "Option::is_none")]
        replay_state: Option<Value>,
    },
}

/// A block of a message. The set is open: a content array may hold anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought.
    Reasoning {
        /// The text.
        text: String,
    },
    /// A picture, kept elsewhere.
    Image {
        /// Where, and what it is.
        #[schemars(with = "AnyObject")]
        attachment: Value,
    },
    /// The model asks for a tool.
    ToolCall {
        /// The call's id; its result names it.
        id: String,
        /// The tool.
        name: String,
        /// The arguments as JSON text.
        arguments: String,
    },
    /// What a tool gave.
    ToolResult {
        /// The call.
        tool_call_id: String,
        /// The result's own blocks.
        content: Vec<ContentBlock>,
        /// The tool failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
    },
    /// Another block.
    #[schemars(skip)]
    #[serde(untagged)]
    Other(Value),
}

/// Tokens of one model call; the counts do not overlap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Read anew.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Put into a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// Thought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

/// What was said to the model: by the user, or for the user by a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserMessage {
    /// Leave it out of an append to have one minted.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[schemars(extend("const" = "user"))]
    pub role: String,
    /// What was said.
    pub content: Vec<ContentBlock>,
    /// Who said it.
    pub source: UserSource,
}

/// Who spoke: the kind `user`; `plugin`, with its name; and others that speak for the user, with members of theirs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserSource {
    /// ACP clients see a message as the user's words only if its kind is `user`.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// The plugin's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// How it is meant; a live `notice` is told to ACP clients that take notices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// What a `notice` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// What the model said in a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantMessage {
    #[serde(flatten)]
    pub place: Place,
    /// The message.
    pub message: ModelMessage,
    /// What the call took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// The stream broke off.
    #[schemars(extend("const" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<bool>,
}

/// A model's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelMessage {
    /// Leave it out of an append to have one minted.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[schemars(extend("const" = "assistant"))]
    pub role: String,
    /// What was said; empty: the event gives no message.
    pub content: Vec<ContentBlock>,
    /// Which model.
    pub source: ModelSource,
}

/// The model that made a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSource {
    #[schemars(extend("const" = "model"))]
    pub kind: String,
    /// Who serves it.
    #[schemars(length(min = 1))]
    pub provider: String,
    /// Its name.
    #[schemars(length(min = 1))]
    pub model: String,
    /// What the provider wants to see again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_state: Option<Value>,
}

/// A tool was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    #[serde(flatten)]
    pub place: Place,
    /// The call, as the assistant's block names it. A result that names none that was started is refused.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
}

/// A tool's result, or, replacing one, its shortened form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    #[serde(flatten)]
    pub place: Place,
    /// The message that the model gets.
    pub message: ToolMessage,
    /// The tool failed: how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// For programs; the model does not see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// A tool's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolMessage {
    /// Leave it out of an append to have one minted.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[schemars(extend("const" = "user"))]
    pub role: String,
    /// The result.
    #[schemars(length(min = 1, max = 1))]
    pub content: Vec<ToolResultBlock>,
    /// Which call.
    pub source: ToolSource,
}

/// The one block of a tool's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultBlock {
    #[serde(rename = "type")]
    #[schemars(extend("const" = "tool-result"))]
    pub kind: String,
    /// The call, as in the message's source.
    #[schemars(length(min = 1))]
    pub tool_call_id: String,
    /// What the tool gave.
    pub content: Vec<ContentBlock>,
    /// The tool failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// Which call a result is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolSource {
    #[schemars(extend("const" = "tool"))]
    pub kind: String,
    /// The call.
    #[schemars(length(min = 1))]
    pub call_id: String,
}

/// How a tool failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolError {
    /// The error's class.
    pub name: String,
    /// For programs. With `TOOL_NOT_STARTED`, and `isError` in the block, the call need not have been started.
    pub code: String,
}

/// The whole list of things to do; the last one holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TodoWrite {
    /// All of them, in order.
    pub todos: Vec<Todo>,
}

/// A thing to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// What.
    pub content: String,
    /// How it stands.
    pub status: TodoStatus,
}

/// How a thing to do stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}
