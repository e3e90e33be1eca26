//! Verified JSON text, walked by position.

use super::fault::SyntaxError;
use super::scan::{Checks, Scanner, Scratch};
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
pub struct Json<'a>(&'a str);

impl<'a> Json<'a> {
    /// `null`.
    pub const NULL: Json<'static> = Json("null");
    /// `{}`.
    pub const EMPTY_OBJECT: Json<'static> = Json("{}");

    /// `text` must be exactly one JSON value, as the scanner left it.
    pub(crate) fn from_verified(text: &'a str) -> Self {
        Self(text)
    }

    /// Checks a whole text: one JSON value with nothing but white space around it.
    pub fn parse(text: &'a str) -> Result<(Self, Checks), SyntaxError> {
        let mut scratch = Scratch::default();
        let mut scanner = Scanner::new(text, &mut scratch);
        let found = scanner.value()?;
        scanner.end()?;
        Ok(found)
    }

    /// The text.
    pub fn text(self) -> &'a str {
        self.0
    }

    fn first(self) -> u8 {
        self.0.as_bytes().first().copied().unwrap_or(b'n')
    }

    /// Which kind of value it is.
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
    pub fn as_str(self) -> Option<JsonStr<'a>> {
        (self.first() == b'"').then(|| JsonStr::from_scan(self.0, string_end(self.0.as_bytes(), 1).escaped))
    }

    /// Whether it is the string `other`.
    pub fn is_str(self, other: &str) -> bool {
        self.as_str().is_some_and(|text| text.is(other))
    }

    /// The boolean, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The number rounded to a double, if it is one.
    pub fn as_f64(self) -> Option<f64> {
        (self.kind() == Type::Number).then(|| self.0.parse().ok()).flatten()
    }

    /// The number if it is a safe integer (|n| < 2^53), in any spelling (`1.0`, `1e2`); `-0` is not.
    pub fn as_safe_int(self) -> Option<i64> {
        // Fifteen digits are always safe; longer or other spellings go through their double.
        if self.0.len() < 16
            && self.0 != "-0"
            && let Ok(value) = self.0.parse::<i64>()
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
        Members(Walk::inside(self, b'{'))
    }

    /// The elements of an array in order; nothing for other kinds.
    pub fn elements(self) -> Elements<'a> {
        Elements(Walk::inside(self, b'['))
    }

    /// The first member of that name, if this is an object that has one.
    pub fn get(self, name: &str) -> Option<Json<'a>> {
        self.members().find(|(key, _)| key.is(name)).map(|(_, value)| value)
    }

    /// The member reached by one name after the other.
    pub fn at(self, path: &[&str]) -> Option<Json<'a>> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }
}

/// A cursor inside an object or array.
#[derive(Clone)]
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn inside(value: Json<'a>, open: u8) -> Self {
        let at = if value.first() == open { 1 } else { value.0.len() };
        Self { text: value.0, at }
    }

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
        Json(self.text.get(start..self.at).unwrap_or("null"))
    }
}

/// Iterator over the members of an object.
#[derive(Clone)]
pub struct Members<'a>(Walk<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (JsonStr<'a>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if !self.0.next_item() {
            return None;
        }
        let key = self.0.string();
        self.0.colon();
        Some((key, self.0.value()))
    }
}

/// Iterator over the elements of an array.
#[derive(Clone)]
pub struct Elements<'a>(Walk<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_item().then(|| self.0.value())
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
        let mut out = String::with_capacity(value.0.len());
        write_compact(value.0, &mut out);
        Self(out.into_boxed_str())
    }

    /// A view of the value.
    pub fn json(&self) -> Json<'_> {
        Json(&self.0)
    }

    /// The compact text.
    pub fn text(&self) -> &str {
        &self.0
    }
}
