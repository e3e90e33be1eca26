//! JSON Schema (draft 2020-12) of everything on the wire, made from the types that read and write it.
//!
//! [`files`] are the documents of the checked-in `schema/`: each stands alone, with what it refers to
//! under its own `$defs`. [`bundle`] is all of them in one document over shared `$defs`. [`tables`] are those of `docs/`.

mod acp;
mod checks;
mod defs;
mod errors;
mod event_types;
mod events;
mod tables;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Code;
use super::PROTOCOL;
use super::params::CancelParams;
use super::results::{DisposedNotice, DurableNotice, EventNotice, Opened, UpdateNotice};
use super::shapes::{Event, Message};
use super::{Acp, METHODS, Method};
use super::{Notice, UPDATE};
pub(in crate::protocol) use defs::Defs;
pub use tables::tables;

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
        all.defs.result::<Event>();
        all.defs.result::<Message>();
        all.defs.finish();
        for method in METHODS {
            if let Some(document) = all.methods.get_mut(method.name) {
                acp::add(method, document, &all.defs);
            }
        }
        all
    }

    fn add_methods(&mut self) {
        for method in METHODS {
            let (params, result) = (method.schemas)(&mut self.defs);
            let document = document(method.name, method.doc(), [("params", params), ("result", result)]);
            self.methods.insert(method.name, document);
        }
    }

    fn add_notifications(&mut self) {
        for notice in Notice::ALL {
            let (params, when) = match notice {
                Notice::Created => {
                    (self.defs.result::<Opened>(), "A session became live. After the response.")
                }
                Notice::Event => (
                    self.defs.result::<EventNotice>(),
                    "An event was committed: each exactly once, in seq order, before the response; from the opening's nextSeq on.",
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
        let acp = Method::named(name).is_some_and(|method| method.acp != Acp::None);
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
