//! Packed chunk rows (FORMAT 11) against a plain packer and unpacker: decoding what was encoded gives
//! the same events, and encoding what was decoded the same row.

use std::convert::Infallible;

use sessiond::json::Json;
use sessiond::log::{Row, decode_row, pack_rows};

use super::plain::{Tree, compact, member, parse, parts, tree_of};

/// The lines are rows or events: each is decoded, and all together are packed.
pub fn chunk_rows(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // What storage reads is lossless and not deep; the rest is refused before (PROTOCOL 9.2).
    let sound =
        |line: &&str| parse(line).is_ok_and(|plain| plain.faults.is_empty() && plain.tree().is_some());
    let lines: Vec<&str> = text.lines().filter(sound).take(200).collect();
    let mut events = Vec::new();
    for line in &lines {
        events.extend(decoded(line));
    }
    pack(&events);
    let rows: Vec<String> = lines.iter().map(|line| compact(line)).collect();
    pack(&rows);
}

const TAGS: [(&str, &str, &str, &str); 3] = [
    ("text-chunks", "text-delta", "texts", "text"),
    ("reasoning-chunks", "reasoning-delta", "texts", "text"),
    ("tool-call-chunks", "tool-call-delta", "args", "argumentsDelta"),
];

fn event(seq: i64, time: i64, data: &str) -> String {
    format!("{{\"type\":\"assistant/chunk\",\"seq\":{seq},\"time\":{time},\"data\":{data}}}")
}

/// The events of a line, decoded on both sides.
fn decoded(line: &str) -> Vec<String> {
    let (value, checks) = Json::parse(line).unwrap();
    let wanted = unpack(&compact(line));
    match decode_row(value, checks.needs_compaction) {
        Err(error) => {
            assert_eq!(Err(error.rule.class()), wanted, "{line}");
            Vec::new()
        }
        Ok(Row::Event(event)) => {
            assert_eq!(event.text(), value.text());
            assert_eq!(wanted, Ok(None), "{line}");
            Vec::new()
        }
        Ok(Row::Chunks(row)) => {
            let mut events = Vec::new();
            let mut bytes = 0;
            let done: Result<(), Infallible> = row.each(|seq, time, draft| {
                let own = event(seq.get() as i64, time, &compact(draft.data.text()));
                assert!(draft.max_len() >= own.len());
                bytes += own.len() as u64 + 1;
                events.push(own);
                Ok(())
            });
            done.unwrap();
            assert_eq!(Ok(Some(&events)), wanted.as_ref().map(Option::as_ref), "{line}");
            assert_eq!((events.len() as u64, row.count() > 0), (row.count(), true));
            assert!(bytes <= row.unpacked_len(), "{bytes} of {}: {line}", row.unpacked_len());
            again(&compact(line), &events);
            events
        }
    }
}

/// A row of three members or more is made again from its events, but for the order of its members and
/// the spelling of its own integers.
fn again(row: &str, events: &[String]) {
    let packed = pack(events);
    if events.len() < 3 {
        assert_eq!(packed, events);
        return;
    }
    let [again] = &packed[..] else { panic!("{} rows from {row}", packed.len()) };
    let (own, back) = (tree_of(row), tree_of(again));
    assert!(own.same(&back), "{row}\n{again}");
    // In the order of a writer it is the same text.
    let (own, back) = (canonical(row), canonical(again));
    assert_eq!(own, *again);
    assert_eq!(own, back);
}

/// A row as writers write it.
fn canonical(row: &str) -> String {
    let of_row = |name| member(row, name).unwrap();
    let data = of_row("data");
    let integer = |text: &str| tree_of(text).safe_int().unwrap().to_string();
    let mut out = format!("{{\"type\":\"{}\"", tree_of(of_row("type")).text().unwrap());
    out.push_str(&format!(
        ",\"seq0\":{},\"time0\":{},\"data\":{{",
        integer(of_row("seq0")),
        integer(of_row("time0"))
    ));
    for name in ["turn", "step", "index", "id", "name"] {
        if let Some(value) = member(data, name) {
            out.push_str(&format!("\"{name}\":{value},"));
        }
    }
    let gaps: Vec<String> = parts(member(data, "dt").unwrap()).into_iter().map(integer).collect();
    let (name, pieces) =
        ["texts", "args"].into_iter().find_map(|name| Some((name, member(data, name)?))).unwrap();
    out.push_str(&format!("\"dt\":[{}],\"{name}\":{pieces}}}}}", gaps.join(",")));
    out
}

/// FORMAT 11's decoding, in its order: no row, or the events, or the class of the refusal.
pub fn unpack(row: &str) -> Result<Option<Vec<String>>, &'static str> {
    let tree = tree_of(row);
    let tag = tree.get("type").and_then(Tree::text);
    let Some((_, delta, payload, own)) = TAGS.into_iter().find(|(name, ..)| tag.as_deref() == Some(name))
    else {
        return Ok(None);
    };
    let keys = |tree: &Tree| -> Vec<String> {
        let Tree::Object(members) = tree else { return Vec::new() };
        let mut keys: Vec<String> = members.iter().map(|(key, _)| String::from_utf16_lossy(key)).collect();
        keys.sort();
        keys
    };
    let rule = |holds: bool, class| if holds { Ok(()) } else { Err(class) };
    rule(keys(&tree) == ["data", "seq0", "time0", "type"], "ROW_ENVELOPE")?;
    let seq0 = tree.get("seq0").and_then(Tree::safe_int).filter(|seq| *seq >= 0).ok_or("ROW_SEQ0")?;
    let time0 = tree.get("time0").and_then(Tree::safe_int).ok_or("ROW_TIME0")?;
    let data = tree.get("data").unwrap();
    rule(matches!(data, Tree::Object(_) | Tree::Array(_)), "ROW_DATA_NOT_OBJECT")?;
    let mut names = vec!["dt", "index", "step", "turn", payload];
    if payload == "args" {
        names.push("id");
        if data.get("name").is_some() {
            names.push("name");
        }
    }
    names.sort_unstable();
    rule(keys(data) == names, "ROW_DATA_KEYS")?;
    let is_text = |name: &str| data.get(name).is_none_or(|value| matches!(value, Tree::Text(_)));
    rule(is_text("id") && is_text("name"), "ROW_ID_NAME")?;
    let is_number = |name: &&str| matches!(data.get(name), Some(Tree::Number(_)));
    rule(["turn", "step", "index"].iter().all(is_number), "ROW_TURN_STEP_INDEX")?;
    let Some(Tree::Array(pieces)) = data.get(payload) else { return Err("ROW_PAYLOAD") };
    let texts = pieces.iter().all(|piece| matches!(piece, Tree::Text(_)));
    rule(!pieces.is_empty() && texts, "ROW_PAYLOAD")?;
    let Some(Tree::Array(gaps)) = data.get("dt") else { return Err("ROW_DT") };
    let gaps: Option<Vec<i64>> = gaps.iter().map(Tree::safe_int).collect();
    let gaps = gaps.ok_or("ROW_DT")?;
    rule(gaps.len() + 1 == pieces.len(), "ROW_DT_LENGTH")?;
    let safe = (1i64 << 53) - 1;
    rule(seq0 + gaps.len() as i64 <= safe, "ROW_SEQ_RANGE")?;
    let mut times = vec![time0];
    for gap in gaps {
        let time = times[times.len() - 1] + gap;
        rule(time.abs() <= safe, "ROW_TIME_RANGE")?;
        times.push(time);
    }
    let data = member(row, "data").unwrap();
    let of_data = |name| member(data, name).unwrap();
    let mut head = format!(
        "{{\"turn\":{},\"step\":{},\"chunk\":{{\"type\":\"{delta}\",\"index\":{}",
        of_data("turn"),
        of_data("step"),
        of_data("index")
    );
    for name in ["id", "name"] {
        if let Some(value) = member(data, name) {
            head.push_str(&format!(",\"{name}\":{value}"));
        }
    }
    let texts = parts(of_data(payload));
    let members = texts.iter().zip(times).zip(seq0..);
    Ok(Some(
        members
            .map(|((text, time), seq)| event(seq, time, &format!("{head},\"{own}\":{text}}}}}")))
            .collect(),
    ))
}

/// One delta that can be packed.
#[derive(Clone, PartialEq)]
struct Delta {
    tag: usize,
    /// `"turn":…,"step":…,"index":…[,"id":…[,"name":…]]`, in their spellings.
    common: String,
    seq: i64,
    time: i64,
    piece: String,
}

fn delta(event: &str) -> Option<Delta> {
    let keys = |text: &str, names: &[&str]| {
        text.starts_with('{')
            && parts(text).len() == names.len()
            && names.iter().all(|name| member(text, name).is_some())
    };
    let tree = tree_of(event);
    if !keys(event, &["type", "seq", "time", "data"]) || tree.get("type")?.text()? != "assistant/chunk" {
        return None;
    }
    let (data, read) = (member(event, "data")?, tree.get("data")?);
    if !keys(data, &["turn", "step", "chunk"]) {
        return None;
    }
    let (chunk, chunk_read) = (member(data, "chunk")?, read.get("chunk")?);
    let name = chunk_read.get("type")?.text()?;
    let tag = TAGS.iter().position(|(_, delta, ..)| *delta == name)?;
    let own = TAGS[tag].3;
    let texts: &[&[&str]] = if tag == 2 { &[&["id", own], &["id", "name", own]] } else { &[&[own]] };
    let texts = texts.iter().find(|texts| {
        let mut names = vec!["type", "index"];
        names.extend(**texts);
        keys(chunk, &names)
    })?;
    let is_text = |name: &&str| matches!(chunk_read.get(name), Some(Tree::Text(_)));
    let is_number = |tree: Option<&Tree>| matches!(tree, Some(Tree::Number(_)));
    if !texts.iter().all(is_text)
        || ![read.get("turn"), read.get("step"), chunk_read.get("index")].into_iter().all(is_number)
    {
        return None;
    }
    let mut common = format!(
        "\"turn\":{},\"step\":{},\"index\":{}",
        member(data, "turn")?,
        member(data, "step")?,
        member(chunk, "index")?
    );
    for name in &texts[..texts.len() - 1] {
        common.push_str(&format!(",\"{name}\":{}", member(chunk, name)?));
    }
    let (seq, time) = (tree.get("seq")?.safe_int().filter(|seq| *seq >= 0)?, tree.get("time")?.safe_int()?);
    Some(Delta { tag, common, seq, time, piece: member(chunk, own)?.to_owned() })
}

/// Packs events on both sides, and unpacks them again.
fn pack(events: &[String]) -> Vec<String> {
    let (mut wanted, mut back): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < events.len() {
        let mut run: Vec<Delta> = Vec::new();
        for event in &events[at..] {
            let Some(next) = delta(event) else { break };
            let goes_on = run.last().is_none_or(|last: &Delta| {
                let (gap, safe) = (next.time - last.time, (1i64 << 53) - 1);
                (next.tag, &next.common, next.seq) == (last.tag, &last.common, last.seq + 1)
                    && gap.abs() <= safe
            });
            if !goes_on {
                break;
            }
            run.push(next);
        }
        if run.len() < 3 {
            let passed = run.len().max(1);
            wanted.extend_from_slice(&events[at..at + passed]);
            back.extend_from_slice(&events[at..at + passed]);
            at += passed;
            continue;
        }
        let (first, (tag, _, payload, _)) = (&run[0], TAGS[run[0].tag]);
        let gaps: Vec<String> =
            run.windows(2).map(|pair| (pair[1].time - pair[0].time).to_string()).collect();
        let pieces: Vec<&str> = run.iter().map(|delta| &*delta.piece).collect();
        let row = format!(
            "{{\"type\":\"{tag}\",\"seq0\":{},\"time0\":{},\"data\":{{{},\"dt\":[{}],\"{payload}\":[{}]}}}}",
            first.seq,
            first.time,
            first.common,
            gaps.join(","),
            pieces.join(",")
        );
        back.extend(unpack(&row).unwrap().expect("a row"));
        wanted.push(row);
        at += run.len();
    }
    let values: Vec<Json<'_>> = events.iter().map(|event| Json::parse(event).unwrap().0).collect();
    let packed: Vec<String> = pack_rows(values).into_iter().map(|row| row.into_owned()).collect();
    assert_eq!(packed, wanted);
    assert_eq!(back.len(), events.len());
    for (event, back) in events.iter().zip(&back) {
        assert!(tree_of(event).same(&tree_of(back)), "{event}\n{back}");
    }
    packed
}
