//! JSON strings as text: compared and decoded without losing lone surrogates.

use std::borrow::Cow;

/// A verified JSON string with its quotes, in the very text it came in.
///
/// A string is a sequence of UTF-16 units (FORMAT 1): two are equal when their units are, whatever
/// their escapes, and an escape may stand for half of a surrogate pair.
#[derive(Clone, Copy, Debug)]
pub struct JsonStr<'a> {
    text: &'a str,
    /// Whether a backslash is in it: known from the scan, and asked for at every comparison.
    escaped: bool,
}

impl<'a> JsonStr<'a> {
    /// The empty string.
    pub const EMPTY: JsonStr<'static> = JsonStr { text: "\"\"", escaped: false };

    /// `text` must be a JSON string with its quotes, as the scanner left it.
    pub(crate) fn from_verified(text: &'a str) -> Self {
        Self { text, escaped: memchr::memchr(b'\\', text.as_bytes()).is_some() }
    }

    /// The same, where the scan has told whether it holds an escape.
    pub(super) fn from_scan(text: &'a str, escaped: bool) -> Self {
        Self { text, escaped }
    }

    /// The text with its quotes.
    #[inline]
    pub fn text(self) -> &'a str {
        self.text
    }

    #[inline]
    fn inner(self) -> &'a str {
        self.text.get(1..self.text.len().saturating_sub(1)).unwrap_or("")
    }

    /// Whether it has no units.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.text.len() <= 2
    }

    /// The contents when no escape is in them.
    #[inline(always)]
    pub fn plain(self) -> Option<&'a str> {
        (!self.escaped).then(|| self.inner())
    }

    /// Whether it spells `other`.
    #[inline]
    pub fn is(self, other: &str) -> bool {
        match self.plain() {
            Some(plain) => plain == other,
            None => self.spells(other),
        }
    }

    #[cold]
    fn spells(self, other: &str) -> bool {
        self.units().eq(other.encode_utf16())
    }

    /// The UTF-16 units.
    pub fn units(self) -> Units<'a> {
        Units { chars: self.inner().chars(), low: None }
    }

    /// The contents as valid Unicode, or `None` when a lone surrogate is among them.
    #[inline]
    pub fn decode(self) -> Option<Cow<'a, str>> {
        match self.plain() {
            Some(plain) => Some(Cow::Borrowed(plain)),
            None => self.decode_escapes().map(Cow::Owned),
        }
    }

    #[cold]
    fn decode_escapes(self) -> Option<String> {
        char::decode_utf16(self.units()).collect::<Result<_, _>>().ok()
    }

    /// The contents with U+FFFD for lone surrogates: for messages to people only.
    #[inline]
    pub fn lossy(self) -> Cow<'a, str> {
        match self.plain() {
            Some(plain) => Cow::Borrowed(plain),
            None => Cow::Owned(self.lossy_escapes()),
        }
    }

    #[cold]
    fn lossy_escapes(self) -> String {
        let decoded = char::decode_utf16(self.units());
        decoded.map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }

    /// The contents in WTF-8: equal strings have equal bytes, lone surrogates included.
    pub fn wtf8(self) -> Cow<'a, [u8]> {
        if let Some(plain) = self.plain() {
            return Cow::Borrowed(plain.as_bytes());
        }
        let mut out = Vec::with_capacity(self.text.len());
        for unit in char::decode_utf16(self.units()) {
            match unit {
                Ok(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(lone) => {
                    let unit = lone.unpaired_surrogate();
                    let bits = [
                        0xE0 | (unit >> 12) as u8,
                        0x80 | (unit >> 6 & 0x3F) as u8,
                        0x80 | (unit & 0x3F) as u8,
                    ];
                    out.extend_from_slice(&bits);
                }
            }
        }
        Cow::Owned(out)
    }
}

impl PartialEq for JsonStr<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.escaped || other.escaped {
            return self.units().eq(other.units());
        }
        self.text == other.text
    }
}

impl Eq for JsonStr<'_> {}

/// Iterator over the UTF-16 units of a [`JsonStr`].
#[derive(Clone, Debug)]
pub struct Units<'a> {
    chars: std::str::Chars<'a>,
    low: Option<u16>,
}

impl Iterator for Units<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        if let Some(low) = self.low.take() {
            return Some(low);
        }
        match self.chars.next()? {
            '\\' => match self.chars.next()? {
                'b' => Some(8),
                't' => Some(9),
                'n' => Some(10),
                'f' => Some(12),
                'r' => Some(13),
                'u' => Some((0..4).fold(0, |unit, _| {
                    let digit = self.chars.next().and_then(|c| c.to_digit(16)).unwrap_or(0);
                    unit << 4 | digit as u16
                })),
                other => Some(other as u16),
            },
            c => {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units);
                self.low = units.get(1).copied();
                units.first().copied()
            }
        }
    }
}

/// `text` as a JSON string with its quotes; separators that split lines are escaped (PROTOCOL 1).
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(text, &mut out);
    out
}

/// Appends `text` as a JSON string with its quotes.
pub fn quote_into(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
