//! What a session's header says, beside its log (FORMAT 8).

use super::seq::Offset;
use super::session_id::{SessionId, SessionIdError};
use crate::json::{Json, Type, quote_into};

/// The logical header: `{version: 0, id, createdAt, cwd?, parentSession?, isSeeded, origin?,
/// delegationDepth?, agentPreset?}` in that order. Fixed at creation and outside the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The session's id.
    pub id: SessionId,
    /// Milliseconds since the Unix epoch, a safe integer.
    pub created_at: u64,
    /// Absolute, not normalised.
    pub cwd: Option<String>,
    /// The id of the session it was forked from; any text.
    pub parent_session: Option<String>,
    /// Whether fork history exists; how much of it is the session's inherited event count.
    pub is_seeded: bool,
    /// `origin: "subagent"`.
    pub subagent: bool,
    /// How deep in delegation, a safe integer.
    pub delegation_depth: Option<u64>,
    /// A front-end's own name of the agent's set-up.
    pub agent_preset: Option<String>,
}

/// Why a value is no header, or no `meta` of `session/new`. The rules are checked in this order (FORMAT 8).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum HeaderError {
    #[error("a session header must be an object")]
    NotRecord,
    #[error("a session header has no member {0:?}")]
    UnknownMember(String),
    #[error("a session header has no seedLength: it says isSeeded")]
    SeedLengthField,
    #[error("a session header's version must be 0")]
    Version,
    #[error("a session header's id must be the session's id")]
    Id,
    #[error("{0}")]
    UnsupportedId(#[from] SessionIdError),
    #[error("createdAt must be a non-negative safe integer in milliseconds")]
    CreatedAt,
    #[error("cwd must be a string")]
    CwdType,
    #[error("cwd must be an absolute path")]
    CwdRelative,
    #[error("parentSession must be a string")]
    ParentSession,
    #[error("isSeeded must be a boolean")]
    IsSeeded,
    #[error("origin must be \"subagent\" or absent")]
    Origin,
    #[error("delegationDepth must be a non-negative safe integer")]
    DelegationDepth,
    #[error("agentPreset must be a string")]
    AgentPreset,
    #[error("seedLength must be a non-negative safe integer")]
    SeedLength,
    /// Legal in the format, but such texts are not kept here.
    #[error("{0} holds a lone surrogate: it must be valid Unicode")]
    LoneSurrogate(&'static str),
}

impl HeaderError {
    /// FORMAT's class name of the rule.
    pub fn class(&self) -> &'static str {
        match self {
            Self::NotRecord => "HEADER_NOT_RECORD",
            Self::UnknownMember(_) => "HEADER_UNKNOWN_MEMBER",
            Self::SeedLengthField => "HEADER_SEED_LENGTH_FIELD",
            Self::Version => "HEADER_VERSION",
            Self::Id => "HEADER_ID",
            Self::UnsupportedId(_) => "HEADER_ID_UNSUPPORTED",
            Self::CreatedAt => "HEADER_CREATED_AT",
            Self::CwdType => "HEADER_CWD_TYPE",
            Self::CwdRelative => "HEADER_CWD_RELATIVE",
            Self::ParentSession => "HEADER_PARENT_SESSION",
            Self::IsSeeded => "HEADER_IS_SEEDED",
            Self::Origin => "HEADER_ORIGIN",
            Self::DelegationDepth => "HEADER_DELEGATION_DEPTH",
            Self::AgentPreset => "HEADER_AGENT_PRESET",
            Self::SeedLength => "INHERITED_COUNT_INVALID",
            Self::LoneSurrogate(_) => "HEADER_TEXT_UNSUPPORTED",
        }
    }

    /// The member at fault, for pointers; `""` for the value as a whole.
    pub fn member(&self) -> &str {
        match self {
            Self::NotRecord => "",
            Self::UnknownMember(name) => name,
            Self::SeedLengthField | Self::SeedLength => "seedLength",
            Self::Version => "version",
            Self::Id | Self::UnsupportedId(_) => "id",
            Self::CreatedAt => "createdAt",
            Self::CwdType | Self::CwdRelative => "cwd",
            Self::ParentSession => "parentSession",
            Self::IsSeeded => "isSeeded",
            Self::Origin => "origin",
            Self::DelegationDepth => "delegationDepth",
            Self::AgentPreset => "agentPreset",
            Self::LoneSurrogate(name) => name,
        }
    }
}

impl Header {
    /// Reads a whole logical header, which must be that of session `expected`. Unknown members are
    /// passed over; that the text is lossless is the caller's to check.
    pub fn from_logical(json: Json<'_>, expected: &SessionId) -> Result<Self, HeaderError> {
        if json.kind() != Type::Object {
            return Err(HeaderError::NotRecord);
        }
        if json.get("seedLength").is_some() {
            return Err(HeaderError::SeedLengthField);
        }
        if json.get("version").and_then(Json::as_safe_int) != Some(0) {
            return Err(HeaderError::Version);
        }
        if !json.get("id").is_some_and(|id| id.is_str(expected.as_str())) {
            return Err(HeaderError::Id);
        }
        Ok(Self {
            id: expected.clone(),
            created_at: created_at(json)?.ok_or(HeaderError::CreatedAt)?,
            cwd: cwd(json)?,
            parent_session: parent_session(json)?,
            is_seeded: json.get("isSeeded").and_then(Json::as_bool).ok_or(HeaderError::IsSeeded)?,
            subagent: subagent(json)?,
            delegation_depth: delegation_depth(json)?,
            agent_preset: agent_preset(json)?,
        })
    }

    /// The header as it is shown on the wire, members in the order of PROTOCOL 3.
    pub fn logical_json(&self) -> String {
        let mut out = format!("{{\"version\":0,{}", self.identity());
        out.push_str(if self.is_seeded { ",\"isSeeded\":true" } else { ",\"isSeeded\":false" });
        self.put_origin(&mut out);
        if let Some(depth) = self.delegation_depth {
            out.push_str(&format!(",\"delegationDepth\":{depth}"));
        }
        self.put_agent_preset(&mut out);
        out.push('}');
        out
    }

    /// `"id":…,"createdAt":…` with `cwd` and `parentSession`, as both forms of a header have it.
    pub(super) fn identity(&self) -> String {
        let mut out = String::from("\"id\":");
        quote_into(self.id.as_str(), &mut out);
        out.push_str(&format!(",\"createdAt\":{}", self.created_at));
        put_text("cwd", self.cwd.as_deref(), &mut out);
        put_text("parentSession", self.parent_session.as_deref(), &mut out);
        out
    }

    pub(super) fn put_origin(&self, out: &mut String) {
        out.push_str(if self.subagent { ",\"origin\":\"subagent\"" } else { "" });
    }

    pub(super) fn put_agent_preset(&self, out: &mut String) {
        put_text("agentPreset", self.agent_preset.as_deref(), out);
    }
}

/// Appends `,"name":"text"` if there is a text.
fn put_text(name: &str, text: Option<&str>, out: &mut String) {
    if let Some(text) = text {
        out.push_str(&format!(",\"{name}\":"));
        quote_into(text, out);
    }
}

/// The `meta` of `session/new`: `{parentSession?, seedLength?, cwd?, createdAt?, origin?,
/// delegationDepth?, agentPreset?}`, each checked by the header's rule. A snapshot's `meta` is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderMeta {
    /// See [`Header::created_at`].
    pub created_at: Option<u64>,
    /// See [`Header::cwd`].
    pub cwd: Option<String>,
    /// See [`Header::parent_session`].
    pub parent_session: Option<String>,
    /// The inherited event count, on the wire.
    pub seed_length: Option<Offset>,
    /// See [`Header::subagent`].
    pub subagent: bool,
    /// See [`Header::delegation_depth`].
    pub delegation_depth: Option<u64>,
    /// See [`Header::agent_preset`].
    pub agent_preset: Option<String>,
}

impl HeaderMeta {
    /// The members that it may have.
    pub const MEMBERS: [&str; 8] = [
        "parentSession",
        "seedLength",
        "cwd",
        "createdAt",
        "origin",
        "delegationDepth",
        "agentPreset",
        "_meta",
    ];

    /// Reads a `meta`. Inside it `null` is a value, not an absence (PROTOCOL 1).
    pub fn parse(json: Json<'_>) -> Result<Self, HeaderError> {
        if json.kind() != Type::Object {
            return Err(HeaderError::NotRecord);
        }
        if let Some((name, _)) =
            json.members().find(|(key, _)| !Self::MEMBERS.iter().any(|name| key.is(name)))
        {
            return Err(HeaderError::UnknownMember(name.lossy().chars().take(60).collect()));
        }
        Ok(Self {
            created_at: created_at(json)?,
            cwd: cwd(json)?,
            parent_session: parent_session(json)?,
            seed_length: safe_uint(json, "seedLength", HeaderError::SeedLength)?.and_then(Offset::new),
            subagent: subagent(json)?,
            delegation_depth: delegation_depth(json)?,
            agent_preset: agent_preset(json)?,
        })
    }

    /// The header of a session that is created with this meta at `now`, in milliseconds.
    pub fn into_header(self, id: SessionId, now: u64, is_seeded: bool) -> Header {
        Header {
            id,
            created_at: self.created_at.unwrap_or(now),
            cwd: self.cwd,
            parent_session: self.parent_session,
            is_seeded,
            subagent: self.subagent,
            delegation_depth: self.delegation_depth,
            agent_preset: self.agent_preset,
        }
    }
}

fn safe_uint(json: Json<'_>, name: &str, error: HeaderError) -> Result<Option<u64>, HeaderError> {
    json.get(name).map(|value| value.as_safe_uint().ok_or(error)).transpose()
}

fn text(json: Json<'_>, name: &'static str, error: HeaderError) -> Result<Option<String>, HeaderError> {
    let Some(value) = json.get(name) else { return Ok(None) };
    let decoded = value.as_str().ok_or(error)?.decode().ok_or(HeaderError::LoneSurrogate(name))?;
    Ok(Some(decoded.into_owned()))
}

pub(super) fn created_at(json: Json<'_>) -> Result<Option<u64>, HeaderError> {
    safe_uint(json, "createdAt", HeaderError::CreatedAt)
}

pub(super) fn cwd(json: Json<'_>) -> Result<Option<String>, HeaderError> {
    match text(json, "cwd", HeaderError::CwdType)? {
        Some(path) if !path.starts_with('/') => Err(HeaderError::CwdRelative),
        path => Ok(path),
    }
}

pub(super) fn parent_session(json: Json<'_>) -> Result<Option<String>, HeaderError> {
    text(json, "parentSession", HeaderError::ParentSession)
}

pub(super) fn subagent(json: Json<'_>) -> Result<bool, HeaderError> {
    match json.get("origin") {
        None => Ok(false),
        Some(origin) if origin.is_str("subagent") => Ok(true),
        Some(_) => Err(HeaderError::Origin),
    }
}

pub(super) fn delegation_depth(json: Json<'_>) -> Result<Option<u64>, HeaderError> {
    safe_uint(json, "delegationDepth", HeaderError::DelegationDepth)
}

pub(super) fn agent_preset(json: Json<'_>) -> Result<Option<String>, HeaderError> {
    text(json, "agentPreset", HeaderError::AgentPreset)
}
