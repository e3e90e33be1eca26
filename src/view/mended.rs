//! Messages as a model provider takes them: `pairing:"repair"` of `session/request` (PROTOCOL 3, Warnings).
//!
//! The rule, over the derived messages in their order:
//!
//! - Behind a message with tool calls stand its results, one a call, in the order in which they stand now; what stood between
//!   a call and its result comes behind the results. Which result is whose: [`Pairs`].
//! - A call without a result gets an error result that says that its outcome is unknown.
//! - A result without a call is told as text in a message of the user's role.
//! - A call that is not in an assistant's message, a result that is not in one of the user's role, and either inside a
//!   result's content is left out; so is a message that says nothing then.
//! - A call id or message id that was used before, and a call id that is empty or no string, is given another; a call's
//!   result goes with it.
//!
//! What is in order keeps its text to the byte, and what was mended is in order.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::edits::Edits;
use super::pairing::{
    Answer, Astray, Pairs, Speaker, astray, blocks, call_blocks, call_ids, is_blank, result_id, says_nothing,
    speaker,
};
use crate::json::{Json, JsonStr, Type, quote};

/// What was changed in a list of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairKind {
    /// An error result was put in for a call without one.
    MissingResult,
    /// A result without a call was made text.
    OrphanResult,
    /// An id that was used before, or is none, was made another.
    DuplicateId,
    /// A message that stood between a call and its result now stands behind the results, or a result of several in one
    /// message has become one of its own.
    Moved,
    /// A tool's part where none may stand, or a message without content, is not in the list.
    LeftOut,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// What was done.
    pub kind: RepairKind,
    /// The message, by its place in the list that came out; of a message that is left out, the place that it would have.
    pub index: usize,
    /// As JSON text, as it is now: a message's id where it was moved; else the id of the call or message, `""` where it has
    /// none.
    pub id: String,
}

/// Messages that a provider takes, and what was changed for that.
#[derive(Clone, Debug, Default)]
pub struct Mended<'a> {
    /// Their texts, in order.
    pub messages: Vec<Cow<'a, str>>,
    /// By the places of the messages.
    pub repairs: Vec<Repair>,
}

const UNKNOWN: &str = "No result of this tool call is in the history, so its outcome is unknown. Decide whether to retry from the tool \
                       semantics: retry only if the operation is read-only or idempotent; if it may have side effects, first verify \
                       external state or ask the user. Do not retry blindly.";

/// Mends a list of messages by the rule of this file. The cost follows their text.
pub fn mend_messages(messages: Vec<Json<'_>>) -> Mended<'_> {
    let plan = Plan::of(&messages);
    let mut out =
        Writer { out: Mended::default(), names: Names::default(), plan: &plan, messages: &messages };
    for message in &messages {
        out.names.messages.know(id_of(*message));
        call_ids(*message).filter(|_| is_assistant(*message)).for_each(|id| out.names.calls.know(id));
    }
    out.write();
    out.out.repairs.sort_by_key(|repair| repair.index); // stable
    out.out
}

fn is_assistant(message: Json<'_>) -> bool {
    matches!(speaker(message), Speaker::Assistant)
}

fn id_of(message: Json<'_>) -> Option<JsonStr<'_>> {
    message.get("id").and_then(Json::as_str)
}

/// A result by its message and the place of its block there.
type ResultAt = (usize, usize);

/// Where the results go.
#[derive(Default)]
struct Plan {
    /// Of each message with calls the results of these.
    groups: BTreeMap<usize, Vec<Option<ResultAt>>>,
    /// Of each message with results what each of them answers, by the place of its block.
    results: BTreeMap<usize, BTreeMap<usize, Option<usize>>>,
    /// Messages that go with the calls that they answer as they are.
    whole: BTreeMap<usize, usize>,
    /// Messages that stood between calls and results.
    between: Vec<bool>,
}

impl Plan {
    fn of(messages: &[Json<'_>]) -> Self {
        let mut plan = Self::default();
        let (mut pairs, mut late) = (Pairs::default(), BTreeMap::new());
        for (at, message) in messages.iter().enumerate() {
            if is_assistant(*message) {
                let calls = call_blocks(*message).count();
                if calls > 0 {
                    plan.groups.insert(at, vec![None; calls]);
                }
            }
            pairs.take(at, *message, |block, _, answer| {
                let call = match answer {
                    Answer::Direct(call) => Some(call),
                    Answer::Late(call) => {
                        late.insert(at, ());
                        Some(call)
                    }
                    Answer::Orphan => None,
                };
                let of_message = plan.results.entry(at).or_default();
                of_message.insert(block, call.map(|(group, _)| group));
                let slot = call.and_then(|(group, index)| plan.groups.get_mut(&group)?.get_mut(index));
                slot.into_iter().for_each(|slot| *slot = Some((at, block)));
            });
        }
        for (at, results) in &plan.results {
            let stays = |block: &Json<'_>| Astray::in_message(Speaker::User, *block).is_none();
            let all = messages.get(*at).map_or(0, |message| blocks(*message).filter(stays).count());
            let Some(Some(group)) = results.values().next() else { continue };
            let one_group = results.values().all(|answered| *answered == Some(*group));
            let pure = results.len() == all;
            // Text behind the last results is fine where it is.
            let last = || {
                let answers = plan.groups.get(group).map_or(&[][..], Vec::as_slice);
                answers.iter().all(|answer| answer.is_some_and(|(message, _)| message <= *at))
            };
            if one_group && (pure || (!late.contains_key(at) && last())) {
                plan.whole.insert(*at, *group);
            }
        }
        plan.between = plan.find_between(messages.len());
        plan
    }

    /// What stands from behind each call up to its result; results that go as they are do not count.
    fn find_between(&self, count: usize) -> Vec<bool> {
        let mut steps = vec![0_i64; count + 2];
        let mut step = |at: usize, by: i64| {
            if let Some(step) = steps.get_mut(at) {
                *step += by;
            }
        };
        for (group, answers) in &self.groups {
            for (message, _) in answers.iter().flatten() {
                let end = message + usize::from(!self.whole.contains_key(message));
                if group + 1 < end {
                    step(group + 1, 1);
                    step(end, -1);
                }
            }
        }
        let mut depth = 0;
        let inside = steps.iter().map(|step| {
            depth += step;
            depth > 0
        });
        inside.enumerate().map(|(at, inside)| inside && !self.whole.contains_key(&at)).collect()
    }
}

/// Ids that are used once.
#[derive(Default)]
struct Ids {
    /// All ids in WTF-8, with whether they are given away, and the number of the last one that was made of each.
    known: HashMap<Vec<u8>, (bool, u64)>,
}

impl Ids {
    fn know(&mut self, id: Option<JsonStr<'_>>) {
        if let Some(id) = id {
            self.known.entry(id.wtf8().into_owned()).or_default();
        }
    }

    /// The id itself, if it is used for the first time; else another, made of it or of `blank`. As JSON text.
    fn give<'i>(&mut self, id: Option<JsonStr<'i>>, blank: &'i str) -> Cow<'i, str> {
        let (text, key) = match id {
            Some(id) => (id.text(), id.wtf8().into_owned()),
            None => (blank, JsonStr::from_verified(blank).wtf8().into_owned()),
        };
        let (given, last) = self.known.entry(key.clone()).or_default();
        if !std::mem::replace(given, true) {
            return Cow::Borrowed(text);
        }
        let mut number = (*last).max(1);
        loop {
            number += 1;
            let suffix = format!("-{number}");
            let other = [&*key, suffix.as_bytes()].concat();
            if let Entry::Vacant(free) = self.known.entry(other) {
                free.insert((true, 0));
                self.known.entry(key).and_modify(|(_, last)| *last = number);
                let bare = text.get(..text.len() - 1).unwrap_or("\"");
                return Cow::Owned(format!("{bare}{suffix}\""));
            }
        }
    }
}

#[derive(Default)]
struct Names {
    calls: Ids,
    messages: Ids,
}

struct Writer<'a, 'p> {
    out: Mended<'a>,
    names: Names,
    plan: &'p Plan,
    messages: &'p [Json<'a>],
}

impl<'a> Writer<'a, '_> {
    fn write(&mut self) {
        for (at, message) in self.messages.iter().enumerate() {
            if self.plan.whole.contains_key(&at) {
                continue; // it stands behind its calls
            }
            if says_nothing(*message) {
                astray(*message).for_each(|part| self.note_left_out(part.id()));
                self.note_left_out(id_of(*message));
                continue;
            }
            match self.plan.results.get(&at) {
                Some(results) => self.rest(at, *message, results),
                None => self.plain(at, *message),
            }
        }
    }

    fn note(&mut self, kind: RepairKind, id: &str) {
        self.out.repairs.push(Repair { kind, index: self.out.messages.len(), id: id.to_owned() });
    }

    fn note_left_out(&mut self, id: Option<JsonStr<'a>>) {
        self.note(RepairKind::LeftOut, id.map_or("\"\"", JsonStr::text));
    }

    /// Leaves out what of a message, and of its results, may not stand there.
    fn leave_out(&mut self, edits: &mut Edits<'a>) {
        let message = edits.value;
        let speaker = speaker(message);
        astray(message).for_each(|part| self.note_left_out(part.id()));
        edits.cut(message, |block| Astray::in_message(speaker, block).is_some());
        for block in blocks(message).filter(|block| speaker == Speaker::User && result_id(*block).is_some()) {
            edits.cut(block, |inner| Astray::in_result(inner).is_some());
        }
    }

    /// Gives the message its id, and says if it was moved.
    fn name(&mut self, at: usize, edits: &mut Edits<'a>) {
        let message = edits.value;
        let Some(id) = id_of(message) else { return };
        let name = self.names.messages.give(Some(id), "");
        if self.plan.between.get(at) == Some(&true) {
            self.note(RepairKind::Moved, &name);
        }
        if let Cow::Owned(name) = name {
            self.note(RepairKind::DuplicateId, &name);
            message.get("id").into_iter().for_each(|id| edits.put(id, name.clone()));
        }
    }

    /// A message without results; behind one with calls its results.
    fn plain(&mut self, at: usize, message: Json<'a>) {
        let mut edits = Edits::of(message);
        self.name(at, &mut edits);
        self.leave_out(&mut edits);
        let Some(answers) = self.plan.groups.get(&at) else {
            return self.out.messages.push(edits.text());
        };
        let mut calls = Vec::new();
        for (block, id) in call_blocks(message).zip(call_ids(message)) {
            let name = self.names.calls.give(id, "\"call\"");
            if id.is_none() || matches!(name, Cow::Owned(_)) {
                self.note(RepairKind::DuplicateId, &name);
                match block.get("id") {
                    Some(id) => edits.put(id, name.clone().into_owned()),
                    None => edits.insert(block, format!("\"id\":{name},")),
                }
            }
            calls.push(name);
        }
        self.out.messages.push(edits.text());
        self.answers(answers, &calls);
    }

    fn answers(&mut self, answers: &[Option<ResultAt>], calls: &[Cow<'a, str>]) {
        let found = answers.iter().zip(calls);
        let mut results: Vec<(ResultAt, &str)> =
            found.clone().filter_map(|(answer, call)| Some(((*answer)?, &**call))).collect();
        results.sort_unstable();
        let mut rest = results.as_slice();
        while let Some(((at, place), call)) = rest.first() {
            let Some(message) = self.messages.get(*at) else { break };
            if self.plan.whole.contains_key(at) {
                let (own, later) = rest.split_at(rest.iter().take_while(|((of, _), _)| of == at).count());
                self.whole(*at, *message, own);
                rest = later;
            } else {
                if let Some(block) = blocks(*message).nth(*place) {
                    self.apart(*message, block, call);
                }
                rest = rest.get(1..).unwrap_or(&[]);
            }
        }
        for (_, call) in found.filter(|(answer, _)| answer.is_none()) {
            self.missing(call);
        }
    }

    /// A message whose results answer the calls before it.
    fn whole(&mut self, at: usize, message: Json<'a>, results: &[(ResultAt, &str)]) {
        let mut edits = Edits::of(message);
        self.name(at, &mut edits);
        self.leave_out(&mut edits);
        for ((_, place), call) in results {
            let block = blocks(message).nth(*place);
            let source = message.at(&["source", "callId"]).filter(|_| results.len() == 1);
            let named = block.and_then(|block| block.get("toolCallId")).into_iter().chain(source);
            named.for_each(|id| edits.rename(id, call));
        }
        self.out.messages.push(edits.text());
    }

    /// A result that was one of several things in a message.
    fn apart(&mut self, message: Json<'a>, block: Json<'a>, call: &str) {
        let name = self.names.messages.give(id_of(message), "\"tool-result\"").into_owned();
        self.note(RepairKind::Moved, &name);
        let mut edits = Edits::of(block);
        blocks(block).filter_map(Astray::in_result).for_each(|part| self.note_left_out(part.id()));
        edits.cut(block, |inner| Astray::in_result(inner).is_some());
        block.get("toolCallId").into_iter().for_each(|id| edits.rename(id, call));
        self.out.messages.push(Cow::Owned(result_message(&name, call, &edits.text())));
    }

    /// The result of a call that has none.
    fn missing(&mut self, call: &str) {
        self.note(RepairKind::MissingResult, call);
        let bare = call.get(1..call.len() - 1).unwrap_or("");
        let own = format!("\"missing-tool-result-{bare}\"");
        let name = self.names.messages.give(Some(JsonStr::from_verified(&own)), "").into_owned();
        let block = format!(
            r#"{{"type":"tool-result","toolCallId":{call},"isError":true,"content":[{{"type":"text","text":{}}}]}}"#,
            quote(UNKNOWN)
        );
        self.out.messages.push(Cow::Owned(result_message(&name, call, &block)));
    }

    /// What is left of a message whose results are taken out or have no call: these are told as text.
    fn rest(&mut self, at: usize, message: Json<'a>, results: &BTreeMap<usize, Option<usize>>) {
        let (mut content, mut says) = (Vec::new(), false);
        let mut orphans = Vec::new();
        for (place, block) in blocks(message).enumerate() {
            match results.get(&place) {
                None => match Astray::in_message(Speaker::User, block) {
                    Some(part) => self.note_left_out(part.id()),
                    None => {
                        says |= !is_blank(block);
                        content.push(Cow::Borrowed(block.text()));
                    }
                },
                Some(None) => {
                    says = true;
                    orphans.push(result_id(block).flatten().map_or("\"\"", JsonStr::text));
                    tell_orphan(block, &mut content);
                }
                Some(Some(_)) => {}
            }
        }
        if !says {
            return;
        }
        let mut edits = Edits::of(message);
        self.name(at, &mut edits);
        for id in orphans {
            self.note(RepairKind::OrphanResult, id);
        }
        message
            .get("content")
            .into_iter()
            .for_each(|list| edits.put(list, format!("[{}]", content.join(","))));
        let source = message.get("source");
        let of_tool = source.filter(|source| source.get("kind").is_some_and(|kind| kind.is_str("tool")));
        of_tool.into_iter().for_each(|source| edits.put(source, OURS.to_owned()));
        self.out.messages.push(edits.text());
    }
}

/// The source of a message that no tool is the source of any more.
const OURS: &str = r#"{"kind":"plugin","plugin":"sessiond"}"#;

fn result_message(name: &str, call: &str, block: &str) -> String {
    format!(r#"{{"id":{name},"role":"user","source":{{"kind":"tool","callId":{call}}},"content":[{block}]}}"#)
}

/// A result as blocks of a message that is none.
fn tell_orphan<'a>(block: Json<'a>, out: &mut Vec<Cow<'a, str>>) {
    let text = |text: &str| Cow::Owned(format!(r#"{{"type":"text","text":{}}}"#, quote(text)));
    let of = result_id(block).flatten().map_or(String::new(), |id| format!(" {}", id.lossy()));
    let kind =
        if block.get("isError").and_then(Json::as_bool) == Some(true) { "Error result" } else { "Result" };
    let content = block.get("content").unwrap_or(Json::NULL);
    let told: Vec<_> = match content.kind() {
        Type::Array => {
            let is_tool = |block: &Json<'_>| {
                let kind = block.get("type").and_then(Json::as_str);
                kind.is_none_or(|kind| kind.is("tool-call") || kind.is("tool-result"))
            };
            let tell = |block: Json<'a>| {
                if is_tool(&block) { text(block.text()) } else { Cow::Borrowed(block.text()) }
            };
            content.elements().map(tell).collect()
        }
        Type::String => content.as_str().map(|content| text(&content.lossy())).into_iter().collect(),
        Type::Null => Vec::new(),
        _ => vec![text(content.text())],
    };
    let end = if told.is_empty() { "; it is empty." } else { ":" };
    out.push(text(&format!("{kind} of tool call{of}, which does not stand before it{end}")));
    out.extend(told);
}
