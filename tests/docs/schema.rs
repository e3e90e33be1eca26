//! Does `schema/` say what the program does? (`sessiond schema`, PROTOCOL 3 to 5)
//!
//! The checked-in files are the generated ones; every method, notification and error has its schema;
//! and every line of a conversation fits: of the one below, and of `transcripts/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sessiond::json::Json;
use sessiond::protocol::{Acp, Code, METHODS, Notice, UPDATE, schema};
use sessiond::server::{Server, Settings};
use sessiond::store::MemoryStorage;

use crate::schema_support::conversation::{Met, Schemas, Walk, transcript};
use crate::schema_support::faults;

/// How to make the checked-in files anew.
const UPDATE_COMMAND: &str = "cargo run -- schema --out schema";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            files_below(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

#[test]
fn the_checked_in_files_are_current() {
    let folder = root().join("schema");
    let mut found = Vec::new();
    files_below(&folder, &mut found);
    let on_disk: BTreeMap<String, String> = found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&folder).unwrap().to_str().unwrap().replace('\\', "/");
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    let made = schema::files();
    for (name, text) in &made {
        assert_eq!(on_disk.get(name), Some(text), "schema/{name} is stale; run: {UPDATE_COMMAND}");
    }
    for name in on_disk.keys() {
        assert!(made.contains_key(name), "schema/{name} describes nothing any more; remove it");
    }
}

#[test]
fn every_method_notification_and_error_has_a_schema() {
    let schemas = Schemas::current();
    let index = schemas.file("index.json");
    let names = |list: &str| -> Vec<String> {
        index[list]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut methods: Vec<_> = METHODS.iter().map(|method| method.name).collect();
    methods.sort_unstable();
    assert_eq!(names("methods"), methods);
    for method in methods {
        let document = schemas.get("methods", method).unwrap();
        assert!(document["params"].is_object() && document["result"].is_object(), "{method}");
    }
    for name in Notice::ALL.map(Notice::method).into_iter().chain([UPDATE, "$/cancel_request"]) {
        assert!(schemas.get("notifications", name).unwrap()["params"].is_object(), "{name}");
        assert!(names("notifications").iter().any(|other| other == name), "{name}");
    }
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.name().to_owned()).collect();
    assert_eq!(names("errors"), codes);
}

#[test]
fn every_reference_leads_somewhere_and_every_definition_is_used() {
    let bundle: Value = serde_json::from_str(&schema::bundle()).unwrap();
    let mut documents: Vec<Value> =
        schema::files().into_values().map(|text| serde_json::from_str(&text).unwrap()).collect();
    documents.push(bundle);
    for document in documents {
        let text = document.to_string();
        let defs = document.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
        for used in text.split("\"#/$defs/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(defs.contains_key(used), "{}: {used}", document["title"]);
        }
        for name in defs.keys().filter(|name| !matches!(name.as_str(), "Event" | "Message")) {
            assert!(text.contains(&format!("\"#/$defs/{name}\"")), "{}: {name}", document["title"]);
        }
    }
}

/// Whether a value fits a definition of the bundle.
fn fits(definition: &str, value: &Value) -> bool {
    let bundle: Value = serde_json::from_str(&schema::bundle()).unwrap();
    let text = value.to_string();
    let (value, _) = Json::parse(&text).unwrap();
    faults(&bundle, &json!({ "$ref": format!("#/$defs/{definition}") }), value).is_empty()
}

#[test]
fn absence_null_and_bounds_are_told_apart() {
    let append = |extra: Value| {
        let mut params = json!({ "sessionId": "a", "type": "user/message", "data": null });
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        fits("AppendParams", &params)
    };
    assert!(append(json!({})));
    assert!(
        append(json!({ "expectedSeq": null, "ignorable": null, "_meta": { "x": 1 } })),
        "null is absence"
    );
    assert!(append(json!({ "expectedSeq": 9007199254740991u64, "surfaceOp": "append" })));
    assert!(append(
        json!({ "surfaceOp": { "op": "replace", "start": 0, "end": 4 }, "sourceEventSeqs": [0, 4] })
    ));
    for wrong in [
        json!({ "surfaceOp": null }),
        json!({ "surfaceOp": "replace" }),
        json!({ "surfaceOp": { "op": "replace", "start": 0 } }),
        json!({ "sourceEventSeqs": null }),
        json!({ "sourceEventSeqs": [1, 1] }),
        json!({ "expectedSeq": 9007199254740992u64 }),
        json!({ "expectedSeq": -1 }),
        json!({ "expectedSeq": 1.5 }),
        json!({ "ignorable": false }),
        json!({ "other": 1 }),
    ] {
        assert!(!append(wrong.clone()), "{wrong}");
    }
    assert!(fits("NewParams", &json!({ "mcpServers": [], "meta": null })), "ACP's params are open");
    assert!(!fits("NewParams", &json!({ "meta": { "cwd": null } })), "null is a value in meta");
    assert!(!fits(
        "SessionInfo",
        &json!({ "sessionId": "a", "createdAt": 0, "isSeeded": false, "live": true, "status": "ok", "title": null })
    ));
    assert!(fits("FlushResult", &json!({ "durableSeq": null })));
    assert!(!fits("FlushResult", &json!({})));
    assert!(!fits("EventsParams", &json!({ "sessionId": "a", "limit": 0 })));
}

/// Lines for a fresh daemon, and what it says to each.
fn converse(met: &mut Met, lines: &[Value]) {
    let schemas = Schemas::current();
    let mut walk = Walk::new(&schemas, met);
    let settings = Settings {
        clock: "fixed:1700000000000+1000".parse().unwrap(),
        ids: "sequential".parse().unwrap(),
        ..Settings::default()
    };
    let mut server = Server::new(settings, Box::new(MemoryStorage::default()));
    for (index, message) in lines.iter().enumerate() {
        let line = match message {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let at = format!("line {}, {line}", index + 1);
        walk.sent(&at, line.as_bytes());
        server.receive(line.as_bytes());
        let answers = std::mem::take(server.output().unwrap());
        for answer in answers.lines() {
            walk.received(&format!("{at}: {answer}"), answer.as_bytes());
        }
    }
}

fn call(id: usize, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn text_message(text: &str) -> Value {
    json!({ "role": "user", "content": [{ "type": "text", "text": text }], "source": { "kind": "user" } })
}

/// Every method in one dialect.
fn session_life(spelled: fn(Value, &[&str]) -> Value) -> Vec<Value> {
    let session = |id: &str| json!({ "sessionId": id });
    let mut calls: Vec<(&str, Value)> = Vec::new();
    let acp = |value: Value, own: &[&str]| spelled(value, own);
    calls.push((
        "session/new",
        acp(json!({ "sessionId": "a", "cwd": "/w", "meta": { "agentPreset": "p" } }), &["cwd"]),
    ));
    let append = |kind: &str, data: Value| json!({ "sessionId": "a", "type": kind, "data": data });
    let mut message = append("user/message", text_message("hi"));
    message["surfaceOp"] = json!("append");
    calls.push(("session/append", message.clone()));
    message["expectedSeq"] = json!(0);
    calls.push(("_session/append", message));
    calls.push(("session/append", append("turn/start", json!({ "turn": 1 }))));
    let header = json!({ "header": { "config": { "provider": "p", "model": "m" }, "tools": [] }, "reason": "initial" });
    calls.push((
        "session/append_batch",
        json!({ "sessionId": "a", "events": [
        { "type": "request/header", "data": header },
        { "type": "request/context", "data": { "provider": "p", "model": "m" } },
        { "type": "x/y", "data": [1.50, "\u{2028}"], "ignorable": true },
    ] }),
    ));
    calls.push(("session/info", session("a")));
    let end = json!({ "turn": 1, "reason": { "kind": "completed" } });
    calls.push(("session/append", append("turn/end", end)));
    calls.push(("session/interrupt", session("a")));
    calls.push((
        "session/append",
        append("session/title", json!({ "title": "t", "messageSeqs": [0], "source": { "kind": "user" } })),
    ));
    calls.push(("session/snapshot", session("a")));
    calls.push((
        "session/fork",
        acp(
            json!({ "sessionId": "a", "cwd": "/w", "childSessionId": "b", "boundary": 0 }),
            &["sessionId", "cwd"],
        ),
    ));
    calls.push(("session/new", acp(json!({ "cwd": "/w", "seed": [] , "ephemeral": true }), &["cwd"])));
    calls.push(("session/events", json!({ "sessionId": "a", "limit": 2, "reverse": true })));
    calls.push((
        "session/messages",
        json!({ "sessionId": "a", "since": { "replaceGeneration": 0, "count": 0 } }),
    ));
    calls.push(("session/surface", session("a")));
    calls.push(("session/request", session("a")));
    calls.push(("session/request", session("b")));
    calls.push(("session/info", session("b")));
    calls.push(("session/rescue", session("a")));
    calls.push(("session/flush", session("a")));
    calls.push(("session/inspect", json!({ "sessionId": "a", "limit": 3 })));
    calls.push(("sessiond/status", json!({})));
    calls.push(("session/list", acp(json!({ "limit": 1, "cwd": null }), &["cwd", "cursor"])));
    calls.push(("session/list", acp(json!({ "live": true }), &["cwd", "cursor"])));
    calls.push(("session/close", acp(session("a"), &["sessionId"])));
    calls.push((
        "session/load",
        acp(json!({ "sessionId": "a", "cwd": "/w", "replay": "none" }), &["sessionId", "cwd"]),
    ));
    calls.push(("session/close", acp(session("a"), &["sessionId"])));
    calls.push(("session/resume", acp(json!({ "sessionId": "a", "cwd": "/w" }), &["sessionId", "cwd"])));
    calls.push(("session/delete", acp(session("a"), &["sessionId"])));
    calls.into_iter().enumerate().map(|(id, (method, params))| call(id, method, params)).collect()
}

fn check(met: &Met) {
    assert!(met.faults.is_empty(), "{}", met.faults.join("\n"));
}

#[test]
fn a_native_conversation_fits() {
    let mut met = Met::default();
    let declared = json!({ "eventTypes": [{ "type": "my/type" }], "prefix": "_" });
    let hello = json!({ "protocolVersion": 1, "clientCapabilities": { "_meta": { "sessiond": declared } } });
    let mut lines = vec![call(100, "initialize", hello)];
    lines.extend(session_life(|params, _| params));
    lines.push(json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": 7 } }));
    converse(&mut met, &lines);
    check(&met);
    assert_eq!(met.errors, Default::default());
    for name in ["session/created", "session/event", "session/disposed", "$/cancel_request"] {
        assert!(met.notifications.contains(name), "{name}");
    }
}

#[test]
fn an_acp_conversation_fits() {
    let mut met = Met::default();
    let hello = json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let mut lines = vec![call(100, "initialize", hello)];
    lines.extend(session_life(|params, own| {
        let (root, native): (serde_json::Map<_, _>, _) = params
            .as_object()
            .unwrap()
            .clone()
            .into_iter()
            .partition(|(name, _)| own.contains(&name.as_str()));
        let mut params = Value::Object(root);
        params["_meta"] = json!({ "sessiond": Value::Object(native) });
        params["mcpServers"] = json!([]);
        params
    }));
    converse(&mut met, &lines);
    check(&met);
    assert_eq!(met.errors, Default::default());
    for method in METHODS.iter().filter(|method| method.acp != Acp::None) {
        assert!(met.methods.contains(method.name), "{}", method.name);
    }
}

/// Codes that need a disk, a bug, or a request that waits.
const NOT_IN_MEMORY: [Code; 6] = [
    Code::Internal,
    Code::RequestCancelled,
    Code::FormatUnsupported,
    Code::SessionCorrupt,
    Code::SessionLocked,
    Code::StorageFailed,
];

#[test]
fn refusals_fit() {
    let mut met = Met::default();
    let append = |extra: Value| {
        let mut params = json!({ "sessionId": "a", "type": "x/y", "data": {}, "ignorable": true });
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        ("session/append", params)
    };
    let calls = [
        ("session/new", json!({ "sessionId": "a" })),
        ("session/new", json!({ "sessionId": "a" })),
        ("session/prompt", json!({})),
        ("session/none", json!({})),
        ("session/info", json!({})),
        ("session/info", json!({ "sessionId": "b" })),
        ("session/info", json!({ "sessionId": "a", "other": 1 })),
        ("session/load", json!({ "sessionId": "b" })),
        ("session/interrupt", json!({ "sessionId": "a", "instanceId": "x" })),
        ("session/fork", json!({ "sessionId": "a", "boundary": 0 })),
        append(json!({ "expectedSeq": 4 })),
        append(json!({ "type": "user/message", "ignorable": null, "surfaceOp": "append" })),
        append(json!({ "type": "x/y", "ignorable": null })),
        append(json!({ "surfaceOp": "append" })),
        append(
            json!({ "type": "turn/end", "data": { "turn": 1, "reason": { "kind": "completed" } }, "ignorable": null }),
        ),
        append(json!({ "type": "turn/start", "data": { "turn": 1 }, "ignorable": null })),
        append(json!({ "durable": true })),
        ("session/fork", json!({ "sessionId": "a" })),
        ("session/messages", json!({ "sessionId": "a", "throughSeq": 99 })),
        (
            "session/new",
            json!({ "seed": [{ "type": "x/y", "seq": 1, "time": 0, "data": 0, "ignorable": true }] }),
        ),
        ("session/new", json!({ "seed": [{ "type": "x/y", "seq": 0, "time": 0, "data": 0, "z": 0 }] })),
        ("session/append_batch", json!({ "sessionId": "a", "events": [{ "type": "x/y", "data": 0 }] })),
        ("initialize", json!({ "protocolVersion": 1 })),
    ];
    let mut lines: Vec<Value> =
        calls.into_iter().enumerate().map(|(id, (method, params))| call(id, method, params)).collect();
    let raw = |data: &str| {
        let params = format!(r#"{{"sessionId":"a","type":"x/y","data":{data},"ignorable":true}}"#);
        json!(format!(r#"{{"jsonrpc":"2.0","id":"r","method":"session/append","params":{params}}}"#))
    };
    lines.extend([
        json!("{"),
        json!("[]"),
        raw("-0"),
        raw(&format!("{}{}", "[".repeat(1001), "]".repeat(1001))),
    ]);
    converse(&mut met, &lines);
    check(&met);
    let missing: Vec<_> = Code::ALL
        .iter()
        .filter(|code| !NOT_IN_MEMORY.contains(code) && **code != Code::MessageTooLarge)
        .filter(|code| !met.errors.contains_key(code.name()))
        .collect();
    assert!(missing.is_empty(), "not met: {missing:?}");
}

/// The transcripts, by name.
fn transcripts() -> Vec<(String, String)> {
    let mut found = Vec::new();
    files_below(&root().join("transcripts"), &mut found);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    found.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

fn walk_transcripts() -> Met {
    let (schemas, mut met) = (Schemas::current(), Met::default());
    for (name, text) in transcripts() {
        transcript(&schemas, &mut met, &name, &text);
    }
    met
}

#[test]
fn every_line_of_every_transcript_fits() {
    check(&walk_transcripts());
}

#[test]
fn every_method_notification_and_error_has_a_transcript() {
    let met = walk_transcripts();
    let mut missing = Vec::new();
    let methods = METHODS.iter().map(|method| method.name);
    missing.extend(methods.filter(|name| !met.methods.contains(*name)).map(str::to_owned));
    let notifications = Notice::ALL.map(Notice::method).into_iter().chain([UPDATE, "$/cancel_request"]);
    missing.extend(notifications.filter(|name| !met.notifications.contains(*name)).map(str::to_owned));
    let codes = Code::ALL.iter().filter(|code| !NOT_IN_MEMORY.contains(code)).map(|code| code.name());
    missing.extend(codes.filter(|name| !met.errors.contains_key(*name)).map(str::to_owned));
    assert!(missing.is_empty(), "no transcript shows: {}", missing.join(", "));
}

#[test]
fn the_walk_sees_what_does_not_fit() {
    let (schemas, mut met) = (Schemas::current(), Met::default());
    let text = concat!(
        "# title\n",
        "> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/flush\",\"params\":{\"sessionId\":5}}\n",
        "< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"durableSeq\":-1}}\n",
        "< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
        "< {\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-31004,\"message\":\"\",\"data\":{\"code\":\"SEQ_CONFLICT\",\"expected\":1,\"actual\":2}}}\n",
        "< {\"jsonrpc\":\"2.0\",\"method\":\"session/other\",\"params\":{}}\n",
        "< {\"jsonrpc\":\"2.0\",\"method\":\"session/durable\",\"params\":{\"sessionId\":\"a\"}}\n",
        "< {\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32603,\"message\":\"\",\"data\":{\"code\":\"INTERNAL\",\"x\":1}}}\n",
    );
    transcript(&schemas, &mut met, "t", text);
    let lines: Vec<_> = met.faults.iter().map(|fault| fault.split([' ', ':']).nth(1).unwrap()).collect();
    assert_eq!(lines, ["3", "3", "4", "5", "6", "7", "8"], "{:#?}", met.faults);
}
