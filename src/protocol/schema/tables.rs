//! The tables of `docs/` that say what the schemas say, as Markdown.

use serde_json::{Map, Value};

use super::{Document, Schemas};
use crate::protocol::{Acp, Code, METHODS};

/// Members that are ACP's and not kept, or anybody's.
const PASSED_OVER: [&str; 3] = ["mcpServers", "additionalDirectories", "_meta"];

/// Each table by its name.
pub fn tables() -> [(&'static str, String); 4] {
    let all = Schemas::new();
    [
        ("methods", methods(&all)),
        ("notifications", notifications(&all)),
        ("errors", errors()),
        ("event types", event_types(&all)),
    ]
}

/// Rows of cells; the first holds the heads.
fn table<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut lines: Vec<_> =
        rows.into_iter().map(|cells| format!("| {} |\n", cells.map(escaped).join(" | "))).collect();
    lines.insert(lines.len().min(1), format!("|{}\n", "---|".repeat(N)));
    lines.concat()
}

/// A `|` would end its cell.
fn escaped(cell: String) -> String {
    cell.replace('|', "\\|")
}

fn methods(all: &Schemas) -> String {
    let rows = METHODS.iter().map(|method| {
        let star = if method.acp == Acp::None { "" } else { " ★" };
        let schema = all.methods.get(method.name).and_then(|document| all.defs.get(document.get("params")?));
        let params = members((method.params)(), schema);
        [format!("`{}`{star}", method.name), params, method.doc().to_owned()]
    });
    table([["method", "params", "does"].map(str::to_owned)].into_iter().chain(rows))
}

fn notifications(all: &Schemas) -> String {
    let rows = all.notifications.iter().map(|(name, document)| {
        let schema = document.get("params").and_then(|params| all.defs.get(params));
        let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
        let names: Vec<_> = properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        [format!("`{name}`"), text(document, "from"), members(&names, schema), text(document, "description")]
    });
    table([["method", "from", "params", "when"].map(str::to_owned)].into_iter().chain(rows))
}

fn errors() -> String {
    let rows = Code::ALL.iter().map(|code| {
        let facts: Vec<_> = code.facts().iter().map(|(fact, _)| format!("`{fact}`")).collect();
        [code.number().to_string(), format!("`{}`", code.name()), code.meaning().to_owned(), facts.join(", ")]
    });
    table([["code", "`data.code`", "meaning", "`data`"].map(str::to_owned)].into_iter().chain(rows))
}

fn event_types(all: &Schemas) -> String {
    let types = all.events.get("types").and_then(Value::as_object).into_iter().flatten();
    let rows = types.map(|(name, entry)| {
        let joins = entry.get("surfaceOp").is_some_and(|joins| joins == "required");
        let text = entry.get("description").and_then(Value::as_str).unwrap_or_default();
        [format!("`{name}`{}", if joins { " †" } else { "" }), text.to_owned()]
    });
    table([["type", "says"].map(str::to_owned)].into_iter().chain(rows))
}

/// The names of an object's members, with `?` after those that it may lack.
fn members(names: &[&str], schema: Option<&Document>) -> String {
    let required = schema.and_then(|schema| schema.get("required")?.as_array());
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|other| other == name));
    let names = names.iter().filter(|name| !PASSED_OVER.contains(name));
    let cells = names.map(|name| format!("`{name}{}`", if is_required(name) { "" } else { "?" }));
    let cells: Vec<_> = cells.collect();
    if cells.is_empty() { "–".to_owned() } else { cells.join(", ") }
}

fn text(document: &Document, member: &str) -> String {
    document.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
}
