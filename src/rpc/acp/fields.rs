//! Members of a payload, found in one pass.

use crate::json::{Json, JsonStr, Type};

/// The first member of each name; one walk, however many names.
pub(super) fn fields<'a, const N: usize>(value: Json<'a>, names: [&str; N]) -> [Option<Json<'a>>; N] {
    let mut found = [None; N];
    for (key, member) in value.members() {
        for (slot, name) in found.iter_mut().zip(names) {
            if slot.is_none() && key.is(name) {
                *slot = Some(member);
                break;
            }
        }
    }
    found
}

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
