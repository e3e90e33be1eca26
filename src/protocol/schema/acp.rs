//! The acp dialect: ACP's members at the root, native ones under `_meta.sessiond` (PROTOCOL 2).

use serde_json::{Map, Value, json};

use super::Document;
use super::defs::Defs;
use crate::protocol::{Acp, AcpResult, Method, Scope};

/// Adds `acpParams` and `acpResult` to the document of a method whose form in the acp dialect is another.
pub(super) fn add(method: &Method, document: &mut Document, defs: &Defs) {
    let Acp::Split(own, result) = method.acp else { return };
    let (Some(params), Some(native)) = (document.get("params"), document.get("result")) else { return };
    let Some(params) = defs.get(params) else { return };
    // ACP requires a working directory wherever a session becomes live.
    let needs_cwd = method.scope == Scope::Sessions && own.contains(&"cwd");
    let extra: &[&str] = if needs_cwd { &["cwd"] } else { &[] };
    // ACP's own params and fields that are not read here are allowed.
    let own: Vec<_> = own.iter().copied().chain(["mcpServers", "additionalDirectories"]).collect();
    let params = split(params, &own, extra, false);
    let result = match result {
        AcpResult::Root(members) => wrapped(native, members, defs),
        AcpResult::Rows => listed(native, defs),
        AcpResult::Nothing => native.clone(),
    };
    document.insert("acpParams".to_owned(), params);
    document.insert("acpResult".to_owned(), result);
}

/// The native result under `_meta.sessiond`, some of its members at the root too.
fn wrapped(native: &Value, root: &[&str], defs: &Defs) -> Value {
    let all = defs.get(native).and_then(|schema| schema.get("properties"));
    let mut properties: Map<String, Value> =
        root.iter().filter_map(|name| Some(((*name).to_owned(), all?.get(name)?.clone()))).collect();
    properties.insert("_meta".to_owned(), meta(native.clone(), true));
    let required: Vec<_> = root.iter().copied().chain(["_meta"]).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// A list whose rows are split, and whose own members are all ACP's.
fn listed(native: &Value, defs: &Defs) -> Value {
    let Some(mut list) = defs.get(native).cloned() else { return Value::Bool(true) };
    let row = list.get("properties").and_then(|properties| properties.get("sessions")?.get("items").cloned());
    let row = row.and_then(|row| defs.get(&row).cloned()).unwrap_or_default();
    let row = split(&row, &["sessionId", "cwd", "title", "updatedAt"], &["cwd"], true);
    if let Some(items) =
        list.get_mut("properties").and_then(|properties| properties.get_mut("sessions")?.get_mut("items"))
    {
        *items = row;
    }
    list.remove("description");
    Value::Object(list)
}

/// `own` members at the root, all others under `_meta.sessiond`; `extra` ones are required here.
fn split(native: &Map<String, Value>, own: &[&str], extra: &[&str], meta_required: bool) -> Value {
    let part = |name: &str| native.get(name).cloned().unwrap_or_default();
    let mut inner = part("properties");
    let mut root = Map::new();
    if let Some(inner) = inner.as_object_mut() {
        inner.remove("_meta");
        for name in own {
            root.extend(inner.remove(*name).map(|schema| ((*name).to_owned(), schema)));
        }
    }
    let required = part("required");
    let names = || required.as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut outer: Vec<_> = names().filter(|name| own.contains(name)).chain(extra.iter().copied()).collect();
    if inner.as_object().is_some_and(Map::is_empty) {
        root.insert("_meta".to_owned(), json!({ "type": ["object", "null"] }));
    } else {
        let within: Vec<_> = names().filter(|name| !own.contains(name)).collect();
        let mut native = json!({ "type": "object", "properties": inner });
        if let (Some(native), false) = (native.as_object_mut(), within.is_empty()) {
            native.insert("required".to_owned(), json!(within));
        }
        root.insert("_meta".to_owned(), meta(native, meta_required));
    }
    if meta_required {
        outer.push("_meta");
    }
    let mut schema = json!({ "type": "object", "properties": root });
    if let (Some(schema), false) = (schema.as_object_mut(), outer.is_empty()) {
        schema.insert("required".to_owned(), json!(outer));
    }
    schema
}

fn meta(native: Value, required: bool) -> Value {
    let properties = json!({ "sessiond": native });
    if required {
        json!({ "type": "object", "properties": properties, "required": ["sessiond"] })
    } else {
        json!({ "type": ["object", "null"], "properties": properties })
    }
}
