//! Answers as lines: responses, errors, and the errors that no method gives.

use super::error::{Code, WireError};
use crate::json::{Json, escape_separators};

/// The head of every response that the method table makes; ours has the id's own text.
pub(super) const TABLE_HEAD: &str = r#"{"jsonrpc":"2.0","id":0,"#;

/// Whether a line is the request of that id.
pub(super) fn has_id(line: &str, id: Json<'_>) -> bool {
    let own = Json::parse(line).ok().and_then(|(request, _)| request.get("id"));
    own.is_some_and(|own| match (own.as_str(), id.as_str()) {
        (Some(own), Some(id)) => own == id,
        (None, None) => own.text() == id.text(),
        _ => false,
    })
}

/// Appends a response: what follows its id is `rest`.
pub(super) fn write_response(out: &mut String, id: &str, rest: &str) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    escape_separators(id, out);
    out.push(',');
    escape_separators(rest, out);
    out.push('\n');
}

/// Appends an error response.
pub(super) fn write_error(out: &mut String, id: &str, error: &WireError) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    escape_separators(id, out);
    out.push_str(",\"error\":");
    out.push_str(&error.to_json());
    out.push_str("}\n");
}

/// What the method table says of params that it could not read.
pub(super) fn reason_of(body: &str) -> String {
    let reason = Json::parse(body).ok().and_then(|(body, _)| body.at(&["error", "data"])?.as_str());
    reason.map(|reason| reason.lossy().into_owned()).unwrap_or_default()
}

/// An answer that does not fit into a line.
pub(super) fn too_long(method: &str, max: usize) -> WireError {
    let paged = match method.trim_start_matches('_') {
        "session/request" => "session/messages",
        "session/snapshot" => "session/events",
        "session/list" => "session/list with a smaller limit",
        other => other,
    };
    let message = format!("the answer would be longer than a line may be; read less at once with {paged}");
    WireError::new(Code::LimitExceeded, message).text("limit", "maxMessageBytes").fact("max", max)
}

/// No such method here.
pub(super) fn unknown_method(method: &str) -> WireError {
    let name: String = method.chars().take(100).collect();
    let of_agents = matches!(
        method,
        "session/prompt"
            | "session/set_mode"
            | "session/set_config_option"
            | "session/set_model"
            | "authenticate"
            | "logout"
    );
    if of_agents {
        let message = format!("{name} is not served: this daemon stores sessions and runs no model");
        return WireError::new(Code::MethodNotFound, message)
            .text("method", &name)
            .text("reason", "no_model");
    }
    let message = format!("there is no method {name:?}; initialize lists the methods");
    WireError::new(Code::MethodNotFound, message).text("method", &name)
}
