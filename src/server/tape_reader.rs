//! Appends and batches of them, read member by member from the tape of their params.

use std::borrow::Cow;

use super::envelope::Scanned;
use super::service::bad_param;
use crate::json::{Fields, Json, JsonStr, Type};
use crate::log::Offset;
use crate::protocol::WireError;
use crate::session::{Append, Candidate, Expect};

/// The members of an append's params: an event's and its place.
const APPEND: [&str; 10] = [
    "sessionId",
    "type",
    "data",
    "surfaceOp",
    "sourceEventSeqs",
    "ignorable",
    "expectedSeq",
    "instanceId",
    "durable",
    "_meta",
];
/// The members of a batch's params.
const BATCH: [&str; 6] = ["sessionId", "events", "expectedSeq", "instanceId", "durable", "_meta"];
/// The members of an event of a batch; the last one is ignored.
const EVENT: [&str; 6] = ["type", "data", "surfaceOp", "sourceEventSeqs", "ignorable", "_meta"];
/// Those of them that count.
type Members<'a> = [Option<Json<'a>>; 5];

/// What an append asks for beside its events.
pub(super) struct Asked<'a> {
    session: Cow<'a, str>,
    instance: Option<Cow<'a, str>>,
    expect: Expect,
    /// It is answered once the events are on stable storage.
    pub(super) durable: bool,
}

/// A param that is not what it is to be.
pub(super) struct Misfit {
    field: &'static str,
    expected: &'static str,
    /// The event of a batch that it stands in.
    index: Option<usize>,
}

impl Misfit {
    fn new(field: &'static str, expected: &'static str) -> Self {
        Self { field, expected, index: None }
    }
}

impl From<Misfit> for WireError {
    fn from(Misfit { field, expected, index }: Misfit) -> Self {
        let error = bad_param(field, format!("{field} must be {expected}"));
        match index {
            Some(index) => error.fact("index", index),
            None => error,
        }
    }
}

const DATA: Misfit = Misfit { field: "data", expected: "there", index: None };
const EVENTS: Misfit = Misfit { field: "events", expected: "an array of events", index: None };

/// Reads the params of `session/append`.
#[inline(always)] // a candidate is large: it is made where it is used
pub(super) fn read_append<'a>(
    params: Scanned<'a>,
    max_depth: u32,
) -> Result<(Asked<'a>, Candidate<'a>), Misfit> {
    let Fields { found, others } = params.value.all_fields(&APPEND);
    let [session, kind, data, surface_op, sources, ignorable, seq, instance, durable, _meta] = found;
    if others {
        return Err(Misfit::new("params", "of an append's members only"));
    }
    let asked = asked(session, seq, instance, durable)?;
    // Of a batch's event `null` is a value; here it is as good as absent.
    let event = [kind, data, surface_op, sources, given(ignorable)];
    Ok((asked, candidate(params, event, max_depth)?))
}

/// Reads the params of `session/append_batch`, with up to so many events.
pub(super) fn read_batch<'a>(
    params: Scanned<'a>,
    max_depth: u32,
    max_events: usize,
) -> Result<(Asked<'a>, Vec<Candidate<'a>>), Misfit> {
    let Fields { found, others } = params.value.all_fields(&BATCH);
    let [session, events, seq, instance, durable, _meta] = found;
    let events = events.filter(|events| events.kind() == Type::Array && !others).ok_or(EVENTS)?;
    let mut batch = Vec::new();
    for event in events.elements() {
        if batch.len() == max_events {
            return Err(EVENTS);
        }
        let members = event_members(event).ok_or(EVENTS)?;
        let index = Some(batch.len());
        let read = candidate(params, members, max_depth);
        batch.push(read.map_err(|misfit| Misfit { index, ..misfit })?);
    }
    Ok((asked(session, seq, instance, durable)?, batch))
}

impl Asked<'_> {
    /// Where the events go, and on which condition.
    pub(super) fn place(&self) -> Append<'_> {
        Append { session: &self.session, instance: self.instance.as_deref(), expect: self.expect }
    }
}

fn asked<'a>(
    session: Option<Json<'a>>,
    seq: Option<Json<'a>>,
    instance: Option<Json<'a>>,
    durable: Option<Json<'a>>,
) -> Result<Asked<'a>, Misfit> {
    let session = text("sessionId", session)?;
    let instance = given(instance).map(|value| text("instanceId", Some(value))).transpose()?;
    let seq = match given(seq) {
        Some(seq) => {
            let is_plain = seq.text().bytes().all(|byte| byte.is_ascii_digit());
            let seq = seq.as_safe_uint().filter(|_| is_plain).and_then(Offset::new);
            Some(seq.ok_or(Misfit::new("expectedSeq", "a safe integer"))?)
        }
        None => None,
    };
    let durable = match given(durable) {
        Some(durable) => durable.as_bool().ok_or(Misfit::new("durable", "true or false"))?,
        None => false,
    };
    Ok(Asked { session, instance, expect: Expect { seq }, durable })
}

/// The event of [`EVENT`]'s members.
#[inline(always)]
fn candidate<'a>(
    params: Scanned<'a>,
    [kind, data, surface_op, sources, ignorable]: Members<'a>,
    max_depth: u32,
) -> Result<Candidate<'a>, Misfit> {
    let kind = kind.and_then(Json::as_str).ok_or(Misfit::new("type", "a string"))?;
    let data = data.ok_or(DATA)?;
    let mut candidate = Candidate::new(kind, data, params.checks(data, max_depth));
    if let Some(value) = ignorable {
        candidate.set_ignorable(value);
    }
    if let Some(value) = surface_op {
        candidate.set_surface_op(value, params.checks(value, max_depth));
    }
    if let Some(value) = sources {
        candidate.set_sources(value, params.checks(value, max_depth));
    }
    Ok(candidate)
}

/// The members of a batch's event by [`EVENT`]; none of what is no event, or has another member.
#[inline(always)]
fn event_members(event: Json<'_>) -> Option<Members<'_>> {
    let mut members = event.ordered_fields();
    let found = [
        members.member(r#"{"type":"#),
        members.member(r#","data":"#),
        members.member(r#","surfaceOp":"#),
        members.member(r#","sourceEventSeqs":"#),
        members.member(r#","ignorable":"#),
    ];
    if members.is_whole() {
        return Some(found);
    }
    let Fields { found: [kind, data, surface_op, sources, ignorable, _meta], others } =
        event.all_fields(&EVENT);
    (event.kind() == Type::Object && !others).then_some([kind, data, surface_op, sources, ignorable])
}

/// A member that may be `null` as well as absent.
fn given(value: Option<Json<'_>>) -> Option<Json<'_>> {
    value.filter(|value| value.kind() != Type::Null)
}

fn text<'a>(field: &'static str, value: Option<Json<'a>>) -> Result<Cow<'a, str>, Misfit> {
    value.and_then(Json::as_str).and_then(JsonStr::decode).ok_or(Misfit::new(field, "a string"))
}
