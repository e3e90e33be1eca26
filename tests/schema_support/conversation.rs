//! Walks a conversation line by line and holds each line to the schema of its method.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use base64::Engine;
use serde_json::Value;
use sessiond::json::{Json, Type};

use super::faults;

/// The documents of `schema/`, parsed.
pub(crate) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// As the program makes them now.
    pub(crate) fn current() -> Self {
        let files = sessiond::protocol::schema::files();
        Self(files.into_iter().map(|(name, text)| (name, serde_json::from_str(&text).unwrap())).collect())
    }

    pub(crate) fn get(&self, room: &str, name: &str) -> Option<&Value> {
        self.0.get(&format!("{room}/{}.json", name.replace('/', ".")))
    }

    pub(crate) fn file(&self, name: &str) -> &Value {
        &self.0[name]
    }
}

/// What was met on the way.
#[derive(Default)]
pub(crate) struct Met {
    /// Methods that were answered with a result.
    pub(crate) methods: BTreeSet<String>,
    /// Notifications, without a prefix.
    pub(crate) notifications: BTreeSet<String>,
    /// Names of errors, each with the first line that has it.
    pub(crate) errors: BTreeMap<String, String>,
    /// What does not fit, with the line.
    pub(crate) faults: Vec<String>,
}

struct Sent {
    method: String,
    params: String,
    acp: bool,
}

/// One conversation.
pub(crate) struct Walk<'a> {
    schemas: &'a Schemas,
    met: &'a mut Met,
    /// Requests by the text of their ids, oldest first.
    waiting: HashMap<String, VecDeque<Sent>>,
    fixed: bool,
    acp: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(schemas: &'a Schemas, met: &'a mut Met) -> Self {
        Self { schemas, met, waiting: HashMap::new(), fixed: false, acp: false }
    }

    /// A fresh daemon.
    pub(crate) fn restart(&mut self) {
        (self.fixed, self.acp) = (false, false);
        self.waiting.clear();
    }

    /// A line to the daemon. What is no request is for the daemon to refuse.
    pub(crate) fn sent(&mut self, at: &str, line: &[u8]) {
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let Some((message, _)) = std::str::from_utf8(line).ok().and_then(|text| Json::parse(text).ok())
        else {
            return;
        };
        let Some(method) = message.get("method").and_then(Json::as_str) else { return };
        let method = method.lossy().into_owned();
        let given = message.get("params").filter(|params| params.kind() != Type::Null);
        let params = given.map_or("{}", Json::text).to_owned();
        let Some(id) = message.get("id") else {
            if let Some(schema) = self.schemas.get("notifications", &method) {
                self.met.notifications.insert(method);
                // One without params is wrong on purpose; no answer could tell so.
                if params != "{}" {
                    self.hold(at, schema, "params", &params);
                }
            }
            return;
        };
        if !self.fixed && method == "initialize" {
            (self.fixed, self.acp) = (true, speaks_acp(&params));
        }
        let sent = Sent { method, params, acp: self.acp };
        self.waiting.entry(spelling(id)).or_default().push_back(sent);
    }

    /// A line of the daemon.
    pub(crate) fn received(&mut self, at: &str, line: &[u8]) {
        let text = std::str::from_utf8(line).expect("the daemon writes UTF-8");
        let (message, checks) = Json::parse(text).unwrap_or_else(|error| panic!("{at}: {error}"));
        // An id is echoed in the very text that it came in, which may be a -0.
        let sound = checks.fault.is_none() || message.get("id").is_some_and(|id| id.text().starts_with('-'));
        if !sound || !message.get("jsonrpc").is_some_and(|version| version.is_str("2.0")) {
            self.met.faults.push(format!("{at}: not a sound JSON-RPC message"));
        }
        if let Some(method) = message.get("method").and_then(Json::as_str) {
            let method = method.lossy().trim_start_matches('_').to_owned();
            let schemas = self.schemas;
            match schemas.get("notifications", &method) {
                Some(schema) => self.hold(at, schema, "params", message.get("params").map_or("", Json::text)),
                None => self.met.faults.push(format!("{at}: no schema for the notification {method}")),
            }
            self.met.notifications.insert(method);
            return;
        }
        let id = message.get("id").map_or_else(String::new, spelling);
        let sent = self.waiting.get_mut(&id).and_then(VecDeque::pop_front);
        match (message.get("result"), message.get("error"), sent) {
            (Some(result), None, Some(sent)) => self.answered(at, &sent, result.text()),
            (None, Some(error), sent) => self.refused(at, sent.as_ref(), error),
            _ => self.met.faults.push(format!("{at}: answers nothing that was asked")),
        }
    }

    fn answered(&mut self, at: &str, sent: &Sent, result: &str) {
        let method = sent.method.trim_start_matches('_');
        self.fixed |= method != "sessiond/status";
        let Some(schema) = self.schemas.get("methods", method) else {
            return self.met.faults.push(format!("{at}: no schema for the method {method}"));
        };
        let two = sent.acp && schema.get("acpParams").is_some();
        let (params, result_of) = if two { ("acpParams", "acpResult") } else { ("params", "result") };
        self.hold(&format!("{at} (its request)"), schema, params, &sent.params);
        self.hold(at, schema, result_of, result);
        self.met.methods.insert(method.to_owned());
    }

    fn refused(&mut self, at: &str, sent: Option<&Sent>, error: Json<'_>) {
        if sent.is_some_and(|sent| sent.method == "initialize") {
            // A refused handshake fixes nothing. A second one is refused too, and has fixed nothing either.
            let second = error.get("code").is_some_and(|code| code.text() == "-32600");
            (self.fixed, self.acp) = (second, second && self.acp);
        }
        let schema = self.schemas.file("errors.json");
        self.note(at, faults(schema, schema, error));
        let name = error.at(&["data", "code"]).and_then(Json::as_str);
        let name = name.map(|name| name.lossy().into_owned()).unwrap_or_default();
        // The schema allows facts of the future; here a fact that it does not name is a forgotten one.
        let known = schema["oneOf"].as_array().unwrap().iter().find(|one| one["title"] == *name);
        if let Some(known) = known.and_then(|one| one["properties"]["data"]["properties"].as_object()) {
            for (fact, _) in error.get("data").into_iter().flat_map(Json::members) {
                if !known.contains_key(&*fact.lossy()) {
                    let fact = fact.lossy();
                    self.met.faults.push(format!("{at}: the table of codes has no fact {fact} for {name}"));
                }
            }
        }
        self.met.errors.entry(name).or_insert_with(|| at.to_owned());
    }

    fn hold(&mut self, at: &str, document: &Value, part: &str, text: &str) {
        let found = match Json::parse(text) {
            Ok((value, _)) => faults(document, &document[part], value),
            Err(_) => vec!["not there".to_owned()],
        };
        self.note(&format!("{at} {part}"), found);
    }

    fn note(&mut self, at: &str, found: Vec<String>) {
        self.met.faults.extend(found.into_iter().map(|fault| format!("{at}: {fault}")));
    }
}

/// Whether an `initialize` makes the connection speak acp.
fn speaks_acp(params: &str) -> bool {
    let Ok((params, _)) = Json::parse(params) else { return false };
    match params.at(&["clientCapabilities", "_meta", "sessiond"]) {
        Some(own) if own.kind() != Type::Null => own.get("dialect").is_some_and(|name| name.is_str("acp")),
        _ => true,
    }
}

/// Walks the text of a transcript.
pub(crate) fn transcript(schemas: &Schemas, met: &mut Met, name: &str, text: &str) {
    let mut walk = Walk::new(schemas, met);
    for (index, line) in text.lines().enumerate() {
        let at = format!("{name}:{}", index + 1);
        let (marker, rest) = line.split_once(' ').unwrap_or((line, ""));
        let decoded = || base64::engine::general_purpose::STANDARD.decode(rest).unwrap_or_default();
        match marker {
            ">" | ">-" => walk.sent(&at, rest.as_bytes()),
            ">b" | ">b-" => walk.sent(&at, &decoded()),
            "<" => walk.received(&at, rest.as_bytes()),
            "<b" => walk.received(&at, &decoded()),
            "!" if rest == "restart" => walk.restart(),
            _ => {}
        }
    }
}

/// An id by which a request and its answer know each other: separators may come back as escapes.
fn spelling(id: Json<'_>) -> String {
    id.as_str().map_or_else(|| id.text().to_owned(), |text| format!("{:?}", text.lossy()))
}
