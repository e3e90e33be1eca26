//! The JSON-RPC envelope of one line (PROTOCOL 1).

use crate::json::{Checks, Json, JsonStr, Scanner, Scratch, Type};

/// The text of an empty params object.
const NO_PARAMS: &str = "{}";

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
    /// Its members, with what the scanner said of each value.
    pub members: Vec<Member<'a>>,
}

/// A member of params.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub key: JsonStr<'a>,
    /// Its value.
    pub value: Json<'a>,
    /// What the scanner said of the value.
    pub checks: Checks,
}

/// Why a line is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum EnvelopeFault<'a> {
    #[error("not JSON at byte {0}; send one JSON-RPC message per line")]
    NotJson(usize),
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
    pub fn read(line: &'a str, scratch: &mut Scratch) -> Result<Self, EnvelopeFault<'a>> {
        let mut scanner = Scanner::new(line, scratch);
        scanner.space();
        if scanner.peek() != b'{' {
            let whole = scanner.value().and_then(|(value, _)| scanner.end().map(|()| value));
            return Err(match whole {
                Err(error) => EnvelopeFault::NotJson(error.offset),
                Ok(value) if value.kind() == Type::Array => EnvelopeFault::Batch,
                Ok(_) => EnvelopeFault::NotAnObject,
            });
        }
        let mut parts = Parts::default();
        parts.read(&mut scanner).map_err(|error| EnvelopeFault::NotJson(error.offset))?;
        parts.finish()
    }
}

#[derive(Default)]
struct Parts<'a> {
    jsonrpc: Option<Json<'a>>,
    id: Option<Json<'a>>,
    method: Option<Json<'a>>,
    params: Option<Json<'a>>,
    members: Vec<Member<'a>>,
    answer: bool,
    duplicate: bool,
    duplicate_param: bool,
}

impl<'a> Parts<'a> {
    fn read(&mut self, scanner: &mut Scanner<'a, '_>) -> Result<(), crate::json::SyntaxError> {
        scanner.expect(b'{')?;
        scanner.space();
        if !scanner.accept(b'}') {
            loop {
                self.member(scanner)?;
                scanner.space();
                if !scanner.accept(b',') {
                    scanner.expect(b'}')?;
                    break;
                }
            }
        }
        scanner.end()
    }

    fn member(&mut self, scanner: &mut Scanner<'a, '_>) -> Result<(), crate::json::SyntaxError> {
        let key = scanner.key()?;
        let name = key.decode().unwrap_or_default();
        if name == "params" && scanner.peek() == b'{' {
            let start = scanner.position();
            self.read_params(scanner)?;
            let span = crate::json::Span { start, end: scanner.position() };
            let params = Json::from_verified(scanner.slice(span));
            self.duplicate |= self.params.replace(params).is_some();
            return Ok(());
        }
        let (value, _) = scanner.value()?;
        let slot = match &*name {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" | "error" => {
                self.answer = true;
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.duplicate |= slot.replace(value).is_some();
        Ok(())
    }

    fn read_params(&mut self, scanner: &mut Scanner<'a, '_>) -> Result<(), crate::json::SyntaxError> {
        self.members.clear();
        self.members.reserve(8); // as many as an append has, in one allocation
        scanner.expect(b'{')?;
        scanner.space();
        if scanner.accept(b'}') {
            return Ok(());
        }
        loop {
            let key = scanner.key()?;
            let (value, checks) = scanner.value()?;
            self.members.push(Member { key, value, checks });
            scanner.space();
            if !scanner.accept(b',') {
                return scanner.expect(b'}');
            }
        }
    }

    fn finish(mut self) -> Result<Incoming<'a>, EnvelopeFault<'a>> {
        if self.duplicate {
            return Err(EnvelopeFault::Duplicate);
        }
        self.duplicate_param = has_twins(&self.members);
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
            None => Json::from_verified(NO_PARAMS),
            Some(params) => match params.kind() {
                Type::Object => params,
                Type::Null => Json::from_verified(NO_PARAMS),
                _ if id.is_none() => Json::from_verified(NO_PARAMS),
                _ => return Err(EnvelopeFault::Params(answer_to)),
            },
        };
        if self.duplicate_param && id.is_some() {
            return Err(EnvelopeFault::DuplicateParam(answer_to));
        }
        let request = Request { id: answer_to, method, params, members: self.members };
        Ok(if id.is_some() { Incoming::Request(request) } else { Incoming::Notification(request) })
    }
}

/// Whether two members have one name.
fn has_twins(members: &[Member<'_>]) -> bool {
    if members.len() > 24 {
        let mut names: Vec<_> = members.iter().map(|member| member.key.wtf8()).collect();
        names.sort_unstable();
        return names.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
    }
    let twin = |(at, member): (usize, &Member<'_>)| {
        members.get(..at).unwrap_or(&[]).iter().any(|before| before.key == member.key)
    };
    members.iter().enumerate().any(twin)
}
