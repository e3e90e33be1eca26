//! Events in the shapes of earlier writers, brought to today's as they are read (FORMAT 14).
//!
//! JSON text becomes JSON text: every value keeps its spelling, and the file keeps its bytes. What only
//! looks like an old shape is left as it is, so that the validator refuses it instead of a guess being made.

use crate::json::{Json, JsonStr, Type, quote};
use crate::log::{Draft, Event, Kind, Seq};

/// An old shape that is not wholly so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {0} has the shape of an earlier version, but not wholly: restore the log from a copy")]
pub struct LegacyError(pub(in crate::disk) &'static str);

impl LegacyError {
    /// FORMAT's class.
    #[must_use]
    pub fn class(self) -> &'static str {
        "LEGACY_SHAPE_MALFORMED"
    }
}

/// What an old event is today.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::disk) struct Upgraded {
    /// Its data; valid JSON.
    pub(in crate::disk) data: String,
    /// It is a `user/message` now.
    pub(in crate::disk) user_message: bool,
}

/// The id of the message in an event, as JSON text; what a replacement in the old shape inherits.
#[must_use]
pub fn message_id_of(event: Event<'_>) -> Option<JsonStr<'_>> {
    let data = event.data();
    let message = if event.kind() == Kind::UserMessage { Some(data) } else { data.get("message") };
    message?.get("id")?.as_str()
}

/// Upgrades one event of the session `id`; none when its shape is today's. `replaced` gives the message id of an
/// earlier event as JSON text.
pub(in crate::disk) fn upgrade(
    draft: &Draft<'_>,
    seq: Seq,
    id: &str,
    replaced: &dyn Fn(Seq) -> Option<String>,
) -> Result<Option<Upgraded>, LegacyError> {
    let data = draft.data;
    let upgraded = match draft.kind {
        Kind::TurnStart => return Ok(turn_start(data)?.map(plain)),
        Kind::TurnEnd => return Ok(turn_end(data)?.map(plain)),
        Kind::UserMessage => user_message(data, seq, id),
        Kind::AssistantMessage => assistant_message(data, seq, id),
        Kind::ToolResult => tool_result(draft, seq, id, replaced),
        Kind::Other if draft.type_text.is("steering/message") => {
            return steering(data, seq, id).map(|data| Some(Upgraded { data, user_message: true }));
        }
        _ => None,
    };
    Ok(upgraded.map(plain))
}

fn plain(data: String) -> Upgraded {
    Upgraded { data, user_message: false }
}

fn minted(id: &str, seq: Seq) -> String {
    quote(&format!("legacy-message:{id}:{seq}"))
}

/// Whether an object has all members of `required` and no others.
fn has_only(json: Json<'_>, required: &[&str], optional: &[&str]) -> bool {
    let known = |key: JsonStr<'_>| required.iter().chain(optional).any(|name| key.is(name));
    json.kind() == Type::Object
        && json.members().all(|(key, _)| known(key))
        && required.iter().all(|name| json.get(name).is_some())
}

fn is_string(value: Option<Json<'_>>) -> bool {
    value.is_some_and(|value| value.kind() == Type::String)
}

fn is_object(value: Option<Json<'_>>) -> bool {
    value.is_some_and(|value| value.kind() == Type::Object)
}

fn has_turn(data: Json<'_>) -> bool {
    data.get("turn").and_then(Json::as_safe_int).is_some_and(|turn| turn >= 1)
}

/// The members of an object but for some, each followed by a comma.
fn other_members(data: Json<'_>, without: &[&str]) -> String {
    let mut out = String::new();
    for (key, value) in data.members().filter(|(key, _)| !without.iter().any(|name| key.is(name))) {
        out.push_str(key.text());
        out.push(':');
        out.push_str(value.text());
        out.push(',');
    }
    out
}

/// `{turn, trigger: {kind, …}}` loses its trigger.
fn turn_start(data: Json<'_>) -> Result<Option<String>, LegacyError> {
    let Some(trigger) = data.get("trigger") else { return Ok(None) };
    let kind = trigger.get("kind").and_then(Json::as_str);
    let whole = has_turn(data) && has_only(data, &["turn", "trigger"], &[]);
    match data.get("turn") {
        Some(turn) if whole && kind.is_some_and(|kind| !kind.is_empty()) => {
            Ok(Some(format!("{{\"turn\":{}}}", turn.text())))
        }
        _ => Err(LegacyError("turn/start")),
    }
}

/// Coarse reasons become the ones of today.
fn turn_end(data: Json<'_>) -> Result<Option<String>, LegacyError> {
    const MALFORMED: LegacyError = LegacyError("turn/end");
    if data.kind() != Type::Object {
        return Ok(None);
    }
    let (reason, turn) = (data.get("reason"), data.get("turn"));
    let kind = reason.and_then(|reason| reason.get("kind")).and_then(Json::as_str);
    let (Some(reason), Some(turn), Some(kind)) = (reason, turn, kind) else { return Err(MALFORMED) };
    if !has_turn(data) || !has_only(data, &["turn", "reason"], &[]) {
        return Err(MALFORMED);
    }
    let only_kind = has_only(reason, &["kind"], &[]);
    let today = if kind.is("aborted") && reason.get("reason").is_none() {
        only_kind.then(|| r#"{"kind":"aborted","reason":{"kind":"legacy"}}"#.to_owned())
    } else if kind.is("disposed") {
        only_kind.then(|| r#"{"kind":"aborted","reason":{"kind":"disposed"}}"#.to_owned())
    } else if kind.is("error") && reason.get("error").is_none() {
        failure(reason)
    } else {
        return Ok(None);
    };
    let reason = today.ok_or(MALFORMED)?;
    // The reference spreads data and then sets the reason: members stay where they are.
    let reason_first = data.members().next().is_some_and(|(key, _)| key.is("reason"));
    Ok(Some(match reason_first {
        true => format!("{{\"reason\":{reason},\"turn\":{}}}", turn.text()),
        false => format!("{{\"turn\":{},\"reason\":{reason}}}", turn.text()),
    }))
}

fn failure(reason: Json<'_>) -> Option<String> {
    reason.get("step").and_then(Json::as_safe_uint)?;
    if let Some(failure) = reason.get("failure").filter(|failure| {
        let of_kind = |name, kind| failure.get(name).is_none_or(|value| value.kind() == kind);
        has_only(reason, &["kind", "step", "failure"], &[])
            && has_only(*failure, &["message", "code"], &["status", "providerRetryAfterMs", "requestId"])
            && is_string(failure.get("message"))
            && is_string(failure.get("code"))
            && of_kind("status", Type::Number)
            && of_kind("providerRetryAfterMs", Type::Number)
            && of_kind("requestId", Type::String)
    }) {
        return Some(format!("{{\"kind\":\"error\",\"error\":{}}}", failure.text()));
    }
    let message = reason.get("message").and_then(Json::as_str)?;
    let code = match reason.get("code") {
        None => "\"UNKNOWN\"",
        Some(code) => code.as_str()?.text(),
    };
    has_only(reason, &["kind", "step", "message"], &["code"]).then(|| {
        format!("{{\"kind\":\"error\",\"error\":{{\"message\":{},\"code\":{code}}}}}", message.text())
    })
}

/// `{content, source}` without an identity gets one.
fn user_message(data: Json<'_>, seq: Seq, id: &str) -> Option<String> {
    let has = |name| data.get(name).is_some();
    if has("id") || has("role") || has("message") || !has("content") || !has("source") {
        return None;
    }
    let members = other_members(data, &[]);
    Some(format!("{{{members}\"id\":{},\"role\":\"user\"}}", minted(id, seq)))
}

/// `{content, provenance, …}` is wrapped into a message.
fn assistant_message(data: Json<'_>, seq: Seq, id: &str) -> Option<String> {
    if data.get("message").is_some() {
        return None;
    }
    let (content, provenance) = (data.get("content")?, data.get("provenance")?);
    let mut source = String::new();
    let mut named = false;
    for (key, value) in provenance.members() {
        named |= key.is("kind");
        let value = if key.is("kind") { "\"model\"" } else { value.text() };
        source.push_str(&format!("{}{}:{value}", if source.is_empty() { "" } else { "," }, key.text()));
    }
    if !named {
        source.push_str(if source.is_empty() { "\"kind\":\"model\"" } else { ",\"kind\":\"model\"" });
    }
    Some(format!(
        "{{{}\"message\":{{\"id\":{},\"role\":\"assistant\",\"content\":{},\"source\":{{{source}}}}}}}",
        other_members(data, &["content", "provenance"]),
        minted(id, seq),
        content.text()
    ))
}

/// `{callId, content, isError, …}` is wrapped into a message; a replacement keeps the id of what it replaces.
fn tool_result(
    draft: &Draft<'_>,
    seq: Seq,
    id: &str,
    replaced: &dyn Fn(Seq) -> Option<String>,
) -> Option<String> {
    let data = draft.data;
    if data.get("message").is_some() {
        return None;
    }
    let (call_id, content, is_error) = (data.get("callId")?, data.get("content")?, data.get("isError")?);
    let op = draft.surface_op.filter(|op| op.get("op").is_some_and(|op| op.is_str("replace")));
    let start = op.and_then(|op| op.get("start")).filter(|start| start.kind() == Type::Number);
    let inherited = match start {
        None => Some(minted(id, seq)),
        Some(start) => start.as_safe_uint().and_then(Seq::new).and_then(replaced),
    };
    // Without an id to inherit there is none: the validator refuses it.
    let identity = inherited.map_or_else(String::new, |id| format!("\"id\":{id},"));
    Some(format!(
        "{{{}\"message\":{{{identity}\"role\":\"user\",\"content\":[{{\"type\":\"tool-result\",\"toolCallId\":{call},\
         \"content\":{},\"isError\":{}}}],\"source\":{{\"kind\":\"tool\",\"callId\":{call}}}}}}}",
        other_members(data, &["callId", "content", "isError"]),
        content.text(),
        is_error.text(),
        call = call_id.text(),
    ))
}

/// `{turn, message}` or `{turn, content, source}` becomes the data of a user message.
fn steering(data: Json<'_>, seq: Seq, id: &str) -> Result<String, LegacyError> {
    let has_turn = data.get("turn").and_then(Json::as_safe_int).is_some();
    let message = data.get("message");
    if let Some(message) = message.filter(|_| has_turn && is_object(message))
        && has_only(data, &["turn", "message"], &[])
    {
        return Ok(user_message(message, seq, id).unwrap_or_else(|| message.text().to_owned()));
    }
    if !has_turn || !has_only(data, &["turn", "content", "source"], &[]) {
        return Err(LegacyError("steering/message"));
    }
    let members = other_members(data, &["turn"]);
    Ok(format!("{{{members}\"id\":{},\"role\":\"user\"}}", minted(id, seq)))
}
