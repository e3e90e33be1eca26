//! The payload shapes that every append, seed and load must have.
//!
//! The reference checks them only when it loads a log (FORMAT 2.2, 4 and 14); here an append is held to
//! the same rules, so what it accepts, every later load accepts (PROTOCOL 3 and 9). Each object is
//! walked once and an accepted event allocates nothing.

use super::message_id::IdGap;
use super::reading::{Message, Source};
use crate::json::{Fields, Json, JsonStr, Type};
use crate::log::{Draft, Kind};

/// Where a message stands in its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageAt {
    /// The data of a `user/message` is the message itself.
    Data,
    /// `data.message` of an `assistant/message` or `tool/result`.
    Member,
}

/// Why an event's payload is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A type of another time.
    #[error("the type {0} is retired; {1}")]
    RetiredType(&'static str, &'static str),
    /// A `request/header` with a reason of another time.
    #[error("a request/header's reason \"fallback\" is retired; use initial, resume, change or series")]
    HeaderFallback,
    /// A `request/header` that does not say which model it is for.
    #[error("a request/header needs header.config with non-empty strings provider and model")]
    HeaderProviderModel,
    /// `config.reasoningEffort` is there and not a non-empty string.
    #[error("a request/header's config.reasoningEffort must be a non-empty string or absent")]
    HeaderReasoningEffort,
    /// `adapterDefaults` is there and does not mark members of the config.
    #[error(
        "a request/header's adapterDefaults may hold only reasoningEffort and maxTokens, each true and \
         each naming a member that config has"
    )]
    HeaderAdapterDefaults,
    /// There is no message object.
    #[error("the event needs a message object with id, role, content and source {}", .0.hint())]
    MessageMissing(MessageAt),
    /// The message's id is not a non-empty string.
    #[error("a message's id must be a non-empty string; leave it out of an append to have one minted")]
    MessageId(MessageAt),
    /// The message's role does not fit the event's type.
    #[error("this event's message must have the role {1:?}")]
    MessageRole(MessageAt, &'static str),
    /// The message's source has no kind.
    #[error("a message needs a source: an object with a non-empty string kind")]
    MessageSource(MessageAt),
    /// The same, and its content is no array either: told at once, as who writes the one wrong mostly lacks the other.
    #[error(
        "a message's content must be an array of blocks, such as {{\"type\":\"text\",\"text\":…}}, and it needs a source: an object with a non-empty string kind"
    )]
    MessageContentAndSource(MessageAt),
    /// The message's content is no array.
    #[error("a message's content must be an array of blocks, such as {{\"type\":\"text\",\"text\":…}}")]
    MessageContent(MessageAt),
    /// An assistant's message that no model has made.
    #[error("an assistant's message needs a source of kind \"model\" with non-empty provider and model")]
    ModelSource,
    /// A tool's result that does not say of which call.
    #[error("a tool result's message needs a source of kind \"tool\" with a non-empty callId")]
    ToolSource,
    /// A tool's result without its one block.
    #[error("a tool result's content must be one block of type \"tool-result\" with a content array")]
    ToolResultBlock,
    /// A tool's result whose two call ids differ.
    #[error("a tool result's block must have a toolCallId equal to its source's callId")]
    ToolCallId,
    /// A `turn/start` of another time.
    #[error("a turn/start no longer has a trigger; leave it out")]
    TurnStartTrigger,
    /// A `turn/end` with more than turn and reason.
    #[error("a turn/end's data must hold turn and reason and nothing else")]
    TurnEndMembers,
    /// A `turn/end` without one of them.
    #[error("a turn/end's data needs a {0}: it holds {{turn, reason: {{kind, …}}}}")]
    TurnEndMissing(&'static str),
    /// A `turn/end` whose turn does not count from 1.
    #[error("a turn/end's turn must be a safe integer, 1 or more")]
    TurnEndTurn,
    /// A `turn/end` whose reason has no kind.
    #[error("a turn/end's reason must be an object with a string kind")]
    TurnEndReason,
    /// A reason with more to it than its kind allows.
    #[error("a turn/end's reason of this kind holds nothing but its kind")]
    TurnEndReasonMembers,
    /// A reason as another time wrote it.
    #[error("this form of a turn/end's reason is retired; use {0}")]
    TurnEndLegacy(&'static str),
}

impl MessageAt {
    fn of(kind: Kind) -> Self {
        if kind == Kind::UserMessage { Self::Data } else { Self::Member }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Data => "as its data",
            Self::Member => "in data.message",
        }
    }

    fn pointer(self, member: &str) -> String {
        let base = match self {
            Self::Data => "/data",
            Self::Member => "/data/message",
        };
        format!("{base}{member}")
    }
}

impl ShapeError {
    /// The name of the broken rule (FORMAT's class names; for a steering message our own).
    pub fn class(&self) -> &'static str {
        match self {
            Self::RetiredType("request/header-delta", _) => "LEGACY_REQUEST_HEADER_DELTA",
            Self::RetiredType("mode/set", _) => "LEGACY_MODE_SET",
            Self::RetiredType(..) => "LEGACY_STEERING_MESSAGE",
            Self::HeaderFallback => "LEGACY_REQUEST_HEADER_FALLBACK",
            Self::HeaderProviderModel => "HEADER_EVENT_NO_PROVIDER_MODEL",
            Self::HeaderReasoningEffort => "HEADER_EVENT_REASONING_EFFORT",
            Self::HeaderAdapterDefaults => "HEADER_EVENT_ADAPTER_DEFAULTS",
            Self::MessageMissing(_) | Self::MessageId(_) => "MESSAGE_NO_ID",
            Self::MessageRole(..) => "MESSAGE_ROLE",
            Self::MessageSource(_) | Self::MessageContentAndSource(_) => "MESSAGE_SOURCE",
            Self::MessageContent(_) => "MESSAGE_CONTENT",
            Self::ModelSource => "MESSAGE_MODEL_SOURCE",
            Self::ToolSource => "MESSAGE_TOOL_SOURCE",
            Self::ToolResultBlock => "MESSAGE_TOOL_RESULT_BLOCK",
            Self::ToolCallId => "MESSAGE_TOOL_CALL_ID",
            Self::TurnStartTrigger
            | Self::TurnEndMembers
            | Self::TurnEndMissing(_)
            | Self::TurnEndTurn
            | Self::TurnEndReason
            | Self::TurnEndReasonMembers
            | Self::TurnEndLegacy(_) => "LEGACY_SHAPE_MALFORMED",
        }
    }

    /// Whether the event is of another time, which another version may read, rather than damaged.
    pub fn is_retired(&self) -> bool {
        matches!(self, Self::RetiredType(..) | Self::HeaderFallback)
    }

    /// The JSON Pointer, from the event's root, of what is wrong or missing.
    pub fn pointer(&self) -> String {
        let fixed = match self {
            Self::MessageMissing(at) => return at.pointer(""),
            Self::MessageId(at) => return at.pointer("/id"),
            Self::MessageRole(at, _) => return at.pointer("/role"),
            Self::MessageSource(at) | Self::MessageContentAndSource(at) => return at.pointer("/source"),
            Self::MessageContent(at) => return at.pointer("/content"),
            Self::RetiredType(..) => "/type",
            Self::HeaderFallback => "/data/reason",
            Self::HeaderProviderModel => "/data/header/config",
            Self::HeaderReasoningEffort => "/data/header/config/reasoningEffort",
            Self::HeaderAdapterDefaults => "/data/header/adapterDefaults",
            Self::ModelSource | Self::ToolSource => "/data/message/source",
            Self::ToolResultBlock => "/data/message/content",
            Self::ToolCallId => "/data/message/content/0/toolCallId",
            Self::TurnStartTrigger => "/data/trigger",
            Self::TurnEndMembers => "/data",
            Self::TurnEndTurn | Self::TurnEndMissing("turn") => "/data/turn",
            Self::TurnEndMissing(_)
            | Self::TurnEndReason
            | Self::TurnEndReasonMembers
            | Self::TurnEndLegacy(_) => "/data/reason",
        };
        fixed.to_owned()
    }
}

/// Whether a message must have an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageIds {
    /// An append may lack one: it is minted (PROTOCOL 3, Message ids).
    Minted,
    /// A seed and a stored log hold every one.
    Required,
}

/// Checks the payload of an event without a message (FORMAT 2.2 steps 2, 4 and 6, FORMAT 14).
#[inline]
pub(super) fn check_payload(draft: &Draft<'_>, ids: MessageIds) -> Result<(), ShapeError> {
    match draft.kind {
        Kind::RequestHeader => request_header(draft.data, ids == MessageIds::Minted),
        Kind::TurnStart => turn_start(draft.data),
        Kind::TurnEnd => turn_end(draft.data),
        Kind::Other => retired(draft.type_text),
        _ => Ok(()),
    }
}

/// Types of other times that are refused everywhere (FORMAT 2.1, 14), and what to append instead.
pub const RETIRED: [(&str, &str); 3] = [
    ("request/header-delta", "append a whole request/header"),
    ("mode/set", "append a plan/mode, sandbox/mode or permission/preset"),
    ("steering/message", "append a user/message"),
];

fn retired(name: JsonStr<'_>) -> Result<(), ShapeError> {
    match RETIRED.iter().find(|(retired, _)| name.is(retired)) {
        Some((name, instead)) => Err(ShapeError::RetiredType(name, instead)),
        None => Ok(()),
    }
}

/// FORMAT 2.2 steps 4 and 6; an append tells the retired reason first (FORMAT 2.1 step 2).
fn request_header(data: Json<'_>, append: bool) -> Result<(), ShapeError> {
    let [header, reason] = data.fields(&["header", "reason"]);
    let fallback = reason.is_some_and(|reason| reason.is_str("fallback"));
    if append && fallback {
        return Err(ShapeError::HeaderFallback);
    }
    header_members(header)?;
    if fallback { Err(ShapeError::HeaderFallback) } else { Ok(()) }
}

fn header_members(header: Option<Json<'_>>) -> Result<(), ShapeError> {
    let [config, defaults] = header.unwrap_or(Json::NULL).fields(&["config", "adapterDefaults"]);
    let names = &["provider", "model", "reasoningEffort", "maxTokens"];
    let [provider, model, effort, max_tokens] = config.unwrap_or(Json::NULL).fields(names);
    if non_empty(provider).is_none() || non_empty(model).is_none() {
        return Err(ShapeError::HeaderProviderModel);
    }
    if effort.is_some() && non_empty(effort).is_none() {
        return Err(ShapeError::HeaderReasoningEffort);
    }
    let Some(defaults) = defaults else { return Ok(()) };
    // `maxTokens: null` is a member that is there; only its absence makes the mark empty.
    let marks = defaults.members().all(|(key, value)| {
        let named =
            (key.is("reasoningEffort") && effort.is_some()) || (key.is("maxTokens") && max_tokens.is_some());
        named && value.as_bool() == Some(true)
    });
    if defaults.kind() == Type::Object && marks { Ok(()) } else { Err(ShapeError::HeaderAdapterDefaults) }
}

/// Checks a message in the order of FORMAT 4; turn, step, usage, error, meta and the contents of blocks are not
/// looked at. Gives the place of an id that is to be minted.
#[inline(always)] // its parts are in registers
pub(super) fn check_message(
    draft: &Draft<'_>,
    message: &Message<'_>,
    source: &Source<'_>,
    ids: MessageIds,
) -> Result<Option<IdGap>, ShapeError> {
    let kind = draft.kind;
    let at = MessageAt::of(kind);
    let value = message.value.filter(|value| value.kind() == Type::Object);
    let value = value.ok_or(ShapeError::MessageMissing(at))?;
    let is_gap = ids == MessageIds::Minted && message.id.is_none();
    if !is_gap && non_empty(message.id).is_none() {
        return Err(ShapeError::MessageId(at));
    }
    // Compared with constants, each role by itself.
    match kind {
        Kind::AssistantMessage if message.role.is_some_and(|role| role.is_str("assistant")) => {}
        Kind::AssistantMessage => return Err(ShapeError::MessageRole(at, "assistant")),
        _ if message.role.is_some_and(|role| role.is_str("user")) => {}
        _ => return Err(ShapeError::MessageRole(at, "user")),
    }
    let content = message.content.filter(|content| content.kind() == Type::Array);
    let source_kind = non_empty(source.kind).ok_or(match content {
        Some(_) => ShapeError::MessageSource(at),
        None => ShapeError::MessageContentAndSource(at),
    })?;
    let content = content.ok_or(ShapeError::MessageContent(at))?;
    if kind == Kind::AssistantMessage {
        let is_named = non_empty(source.provider).is_some() && non_empty(source.model).is_some();
        if !source_kind.is("model") || !is_named {
            return Err(ShapeError::ModelSource);
        }
    } else if kind == Kind::ToolResult {
        let call_id = non_empty(source.call_id).filter(|_| source_kind.is("tool"));
        tool_result(content, call_id.ok_or(ShapeError::ToolSource)?)?;
    }
    Ok(is_gap.then(|| IdGap::of(draft.data, value)))
}

fn tool_result(content: Json<'_>, call_id: JsonStr<'_>) -> Result<(), ShapeError> {
    let mut blocks = content.elements();
    let (Some(block), None) = (blocks.next(), blocks.next()) else { return Err(ShapeError::ToolResultBlock) };
    let [kind, content, call] = block.fields(&["type", "content", "toolCallId"]);
    let is_result = kind.is_some_and(|kind| kind.is_str("tool-result"));
    let has_content = content.is_some_and(|content| content.kind() == Type::Array);
    if !is_result || !has_content {
        return Err(ShapeError::ToolResultBlock);
    }
    if call.and_then(Json::as_str) == Some(call_id) { Ok(()) } else { Err(ShapeError::ToolCallId) }
}

/// A string that is not empty.
#[inline]
fn non_empty(value: Option<Json<'_>>) -> Option<JsonStr<'_>> {
    value?.as_str().filter(|text| !text.is_empty())
}

fn turn_start(data: Json<'_>) -> Result<(), ShapeError> {
    if data.get("trigger").is_some() { Err(ShapeError::TurnStartTrigger) } else { Ok(()) }
}

/// FORMAT 14. Data that is no object passes: upstream's load takes it (vectors `fork.odd-turn-markers`).
fn turn_end(data: Json<'_>) -> Result<(), ShapeError> {
    if data.kind() != Type::Object {
        return Ok(());
    }
    let Fields { found: [turn, reason], others: false } = data.all_fields(&["turn", "reason"]) else {
        return Err(ShapeError::TurnEndMembers);
    };
    let turn = turn.ok_or(ShapeError::TurnEndMissing("turn"))?;
    let reason = reason.ok_or(ShapeError::TurnEndMissing("reason"))?;
    if turn.as_safe_int().is_none_or(|turn| turn < 1) {
        return Err(ShapeError::TurnEndTurn);
    }
    let Fields { found: [kind, inner, error], others } = reason.all_fields(&["kind", "reason", "error"]);
    let (has_reason, has_error) = (inner.is_some(), error.is_some());
    let kind = kind.and_then(Json::as_str).ok_or(ShapeError::TurnEndReason)?;
    match &*kind.lossy() {
        "completed" | "blocked" | "max-tokens" | "interrupted" if others || has_reason || has_error => {
            Err(ShapeError::TurnEndReasonMembers)
        }
        "aborted" if !has_reason => Err(ShapeError::TurnEndLegacy("aborted with a reason that says by whom")),
        "disposed" => Err(ShapeError::TurnEndLegacy("aborted with the reason {kind: \"disposed\"}")),
        "error" if !has_error => Err(ShapeError::TurnEndLegacy("error with the failure as its member error")),
        _ => Ok(()), // the set of kinds is open
    }
}
