//! The strict one-pass scanner.
//!
//! It checks the JSON grammar (RFC 8259) over text that is already known to be UTF-8, and notes on
//! the way what a store must refuse or rewrite: lossy numbers and duplicate keys, depth, white space
//! between tokens and raw line separators. The JSON Pointer of a fault is not built here; that is
//! [`super::pointer_at`], which runs only on refused text.

use super::compact::has_separator;
use super::fault::{FaultAt, FaultKind, SyntaxError};
use super::nesting::{ARRAY, FAR, Frame, Nesting, OUTSIDE};
use super::string::JsonStr;
use super::tape::{Escapes, KeySpan, Node, Tape};
use super::template::{TemplateCache, TemplateKey};
use super::text::Json;
use super::token::{Cursor, Refused, print};

/// What a scanned value needs before it may be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// The first `-0`, number beyond a double's range or duplicate key, as far as the scan saw it. Keys more than 16,384
    /// levels inside are not compared.
    pub fault: Option<FaultAt>,
    /// Holds white space between tokens, or a raw U+0085, U+2028 or U+2029.
    pub needs_compaction: bool,
    /// Nesting: 1 for a scalar or a flat container.
    pub depth: u32,
}

/// Buffers that scans reuse, so that a scan allocates nothing in the steady state.
#[derive(Default)]
pub struct Scratch {
    frames: Nesting,
    /// The keys of the open objects, where there is no tape to find them in.
    keys: Vec<KeySpan>,
    tape: Tape,
    /// How the texts before were spelt.
    templates: TemplateCache,
}

impl Scratch {
    /// Gives back memory that one extreme text has claimed.
    pub fn trim(&mut self) {
        const KEEP: usize = 1 << 14;
        self.frames.trim();
        if self.keys.capacity() > KEEP {
            self.keys = Vec::new();
        }
        self.tape.trim(KEEP);
    }

    /// Scans a whole text, which must be shorter than 4 GiB: one value with nothing but white space around it.
    ///
    /// The value knows where its members stand, so that walking it does not read the text again.
    pub fn scan<'a>(&'a mut self, text: &'a str) -> Result<(Json<'a>, Checks), SyntaxError> {
        let (value, checks) = self.check(text)?;
        Ok((Json::taped(text, self.tape.whole()).unwrap_or(value), checks))
    }

    /// The same for a text that is likely spelt as others with its hint: where it is, that costs less.
    pub fn scan_with_hint<'a>(
        &'a mut self,
        text: &'a str,
        hint: TemplateKey,
    ) -> Result<(Json<'a>, Checks), SyntaxError> {
        self.tape.clear();
        let (value, checks) = match self.templates.read(hint, text, &mut self.tape) {
            Some((end, checks)) if end == text.len() => (Json::NULL, checks),
            _ => self.scan_and_learn(text, hint)?,
        };
        Ok((Json::taped(text, self.tape.whole()).unwrap_or(value), checks))
    }

    /// The same, with the tape behind others; none of a text with more values than one notes.
    pub(super) fn scan_behind(&mut self, text: &str, hint: TemplateKey, tapes: &mut Tape) -> Option<Checks> {
        let before = tapes.next() as usize;
        match self.templates.read(hint, text, tapes) {
            Some((end, checks)) if end == text.len() => return Some(checks),
            Some(_) => tapes.truncate(before),
            None => {}
        }
        let (_, checks) = self.scan_and_learn(text, hint).ok()?;
        tapes.append(self.tape.whole());
        Some(checks)
    }

    fn scan_and_learn<'a>(
        &mut self,
        text: &'a str,
        hint: TemplateKey,
    ) -> Result<(Json<'a>, Checks), SyntaxError> {
        let (value, checks) = self.check(text)?;
        if value.text().len() == text.len() {
            self.templates.learn(hint, text, self.tape.whole(), checks);
        }
        Ok((value, checks))
    }

    /// Takes the value at the front of a text that is likely spelt as others with its hint, and says where it ends. `None` if
    /// no value stands there, or if the value holds more values than a tape notes.
    #[inline]
    pub(super) fn note_first(&mut self, text: &str, hint: TemplateKey) -> Option<(usize, Checks)> {
        self.tape.clear();
        if let Some(read) = self.templates.read(hint, text, &mut self.tape) {
            return Some(read);
        }
        let (end, checks) = self.scan_first(text)?;
        self.templates.learn(hint, text.get(..end)?, self.tape.whole(), checks);
        Some((end, checks))
    }

    #[inline(never)]
    fn scan_first(&mut self, text: &str) -> Option<(usize, Checks)> {
        let mut at = Cursor::new(text);
        let mut scanner = Scanner::new(text, self);
        scanner.begin();
        scanner.nested::<true>(&mut at).ok()?;
        Some((at.pos, scanner.checks(&at, text.get(..at.pos)?)))
    }

    #[cfg(test)]
    pub(super) fn templates(&mut self) -> &mut TemplateCache {
        &mut self.templates
    }

    /// The value that was scanned last, which is the whole text.
    pub(super) fn noted<'a>(&'a self, text: &'a str) -> Option<Json<'a>> {
        Json::taped(text, self.tape.whole())
    }

    /// The same without the members' places, for a value that outlives these buffers.
    pub(super) fn check<'a>(&mut self, text: &'a str) -> Result<(Json<'a>, Checks), SyntaxError> {
        match Scanner::new(text, self).whole::<true>() {
            // It was given up there: a text with more values is read without a tape, from its start.
            Err(_) if self.tape.is_full() => Scanner::new(text, self).whole::<false>(),
            result => result,
        }
    }
}

/// Up to this many keys are compared pairwise; larger objects are sorted once, at their end.
const PAIRWISE_KEYS: usize = 24;
/// A number times this has its differences in the high bits (2^64 over the golden ratio).
pub(super) const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Reads one text from left to right.
struct Scanner<'a, 's> {
    text: &'a str,
    /// Where the value began: faults are told from there.
    origin: usize,
    fault: Option<FaultAt>,
    depth: u32,
    scratch: &'s mut Scratch,
}

impl<'a, 's> Scanner<'a, 's> {
    fn new(text: &'a str, scratch: &'s mut Scratch) -> Self {
        Self { text, origin: 0, fault: None, depth: 1, scratch }
    }

    fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or("")
    }

    /// Takes the text as one value, and says what it needs.
    fn whole<const TAPE: bool>(mut self) -> Result<(Json<'a>, Checks), SyntaxError> {
        self.begin();
        let mut at = Cursor::new(self.text);
        at.space();
        at.spaced = false; // around the value it does not count
        self.origin = at.pos;
        let result = self.nested::<TAPE>(&mut at);
        let seen = at;
        if result.is_ok() {
            at.space();
        }
        if result.is_err() || at.pos != self.text.len() {
            return Err(SyntaxError { offset: at.pos });
        }
        let text = self.slice(self.origin, seen.pos);
        Ok((Json::from_verified(text), self.checks(&seen, text)))
    }

    fn begin(&mut self) {
        self.scratch.frames.clear();
        self.scratch.keys.clear();
        self.scratch.tape.clear();
    }

    /// What was found in the text of a value, whose end the cursor stands at.
    fn checks(&self, end: &Cursor<'_>, text: &str) -> Checks {
        let needs_compaction = end.spaced || (!end.is_ascii() && has_separator(text));
        Checks { fault: self.fault, needs_compaction, depth: self.depth }
    }

    /// Takes a value with all that is in it. The cursor is the caller's own, so that it stays in registers.
    #[inline(always)]
    fn nested<const TAPE: bool>(&mut self, at: &mut Cursor<'a>) -> Result<(), Refused> {
        let mut frame = Frame::AROUND;
        let mut key = KeySpan::default();
        'value: loop {
            let start = at.pos;
            let mut escapes = Escapes::NONE;
            let first = at.peek();
            if first == b'"' {
                if at.string()? {
                    escapes = Escapes::IN_VALUE;
                }
            } else {
                match first {
                    b'{' | b'[' => {
                        at.pos += 1;
                        if !at.accept_spaced(first + 2) {
                            self.open::<TAPE>(frame)?;
                            self.depth = self.depth.max(self.scratch.frames.len::<TAPE>() as u32);
                            if TAPE {
                                self.scratch.tape.push(Node::new(key, start, start, escapes))?;
                            }
                            frame = self.frame::<TAPE>(first);
                            key = self.next_key::<TAPE>(at, &mut frame)?;
                            continue 'value;
                        }
                        self.note_leaf::<TAPE>();
                    }
                    b'-' | b'0'..=b'9' => {
                        if at.number()? {
                            self.note_number(start, at.pos);
                        }
                    }
                    b't' => at.literal("true")?,
                    b'f' => at.literal("false")?,
                    b'n' => at.literal("null")?,
                    b' ' | b'\t' | b'\r' | b'\n' => {
                        at.space();
                        continue 'value;
                    }
                    _ => return Err(Refused),
                }
            }
            if TAPE {
                self.scratch.tape.push(Node::new(key, start, at.pos, escapes))?;
            }
            // A value is complete: go on in, or close, the containers around it.
            loop {
                if frame.keys == OUTSIDE {
                    return Ok(());
                }
                if at.accept_spaced(b',') {
                    key = self.next_key::<TAPE>(at, &mut frame)?;
                    continue 'value;
                }
                if frame.keys == ARRAY {
                    at.take(b']')?;
                } else {
                    at.take(b'}')?;
                    self.close_keys::<TAPE>(&frame);
                }
                if TAPE {
                    self.scratch.tape.close(frame.inside, at.pos);
                }
                frame = self.scratch.frames.pop::<TAPE>();
            }
        }
    }

    /// Goes into a container in that frame. One that is far inside ends a tape, as too many values do.
    #[inline(always)]
    fn open<const TAPE: bool>(&mut self, around: Frame) -> Result<(), Refused> {
        if !self.scratch.frames.push(around) {
            if TAPE {
                return Err(self.scratch.tape.give_up());
            }
            self.scratch.frames.push_far(around.keys == ARRAY);
        }
        Ok(())
    }

    /// The frame of a container that begins here.
    #[inline(always)]
    fn frame<const TAPE: bool>(&self, open: u8) -> Frame {
        let inside = if TAPE { self.scratch.tape.next() } else { self.scratch.keys.len() as u32 };
        let keys = match open {
            b'[' => ARRAY,
            _ if !TAPE && self.scratch.frames.is_deep() => FAR,
            _ => 0,
        };
        Frame { inside, keys, bits: 0 }
    }

    /// An empty container nests as deep as one with a scalar in it.
    #[inline(always)]
    fn note_leaf<const TAPE: bool>(&mut self) {
        self.depth = self.depth.max(self.scratch.frames.len::<TAPE>() as u32 + 1);
    }

    /// Takes the key and the colon before an object's next value; an array's has none.
    #[inline(always)]
    fn next_key<const TAPE: bool>(
        &mut self,
        at: &mut Cursor<'a>,
        frame: &mut Frame,
    ) -> Result<KeySpan, Refused> {
        if frame.keys == ARRAY {
            return Ok(KeySpan::default());
        }
        if !at.accept_spaced(b'"') {
            return Err(Refused);
        }
        let start = at.pos - 1;
        let plain = at.rest_of_key()?;
        let mut key = KeySpan { start: start as u32, end: at.pos as u32, escapes: Escapes::NONE };
        let print = match plain {
            Some(print) => print,
            None => {
                key.escapes = Escapes::IN_KEY;
                self.escaped_key_print(key)
            }
        };
        self.note_key::<TAPE>(print, key, frame);
        if at.accept_spaced(b':') { Ok(key) } else { Err(Refused) }
    }

    /// Notes a key of the innermost object.
    #[inline(always)]
    fn note_key<const TAPE: bool>(&mut self, print: u64, key: KeySpan, object: &mut Frame) {
        if !TAPE && object.keys == FAR {
            return;
        }
        let bit = 1 << (print.wrapping_mul(SPREAD) >> (u64::BITS - 6));
        if object.bits & bit != 0 {
            self.compare_keys::<TAPE>(key, object);
        }
        object.bits |= bit;
        object.keys += 1;
        if !TAPE {
            self.scratch.keys.push(key);
        }
    }

    /// The keys of the innermost object so far, with where they begin.
    fn keys<const TAPE: bool>(&self, object: &Frame) -> impl Iterator<Item = (JsonStr<'a>, u32)> {
        let listed = self.scratch.keys.get(object.inside as usize..).filter(|_| !TAPE).unwrap_or(&[]);
        let taped = TAPE.then(|| self.scratch.tape.keys_from(object.inside)).into_iter().flatten();
        listed.iter().copied().chain(taped).map(|key| (self.key_text(key), key.start))
    }

    /// The print of a key is the same for every spelling of it.
    #[cold]
    fn escaped_key_print(&self, span: KeySpan) -> u64 {
        let decoded = JsonStr::from_verified(self.slice(span.start as usize, span.end as usize)).wtf8();
        print(&decoded)
    }

    #[cold]
    fn compare_keys<const TAPE: bool>(&mut self, key: KeySpan, object: &Frame) {
        let name = self.key_text(key);
        if (object.keys as usize) < PAIRWISE_KEYS && self.keys::<TAPE>(object).any(|(other, _)| other == name)
        {
            self.note_fault(FaultKind::DuplicateKey, key.start as usize);
        }
    }

    fn key_text(&self, key: KeySpan) -> JsonStr<'a> {
        JsonStr::from_scan(self.slice(key.start as usize, key.end as usize), key.escapes.is_in_key())
    }

    #[inline]
    fn close_keys<const TAPE: bool>(&mut self, object: &Frame) {
        if !TAPE && object.keys == FAR {
            return;
        }
        if object.keys as usize > PAIRWISE_KEYS {
            self.compare_many_keys::<TAPE>(object);
        }
        if !TAPE {
            self.scratch.keys.truncate(object.inside as usize);
        }
    }

    #[cold]
    fn compare_many_keys<const TAPE: bool>(&mut self, object: &Frame) {
        let mut names: Vec<_> = self.keys::<TAPE>(object).map(|(name, start)| (name.wtf8(), start)).collect();
        names.sort_unstable();
        let twice = names.windows(2).find_map(|pair| match pair {
            [a, b] if a.0 == b.0 => Some(b.1 as usize),
            _ => None,
        });
        if let Some(at) = twice {
            self.note_fault(FaultKind::DuplicateKey, at);
        }
    }

    #[cold]
    fn note_number(&mut self, start: usize, end: usize) {
        if let Some(kind) = lossy_number(self.slice(start, end)) {
            self.note_fault(kind, start);
        }
    }

    /// Notes a fault at `at`, a byte of the whole text; only the first one is kept.
    fn note_fault(&mut self, kind: FaultKind, at: usize) {
        let offset = at - self.origin;
        self.fault.get_or_insert(FaultAt { kind, offset });
    }
}

/// Whether a number's text rounds to `-0` or to an infinity (FORMAT 1).
pub(super) fn lossy_number(text: &str) -> Option<FaultKind> {
    match text.parse::<f64>() {
        Ok(value) if value == 0.0 && value.is_sign_negative() => Some(FaultKind::NegativeZero),
        Ok(value) if value.is_finite() => None,
        _ => Some(FaultKind::Overflow),
    }
}
