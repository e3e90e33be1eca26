//! JSON Schema (draft 2020-12) of everything on the wire, made from the types that read and write it.
//!
//! [`files`] are the documents of the checked-in `schema/`: each stands alone, with what it refers to
//! under its own `$defs`. [`bundle`] is all of them in one document over shared `$defs`.

mod acp;
mod bookkeeping;
mod checks;
mod defs;
mod errors;
mod event_types;
mod events;
mod payloads;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::Code;
use super::PROTOCOL;
use super::initialize::{InitializeResult, StatusResult};
use super::params::*;
use super::results::*;
use super::shapes::{EventSchema, MessageSchema};
use super::{Notice, UPDATE};
use defs::Defs;

/// The dialect of the documents.
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// One document: what stands beside `$defs`.
type Document = Map<String, Value>;

/// Everything, before it is cut into files.
struct Schemas {
    methods: BTreeMap<&'static str, Document>,
    notifications: BTreeMap<&'static str, Document>,
    events: Document,
    defs: Defs,
}

/// A method's document.
fn method<P: JsonSchema, R: JsonSchema>(schemas: &mut Schemas, name: &'static str, description: &str) {
    let (params, result) = (schemas.defs.params::<P>(), schemas.defs.result::<R>());
    let document = document(name, description, [("params", params), ("result", result)]);
    schemas.methods.insert(name, document);
}

/// A notification's document.
fn notification(schemas: &mut Schemas, name: &'static str, from: &str, description: &str, params: Value) {
    let document = document(name, description, [("from", json!(from)), ("params", params)]);
    schemas.notifications.insert(name, document);
}

fn document<const N: usize>(title: &str, description: &str, parts: [(&str, Value); N]) -> Document {
    let heads = [("title", json!(title)), ("description", json!(description))];
    heads.into_iter().chain(parts).map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Schemas {
    fn new() -> Self {
        let (methods, notifications, mut defs) = (BTreeMap::new(), BTreeMap::new(), Defs::new());
        let events = events::document(&mut defs);
        let mut all = Self { methods, notifications, events, defs };
        all.add_methods();
        all.add_notifications();
        all.defs.result::<EventSchema>();
        all.defs.result::<MessageSchema>();
        all.defs.finish();
        for (name, document) in &mut all.methods {
            acp::add(name, document, &all.defs);
        }
        all
    }

    /// Every method of `METHODS`, with what it takes and gives (`tests/schema.rs` compares the two).
    fn add_methods(&mut self) {
        let all = self;
        method::<InitializeParams, InitializeResult>(
            all,
            "initialize",
            "ACP's handshake; fixes the dialect of the connection. The same in both dialects.",
        );
        method::<NewParams, Opened>(
            all,
            "session/new",
            "Makes a session, empty or from a seed. It is live once the answer is there.",
        );
        method::<AppendParams, Appended>(
            all,
            "session/append",
            "Appends one event. The answer says that it is committed, visible and with the operating system.",
        );
        method::<AppendBatchParams, AppendedBatch>(
            all,
            "session/append_batch",
            "Appends events: all of them or none.",
        );
        method::<InterruptParams, Interrupted>(
            all,
            "session/interrupt",
            "Closes an open turn with the events that crash repair would write.",
        );
        method::<SnapshotParams, SnapshotResult>(
            all,
            "session/snapshot",
            "A stable prefix of a session as the seed and meta of a session/new.",
        );
        method::<ForkParams, Forked>(
            all,
            "session/fork",
            "Makes a child that shares a stable prefix of a session.",
        );
        method::<EventsParams, EventsResult>(all, "session/events", "A page of a session's events.");
        method::<MessagesParams, MessagesResult>(
            all,
            "session/messages",
            "A page of the messages that a session's surface gives.",
        );
        method::<ThroughParams, SurfaceResult>(all, "session/surface", "The nodes of a session's surface.");
        method::<RequestParams, RequestResult>(
            all,
            "session/request",
            "The model request as the log reconstructs it.",
        );
        method::<SessionParams, InfoResult>(all, "session/info", "How a live session stands.");
        method::<ListParams, ListResult>(all, "session/list", "A page of the live and stored sessions.");
        method::<LoadParams, Opened>(
            all,
            "session/load",
            "Makes a stored session live, after streaming its history if that is wanted.",
        );
        method::<ResumeParams, Opened>(
            all,
            "session/resume",
            "Makes a stored session live and streams nothing.",
        );
        method::<InspectParams, InspectResult>(
            all,
            "session/inspect",
            "A stored or live session as it lies there, read without changing it.",
        );
        method::<RescueParams, Opened>(
            all,
            "session/rescue",
            "Stores a live session anew whose file another program changed, moved or removed.",
        );
        method::<StatusParams, StatusResult>(
            all,
            "sessiond/status",
            "How the daemon stands: at any time, before initialize and past all that waits. The same in both dialects.",
        );
        method::<SessionParams, FlushResult>(
            all,
            "session/flush",
            "Answers once everything committed before it is on stable storage.",
        );
        method::<EndParams, EmptyResult>(
            all,
            "session/close",
            "Flushes a session and lets it go; an unknown one too.",
        );
        method::<EndParams, EmptyResult>(
            all,
            "session/delete",
            "Closes a session and removes it from storage; an unknown one too.",
        );
    }

    fn add_notifications(&mut self) {
        for notice in Notice::ALL {
            let (params, when) = match notice {
                Notice::Created => {
                    (self.defs.result::<Opened>(), "A session became live. After the response.")
                }
                Notice::Event => (
                    self.defs.result::<EventNotice>(),
                    "An event was committed: each exactly once, in seq order, before the response.",
                ),
                Notice::Durable => (
                    self.defs.result::<DurableNotice>(),
                    "Events reached stable storage. Before the answer that promises it.",
                ),
                Notice::Disposed => (self.defs.result::<DisposedNotice>(), "A session stopped being live."),
            };
            notification(self, notice.method(), "daemon", when, params);
        }
        let params = self.defs.result::<UpdateNotice>();
        let when = "ACP's: the history during session/load; with liveUpdates appended messages too.";
        notification(self, UPDATE, "daemon", when, params);
        let params = self.defs.params::<CancelParams>();
        let when = "A request that waits answers REQUEST_CANCELLED; one that took effect answers normally.";
        notification(self, "$/cancel_request", "client", when, params);
    }
}

/// The files of `schema/`: their paths inside it and their texts, sorted by path.
pub fn files() -> BTreeMap<String, String> {
    let all = Schemas::new();
    let mut files = BTreeMap::new();
    let mut put = |path: String, document: Document| {
        files.insert(path, print(&Value::Object(all.defs.complete(document))));
    };
    let rooms = [("methods", &all.methods), ("notifications", &all.notifications)];
    for (room, documents) in rooms {
        for (name, document) in documents {
            put(file(room, name), document.clone());
        }
    }
    put("errors.json".to_owned(), errors::document());
    put("events.json".to_owned(), all.events.clone());
    for (path, name) in [("event.json", "Event"), ("message.json", "Message")] {
        put(path.to_owned(), all.defs.root(name));
    }
    files.insert("index.json".to_owned(), print(&index(&all)));
    files
}

/// All schemas in one document.
pub fn bundle() -> String {
    let all = Schemas::new();
    print(&json!({
        "$schema": DRAFT,
        "title": "sessiond",
        "description": "The wire protocol of sessiond.",
        "protocol": PROTOCOL,
        "methods": all.methods,
        "notifications": all.notifications,
        "error": errors::document(),
        "events": all.events,
        "$defs": all.defs.all(),
    }))
}

/// Where a method or notification is described.
fn file(room: &str, name: &str) -> String {
    format!("{room}/{}.json", name.replace('/', "."))
}

/// What there is.
fn index(all: &Schemas) -> Value {
    let entry = |room, name: &str, document: &Document, extra: (&str, Value)| {
        json!({
            "name": name,
            "file": file(room, name),
            "description": document.get("description"),
            extra.0: extra.1,
        })
    };
    let methods = all.methods.iter().map(|(name, document)| {
        let acp = *name == "initialize" || document.contains_key("acpParams");
        entry("methods", name, document, ("acp", json!(acp)))
    });
    let notifications = all.notifications.iter().map(|(name, document)| {
        let from = document.get("from").cloned().unwrap_or_default();
        entry("notifications", name, document, ("from", from))
    });
    let errors = Code::ALL
        .iter()
        .map(|code| json!({ "code": code.number(), "name": code.name(), "description": code.meaning() }));
    json!({
        "protocol": PROTOCOL,
        "methods": methods.collect::<Vec<_>>(),
        "notifications": notifications.collect::<Vec<_>>(),
        "errors": errors.collect::<Vec<_>>(),
        "errorFile": "errors.json",
        "eventFile": "events.json",
        "definitions": { "Event": "event.json", "Message": "message.json" },
    })
}

/// The text of a document: members sorted, two spaces, a line end. Sorted here, as whether a map of
/// serde_json sorts depends on what other crates ask of it.
fn print(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let members: BTreeMap<_, _> =
                    members.iter().map(|(name, value)| (name, sorted(value))).collect();
                members.into_iter().map(|(name, value)| (name.clone(), value)).collect()
            }
            Value::Array(elements) => elements.iter().map(sorted).collect(),
            scalar => scalar.clone(),
        }
    }
    let mut text = serde_json::to_string_pretty(&sorted(value)).unwrap_or_default();
    text.push('\n');
    text
}
