//! One committed event, read from its line.

use super::draft::{Draft, Encoded};
use super::kind::Kind;
use super::seq::Seq;
use crate::json::{Json, JsonStr};

/// Where the parts of an encoded event stand in its line, which begins where the line before ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    /// One past the closing brace, in bytes of the segment; a `\n` follows.
    pub(super) end: u32,
    /// First byte of `data`, in bytes of the line.
    pub(super) data_start: u32,
    /// One past the last byte of `data`.
    pub(super) data_end: u32,
    pub(super) kind: Kind,
    /// Bytes of the event's [`Event::place`], 49 at most.
    pub(super) place: u8,
}

impl Meta {
    /// That of a draft whose line begins at that byte of the segment.
    #[inline(always)]
    pub(super) fn of(draft: &Draft<'_>, start: usize, encoded: Encoded) -> Self {
        Self {
            end: (start + encoded.end) as u32,
            data_start: encoded.data_start as u32,
            data_end: encoded.data_end as u32,
            kind: draft.kind,
            place: encoded.place as u8,
        }
    }
}

/// What stands between an event's place and its payload.
pub(super) const BEFORE_DATA: &str = ",\"data\":";

/// A committed event: `{type, seq, time, data, sourceEventSeqs?, surfaceOp?, ignorable?}` in that
/// order, compact, on one line (PROTOCOL 4).
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    line: &'a str,
    meta: Meta,
    seq: Seq,
}

impl<'a> Event<'a> {
    pub(super) fn new(line: &'a str, meta: Meta, seq: Seq) -> Self {
        Self { line, meta, seq }
    }

    /// The whole event as JSON text, without a line end.
    pub fn line(self) -> &'a str {
        self.line
    }

    /// The whole event as a JSON value.
    pub fn json(self) -> Json<'a> {
        Json::from_verified(self.line)
    }

    /// Its position.
    pub fn seq(self) -> Seq {
        self.seq
    }

    /// What it is.
    pub fn kind(self) -> Kind {
        self.meta.kind
    }

    /// Its position and time as its line and answers have them: `"seq":…,"time":…`.
    pub fn place(self) -> &'a str {
        let end = (self.meta.data_start as usize).saturating_sub(BEFORE_DATA.len());
        self.line.get(end.saturating_sub(usize::from(self.meta.place))..end).unwrap_or("")
    }

    /// The type as JSON text.
    pub fn type_text(self) -> JsonStr<'a> {
        let end = (self.meta.data_start as usize)
            .checked_sub(BEFORE_DATA.len() + usize::from(self.meta.place) + ",".len());
        let text = end.and_then(|end| self.line.get(r#"{"type":"#.len()..end));
        text.map_or(JsonStr::EMPTY, JsonStr::from_verified)
    }

    /// Milliseconds since the Unix epoch, as the writer's clock said; may be negative.
    pub fn time(self) -> i64 {
        let digits = self.place().rsplit_once(':').map(|(_, digits)| digits);
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// The payload.
    pub fn data(self) -> Json<'a> {
        let range = self.meta.data_start as usize..self.meta.data_end as usize;
        Json::from_verified(self.line.get(range).unwrap_or("null"))
    }

    /// What follows the data: members after a comma, then the closing brace.
    pub(super) fn tail(self) -> &'a str {
        self.line.get(self.meta.data_end as usize..).unwrap_or("}")
    }

    fn tail_member(self, name: &str) -> Option<Json<'a>> {
        let mut rest = self.tail();
        if rest.len() <= 1 {
            return None;
        }
        // The tail reads as an object once its leading comma is an opening brace; walk it in place.
        while let Some(after) = rest.strip_prefix(",\"") {
            let (key, value_on) = after.split_once("\":")?;
            let value = leading_value(value_on);
            if key == name {
                return Some(value);
            }
            rest = value_on.get(value.text().len()..)?;
        }
        None
    }

    /// The cited events, as written.
    pub fn source_event_seqs(self) -> Option<Json<'a>> {
        self.tail_member("sourceEventSeqs")
    }

    /// The surface marker, as written.
    pub fn surface_op(self) -> Option<Json<'a>> {
        self.tail_member("surfaceOp")
    }

    /// Whether readers that do not know the type may pass it over.
    pub fn ignorable(self) -> bool {
        self.tail().ends_with(",\"ignorable\":true}")
    }
}

/// The JSON value at the start of verified text that goes on after it.
fn leading_value(text: &str) -> Json<'_> {
    let bytes = text.as_bytes();
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            if in_string || depth > 0 {
                continue;
            }
            return Json::from_verified(text.get(..=at).unwrap_or("null"));
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' if depth == 1 => return Json::from_verified(text.get(..=at).unwrap_or("null")),
            b'}' | b']' | b',' if depth == 0 => return Json::from_verified(text.get(..at).unwrap_or("null")),
            _ => {}
        }
    }
    Json::from_verified(text)
}
