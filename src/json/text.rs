//! Verified JSON text, walked by position.

use super::fault::SyntaxError;
use super::outline::Entry;
use super::scan::{Checks, Scratch};
use super::string::JsonStr;
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
#[derive(Clone, Copy, Debug)]
pub struct Json<'a> {
    text: &'a str,
    /// The values inside it, where the scan has noted them; else the text is walked.
    inside: &'a [Entry],
    /// Where the text begins in what the entries count from.
    base: u32,
    /// Whether a string holds an escape, where that is known.
    escaped: Option<bool>,
}

impl<'a> Json<'a> {
    /// `null`.
    pub const NULL: Json<'static> = Json::from_verified("null");
    /// `{}`.
    pub const EMPTY_OBJECT: Json<'static> = Json::from_verified("{}");

    /// `text` must be exactly one JSON value, as the scanner left it.
    pub(crate) const fn from_verified(text: &'a str) -> Self {
        Self { text, inside: &[], base: 0, escaped: None }
    }

    /// The value of an entry in the scanned `text`, with the entries inside it.
    pub(super) fn outlined(text: &'a str, entry: &Entry, inside: &'a [Entry]) -> Option<Self> {
        let value = text.get(entry.start as usize..entry.end as usize)?;
        Some(Self { text: value, inside, base: entry.start, escaped: Some(entry.is_escaped()) })
    }

    /// The entries inside, if there is an outline.
    pub(super) fn outline(self) -> &'a [Entry] {
        self.inside
    }

    /// The text between two places of what the entries count from.
    #[inline]
    pub(super) fn between(self, start: u32, end: u32) -> &'a str {
        let from_base = |at: u32| at.wrapping_sub(self.base) as usize;
        self.text.get(from_base(start)..from_base(end)).unwrap_or("null")
    }

    /// The contents of a member's key, as they are spelt.
    #[inline]
    pub(super) fn key_bytes(self, entry: &Entry) -> &'a [u8] {
        let from_base = |at: u32| at.wrapping_sub(self.base) as usize;
        let inner = from_base(entry.key) + 1..from_base(entry.key_end).wrapping_sub(1);
        self.text.as_bytes().get(inner).unwrap_or(&[])
    }

    /// The value of an entry inside this one.
    #[inline]
    pub(super) fn part(self, entry: &Entry, inside: &'a [Entry]) -> Json<'a> {
        let text = self.between(entry.start, entry.end);
        Json { text, inside, base: entry.start, escaped: Some(entry.is_escaped()) }
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
        let escaped = self.escaped.unwrap_or_else(|| string_end(self.text.as_bytes(), 1).escaped);
        Some(JsonStr::from_scan(self.text, escaped))
    }

    /// Whether it is the string `other`.
    #[inline]
    pub fn is_str(self, other: &str) -> bool {
        match self.text.as_bytes() {
            [b'"', inner @ .., b'"'] => {
                inner == other.as_bytes() || self.as_str().is_some_and(|text| text.is(other))
            }
            _ => false,
        }
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
        (self.kind() == Type::Number).then(|| self.text.parse().ok()).flatten()
    }

    /// The number if it is a safe integer (|n| < 2^53), in any spelling (`1.0`, `1e2`); `-0` is not.
    pub fn as_safe_int(self) -> Option<i64> {
        // Fifteen digits are always safe; longer or other spellings go through their double.
        if self.text.len() < 16
            && self.text != "-0"
            && let Ok(value) = self.text.parse::<i64>()
        {
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
        let [found] = self.fields([name]);
        found
    }

    /// The member reached by one name after the other.
    pub fn at(self, path: &[&str]) -> Option<Json<'a>> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }
}

/// What is left of an object or array: by its outline, or else by its text.
#[derive(Clone)]
struct Inside<'a> {
    container: Json<'a>,
    walk: Walk<'a>,
}

impl<'a> Inside<'a> {
    #[inline]
    fn of(container: Json<'a>, open: u8) -> Self {
        let (text, end) = (container.text, container.text.len());
        if container.first() != open {
            return Self { container: Json { inside: &[], ..container }, walk: Walk { text, at: end } };
        }
        let at = if container.inside.is_empty() { 1 } else { end };
        Self { container, walk: Walk { text, at } }
    }

    /// The next value that the outline knows, with its entry.
    #[inline]
    fn next_outlined(&mut self) -> Option<(&'a Entry, Json<'a>)> {
        let (entry, rest) = self.container.inside.split_first()?;
        let (inside, after) = rest.split_at_checked(entry.inside())?;
        self.container.inside = after;
        Some((entry, self.container.part(entry, inside)))
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
        if let Some((entry, value)) = self.0.next_outlined() {
            let key = self.0.container.between(entry.key, entry.key_end);
            return Some((JsonStr::from_scan(key, entry.is_key_escaped()), value));
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
        if let Some((_, value)) = self.0.next_outlined() {
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
