//! `sourceEventSeqs` with runs written as `[start, end]` pairs (FORMAT 16).
//!
//! Later writers of format version 0 shorten long lists so. Such lists are read and never made here. Memory keeps them as
//! they stand in the file, since a few bytes can stand for the whole log; whoever reads the event is shown the plain list.

use std::borrow::Cow;

use super::event::Event;
use super::seq::Seq;
use crate::json::Json;

/// The member's name with what stands around it in an event's line.
pub(super) const SOURCES: &str = ",\"sourceEventSeqs\":";

/// Cited events as runs from a first to a last seq, both included, in rising order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeqRuns(Vec<(u64, u64)>);

impl SeqRuns {
    /// Reads a list that has pairs, rises and ends before the event `seq`; none for anything else, which is left to the
    /// validator.
    pub fn read(sources: Json<'_>, seq: Seq) -> Option<Self> {
        Self::packed(sources).filter(|runs| runs.0.last().is_some_and(|(_, end)| *end < seq.get()))
    }

    /// The same of a list that has passed.
    fn packed(sources: Json<'_>) -> Option<Self> {
        let inside = sources.text().strip_prefix('[')?;
        memchr::memchr(b'[', inside.as_bytes())?;
        let (mut runs, mut next) = (Vec::new(), 0);
        for element in sources.elements() {
            let (start, end) = match element.as_safe_uint() {
                Some(single) => (single, single),
                None => pair(element)?,
            };
            if start < next || end < start {
                return None;
            }
            runs.push((start, end));
            next = end + 1;
        }
        Some(Self(runs))
    }

    /// Whether a seq is cited.
    pub fn has(&self, seq: Seq) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= seq.get());
        after.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, end)| seq.get() <= *end)
    }

    /// Bytes of the plain list.
    pub fn plain_len(&self) -> u64 {
        let digits: u64 =
            self.0.iter().map(|(start, end)| digits_below(end + 1) - digits_below(*start)).sum();
        let seqs: u64 = self.0.iter().map(|(start, end)| end - start + 1).sum();
        digits + seqs + 1
    }

    fn write_plain(&self, out: &mut String) {
        let mut number = itoa::Buffer::new();
        out.push('[');
        for (at, seq) in self.0.iter().flat_map(|(start, end)| *start..=*end).enumerate() {
            if at > 0 {
                out.push(',');
            }
            out.push_str(number.format(seq));
        }
        out.push(']');
    }
}

/// How many digits the numbers below `end` take together.
fn digits_below(end: u64) -> u64 {
    let (mut sum, mut digits, mut from) = (0, 1, 0);
    while from < end {
        let to = 10_u64.saturating_pow(digits).min(end);
        sum += (to - from) * u64::from(digits);
        (from, digits) = (to, digits + 1);
    }
    sum
}

fn pair(element: Json<'_>) -> Option<(u64, u64)> {
    let mut ends = element.elements().map(Json::as_safe_uint);
    match (ends.next(), ends.next(), ends.next()) {
        (Some(Some(start)), Some(Some(end)), None) => Some((start, end)),
        _ => None,
    }
}

impl<'a> Event<'a> {
    /// The whole event as readers are shown it: its line, with the plain list of the events that it cites.
    #[inline]
    pub fn plain_line(self) -> Cow<'a, str> {
        let after_name = self.tail().strip_prefix(SOURCES);
        match after_name.and_then(|rest| rest.strip_prefix('[')) {
            Some(list) if has_pair(list) => self.unpacked(),
            _ => Cow::Borrowed(self.line()),
        }
    }

    #[cold]
    fn unpacked(self) -> Cow<'a, str> {
        let sources = self.source_event_seqs();
        let Some((sources, runs)) = sources.and_then(|list| Some((list, SeqRuns::packed(list)?))) else {
            return Cow::Borrowed(self.line());
        };
        let (line, tail) = (self.line(), self.tail());
        let before = line.len() - tail.len() + SOURCES.len();
        let mut out = String::with_capacity(line.len() + runs.plain_len() as usize);
        out.push_str(line.get(..before).unwrap_or(""));
        runs.write_plain(&mut out);
        out.push_str(line.get(before + sources.text().len()..).unwrap_or(""));
        Cow::Owned(out)
    }

    /// The plain list of the events that it cites.
    pub fn plain_sources(self) -> Option<Cow<'a, str>> {
        let sources = self.source_event_seqs()?;
        Some(match SeqRuns::packed(sources) {
            None => Cow::Borrowed(sources.text()),
            Some(runs) => {
                let mut out = String::new();
                runs.write_plain(&mut out);
                Cow::Owned(out)
            }
        })
    }
}

/// Whether a pair is in a list whose bracket was passed.
fn has_pair(list: &str) -> bool {
    memchr::memchr2(b'[', b']', list.as_bytes()).is_some_and(|at| list.as_bytes().get(at) == Some(&b'['))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str, seq: u64) -> Option<SeqRuns> {
        let (json, _) = Json::parse(text).ok()?;
        SeqRuns::read(json, Seq::new(seq)?)
    }

    fn plain(runs: &SeqRuns) -> String {
        let mut out = String::new();
        runs.write_plain(&mut out);
        out
    }

    #[test]
    fn pairs_are_read_only_in_rising_lists_of_earlier_events() {
        for (text, list) in [("[1,[3,5],7]", "[1,3,4,5,7]"), ("[[0,2]]", "[0,1,2]"), ("[[8,101]]", "")] {
            let runs = read(text, 102).unwrap();
            assert_eq!(runs.plain_len(), plain(&runs).len() as u64, "{text}");
            assert!(list.is_empty() || plain(&runs) == list, "{text}");
        }
        let refused =
            ["[1,2]", "[]", "5", "[[3,1]]", "[[1,3],2]", "[[1,2,3]]", "[[1]]", "[[1,9]]", "[[1,\"2\"]]"];
        for text in refused {
            assert_eq!(read(text, 9), None, "{text}");
        }
        let all = read("[[0,9007199254740990]]", 9_007_199_254_740_991).unwrap();
        assert!(all.plain_len() > 1 << 56);
        let some = read("[1,[3,5],7]", 9).unwrap();
        let cited: Vec<u64> = (0..9).filter(|seq| some.has(Seq::new(*seq).unwrap())).collect();
        assert_eq!(cited, [1, 3, 4, 5, 7]);
    }
}
