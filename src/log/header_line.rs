//! The first line of a stored log: the physical form of a header (FORMAT 13 and 13.1).

use super::header;
use super::header::{Header, HeaderError};
use super::seq::Offset;
use super::session_id::SessionId;
use crate::json::{FaultKind, Json, JsonText, SyntaxError};

/// The first line of a stored log, without a line end: `{"type":"session","version":0,"id",
/// "createdAt","cwd"?,"parentSession"?,"seedLength"?,"origin"?,"delegationDepth","agentPreset"?}` in
/// that order. `seedLength` is the inherited event count and stands iff the session is seeded.
pub fn header_line(header: &Header, inherited: Offset) -> String {
    let mut out = format!("{{\"type\":\"session\",\"version\":0,{}", header.identity());
    if header.is_seeded {
        out.push_str(&format!(",\"seedLength\":{inherited}"));
    }
    header.put_origin(&mut out);
    out.push_str(&format!(",\"delegationDepth\":{}", header.delegation_depth.unwrap_or(0)));
    header.put_agent_preset(&mut out);
    out.push('}');
    out
}

/// A first line that does not open a log here, with what it still tells.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{fault}")]
pub struct HeaderLineError {
    /// The id that the line names, if it is an object with a string there: any string, as JSON text.
    pub id: Option<JsonText>,
    /// What is wrong.
    pub fault: HeaderLineFault,
}

/// What is wrong with a first line. The rules are checked in this order (FORMAT 13.1).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderLineFault {
    /// Not JSON; a byte order mark is not either.
    #[error("the header line is not valid JSON (byte {})", .0.offset)]
    NotJson(SyntaxError),
    /// Another format version, whatever else the line holds.
    #[error("{}", version_message(*.version))]
    Version {
        /// Any number but 0.
        version: f64,
    },
    /// No session header: the member named is absent or of the wrong kind, or `""` for the whole.
    #[error("the first line is not a session header{}", member_message(.0))]
    Shape(&'static str),
    /// A number or a duplicate key that JSON readers do not agree on (PROTOCOL 9.2).
    #[error("the header line is damaged: {0}")]
    Lossy(FaultKind),
    /// Own `sandboxMode` or `approvalPolicy`.
    #[error("the header has sandboxMode or approvalPolicy, which this format retired")]
    RetiredFields,
    /// A member breaks its rule.
    #[error("{0}")]
    Field(#[from] HeaderError),
}

impl HeaderLineFault {
    /// Which way another format version lies.
    pub fn direction(&self) -> Option<&'static str> {
        match self {
            Self::Version { version } if *version > 0.0 => Some("newer"),
            Self::Version { .. } => Some("older"),
            _ => None,
        }
    }
}

fn version_message(version: f64) -> String {
    let number = if version.abs() < 1e21 { version.to_string() } else { format!("{version:e}") };
    if version > 0.0 {
        format!("log format v{number} is newer than v0, the one read here: upgrade to open the log")
    } else {
        format!("log format v{number} is older than v0, the one read here, and there is no upgrade for it")
    }
}

fn member_message(member: &str) -> String {
    if member.is_empty() { String::new() } else { format!(": {member} is absent or of the wrong kind") }
}

impl HeaderLineFault {
    /// FORMAT's class name of the rule.
    pub fn class(&self) -> &'static str {
        match self {
            Self::NotJson(_) => "LOG_HEADER_NOT_JSON",
            Self::Version { version } if *version > 0.0 => "VERSION_NEWER",
            Self::Version { .. } => "VERSION_OLDER",
            Self::Shape(_) | Self::Lossy(_) => "LOG_HEADER_SHAPE",
            Self::RetiredFields => "LOG_HEADER_RETIRED_FIELDS",
            Self::Field(error) => error.class(),
        }
    }

    /// Whether the line may be sound for another program: listed as unsupported, not as corrupt.
    pub fn is_unsupported(&self) -> bool {
        use HeaderError::{LoneSurrogate, UnsupportedId};
        matches!(
            self,
            Self::Version { .. } | Self::RetiredFields | Self::Field(UnsupportedId(_) | LoneSurrogate(_))
        )
    }
}

impl HeaderLineError {
    /// FORMAT's class name of the rule.
    pub fn class(&self) -> &'static str {
        self.fault.class()
    }
}

/// Reads the first line of a stored log, with or without white space around it: the logical header
/// and the inherited event count. Unknown members are passed over.
pub fn parse_header_line(text: &str) -> Result<(Header, Offset), HeaderLineError> {
    let (json, checks) = Json::parse(text)
        .map_err(|error| HeaderLineError { id: None, fault: HeaderLineFault::NotJson(error) })?;
    let lossy = checks.fault.map(|fault| fault.kind);
    read(json, lossy).map_err(|fault| {
        let id = json.get("id").filter(|id| id.as_str().is_some());
        HeaderLineError { id: id.map(JsonText::compact), fault }
    })
}

fn read(json: Json<'_>, lossy: Option<FaultKind>) -> Result<(Header, Offset), HeaderLineFault> {
    use HeaderLineFault::Shape;
    let version = json.get("version").and_then(Json::as_f64);
    if let Some(version) = version.filter(|version| *version != 0.0) {
        return Err(HeaderLineFault::Version { version });
    }
    if let Some(kind) = lossy {
        return Err(HeaderLineFault::Lossy(kind));
    }
    if !json.get("type").is_some_and(|tag| tag.is_str("session")) {
        return Err(Shape("type"));
    }
    version.ok_or(Shape("version"))?;
    let id = json.get("id").and_then(Json::as_str).ok_or(Shape("id"))?;
    let count = |name| json.get(name).map(|value| value.as_safe_uint().ok_or(Shape(name))).transpose();
    let created_at = count("createdAt")?.ok_or(Shape("createdAt"))?;
    let delegation_depth = count("delegationDepth")?.ok_or(Shape("delegationDepth"))?;
    let seed_length = count("seedLength")?;
    let subagent = header::subagent(json).map_err(|_| Shape("origin"))?;
    if json.get("agentPreset").is_some_and(|preset| preset.as_str().is_none()) {
        return Err(Shape("agentPreset"));
    }
    if json.get("sandboxMode").or(json.get("approvalPolicy")).is_some() {
        return Err(HeaderLineFault::RetiredFields);
    }
    let header = Header {
        id: SessionId::from_json(id).map_err(HeaderError::from)?,
        created_at,
        cwd: header::cwd(json)?,
        parent_session: header::parent_session(json)?,
        is_seeded: seed_length.is_some(),
        subagent,
        delegation_depth: Some(delegation_depth),
        agent_preset: header::agent_preset(json)?,
    };
    Ok((header, seed_length.and_then(Offset::new).unwrap_or_default()))
}
