//! Params that a method's types could not read, as an error that names the member and quotes none of it.
//!
//! Serde says where it stopped: the member whose text reaches to that byte is the one that does not fit.

use super::connection::CURSOR_ID;
use crate::json::{Json, Type};
use crate::log::{did_you_mean, nearest};
use crate::protocol::{Code, WireError};

/// What `since` must be.
const SINCE: &str = "an object {replaceGeneration, count}, such as the next of an answer";
/// What an event of a batch must be.
const BATCH_EVENT: &str = "an object {type, data, surfaceOp?, sourceEventSeqs?, ignorable?}";

/// Most characters of a member's name in an error.
const NAME: usize = 60;

/// The error for `reason`, as serde gave it of the object `params` (`at`: what names of its members are
/// put behind, such as `meta.`).
pub(super) fn misfit(reason: &str, params: Json<'_>, at: &str) -> WireError {
    let (reason, column) = match reason.rsplit_once(" at line 1 column ") {
        Some((reason, column)) => (reason, column.parse().ok()),
        None => (reason, None),
    };
    let place = column.and_then(|column| Place::find(params, column)).unwrap_or_default();
    let inner = place.path.strip_prefix(at).unwrap_or(&place.path);
    let of_member = |name: &str| match inner.rsplit_once('.') {
        Some((outer, _)) if place.nested => format!("{at}{outer}.{name}"),
        _ if place.nested => format!("{at}{inner}.{name}"),
        _ => format!("{at}{name}"),
    };
    let quoted = |start: &str| reason.strip_prefix(start).and_then(|rest| rest.split('`').next());
    let (field, message) = if let Some(name) = quoted("missing field `") {
        let field = of_member(name);
        (field.clone(), format!("{field} is missing"))
    } else if let Some(name) = quoted("unknown field `") {
        let known = reason.rsplit_once("`, expected ").map_or("", |(_, known)| known);
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        let error = unknown_param(&of_member(""), name, &known);
        return place.index.into_iter().fold(error, |error, index| error.fact("index", index));
    } else if let Some(name) = quoted("duplicate field `") {
        let field = of_member(name);
        (field.clone(), format!("{field} appears twice"))
    } else if let Some((_, expected)) = reason.rsplit_once(", expected ") {
        let field = format!("{at}{inner}");
        (field.clone(), format!("{field} must be {}", wanted(expected)))
    } else if reason.contains("hex escape") || reason.contains("unicode") {
        let field = format!("{at}{inner}");
        (field.clone(), format!("{field} must be valid Unicode: a surrogate stands alone in it"))
    } else {
        let field = format!("{at}{inner}");
        (
            field.clone(),
            format!(
                "the params do not fit the method{}{field}",
                if field.is_empty() { "" } else { ": see " }
            ),
        )
    };
    let error = WireError::new(Code::InvalidParams, message);
    let error = if field.is_empty() { error } else { error.text("field", &field) };
    match place.index {
        Some(index) => error.fact("index", index),
        None => error,
    }
}

/// The error for a member that is not known there; `at`: what names of its place are put behind.
pub(super) fn unknown_param(at: &str, name: &str, known: &[&str]) -> WireError {
    let field = format!("{at}{}", name.chars().take(NAME).collect::<String>());
    let near: Vec<_> =
        nearest(name, known.iter().copied()).iter().map(|near| format!("{at}{near}")).collect();
    let offer = match did_you_mean(&near) {
        Some(offer) => offer,
        None if name == CURSOR_ID => "no cursors are offered, cut with boundary or messageId".to_owned(),
        None => format!("known here are {}", known.join(", ")),
    };
    WireError::new(Code::InvalidParams, format!("there is no param {field:?}; {offer}"))
        .text("field", &field)
        .names("nearest", &near)
}

/// Serde reads a list as an object's members in their order; the protocol does not.
pub(super) fn list_for_object(method: &str, params: Json<'_>) -> Option<WireError> {
    let is_list = |value: &Json<'_>| value.kind() == Type::Array;
    let (field, index) = match method {
        "session/messages" => ("since".to_owned(), params.get("since").filter(is_list).map(|_| None)),
        "session/append_batch" => {
            let events = params.get("events").filter(is_list)?;
            let index = events.elements().position(|event| is_list(&event))?;
            (format!("events[{index}]"), Some(Some(index)))
        }
        _ => return None,
    };
    let shape = if index == Some(None) { SINCE } else { BATCH_EVENT };
    let message = format!("{field} must be {shape}");
    let error = WireError::new(Code::InvalidParams, message).text("field", &field);
    Some(match index? {
        Some(index) => error.fact("index", index),
        None => error,
    })
}

/// What serde expected, in words of JSON.
fn wanted(expected: &str) -> String {
    match expected {
        "u64" => "a non-negative integer".to_owned(),
        "a sequence" => "an array".to_owned(),
        "struct Since" => SINCE.to_owned(),
        "struct BatchEvent" => BATCH_EVENT.to_owned(),
        _ if expected.starts_with("struct ") => "an object".to_owned(),
        _ if expected.contains('`') => expected.trim_start_matches("one of ").replace('`', "\""),
        other => other.chars().take(NAME).collect(),
    }
}

/// Where in the params a reader stopped.
#[derive(Default)]
struct Place {
    /// The member, and the member of it where that is an object or in a list of objects.
    path: String,
    /// Inside an object of the params.
    nested: bool,
    /// The element of a list.
    index: Option<usize>,
}

impl Place {
    /// The place of byte `column` of the text of `params`; none at its end.
    fn find(params: Json<'_>, column: usize) -> Option<Self> {
        let (name, value) = member_at(params, params, column)?;
        let mut place = Self { path: name, ..Self::default() };
        match value.kind() {
            Type::Object if column > start(params, value) + 1 => place.enter(params, value, column),
            Type::Array if column > start(params, value) + 1 => {
                let mut elements = value.elements().enumerate();
                let found = elements.find(|(_, element)| column <= end(params, *element));
                if let Some((index, element)) = found {
                    place.index = Some(index);
                    place.path = format!("{}[{index}]", place.path);
                    if element.kind() == Type::Object && column > start(params, element) + 1 {
                        place.enter(params, element, column);
                    }
                }
            }
            _ => {}
        }
        Some(place)
    }

    fn enter(&mut self, params: Json<'_>, object: Json<'_>, column: usize) {
        self.nested = true;
        if let Some((name, _)) = member_at(params, object, column) {
            self.path = format!("{}.{name}", self.path);
        }
    }
}

/// The first member of `object` that reaches to byte `column` of the text of `params`.
fn member_at<'a>(params: Json<'_>, object: Json<'a>, column: usize) -> Option<(String, Json<'a>)> {
    let (key, value) = object.members().find(|(_, value)| column <= end(params, *value))?;
    Some((key.lossy().chars().take(NAME).collect(), value))
}

fn start(params: Json<'_>, value: Json<'_>) -> usize {
    (value.text().as_ptr() as usize).saturating_sub(params.text().as_ptr() as usize)
}

fn end(params: Json<'_>, value: Json<'_>) -> usize {
    start(params, value) + value.text().len()
}
