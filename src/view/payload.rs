//! The members of payloads that the checks ask for: by their places, where the scan knows them.

use std::cell::Cell;

use crate::json::{Json, JsonStr, Part, Places};
use crate::log::Kind;

/// Members of one object: their names, and where they stand in [`LIST`] from the beginning of their group on.
pub(super) struct Members<const N: usize> {
    names: [&'static str; N],
    at: [usize; N],
}

const fn members<const N: usize>(names: [&'static str; N], at: [usize; N]) -> Members<N> {
    Members { names, at }
}

/// The group of the payload itself.
pub(super) const PAYLOAD: usize = 0;
pub(super) const TURN: Members<1> = members(["turn"], [0]);
pub(super) const TURN_STEP: Members<2> = members(["turn", "step"], [0, 1]);
pub(super) const TURN_STEP_CALL: Members<3> = members(["turn", "step", "callId"], [0, 1, 2]);
pub(super) const TRIGGER: Members<1> = members(["trigger"], [3]);
pub(super) const MESSAGE: Members<1> = members(["message"], [4]);
pub(super) const TURN_STEP_MESSAGE_ERROR: Members<4> =
    members(["turn", "step", "message", "error"], [0, 1, 4, 5]);
pub(super) const ERROR_CODE: Members<1> = members(["code"], [6]);

/// The groups of a message: of one that is the payload, and of one that is in it.
const OUTER: usize = 7;
const INNER: usize = 12;
pub(super) const ID_ROLE_SOURCE_CONTENT: Members<4> =
    members(["id", "role", "source", "content"], [0, 1, 2, 3]);
pub(super) const SOURCE_CONTENT: Members<2> = members(["source", "content"], [2, 3]);
pub(super) const SOURCE_KIND: Members<1> = members(["kind"], [4]);
pub(super) const PROVIDER_MODEL: Members<2> = members(["provider", "model"], [5, 6]);
pub(super) const SOURCE_CALL: Members<1> = members(["callId"], [7]);
pub(super) const BLOCK: Members<3> = members(["type", "content", "toolCallId"], [9, 10, 11]);
/// The first blocks of the content.
const BLOCKS: [usize; 2] = [INNER + 8, INNER + 12];

/// All that is looked for.
pub(super) const LIST: [Part; 25] = [
    Part::named("turn"),
    Part::named("step"),
    Part::named("callId"),
    Part::named("trigger"),
    Part::named("message"),
    Part::named("error"),
    Part::inside(5, "code"),
    // The message that is the payload.
    Part::named("id"),
    Part::named("role"),
    Part::named("source"),
    Part::named("content"),
    Part::inside(OUTER + 2, "kind"),
    // The one in it, with its source and its blocks.
    Part::inside(4, "id"),
    Part::inside(4, "role"),
    Part::inside(4, "source"),
    Part::inside(4, "content"),
    Part::inside(INNER + 2, "kind"),
    Part::inside(INNER + 2, "provider"),
    Part::inside(INNER + 2, "model"),
    Part::inside(INNER + 2, "callId"),
    Part::inside(INNER + 3, "0"),
    Part::inside(BLOCKS[0], "type"),
    Part::inside(BLOCKS[0], "content"),
    Part::inside(BLOCKS[0], "toolCallId"),
    Part::inside(INNER + 3, "1"),
];

/// The group of a message's members.
pub(super) fn message_group(kind: Kind) -> usize {
    if kind == Kind::UserMessage { OUTER } else { INNER }
}

/// The parts of a message of which its shape asks only that they are strings, and not empty.
fn names(kind: Kind) -> &'static [usize] {
    match kind {
        Kind::UserMessage => &[OUTER],
        Kind::AssistantMessage => &[INNER, INNER + 5, INNER + 6],
        _ => &[INNER, CALLS[0]],
    }
}

/// The call of a result, in its source and in its block: of the two it is asked that they are equal.
const CALLS: [usize; 2] = [INNER + 7, INNER + 11];

/// A string that is not empty.
#[inline]
pub(super) fn non_empty(value: Option<Json<'_>>) -> Option<JsonStr<'_>> {
    value?.as_str().filter(|text| !text.is_empty())
}

/// The kinds of message, a bit for each.
pub(super) fn message_bit(kind: Kind) -> u32 {
    match kind {
        Kind::UserMessage => 1,
        Kind::AssistantMessage => 2,
        Kind::ToolResult => 4,
        _ => 0,
    }
}

/// Whether a payload has the shape of a message of that kind, as another text of its form was found to have
/// ([`Asked::is_sound`]): true is certain.
#[inline]
pub(super) fn is_sound(kind: Kind, data: Json<'_>, places: &Places) -> bool {
    let text = |part: usize| data.part_at(places, part).and_then(Json::as_str);
    let is_name = |&part: &usize| !places.is_varying(part) || text(part).is_some_and(|name| !name.is_empty());
    let has_call = || !CALLS.iter().any(|call| places.is_varying(*call)) || text(CALLS[0]) == text(CALLS[1]);
    places.note() & message_bit(kind) != 0
        && names(kind).iter().all(is_name)
        && (kind != Kind::ToolResult || has_call())
}

/// A payload whose members are to be had, in one way or another.
pub(super) trait Payload<'a>: Copy {
    /// The payload.
    fn data(self) -> Json<'a>;

    /// Members of the object `of` in it, which a group of the list is about.
    fn fields<const N: usize>(
        self,
        of: Option<Json<'a>>,
        group: usize,
        members: &'static Members<N>,
    ) -> [Option<Json<'a>>; N];

    /// The first two blocks of the content of a message in it.
    fn blocks(self, content: Json<'a>) -> [Option<Json<'a>>; 2];

    /// Members of the payload itself.
    #[inline(always)]
    fn own<const N: usize>(self, members: &'static Members<N>) -> [Option<Json<'a>>; N] {
        self.fields(Some(self.data()), PAYLOAD, members)
    }

    /// Its message: the payload of a `user/message`, else a member of it (FORMAT 3).
    #[inline(always)]
    fn message(self, kind: Kind) -> Option<Json<'a>> {
        if kind == Kind::UserMessage {
            return Some(self.data());
        }
        let [message] = self.own(&MESSAGE);
        message
    }
}

/// A payload in which members are looked for by their names.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a>(pub(super) Json<'a>);

impl<'a> Payload<'a> for Sought<'a> {
    #[inline(always)]
    fn data(self) -> Json<'a> {
        self.0
    }

    #[inline(always)] // names are constants
    fn fields<const N: usize>(
        self,
        of: Option<Json<'a>>,
        _: usize,
        members: &'static Members<N>,
    ) -> [Option<Json<'a>>; N] {
        match of {
            Some(of) => of.fields(&members.names),
            None => [None; N],
        }
    }

    #[inline(always)]
    fn blocks(self, content: Json<'a>) -> [Option<Json<'a>>; 2] {
        let mut blocks = content.elements();
        [blocks.next(), blocks.next()]
    }
}

/// A payload in which the scan has said where the members of [`PARTS`] stand.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a, 'p>(pub(super) Json<'a>, pub(super) &'p Places);

impl<'a> Payload<'a> for Placed<'a, '_> {
    #[inline(always)]
    fn data(self) -> Json<'a> {
        self.0
    }

    #[inline(always)]
    fn fields<const N: usize>(
        self,
        _: Option<Json<'a>>,
        group: usize,
        members: &'static Members<N>,
    ) -> [Option<Json<'a>>; N] {
        let mut found = [None; N];
        for (found, at) in found.iter_mut().zip(members.at) {
            *found = self.0.part_at(self.1, group + at);
        }
        found
    }

    #[inline(always)]
    fn blocks(self, _: Json<'a>) -> [Option<Json<'a>>; 2] {
        BLOCKS.map(|block| self.0.part_at(self.1, block))
    }
}

/// The same, which notes what is asked for of that which differs from text to text.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a, 'p> {
    payload: Placed<'a, 'p>,
    varying: &'p Cell<u32>,
}

impl<'a, 'p> Asked<'a, 'p> {
    pub(super) fn new(payload: Placed<'a, 'p>, varying: &'p Cell<u32>) -> Self {
        Self { payload, varying }
    }

    fn note(self, part: usize) {
        if self.payload.1.is_varying(part) {
            self.varying.set(self.varying.get() | 1 << part);
        }
    }

    /// Whether nothing was asked for that differs but what [`is_sound`] looks at in each text.
    pub(super) fn is_sound(self, kind: Kind) -> bool {
        let calls = if kind == Kind::ToolResult { CALLS.as_slice() } else { &[] };
        let looked_at = names(kind).iter().chain(calls).fold(0, |bits, part| bits | 1 << part);
        self.varying.get() & !looked_at == 0
    }
}

impl<'a> Payload<'a> for Asked<'a, '_> {
    fn data(self) -> Json<'a> {
        self.payload.data()
    }

    fn fields<const N: usize>(
        self,
        of: Option<Json<'a>>,
        group: usize,
        members: &'static Members<N>,
    ) -> [Option<Json<'a>>; N] {
        members.at.iter().for_each(|at| self.note(group + at));
        self.payload.fields(of, group, members)
    }

    fn blocks(self, content: Json<'a>) -> [Option<Json<'a>>; 2] {
        BLOCKS.iter().for_each(|part| self.note(*part));
        self.payload.blocks(content)
    }
}
