//! Packing runs of streamed deltas into rows (FORMAT 11).

use std::borrow::Cow;

use super::chunk_rows::{Common, Tag, exactly};
use super::draft::is_time;
use crate::json::{Json, Type, escape_separators};

/// Runs of this many deltas or more become a row.
const MIN_RUN: usize = 3;

/// One packable event.
struct Delta<'a> {
    common: Common<'a>,
    seq: u64,
    time: i64,
    piece: &'a str,
}

impl<'a> Delta<'a> {
    fn of(event: Json<'a>) -> Option<Self> {
        let [event_type, seq, time, data] = exactly(event, ["type", "seq", "time", "data"])?;
        if !event_type.is_str("assistant/chunk") {
            return None;
        }
        let [turn, step, chunk] = exactly(data, ["turn", "step", "chunk"])?;
        let delta_type = chunk.get("type")?;
        let tag = Tag::ALL.into_iter().find(|tag| delta_type.is_str(tag.delta_type()))?;
        let (_, own) = tag.piece_names();
        let (index, id, name, piece) = if tag == Tag::ToolCall {
            if let Some([_, index, id, piece]) = exactly(chunk, ["type", "index", "id", own]) {
                (index, Some(id), None, piece)
            } else {
                let [_, index, id, name, piece] = exactly(chunk, ["type", "index", "id", "name", own])?;
                (index, Some(id), Some(name), piece)
            }
        } else {
            let [_, index, piece] = exactly(chunk, ["type", "index", own])?;
            (index, None, None, piece)
        };
        let common = Common::of(tag, [turn, step, index], id, name).ok()?;
        if piece.kind() != Type::String {
            return None;
        }
        Some(Self { common, seq: seq.as_safe_uint()?, time: time.as_safe_int()?, piece: piece.text() })
    }

    fn is_followed_by(&self, next: &Self) -> bool {
        self.common == next.common && next.seq == self.seq + 1 && is_time(next.time - self.time)
    }
}

/// Packs a batch of events: each run of three or more deltas becomes one row, everything else passes
/// verbatim, in order (FORMAT 11). A batch that is packed alone keeps runs inside it.
pub fn pack_rows<'a>(events: impl IntoIterator<Item = Json<'a>>) -> Vec<Cow<'a, str>> {
    let mut rows = Vec::new();
    let mut run: Vec<(Delta<'a>, &'a str)> = Vec::new();
    let close = |run: &mut Vec<(Delta<'a>, &'a str)>, rows: &mut Vec<Cow<'a, str>>| {
        if run.len() < MIN_RUN {
            rows.extend(run.iter().map(|(_, text)| Cow::Borrowed(*text)));
        } else {
            rows.push(Cow::Owned(row_text(run)));
        }
        run.clear();
    };
    for event in events {
        let delta = Delta::of(event);
        let goes_on = match (run.last(), &delta) {
            (Some((last, _)), Some(next)) => last.is_followed_by(next),
            _ => false,
        };
        if !goes_on {
            close(&mut run, &mut rows);
        }
        match delta {
            Some(delta) => run.push((delta, event.text())),
            None => rows.push(Cow::Borrowed(event.text())),
        }
    }
    close(&mut run, &mut rows);
    rows
}

/// `{type, seq0, time0, data: {turn, step, index, [id, [name,]] dt, texts | args}}` of a run.
fn row_text(run: &[(Delta<'_>, &str)]) -> String {
    let Some((first, _)) = run.first() else { return String::new() };
    let Common { tag, turn, step, index, .. } = first.common;
    let mut out = format!(
        "{{\"type\":\"{}\",\"seq0\":{},\"time0\":{},\"data\":{{\"turn\":{turn},\"step\":{step},\"index\":{index}",
        tag.row_type(),
        first.seq,
        first.time,
    );
    first.common.put_id_and_name(&mut out);
    let later = run.iter().skip(1);
    let gaps: Vec<_> = run.iter().zip(later).map(|((a, _), (b, _))| (b.time - a.time).to_string()).collect();
    let pieces: Vec<_> = run.iter().map(|(delta, _)| delta.piece).collect();
    let (payload, _) = tag.piece_names();
    out.push_str(&format!(",\"dt\":[{}],\"{payload}\":[{}]}}}}", gaps.join(","), pieces.join(",")));
    let mut line = String::with_capacity(out.len());
    escape_separators(&out, &mut line);
    line
}
