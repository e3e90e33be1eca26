//! Optional members of a payload.

use crate::json::{Json, JsonStr, Type};

/// The string of an optional member.
pub(super) fn string(value: Option<Json<'_>>) -> Option<JsonStr<'_>> {
    value.and_then(Json::as_str)
}

/// The string of an optional member when it is not empty.
pub(super) fn filled(value: Option<Json<'_>>) -> Option<JsonStr<'_>> {
    string(value).filter(|text| !text.is_empty())
}

/// The value of an optional member unless it is `null`.
pub(super) fn present(value: Option<Json<'_>>) -> Option<Json<'_>> {
    value.filter(|json| json.kind() != Type::Null)
}

/// The JSON text of a string without its quotes.
pub(super) fn inner(text: JsonStr<'_>) -> &str {
    let text = text.text();
    text.get(1..text.len().saturating_sub(1)).unwrap_or("")
}
