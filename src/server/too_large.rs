//! Answers that would not fit into a line, and how to get at what they would say (PROTOCOL 1).

use crate::protocol::{Code, WireError};

/// The error in the place of an answer of more than `max` bytes.
pub(super) fn too_long(method: &str, max: usize) -> WireError {
    const LARGER: &str = "start the daemon with a larger --max-message-bytes";
    let (remedy, paged) = match method {
        "session/request" => ("read the messages in pages with session/messages", Some("session/messages")),
        "session/snapshot" => ("read the events in pages with session/events", Some("session/events")),
        "session/surface" => (
            "fold it from session/events of the types user/message, assistant/message and tool/result, in pages, by their surfaceOp",
            Some("session/events"),
        ),
        "session/list" => ("ask without live, and with a smaller limit", Some("session/list")),
        "session/inspect" => (
            "ask with a smaller maxBytes or, where its closers alone fill a line, load the session and read session/events",
            Some(method),
        ),
        "session/events" | "session/messages" => ("ask with a smaller maxBytes", Some(method)),
        _ => (LARGER, None),
    };
    let or = if paged.is_some() { format!(", or {LARGER}") } else { String::new() };
    let message = format!("the answer would be longer than a line of {max} bytes; {remedy}{or}");
    let error =
        WireError::new(Code::LimitExceeded, message).text("limit", "maxMessageBytes").fact("max", max);
    match paged {
        Some(paged) => error.text("use", paged),
        None => error,
    }
}
