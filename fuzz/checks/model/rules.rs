//! What may come next in a log: FORMAT 2, 4, 5, 10 and 14 in the order of PROTOCOL 3.

use super::super::plain::{Tree, parse, tree_of};
use super::log::{Event, is_surface, replaces, surface, trace};

/// Why an event is refused: the stable name and the rule.
pub type Refused = (&'static str, &'static str);

/// The limits that the checked store has.
pub const MAX_DEPTH: usize = 16;
pub const MAX_EVENT_BYTES: usize = 3_000;
pub const MAX_BATCH: usize = 6;

/// Types that the client declares.
pub const REQUIRED: &str = "team/required";
pub const OPTIONAL: &str = "team/optional";

/// Types that storage reads as packed rows.
pub const ROW_TAGS: [&str; 3] = ["text-chunks", "reasoning-chunks", "tool-call-chunks"];

const KNOWN: &str = "agent-preset/selected agent/inbox/spliced approval/asked approval/decided approval/policy \
    assistant/chunk assistant/message command/done command/run compaction/end compaction/prune compaction/start \
    compaction/summary feedback/record goal/change hook/invoked hook/result llm/retry llm/retry-started \
    permission/preset plan/mode request/context request/header sandbox/mode schedule/change session/end-seed \
    session/title session/title-llm-request step/end step/start subagent/descriptor team/member \
    team/message/delivered team/message/queued team/task todo/write tool-workflow/agent-end \
    tool-workflow/agent-start tool-workflow/run-end tool-workflow/run-start tool/call tool/code-dispatch \
    tool/code-dispatch-start tool/result turn/end turn/start user/message web/deepseek-search-llm-request";

/// An event to be, as compact JSON texts.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub name: String,
    pub data: String,
    pub op: Option<String>,
    pub sources: Option<String>,
    pub ignorable: Option<&'static str>,
    /// The type's own text, where it is not the plain one.
    pub spelled: Option<String>,
}

impl Wanted {
    /// The type as JSON text.
    pub fn type_text(&self) -> String {
        self.spelled.clone().unwrap_or_else(|| format!("\"{}\"", self.name))
    }

    /// Whether it is in the log with that mark, said or given by the vocabulary.
    fn is_marked(&self) -> bool {
        self.ignorable == Some("true") || self.ignorable.is_none() && self.name == OPTIONAL
    }

    /// Whether its `ignorable` is one that events have; another is refused wherever it is looked at.
    pub fn is_oddly_marked(&self) -> bool {
        self.ignorable.is_some_and(|text| text != "true")
    }

    fn message_path(&self) -> &'static [&'static str] {
        if self.name == "user/message" { &[] } else { &["message"] }
    }

    /// The data with an id as the first member of its message, if that is an object without one.
    pub fn with_id(&self, id: &str) -> Option<String> {
        if !is_surface(&self.name) {
            return None;
        }
        let tree = parse(&self.data).ok()?.tree()?;
        let message = self.message_path().iter().try_fold(&tree, |tree, name| tree.get(name))?;
        let Tree::Object(members) = message else { return None };
        if message.get("id").is_some() {
            return None;
        }
        let at = match self.message_path() {
            [] => 1,
            _ => {
                // Members of data are compact texts, so the message begins behind its key.
                let text = super::super::plain::member(&self.data, "message")?;
                text.as_ptr().addr() - self.data.as_ptr().addr() + 1
            }
        };
        let comma = if members.is_empty() { "" } else { "," };
        Some(format!("{}\"id\":\"{id}\"{comma}{}", &self.data[..at], &self.data[at..]))
    }

    /// Whether a committed event is this one (PROTOCOL 3, `expectedSeq`).
    pub fn is(&self, event: &Event) -> bool {
        let minted = event.minted.as_ref().and_then(|id| self.with_id(id));
        self.name == event.name
            && (self.data == event.data || minted.as_ref() == Some(&event.data))
            && self.op == event.op
            && self.sources == event.sources
            && self.is_marked() == event.ignorable
    }

    /// The event at that place, with the id that was minted for it.
    pub fn committed(&self, seq: usize, time: i64, minted: Option<&str>) -> Event {
        let data = minted.and_then(|id| self.with_id(id)).unwrap_or_else(|| self.data.clone());
        let (name, ignorable) = (self.name.clone(), self.is_marked());
        let member = |name: &str, value: &Option<String>| {
            value.as_ref().map_or(String::new(), |value| format!(",\"{name}\":{value}"))
        };
        let line = format!(
            "{{\"type\":{},\"seq\":{seq},\"time\":{time},\"data\":{data}{}{}{}}}",
            self.type_text(),
            member("sourceEventSeqs", &self.sources),
            member("surfaceOp", &self.op),
            if ignorable { ",\"ignorable\":true" } else { "" }
        );
        let minted = minted.map(str::to_owned);
        let (sources, op) = (self.sources.clone(), self.op.clone());
        let (tree, replaces) = (tree_of(&data), replaces(op.as_deref()));
        Event { name, time, data, sources, op, ignorable, minted, line, tree, replaces }
    }
}

fn text_in(tree: Option<&Tree>) -> Option<String> {
    match tree? {
        Tree::Text(units) if !units.is_empty() => Some(String::from_utf16_lossy(units)),
        _ => None,
    }
}

/// Whether an event may come next; `mint` allows a message without an id.
pub fn admit(events: &[Event], wanted: &Wanted, enforce: bool, mint: bool) -> Result<(), Refused> {
    let texts = [Some(&wanted.data), wanted.op.as_ref(), wanted.sources.as_ref()];
    if texts.into_iter().flatten().any(|text| !parse(text).unwrap().faults.is_empty()) {
        return Err(("LOSSY_JSON", ""));
    }
    let plain = parse(&wanted.data).unwrap();
    if plain.depth > MAX_DEPTH {
        return Err(("LIMIT_EXCEEDED", ""));
    }
    let data = plain.tree().unwrap();
    if wanted.is_oddly_marked() {
        return Err(("INVALID_EVENT", "SEED_ENVELOPE"));
    }
    shape(wanted, &data, mint).map_err(|rule| ("INVALID_EVENT", rule))?;
    if ROW_TAGS.contains(&&*wanted.name) {
        return Err(("INVALID_EVENT", "ROW_ENVELOPE"));
    }
    let known = KNOWN.split_whitespace().any(|name| name == wanted.name);
    let declared = [REQUIRED, OPTIONAL].contains(&&*wanted.name);
    if !known && !declared && wanted.ignorable.is_none() {
        return Err(("UNKNOWN_EVENT_TYPE", ""));
    }
    let replaces = plan(events, wanted, &data).map_err(|rule| ("INVALID_SURFACE", rule))?;
    if enforce && let Some(rule) = trace(events).breaks(&wanted.name, &data, replaces) {
        return Err(("INVARIANT_VIOLATION", rule));
    }
    Ok(())
}

fn shape(wanted: &Wanted, data: &Tree, mint: bool) -> Result<(), &'static str> {
    match &*wanted.name {
        "request/header-delta" => Err("LEGACY_REQUEST_HEADER_DELTA"),
        "mode/set" => Err("LEGACY_MODE_SET"),
        "steering/message" => Err("LEGACY_STEERING_MESSAGE"),
        "turn/start" if data.get("trigger").is_some() => Err("LEGACY_SHAPE_MALFORMED"),
        "turn/end" if turn_end(data).is_none() => Err("LEGACY_SHAPE_MALFORMED"),
        "request/header" => request_header(data, mint),
        name if is_surface(name) => message(wanted, data, mint),
        _ => Ok(()),
    }
}

/// Exactly `{turn >= 1, reason}`, the reason in today's form (FORMAT 14); what is no object passes.
fn turn_end(data: &Tree) -> Option<()> {
    let Tree::Object(members) = data else { return Some(()) };
    let turn = data.get("turn")?.safe_int()?;
    let reason = data.get("reason")?;
    let Tree::Object(reason_members) = reason else { return None };
    let Tree::Text(kind) = reason.get("kind")? else { return None };
    let fits = match &*String::from_utf16_lossy(kind) {
        "completed" | "blocked" | "max-tokens" | "interrupted" => reason_members.len() == 1,
        "aborted" => reason.get("reason").is_some(),
        "error" => reason.get("error").is_some(),
        "disposed" => false,
        _ => true,
    };
    (members.len() == 2 && turn >= 1 && fits).then_some(())
}

fn request_header(data: &Tree, append: bool) -> Result<(), &'static str> {
    let fallback = data.get("reason").and_then(Tree::text).as_deref() == Some("fallback");
    let retired = if fallback { Err("LEGACY_REQUEST_HEADER_FALLBACK") } else { Ok(()) };
    if append {
        retired?; // an append tells it first (FORMAT 2.1)
    }
    let header = data.get("header");
    let config = header.and_then(|header| header.get("config"));
    let of_config = |name: &str| config.and_then(|config| config.get(name));
    if text_in(of_config("provider")).is_none() || text_in(of_config("model")).is_none() {
        return Err("HEADER_EVENT_NO_PROVIDER_MODEL");
    }
    if of_config("reasoningEffort").is_some() && text_in(of_config("reasoningEffort")).is_none() {
        return Err("HEADER_EVENT_REASONING_EFFORT");
    }
    if let Some(defaults) = header.and_then(|header| header.get("adapterDefaults")) {
        let Tree::Object(members) = defaults else { return Err("HEADER_EVENT_ADAPTER_DEFAULTS") };
        let marks = |(key, value): &(Vec<u16>, Tree)| {
            let name = String::from_utf16_lossy(key);
            let allowed = ["reasoningEffort", "maxTokens"].contains(&&*name);
            allowed && of_config(&name).is_some() && matches!(value, Tree::Bool(true))
        };
        if !members.iter().all(marks) {
            return Err("HEADER_EVENT_ADAPTER_DEFAULTS");
        }
    }
    retired
}

fn message(wanted: &Wanted, data: &Tree, mint: bool) -> Result<(), &'static str> {
    let message = wanted.message_path().iter().try_fold(data, |tree, name| tree.get(name));
    let message = message.filter(|message| matches!(message, Tree::Object(_))).ok_or("MESSAGE_NO_ID")?;
    let may_lack = mint && message.get("id").is_none();
    if !may_lack && text_in(message.get("id")).is_none() {
        return Err("MESSAGE_NO_ID");
    }
    let role = if wanted.name == "assistant/message" { "assistant" } else { "user" };
    if message.get("role").and_then(Tree::text).as_deref() != Some(role) {
        return Err("MESSAGE_ROLE");
    }
    let source = message.get("source");
    let of_source = |name: &str| text_in(source.and_then(|source| source.get(name)));
    let kind = of_source("kind").ok_or("MESSAGE_SOURCE")?;
    let Some(Tree::Array(content)) = message.get("content") else { return Err("MESSAGE_CONTENT") };
    match &*wanted.name {
        "assistant/message" => {
            let made = kind == "model" && of_source("provider").is_some() && of_source("model").is_some();
            if made { Ok(()) } else { Err("MESSAGE_MODEL_SOURCE") }
        }
        "tool/result" => {
            if kind != "tool" || of_source("callId").is_none() {
                return Err("MESSAGE_TOOL_SOURCE");
            }
            let [block] = &**content else { return Err("MESSAGE_TOOL_RESULT_BLOCK") };
            let is_result = block.get("type").and_then(Tree::text).as_deref() == Some("tool-result");
            if !is_result || !matches!(block.get("content"), Some(Tree::Array(_))) {
                return Err("MESSAGE_TOOL_RESULT_BLOCK");
            }
            let own = source.and_then(|source| source.get("callId"));
            let same = match (block.get("toolCallId"), own) {
                (Some(Tree::Text(a)), Some(Tree::Text(b))) => a == b,
                _ => false,
            };
            if same { Ok(()) } else { Err("MESSAGE_TOOL_CALL_ID") }
        }
        _ => Ok(()),
    }
}

/// The surface contract (FORMAT 5): whether the event replaces, or the rule that it breaks.
fn plan(events: &[Event], wanted: &Wanted, data: &Tree) -> Result<bool, &'static str> {
    if !is_surface(&wanted.name) {
        return match (&wanted.op, &wanted.sources) {
            (Some(_), _) => Err("SURFACE_OP_ON_LOG_ONLY"),
            (None, Some(_)) => Err("SOURCES_ON_LOG_ONLY"),
            (None, None) => Ok(false),
        };
    }
    let op = parse(wanted.op.as_ref().ok_or("SURFACE_OP_MISSING")?)
        .unwrap()
        .tree()
        .ok_or("SURFACE_REPLACE_INVALID")?;
    if op.text().as_deref() == Some("append") {
        sources(events, wanted, &[])?;
        return Ok(false);
    }
    let Tree::Object(members) = &op else { return Err("SURFACE_OP_INVALID") };
    let seq = |name: &str| op.get(name).and_then(Tree::safe_int).filter(|seq| *seq >= 0);
    let is_replace = op.get("op").and_then(Tree::text).as_deref() == Some("replace");
    let (Some(start), Some(end)) = (seq("start"), seq("end")) else { return Err("SURFACE_REPLACE_INVALID") };
    if !is_replace || members.len() != 3 {
        return Err("SURFACE_REPLACE_INVALID");
    }
    let (nodes, _) = surface(events);
    let place = |seq: i64| nodes.iter().position(|node| *node as i64 == seq);
    let first = place(start).ok_or("REPLACE_START_NOT_FOUND")?;
    let last = place(end).ok_or("REPLACE_END_NOT_FOUND")?;
    if first > last {
        return Err("REPLACE_INVERTED");
    }
    let shadowed = &nodes[first..=last];
    sources(events, wanted, shadowed)?;
    if wanted.name == "tool/result" {
        let [target] = shadowed else { return Err("TOOL_REWRITE_NOT_SINGLE") };
        let target = &events[*target];
        if target.name != "tool/result" {
            return Err("TOOL_REWRITE_TARGET");
        }
        if !but_for_content(data).same(&but_for_content(&target.tree)) {
            return Err("TOOL_REWRITE_CHANGED");
        }
    }
    Ok(true)
}

/// A tool result without `message.content[0].content`, which is in its place a null.
fn but_for_content(data: &Tree) -> Tree {
    let mut data = data.clone();
    cut(&mut data);
    data
}

fn named<'t>(tree: &'t mut Tree, name: &str) -> Option<&'t mut Tree> {
    let Tree::Object(members) = tree else { return None };
    members.iter_mut().find(|(key, _)| key.iter().copied().eq(name.encode_utf16())).map(|(_, value)| value)
}

fn cut(data: &mut Tree) -> Option<()> {
    let Tree::Array(blocks) = named(named(data, "message")?, "content")? else { return None };
    *named(blocks.first_mut()?, "content")? = Tree::Null;
    Some(())
}

fn sources(events: &[Event], wanted: &Wanted, shadowed: &[usize]) -> Result<(), &'static str> {
    let missing = |cited: &[i64]| shadowed.iter().any(|node| !cited.contains(&(*node as i64)));
    let Some(text) = &wanted.sources else {
        return if missing(&[]) { Err("SOURCES_MISSING_SHADOWED") } else { Ok(()) };
    };
    let Some(Tree::Array(items)) = parse(text).unwrap().tree() else { return Err("SOURCES_NOT_ARRAY") };
    if items.is_empty() && wanted.name != "assistant/message" {
        return Err("SOURCES_EMPTY");
    }
    let cited: Option<Vec<i64>> = items.iter().map(|item| item.safe_int().filter(|seq| *seq >= 0)).collect();
    let cited = cited.ok_or("SOURCES_BAD_SEQ")?;
    if cited.iter().enumerate().any(|(at, seq)| cited[..at].contains(seq)) {
        return Err("SOURCES_DUPLICATE");
    }
    if cited.iter().any(|seq| *seq >= events.len() as i64) {
        return Err("SOURCES_NOT_EARLIER");
    }
    if missing(&cited) { Err("SOURCES_MISSING_SHADOWED") } else { Ok(()) }
}
