//! The strict one-pass scanner.
//!
//! It checks the JSON grammar (RFC 8259) over text that is already known to be UTF-8, and notes on
//! the way what a store must refuse or rewrite: lossy numbers and duplicate keys, depth, white space
//! between tokens and raw line separators. The JSON Pointer of a fault is not built here; that is
//! [`super::pointer_at`], which runs only on refused text.

use super::fault::{FaultAt, FaultKind, SyntaxError};
use super::string::JsonStr;
use super::text::Json;

/// A half-open byte range of the scanned text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// What a scanned value needs before it may be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// The first `-0`, number beyond a double's range or duplicate key, as far as the scan saw it.
    pub fault: Option<FaultAt>,
    /// Holds white space between tokens, or a raw U+0085, U+2028 or U+2029.
    pub loose: bool,
    /// Nesting: 1 for a scalar or a flat container.
    pub depth: u32,
}

#[derive(Clone, Copy)]
struct Key {
    /// The first bytes and the length, mixed: unequal prints mean unequal keys (without escapes).
    print: u64,
    start: u32,
    end: u32,
    escaped: bool,
}

/// Buffers that scans reuse, so that a scan allocates nothing in the steady state.
#[derive(Default)]
pub struct Scratch {
    /// One entry per open container: where its keys begin, or [`ARRAY`].
    frames: Vec<u32>,
    keys: Vec<Key>,
}

impl Scratch {
    /// Gives back memory that one extreme line has claimed.
    pub fn trim(&mut self) {
        const KEEP: usize = 1 << 14;
        if self.frames.capacity() > KEEP {
            self.frames = Vec::new();
        }
        if self.keys.capacity() > KEEP {
            self.keys = Vec::new();
        }
    }
}

const ARRAY: u32 = u32::MAX;
/// Up to this many keys are compared pairwise; larger objects are sorted once, at their end.
const PAIRWISE_KEYS: usize = 24;

/// Reads one text from left to right, a value or a member at a time.
pub struct Scanner<'a, 's> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    /// Where the value that is being checked began: faults are told from there.
    origin: usize,
    checks: Checks,
    scratch: &'s mut Scratch,
}

/// Byte classes inside strings: 0 = ordinary.
const fn is_special(b: u8) -> bool {
    b == b'"' || b == b'\\' || b < 0x20 || b == 0xE2 || b == 0xC2
}

static SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = is_special(i as u8);
        i += 1;
    }
    table
};

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Whether any of eight bytes is special or not ASCII (an over-approximation of [`is_special`]).
#[inline]
fn any_special(word: u64) -> bool {
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    let below = word.wrapping_sub(ONES * 0x20);
    ((quote.wrapping_sub(ONES) | slash.wrapping_sub(ONES) | below | word) & HIGHS) != 0
}

impl<'a, 's> Scanner<'a, 's> {
    /// Starts at the beginning of `text`.
    pub fn new(text: &'a str, scratch: &'s mut Scratch) -> Self {
        scratch.frames.clear();
        scratch.keys.clear();
        Self { text, bytes: text.as_bytes(), pos: 0, origin: 0, checks: Checks::default(), scratch }
    }

    /// The byte that comes next, 0 at the end (0 begins no token).
    #[inline]
    pub fn peek(&self) -> u8 {
        self.bytes.get(self.pos).copied().unwrap_or(0)
    }

    /// Where the scanner stands, in bytes.
    pub fn position(&self) -> usize {
        self.pos
    }

    /// The scanned text of a span.
    pub fn slice(&self, span: Span) -> &'a str {
        self.text.get(span.start..span.end).unwrap_or("")
    }

    fn fail<T>(&self) -> Result<T, SyntaxError> {
        Err(SyntaxError { offset: self.pos })
    }

    /// Skips white space between tokens.
    #[inline]
    pub fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.pos += 1;
            self.checks.loose = true;
        }
    }

    /// Takes `byte`, which must come next.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), SyntaxError> {
        if self.peek() == byte {
            self.pos += 1;
            Ok(())
        } else {
            self.fail()
        }
    }

    /// Takes `byte` if it comes next.
    #[inline]
    pub fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.pos += usize::from(found);
        found
    }

    /// Nothing but white space may be left.
    pub fn end(&mut self) -> Result<(), SyntaxError> {
        self.space();
        if self.pos == self.bytes.len() { Ok(()) } else { self.fail() }
    }

    /// Takes a key of an open object and the colon after it; white space is skipped on both sides.
    #[inline]
    pub fn key(&mut self) -> Result<JsonStr<'a>, SyntaxError> {
        self.space();
        let (span, _) = self.string()?;
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(JsonStr::from_verified(self.slice(span)))
    }

    /// Takes one whole value, after white space, and says what it needs.
    pub fn value(&mut self) -> Result<(Json<'a>, Checks), SyntaxError> {
        self.space();
        let start = self.pos;
        let outer = std::mem::take(&mut self.checks);
        self.checks.depth = 1;
        self.origin = start;
        let result = self.nested();
        let own = self.checks;
        self.checks = Checks { loose: outer.loose | own.loose, ..outer };
        result?;
        Ok((Json::from_verified(self.slice(Span { start, end: self.pos })), own))
    }

    fn nested(&mut self) -> Result<(), SyntaxError> {
        let floor = self.scratch.frames.len();
        'value: loop {
            match self.peek() {
                b'{' => {
                    self.pos += 1;
                    self.space();
                    self.open(floor, self.scratch.keys.len() as u32);
                    if !self.accept(b'}') {
                        self.member()?;
                        continue 'value;
                    }
                    self.scratch.frames.pop();
                }
                b'[' => {
                    self.pos += 1;
                    self.space();
                    self.open(floor, ARRAY);
                    if !self.accept(b']') {
                        continue 'value;
                    }
                    self.scratch.frames.pop();
                }
                b'"' => {
                    self.string()?;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                _ => return self.fail(),
            }
            // A value is complete: go on in, or close, the containers around it.
            loop {
                if self.scratch.frames.len() == floor {
                    return Ok(());
                }
                let frame = self.scratch.frames.last().copied().unwrap_or(ARRAY);
                self.space();
                let comma = self.accept(b',');
                if frame == ARRAY {
                    if comma {
                        self.space();
                        continue 'value;
                    }
                    self.expect(b']')?;
                } else {
                    if comma {
                        self.member()?;
                        continue 'value;
                    }
                    self.expect(b'}')?;
                    self.close_keys(frame as usize);
                }
                self.scratch.frames.pop();
            }
        }
    }

    #[inline]
    fn open(&mut self, floor: usize, frame: u32) {
        self.scratch.frames.push(frame);
        // The value's own container is depth 1: a flat one nests nothing.
        let depth = (self.scratch.frames.len() - floor) as u32;
        self.checks.depth = self.checks.depth.max(depth);
    }

    fn member(&mut self) -> Result<(), SyntaxError> {
        self.space();
        let (span, escaped) = self.string()?;
        self.note_key(span, escaped);
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(())
    }

    fn note_key(&mut self, span: Span, escaped: bool) {
        let inner = self.bytes.get(span.start + 1..span.end - 1).unwrap_or(&[]);
        let mut head = [0u8; 8];
        for (to, from) in head.iter_mut().zip(inner) {
            *to = *from;
        }
        let print = u64::from_le_bytes(head) ^ (inner.len() as u64).rotate_right(8);
        let key = Key { print, start: span.start as u32, end: span.end as u32, escaped };
        let base = self.scratch.frames.last().copied().unwrap_or(0) as usize;
        let siblings = self.scratch.keys.get(base..).unwrap_or(&[]);
        if siblings.len() < PAIRWISE_KEYS {
            let same = siblings.iter().any(|other| {
                if key.escaped || other.escaped {
                    self.key_text(&key) == self.key_text(other)
                } else {
                    key.print == other.print && self.key_bytes(&key) == self.key_bytes(other)
                }
            });
            if same {
                self.fault(FaultKind::DuplicateKey, span.start);
            }
        }
        self.scratch.keys.push(key);
    }

    fn key_bytes(&self, key: &Key) -> &'a [u8] {
        self.bytes.get(key.start as usize..key.end as usize).unwrap_or(&[])
    }

    fn key_text(&self, key: &Key) -> JsonStr<'a> {
        JsonStr::from_verified(self.slice(Span { start: key.start as usize, end: key.end as usize }))
    }

    fn close_keys(&mut self, base: usize) {
        let keys = self.scratch.keys.get(base..).unwrap_or(&[]);
        if keys.len() > PAIRWISE_KEYS && self.checks.fault.is_none() {
            let mut names: Vec<_> = keys.iter().map(|key| (self.key_text(key).wtf8(), key.start)).collect();
            names.sort_unstable();
            let twice = names.windows(2).find_map(|pair| match pair {
                [a, b] if a.0 == b.0 => Some(b.1 as usize),
                _ => None,
            });
            if let Some(at) = twice {
                self.fault(FaultKind::DuplicateKey, at);
            }
        }
        self.scratch.keys.truncate(base);
    }

    /// Notes a fault at `at`, a byte of the whole text; only the first one is kept.
    fn fault(&mut self, kind: FaultKind, at: usize) {
        let offset = at - self.origin;
        self.checks.fault.get_or_insert(FaultAt { kind, offset });
    }

    fn literal(&mut self, word: &str) -> Result<(), SyntaxError> {
        if self.bytes.get(self.pos..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            self.pos += word.len();
            Ok(())
        } else {
            self.fail()
        }
    }

    /// Takes a string with its quotes; says whether it holds an escape.
    fn string(&mut self) -> Result<(Span, bool), SyntaxError> {
        let start = self.pos;
        self.expect(b'"')?;
        let mut escaped = false;
        loop {
            while let Some(chunk) = self.bytes.get(self.pos..).and_then(|rest| rest.first_chunk::<8>()) {
                if any_special(u64::from_le_bytes(*chunk)) {
                    break;
                }
                self.pos += 8;
            }
            // At most a few bytes up to the special one; non-ASCII text walks here.
            let mut byte = self.peek();
            while !SPECIAL.get(usize::from(byte)).copied().unwrap_or(true) {
                self.pos += 1;
                byte = self.peek();
            }
            match byte {
                b'"' => {
                    self.pos += 1;
                    return Ok((Span { start, end: self.pos }, escaped));
                }
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                0xE2 => {
                    let tail = self.bytes.get(self.pos + 1..self.pos + 3).unwrap_or(&[]);
                    self.checks.loose |= matches!(tail, [0x80, 0xA8 | 0xA9]);
                    self.pos += 1;
                }
                0xC2 => {
                    self.checks.loose |= self.bytes.get(self.pos + 1) == Some(&0x85);
                    self.pos += 1;
                }
                _ => return self.fail(), // a control character, or the end of the text
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        self.pos += 1;
        match self.peek() {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.pos += 1,
            b'u' => {
                self.pos += 1;
                for _ in 0..4 {
                    if !self.peek().is_ascii_hexdigit() {
                        return self.fail();
                    }
                    self.pos += 1;
                }
            }
            _ => return self.fail(),
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), SyntaxError> {
        if !self.peek().is_ascii_digit() {
            return self.fail();
        }
        while self.peek().is_ascii_digit() {
            self.pos += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        /// Shorter integers and decimals cannot leave a double's range.
        const SURELY_FINITE: usize = 300;
        let start = self.pos;
        let negative = self.accept(b'-');
        let zero = self.peek() == b'0';
        if zero {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        if self.accept(b'.') {
            self.digits()?;
        }
        let exponent = matches!(self.peek(), b'e' | b'E');
        if exponent {
            self.pos += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.pos += 1;
            }
            self.digits()?;
        }
        if exponent || (negative && zero) || self.pos - start > SURELY_FINITE {
            let text = self.slice(Span { start, end: self.pos });
            if let Some(kind) = lossy_number(text) {
                self.fault(kind, start);
            }
        }
        Ok(())
    }
}

/// Whether a number's text rounds to `-0` or to an infinity (FORMAT 1).
fn lossy_number(text: &str) -> Option<FaultKind> {
    match text.parse::<f64>() {
        Ok(value) if value == 0.0 && value.is_sign_negative() => Some(FaultKind::NegativeZero),
        Ok(value) if value.is_finite() => None,
        _ => Some(FaultKind::Overflow),
    }
}
