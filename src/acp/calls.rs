//! Tool calls: which are open, under which ids, and their updates.

use std::collections::HashMap;

use super::arguments::{Arguments, raw};
use super::content::Output;
use super::fields::inner;
use super::ids::{Ids, Space};
use super::tools;
use super::update::{At, Update, Updates};
use crate::json::{Json, JsonStr, quote};
use crate::log::Seq;

/// A call that has been shown and has no end yet.
#[derive(Debug)]
struct Open {
    /// Its id for the client, as JSON text.
    id: String,
    /// Its place among the others.
    order: u64,
}

/// The open calls. An id stands for a new call once the one before it has ended.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: HashMap<u64, Open>,
    begun: u64,
}

/// What is known of a call when it is first shown.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) id: JsonStr<'a>,
    pub(super) name: Option<JsonStr<'a>>,
    pub(super) arguments: Option<Json<'a>>,
}

impl Calls {
    /// Whether the call is open; if so, its id for the client.
    pub(super) fn get(&self, ids: &Ids, id: JsonStr<'_>) -> Option<&str> {
        self.open.get(&ids.key(Space::Call, id)).map(|open| &*open.id)
    }

    /// Gives a call that is not open its id for the client. None if it is open: it has been shown.
    pub(super) fn begin(&mut self, ids: &mut Ids, id: JsonStr<'_>, seq: Seq) -> Option<&str> {
        let key = ids.key(Space::Call, id);
        if self.open.contains_key(&key) {
            return None;
        }
        let shown = ids.assign(Space::Call, Some(id), seq);
        self.begun += 1;
        let open = Open { id: shown, order: self.begun };
        Some(&self.open.entry(key).or_insert(open).id)
    }

    /// Ends a call; its id for the client, if it was open.
    pub(super) fn end(&mut self, ids: &Ids, id: JsonStr<'_>) -> Option<String> {
        self.open.remove(&ids.key(Space::Call, id)).map(|open| open.id)
    }

    /// The ids of open calls for the client, in the order in which they were shown.
    pub(super) fn open(&self) -> Vec<&str> {
        let mut open: Vec<&Open> = self.open.values().collect();
        open.sort_unstable_by_key(|open| open.order);
        open.into_iter().map(|open| &*open.id).collect()
    }

    /// Forgets all open calls.
    pub(super) fn clear(&mut self) {
        self.open = HashMap::new();
    }
}

/// Begins the `tool_call` of a call (ACP 13). A call that nothing is known of goes by its id.
pub(super) fn shown<'u>(
    updates: &'u mut Updates,
    limit: usize,
    id: &str,
    facts: Facts<'_>,
    status: &str,
) -> Update<'u> {
    let name = facts.name.filter(|name| !name.is_empty());
    let input = facts.arguments.and_then(Arguments::of);
    let known = input.as_ref().map(Arguments::known).unwrap_or_default();
    let kind = tools::kind(name, &known);
    let title = tools::title(name, kind, &known).map(|title| quote(&title));
    let mut update = updates.begin("tool_call", limit).json("toolCallId", id);
    update = update.json("title", title.as_deref().unwrap_or(id));
    if let Some(name) = name {
        update = update.json("name", name.text());
    }
    // A fetch's path is one of its server's.
    let locations = if kind == "fetch" { None } else { known.locations() };
    update
        .word("kind", kind)
        .word("status", status)
        .spare("locations", locations.as_deref())
        .spare("rawInput", input.as_ref().map(Arguments::raw_input))
}

/// Writes the end of a call that has no result.
pub(super) fn failed(updates: &mut Updates, limit: usize, id: &str, reason: &str, at: At) {
    updates
        .begin("tool_call_update", limit)
        .json("toolCallId", id)
        .word("status", "failed")
        .meta("reason", reason)
        .finish(at);
}

/// Writes a call's result (FORMAT 3: `tool/result`).
pub(super) fn result(updates: &mut Updates, limit: usize, id: &str, data: Json<'_>, block: Json<'_>, at: At) {
    let [error, meta] = data.fields(&["error", "meta"]).map(crate::acp::fields::present);
    let [content, is_error] = block.fields(&["content", "isError"]);
    let failed = error.is_some() || is_error.and_then(Json::as_bool) == Some(true);
    let mut update = updates
        .begin("tool_call_update", limit)
        .json("toolCallId", id)
        .word("status", if failed { "failed" } else { "completed" });
    if let Some(content) = content {
        update = update.blocks("content", content.elements().map(Output));
    }
    let output = meta.and_then(raw);
    update = update.spare("rawOutput", output.as_deref());
    if let Some(code) = error.and_then(|error| error.get("code")).and_then(Json::as_str) {
        update = update.meta("errorCode", short(code));
    }
    update.finish(at);
}

/// A word of the log for `_meta`, or the empty string if it is no short word.
pub(super) fn short(word: JsonStr<'_>) -> &str {
    const LONGEST: usize = 100;
    if inner(word).len() <= LONGEST { word.text() } else { "\"\"" }
}
