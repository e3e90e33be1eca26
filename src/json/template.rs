//! Texts that are spelt alike: what they share is compared, and only the rest is scanned.
//!
//! A client writes the events of one type with the same members in the same order, and gives many of them the same
//! value. A [`Template`] is such a text that the scanner has passed, and which of its values differ from text to text. A text
//! that has all else of it, byte for byte, has the same keys, the same depth and no more white space: what is left to
//! check are the values that differ. Any other text is scanned from its start, and the templates learn from it.

use super::compact::has_separator;
use super::scan::{Checks, SPREAD, lossy_number};
use super::tape::{Node, Tape};
use super::token::Cursor;

/// Most values of a text that may differ: a bit of a word for each.
const MAX_VARYING: usize = 31;
/// Most values of a text that is kept as a template: a bit of a longer word for each.
const MAX_VALUES: usize = 64;
/// Most bytes of such a text. Texts of its template may be longer.
const MAX_BYTES: usize = 2048;

/// Which texts are likely of one template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateKey(u64);

impl TemplateKey {
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

/// Templates are looked for in the set of their key only.
const SETS: usize = 16;
/// Templates in a set, of one key or of several.
const WAYS: usize = 4;

/// The templates that are known.
#[derive(Default)]
pub(super) struct TemplateCache {
    sets: Vec<Set>,
}

#[derive(Default)]
struct Set {
    keys: [Option<TemplateKey>; WAYS],
    templates: [Template; WAYS],
    /// Where it is looked for a template that a new one takes the place of.
    next: usize,
    /// Texts of no known template, less those of a known one twice.
    misses: u8,
    /// Texts since templates were looked at last.
    rested: u8,
}

impl TemplateCache {
    /// Takes a text of a known template from the front of a longer one: notes its values behind what is noted, and says where it
    /// ends.
    #[inline]
    pub(super) fn read(&mut self, key: TemplateKey, text: &str, tape: &mut Tape) -> Option<(usize, Checks)> {
        self.sets.get_mut(key.set())?.read(key, text, tape)
    }

    /// Learns from a text of no known template, which the scanner has passed with that tape.
    #[cold]
    pub(super) fn learn(&mut self, key: TemplateKey, text: &str, tape: &[Node], checks: Checks) {
        let is_small = text.len() <= MAX_BYTES && tape.len() <= MAX_VALUES;
        // A number by itself could be the beginning of a longer one.
        let is_container = text.starts_with(['{', '[']);
        if is_small && is_container && !checks.needs_compaction && checks.fault.is_none() && !tape.is_empty()
        {
            if self.sets.is_empty() {
                self.sets.resize_with(SETS, Set::default);
            }
            if let Some(set) = self.sets.get_mut(key.set()) {
                set.learn(key, text, tape, checks.depth);
            }
        }
    }
}

impl Set {
    /// After so many misses it is out of luck: where every text has a template of its own, a look at others is lost.
    const MOST: u8 = 8;
    /// One text in so many is looked at all the same.
    const REST: u8 = 64;

    #[inline]
    fn read(&mut self, key: TemplateKey, text: &str, tape: &mut Tape) -> Option<(usize, Checks)> {
        if self.misses >= Self::MOST {
            self.rested = (self.rested + 1) % Self::REST;
        }
        if self.is_resting() {
            return None;
        }
        let read = self.of(key).find_map(|template| template.read(text, tape));
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
    fn of(&mut self, key: TemplateKey) -> impl Iterator<Item = &mut Template> {
        self.keys
            .iter()
            .zip(&mut self.templates)
            .filter(move |(own, _)| **own == Some(key))
            .map(|(_, template)| template)
    }

    fn learn(&mut self, key: TemplateKey, text: &str, tape: &[Node], depth: u32) {
        if self.is_resting() {
            return;
        }
        let alike = self
            .of(key)
            .find_map(|template| template.differing(text, tape).map(|differs| (template, differs)));
        if let Some((template, differs)) = alike {
            if differs.count_ones() as usize <= MAX_VARYING {
                *template = Template::new(text, tape, differs, depth);
            }
            return;
        }
        // Those that were of use are passed over, once.
        while let Some(template) = self.templates.get_mut(self.next).filter(|template| template.is_of_use) {
            template.is_of_use = false;
            self.next = (self.next + 1) % WAYS;
        }
        if let (Some(own), Some(template)) = (self.keys.get_mut(self.next), self.templates.get_mut(self.next))
        {
            (*own, *template) = (Some(key), Template::new(text, tape, 0, depth));
            self.next = (self.next + 1) % WAYS;
        }
    }
}

/// A text, and which of its values are others in other texts of its template.
#[derive(Default)]
struct Template {
    text: String,
    /// Its tape, in which no varying value is escaped.
    nodes: Vec<Node>,
    varying: Vec<Varying>,
    /// The ends of varying values and of what they are in.
    ends: Vec<End>,
    /// What the scanner has said.
    checks: Checks,
    /// Some text was of this template, since a new one was looked a place for.
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

impl Template {
    /// The template of a text in which values differ, a bit for each.
    fn new(text: &str, tape: &[Node], differs: u64, depth: u32) -> Self {
        let (mut nodes, mut varying) = (tape.to_vec(), Vec::<Varying>::new());
        let count = nodes.len();
        for (at, node) in nodes.iter_mut().enumerate().filter(|(at, _)| differs >> at & 1 != 0) {
            if let Some(last) = varying.last_mut() {
                last.until = at + 1;
            }
            varying.push(Varying { start: node.start as usize, end: node.end as usize, at, until: count });
            *node = node.straight();
        }
        let ends = nodes.iter().enumerate().filter_map(|(at, node)| {
            let before = varying.partition_point(|one| one.end <= node.start as usize);
            let behind = varying.partition_point(|one| one.end <= node.end as usize);
            (before < behind).then_some(End { at, end: node.end, behind })
        });
        let ends = ends.collect();
        let checks = Checks { depth, ..Checks::default() };
        Self { text: text.to_owned(), nodes, varying, ends, checks, is_of_use: false }
    }

    /// Takes a text of this template from the front of a longer one.
    #[inline]
    fn read(&mut self, text: &str, tape: &mut Tape) -> Option<(usize, Checks)> {
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
        let first = tape.append(&self.nodes);
        // Values between two varying ones move alike, and the second's beginning with them.
        for (varying, shift) in self.varying.iter().zip(shifts.get(1..).unwrap_or_default()) {
            if *shift != 0 {
                tape.shift(first + varying.at + 1..first + varying.until, *shift);
            }
        }
        for End { at, end, behind } in &self.ends {
            tape.end_at(first + at, end.wrapping_add(shifts.get(*behind).copied().unwrap_or(0)));
        }
        if bent != 0 {
            for (place, varying) in self.varying.iter().rev().enumerate() {
                if bent >> place & 1 != 0 {
                    tape.bend(first + varying.at);
                }
            }
        }
        // There is no separator in the template itself.
        let needs_compaction = !at.is_ascii() && has_separator(text.get(..at.pos)?);
        Some((at.pos, Checks { needs_compaction, ..self.checks }))
    }

    /// The values that differ in a text of this template and in those that it was learnt from, a bit for each.
    fn differing(&self, text: &str, tape: &[Node]) -> Option<u64> {
        fn part(text: &str, start: u32, end: u32) -> &[u8] {
            text.as_bytes().get(start as usize..end as usize).unwrap_or(&[])
        }
        if self.nodes.len() != tape.len() {
            return None;
        }
        let mut differs = self.varying.iter().fold(0, |bits, varying| bits | 1 << varying.at);
        for (at, (own, new)) in self.nodes.iter().zip(tape).enumerate() {
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
            let nodes = value.tape().iter().map(Node::numbers).collect();
            (value.text().to_owned(), checks, nodes)
        })
    }

    /// Scans a text with its hint, and as if it were the first; whether it was of a known template.
    fn scan_both(scratch: &mut Scratch, key: TemplateKey, text: &str) -> bool {
        let is_known = scratch
            .templates()
            .read(key, text, &mut Tape::default())
            .is_some_and(|(end, _)| end == text.len());
        let expected = said(Scratch::default().scan(text).ok());
        assert_eq!(said(scratch.scan_with_hint(text, key).ok()), expected, "{text}");
        let follow = format!("{text},1]");
        let mut fresh = Scratch::default();
        let (first, expected) = (scratch.note_first(&follow, key), fresh.note_first(&follow, key));
        assert_eq!(first, expected, "{follow}");
        if let Some((end, checks)) = first {
            let noted = |scratch: &Scratch| said(scratch.noted(&follow[..end]).map(|value| (value, checks)));
            assert_eq!(noted(scratch), noted(&fresh), "{follow}");
        }
        is_known
    }

    #[test]
    fn texts_of_one_template_are_known_from_the_third_on() {
        let (mut scratch, key) = (Scratch::default(), TemplateKey::named("message"));
        let text = |n: usize| {
            format!(
                r#"{{"id":"m{n}","on":true,"in":[{{"text":"{}","n":{n}}},[]],"é":{{}}}}"#,
                "x\\n".repeat(n)
            )
        };
        let known: Vec<bool> = (0..6).map(|n| scan_both(&mut scratch, key, &text(n))).collect();
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
            assert!(!scan_both(&mut scratch, key, &text(7).replace(from, to)), "{to}");
            assert!(scan_both(&mut scratch, key, &text(8)), "{to}");
        }
        assert!(!scan_both(&mut scratch, key, &text(8)[1..]));
    }

    #[test]
    fn templates_of_one_key_stand_side_by_side() {
        let (mut scratch, key) =
            (Scratch::default(), TemplateKey::opening("{\"type\":\"tool/call\",\"seq\":1}"));
        let texts =
            |n: usize| [format!("{{\"a\":{n}}}"), format!("{{\"a\":[{n}]}}"), format!("[{n},\"{n}\"]")];
        for n in 0..4 {
            for text in texts(n) {
                assert_eq!(scan_both(&mut scratch, key, &text), n >= 2, "{text}");
            }
        }
    }

    #[test]
    fn texts_of_ever_new_templates_are_seldom_learnt_from() {
        let (mut scratch, key) = (Scratch::default(), TemplateKey::named("any"));
        let mut learnt = std::collections::BTreeSet::new();
        for n in 0..200 {
            scratch.scan_with_hint(&format!("{{\"key{n}\":1}}"), key).unwrap();
            let templates =
                scratch.templates().sets[key.set()].templates.iter().map(|template| template.text.clone());
            learnt.extend(templates.filter(|text| !text.is_empty()));
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

        /// Texts of few templates, with other values, torn, and with single bytes changed.
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
                    scan_both(&mut scratch, TemplateKey::named("key"), text);
                }
            }
        }
    }
}
