//! One stored line after the header: bytes to an event or a packed row (FORMAT 11 and 13.1).

use super::damage::Damage;
use crate::json::{Checks, Json, Scratch};
use crate::log::{ChunkRow, Draft, EnvelopeError, Kind, Row, Seq, decode_row, read_event};

/// What a sound line holds.
pub(in crate::disk) enum Record<'a> {
    /// An event; its seq is told apart from the rest, as it decides before the envelope does.
    Event { seq: Option<Seq>, rest: Result<(i64, Draft<'a>), EnvelopeError>, row: Json<'a>, checks: Checks },
    /// A packed row.
    Chunks { chunks: ChunkRow<'a>, row: Json<'a>, depth: u32 },
}

impl Record<'_> {
    /// The seq of its first event, if it has one.
    pub(in crate::disk) fn first(&self) -> Option<Seq> {
        match self {
            Self::Event { seq, .. } => *seq,
            Self::Chunks { chunks, .. } => Some(chunks.first()),
        }
    }

    /// How many events it holds.
    pub(in crate::disk) fn events(&self) -> u64 {
        match self {
            Self::Event { rest, .. } => u64::from(rest.is_ok()),
            Self::Chunks { chunks, .. } => chunks.count(),
        }
    }

    /// Whether it ends a turn: what makes damage before it fatal. Its envelope does not matter.
    pub(in crate::disk) fn is_turn_end(&self) -> bool {
        match self {
            Self::Event { row, .. } => row.get("type").is_some_and(|name| name.is_str("turn/end")),
            Self::Chunks { .. } => false,
        }
    }
}

/// Reads one line, without its line end. JSON white space around and inside it is fine, a `\r` at its end too.
pub(in crate::disk) fn decode<'a>(line: &'a [u8], scratch: &'a mut Scratch) -> Result<Record<'a>, Damage> {
    let text = std::str::from_utf8(line).map_err(|error| match line.first() {
        Some(0) => nuls(line),
        _ => Damage::NotUtf8(error.valid_up_to()),
    })?;
    let (row, checks) = scratch.scan(text).map_err(|error| match text.as_bytes().first() {
        Some(0) => nuls(text.as_bytes()),
        _ if text.bytes().all(|byte| byte.is_ascii_whitespace()) => Damage::Blank,
        _ => Damage::NotJson(error),
    })?;
    record(row, checks)
}

/// Reads a line that was scanned.
pub(in crate::disk) fn record(row: Json<'_>, checks: Checks) -> Result<Record<'_>, Damage> {
    let Checks { fault, needs_compaction, depth, .. } = checks;
    if let Some(fault) = fault {
        return Err(Damage::Lossy(fault.kind));
    }
    let read = read_event(row, needs_compaction);
    if let Ok((seq, time, draft)) = read
        && !may_be_tag(&draft)
    {
        return Ok(Record::Event { seq: Some(seq), rest: Ok((time, draft)), row, checks });
    }
    match decode_row(row, needs_compaction)? {
        // The envelope is one level around the payloads.
        Row::Chunks(chunks) => Ok(Record::Chunks { chunks, row, depth: depth.saturating_sub(1).max(1) }),
        Row::Event(row) => {
            let seq = row.get("seq").and_then(Json::as_safe_uint).and_then(Seq::new);
            Ok(Record::Event { seq, rest: read.map(|(_, time, draft)| (time, draft)), row, checks })
        }
    }
}

/// Whether the type may be a tag of packed rows, which belongs to another envelope.
fn may_be_tag(draft: &Draft<'_>) -> bool {
    draft.kind == Kind::Other && draft.type_text.lossy().ends_with("-chunks")
}

fn nuls(line: &[u8]) -> Damage {
    Damage::Nuls(line.iter().take_while(|byte| **byte == 0).count() as u64)
}
