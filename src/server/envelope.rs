//! The JSON-RPC envelope of one line (PROTOCOL 1).

use crate::json::{Checks, Json, JsonStr, Scratch, Type};

/// Longest id, in bytes of its text.
const MAX_ID: usize = 1024;

/// One message from the client.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// Wants an answer.
    Request(Request<'a>),
    /// Wants none.
    Notification(Request<'a>),
    /// Answers something that was never asked: ignored.
    Response,
}

/// A request or notification.
#[derive(Debug)]
pub struct Request<'a> {
    /// The id's very text; `null` for notifications.
    pub id: &'a str,
    /// The method.
    pub method: JsonStr<'a>,
    /// The params object.
    pub params: Json<'a>,
    /// What the scanner said of the whole line.
    line: Checks,
}

/// Params, with what the scanner said of the text that they stand in.
#[derive(Clone, Copy)]
pub(super) struct Scanned<'a> {
    /// The params object.
    pub(super) value: Json<'a>,
    checks: Checks,
    /// Levels of the text around every value in the object, its own included.
    around: u32,
}

impl<'a> Scanned<'a> {
    /// Params that are a text of their own.
    pub(super) fn alone(value: Json<'a>, checks: Checks) -> Self {
        Self { value, checks, around: 1 }
    }

    /// What the scanner says of a value in the object. Within `max_depth` its depth is an upper bound.
    pub(super) fn checks(self, value: Json<'a>, max_depth: u32) -> Checks {
        let depth = self.checks.depth.saturating_sub(self.around).max(1);
        if self.checks.fault.is_none() && depth <= max_depth {
            return Checks { depth, ..self.checks };
        }
        Json::parse(value.text()).map(|(_, checks)| checks).unwrap_or_default()
    }
}

impl<'a> Request<'a> {
    /// Its params as they stand in its line: in the message.
    pub(super) fn scanned(&self) -> Scanned<'a> {
        Scanned { value: self.params, checks: self.line, around: 2 }
    }
}

/// Why a line is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum EnvelopeFault<'a> {
    #[error("not JSON at byte {0}; send one JSON-RPC message per line")]
    NotJson(usize),
    #[error(
        "a Content-Length header: send one JSON message a line, ended by a line feed, without the framing of LSP"
    )]
    Framed,
    #[error(
        "batches are not supported; send one message per line (session/append_batch appends many events)"
    )]
    Batch,
    #[error("a message must be a JSON object")]
    NotAnObject,
    #[error("jsonrpc must be \"2.0\"")]
    Version(&'a str),
    #[error("id must be a string, a number or null of at most 1024 bytes")]
    Id,
    #[error("method must be a string")]
    Method(&'a str),
    #[error("a member of the message appears twice")]
    Duplicate,
    #[error("params must be an object")]
    Params(&'a str),
    #[error("a member of params appears twice")]
    DuplicateParam(&'a str),
}

impl<'a> EnvelopeFault<'a> {
    /// The id to answer with.
    pub fn id(&self) -> &'a str {
        match self {
            Self::Version(id) | Self::Method(id) | Self::Params(id) | Self::DuplicateParam(id) => id,
            _ => "null",
        }
    }
}

impl<'a> Incoming<'a> {
    /// Reads one line, which is UTF-8 and not empty.
    pub fn read(line: &'a str, scratch: &'a mut Scratch) -> Result<Self, EnvelopeFault<'a>> {
        let (message, checks) = scratch.scan(line).map_err(|error| not_json(line, error.offset))?;
        match message.kind() {
            // A key that is there twice is a fault of the line, which may have others before it.
            Type::Object if checks.fault.is_some() && has_twins(message, is_ours) => {
                Err(EnvelopeFault::Duplicate)
            }
            Type::Object => Parts::of(message).finish(checks),
            Type::Array => Err(EnvelopeFault::Batch),
            _ => Err(EnvelopeFault::NotAnObject),
        }
    }
}

/// A line that is no JSON from that byte on. A client of LSP sends headers, which stand alone or behind a message that
/// no line feed ends.
fn not_json<'a>(line: &str, offset: usize) -> EnvelopeFault<'a> {
    let rest = line.get(offset..).unwrap_or_default();
    let is_header = |name: &str| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    match is_header("content-length:") || is_header("content-type:") {
        true => EnvelopeFault::Framed,
        false => EnvelopeFault::NotJson(offset),
    }
}

/// The members of a message that count.
struct Parts<'a> {
    jsonrpc: Option<Json<'a>>,
    id: Option<Json<'a>>,
    method: Option<Json<'a>>,
    params: Option<Json<'a>>,
    /// It has what answers have.
    answer: bool,
}

impl<'a> Parts<'a> {
    fn of(message: Json<'a>) -> Self {
        // Most clients write so; then nothing needs to be looked for.
        let mut spelt = message.ordered_fields();
        let jsonrpc = spelt.member(r#"{"jsonrpc":"#);
        let id = spelt.member(r#","id":"#);
        let method = spelt.member(r#","method":"#);
        let params = spelt.member(r#","params":"#);
        if spelt.is_whole() {
            return Self { jsonrpc, id, method, params, answer: false };
        }
        let names = &["jsonrpc", "id", "method", "params", "result", "error"];
        let [jsonrpc, id, method, params, result, error] = message.all_fields(names).found;
        Self { jsonrpc, id, method, params, answer: result.is_some() || error.is_some() }
    }

    fn finish(self, line: Checks) -> Result<Incoming<'a>, EnvelopeFault<'a>> {
        let id = match self.id {
            None => None,
            Some(id)
                if matches!(id.kind(), Type::String | Type::Number | Type::Null)
                    && id.text().len() <= MAX_ID =>
            {
                Some(id.text())
            }
            Some(_) => return Err(EnvelopeFault::Id),
        };
        let answer_to = id.unwrap_or("null");
        if !self.jsonrpc.is_some_and(|version| version.is_str("2.0")) {
            return Err(EnvelopeFault::Version(answer_to));
        }
        let method = match self.method {
            None if self.answer => return Ok(Incoming::Response),
            None => return Err(EnvelopeFault::Method(answer_to)),
            Some(method) => method.as_str().ok_or(EnvelopeFault::Method(answer_to))?,
        };
        let params = match self.params {
            None => Json::EMPTY_OBJECT,
            Some(params) => match params.kind() {
                Type::Object => params,
                Type::Null => Json::EMPTY_OBJECT,
                _ if id.is_none() => Json::EMPTY_OBJECT,
                _ => return Err(EnvelopeFault::Params(answer_to)),
            },
        };
        if line.fault.is_some() && id.is_some() && has_twins(params, |_| true) {
            return Err(EnvelopeFault::DuplicateParam(answer_to));
        }
        let request = Request { id: answer_to, method, params, line };
        Ok(if id.is_some() { Incoming::Request(request) } else { Incoming::Notification(request) })
    }
}

/// Whether a member of a message means something to this program.
fn is_ours(key: JsonStr<'_>) -> bool {
    ["jsonrpc", "id", "method", "params"].iter().any(|name| key.is(name))
}

/// Whether two of the members that count have one name.
fn has_twins(object: Json<'_>, counts: impl Fn(JsonStr<'_>) -> bool) -> bool {
    let keys = object.members().map(|(key, _)| key).filter(|key| counts(*key));
    let mut names: Vec<_> = keys.map(JsonStr::wtf8).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| matches!(pair, [a, b] if a == b))
}
