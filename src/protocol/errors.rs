//! Errors on the wire: every refusal gets its code here and nowhere else (PROTOCOL 5).

use jsonrpsee::types::ErrorObjectOwned;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RawJson;
use crate::json::quote;

/// What kind of JSON value a fact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FactKind {
    Text,
    /// A seq, a count, a time: a safe integer from 0 on.
    Count,
    CountOrNull,
    Flag,
    Names,
    Any,
}

/// The stable names, with their numbers, their facts and what they mean. A `?` after a fact's name: it
/// may be absent.
macro_rules! codes {
    ($(#[doc = $doc:literal] $name:ident = $number:literal, $text:literal { $($fact:literal: $kind:ident),* };)*) => {
        /// The stable name of an error: `error.data.code`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $doc] #[serde(rename = $text)] $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// The JSON-RPC number.
            pub fn number(self) -> i32 {
                match self { $(Self::$name => $number,)* }
            }

            /// The stable name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it means.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $doc,)* }.trim_start()
            }

            /// What `data` holds beside the name.
            pub fn facts(self) -> &'static [(&'static str, FactKind)] {
                match self { $(Self::$name => &[$(($fact, FactKind::$kind)),*],)* }
            }
        }
    };
}

codes! {
    /// Not JSON, or not UTF-8.
    ParseError = -32700, "PARSE_ERROR" {};
    /// Not a request; a batch; a second `initialize`.
    InvalidRequest = -32600, "INVALID_REQUEST" {};
    /// A line over `maxMessageBytes`.
    MessageTooLarge = -32600, "MESSAGE_TOO_LARGE" { "limit": Text, "max": Count };
    /// No such method here.
    MethodNotFound = -32601, "METHOD_NOT_FOUND" { "method": Text, "nearest?": Names, "reason?": Text };
    /// Params do not fit the method.
    InvalidParams = -32602, "INVALID_PARAMS" { "field?": Text, "type?": Text, "index?": Count, "nearest?": Names };
    /// A bug.
    Internal = -32603, "INTERNAL" {};
    /// By `$/cancel_request`.
    RequestCancelled = -32800, "REQUEST_CANCELLED" {};
    /// Not live; for load, resume, inspect: not stored.
    SessionNotFound = -32002, "SESSION_NOT_FOUND" { "sessionId": Text, "stored?": Flag };
    /// That instance is not the live one.
    SessionNotLive = -31001, "SESSION_NOT_LIVE" { "sessionId": Text, "instanceId": Text };
    /// The id is live or stored.
    SessionAlreadyExists = -31002, "SESSION_ALREADY_EXISTS" { "sessionId": Text, "live": Flag, "parentSession?": Text, "inheritedEventCount": Count, "nextSeq": Count };
    /// Not the seq of an event, or no event holds that message; `data` says what was given, as text.
    InvalidBoundary = -31003, "INVALID_BOUNDARY" { "boundary?": Text, "messageId?": Text, "lastSeq": CountOrNull };
    /// The boundary is inside an open turn.
    OpenTurn = -31004, "OPEN_TURN" { "boundary": Count, "turn": Any };
    /// `expectedSeq` is not the log's length.
    SeqConflict = -31005, "SEQ_CONFLICT" { "expected": Count, "actual": Count };
    /// The payload would not survive a JSON round trip.
    LossyJson = -31010, "LOSSY_JSON" { "pointer": Text, "index?": Count };
    /// Envelope, message, header or `turn/end` shape; retired type.
    InvalidEvent = -31011, "INVALID_EVENT" { "rule": Text, "pointer?": Text, "expected?": Count, "actual?": Count, "index?": Count };
    /// Neither known, declared nor ignorable.
    UnknownEventType = -31012, "UNKNOWN_EVENT_TYPE" { "type": Text, "nearest?": Names, "index?": Count };
    /// Marker, provenance, range or rewrite rule.
    InvalidSurface = -31013, "INVALID_SURFACE" { "rule": Text, "index?": Count };
    /// Turn/step/tool relation.
    InvariantViolation = -31014, "INVARIANT_VIOLATION" { "rule": Text, "index?": Count };
    /// Stored log of another version, or with retired or unknown required events.
    FormatUnsupported = -31020, "FORMAT_UNSUPPORTED" { "sessionId": Text, "direction": Text };
    /// Stored log that cannot be trusted.
    SessionCorrupt = -31021, "SESSION_CORRUPT" { "sessionId": Text, "rule": Text, "line": Count, "offset": Count };
    /// Another process owns it.
    SessionLocked = -31022, "SESSION_LOCKED" { "sessionId": Text, "pid?": Count, "since?": Count, "host?": Text, "lost?": Flag };
    /// I/O error; retryable.
    StorageFailed = -31023, "STORAGE_FAILED" { "errno": Text, "committed": Flag, "unknown?": Flag, "reason?": Text };
    /// A limit; `data.limit` names it.
    LimitExceeded = -31024, "LIMIT_EXCEEDED" { "limit": Text, "max": Count, "use?": Text, "index?": Count };
}

/// An error on its way to the client.
#[derive(Clone, Debug)]
pub struct WireError {
    code: Code,
    message: String,
    /// `,"name":value` for each fact.
    facts: String,
}

impl WireError {
    /// An error without facts.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), facts: String::new() }
    }

    /// The same with a fact whose value is JSON text.
    pub fn fact(mut self, name: &str, json: impl std::fmt::Display) -> Self {
        self.facts.push_str(&format!(",\"{name}\":{json}"));
        self
    }

    /// The same with a text fact.
    pub fn text(self, name: &str, value: &str) -> Self {
        self.fact(name, quote(value))
    }

    /// The same with a fact of several names; without any the fact is left out.
    pub fn names(self, name: &str, values: &[impl AsRef<str>]) -> Self {
        if values.is_empty() {
            return self;
        }
        let values: Vec<_> = values.iter().map(|value| quote(value.as_ref())).collect();
        self.fact(name, format_args!("[{}]", values.join(",")))
    }

    /// What was wrong and what to do.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.code
    }

    fn data(&self) -> String {
        format!("{{\"code\":\"{}\"{}}}", self.code.name(), self.facts)
    }

    /// The error object as JSON text.
    pub fn to_json(&self) -> String {
        let (number, message) = (self.code.number(), quote(&self.message));
        format!("{{\"code\":{number},\"message\":{message},\"data\":{}}}", self.data())
    }
}

impl WireError {
    /// The same, its message told of a part of the request.
    pub fn of(self, part: &str) -> Self {
        Self { message: format!("{part}: {}", self.message), ..self }
    }
}

impl From<WireError> for ErrorObjectOwned {
    fn from(error: WireError) -> Self {
        Self::owned(error.code.number(), error.message.clone(), Some(RawJson::from_text(error.data())))
    }
}
