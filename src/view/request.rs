//! The model request as the log reconstructs it: header and context (FORMAT 7).

use crate::json::{Json, JsonStr, Type, write_compact};
use crate::log::{Event, Kind, Seq};

/// The members of a header that count, in canonical order; what the canonical form drops is `None`.
#[derive(Clone, Copy)]
struct Parts<'a> {
    config: Option<Json<'a>>,
    adapter_defaults: Option<Json<'a>>,
    system: Option<Json<'a>>,
    tools: Option<Json<'a>>,
    prefix: Option<Json<'a>>,
}

impl<'a> Parts<'a> {
    fn of(header: Json<'a>) -> Self {
        let names = &["config", "adapterDefaults", "system", "tools", "prefix"];
        let [config, adapter_defaults, system, tools, prefix] = header.fields(names);
        let mut parts = Self { config, adapter_defaults, system, tools, prefix };
        let marked = |defaults: &Json<'_>| {
            let marks = |name| defaults.get(name).and_then(Json::as_bool) == Some(true);
            marks("reasoningEffort") || marks("maxTokens")
        };
        parts.adapter_defaults = parts.adapter_defaults.filter(marked);
        parts.system = parts.system.filter(has_length);
        parts.tools = parts.tools.filter(has_length);
        parts.prefix = parts.prefix.filter(|prefix| prefix.kind() == Type::Array && has_length(prefix));
        parts
    }

    fn named(&self) -> [(&'static str, Option<Json<'a>>); 5] {
        [
            ("config", self.config),
            ("adapterDefaults", self.adapter_defaults),
            ("system", self.system),
            ("tools", self.tools),
            ("prefix", self.prefix),
        ]
    }
}

/// A non-empty string or array: nothing checks what `system` and `tools` are (FORMAT 2.2).
fn has_length(value: &Json<'_>) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty()) || value.elements().next().is_some()
}

/// The canonical form of a request header, as compact JSON text (FORMAT 7, and 3.1 for `prefix`).
pub fn canonical(header: Json<'_>) -> String {
    let mut out = String::with_capacity(header.text().len());
    out.push('{');
    for (name, value) in Parts::of(header).named() {
        let Some(value) = value else { continue };
        if out.len() > 1 {
            out.push(',');
        }
        out.push('"');
        out.push_str(name);
        out.push_str("\":");
        write_compact(value.text(), &mut out);
    }
    out.push('}');
    out
}

/// Whether two request headers are the same envelope: equality of their canonical forms (FORMAT 7).
///
/// `prefix` is compared as `tools` is: to those who leave it out the rule is upstream's.
pub fn equal_headers(a: Json<'_>, b: Json<'_>) -> bool {
    let (a, b) = (Parts::of(a), Parts::of(b));
    equal_configs(a.config, b.config)
        && same_mark(a.adapter_defaults, b.adapter_defaults, "reasoningEffort")
        && same_mark(a.adapter_defaults, b.adapter_defaults, "maxTokens")
        && same(a.system, b.system)
        && same_text(a.tools, b.tools)
        && same_text(a.prefix, b.prefix)
}

fn same_mark(a: Option<Json<'_>>, b: Option<Json<'_>>, name: &str) -> bool {
    same(a.and_then(|defaults| defaults.get(name)), b.and_then(|defaults| defaults.get(name)))
}

/// The members of a call's config that tell one from another; others are ignored.
const CONFIG: [&str; 6] = ["provider", "model", "reasoningEffort", "temperature", "maxTokens", "stop"];

fn equal_configs(a: Option<Json<'_>>, b: Option<Json<'_>>) -> bool {
    let (a, b) = (config_parts(a), config_parts(b));
    a.iter().zip(&b).all(|(a, b)| match (a, b) {
        (Some(a), Some(b)) if a.kind() == Type::Array && b.kind() == Type::Array => {
            let (mut left, mut right) = (a.elements(), b.elements());
            loop {
                match (left.next(), right.next()) {
                    (None, None) => return true,
                    (a, b) if same(a, b) => {}
                    _ => return false,
                }
            }
        }
        _ => same(*a, *b),
    })
}

fn config_parts(config: Option<Json<'_>>) -> [Option<Json<'_>>; CONFIG.len()] {
    config.unwrap_or(Json::NULL).fields(&CONFIG)
}

/// JavaScript's `===` over two values or absences: objects and arrays of two headers never are the same.
fn same(a: Option<Json<'_>>, b: Option<Json<'_>>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return a.is_none() && b.is_none() };
    match (a.kind(), b.kind()) {
        (Type::Number, Type::Number) => a.as_f64() == b.as_f64(),
        (Type::String, Type::String) => a.as_str() == b.as_str(),
        (Type::Bool, Type::Bool) => a.as_bool() == b.as_bool(),
        (Type::Null, Type::Null) => true,
        _ => false,
    }
}

fn same_text(a: Option<Json<'_>>, b: Option<Json<'_>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => prints_equal(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Whether upstream would print two values as the same JSON text: as deep equality, but the order of an
/// object's keys matters. Recurses once per level, so depth must be bounded before.
fn prints_equal(a: Json<'_>, b: Json<'_>) -> bool {
    if a.text() == b.text() {
        return true;
    }
    match (a.kind(), b.kind()) {
        (Type::Array, Type::Array) => {
            let (mut left, mut right) = (a.elements(), b.elements());
            loop {
                match (left.next(), right.next()) {
                    (None, None) => return true,
                    (Some(a), Some(b)) if prints_equal(a, b) => {}
                    _ => return false,
                }
            }
        }
        (Type::Object, Type::Object) => {
            let (left, right) = (printed_members(a), printed_members(b));
            left.len() == right.len()
                && left.iter().zip(&right).all(|(a, b)| a.1 == b.1 && prints_equal(a.2, b.2))
        }
        _ => same(Some(a), Some(b)),
    }
}

/// The members in the order in which they are printed: keys like integers come first (FORMAT 1).
fn printed_members(value: Json<'_>) -> Vec<(u64, JsonStr<'_>, Json<'_>)> {
    let member = |(key, value): (_, _)| (print_rank(key), key, value);
    let mut members: Vec<_> = value.members().map(member).collect();
    members.sort_by_key(|member| member.0); // stable: the others keep their order
    members
}

fn print_rank(key: JsonStr<'_>) -> u64 {
    const OTHER: u64 = u32::MAX as u64; // one above the largest such key
    let name = key.lossy();
    let canonical = name.len() == 1 || !name.starts_with('0');
    let digits = !name.is_empty() && name.len() <= 10 && name.bytes().all(|byte| byte.is_ascii_digit());
    if canonical && digits { name.parse().map_or(OTHER, |index: u64| index.min(OTHER)) } else { OTHER }
}

/// Which events hold the request header and context in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestState {
    /// The last `request/header`.
    pub header: Option<Seq>,
    /// The last `request/context`.
    pub context: Option<Seq>,
}

impl RequestState {
    /// Moves on with a committed event.
    pub fn apply(&mut self, seq: Seq, kind: Kind) {
        match kind {
            Kind::RequestHeader => self.header = Some(seq),
            Kind::RequestContext => self.context = Some(seq),
            _ => {}
        }
    }
}

/// The canonical header that a `request/header` event states.
pub fn header_text(event: Event<'_>) -> Option<String> {
    let header = event.data().get("header").filter(|_| event.kind() == Kind::RequestHeader);
    header.map(canonical)
}

/// The reason that a `request/header` event states, of whatever value.
pub fn header_reason(event: Event<'_>) -> Option<Json<'_>> {
    event.data().get("reason").filter(|_| event.kind() == Kind::RequestHeader)
}

/// The context that a `request/context` event states: its data whole; an absent member clears an older
/// one. Nothing checks the data; of what is no object no member is left.
pub fn context_text(event: Event<'_>) -> Option<&str> {
    let data = event.data();
    let text = if data.kind() == Type::Object { data.text() } else { "{}" };
    (event.kind() == Kind::RequestContext).then_some(text)
}

/// Why a writer states a request header (FORMAT 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The log's first.
    Initial,
    /// The first of a loop over a log that has one.
    Resume,
    /// The envelope differs.
    Change {
        /// A message series starts at once: `startsSeries: true` is written too.
        starts_series: bool,
    },
    /// A message series starts under an unchanged envelope.
    Series,
}

impl Reason {
    /// The member `reason`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Resume => "resume",
            Self::Change { .. } => "change",
            Self::Series => "series",
        }
    }

    /// The data of a `request/header` event with this reason and that canonical header.
    pub fn event_data(self, canonical: &str) -> String {
        let series =
            if self == (Self::Change { starts_series: true }) { ",\"startsSeries\":true" } else { "" };
        format!("{{\"header\":{canonical},\"reason\":\"{}\"{series}}}", self.name())
    }
}

/// The reason with which a writer states `next` after `previous`, or none when there is no need to.
///
/// `resumed`: this loop has stated no header yet. `starts_series`: an explicit series start, or a
/// replacement on the surface since the last request.
pub fn next_reason(
    previous: Option<Json<'_>>,
    next: Json<'_>,
    resumed: bool,
    starts_series: bool,
) -> Option<Reason> {
    let Some(previous) = previous else { return Some(Reason::Initial) };
    if resumed {
        return Some(Reason::Resume);
    }
    match (equal_headers(previous, next), starts_series) {
        (false, starts_series) => Some(Reason::Change { starts_series }),
        (true, true) => Some(Reason::Series),
        (true, false) => None,
    }
}
