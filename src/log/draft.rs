//! An event before it has its place: what an append or a stored line says, and how it is encoded.

use std::sync::Arc;

use super::event::BEFORE_DATA;
use super::kind::Kind;
use super::ranges::{SOURCES, SeqRuns};
use super::seq::Seq;
use crate::json::{Fields, Json, JsonStr, MAX_SAFE_INTEGER, Type, write_compact};

/// An event to be, over verified JSON text. Nothing of its meaning is checked yet.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// What the type is.
    pub kind: Kind,
    /// The type as JSON text.
    pub type_text: JsonStr<'a>,
    /// The payload.
    pub data: Json<'a>,
    /// `sourceEventSeqs`, `null` included.
    pub sources: Option<Json<'a>>,
    /// `surfaceOp`, `null` included.
    pub surface_op: Option<Json<'a>>,
    /// `ignorable: true`.
    pub ignorable: bool,
    /// `sourceEventSeqs` has runs as pairs, in a stored log, and reads as [`SeqRuns`](super::SeqRuns).
    pub packed: bool,
    /// Some of the texts hold white space or raw separators, and are compacted when encoded.
    pub needs_compaction: bool,
    /// The line that it was read from, where encoding it at the same place would give the same.
    pub line: Option<Line<'a>>,
}

/// An event's line with the seq and time that it names.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    text: &'a str,
    seq: Seq,
    time: i64,
    holder: Option<Holder<'a>>,
}

/// A text that holds lines, each ended by `\n`, and the byte at which one of them begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'a> {
    pub(super) text: &'a Arc<String>,
    pub(super) start: usize,
}

impl<'a> Line<'a> {
    /// The same line as the part of `text` that begins at that byte and ends before a `\n`: a log may
    /// [adopt](super::Log::put) the text.
    #[must_use]
    pub fn held_by(self, text: &'a Arc<String>, start: usize) -> Self {
        debug_assert!(text.get(start..).is_some_and(|rest| rest.lines().next() == Some(self.text)));
        Self { holder: Some(Holder { text, start }), ..self }
    }

    /// The text that holds it, if one does.
    pub(super) fn holder(self) -> Option<Holder<'a>> {
        self.holder
    }

    /// It, without a line end.
    pub(super) fn text(self) -> &'a str {
        self.text
    }

    /// Bytes, without a line end.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// Where the encoded parts went, in bytes of the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoded {
    /// Length of the event's place, `"seq":…,"time":…`.
    pub(super) place: usize,
    pub(super) data_start: usize,
    pub(super) data_end: usize,
    pub(super) end: usize,
}

/// A time as lines have it, up to the payload: that of an event is mostly that of the one before.
#[derive(Debug, Default)]
pub(super) struct TimeText {
    time: i64,
    /// Empty where there was no time yet.
    text: String,
}

impl TimeText {
    fn of(time: i64) -> Self {
        let mut text = Self::default();
        text.set(time);
        text
    }

    /// Another time, or the same.
    #[inline]
    pub(super) fn set(&mut self, time: i64) {
        if self.time != time || self.text.is_empty() {
            self.write(time);
        }
    }

    #[inline(never)]
    fn write(&mut self, time: i64) {
        self.time = time;
        self.text.clear();
        for part in [",\"time\":", itoa::Buffer::new().format(time), BEFORE_DATA] {
            self.text.push_str(part);
        }
    }
}

impl<'a> Draft<'a> {
    /// A draft of that type and payload, with nothing else.
    pub fn new(type_text: JsonStr<'a>, data: Json<'a>) -> Self {
        let kind = Kind::of_text(type_text);
        Self {
            kind,
            type_text,
            data,
            sources: None,
            surface_op: None,
            ignorable: false,
            packed: false,
            needs_compaction: false,
            line: None,
        }
    }

    /// An upper bound of the encoded length, in bytes.
    #[inline]
    pub fn max_len(&self) -> usize {
        const FIXED: usize =
            r#"{"type":,"seq":,"time":,"data":,"sourceEventSeqs":,"surfaceOp":,"ignorable":true}"#.len();
        const NUMBERS: usize = 2 * "-9007199254740991".len();
        let len: usize = self.texts().map(str::len).iter().sum();
        FIXED + NUMBERS + len + if self.needs_compaction { self.growth() } else { 0 }
    }

    /// The texts that are encoded, empty ones for what is not there.
    #[inline]
    fn texts(&self) -> [&'a str; 4] {
        let given = |value: Option<Json<'a>>| value.map_or("", Json::text);
        [self.type_text.text(), self.data.text(), given(self.sources), given(self.surface_op)]
    }

    /// The encoded length at a place and time with the plain list of what is cited in runs, in bytes without a line end.
    pub fn plain_len(&self, seq: Seq, time: i64) -> usize {
        let Some(runs) = self.sources.and_then(|sources| SeqRuns::read(sources, seq)) else {
            return self.encoded_len(seq, time);
        };
        let rest = Self { sources: None, line: None, ..*self }.encoded_len(seq, time) + SOURCES.len();
        rest.saturating_add(usize::try_from(runs.plain_len()).unwrap_or(usize::MAX))
    }

    /// An upper bound of what the compact forms have more: white space only goes, and a raw separator, which begins with
    /// 0xC2 or 0xE2, becomes six bytes.
    #[inline(never)]
    fn growth(&self) -> usize {
        let of = |text: &str| {
            let count = |byte| memchr::memchr_iter(byte, text.as_bytes()).count();
            if text.is_ascii() { 0 } else { 4 * count(0xC2) + 3 * count(0xE2) }
        };
        self.texts().map(of).iter().sum()
    }

    /// The line that it was read from, if encoding it at that place and time gives that line.
    #[inline]
    pub(super) fn line_at(&self, seq: Seq, time: i64) -> Option<Line<'a>> {
        let line = self.line.filter(|line| (line.seq, line.time) == (seq, time))?;
        debug_assert_eq!(line.text, self.apart(seq, time));
        Some(line)
    }

    /// The encoded length at a place and time, in bytes without a line end.
    pub fn encoded_len(&self, seq: Seq, time: i64) -> usize {
        match self.line_at(seq, time) {
            Some(line) => line.len(),
            None => self.apart(seq, time).len(),
        }
    }

    /// Its line by itself.
    fn apart(&self, seq: Seq, time: i64) -> String {
        let mut line = String::new();
        self.put_together(seq, &TimeText::of(time), &mut line);
        line
    }

    /// Appends the event's line, without a line end.
    pub(super) fn encode(&self, seq: Seq, time: &TimeText, out: &mut String) -> Encoded {
        let Some(Line { text: line, .. }) = self.line_at(seq, time.time) else {
            return self.put_together(seq, time, out);
        };
        out.push_str(line);
        self.within(line)
    }

    /// Where its parts stand in the line that it was read from.
    #[inline]
    pub(super) fn within(&self, line: &str) -> Encoded {
        let data_start = start_in(line, self.data.text());
        let type_end = start_in(line, self.type_text.text()) + self.type_text.text().len();
        let place = data_start.saturating_sub(type_end + 1 + BEFORE_DATA.len());
        Encoded { place, data_start, data_end: data_start + self.data.text().len(), end: line.len() }
    }

    fn put_together(&self, seq: Seq, time: &TimeText, out: &mut String) -> Encoded {
        let start = out.len();
        let put = |text: &str, out: &mut String| {
            if self.needs_compaction { write_compact(text, out) } else { out.push_str(text) }
        };
        let mut number = itoa::Buffer::new();
        out.push_str("{\"type\":");
        put(self.type_text.text(), out);
        let before_place = out.len() + 1;
        out.push_str(",\"seq\":");
        out.push_str(number.format(seq.get()));
        out.push_str(&time.text);
        let place = out.len() - BEFORE_DATA.len() - before_place;
        let data_start = out.len() - start;
        put(self.data.text(), out);
        let data_end = out.len() - start;
        if let Some(sources) = self.sources {
            out.push_str(SOURCES);
            put(sources.text(), out);
        }
        if let Some(surface_op) = self.surface_op {
            out.push_str(",\"surfaceOp\":");
            put(surface_op.text(), out);
        }
        if self.ignorable {
            out.push_str(",\"ignorable\":true");
        }
        out.push('}');
        Encoded { place, data_start, data_end, end: out.len() - start }
    }
}

/// Why a value is not an event envelope (FORMAT 2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// Not an object.
    #[error("an event must be an object")]
    NotAnObject,
    /// A member that envelopes do not have.
    #[error("an event has no member {0:?}; put it into data")]
    UnknownMember(String),
    /// A member that must be there.
    #[error("an event needs the member {0:?}")]
    Missing(&'static str),
    /// `type` is not a string.
    #[error("an event's type must be a string")]
    Type,
    /// `seq` is not a non-negative safe integer.
    #[error("an event's seq must be a non-negative safe integer")]
    Seq,
    /// `time` is not a safe integer.
    #[error("an event's time must be a safe integer in milliseconds")]
    Time,
    /// `ignorable` is there and not `true`.
    #[error("an event's ignorable must be true or absent")]
    Ignorable,
}

const MEMBERS: [&str; 7] = ["type", "seq", "time", "data", "sourceEventSeqs", "surfaceOp", "ignorable"];

/// Reads an event envelope as seeds and stored logs hold it; `needs_compaction` as the scanner said.
///
/// The answer is the event's own seq and time and the rest as a draft. Member order does not matter.
pub fn read_event(value: Json<'_>, needs_compaction: bool) -> Result<(Seq, i64, Draft<'_>), EnvelopeError> {
    // Nearly every line is so; then nothing needs to be looked for.
    if let Some(read) = read_as_encoded(value, needs_compaction) {
        return Ok(read);
    }
    let [kind, seq, time, data, sources, surface_op, ignorable] = envelope_members(value)?;
    let type_text = kind.ok_or(EnvelopeError::Missing("type"))?.as_str().ok_or(EnvelopeError::Type)?;
    let seq = seq.ok_or(EnvelopeError::Missing("seq"))?;
    let time = time.ok_or(EnvelopeError::Missing("time"))?;
    let data = data.ok_or(EnvelopeError::Missing("data"))?;
    if ignorable.is_some_and(|value| value.as_bool() != Some(true)) {
        return Err(EnvelopeError::Ignorable);
    }
    let seq = seq.as_safe_int().and_then(to_seq).ok_or(EnvelopeError::Seq)?;
    let time = time.as_safe_int().ok_or(EnvelopeError::Time)?;
    let ignorable = ignorable.is_some();
    Ok((seq, time, Draft { sources, surface_op, ignorable, needs_compaction, ..Draft::new(type_text, data) }))
}

/// Reads an envelope that was encoded here, or as it would be but for white space in its values.
#[inline(always)]
fn read_as_encoded(value: Json<'_>, needs_compaction: bool) -> Option<(Seq, i64, Draft<'_>)> {
    let mut members = value.ordered_fields();
    let type_text = members.member(r#"{"type":"#)?.as_str()?;
    let seq = members.member(r#","seq":"#)?.as_plain_int().and_then(to_seq)?;
    let time = members.member(r#","time":"#)?.as_plain_int()?;
    let data = members.member(r#","data":"#)?;
    let sources = members.member(r#","sourceEventSeqs":"#);
    let surface_op = members.member(r#","surfaceOp":"#);
    let ignorable = members.member(r#","ignorable":"#);
    if !members.is_whole() || ignorable.is_some_and(|value| value.as_bool() != Some(true)) {
        return None;
    }
    let ignorable = ignorable.is_some();
    let line = (!needs_compaction).then_some(Line { text: value.text(), seq, time, holder: None });
    Some((
        seq,
        time,
        Draft { sources, surface_op, ignorable, needs_compaction, line, ..Draft::new(type_text, data) },
    ))
}

fn to_seq(value: i64) -> Option<Seq> {
    Seq::new(u64::try_from(value).ok()?)
}

/// The members of an envelope in whatever order; refuses all others.
fn envelope_members(value: Json<'_>) -> Result<[Option<Json<'_>>; MEMBERS.len()], EnvelopeError> {
    if value.kind() != Type::Object {
        return Err(EnvelopeError::NotAnObject);
    }
    let Fields { found, others } = value.all_fields(&MEMBERS);
    if others {
        let name = value.members().map(|(key, _)| key.lossy()).find(|name| !MEMBERS.contains(&&**name));
        return Err(EnvelopeError::UnknownMember(name.unwrap_or_default().chars().take(60).collect()));
    }
    Ok(found)
}

/// How far in a text a part of it begins: addresses tell.
fn start_in(text: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// Whether a number may stand as an event's time.
pub(super) fn is_time(value: i64) -> bool {
    value.unsigned_abs() <= MAX_SAFE_INTEGER
}
