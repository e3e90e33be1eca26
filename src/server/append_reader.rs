//! Appends that are spelt as earlier ones, read without looking for anything.
//!
//! A client writes each kind of append with the same members in the same order. What stands between the values that
//! change is a [`Spelling`]; it is learned from an append that was read member by member, and a later line that holds the
//! same text in between has the same members. Such a line is taken from its front, and only its payload is scanned.
//! Whatever fits no spelling is read by [`crate::server::envelope`], and means the same there (`tests/server/direct_path.rs`).

use crate::json::{Checks, Json, JsonStr, LiteralReader, Scratch, TemplateKey};
use crate::log::Offset;
use crate::session::{Append, Candidate, Expect};

const APPEND: Json<'static> = Json::from_verified("\"append\"");
const TRUE: Json<'static> = Json::from_verified("true");
/// As plain as a value can be.
const PLAIN: Checks = Checks { fault: None, needs_compaction: false, depth: 0 };

/// The spellings of appends that a client has used.
#[derive(Default)]
pub(super) struct AppendReader {
    /// Those with the longest end first: the end of a line tells most of them apart.
    spellings: Vec<Spelling>,
    /// Appends since one was spelt as an earlier one.
    misses: usize,
}

/// The text of an append around the values that change from one to the next.
struct Spelling {
    /// The values in the order in which they stand, each with the text before it.
    slots: Vec<(String, Slot)>,
    /// The text behind the last one.
    end: String,
    /// What the last value ends with; any digit is `0`.
    last: u8,
    /// The marker is `"append"`.
    appends: bool,
    /// The event is marked `ignorable`.
    ignorable: bool,
}

/// A value that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Id,
    Session,
    Type,
    Data,
    Sources,
    ExpectedSeq,
    Instance,
}

/// The values of a line, as far as they are taken.
#[derive(Default)]
struct Values<'a> {
    id: &'a str,
    session: &'a str,
    kind: Option<JsonStr<'a>>,
    data: Option<(Json<'a>, Checks)>,
    sources: Option<Json<'a>>,
    seq: Option<Offset>,
    instance: Option<&'a str>,
}

impl AppendReader {
    /// Most spellings that are kept: markers, provenance and conditions make several of one client.
    const MOST: usize = 8;
    /// After so many misses a client has a spelling of its own for each append, and one in as many is learned from.
    const REST: usize = 64;

    /// Reads a `session/append` that waits for nothing, and gives it to `carry_out`: the request's id, a JSON text in
    /// ASCII, the place, and the event, which is lossless. None for a line that fits no spelling.
    #[inline(always)] // a candidate is large: it stays where it is made
    pub(super) fn read<'a, T>(
        &mut self,
        line: &'a str,
        scratch: &'a mut Scratch,
        carry_out: impl FnOnce(&'a str, Append<'a>, &Candidate<'a>) -> T,
    ) -> Option<T> {
        let spelling = self.spellings.iter().find(|spelling| spelling.may_be(line))?;
        let values = spelling.read(line, scratch)?;
        let (data, checks) = values.data?;
        if checks.fault.is_some() {
            return None;
        }
        self.misses = 0;
        let mut candidate = Candidate::new(values.kind?, data, checks);
        if spelling.appends {
            candidate.set_surface_op(APPEND, PLAIN);
        }
        if let Some(sources) = values.sources {
            candidate.set_sources(sources, PLAIN);
        }
        if spelling.ignorable {
            candidate.set_ignorable(TRUE);
        }
        let expect = Expect { seq: values.seq };
        let place = Append { session: values.session, instance: values.instance, expect };
        Some(carry_out(values.id, place, &candidate))
    }

    /// Learns from an append that was read member by member, and waited for nothing.
    #[cold]
    pub(super) fn learn(&mut self, line: &str) {
        self.misses += 1;
        if self.misses > Self::REST && !self.misses.is_multiple_of(Self::REST) {
            return;
        }
        let Some(spelling) = Spelling::of(line) else { return };
        if self.spellings.len() == Self::MOST {
            self.spellings.clear();
        }
        let at = self.spellings.partition_point(|other| other.end.len() >= spelling.end.len());
        self.spellings.insert(at, spelling);
    }
}

impl Spelling {
    /// The spelling of a line that is an append; none of one that asks to wait, or that holds more than an append needs.
    fn of(line: &str) -> Option<Self> {
        let mut scratch = Scratch::default();
        let (message, _) = scratch.scan(line).ok()?;
        let (mut values, mut appends, mut ignorable) = (Vec::new(), false, false);
        for (key, value) in message.members() {
            match &*key.lossy() {
                "jsonrpc" | "method" => {}
                "id" => values.push((value.span()?, Slot::Id)),
                "params" => {
                    for (key, value) in value.members() {
                        let slot = match (&*key.lossy(), value.text()) {
                            ("sessionId", _) => Slot::Session,
                            ("type", _) => Slot::Type,
                            ("data", _) => Slot::Data,
                            ("sourceEventSeqs", _) => Slot::Sources,
                            ("expectedSeq" | "instanceId" | "ignorable" | "durable", "null")
                            | ("durable", "false") => continue,
                            ("expectedSeq", _) => Slot::ExpectedSeq,
                            ("instanceId", _) => Slot::Instance,
                            ("surfaceOp", "\"append\"") => {
                                appends = true;
                                continue;
                            }
                            ("ignorable", "true") => {
                                ignorable = true;
                                continue;
                            }
                            _ => return None,
                        };
                        values.push((value.span()?, slot));
                    }
                }
                _ => return None,
            }
        }
        let (mut slots, mut from) = (Vec::new(), 0);
        for (span, slot) in values {
            slots.push((line.get(from..span.start)?.to_owned(), slot));
            from = span.end;
        }
        let last = closing(line.as_bytes().get(from.checked_sub(1)?)?);
        Some(Self { slots, end: line.get(from..)?.to_owned(), last, appends, ignorable })
    }

    /// Whether a line ends as one of this spelling.
    #[inline]
    fn may_be(&self, line: &str) -> bool {
        let before = line.strip_suffix(self.end.as_str()).and_then(|before| before.as_bytes().last());
        before.is_some_and(|last| closing(last) == self.last)
    }

    /// The values of a line of this spelling.
    #[inline(always)]
    fn read<'a>(&self, line: &'a str, scratch: &'a mut Scratch) -> Option<Values<'a>> {
        let (mut rest, mut values, mut scratch) = (LiteralReader::of(line), Values::default(), Some(scratch));
        for (before, slot) in &self.slots {
            rest.take(before)?;
            match slot {
                Slot::Id => {
                    values.id = match rest.integer() {
                        Some(id) => id,
                        None => rest.plain_string()?.text(),
                    }
                }
                Slot::Session => values.session = rest.plain_string()?.plain()?,
                Slot::Type => values.kind = Some(rest.plain_string()?),
                Slot::Data => {
                    let hint =
                        values.kind.map_or_else(|| rest.hint(), |kind| TemplateKey::named(kind.text()));
                    values.data = Some(rest.value(scratch.take()?, hint)?);
                }
                Slot::Sources => values.sources = Some(rest.integers()?),
                Slot::ExpectedSeq => values.seq = Some(Offset::new(rest.integer()?.parse().ok()?)?),
                Slot::Instance => values.instance = Some(rest.plain_string()?.plain()?),
            }
        }
        rest.is_as_long(&self.end).then_some(values) // it ends so: see `may_be`
    }
}

/// What a value ends with, any digit being `0`.
fn closing(last: &u8) -> u8 {
    if last.is_ascii_digit() { b'0' } else { *last }
}
