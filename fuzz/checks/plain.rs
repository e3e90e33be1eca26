//! JSON as RFC 8259 has it, read one byte at a time: the judge of the scanner.
//!
//! Written to be read, not to be fast, and without a line of the crate's own reading. A text becomes a
//! flat list of tokens, so that no depth is too deep; values of modest depth become a [`Tree`].

use std::collections::HashSet;

use sessiond::json::FaultKind;

/// A string is a sequence of UTF-16 units (FORMAT 1).
pub type Units = Vec<u16>;

/// A token of a value, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Open(char),
    Key(Units),
    Text(Units),
    /// A number in its own spelling.
    Number(String),
    Word(&'static str),
    Close,
}

/// A value as a reader keeps it.
#[derive(Clone, Debug)]
pub enum Tree {
    Null,
    Bool(bool),
    Number(f64),
    Text(Units),
    Array(Vec<Tree>),
    Object(Vec<(Units, Tree)>),
}

/// A number or key that would not survive doubles and objects (FORMAT 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// Bytes from the value's first byte.
    pub offset: usize,
    /// RFC 6901, at most 256 bytes.
    pub pointer: String,
}

/// What a text says.
#[derive(Clone, Debug)]
pub struct Plain {
    pub tokens: Vec<Token>,
    pub faults: Vec<Fault>,
    /// Containers around the innermost one, itself included; 1 for a scalar.
    pub depth: usize,
    /// White space between tokens, or a raw U+0085, U+2028 or U+2029.
    pub needs_compaction: bool,
    /// The value without the white space around it.
    pub start: usize,
    pub end: usize,
}

/// Reads one value with nothing but white space around it; an error is the byte where it broke.
pub fn parse(text: &str) -> Result<Plain, usize> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
    reader.space();
    let start = reader.at;
    let mut plain = Plain {
        tokens: Vec::new(),
        faults: Vec::new(),
        depth: 1,
        needs_compaction: false,
        start,
        end: start,
    };
    value(&mut reader, &mut plain)?;
    plain.end = reader.at;
    let own = &text[plain.start..plain.end];
    plain.needs_compaction |= own.contains(['\u{85}', '\u{2028}', '\u{2029}']);
    reader.space();
    if reader.at == text.len() { Ok(plain) } else { Err(reader.at) }
}

/// A container that is not closed yet.
struct Level {
    /// The keys so far of an object; none for an array.
    keys: Option<HashSet<Units>>,
    /// Where in it the reader is: a key or an index, as a pointer has it.
    place: String,
    items: usize,
}

fn value(reader: &mut Reader<'_>, plain: &mut Plain) -> Result<(), usize> {
    let mut levels: Vec<Level> = Vec::new();
    loop {
        // One value, or the opening of one.
        let mut complete = true;
        let at = reader.at;
        match reader.peek() {
            Some(open @ (b'{' | b'[')) => {
                reader.at += 1;
                plain.tokens.push(Token::Open(char::from(open)));
                let keys = (open == b'{').then(HashSet::new);
                levels.push(Level { keys, place: "0".to_owned(), items: 0 });
                plain.depth = plain.depth.max(levels.len());
                plain.needs_compaction |= reader.space();
                let close = if open == b'{' { b'}' } else { b']' };
                if reader.peek() == Some(close) {
                    reader.at += 1;
                    plain.tokens.push(Token::Close);
                    levels.pop();
                } else {
                    complete = false;
                }
            }
            Some(b'"') => {
                let units = reader.string()?;
                plain.tokens.push(Token::Text(units));
            }
            Some(b'-' | b'0'..=b'9') => {
                let number = reader.number()?;
                let double: f64 = number.parse().map_err(|_| at)?;
                let kind = match double {
                    zero if zero == 0.0 && zero.is_sign_negative() => Some(FaultKind::NegativeZero),
                    double if double.is_infinite() => Some(FaultKind::Overflow),
                    _ => None,
                };
                if let Some(kind) = kind {
                    plain.faults.push(Fault { kind, offset: at - plain.start, pointer: pointer(&levels) });
                }
                plain.tokens.push(Token::Number(number));
            }
            _ => {
                let word = ["true", "false", "null"]
                    .into_iter()
                    .find(|word| reader.bytes[at..].starts_with(word.as_bytes()))
                    .ok_or(at)?;
                reader.at += word.len();
                plain.tokens.push(Token::Word(word));
            }
        }
        // What follows a complete value: the end of containers, a comma, or nothing more.
        while complete {
            let Some(level) = levels.last_mut() else { return Ok(()) };
            plain.needs_compaction |= reader.space();
            let close = if level.keys.is_some() { b'}' } else { b']' };
            match reader.peek() {
                Some(b',') => {
                    reader.at += 1;
                    level.items += 1;
                    level.place = level.items.to_string();
                    plain.needs_compaction |= reader.space();
                    complete = false;
                }
                Some(byte) if byte == close => {
                    reader.at += 1;
                    plain.tokens.push(Token::Close);
                    levels.pop();
                }
                _ => return Err(reader.at),
            }
        }
        // An object's next member begins with its key.
        if let Some(Level { keys: Some(_), .. }) = levels.last() {
            let at = reader.at;
            let units = reader.string()?;
            let place = String::from_utf16_lossy(&units).replace('~', "~0").replace('/', "~1");
            if let Some(level) = levels.last_mut() {
                level.place = place;
                let fresh = level.keys.as_mut().is_some_and(|keys| keys.insert(units.clone()));
                if !fresh {
                    let (kind, offset) = (FaultKind::DuplicateKey, at - plain.start);
                    plain.faults.push(Fault { kind, offset, pointer: pointer(&levels) });
                }
            }
            plain.tokens.push(Token::Key(units));
            plain.needs_compaction |= reader.space();
            if reader.peek() != Some(b':') {
                return Err(reader.at);
            }
            reader.at += 1;
            plain.needs_compaction |= reader.space();
        }
    }
}

fn pointer(levels: &[Level]) -> String {
    let mut out = String::new();
    for level in levels {
        out.push('/');
        out.push_str(&level.place);
        if out.len() > 256 {
            break;
        }
    }
    while out.len() > 256 {
        out.pop();
    }
    out
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips white space and says whether there was any.
    fn space(&mut self) -> bool {
        let before = self.at;
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.at > before
    }

    fn string(&mut self) -> Result<Units, usize> {
        if self.peek() != Some(b'"') {
            return Err(self.at);
        }
        self.at += 1;
        let mut units = Units::new();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(units);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let escape = self.peek().ok_or(self.at)?;
                    let unit = match escape {
                        b'"' | b'\\' | b'/' => u16::from(escape),
                        b'b' => 0x08,
                        b'f' => 0x0C,
                        b'n' => 0x0A,
                        b'r' => 0x0D,
                        b't' => 0x09,
                        b'u' => {
                            let mut unit = 0;
                            for _ in 0..4 {
                                self.at += 1;
                                let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
                                unit = unit * 16 + digit.ok_or(self.at)?;
                            }
                            unit as u16
                        }
                        _ => return Err(self.at),
                    };
                    self.at += 1;
                    units.push(unit);
                }
                None | Some(0..=0x1F) => return Err(self.at),
                Some(_) => {
                    let Some(char) = self.text[self.at..].chars().next() else { return Err(self.at) };
                    units.extend_from_slice(char.encode_utf16(&mut [0; 2]));
                    self.at += char.len_utf8();
                }
            }
        }
    }

    fn digits(&mut self) -> Result<(), usize> {
        let before = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > before { Ok(()) } else { Err(self.at) }
    }

    fn number(&mut self) -> Result<String, usize> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1; // and no digit after it
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(self.bytes[start..self.at].iter().map(|byte| char::from(*byte)).collect())
    }
}

/// Deepest value that becomes a tree: what reads trees recurses.
pub const TREE_DEPTH: usize = 120;

impl Plain {
    /// The value, if it is not deeper than [`TREE_DEPTH`].
    pub fn tree(&self) -> Option<Tree> {
        (self.depth <= TREE_DEPTH).then(|| tree(&mut self.tokens.iter()))
    }
}

fn tree<'t>(tokens: &mut impl Iterator<Item = &'t Token>) -> Tree {
    let first = tokens.next().expect("a value's tokens");
    tree_from(first, tokens)
}

fn tree_from<'t>(first: &Token, tokens: &mut impl Iterator<Item = &'t Token>) -> Tree {
    match first {
        Token::Word("null") => Tree::Null,
        Token::Word(word) => Tree::Bool(*word == "true"),
        Token::Number(text) => Tree::Number(text.parse().expect("a number")),
        Token::Text(units) => Tree::Text(units.clone()),
        Token::Open('[') => {
            let mut items = Vec::new();
            loop {
                match tokens.next() {
                    Some(Token::Close) => return Tree::Array(items),
                    Some(first) => items.push(tree_from(first, tokens)),
                    None => unreachable!("an array ends"),
                }
            }
        }
        Token::Open(_) => {
            let mut members = Vec::new();
            loop {
                match tokens.next() {
                    Some(Token::Key(key)) => members.push((key.clone(), tree(tokens))),
                    _ => return Tree::Object(members),
                }
            }
        }
        Token::Key(_) | Token::Close => unreachable!("no value begins so"),
    }
}

impl Tree {
    /// The member of that name.
    pub fn get(&self, name: &str) -> Option<&Tree> {
        let Tree::Object(members) = self else { return None };
        members.iter().find(|(key, _)| key.iter().copied().eq(name.encode_utf16())).map(|(_, value)| value)
    }

    /// The string, if it is one and has no lone surrogate.
    pub fn text(&self) -> Option<String> {
        let Tree::Text(units) = self else { return None };
        String::from_utf16(units).ok()
    }

    /// The number, if it is an integer that a double holds exactly with all its neighbours (FORMAT 1).
    pub fn safe_int(&self) -> Option<i64> {
        let Tree::Number(number) = *self else { return None };
        let safe = number == number.trunc() && number.abs() < 9_007_199_254_740_992.0;
        (safe && !(number == 0.0 && number.is_sign_negative())).then_some(number as i64)
    }

    /// Equal to a reader: the order of members does not matter, numbers are doubles.
    pub fn same(&self, other: &Tree) -> bool {
        match (self, other) {
            (Tree::Null, Tree::Null) => true,
            (Tree::Bool(a), Tree::Bool(b)) => a == b,
            (Tree::Number(a), Tree::Number(b)) => a == b,
            (Tree::Text(a), Tree::Text(b)) => a == b,
            (Tree::Array(a), Tree::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
            (Tree::Object(a), Tree::Object(b)) => {
                let in_b = |(key, value): &(Units, Tree)| {
                    b.iter().any(|(other, theirs)| key == other && value.same(theirs))
                };
                a.len() == b.len() && a.iter().all(in_b)
            }
            _ => false,
        }
    }
}

/// The one-line form of a JSON text: no white space between tokens, separators as escapes.
pub fn compact(text: &str) -> String {
    let squeezed = squeezed(text);
    squeezed.replace('\u{85}', "\\u0085").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// A JSON text without white space between tokens.
pub fn squeezed(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::new(), false, false);
    for char in text.chars() {
        if in_string || !matches!(char, ' ' | '\t' | '\r' | '\n') {
            out.push(char);
        }
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
    }
    out
}

/// The texts of the elements of a compact array, or of the members of a compact object (`"key":value`).
pub fn parts(text: &str) -> Vec<&str> {
    each_part(text).collect()
}

fn each_part(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = &text[1..text.len() - 1];
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (mut depth, mut in_string, mut escaped) = (0, false, false);
        for (at, byte) in rest.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                b',' if depth == 0 => {
                    let part = &rest[..at];
                    rest = &rest[at + 1..];
                    return Some(part);
                }
                _ => {}
            }
        }
        Some(std::mem::take(&mut rest))
    })
}

/// The text of a compact object's member.
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    if !object.starts_with('{') {
        return None;
    }
    each_part(object).find_map(|part| {
        let mut reader = Reader { text: part, bytes: part.as_bytes(), at: 0 };
        let key = reader.string().ok()?;
        key.iter().copied().eq(name.encode_utf16()).then(|| &part[reader.at + 1..])
    })
}

/// The value of a text that was read before.
pub fn tree_of(text: &str) -> Tree {
    parse(text).expect("JSON").tree().expect("a shallow value")
}
