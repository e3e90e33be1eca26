//! The strict one-pass scanner.
//!
//! It checks the JSON grammar (RFC 8259) over text that is already known to be UTF-8, and notes on
//! the way what a store must refuse or rewrite: lossy numbers and duplicate keys, depth, white space
//! between tokens and raw line separators. The JSON Pointer of a fault is not built here; that is
//! [`super::pointer_at`], which runs only on refused text.

use super::compact::has_separator;
use super::fault::{FaultAt, FaultKind, SyntaxError};
use super::string::JsonStr;
use super::text::Json;
use super::token::{Cursor, Refused};

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

/// A key of an open object.
#[derive(Clone, Copy)]
struct Key {
    /// The first bytes and the length, mixed: keys with unequal prints are unequal.
    print: u64,
    start: u32,
    end: u32,
}

/// The print of a key's bytes, whose closing quote may be among `bytes`.
#[inline]
fn print_of(bytes: &[u8], len: usize) -> u64 {
    let head = match bytes.first_chunk::<8>() {
        Some(chunk) => *chunk,
        None => {
            let mut head = [0; 8];
            head.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            head
        }
    };
    // Bytes behind the key are shifted out; an empty key has none at all.
    let own = u64::from_le_bytes(head).unbounded_shl(8 * 8usize.saturating_sub(len) as u32);
    own ^ len as u64
}

/// Buffers that scans reuse, so that a scan allocates nothing in the steady state.
#[derive(Default)]
pub struct Scratch {
    /// One entry per open container but the innermost: where its keys begin, or [`ARRAY`].
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
/// Stands for the place around the value that is being read.
const OUTSIDE: u32 = u32::MAX - 1;
/// Up to this many keys are compared pairwise; larger objects are sorted once, at their end.
const PAIRWISE_KEYS: usize = 24;

/// Reads one text from left to right, a value or a member at a time.
pub struct Scanner<'a, 's> {
    text: &'a str,
    at: Cursor<'a>,
    /// Where the value that is being checked began: faults are told from there.
    origin: usize,
    fault: Option<FaultAt>,
    depth: u32,
    scratch: &'s mut Scratch,
}

impl<'a, 's> Scanner<'a, 's> {
    /// Starts at the beginning of `text`, which must be shorter than 4 GiB.
    pub fn new(text: &'a str, scratch: &'s mut Scratch) -> Self {
        Self { text, at: Cursor::new(text), origin: 0, fault: None, depth: 1, scratch }
    }

    /// The byte that comes next, 0 at the end (0 begins no token).
    #[inline]
    pub fn peek(&self) -> u8 {
        self.at.peek()
    }

    /// Where the scanner stands, in bytes.
    pub fn position(&self) -> usize {
        self.at.pos
    }

    /// The scanned text of a span.
    pub fn slice(&self, span: Span) -> &'a str {
        self.text.get(span.start..span.end).unwrap_or("")
    }

    fn error(&self) -> SyntaxError {
        SyntaxError { offset: self.at.pos }
    }

    /// Skips white space between tokens.
    #[inline]
    pub fn space(&mut self) {
        self.at.space();
    }

    /// Takes `byte`, which must come next.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), SyntaxError> {
        self.at.take(byte).map_err(|_| self.error())
    }

    /// Takes `byte` if it comes next.
    #[inline]
    pub fn accept(&mut self, byte: u8) -> bool {
        self.at.accept(byte)
    }

    /// Nothing but white space may be left.
    pub fn end(&mut self) -> Result<(), SyntaxError> {
        self.space();
        if self.at.pos == self.text.len() { Ok(()) } else { Err(self.error()) }
    }

    /// Takes a key of an open object and the colon after it; white space is skipped on both sides.
    ///
    /// Whether the object holds the key twice is the caller's to know.
    #[inline]
    pub fn key(&mut self) -> Result<JsonStr<'a>, SyntaxError> {
        self.space();
        let start = self.at.pos;
        let escaped = self.at.string().map_err(|_| self.error())?;
        let key = JsonStr::from_scan(self.slice(Span { start, end: self.at.pos }), escaped);
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(key)
    }

    /// Takes one whole value, after white space, and says what it needs.
    pub fn value(&mut self) -> Result<(Json<'a>, Checks), SyntaxError> {
        let mut at = self.at;
        at.space();
        at.forget();
        let start = at.pos;
        (self.origin, self.fault, self.depth) = (start, None, 1);
        self.scratch.frames.clear();
        self.scratch.keys.clear();
        let result = self.nested(&mut at);
        self.at = at;
        result.map_err(|_| self.error())?;
        let text = self.slice(Span { start, end: at.pos });
        let loose = at.spaced || (!at.is_ascii() && has_separator(text));
        Ok((Json::from_verified(text), Checks { fault: self.fault, loose, depth: self.depth }))
    }

    /// Takes a value with all that is in it. The cursor is the caller's own, so that it stays in registers.
    #[inline(always)]
    fn nested(&mut self, at: &mut Cursor<'a>) -> Result<(), Refused> {
        let mut frame = OUTSIDE;
        'value: loop {
            match at.peek() {
                b'"' => {
                    at.string()?;
                }
                b'{' => {
                    at.pos += 1;
                    at.space();
                    if !at.accept(b'}') {
                        frame = self.open(frame, self.scratch.keys.len() as u32);
                        self.member(at, frame)?;
                        continue 'value;
                    }
                    self.note_leaf();
                }
                b'[' => {
                    at.pos += 1;
                    at.space();
                    if !at.accept(b']') {
                        frame = self.open(frame, ARRAY);
                        continue 'value;
                    }
                    self.note_leaf();
                }
                b'-' | b'0'..=b'9' => {
                    let start = at.pos;
                    if at.number()? {
                        self.note_number(Span { start, end: at.pos });
                    }
                }
                b't' => at.literal("true")?,
                b'f' => at.literal("false")?,
                b'n' => at.literal("null")?,
                _ => return Err(Refused),
            }
            // A value is complete: go on in, or close, the containers around it.
            loop {
                if frame == OUTSIDE {
                    return Ok(());
                }
                at.space();
                let comma = at.accept(b',');
                if frame == ARRAY {
                    if comma {
                        at.space();
                        continue 'value;
                    }
                    at.take(b']')?;
                } else {
                    if comma {
                        self.member(at, frame)?;
                        continue 'value;
                    }
                    at.take(b'}')?;
                    self.close_keys(frame as usize);
                }
                frame = self.scratch.frames.pop().unwrap_or(OUTSIDE);
            }
        }
    }

    /// Goes into a container that is not empty and gives its frame.
    #[inline(always)]
    fn open(&mut self, outer: u32, inner: u32) -> u32 {
        self.scratch.frames.push(outer);
        self.depth = self.depth.max(self.scratch.frames.len() as u32);
        inner
    }

    /// An empty container nests as deep as one with a scalar in it.
    #[inline(always)]
    fn note_leaf(&mut self) {
        self.depth = self.depth.max(self.scratch.frames.len() as u32 + 1);
    }

    /// Takes a key and its colon, and the white space up to the value.
    #[inline(always)]
    fn member(&mut self, at: &mut Cursor<'a>, frame: u32) -> Result<(), Refused> {
        at.space();
        let start = at.pos;
        let escaped = at.string()?;
        self.note_key(Span { start, end: at.pos }, escaped, frame as usize);
        at.space();
        at.take(b':')?;
        at.space();
        Ok(())
    }

    /// Notes a key of the object whose keys begin at `base`.
    #[inline(always)]
    fn note_key(&mut self, span: Span, escaped: bool, base: usize) {
        let key =
            Key { print: self.key_print(span, escaped), start: span.start as u32, end: span.end as u32 };
        let siblings = self.scratch.keys.get(base..).unwrap_or(&[]);
        if siblings.len() < PAIRWISE_KEYS && siblings.iter().any(|other| other.print == key.print) {
            self.compare_keys(&key, base);
        }
        self.scratch.keys.push(key);
    }

    /// The print of a key, the same for every spelling of it.
    #[inline]
    fn key_print(&self, span: Span, escaped: bool) -> u64 {
        if escaped {
            return self.escaped_key_print(span);
        }
        let rest = self.text.as_bytes().get(span.start + 1..).unwrap_or(&[]);
        print_of(rest, span.end - span.start - 2)
    }

    #[cold]
    fn escaped_key_print(&self, span: Span) -> u64 {
        let decoded = JsonStr::from_verified(self.slice(span)).wtf8();
        print_of(&decoded, decoded.len())
    }

    #[cold]
    fn compare_keys(&mut self, key: &Key, base: usize) {
        let siblings = self.scratch.keys.get(base..).unwrap_or(&[]);
        let alike = |other: &Key| other.print == key.print && self.key_text(other) == self.key_text(key);
        if siblings.iter().any(alike) {
            self.note_fault(FaultKind::DuplicateKey, key.start as usize);
        }
    }

    fn key_text(&self, key: &Key) -> JsonStr<'a> {
        JsonStr::from_verified(self.slice(Span { start: key.start as usize, end: key.end as usize }))
    }

    #[inline]
    fn close_keys(&mut self, base: usize) {
        if self.scratch.keys.len() - base > PAIRWISE_KEYS {
            self.compare_many_keys(base);
        }
        self.scratch.keys.truncate(base);
    }

    #[cold]
    fn compare_many_keys(&mut self, base: usize) {
        let keys = self.scratch.keys.get(base..).unwrap_or(&[]);
        let mut names: Vec<_> = keys.iter().map(|key| (self.key_text(key).wtf8(), key.start)).collect();
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
    fn note_number(&mut self, span: Span) {
        if let Some(kind) = lossy_number(self.slice(span)) {
            self.note_fault(kind, span.start);
        }
    }

    /// Notes a fault at `at`, a byte of the whole text; only the first one is kept.
    fn note_fault(&mut self, kind: FaultKind, at: usize) {
        let offset = at - self.origin;
        self.fault.get_or_insert(FaultAt { kind, offset });
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
