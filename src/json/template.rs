//! Texts that are spelt alike: what they share is compared, and only the rest is scanned.
//!
//! A client writes the events of one type with the same members in the same order, and gives many of them the same
//! value. A [`Form`] is such a text that the scanner has passed, and which of its values differ from text to text. A text
//! that has all else of it, byte for byte, has the same keys, the same depth and no more white space: what is left to
//! check are the values that differ. Any other text is scanned from its start, and the forms learn from it.

use super::compact::has_separator;
use super::scan::{Checks, SPREAD, lossy_number};
use super::tape::{Entry, Outline};
use super::token::Cursor;

/// Most values of a text that may differ: a bit of a word for each.
const MAX_VARYING: usize = 31;
/// Most values of a text that is kept as a form: a bit of a longer word for each.
const MAX_VALUES: usize = 64;
/// Most bytes of such a text. Texts of its form may be longer.
const MAX_BYTES: usize = 2048;

/// Which texts are likely of one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kin(u64);

impl Kin {
    /// Texts that have been given one name.
    #[inline]
    pub fn named(name: &str) -> Self {
        Self::of(name.as_bytes())
    }

    /// Texts that begin alike.
    #[inline]
    pub fn opening(text: &str) -> Self {
        Self::of(text.as_bytes().first_chunk::<16>().map_or(&[], |opening| opening))
    }

    /// Two looks at the first and the last bytes, which are told apart where they differ in these or in their number.
    #[inline(always)]
    fn of(bytes: &[u8]) -> Self {
        let head = bytes.first_chunk().map_or(0, |head| u64::from_le_bytes(*head));
        let tail = bytes.last_chunk().map_or(0, |tail| u64::from_le_bytes(*tail));
        Self(head ^ tail.rotate_left(29) ^ bytes.len() as u64)
    }

    #[inline(always)]
    fn set(self) -> usize {
        (self.0.wrapping_mul(SPREAD) >> (u64::BITS - SETS.ilog2())) as usize
    }
}

/// Forms are looked for in the set of their kin only.
const SETS: usize = 16;
/// Forms in a set, of one kin or of several.
const WAYS: usize = 4;

/// The forms that are known.
#[derive(Default)]
pub(super) struct Forms {
    sets: Vec<Set>,
}

#[derive(Default)]
struct Set {
    kins: [Option<Kin>; WAYS],
    forms: [Form; WAYS],
    /// Where it is looked for a form that a new one takes the place of.
    next: usize,
    /// Texts of no known form, less those of a known one twice.
    misses: u8,
    /// Texts since forms were looked at last.
    rested: u8,
}

impl Forms {
    /// Takes a text of a known form from the front of a longer one: notes its values behind what is noted, and says where it
    /// ends.
    #[inline]
    pub(super) fn read(&mut self, kin: Kin, text: &str, outline: &mut Outline) -> Option<(usize, Checks)> {
        self.sets.get_mut(kin.set())?.read(kin, text, outline)
    }

    /// Learns from a text of no known form, which the scanner has passed with that outline.
    #[cold]
    pub(super) fn learn(&mut self, kin: Kin, text: &str, outline: &[Entry], checks: Checks) {
        let is_small = text.len() <= MAX_BYTES && outline.len() <= MAX_VALUES;
        // A number by itself could be the beginning of a longer one.
        let is_container = text.starts_with(['{', '[']);
        if is_small && is_container && !checks.loose && checks.fault.is_none() && !outline.is_empty() {
            if self.sets.is_empty() {
                self.sets.resize_with(SETS, Set::default);
            }
            if let Some(set) = self.sets.get_mut(kin.set()) {
                set.learn(kin, text, outline, checks.depth);
            }
        }
    }
}

impl Set {
    /// After so many misses it is out of luck: where every text has a form of its own, a look at others is lost.
    const MOST: u8 = 8;
    /// One text in so many is looked at all the same.
    const REST: u8 = 64;

    #[inline]
    fn read(&mut self, kin: Kin, text: &str, outline: &mut Outline) -> Option<(usize, Checks)> {
        if self.misses >= Self::MOST {
            self.rested = (self.rested + 1) % Self::REST;
        }
        if self.is_resting() {
            return None;
        }
        let read = self.of(kin).find_map(|form| form.read(text, outline));
        self.misses = match read {
            Some(_) => self.misses.saturating_sub(2),
            None => (self.misses + 1).min(Self::MOST),
        };
        read
    }

    #[inline(always)]
    fn is_resting(&self) -> bool {
        self.misses >= Self::MOST && self.rested > 0
    }

    #[inline(always)]
    fn of(&mut self, kin: Kin) -> impl Iterator<Item = &mut Form> {
        self.kins.iter().zip(&mut self.forms).filter(move |(own, _)| **own == Some(kin)).map(|(_, form)| form)
    }

    fn learn(&mut self, kin: Kin, text: &str, outline: &[Entry], depth: u32) {
        if self.is_resting() {
            return;
        }
        let alike =
            self.of(kin).find_map(|form| form.differing(text, outline).map(|differs| (form, differs)));
        if let Some((form, differs)) = alike {
            if differs.count_ones() as usize <= MAX_VARYING {
                *form = Form::new(text, outline, differs, depth);
            }
            return;
        }
        // Those that were of use are passed over, once.
        while let Some(form) = self.forms.get_mut(self.next).filter(|form| form.is_of_use) {
            form.is_of_use = false;
            self.next = (self.next + 1) % WAYS;
        }
        if let (Some(own), Some(form)) = (self.kins.get_mut(self.next), self.forms.get_mut(self.next)) {
            (*own, *form) = (Some(kin), Form::new(text, outline, 0, depth));
            self.next = (self.next + 1) % WAYS;
        }
    }
}

/// A text, and which of its values are others in other texts of its form.
#[derive(Default)]
struct Form {
    text: String,
    /// Its outline, in which no varying value is escaped.
    entries: Vec<Entry>,
    varying: Vec<Varying>,
    /// The ends of varying values and of what they are in.
    ends: Vec<End>,
    /// What the scanner has said.
    checks: Checks,
    /// Some text was of this form, since a new one was looked a place for.
    is_of_use: bool,
}

/// A value that differs from text to text: no object or array.
#[derive(Clone, Copy)]
struct Varying {
    start: usize,
    end: usize,
    /// Its place among the values.
    at: usize,
    /// The first value that does not begin as much further on as what is behind this one.
    until: usize,
}

/// The end of a value that moves further than its beginning.
#[derive(Clone, Copy)]
struct End {
    /// The value's place among all.
    at: usize,
    end: u32,
    /// How many varying values end before it, or there.
    behind: usize,
}

impl Form {
    /// The form of a text in which values differ, a bit for each.
    fn new(text: &str, outline: &[Entry], differs: u64, depth: u32) -> Self {
        let (mut entries, mut varying) = (outline.to_vec(), Vec::<Varying>::new());
        let count = entries.len();
        for (at, entry) in entries.iter_mut().enumerate().filter(|(at, _)| differs >> at & 1 != 0) {
            if let Some(last) = varying.last_mut() {
                last.until = at + 1;
            }
            varying.push(Varying { start: entry.start as usize, end: entry.end as usize, at, until: count });
            *entry = entry.straight();
        }
        let ends = entries.iter().enumerate().filter_map(|(at, entry)| {
            let before = varying.partition_point(|one| one.end <= entry.start as usize);
            let behind = varying.partition_point(|one| one.end <= entry.end as usize);
            (before < behind).then_some(End { at, end: entry.end, behind })
        });
        let ends = ends.collect();
        let checks = Checks { depth, ..Checks::default() };
        Self { text: text.to_owned(), entries, varying, ends, checks, is_of_use: false }
    }

    /// Takes a text of this form from the front of a longer one.
    #[inline]
    fn read(&mut self, text: &str, outline: &mut Outline) -> Option<(usize, Checks)> {
        let mut at = Cursor::new(text);
        // How far on the text is behind each varying value; the first is for what comes before all.
        let mut shifts = [0; MAX_VARYING + 1];
        // Which of these hold an escape, the last one's bit being the lowest.
        let mut bent: u32 = 0;
        let mut from = 0;
        for (varying, shift) in self.varying.iter().zip(shifts.get_mut(1..).unwrap_or_default()) {
            at.literal(self.text.get(from..varying.start)?).ok()?;
            bent = bent << 1 | u32::from(take_scalar(text, &mut at)?);
            from = varying.end;
            *shift = (at.pos as u32).wrapping_sub(from as u32);
        }
        at.literal(self.text.get(from..)?).ok()?;
        self.is_of_use = true;
        let first = outline.append(&self.entries);
        // Values between two varying ones move alike, and the second's beginning with them.
        for (varying, shift) in self.varying.iter().zip(shifts.get(1..).unwrap_or_default()) {
            if *shift != 0 {
                outline.shift(first + varying.at + 1..first + varying.until, *shift);
            }
        }
        for End { at, end, behind } in &self.ends {
            outline.end_at(first + at, end.wrapping_add(shifts.get(*behind).copied().unwrap_or(0)));
        }
        if bent != 0 {
            for (place, varying) in self.varying.iter().rev().enumerate() {
                if bent >> place & 1 != 0 {
                    outline.bend(first + varying.at);
                }
            }
        }
        // There is no separator in the form itself.
        let loose = !at.is_ascii() && has_separator(text.get(..at.pos)?);
        Some((at.pos, Checks { loose, ..self.checks }))
    }

    /// The values that differ in a text of this form and in those that it was learnt from, a bit for each.
    fn differing(&self, text: &str, outline: &[Entry]) -> Option<u64> {
        fn part(text: &str, start: u32, end: u32) -> &[u8] {
            text.as_bytes().get(start as usize..end as usize).unwrap_or(&[])
        }
        if self.entries.len() != outline.len() {
            return None;
        }
        let mut differs = self.varying.iter().fold(0, |bits, varying| bits | 1 << varying.at);
        for (at, (own, new)) in self.entries.iter().zip(outline).enumerate() {
            let key = part(&self.text, own.key, own.key_end);
            if own.inside() != new.inside() || key != part(text, new.key, new.key_end) {
                return None;
            }
            match [part(&self.text, own.start, own.end), part(text, new.start, new.end)] {
                [[b'{', ..], [b'{', ..]] | [[b'[', ..], [b'[', ..]] => {}
                [[b'{' | b'[', ..], _] | [_, [b'{' | b'[', ..]] => return None,
                [own, new] => differs |= u64::from(own != new) << at,
            }
        }
        Some(differs)
    }
}

/// Takes a string, a number that may be kept or a literal; says whether an escape is in it.
#[inline(always)]
fn take_scalar(text: &str, at: &mut Cursor<'_>) -> Option<bool> {
    let start = at.pos;
    match at.peek() {
        b'"' => return at.string().ok(),
        b'-' | b'0'..=b'9' => {
            if at.number().ok()? && lossy_number(text.get(start..at.pos)?).is_some() {
                return None;
            }
        }
        b't' => at.literal("true").ok()?,
        b'f' => at.literal("false").ok()?,
        _ => at.literal("null").ok()?,
    }
    Some(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::{Json, Scratch};

    /// All that a scan says of a text.
    fn said(scanned: Option<(Json<'_>, Checks)>) -> Option<(String, Checks, Vec<[u32; 5]>)> {
        scanned.map(|(value, checks)| {
            let entries = value.outline().iter().map(Entry::numbers).collect();
            (value.text().to_owned(), checks, entries)
        })
    }

    /// Scans a text as one of its kin, and as if it were the first; whether it was of a known form.
    fn scan_both(scratch: &mut Scratch, kin: Kin, text: &str) -> bool {
        let is_known = scratch
            .forms()
            .read(kin, text, &mut Outline::default())
            .is_some_and(|(end, _)| end == text.len());
        let expected = said(Scratch::default().scan(text).ok());
        assert_eq!(said(scratch.scan_alike(text, kin).ok()), expected, "{text}");
        let follow = format!("{text},1]");
        let mut fresh = Scratch::default();
        let (first, expected) = (scratch.note_first(&follow, kin), fresh.note_first(&follow, kin));
        assert_eq!(first, expected, "{follow}");
        if let Some((end, checks)) = first {
            let noted = |scratch: &Scratch| said(scratch.noted(&follow[..end]).map(|value| (value, checks)));
            assert_eq!(noted(scratch), noted(&fresh), "{follow}");
        }
        is_known
    }

    #[test]
    fn texts_of_one_form_are_known_from_the_third_on() {
        let (mut scratch, kin) = (Scratch::default(), Kin::named("message"));
        let text = |n: usize| {
            format!(
                r#"{{"id":"m{n}","on":true,"in":[{{"text":"{}","n":{n}}},[]],"é":{{}}}}"#,
                "x\\n".repeat(n)
            )
        };
        let known: Vec<bool> = (0..6).map(|n| scan_both(&mut scratch, kin, &text(n))).collect();
        assert_eq!(known, [false, false, true, true, true, true]);
        // What has not differed before.
        for (from, to) in [
            ("true", "null"),
            ("é", "e"),
            ("[]", "[1]"),
            ("{}", " {}"),
            ("\"id", "\"on"),
            ("\"n\":7", "\"n\":-0"),
        ] {
            assert!(!scan_both(&mut scratch, kin, &text(7).replace(from, to)), "{to}");
            assert!(scan_both(&mut scratch, kin, &text(8)), "{to}");
        }
        assert!(!scan_both(&mut scratch, kin, &text(8)[1..]));
    }

    #[test]
    fn forms_of_one_kin_stand_side_by_side() {
        let (mut scratch, kin) = (Scratch::default(), Kin::opening("{\"type\":\"tool/call\",\"seq\":1}"));
        let texts =
            |n: usize| [format!("{{\"a\":{n}}}"), format!("{{\"a\":[{n}]}}"), format!("[{n},\"{n}\"]")];
        for n in 0..4 {
            for text in texts(n) {
                assert_eq!(scan_both(&mut scratch, kin, &text), n >= 2, "{text}");
            }
        }
    }

    #[test]
    fn texts_of_ever_new_forms_are_seldom_learnt_from() {
        let (mut scratch, kin) = (Scratch::default(), Kin::named("any"));
        let mut learnt = std::collections::BTreeSet::new();
        for n in 0..200 {
            scratch.scan_alike(&format!("{{\"key{n}\":1}}"), kin).unwrap();
            let forms = scratch.forms().sets[kin.set()].forms.iter().map(|form| form.text.clone());
            learnt.extend(forms.filter(|text| !text.is_empty()));
        }
        assert_eq!(learnt.len(), 8 + 200 / usize::from(Set::REST));
    }

    fn value() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("true".to_owned()),
            Just("null".to_owned()),
            Just("-0".to_owned()),
            Just("1e400".to_owned()),
            Just("-0.5".to_owned()),
            "[0-9]{1,20}",
            "\"[a-z\u{e9}\u{2028}]{0,70}\"",
            "\"(\\\\n|\\\\u00e9|x){0,9}\"",
        ];
        scalar.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(("[a-c]{1,2}", inner), 0..4).prop_map(|members| {
                    let members: Vec<String> =
                        members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        /// Texts of few forms, with other values, torn, and with single bytes changed.
        #[test]
        fn a_text_scanned_alike_is_scanned_as_if_it_were_the_first(
            frames in prop::collection::vec(prop::collection::vec(value(), 1..4), 1..3),
            turns in prop::collection::vec(
                (any::<prop::sample::Index>(), any::<prop::sample::Index>(), value(), any::<prop::sample::Index>(), any::<u8>(), 0..8u8), 1..60),
        ) {
            let mut scratch = Scratch::default();
            for (frame, place, new, byte, with, how) in turns {
                let mut parts = frames[frame.index(frames.len())].clone();
                let place = place.index(parts.len());
                parts[place] = new;
                let mut text = format!("{{\"a\":[{}],\"b\":\"\"}}", parts.join(",")).into_bytes();
                let at = byte.index(text.len());
                match how {
                    0 => text[at] = with,
                    1 => text.truncate(at),
                    _ => {}
                }
                if let Ok(text) = std::str::from_utf8(&text) {
                    scan_both(&mut scratch, Kin::named("kin"), text);
                }
            }
        }
    }
}
