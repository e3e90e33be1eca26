//! The tokens of JSON (RFC 8259) and a cursor that takes them.
//!
//! This is the hot loop of everything that is received or loaded. The cursor is small and copied, so
//! that the loop keeps it in registers: its methods are inlined, and what is rare takes and gives
//! positions by value.

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
    /// All string contents or-ed together, and some bytes beside them: tells text that is all ASCII.
    seen: u64,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Marks the bytes of a word that end or bend a string (quote, backslash, control character) with
/// their high bit. The lowest mark is exact; a borrow may leave false marks above it.
#[inline]
fn string_stops(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    let marks = (quote.wrapping_sub(ONES) & !quote)
        | (slash.wrapping_sub(ONES) & !slash)
        | (word.wrapping_sub(ONES * 0x20) & !word);
    marks & HIGHS
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), pos: 0, spaced: false, seen: 0 }
    }

    /// Forgets what the tokens so far were like.
    pub(super) fn forget(&mut self) {
        self.spaced = false;
        self.seen = 0;
    }

    /// Whether all strings were ASCII; it may say no too often, never yes.
    pub(super) fn is_ascii(&self) -> bool {
        self.seen & HIGHS == 0
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

    /// Takes a string with its quotes; says whether it holds an escape.
    #[inline(always)]
    pub(super) fn string(&mut self) -> Result<bool, Refused> {
        self.take(b'"')?;
        let mut escaped = false;
        loop {
            match self.skip_plain() {
                b'"' => {
                    self.pos += 1;
                    return Ok(escaped);
                }
                b'\\' => {
                    escaped = true;
                    match self.bytes.get(self.pos + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.pos += 2,
                        _ => self.jump(long_escape_end(self.bytes, self.pos))?,
                    }
                }
                _ => return Err(Refused), // a control character, or the end of the text
            }
        }
    }

    /// Moves over the contents of a string to the next byte that ends or bends it, and gives that.
    #[inline(always)]
    fn skip_plain(&mut self) -> u8 {
        while let Some(chunk) = self.bytes.get(self.pos..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*chunk);
            let stops = string_stops(word);
            self.seen |= word;
            if stops != 0 {
                let skip = stops.trailing_zeros() & !7;
                self.pos += (skip / 8) as usize;
                return (word >> skip) as u8;
            }
            self.pos += 8;
        }
        let mut byte = self.peek();
        while !matches!(byte, b'"' | b'\\' | 0..0x20) {
            self.seen |= u64::from(byte);
            self.pos += 1;
            byte = self.peek();
        }
        byte
    }

    /// Takes a number; says whether it may be one that a double does not hold.
    #[inline(always)]
    pub(super) fn number(&mut self) -> Result<bool, Refused> {
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
fn digits_end(bytes: &[u8], mut at: usize) -> Result<usize, usize> {
    let start = at;
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    if at == start { Err(at) } else { Ok(at) }
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
    for _ in 0..4 {
        let Some(chunk) = bytes.get(pos..).and_then(|rest| rest.first_chunk::<8>()) else {
            return last_string_end(bytes, pos);
        };
        let word = u64::from_le_bytes(*chunk);
        let stops = string_stops(word);
        if stops == 0 {
            pos += 8;
            continue;
        }
        let skip = stops.trailing_zeros() & !7;
        pos += (skip / 8) as usize;
        if (word >> skip) as u8 == b'"' {
            return StringEnd { at: pos + 1, escaped: false };
        }
        break;
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
