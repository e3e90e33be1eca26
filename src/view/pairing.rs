//! Which tool result answers which call (PROTOCOL 3, Warnings).
//!
//! A model provider wants behind a message with tool calls, before anything else, exactly one result for each of them, and a
//! result nowhere else. Messages are followed in the order in which a provider would see them. A result answers a call of
//! the last message with calls, the first of that id that has no result; else the latest such call before it.
//!
//! Calls stand in an assistant's message, results in one of the user's role (FORMAT 4). A tool's part elsewhere ([`astray`])
//! is neither, and a message without anything else ([`says_nothing`]) is none.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::json::{Json, JsonStr, Type};

/// A call by its message and its place among the calls of that.
pub(super) type CallAt<M> = (M, usize);

/// What a result is to the calls before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer<M> {
    /// The result of that call, with nothing but such results between.
    Direct(CallAt<M>),
    /// The result of that call, behind something else.
    Late(CallAt<M>),
    /// There is no call for it.
    Orphan,
}

/// The calls without a result, of messages that are named by rising `M`.
#[derive(Clone, Debug)]
pub(super) struct Pairs<M> {
    open: BTreeMap<CallAt<M>, Box<[u8]>>,
    by_id: HashMap<Box<[u8]>, BTreeSet<CallAt<M>>>,
    /// The last message with calls.
    latest: Option<M>,
    /// Something else than their results stands behind them.
    disturbed: bool,
}

impl<M> Default for Pairs<M> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), by_id: HashMap::new(), latest: None, disturbed: false }
    }
}

impl<M: Copy + Ord> Pairs<M> {
    /// Takes the next message. `result` is told of each result in it: by the place of its block in the content, its call
    /// id and what it answers.
    pub(super) fn take<'a>(
        &mut self,
        at: M,
        message: Json<'a>,
        mut result: impl FnMut(usize, Option<JsonStr<'a>>, Answer<M>),
    ) {
        if says_nothing(message) {
            return;
        }
        match speaker(message) {
            Speaker::Assistant => {
                let mut calls = call_ids(message).enumerate().peekable();
                self.disturbed = calls.peek().is_none();
                if !self.disturbed {
                    self.latest = Some(at);
                }
                for (index, id) in calls {
                    let Some(id) = id else { continue }; // nothing can answer it
                    let (key, call): (Box<[u8]>, _) = ((*id.wtf8()).into(), (at, index));
                    self.by_id.entry(key.clone()).or_default().insert(call);
                    self.open.insert(call, key);
                }
            }
            Speaker::User => {
                let mut blocks = blocks(message).enumerate().peekable();
                self.disturbed |= blocks.peek().is_none(); // its content is no list
                for (place, block) in blocks {
                    match result_id(block) {
                        Some(id) => result(place, id, self.answer(id)),
                        None => self.disturbed |= !is_call(block),
                    }
                }
            }
            Speaker::Other => self.disturbed = true,
        }
    }

    fn answer(&mut self, id: Option<JsonStr<'_>>) -> Answer<M> {
        let key = id.map(JsonStr::wtf8);
        let calls = key.as_deref().and_then(|key| self.by_id.get_mut(key).map(|calls| (key, calls)));
        let Some((key, calls)) = calls else {
            self.disturbed = true;
            return Answer::Orphan;
        };
        let own = self.latest.and_then(|latest| calls.range((latest, 0)..).next().copied());
        let Some(call) = own.or_else(|| calls.last().copied()) else { return Answer::Orphan };
        calls.remove(&call);
        if calls.is_empty() {
            self.by_id.remove(key);
        }
        self.open.remove(&call);
        if own.is_some() && !self.disturbed { Answer::Direct(call) } else { Answer::Late(call) }
    }

    /// The calls without a result, in order; those whose id is no name are not among them.
    pub(super) fn open(&self) -> impl Iterator<Item = (CallAt<M>, &[u8])> {
        self.open.iter().map(|(call, id)| (*call, &**id))
    }
}

/// Whose message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    Assistant,
    User,
    Other,
}

pub(super) fn speaker(message: Json<'_>) -> Speaker {
    match message.get("role") {
        Some(role) if role.is_str("assistant") => Speaker::Assistant,
        Some(role) if role.is_str("user") => Speaker::User,
        _ => Speaker::Other,
    }
}

pub(super) fn blocks(message: Json<'_>) -> impl Iterator<Item = Json<'_>> {
    message.get("content").into_iter().flat_map(Json::elements)
}

/// The tool calls of an assistant's message.
pub(super) fn call_blocks(message: Json<'_>) -> impl Iterator<Item = Json<'_>> {
    blocks(message).filter(|block| is_call(*block))
}

/// The ids of the calls of an assistant's message; none for one that is empty, missing or no string.
pub(super) fn call_ids(message: Json<'_>) -> impl Iterator<Item = Option<JsonStr<'_>>> {
    call_blocks(message).map(|block| block.get("id").and_then(Json::as_str).filter(|id| !id.is_empty()))
}

/// If a block is a tool's result, the id of its call, if that is a string.
pub(super) fn result_id(block: Json<'_>) -> Option<Option<JsonStr<'_>>> {
    is_of(block, "tool-result").then(|| block.get("toolCallId").and_then(Json::as_str))
}

pub(super) fn is_call(block: Json<'_>) -> bool {
    is_of(block, "tool-call")
}

fn is_of(block: Json<'_>, kind: &str) -> bool {
    block.get("type").is_some_and(|own| own.is_str(kind))
}

/// A tool's part that no provider takes where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Astray<'a> {
    /// A call, by its id if that is a string, elsewhere than in an assistant's message.
    Call(Option<JsonStr<'a>>),
    /// A result, by its call's id if that is a string, elsewhere than in a message of the user's role.
    Result(Option<JsonStr<'a>>),
}

impl<'a> Astray<'a> {
    pub(super) fn id(self) -> Option<JsonStr<'a>> {
        let (Self::Call(id) | Self::Result(id)) = self;
        id
    }

    fn of(block: Json<'a>, calls: bool, results: bool) -> Option<Self> {
        match result_id(block) {
            Some(id) => (!results).then_some(Self::Result(id)),
            None => (!calls && is_call(block)).then(|| Self::Call(block.get("id").and_then(Json::as_str))),
        }
    }

    /// Whether a block of that speaker's is astray.
    pub(super) fn in_message(speaker: Speaker, block: Json<'a>) -> Option<Self> {
        Self::of(block, speaker == Speaker::Assistant, speaker == Speaker::User)
    }

    /// Whether a block of a result's content is astray.
    pub(super) fn in_result(block: Json<'a>) -> Option<Self> {
        Self::of(block, false, false)
    }
}

/// The parts of a message that are astray, those in the results that it holds too.
pub(super) fn astray(message: Json<'_>) -> impl Iterator<Item = Astray<'_>> {
    let speaker = speaker(message);
    blocks(message).flat_map(move |block| {
        let own = Astray::in_message(speaker, block);
        let is_result = own.is_none() && result_id(block).is_some();
        let inner = is_result.then(|| blocks(block).filter_map(Astray::in_result));
        own.into_iter().chain(inner.into_iter().flatten())
    })
}

/// Whether nothing is left of a message when what is astray and blank text is left out of it: providers refuse one
/// without content.
pub(super) fn says_nothing(message: Json<'_>) -> bool {
    let speaker = speaker(message);
    let is_list = message.get("content").is_some_and(|content| content.kind() == Type::Array);
    is_list && blocks(message).all(|block| is_blank(block) || Astray::in_message(speaker, block).is_some())
}

/// Whether a block is text without a letter.
pub(super) fn is_blank(block: Json<'_>) -> bool {
    let text = || block.get("text").and_then(Json::as_str);
    is_of(block, "text") && text().is_some_and(|text| text.lossy().trim().is_empty())
}
