//! Packed chunk rows (FORMAT 11): runs of streamed deltas as one line of a stored log.
//!
//! Rows are storage only: a log never holds one. Here they are read; `chunk_pack` makes them. Reading
//! never depends on whether a writer packs.

use super::draft::{Draft, is_time};
use super::seq::Seq;
use crate::json::{Json, JsonStr, MAX_SAFE_INTEGER, Type};

const EVENT_TYPE: &str = "\"assistant/chunk\"";

/// The three kinds of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Text,
    Reasoning,
    ToolCall,
}

impl Tag {
    pub(super) const ALL: [Self; 3] = [Self::Text, Self::Reasoning, Self::ToolCall];

    /// The row's type.
    pub(super) fn row_type(self) -> &'static str {
        match self {
            Self::Text => "text-chunks",
            Self::Reasoning => "reasoning-chunks",
            Self::ToolCall => "tool-call-chunks",
        }
    }

    /// The chunk type of each member.
    pub(super) fn delta_type(self) -> &'static str {
        match self {
            Self::Text => "text-delta",
            Self::Reasoning => "reasoning-delta",
            Self::ToolCall => "tool-call-delta",
        }
    }

    /// What the row calls its pieces, and what a member calls its own.
    pub(super) fn piece_names(self) -> (&'static str, &'static str) {
        if self == Self::ToolCall { ("args", "argumentsDelta") } else { ("texts", "text") }
    }
}

/// Whether a type, in whatever spelling, is a tag of packed rows. Storage reads it with another envelope, so
/// no event of a log may have it.
pub fn is_row_tag(type_text: JsonStr<'_>) -> bool {
    Tag::ALL.into_iter().any(|tag| type_text.is(tag.row_type()))
}

/// The members of an object that has exactly these, in the order of `names`; each once.
pub(super) fn exactly<'a, const N: usize>(json: Json<'a>, names: [&str; N]) -> Option<[Json<'a>; N]> {
    let mut found = [None; N];
    if json.kind() != Type::Object {
        return None;
    }
    for (key, value) in json.members() {
        let at = names.iter().position(|name| key.is(name))?;
        if found.get_mut(at)?.replace(value).is_some() {
            return None;
        }
    }
    found.iter().all(Option::is_some).then(|| found.map(|value| value.unwrap_or(json)))
}

/// What the deltas of one run share, as JSON texts. Spellings count: `1` and `1.0` do not share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Common<'a> {
    pub(super) tag: Tag,
    pub(super) turn: &'a str,
    pub(super) step: &'a str,
    pub(super) index: &'a str,
    pub(super) id: Option<&'a str>,
    pub(super) name: Option<&'a str>,
}

impl<'a> Common<'a> {
    /// What these values say: strings, then numbers.
    pub(super) fn of(
        tag: Tag,
        [turn, step, index]: [Json<'a>; 3],
        id: Option<Json<'a>>,
        name: Option<Json<'a>>,
    ) -> Result<Self, RowRule> {
        if [id, name].iter().flatten().any(|value| value.kind() != Type::String) {
            return Err(RowRule::IdName);
        }
        if [turn, step, index].iter().any(|value| value.kind() != Type::Number) {
            return Err(RowRule::TurnStepIndex);
        }
        let (id, name) = (id.map(Json::text), name.map(Json::text));
        Ok(Self { tag, turn: turn.text(), step: step.text(), index: index.text(), id, name })
    }

    pub(super) fn put_id_and_name(&self, out: &mut String) {
        for (member, text) in [(",\"id\":", self.id), (",\"name\":", self.name)] {
            if let Some(text) = text {
                out.push_str(member);
                out.push_str(text);
            }
        }
    }
}

/// Why a row with one of the three tags is refused, in the order of the checks (FORMAT 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum RowRule {
    #[error("it must have exactly type, seq0, time0 and data")]
    Envelope,
    #[error("seq0 must be a non-negative safe integer")]
    Seq0,
    #[error("time0 must be a safe integer")]
    Time0,
    #[error("data must be an object")]
    DataNotObject,
    #[error("data must have exactly the members of this kind of row")]
    DataKeys,
    #[error("id and name must be strings")]
    IdName,
    #[error("turn, step and index must be numbers")]
    TurnStepIndex,
    #[error("the pieces must be a non-empty array of strings")]
    Payload,
    #[error("dt must be an array of safe integers")]
    Dt,
    #[error("dt must have one element less than the pieces")]
    DtLength,
    #[error("the last seq must be a safe integer")]
    SeqRange,
    #[error("every time must be a safe integer")]
    TimeRange,
}

impl RowRule {
    /// FORMAT's class name.
    pub fn class(self) -> &'static str {
        match self {
            Self::Envelope => "ROW_ENVELOPE",
            Self::Seq0 => "ROW_SEQ0",
            Self::Time0 => "ROW_TIME0",
            Self::DataNotObject => "ROW_DATA_NOT_OBJECT",
            Self::DataKeys => "ROW_DATA_KEYS",
            Self::IdName => "ROW_ID_NAME",
            Self::TurnStepIndex => "ROW_TURN_STEP_INDEX",
            Self::Payload => "ROW_PAYLOAD",
            Self::Dt => "ROW_DT",
            Self::DtLength => "ROW_DT_LENGTH",
            Self::SeqRange => "ROW_SEQ_RANGE",
            Self::TimeRange => "ROW_TIME_RANGE",
        }
    }
}

/// A packed row that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {row_type} row: {rule}")]
pub struct DecodeRowError {
    /// Which of the three tags it has.
    pub row_type: &'static str,
    /// The first rule that it breaks.
    pub rule: RowRule,
}

/// What one stored line after the header is.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a> {
    /// No packed row: the value as it is, for [`super::read_event`] to judge.
    Event(Json<'a>),
    /// A packed row, wholly checked.
    Chunks(ChunkRow<'a>),
}

/// A checked packed row: a run of `assistant/chunk` events with consecutive seqs.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRow<'a> {
    common: Common<'a>,
    first: Seq,
    time0: i64,
    dt: Json<'a>,
    pieces: Json<'a>,
    count: u64,
    needs_compaction: bool,
}

/// Reads one stored row; `needs_compaction` as the scanner said. The row's memory is all that it takes.
pub fn decode_row(row: Json<'_>, needs_compaction: bool) -> Result<Row<'_>, DecodeRowError> {
    let row_type = (row.kind() == Type::Object).then(|| row.get("type")).flatten();
    match Tag::ALL.into_iter().find(|tag| row_type.is_some_and(|name| name.is_str(tag.row_type()))) {
        None => Ok(Row::Event(row)),
        Some(tag) => match ChunkRow::check(tag, row, needs_compaction) {
            Ok(chunks) => Ok(Row::Chunks(chunks)),
            Err(rule) => Err(DecodeRowError { row_type: tag.row_type(), rule }),
        },
    }
}

impl<'a> ChunkRow<'a> {
    fn check(tag: Tag, row: Json<'a>, needs_compaction: bool) -> Result<Self, RowRule> {
        let [_, seq0, time0, data] =
            exactly(row, ["type", "seq0", "time0", "data"]).ok_or(RowRule::Envelope)?;
        let seq0 = seq0.as_safe_uint().ok_or(RowRule::Seq0)?;
        let time0 = time0.as_safe_int().ok_or(RowRule::Time0)?;
        // An array is an object to the reference: it has the wrong keys.
        if !matches!(data.kind(), Type::Object | Type::Array) {
            return Err(RowRule::DataNotObject);
        }
        let (payload, _) = tag.piece_names();
        let (id, name, [turn, step, index, dt, pieces]) = if tag == Tag::ToolCall {
            let with_name = exactly(data, ["turn", "step", "index", "dt", payload, "id", "name"]);
            if let Some([turn, step, index, dt, pieces, id, name]) = with_name {
                (Some(id), Some(name), [turn, step, index, dt, pieces])
            } else {
                let [turn, step, index, dt, pieces, id] =
                    exactly(data, ["turn", "step", "index", "dt", payload, "id"]).ok_or(RowRule::DataKeys)?;
                (Some(id), None, [turn, step, index, dt, pieces])
            }
        } else {
            let found = exactly(data, ["turn", "step", "index", "dt", payload]);
            (None, None, found.ok_or(RowRule::DataKeys)?)
        };
        let common = Common::of(tag, [turn, step, index], id, name)?;
        let mut count = 0;
        for piece in pieces.elements() {
            count += 1;
            if piece.kind() != Type::String {
                return Err(RowRule::Payload);
            }
        }
        if count == 0 {
            return Err(RowRule::Payload); // no array, or an empty one
        }
        Self::check_gaps(seq0, time0, dt, count)?;
        let first = Seq::new(seq0).ok_or(RowRule::Seq0)?;
        Ok(Self { common, first, time0, dt, pieces, count, needs_compaction })
    }

    fn check_gaps(seq0: u64, time0: i64, dt: Json<'_>, count: u64) -> Result<(), RowRule> {
        if dt.kind() != Type::Array || dt.elements().any(|gap| gap.as_safe_int().is_none()) {
            return Err(RowRule::Dt);
        }
        if dt.elements().count() as u64 != count - 1 {
            return Err(RowRule::DtLength);
        }
        // The reference adds in doubles and lets one unsafe seq through; integers do not (FORMAT 11).
        if seq0 + (count - 1) > MAX_SAFE_INTEGER {
            return Err(RowRule::SeqRange);
        }
        let mut time = time0;
        for gap in dt.elements().filter_map(Json::as_safe_int) {
            time += gap; // both safe integers: no overflow
            if !is_time(time) {
                return Err(RowRule::TimeRange);
            }
        }
        Ok(())
    }

    /// The seq of the first event.
    pub fn first(&self) -> Seq {
        self.first
    }

    /// How many events it holds, one at least.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// An upper bound of the bytes that its events take as lines.
    ///
    /// A small row with a long id and many pieces unpacks to the square of its size: check before
    /// taking the events of a row that is not trusted.
    pub fn unpacked_len(&self) -> u64 {
        const LINE: u64 = 180; // the envelope with its numbers, all names, and the line end
        let Common { turn, step, index, id, name, .. } = self.common;
        let texts = [Some(turn), Some(step), Some(index), id, name];
        let shared: usize = texts.into_iter().flatten().map(str::len).sum();
        // Six bytes for two: the most that escaping a separator adds.
        let factor = if self.needs_compaction { 3 } else { 1 };
        self.count.saturating_mul(LINE + factor * shared as u64) + factor * self.pieces.text().len() as u64
    }

    /// Gives each event with its seq and time; the first refusal of `take` ends it.
    pub fn each<E>(&self, mut take: impl FnMut(Seq, i64, &Draft<'_>) -> Result<(), E>) -> Result<(), E> {
        let Common { tag, turn, step, index, .. } = self.common;
        let mut data = format!(
            "{{\"turn\":{turn},\"step\":{step},\"chunk\":{{\"type\":\"{}\",\"index\":{index}",
            tag.delta_type()
        );
        self.common.put_id_and_name(&mut data);
        let (_, own) = tag.piece_names();
        data.push_str(&format!(",\"{own}\":"));
        let shared = data.len();
        let (mut seq, mut time) = (self.first, self.time0);
        let mut gaps = self.dt.elements().filter_map(Json::as_safe_int);
        for piece in self.pieces.elements() {
            data.truncate(shared);
            data.push_str(piece.text());
            data.push_str("}}");
            let event_type = JsonStr::from_verified(EVENT_TYPE);
            let draft = Draft {
                needs_compaction: self.needs_compaction,
                ..Draft::new(event_type, Json::from_verified(&data))
            };
            take(seq, time, &draft)?;
            seq = seq.after().next();
            time += gaps.next().unwrap_or(0);
        }
        Ok(())
    }
}
