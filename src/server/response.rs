//! The lines that answer a request.

use super::splice::{Place, Splice};
use crate::json::escape_separators;
use crate::protocol::WireError;

/// The head of every response that the method table makes; ours has the id's own text.
const TABLE_HEAD: &str = r#"{"jsonrpc":"2.0","id":0,"#;

/// How a response that is no error goes on behind its id.
pub(super) const RESULT: &str = "\"result\":{";

/// A response as the method table would have made it, of a result that is JSON text.
pub(super) fn as_table(result: &str) -> String {
    format!("{TABLE_HEAD}\"result\":{result}}}")
}

/// Begins a response, up to its first member behind the id.
pub(super) fn begin_response(out: &mut String, id: &str) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
    escape_separators(id, out);
    out.push(',');
}

/// Appends a response as the method table has made it, with the id's own text and what was kept apart of it.
pub(super) fn write_response(out: &mut String, id: &str, response: &str, splice: Option<Splice>) {
    let rest = response.strip_prefix(TABLE_HEAD).unwrap_or("\"result\":null}");
    match splice {
        None => {
            begin_response(out, id);
            escape_separators(rest, out);
        }
        Some(Splice::Begun(member)) => {
            let held = rest.strip_prefix(RESULT).and_then(|rest| rest.strip_prefix(&*place_of(member)));
            escape_separators(held.unwrap_or("}}"), out);
        }
        Some(Splice::Text { member, at, text }) => {
            let place = place_of(member);
            let parts = match at {
                Place::First => rest.split_once(&*place),
                Place::Last => rest.rsplit_once(&*place),
            };
            let (before, after) = parts.unwrap_or((rest, ""));
            begin_response(out, id);
            escape_separators(before, out);
            out.push('"');
            out.push_str(member);
            out.push_str("\":");
            out.push_str(&text);
            escape_separators(after, out);
        }
    }
    out.push('\n');
}

/// What stands in a result in the place of a member that is kept apart.
fn place_of(member: &str) -> String {
    format!("\"{member}\":null")
}

/// Appends an error response.
pub(super) fn write_error(out: &mut String, id: &str, error: &WireError) {
    begin_response(out, id);
    out.push_str("\"error\":");
    out.push_str(&error.to_json());
    out.push_str("}\n");
}
