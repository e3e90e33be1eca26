//! What a list shows of a log, and the disposable file that saves reading the log for it.
//!
//! The owner writes `session.summary.json` beside the log at flush and close. It is a hint: it counts only for a log
//! of exactly the size and with exactly the header line that it names, and without it the log is read. So it may be
//! missing, stale, damaged or copied along with a directory, and no list is wrong for it.

use std::io;
use std::sync::Arc;

use super::damage::Refused;
use super::fs::{FileSystem, read_full};
use super::paths::LogPath;
use super::read::{Sink, StoredEvent};
use super::temporary::temporary_name;
use crate::json::{Json, Type, quote_into};
use crate::log::{ForeignTypes, Kind, LastActive, LastTitle, LongestEvent, Offset};

/// The summary's name in the session directory.
pub(super) const SUMMARY_FILE: &str = "session.summary.json";

/// What a summary says to be: an earlier one is read as far as it means the same.
const VERSION: u64 = 1;

/// Longer summaries are not read, and not written.
const MAX_BYTES: usize = 64 << 10;

/// What a list shows of a log (PROTOCOL 3, Listing).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Events held.
    pub events: Offset,
    /// Time of the last event that counts as activity ([`LastActive`]).
    pub last_time: Option<i64>,
    /// The title ([`LastTitle`]).
    pub title: Option<String>,
    /// Types outside the vocabulary that are not marked ignorable, retired ones among them.
    pub foreign: ForeignTypes,
    /// Bytes of the longest event ([`LongestEvent`]); none where an older summary does not tell.
    pub longest: Option<u64>,
}

/// Gathers facts from a log that is read; keeps no event and validates none.
#[derive(Debug, Default)]
pub struct FactsSink {
    now: Gathered,
    /// The same where the frame began that is being read.
    before: Gathered,
}

/// Cheap to clone, as each frame asks for it.
#[derive(Clone, Debug, Default)]
struct Gathered {
    events: Offset,
    title: LastTitle<Arc<str>>,
    foreign: ForeignTypes,
    last: LastActive<i64>,
    longest: LongestEvent,
}

impl FactsSink {
    /// What was found so far.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let Gathered { events, title, foreign, last, longest } = self.now.clone();
        Facts {
            events,
            last_time: last.get(),
            title: title.get().map(|title| title.as_ref().to_owned()),
            foreign,
            longest: Some(longest.bytes() as u64),
        }
    }
}

impl Sink for FactsSink {
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        let (draft, Gathered { events, title, foreign, last, longest }) = (event.draft, &mut self.now);
        *events = events.plus(1);
        match draft.kind {
            Kind::SessionTitle => title.follow(draft.data, |given| given.lossy().into()),
            Kind::Other if !draft.ignorable => {
                foreign.note(|| draft.type_text.lossy().into_owned());
            }
            _ => {}
        }
        if draft.max_len() > longest.bytes() {
            longest.follow(draft.kind, draft.encoded_len(event.seq, event.time), || draft.data);
        }
        last.follow(draft.kind, event.time, || event.time, || draft.data);
        Ok(())
    }

    fn frame_begins(&mut self) {
        self.before = self.now.clone();
    }

    /// Only a frame is ever given back: this sink refuses no event.
    fn retract(&mut self, _to: Offset) {
        self.now = self.before.clone();
    }
}

/// Writes the summary of a log of `size` bytes with that header line; to be called by the log's owner. It is not made
/// durable: losing it costs one reading of the log.
///
/// # Errors
/// The errno of the step that failed. The caller may ignore it.
pub fn write_summary(
    fs: &dyn FileSystem,
    path: &LogPath,
    header_line: &str,
    size: u64,
    facts: &Facts,
) -> io::Result<()> {
    let text = encode(header_line, size, facts);
    let summary = path.session_dir().join(SUMMARY_FILE);
    if text.len() > MAX_BYTES {
        return fs.unlink(&summary).or(Ok(()));
    }
    let temp = temporary_name(&summary);
    let file = fs.create_new(&temp)?;
    let mut rest = text.as_bytes();
    let mut written = Ok(());
    while !rest.is_empty() && written.is_ok() {
        match file.append(rest) {
            Ok(0) => written = Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => written = Err(error),
        }
    }
    let answer = written.and_then(|()| fs.rename(&temp, &summary));
    if answer.is_err() {
        let _ = fs.unlink(&temp);
    }
    answer
}

/// The facts of a log of `size` bytes with that header line, if its summary is there and fits.
#[must_use]
pub fn read_summary(fs: &dyn FileSystem, path: &LogPath, header_line: &str, size: u64) -> Option<Facts> {
    let file = fs.open_read(&path.session_dir().join(SUMMARY_FILE)).ok()?;
    let mut buf = vec![0; 1 << 10];
    let mut have = read_full(file.as_ref(), 0, &mut buf).ok()?;
    if have == buf.len() {
        buf.resize(MAX_BYTES + 1, 0);
        have += read_full(file.as_ref(), have as u64, buf.get_mut(have..)?).ok()?;
    }
    let text = std::str::from_utf8(buf.get(..have).filter(|text| text.len() <= MAX_BYTES)?).ok()?;
    decode(text, header_line, size)
}

fn encode(header_line: &str, size: u64, facts: &Facts) -> String {
    let mut out = format!("{{\"version\":{VERSION},\"size\":{size},\"events\":{}", facts.events);
    if let Some(time) = facts.last_time {
        out.push_str(&format!(",\"lastTime\":{time}"));
    }
    if let Some(title) = &facts.title {
        out.push_str(",\"title\":");
        quote_into(title, &mut out);
    }
    out.push_str(",\"foreign\":[");
    for (index, name) in facts.foreign.names().iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        quote_into(name, &mut out);
    }
    out.push(']');
    if let Some(longest) = facts.longest {
        out.push_str(&format!(",\"longest\":{longest}"));
    }
    out.push_str(",\"header\":");
    quote_into(header_line, &mut out);
    out.push_str("}\n");
    out
}

fn decode(text: &str, header_line: &str, size: u64) -> Option<Facts> {
    let (json, _) = Json::parse(text).ok()?;
    let is_current = json.get("version").and_then(Json::as_safe_uint) == Some(VERSION);
    let of_this_log = json.get("size")?.as_safe_uint()? == size && json.get("header")?.is_str(header_line);
    let foreign = json.get("foreign").filter(|names| names.kind() == Type::Array)?;
    let names = foreign.elements().map(|name| name.as_str()?.decode().map(|name| name.into_owned()));
    let facts = Facts {
        events: json.get("events")?.as_safe_uint().and_then(Offset::new)?,
        last_time: json.get("lastTime").map(|time| time.as_safe_int().ok_or(())).transpose().ok()?,
        title: match json.get("title") {
            None if is_current => None,
            None => return None, // one without a version told no title where the last one was no text
            Some(title) => Some(title.as_str()?.decode()?.into_owned()),
        },
        foreign: names.collect::<Option<ForeignTypes>>()?,
        longest: json.get("longest").map(|bytes| bytes.as_safe_uint().ok_or(())).transpose().ok()?,
    };
    of_this_log.then_some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_for_its_own_log_only() {
        let facts = Facts {
            events: Offset::new(12).unwrap_or_default(),
            last_time: Some(-5),
            title: Some("a \"b\"\u{2028}\n".to_owned()),
            foreign: ForeignTypes::from_iter(["x/y".to_owned()]),
            longest: Some(4096),
        };
        let header = r#"{"type":"session","id":"a\u0000"}"#;
        for facts in [facts, Facts::default()] {
            let text = encode(header, 77, &facts);
            assert_eq!(decode(&text, header, 77).as_ref(), Some(&facts));
            assert_eq!(decode(&text, header, 78), None);
            assert_eq!(decode(&text, "{}", 77), None);
            for end in 0..text.len() - 1 {
                assert_eq!(decode(text.get(..end).unwrap_or(""), header, 77), None);
            }
            let earlier = text.replacen("\"version\":1,", "", 1);
            assert_eq!(decode(&earlier, header, 77), Some(facts).filter(|facts| facts.title.is_some()));
        }
    }
}
