//! What one connection has agreed on: dialect, notifications, spelling (PROTOCOL 2).

use crate::json::{Json, JsonText, Type, quote};
use crate::log::{Kind, is_row_tag};
use crate::view::RETIRED;

use super::envelope::Request;
use super::params_error::unknown_param;
use super::service::bad_param;
use crate::protocol::initialize::{ClientWishes, EventType};
use crate::protocol::names::names;
use crate::protocol::params::InitializeParams;
use crate::protocol::{Acp, Code, Dialect, Method, Notice, UPDATE, WireError};

/// ACP's param of `session/fork` that would cut where no cut is offered: it is not ignored as other names are.
pub(super) const CURSOR_ID: &str = "cursorId";

/// One client's agreement.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// Whether a result has fixed the dialect (PROTOCOL 2).
    pub(super) fixed: bool,
    /// The dialect.
    pub(super) dialect: Dialect,
    wanted: [bool; 4],
    /// Written before the name of a native notification.
    pub(super) prefix: &'static str,
    /// ACP updates for appended messages too.
    pub(super) live_updates: bool,
    /// The client shows compactions.
    pub(super) compaction: bool,
    /// The client shows notices.
    pub(super) notices: bool,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            fixed: false,
            dialect: Dialect::Native,
            wanted: [true; 4],
            prefix: "",
            live_updates: false,
            compaction: false,
            notices: false,
        }
    }
}

/// An event type that a client declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredType {
    /// The type.
    pub name: String,
    /// Whether logs that hold it load only where it is declared.
    pub required: bool,
}

impl Connection {
    /// Whether the client wants a notification.
    pub(super) fn wants(&self, notice: Notice) -> bool {
        self.wanted.get(notice as usize).copied().unwrap_or(false)
    }

    /// Sends no native notification any more.
    pub(super) fn silence(&mut self) {
        self.wanted = [false; 4];
    }

    /// In the acp dialect, on the methods that ACP defines: the params that a method knows, of the root and of
    /// `_meta.sessiond`, as one object; names of nobody at the root are passed over (PROTOCOL 2 and 3).
    pub(super) fn native_params(&self, request: &Request<'_>) -> Result<Option<String>, WireError> {
        if self.dialect == Dialect::Native {
            return Ok(None);
        }
        let method = Method::named(&request.method.lossy());
        let Some(Method { params, acp: Acp::Split(..), .. }) = method else { return Ok(None) };
        let known = params();
        let own = request.params.at(&["_meta", "sessiond"]).filter(|own| own.kind() != Type::Null);
        if own.is_some_and(|own| own.kind() != Type::Object) {
            let field = "_meta.sessiond";
            let message =
                format!("{field} must be an object with this daemon's params; leave it out without any");
            return Err(bad_param(field, message));
        }
        let inner = own.into_iter().flat_map(Json::members);
        let mut members: Vec<_> = inner.map(|(key, value)| (key.lossy(), value)).collect();
        for (key, value) in request.params.members() {
            let name = key.lossy();
            if name == "_meta" || !(known.contains(&&*name) || name == CURSOR_ID) {
                continue;
            }
            match members.iter_mut().find(|(other, _)| *other == name) {
                None => members.push((name, value)),
                Some((_, other)) if other.kind() == Type::Null => *other = value,
                Some((_, other)) if value.kind() == Type::Null || is_same(*other, value) => {}
                Some(_) => {
                    let message =
                        format!("{name} differs at the root and in _meta.sessiond; give one of them");
                    return Err(bad_param(&name, message));
                }
            }
        }
        let members: Vec<_> =
            members.iter().map(|(name, value)| format!("{}:{}", quote(name), value.text())).collect();
        Ok(Some(format!("{{{}}}", members.join(","))))
    }

    /// Reads `clientCapabilities`; gives the agreement and the declared event types.
    pub(super) fn negotiate(capabilities: Option<Json<'_>>) -> Result<(Self, Vec<DeclaredType>), WireError> {
        let mut agreed = Self { fixed: true, ..Self::default() };
        let session = capabilities.and_then(|all| all.get("session"));
        let shows =
            |name| session.and_then(|all| all.get(name)).is_some_and(|value| value.kind() == Type::Object);
        (agreed.compaction, agreed.notices) = (shows("compaction"), shows("notices"));
        // What the dialect hangs on is not guessed: an array or a text there may have been meant for us.
        let capabilities = object("clientCapabilities", capabilities)?;
        let meta = object("clientCapabilities._meta", capabilities.and_then(|all| all.get("_meta")))?;
        let own = object(OWN.trim_end_matches('.'), meta.and_then(|meta| meta.get("sessiond")))?;
        let Some(own) = own else {
            agreed.dialect = Dialect::Acp;
            agreed.wanted = [false; 4];
            return Ok((agreed, Vec::new()));
        };
        let mut types = Vec::new();
        let mut asked = None;
        for (key, value) in own.members().filter(|(_, value)| value.kind() != Type::Null) {
            match &*key.lossy() {
                "dialect" if value.is_str("native") => agreed.dialect = Dialect::Native,
                "dialect" if value.is_str("acp") => agreed.dialect = Dialect::Acp,
                "dialect" => return Err(invalid("dialect \"native\" or \"acp\"")),
                "notifications" => asked = Some(read_notices(value)?),
                "prefix" if value.is_str("_") => agreed.prefix = "_",
                "prefix" if value.is_str("") => agreed.prefix = "",
                "prefix" => return Err(invalid("prefix \"_\" or \"\"")),
                "liveUpdates" => {
                    agreed.live_updates =
                        value.as_bool().ok_or_else(|| invalid("liveUpdates true or false"))?;
                }
                "eventTypes" => types = read_types(value)?,
                "_meta" => {}
                other => return Err(unknown_param(OWN, other, names::<ClientWishes>())),
            }
        }
        agreed.wanted = asked.unwrap_or([agreed.dialect == Dialect::Native; 4]);
        Ok((agreed, types))
    }
}

/// What stands before the names of a client's wishes.
const OWN: &str = "clientCapabilities._meta.sessiond.";

/// A member that a native `initialize` does not know, or that is not of its type. An ACP client's are passed over: ACP may
/// define more, and falls back to the default where an optional one is malformed (ACP 2).
pub(super) fn unknown_greeting(method: &str, params: Json<'_>) -> Option<WireError> {
    let own = params.at(&["clientCapabilities", "_meta", "sessiond"]).filter(|_| method == "initialize")?;
    if own.kind() != Type::Object || own.get("dialect").is_some_and(|name| name.is_str("acp")) {
        return None;
    }
    if let Err(error) = object("clientInfo", params.get("clientInfo")) {
        return Some(error);
    }
    let known = names::<InitializeParams>();
    let mut members = params.members().map(|(key, _)| key.lossy());
    members.find(|name| !known.contains(&&**name)).map(|name| unknown_param("", &name, known))
}

/// An object or an absence; anything else is refused by what it is.
pub(super) fn object<'a>(field: &str, value: Option<Json<'a>>) -> Result<Option<Json<'a>>, WireError> {
    let Some(value) = value else { return Ok(None) };
    let what = match value.kind() {
        Type::Null => return Ok(None),
        Type::Object => return Ok(Some(value)),
        Type::Array => "an array",
        Type::String => "a string",
        Type::Number => "a number",
        Type::Bool => "a boolean",
    };
    let message = format!("{field} must be an object, not {what}; leave it out if there is nothing to say");
    Err(bad_param(field, message))
}

/// Whether two spellings of a param say the same.
fn is_same(a: Json<'_>, b: Json<'_>) -> bool {
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => a == b,
        _ => JsonText::compact(a).json().text() == JsonText::compact(b).json().text(),
    }
}

fn invalid(what: &str) -> WireError {
    WireError::new(Code::InvalidParams, format!("clientCapabilities._meta.sessiond must hold {what}"))
}

fn read_notices(value: Json<'_>) -> Result<[bool; 4], WireError> {
    let mut wanted = [false; 4];
    if value.kind() != Type::Array {
        return Err(invalid("notifications as an array of method names"));
    }
    for name in value.elements() {
        if name.is_str(UPDATE) {
            continue;
        }
        let notice = Notice::ALL.into_iter().find(|notice| name.is_str(notice.method()));
        let slot = notice.and_then(|notice| wanted.get_mut(notice as usize));
        *slot.ok_or_else(|| invalid("notifications by their exact names, without a prefix"))? = true;
    }
    Ok(wanted)
}

fn read_types(value: Json<'_>) -> Result<Vec<DeclaredType>, WireError> {
    let shape = || invalid("eventTypes as an array of {type, required?}");
    if value.kind() != Type::Array {
        return Err(shape());
    }
    let mut types = Vec::new();
    for (index, element) in value.elements().enumerate() {
        let (mut name, mut required, mut tag) = (None, false, false);
        for (key, member) in element.members() {
            match &*key.lossy() {
                "type" => {
                    tag = member.as_str().is_some_and(is_row_tag);
                    name = member.as_str().and_then(|text| text.decode());
                }
                "required" => required = member.as_bool().ok_or_else(shape)?,
                "_meta" => {}
                other => {
                    let at = format!("{OWN}eventTypes[{index}].");
                    return Err(unknown_param(&at, other, names::<EventType>()));
                }
            }
        }
        let name = name.ok_or_else(shape)?.into_owned();
        let retired = RETIRED.iter().any(|(retired, _)| *retired == name);
        if name.is_empty() || tag || retired || Kind::of(&name) != Kind::Other {
            let error =
                invalid("event types of the client's own: not empty, known, retired or a storage row's tag");
            return Err(error.text("type", &name.chars().take(100).collect::<String>()));
        }
        types.push(DeclaredType { name, required });
    }
    Ok(types)
}
