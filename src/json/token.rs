//! The tokens of JSON (RFC 8259) and a cursor that takes them.
//!
//! This is the hot loop of everything that is received or loaded. Where strings end is found for
//! sixty-four bytes at once, so that no string waits for the one before it; the tokens between them are
//! taken byte by byte. The cursor is small and copied, so that the loop keeps it in registers: its methods
//! are inlined, and what is rare takes and gives positions by value.

use super::simd::{LANES, Marks, WIDTH};
use super::swar::{end_of_digits, leading};

/// The text is not JSON where the cursor stands.
#[derive(Debug)]
pub(super) struct Refused;

/// A place in a text, and what the tokens before it were like.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Bytes from the start of the text.
    pub(super) pos: usize,
    /// White space was skipped.
    pub(super) spaced: bool,
    window: Window,
}

/// The bytes of the text that were looked at last.
#[derive(Clone, Copy)]
struct Window {
    /// Where they begin.
    base: usize,
    /// Which of them are [`Marks::stops`].
    stops: u64,
    /// Not zero when a byte beyond ASCII was in a string, or close behind one.
    beyond_ascii: u32,
}

impl Window {
    /// No byte was looked at.
    const NONE: Self = Self { base: 0usize.wrapping_sub(WIDTH), stops: 0, beyond_ascii: 0 };

    /// The first stop from there on: where a string ends or bends, or one past the text.
    #[inline(always)]
    fn stop(&mut self, bytes: &[u8], mut from: usize) -> usize {
        loop {
            let shift = from.wrapping_sub(self.base);
            if shift < WIDTH {
                let stops = self.stops >> shift;
                if stops != 0 {
                    return from + stops.trailing_zeros() as usize;
                }
                from = self.base + WIDTH;
            }
            let marks = Marks::at(bytes, from);
            self.base = from;
            self.stops = marks.stops;
            self.beyond_ascii |= marks.beyond_ascii;
        }
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), pos: 0, spaced: false, window: Window::NONE }
    }

    /// Whether all strings were ASCII; it may say no too often, never yes.
    pub(super) fn is_ascii(&self) -> bool {
        self.window.beyond_ascii == 0
    }

    /// The byte that comes next, 0 at the end (0 begins no token).
    #[inline(always)]
    pub(super) fn peek(&self) -> u8 {
        self.bytes.get(self.pos).copied().unwrap_or(0)
    }

    /// Takes `byte` if it comes next.
    #[inline(always)]
    pub(super) fn accept(&mut self, byte: u8) -> bool {
        // A branch, not arithmetic: the next load must not wait for the comparison.
        if self.peek() == byte {
            self.pos += 1;
            return true;
        }
        false
    }

    /// Takes `byte`, which must come next.
    #[inline(always)]
    pub(super) fn take(&mut self, byte: u8) -> Result<(), Refused> {
        if self.accept(byte) { Ok(()) } else { Err(Refused) }
    }

    /// Skips white space between tokens.
    #[inline(always)]
    pub(super) fn space(&mut self) {
        if self.peek() <= b' ' {
            let end = space_end(self.bytes, self.pos);
            self.spaced |= end > self.pos;
            self.pos = end;
        }
    }

    /// Takes `byte` if it comes next, after white space or not.
    #[inline(always)]
    pub(super) fn accept_spaced(&mut self, byte: u8) -> bool {
        // Where nothing is wrong there is mostly no space, and one look is enough.
        self.accept(byte) || (self.peek() <= b' ' && self.skip_to(byte))
    }

    fn skip_to(&mut self, byte: u8) -> bool {
        self.space();
        self.accept(byte)
    }

    /// Takes a string with its quotes; says whether it holds an escape.
    #[inline(always)]
    pub(super) fn string(&mut self) -> Result<bool, Refused> {
        self.take(b'"')?;
        self.rest_of_string()
    }

    /// Takes a key from behind its first quote on; gives the print of its contents unless there is an escape in it.
    #[inline(always)]
    pub(super) fn rest_of_key(&mut self) -> Result<Option<u64>, Refused> {
        let start = self.pos;
        if self.rest_of_string()? {
            return Ok(None);
        }
        let len = self.pos - 1 - start;
        Ok(Some(match self.bytes.get(start..).and_then(|rest| rest.first_chunk()) {
            Some(head) => print_of(u64::from_le_bytes(*head), len),
            None => print(self.bytes.get(start..self.pos - 1).unwrap_or(&[])),
        }))
    }

    /// Takes the contents of a string and its closing quote; says whether there is an escape in it.
    #[inline(always)]
    fn rest_of_string(&mut self) -> Result<bool, Refused> {
        let stop = self.window.stop(self.bytes, self.pos);
        self.pos = stop;
        if self.peek() == b'"' {
            self.pos = stop + 1;
            return Ok(false);
        }
        let (window, end) = bent_string(self.bytes, self.window, stop);
        self.window = window;
        self.jump(end)?;
        Ok(true)
    }

    /// Takes a number; says whether it may be one that a double does not hold.
    #[inline(always)]
    pub(super) fn number(&mut self) -> Result<bool, Refused> {
        if let Some(end) = short_integer_end(self.bytes, self.pos) {
            self.pos = end;
            return Ok(false);
        }
        let (end, suspect) = number_end(self.bytes, self.pos);
        self.jump(end)?;
        Ok(suspect)
    }

    /// Takes `true`, `false` or `null`.
    #[inline(always)]
    pub(super) fn literal(&mut self, word: &str) -> Result<(), Refused> {
        if self.bytes.get(self.pos..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            self.pos += word.len();
            Ok(())
        } else {
            Err(Refused)
        }
    }

    /// Goes to where a token ends, or to the byte that broke it.
    #[inline(always)]
    fn jump(&mut self, to: Result<usize, usize>) -> Result<(), Refused> {
        match to {
            Ok(end) => {
                self.pos = end;
                Ok(())
            }
            Err(broken) => {
                self.pos = broken;
                Err(Refused)
            }
        }
    }
}

/// Takes the rest of a string from a stop on that is not its end.
#[inline(never)]
fn bent_string(bytes: &[u8], mut window: Window, mut at: usize) -> (Window, Result<usize, usize>) {
    let end = loop {
        match bytes.get(at) {
            Some(b'"') => break Ok(at + 1),
            Some(b'\\') => {
                let end = match bytes.get(at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at + 2,
                    _ => match long_escape_end(bytes, at) {
                        Ok(end) => end,
                        Err(broken) => break Err(broken),
                    },
                };
                at = window.stop(bytes, end);
            }
            _ => break Err(at.min(bytes.len())),
        }
    };
    (window, end)
}

/// The print of a key's contents: its first bytes and its length, mixed. Keys with unequal prints are
/// unequal.
pub(super) fn print(inner: &[u8]) -> u64 {
    let mut head = [0; 8];
    head.iter_mut().zip(inner).for_each(|(to, from)| *to = *from);
    print_of(u64::from_le_bytes(head), inner.len())
}

/// The same of the first eight bytes from a key's first on, some of which may not be its own.
#[inline(always)]
fn print_of(head: u64, len: usize) -> u64 {
    /// Which bits of a head are a key's own, by its length.
    const OWN: [u64; 9] = [0, 0xFF, 0xFFFF, !0 >> 40, !0 >> 32, !0 >> 24, !0 >> 16, !0 >> 8, !0];
    (head & OWN.get(len.min(8)).copied().unwrap_or(!0)) ^ len as u64
}

fn space_end(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// Where the `\u` escape that begins at `at` ends, or the byte that breaks it.
fn long_escape_end(bytes: &[u8], at: usize) -> Result<usize, usize> {
    if bytes.get(at + 1) != Some(&b'u') {
        return Err(at + 1);
    }
    let broken = |at: &usize| !bytes.get(*at).is_some_and(u8::is_ascii_hexdigit);
    (at + 2..at + 6).find(broken).map_or(Ok(at + 6), Err)
}

/// One past a run of digits, of which there must be one; else the byte that breaks it.
fn digits_end(bytes: &[u8], at: usize) -> Result<usize, usize> {
    let end = end_of_digits(bytes, at);
    if end == at { Err(at) } else { Ok(end) }
}

/// Where the number that begins at `at` ends, if it is an integer from 0 on of less than eight digits, as most are.
#[inline(always)]
fn short_integer_end(bytes: &[u8], at: usize) -> Option<usize> {
    let chunk = bytes.get(at..)?.first_chunk()?;
    let count = leading(*chunk);
    let next = *chunk.get(count)?; // none after eight digits
    let is_whole = count == 1 || (count > 0 && chunk.first() != Some(&b'0'));
    (is_whole && !matches!(next, b'.' | b'e' | b'E')).then_some(at + count)
}

/// Where the number that begins at `at` ends, or the byte that breaks it; and whether its double may
/// be `-0` or infinite.
fn number_end(bytes: &[u8], at: usize) -> (Result<usize, usize>, bool) {
    /// Shorter integers and decimals cannot leave a double's range.
    const SURELY_FINITE: usize = 300;
    let negative = bytes.get(at) == Some(&b'-');
    let whole = at + usize::from(negative);
    let zero = bytes.get(whole) == Some(&b'0');
    let mut suspect = negative && zero;
    let mut end = if zero { Ok(whole + 1) } else { digits_end(bytes, whole) };
    if let Ok(dot) = end
        && bytes.get(dot) == Some(&b'.')
    {
        end = digits_end(bytes, dot + 1);
    }
    if let Ok(mark) = end
        && matches!(bytes.get(mark), Some(b'e' | b'E'))
    {
        suspect = true;
        let sign = matches!(bytes.get(mark + 1), Some(b'+' | b'-'));
        end = digits_end(bytes, mark + 1 + usize::from(sign));
    }
    suspect |= end.is_ok_and(|end| end - at > SURELY_FINITE);
    (end, suspect)
}

/// Where a verified string ends.
#[derive(Clone, Copy)]
pub(super) struct StringEnd {
    /// One past the closing quote.
    pub(super) at: usize,
    /// An escape is in it.
    pub(super) escaped: bool,
}

/// The end of a verified string whose contents begin at `at`.
#[inline]
pub(super) fn string_end(bytes: &[u8], at: usize) -> StringEnd {
    // Keys and ids end within a few words; what is longer is left to the vectorised search.
    let mut pos = at;
    for _ in 0..2 {
        let Some(chunk) = bytes.get(pos..).and_then(|rest| rest.first_chunk::<LANES>()) else {
            return last_string_end(bytes, pos);
        };
        let stops = Marks::of(chunk).stops;
        pos += (stops.trailing_zeros() as usize).min(LANES);
        if stops != 0 {
            if bytes.get(pos) == Some(&b'"') {
                return StringEnd { at: pos + 1, escaped: false };
            }
            break;
        }
    }
    long_string_end(bytes, pos)
}

/// The same within the last bytes of a text: a string by itself ends there, and most are short.
#[inline]
fn last_string_end(bytes: &[u8], mut pos: usize) -> StringEnd {
    loop {
        match bytes.get(pos) {
            Some(b'"') | None => return StringEnd { at: (pos + 1).min(bytes.len()), escaped: false },
            Some(b'\\') => return long_string_end(bytes, pos),
            Some(_) => pos += 1,
        }
    }
}

fn long_string_end(bytes: &[u8], mut at: usize) -> StringEnd {
    let mut escaped = false;
    loop {
        let rest = bytes.get(at..).unwrap_or(&[]);
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(found) if rest.get(found) == Some(&b'"') => {
                return StringEnd { at: at + found + 1, escaped };
            }
            Some(found) => {
                escaped = true;
                at += found + 2;
            }
            None => return StringEnd { at: bytes.len(), escaped },
        }
    }
}
