//! What a list shows of a log, and the disposable file that saves reading the log for it.
//!
//! The owner writes `session.summary.json` beside the log at flush and close. It is a hint: it counts only whole, by a
//! checksum of itself, and for a log of exactly the size, with exactly the header line and with exactly the last bytes
//! that it was made for; without it the log is read. So it may be missing, stale, damaged or copied along with a directory.
//! What it cannot know of is a change of the log before its last bytes: once a load or an inspection has met one, the
//! [`Catalogue`](crate::disk::catalog::records::Catalogue) believes it no more.

use std::io;
use std::sync::Arc;

use twox_hash::XxHash64;

use crate::disk::fs::{FileSystem, ReadAt, read_full};
use crate::disk::live::temporary::temporary_name;
use crate::disk::paths::{LogPath, SUMMARY_FILE};
use crate::disk::read::damage::Refused;
use crate::disk::read::reader::{Sink, StoredEvent};
use crate::json::{Json, Type, quote_into};
use crate::log::{ForeignTypes, Kind, LastActive, LastTitle, LongestEvent, Offset};

/// What a summary says to be. An earlier one has no checksum, and another idea of the title and of activity: it is not
/// believed.
const VERSION: u64 = 2;

/// So much of a log's end a summary knows, in bytes.
pub(in crate::disk) const TAIL: usize = 4 << 10;

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
    /// Bytes of the longest event ([`LongestEvent`]).
    pub longest: u64,
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
            longest: longest.bytes() as u64,
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

/// Finds the last activity of a log that is not behind a moment ([`active_until`](crate::log::active_until)).
pub(in crate::disk) struct UntilSink {
    moment: i64,
    now: LastActive<i64>,
    /// The same where the frame began that is being read.
    before: LastActive<i64>,
}

impl UntilSink {
    pub(in crate::disk) fn new(moment: i64) -> Self {
        Self { moment, now: LastActive::default(), before: LastActive::default() }
    }

    /// Its time.
    pub(in crate::disk) fn found(&self) -> Option<i64> {
        self.now.get()
    }
}

impl Sink for UntilSink {
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        if event.time <= self.moment {
            self.now.follow(event.draft.kind, event.time, || event.time, || event.draft.data);
        }
        Ok(())
    }

    fn frame_begins(&mut self) {
        self.before = self.now;
    }

    /// Only a frame is ever given back: this sink refuses no event.
    fn retract(&mut self, _to: Offset) {
        self.now = self.before;
    }
}

/// A checksum of the last bytes of a log of `size` bytes.
///
/// # Errors
/// The errno of reading them; `UnexpectedEof` when there are fewer.
pub fn tail_of(log: &dyn ReadAt, size: u64) -> io::Result<u64> {
    let mut tail = [0; TAIL];
    let want = usize::try_from(size).map_or(TAIL, |size| size.min(TAIL));
    let tail = tail.get_mut(..want).unwrap_or_default();
    match read_full(log, size.saturating_sub(TAIL as u64), tail)? {
        have if have == want => Ok(checksum(tail)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

pub(in crate::disk) fn checksum(bytes: &[u8]) -> u64 {
    XxHash64::oneshot(0, bytes)
}

/// Writes the summary of a log of `size` bytes with that header line and that checksum of its [tail](tail_of), which its
/// owner knows better than the file, should another program have changed that; to be called by the log's owner.
/// It is not made durable: losing it costs one reading of the log.
///
/// # Errors
/// The errno of the step that failed. The caller may ignore it.
pub fn write_summary(
    fs: &dyn FileSystem,
    path: &LogPath,
    header_line: &str,
    size: u64,
    tail: u64,
    facts: &Facts,
) -> io::Result<()> {
    let text = Of { header_line, size, tail }.encode(facts);
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

/// The facts of a log of `size` bytes with that header line and that checksum of its [tail](tail_of), if its summary is
/// there and fits.
#[must_use]
pub fn read_summary(
    fs: &dyn FileSystem,
    path: &LogPath,
    header_line: &str,
    size: u64,
    tail: u64,
) -> Option<Facts> {
    let file = fs.open_read(&path.session_dir().join(SUMMARY_FILE)).ok()?;
    let mut buf = vec![0; 1 << 10];
    let mut have = read_full(file.as_ref(), 0, &mut buf).ok()?;
    if have == buf.len() {
        buf.resize(MAX_BYTES + 1, 0);
        have += read_full(file.as_ref(), have as u64, buf.get_mut(have..)?).ok()?;
    }
    let text = std::str::from_utf8(buf.get(..have).filter(|text| text.len() <= MAX_BYTES)?).ok()?;
    Of { header_line, size, tail }.decode(text)
}

/// The log that a summary is for.
#[derive(Clone, Copy)]
struct Of<'a> {
    header_line: &'a str,
    size: u64,
    tail: u64,
}

impl Of<'_> {
    fn encode(self, facts: &Facts) -> String {
        let Self { header_line, size, tail } = self;
        let events = facts.events;
        let mut out =
            format!("{{\"version\":{VERSION},\"size\":{size},\"tail\":\"{tail:016x}\",\"events\":{events}");
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
        out.push_str(&format!("],\"longest\":{},\"header\":", facts.longest));
        quote_into(header_line, &mut out);
        out.push_str(&format!(",\"sum\":\"{:016x}\"}}\n", checksum(out.as_bytes())));
        out
    }

    fn decode(self, text: &str) -> Option<Facts> {
        let (summed, sum) = text.rsplit_once(",\"sum\":\"")?;
        let sum = u64::from_str_radix(sum.strip_suffix("\"}\n")?, 16).ok()?;
        let (json, _) = Json::parse(text).ok()?;
        let of_this_log = sum == checksum(summed.as_bytes())
            && json.get("version")?.as_safe_uint()? == VERSION
            && json.get("size")?.as_safe_uint()? == self.size
            && json.get("tail")?.is_str(&format!("{:016x}", self.tail))
            && json.get("header")?.is_str(self.header_line);
        let foreign = json.get("foreign").filter(|names| names.kind() == Type::Array)?;
        let names = foreign.elements().map(|name| name.as_str()?.decode().map(|name| name.into_owned()));
        let facts = Facts {
            events: json.get("events")?.as_safe_uint().and_then(Offset::new)?,
            last_time: json.get("lastTime").map(|time| time.as_safe_int().ok_or(())).transpose().ok()?,
            title: match json.get("title") {
                None => None,
                Some(title) => Some(title.as_str()?.decode()?.into_owned()),
            },
            foreign: names.collect::<Option<ForeignTypes>>()?,
            longest: json.get("longest")?.as_safe_uint()?,
        };
        // A log that goes on behind its header line holds events.
        let is_bare = self.size <= self.header_line.len() as u64 + 1;
        (of_this_log && (facts.events == Offset::ZERO) == is_bare).then_some(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_whole_and_for_its_own_log_only() {
        let facts = Facts {
            events: Offset::new(12).unwrap_or_default(),
            last_time: Some(-5),
            title: Some("a \"b\"\u{2028}\n".to_owned()),
            foreign: ForeignTypes::from_iter(["x/y".to_owned()]),
            longest: 4096,
        };
        let header = r#"{"type":"session","id":"a\u0000"}"#;
        let bare = Of { header_line: header, size: header.len() as u64 + 1, tail: 7 };
        let of = Of { size: 77, ..bare };
        for (of, facts) in [(of, facts.clone()), (bare, Facts::default())] {
            let text = of.encode(&facts);
            assert_eq!(of.decode(&text).as_ref(), Some(&facts));
            for other in [Of { size: 78, ..of }, Of { tail: 8, ..of }, Of { header_line: "{}", ..of }] {
                assert_eq!(other.decode(&text), None);
            }
            for end in 0..text.len() - 1 {
                assert_eq!(of.decode(text.get(..end).unwrap_or("")), None);
            }
            // No digit of it may be another one.
            for (at, digit) in text.match_indices(|char: char| char.is_ascii_hexdigit()) {
                let other = if digit == "1" { "2" } else { "1" };
                let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
                assert_eq!(of.decode(&changed), None, "{changed}");
            }
        }
        // Whole, and still no summary of a log of that size.
        assert_eq!(of.decode(&of.encode(&Facts::default())), None);
        assert_eq!(bare.decode(&bare.encode(&facts)), None);
    }
}
