//! What writers put into `data` of turns, messages, calls and lists of things to do, and what readers look for:
//! described, not checked.
//!
//! The daemon never builds these types; they are FORMAT 3, 3.1 and 4 as schemas. What is checked is in
//! `checks`. The sets of kinds are closed here and open there.

#![expect(dead_code, reason = "the derived schema is all that is used")]

use schemars::JsonSchema;
use serde_json::Value;

use crate::protocol::shapes::AnyObject;

/// A turn begins.
#[derive(JsonSchema)]
pub(super) struct TurnStart {
    /// Counts the session's turns from 1.
    #[schemars(range(min = 1))]
    turn: u64,
}

/// A turn is over.
#[derive(JsonSchema)]
pub(super) struct TurnEnd {
    /// The open turn.
    #[schemars(range(min = 1))]
    turn: u64,
    /// Why it is over.
    reason: TurnEndReason,
}

/// Why a turn is over. The set is open: other kinds with any members are accepted.
#[derive(JsonSchema)]
#[schemars(tag = "kind", rename_all = "kebab-case")]
enum TurnEndReason {
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
#[derive(JsonSchema)]
#[schemars(tag = "kind", rename_all = "kebab-case")]
enum AbortedBy {
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
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct Failure {
    /// For people.
    message: String,
    /// For programs.
    code: String,
    /// The HTTP status.
    status: Option<i64>,
    /// How long the provider asks to wait, in milliseconds.
    provider_retry_after_ms: Option<f64>,
    /// The provider's name of the call.
    request_id: Option<String>,
}

/// Where in a turn something happens.
#[derive(JsonSchema)]
pub(super) struct Place {
    /// The open turn.
    #[schemars(range(min = 1))]
    turn: u64,
    /// The step; counts the turn's steps from 1.
    #[schemars(range(min = 1))]
    step: u64,
}

/// One piece of the model's stream.
#[derive(JsonSchema)]
pub(super) struct AssistantChunk {
    #[schemars(flatten)]
    place: Place,
    /// The piece.
    chunk: Chunk,
}

/// A piece of a stream. `index` names the block that it belongs to.
#[derive(JsonSchema)]
#[schemars(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum Chunk {
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
        replay_state: Option<Value>,
    },
}

/// A block of a message. The set is open: a content array may hold anything.
#[derive(JsonSchema)]
#[schemars(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum ContentBlock {
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
        attachment: AnyObject,
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
        is_error: Option<bool>,
    },
}

/// Tokens of one model call; the counts do not overlap.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct TokenUsage {
    /// Read anew.
    input_tokens: u64,
    /// Written.
    output_tokens: u64,
    /// Read from a cache.
    cache_read_tokens: Option<u64>,
    /// Put into a cache.
    cache_write_tokens: Option<u64>,
    /// Thought.
    reasoning_tokens: Option<u64>,
}

/// What was said to the model: by the user, or for the user by a plugin.
#[derive(JsonSchema)]
pub(super) struct UserMessage {
    /// Leave it out of an append to have one minted.
    #[schemars(length(min = 1))]
    id: Option<String>,
    #[schemars(extend("const" = "user"))]
    role: String,
    /// What was said.
    content: Vec<ContentBlock>,
    /// Who said it.
    source: UserSource,
}

/// Who spoke: the kind `user`; `plugin`, with its name; and others that speak for the user, with members of theirs.
#[derive(JsonSchema)]
struct UserSource {
    /// Only what is of the kind `user` is told to ACP clients as the user's words.
    #[schemars(length(min = 1))]
    kind: String,
    /// The plugin's name.
    plugin: Option<String>,
    /// How it is meant; a live `notice` is told to ACP clients that take notices.
    form: Option<String>,
    /// What a `notice` says.
    summary: Option<String>,
}

/// What the model said in a step.
#[derive(JsonSchema)]
pub(super) struct AssistantMessage {
    #[schemars(flatten)]
    place: Place,
    /// The message.
    message: ModelMessage,
    /// What the call took.
    usage: Option<TokenUsage>,
    /// The stream broke off.
    #[schemars(extend("const" = true))]
    interrupted: Option<bool>,
}

/// A model's message.
#[derive(JsonSchema)]
struct ModelMessage {
    /// Leave it out of an append to have one minted.
    #[schemars(length(min = 1))]
    id: Option<String>,
    #[schemars(extend("const" = "assistant"))]
    role: String,
    /// What was said; empty: the event gives no message.
    content: Vec<ContentBlock>,
    /// Which model.
    source: ModelSource,
}

/// The model that made a message.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct ModelSource {
    #[schemars(extend("const" = "model"))]
    kind: String,
    /// Who serves it.
    #[schemars(length(min = 1))]
    provider: String,
    /// Its name.
    #[schemars(length(min = 1))]
    model: String,
    /// What the provider wants to see again.
    replay_state: Option<Value>,
}

/// A tool was started.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(super) struct ToolCall {
    #[schemars(flatten)]
    place: Place,
    /// The call, as the assistant's block names it. A result that names none that was started is refused.
    call_id: String,
    /// The tool.
    name: String,
    /// The arguments as JSON text.
    arguments: String,
}

/// A tool's result, or, replacing one, its shortened form.
#[derive(JsonSchema)]
pub(super) struct ToolResult {
    #[schemars(flatten)]
    place: Place,
    /// The message that the model gets.
    message: ToolMessage,
    /// The tool failed: how.
    error: Option<ToolError>,
    /// For programs; the model does not see it.
    meta: Option<Value>,
}

/// A tool's message.
#[derive(JsonSchema)]
struct ToolMessage {
    /// Leave it out of an append to have one minted.
    #[schemars(length(min = 1))]
    id: Option<String>,
    #[schemars(extend("const" = "user"))]
    role: String,
    /// The result.
    #[schemars(length(min = 1, max = 1))]
    content: Vec<ToolResultBlock>,
    /// Which call.
    source: ToolSource,
}

/// The one block of a tool's message.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct ToolResultBlock {
    #[schemars(rename = "type", extend("const" = "tool-result"))]
    kind: String,
    /// The call, as in the message's source.
    #[schemars(length(min = 1))]
    tool_call_id: String,
    /// What the tool gave.
    content: Vec<ContentBlock>,
    /// The tool failed.
    is_error: Option<bool>,
}

/// Which call a result is of.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct ToolSource {
    #[schemars(extend("const" = "tool"))]
    kind: String,
    /// The call.
    #[schemars(length(min = 1))]
    call_id: String,
}

/// How a tool failed.
#[derive(JsonSchema)]
struct ToolError {
    /// The error's class.
    name: String,
    /// For programs. With `TOOL_NOT_STARTED`, and `isError` in the block, the call need not have been started.
    code: String,
}

/// The whole list of things to do; the last one holds.
#[derive(JsonSchema)]
pub(super) struct TodoWrite {
    /// All of them, in order.
    todos: Vec<Todo>,
}

/// A thing to do.
#[derive(JsonSchema)]
struct Todo {
    /// What.
    content: String,
    /// How it stands.
    status: TodoStatus,
}

/// How a thing to do stands.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}
