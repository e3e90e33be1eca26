//! What a stored log says, read the plain way: line by line, with the rules of FORMAT 13.1 as they stand
//! there and in PROTOCOL 9.

use super::chunk_rows::unpack;
use super::model::log::Event;
use super::model::rules::{MAX_EVENT_BYTES, Wanted, admit};
use super::plain::{Tree, compact, member, parse, parts, tree_of};

/// What the text of a log holds after its header.
#[derive(Default)]
pub struct Told {
    pub events: Vec<Event>,
    /// One past the last byte of the sound part.
    pub sound_end: usize,
    /// The first damaged record: its number from 1 on, and its first byte.
    pub damage: Option<(u64, usize)>,
    /// The damage keeps the log from being opened.
    pub fatal: bool,
    pub missing_newline: bool,
    /// From this record on the log may be of an older shape (FORMAT 14), which is not read here.
    pub unsure: Option<u64>,
}

/// Whether a header line opens a log: the inherited count, if so; nothing where it cannot be said here.
pub fn header(line: &[u8]) -> Option<Result<u64, ()>> {
    let Ok(text) = std::str::from_utf8(line) else { return Some(Err(())) };
    let Ok(plain) = parse(text) else { return Some(Err(())) };
    let tree = plain.tree()?;
    Some(sound_header(&tree).filter(|_| plain.faults.is_empty()).ok_or(()))
}

fn sound_header(tree: &Tree) -> Option<u64> {
    let text = |name: &str| match tree.get(name) {
        None => Some(None),
        Some(value) => value.text().map(Some), // valid Unicode, and nothing else
    };
    let count = |name: &str| match tree.get(name) {
        None => Some(None),
        Some(value) => value.safe_int().filter(|count| *count >= 0).map(Some),
    };
    let id = text("id")??;
    let plain = |unit: u16| {
        u8::try_from(unit).is_ok_and(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let segment: usize = match &*id {
        "." | ".." => 10,
        id => id.encode_utf16().map(|unit| if plain(unit) { 1 } else { 5 }).sum(),
    };
    let fits = matches!(tree.get("version"), Some(Tree::Number(version)) if *version == 0.0)
        && text("type")??.eq("session")
        && (1..=255).contains(&segment)
        && text("origin")?.is_none_or(|origin| origin == "subagent")
        && text("cwd")?.is_none_or(|cwd| cwd.starts_with('/'))
        && tree.get("sandboxMode").is_none()
        && tree.get("approvalPolicy").is_none();
    (count("createdAt")?, count("delegationDepth")?).0?;
    count("delegationDepth")??;
    text("parentSession")?;
    text("agentPreset")?;
    let inherited = count("seedLength")?.unwrap_or(0);
    fits.then_some(inherited as u64)
}

/// One record.
enum Record {
    Chunks(i64, Vec<String>),
    Event(String, Tree),
}

fn record(line: &[u8]) -> Option<Record> {
    let plain = parse(std::str::from_utf8(line).ok()?).ok()?;
    if !plain.faults.is_empty() {
        return None;
    }
    let text = compact(std::str::from_utf8(line).ok()?.trim_matches([' ', '\t', '\r', '\n']));
    // What is deeper than a tree is no packed row, and its envelope is read from the text alone.
    let Some(tree) = plain.tree() else { return Some(Record::Event(text, Tree::Null)) };
    match unpack(&text) {
        Err(_) => None,
        Ok(Some(events)) => Some(Record::Chunks(tree.get("seq0")?.safe_int()?, events)),
        Ok(None) => Some(Record::Event(text, tree)),
    }
}

impl Record {
    fn seq(&self) -> Option<i64> {
        match self {
            Self::Chunks(first, _) => Some(*first),
            Self::Event(text, _) => tree_of(member(text, "seq").filter(|text| text.len() < 100)?)
                .safe_int()
                .filter(|seq| *seq >= 0),
        }
    }

    fn is_turn_end(&self) -> bool {
        matches!(self, Self::Event(_, tree) if tree.get("type").and_then(Tree::text).as_deref() == Some("turn/end"))
    }
}

/// Reads the records of a text that begins at byte `base` of the log.
pub fn records(text: &[u8], base: usize) -> Told {
    let mut told = Told { sound_end: base, ..Told::default() };
    let mut at = 0;
    let mut number = 0;
    while at < text.len() {
        let ended = text[at..].iter().position(|byte| *byte == b'\n');
        let line = &text[at..ended.map_or(text.len(), |length| at + length)];
        let end = at + line.len() + usize::from(ended.is_some());
        number += 1;
        if !told.take(line, number, base + at) {
            break;
        }
        if told.damage.is_none() {
            told.sound_end = base + end;
            told.missing_newline = ended.is_none();
        }
        at = end;
    }
    told
}

impl Told {
    /// Takes one record; false when nothing more is to be read.
    fn take(&mut self, line: &[u8], number: u64, offset: usize) -> bool {
        let place = (number, offset);
        let Some(record) = record(line) else {
            self.damage.get_or_insert(place);
            // Lost bytes end where they end: a record may stand behind NULs.
            let behind = line.iter().position(|byte| *byte != 0).filter(|from| *from > 0);
            let behind = behind.and_then(|from| self::record(&line[from..]));
            self.fatal |= behind.is_some_and(|record| record.is_turn_end());
            return true;
        };
        if self.damage.is_some() || record.seq() != Some(self.events.len() as i64) {
            self.damage.get_or_insert(place);
            self.fatal |= record.is_turn_end();
            return true;
        }
        let before = self.events.len();
        let taken = match record {
            Record::Chunks(_, events) => events.iter().all(|event| self.admit(event, number)),
            Record::Event(text, _) => self.admit(&text, number),
        };
        if !taken {
            self.events.truncate(before);
            self.damage = Some(place);
            self.fatal = true;
        }
        taken
    }

    /// Takes one event, in compact form, if it may come next.
    fn admit(&mut self, text: &str, number: u64) -> bool {
        let known = ["type", "seq", "time", "data", "sourceEventSeqs", "surfaceOp", "ignorable"];
        let of = |name: &str| member(text, name);
        let short = |name: &str| of(name).filter(|text| text.len() < 100).map(tree_of);
        let sound = text.starts_with('{')
            && parts(text).len() == known.into_iter().filter(|name| of(name).is_some()).count();
        let ignorable = of("ignorable").map(|value| if value == "true" { "true" } else { "false" });
        let (Some(kind), Some(data)) = (of("type").filter(|kind| kind.starts_with('"')), of("data")) else {
            return false;
        };
        let Some(time) = short("time").and_then(|time| time.safe_int()) else { return false };
        if !sound || ignorable == Some("false") {
            return false;
        }
        let Tree::Text(units) = tree_of(kind) else { return false };
        let seq = self.events.len();
        let wanted = Wanted {
            name: String::from_utf16_lossy(&units),
            data: data.to_owned(),
            op: of("surfaceOp").map(str::to_owned),
            sources: of("sourceEventSeqs").map(|text| expanded(text, seq).unwrap_or_else(|| text.to_owned())),
            ignorable,
            spelled: Some(kind.to_owned()),
        };
        if admit(&self.events, &wanted, false, false).is_err() {
            let older = [
                "turn/start",
                "turn/end",
                "user/message",
                "assistant/message",
                "tool/result",
                "steering/message",
            ];
            if older.contains(&&*wanted.name) {
                self.unsure = Some(number);
            }
            return false;
        }
        let event = wanted.committed(seq, time, None);
        let fits = event.line.len() <= MAX_EVENT_BYTES;
        if fits {
            self.events.push(event);
        }
        fits
    }
}

/// A list of sources whose runs stand as pairs (FORMAT 16), in full.
fn expanded(text: &str, seq: usize) -> Option<String> {
    let Tree::Array(items) = parse(text).ok()?.tree()? else { return None };
    if !items.iter().any(|item| matches!(item, Tree::Array(_))) {
        return None;
    }
    let mut all: Vec<i64> = Vec::new();
    for item in &items {
        let natural = |tree: &Tree| tree.safe_int().filter(|int| *int >= 0);
        let (start, end) = match item {
            Tree::Array(pair) => match &pair[..] {
                [start, end] => (natural(start)?, natural(end)?),
                _ => return None,
            },
            single => (natural(single)?, natural(single)?),
        };
        if end < start || end >= seq as i64 || all.last().is_some_and(|last| start <= *last) {
            return None;
        }
        all.extend(start..=end);
    }
    Some(format!("[{}]", all.iter().map(i64::to_string).collect::<Vec<_>>().join(",")))
}
