//! One stored line after the header: bytes to an event or a packed row (FORMAT 11 and 13.1).

use super::damage::Damage;
use crate::json::{Checks, Json, Scanner, Scratch};
use crate::log::{ChunkRow, Draft, EnvelopeError, Row, Seq, decode_row, read_event};

/// What a sound line holds.
pub(super) enum Record<'a> {
    /// An event; its seq is told apart from the rest, as it decides before the envelope does.
    Event { seq: Option<Seq>, rest: Result<(i64, Draft<'a>), EnvelopeError>, row: Json<'a>, depth: u32 },
    /// A packed row.
    Chunks { chunks: ChunkRow<'a>, row: Json<'a>, depth: u32 },
}

impl Record<'_> {
    /// Whether it ends a turn: what makes damage before it fatal. Its envelope does not matter.
    pub(super) fn is_turn_end(&self) -> bool {
        match self {
            Self::Event { row, .. } => row.get("type").is_some_and(|name| name.is_str("turn/end")),
            Self::Chunks { .. } => false,
        }
    }
}

/// Reads one line, without its line end. JSON white space around and inside it is fine, a `\r` at its end too.
pub(super) fn decode<'a>(line: &'a [u8], scratch: &mut Scratch) -> Result<Record<'a>, Damage> {
    let text = std::str::from_utf8(line).map_err(|error| match line.first() {
        Some(0) => nuls(line),
        _ => Damage::NotUtf8(error.valid_up_to()),
    })?;
    match decode_plain_event(text, scratch) {
        Some(record) => Ok(record),
        None => decode_any(text, scratch),
    }
}

/// The usual line, an event as writers write it, in one pass; none for anything else, sound or not.
fn decode_plain_event<'a>(text: &'a str, scratch: &mut Scratch) -> Option<Record<'a>> {
    let (mut kind, mut seq, mut time, mut data) = (None, None, None, None);
    let (mut sources, mut surface_op, mut ignorable) = (None, None, None);
    let (mut loose, mut depth) = (false, 1);
    let mut scanner = Scanner::new(text, scratch);
    scanner.expect(b'{').ok()?;
    loop {
        let slot = match scanner.key().ok()?.plain()? {
            "type" => &mut kind,
            "seq" => &mut seq,
            "time" => &mut time,
            "data" => &mut data,
            "sourceEventSeqs" => &mut sources,
            "surfaceOp" => &mut surface_op,
            "ignorable" => &mut ignorable,
            _ => return None,
        };
        let (value, checks) = scanner.value().ok()?;
        if checks.fault.is_some() || slot.replace(value).is_some() {
            return None;
        }
        loose |= checks.loose;
        depth = depth.max(checks.depth);
        scanner.space();
        if !scanner.accept(b',') {
            break;
        }
    }
    scanner.expect(b'}').ok()?;
    let row = text.get(..scanner.position())?;
    scanner.end().ok()?;
    let type_text = kind?.as_str()?;
    let seq = Seq::new(seq?.as_safe_uint()?)?;
    let time = time?.as_safe_int()?;
    if ignorable.is_some_and(|value| value.as_bool() != Some(true)) {
        return None;
    }
    let draft =
        Draft { sources, surface_op, ignorable: ignorable.is_some(), loose, ..Draft::new(type_text, data?) };
    // A tag of packed rows belongs to another envelope: the whole check says so.
    if type_text.text().ends_with("-chunks\"") {
        return None;
    }
    Some(Record::Event { seq: Some(seq), rest: Ok((time, draft)), row: Json::from_verified(row), depth })
}

fn decode_any<'a>(text: &'a str, scratch: &mut Scratch) -> Result<Record<'a>, Damage> {
    let mut scanner = Scanner::new(text, scratch);
    let scanned = scanner.value().and_then(|found| scanner.end().map(|()| found));
    let (row, Checks { fault, loose, depth }) = scanned.map_err(|error| match text.as_bytes().first() {
        Some(0) => nuls(text.as_bytes()),
        _ if text.bytes().all(|byte| byte.is_ascii_whitespace()) => Damage::Blank,
        _ => Damage::NotJson(error),
    })?;
    if let Some(fault) = fault {
        return Err(Damage::Lossy(fault.kind));
    }
    // The envelope is one level around the payload.
    let depth = depth.saturating_sub(1).max(1);
    match decode_row(row, loose)? {
        Row::Chunks(chunks) => Ok(Record::Chunks { chunks, row, depth }),
        Row::Event(row) => {
            let seq = row.get("seq").and_then(Json::as_safe_uint).and_then(Seq::new);
            let rest = read_event(row, loose).map(|(_, time, draft)| (time, draft));
            Ok(Record::Event { seq, rest, row, depth })
        }
    }
}

fn nuls(line: &[u8]) -> Damage {
    Damage::Nuls(line.iter().take_while(|byte| **byte == 0).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(record: &Result<Record<'_>, Damage>) -> String {
        match record {
            Err(damage) => format!("{damage}"),
            Ok(Record::Chunks { row, depth, .. }) => format!("chunks {} {depth}", row.text()),
            Ok(Record::Event { seq, rest, row, depth }) => match rest {
                Ok((time, draft)) => format!(
                    "{seq:?} {time} {:?} {} {:?} {:?} {} {} {depth}",
                    draft.type_text,
                    draft.data.text(),
                    draft.sources,
                    draft.surface_op,
                    draft.ignorable,
                    row.text()
                ),
                Err(error) => format!("{seq:?} {error}"),
            },
        }
    }

    #[test]
    fn the_short_way_says_what_the_long_way_says() {
        let lines = [
            r#"{"type":"x","seq":0,"time":1,"data":{}}"#,
            r#"{"type":"x","seq":0,"time":1,"data":5}"#,
            r#"{"data":{"a":[1,{"b":[]}]},"time":-1,"seq":7.0,"type":"tool/result","surfaceOp":{"op":"replace","start":1,"end":2},"sourceEventSeqs":[1,2]}"#,
            " { \"type\" : \"x\" , \"seq\" : 1e1 , \"time\" : 1 , \"data\" : [ 1 , 2 ] , \"ignorable\" : true } \r",
            r#"{"type":"x","seq":0,"time":1,"data":{},"ignorable":false}"#,
            r#"{"type":"x","seq":0,"time":1,"data":{},"type":"x"}"#,
            r#"{"type":"x","seq":0,"time":1,"data":{"a":-0}}"#,
            r#"{"type":"x","seq":-0,"time":1,"data":{}}"#,
            r#"{"type":"x","seq":0,"time":1}"#,
            r#"{"typ\u0065":"x","seq":0,"time":1,"data":{}}"#,
            r#"{"type":"x","seq":0,"time":1,"data":{},"more":1}"#,
            r#"{"type":"text-chunks","seq":0,"time":1,"data":{}}"#,
            r#"{"type":"text-chunks","seq0":0,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]}}"#,
            "{}",
            "null",
            "",
            " ",
            "\0\0{}",
            r#"{"type":"x","seq":0,"time":1,"data":{}}}"#,
            r#"{"type":"x","seq":0,"time":1,"data":{},}"#,
        ];
        let mut scratch = Scratch::default();
        let mut short = 0;
        for line in lines {
            let long = facts(&decode_any(line, &mut scratch));
            if let Some(record) = decode_plain_event(line, &mut scratch) {
                short += 1;
                assert_eq!(facts(&Ok(record)), long);
            }
            assert_eq!(facts(&decode(line.as_bytes(), &mut scratch)), long);
        }
        assert_eq!(short, 3);
    }
}
