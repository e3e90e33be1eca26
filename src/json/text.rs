//! Verified JSON text, walked by position.

use std::fmt;

use super::fault::SyntaxError;
use super::scan::{Checks, Scratch};
use super::string::JsonStr;
use super::swar::value_of;
use super::tape::Node;
use super::token::string_end;
use super::write_compact;

/// The largest integer that a double holds exactly: 2^53 - 1.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The six kinds of JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Type {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// One verified JSON value: a view of text that the scanner has passed.
///
/// There may be white space between tokens; there is none before or after the value.
#[derive(Clone, Copy)]
pub struct Json<'a> {
    text: &'a str,
    /// Its own node and those of the values inside it, where a scan has noted them; else the text is walked.
    tape: &'a [Node],
}

impl fmt::Debug for Json<'_> {
    /// The text alone: where its members stand follows from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Json").field(&self.text).finish()
    }
}

impl<'a> Json<'a> {
    /// `null`.
    pub const NULL: Json<'static> = Json::from_verified("null");
    /// `{}`.
    pub const EMPTY_OBJECT: Json<'static> = Json::from_verified("{}");

    /// `text` must be exactly one JSON value, as the scanner left it.
    pub(crate) const fn from_verified(text: &'a str) -> Self {
        Self { text, tape: &[] }
    }

    /// The value in the scanned `text` whose node is the first.
    pub(super) fn taped(text: &'a str, tape: &'a [Node]) -> Option<Self> {
        let node = tape.first()?;
        Some(Self { text: text.get(node.start as usize..node.end as usize)?, tape })
    }

    /// The value of that text with its node and those of the values inside it.
    #[inline(always)]
    pub(super) fn noted(text: &'a str, tape: &'a [Node]) -> Self {
        Self { text, tape }
    }

    /// Where it stands in the text that was scanned, in bytes, if the scan has noted that.
    pub fn span(self) -> Option<std::ops::Range<usize>> {
        self.tape.first().map(|node| node.start as usize..node.end as usize)
    }

    /// Whether no scan has noted where the values inside stand.
    #[inline]
    pub(super) fn is_unmapped(self) -> bool {
        self.tape.is_empty()
    }

    /// Its own node and those of the values inside, where a scan has noted them.
    #[inline]
    pub(super) fn tape(self) -> &'a [Node] {
        self.tape
    }

    /// The nodes of the values inside, if there are some.
    #[inline]
    pub(super) fn inside(self) -> &'a [Node] {
        self.tape.get(1..).unwrap_or(&[])
    }

    /// How far in the text a place is that nodes count from elsewhere.
    #[inline(always)]
    pub(super) fn within(self, place: u32) -> usize {
        place.wrapping_sub(self.tape.first().map_or(0, |node| node.start)) as usize
    }

    /// The text between two places of the nodes.
    #[inline(always)]
    pub(super) fn between(self, start: u32, end: u32) -> &'a str {
        self.text.get(self.within(start)..self.within(end)).unwrap_or("null")
    }

    /// The contents of a member's key, as they are spelt.
    #[inline(always)]
    pub(super) fn key_bytes(self, node: &Node) -> &'a [u8] {
        let inner = self.within(node.key) + 1..self.within(node.key_end).wrapping_sub(1);
        self.text.as_bytes().get(inner).unwrap_or(&[])
    }

    /// The value inside this one whose node is the first.
    #[inline]
    pub(super) fn part(self, node: &Node, tape: &'a [Node]) -> Json<'a> {
        Json { text: self.between(node.start, node.end), tape }
    }

    /// Checks a whole text: one JSON value with nothing but white space around it.
    pub fn parse(text: &'a str) -> Result<(Self, Checks), SyntaxError> {
        Scratch::default().check(text)
    }

    /// The text.
    pub fn text(self) -> &'a str {
        self.text
    }

    #[inline]
    fn first(self) -> u8 {
        self.text.as_bytes().first().copied().unwrap_or(b'n')
    }

    /// Which kind of value it is.
    #[inline]
    pub fn kind(self) -> Type {
        match self.first() {
            b'{' => Type::Object,
            b'[' => Type::Array,
            b'"' => Type::String,
            b't' | b'f' => Type::Bool,
            b'n' => Type::Null,
            _ => Type::Number,
        }
    }

    /// The string, if it is one.
    #[inline]
    pub fn as_str(self) -> Option<JsonStr<'a>> {
        if self.first() != b'"' {
            return None;
        }
        let escaped = match self.tape.first() {
            Some(node) => node.is_escaped(),
            None => string_end(self.text.as_bytes(), 1).escaped,
        };
        Some(JsonStr::from_scan(self.text, escaped))
    }

    /// Whether it is the string `other`.
    #[inline(always)] // what it is compared with is mostly a constant: no call
    pub fn is_str(self, other: &str) -> bool {
        match self.text.as_bytes() {
            [b'"', inner @ .., b'"'] => inner == other.as_bytes() || self.spells(other),
            _ => false,
        }
    }

    #[inline(never)]
    fn spells(self, other: &str) -> bool {
        self.as_str().is_some_and(|text| text.is(other))
    }

    /// The boolean, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        match self.text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The number rounded to a double, if it is one.
    pub fn as_f64(self) -> Option<f64> {
        match self.short_int() {
            Some(value) if value != 0 => Some(value as f64), // a zero may be `-0`
            _ => (self.kind() == Type::Number).then(|| self.text.parse().ok()).flatten(),
        }
    }

    /// The number if it is an integer of at most fifteen digits, which is always a safe one; `-0` counts as 0.
    #[inline]
    fn short_int(self) -> Option<i64> {
        let (digits, negative) = match self.text.as_bytes() {
            [b'-', digits @ ..] => (digits, true),
            digits => (digits, false),
        };
        if digits.len() > 15 {
            return None;
        }
        let value = value_of(digits)?;
        Some(if negative { -value } else { value })
    }

    /// The number if it is an integer of at most fifteen digits in the spelling that writers give it; `-0` is none.
    #[inline]
    pub fn as_plain_int(self) -> Option<i64> {
        self.short_int().filter(|value| *value != 0 || self.text == "0")
    }

    /// The number if it is a safe integer (|n| < 2^53), in any spelling (`1.0`, `1e2`); `-0` is not.
    pub fn as_safe_int(self) -> Option<i64> {
        // Longer or other spellings go through their double.
        if let Some(value) = self.as_plain_int() {
            return Some(value);
        }
        let value = self.as_f64()?;
        let safe = value.fract() == 0.0
            && value.abs() <= MAX_SAFE_INTEGER as f64
            && !(value == 0.0 && value.is_sign_negative());
        safe.then_some(value as i64)
    }

    /// The number if it is a non-negative safe integer.
    pub fn as_safe_uint(self) -> Option<u64> {
        self.as_safe_int().and_then(|value| u64::try_from(value).ok())
    }

    /// The members of an object in order; nothing for other kinds.
    pub fn members(self) -> Members<'a> {
        Members(Inside::of(self, b'{'))
    }

    /// The elements of an array in order; nothing for other kinds.
    pub fn elements(self) -> Elements<'a> {
        Elements(Inside::of(self, b'['))
    }

    /// The first member of that name, if this is an object that has one.
    pub fn get(self, name: &str) -> Option<Json<'a>> {
        let [found] = self.fields(&[name]);
        found
    }

    /// The member reached by one name after the other.
    pub fn at(self, path: &[&str]) -> Option<Json<'a>> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }
}

/// What is left of an object or array: by its tape, or else by its text.
#[derive(Clone)]
struct Inside<'a> {
    container: Json<'a>,
    nodes: &'a [Node],
    walk: Walk<'a>,
}

impl<'a> Inside<'a> {
    #[inline]
    fn of(container: Json<'a>, open: u8) -> Self {
        let (text, end) = (container.text, container.text.len());
        let is_it = container.first() == open;
        let nodes = if is_it { container.inside() } else { &[] };
        let at = if is_it && container.tape.is_empty() { 1 } else { end };
        Self { container, nodes, walk: Walk { text, at } }
    }

    /// The next value that the tape knows, with its node.
    #[inline]
    fn next_taped(&mut self) -> Option<(&'a Node, Json<'a>)> {
        let node = self.nodes.first()?;
        let (own, after) = self.nodes.split_at_checked(1 + node.inside())?;
        self.nodes = after;
        Some((node, self.container.part(node, own)))
    }
}

/// A cursor inside the text of an object or array.
#[derive(Clone)]
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(b'}')
    }

    /// Moves to the next key or element; false at the end of the container.
    fn next_item(&mut self) -> bool {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n' | b',') {
            self.at += 1;
        }
        !matches!(self.peek(), b'}' | b']')
    }

    fn string(&mut self) -> JsonStr<'a> {
        let start = self.at;
        let end = string_end(self.text.as_bytes(), start + 1);
        self.at = end.at;
        JsonStr::from_scan(self.text.get(start..end.at).unwrap_or("\"\""), end.escaped)
    }

    fn colon(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n' | b':') {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Json<'a> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        match self.peek() {
            b'"' => self.at = string_end(bytes, start + 1).at,
            b'{' | b'[' => {
                let mut depth = 0usize;
                while let Some(&byte) = bytes.get(self.at) {
                    self.at += 1;
                    match byte {
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => {
                            depth -= 1;
                            if depth == 0 {
                                break;
                            }
                        }
                        b'"' => self.at = string_end(bytes, self.at).at,
                        _ => {}
                    }
                }
            }
            _ => {
                while !matches!(self.peek(), b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n') {
                    self.at += 1;
                }
            }
        }
        Json::from_verified(self.text.get(start..self.at).unwrap_or("null"))
    }
}

/// Iterator over the members of an object.
#[derive(Clone)]
pub struct Members<'a>(Inside<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (JsonStr<'a>, Json<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some((node, value)) = self.0.next_taped() {
            let key = self.0.container.between(node.key, node.key_end);
            return Some((JsonStr::from_scan(key, node.is_key_escaped()), value));
        }
        let walk = &mut self.0.walk;
        if !walk.next_item() {
            return None;
        }
        let key = walk.string();
        walk.colon();
        Some((key, walk.value()))
    }
}

/// Iterator over the elements of an array.
#[derive(Clone)]
pub struct Elements<'a>(Inside<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some((_, value)) = self.0.next_taped() {
            return Some(value);
        }
        self.0.walk.next_item().then(|| self.0.walk.value())
    }
}

/// One verified JSON value that owns its compact text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JsonText(Box<str>);

impl JsonText {
    /// Checks `text` and keeps its compact form.
    pub fn parse(text: &str) -> Result<(Self, Checks), SyntaxError> {
        let (value, checks) = Json::parse(text)?;
        Ok((Self::compact(value), checks))
    }

    /// The compact form of a verified value.
    pub fn compact(value: Json<'_>) -> Self {
        let mut out = String::with_capacity(value.text.len());
        write_compact(value.text, &mut out);
        Self(out.into_boxed_str())
    }

    /// A view of the value.
    pub fn json(&self) -> Json<'_> {
        Json::from_verified(&self.0)
    }

    /// The compact text.
    pub fn text(&self) -> &str {
        &self.0
    }
}
