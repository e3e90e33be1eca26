//! A text taken piece by piece from its front, as long as it is spelt as expected.

use super::scan::{Checks, Scratch};
use super::simd::{LANES, Marks};
use super::string::JsonStr;
use super::swar::end_of_digits;
use super::template::TemplateKey;
use super::text::Json;

/// So many times [`LANES`] bytes a plain string is looked for its end.
const LOOKS: usize = 4;

/// What is left of a text. A piece that is not there is none: then the text is to be read in another way, from its start.
#[derive(Clone, Copy, Debug)]
pub struct LiteralReader<'a>(&'a str);

impl<'a> LiteralReader<'a> {
    /// Nothing of the text is taken yet.
    pub fn of(text: &'a str) -> Self {
        Self(text)
    }

    /// Whether as much is left as this text has.
    #[inline]
    pub fn is_as_long(self, text: &str) -> bool {
        self.0.len() == text.len()
    }

    /// What is left, as texts that begin alike.
    pub fn hint(self) -> TemplateKey {
        TemplateKey::opening(self.0)
    }

    /// Takes this very text.
    #[inline]
    pub fn take(&mut self, expected: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// Takes a non-negative integer of at most fifteen digits, as JSON spells it.
    #[inline]
    pub fn integer(&mut self) -> Option<&'a str> {
        let len = end_of_digits(self.0.as_bytes(), 0);
        let (digits, rest) = self.0.split_at_checked(len)?;
        let is_one = (1..=15).contains(&len) && (len == 1 || !digits.starts_with('0'));
        self.0 = rest;
        is_one.then_some(digits)
    }

    /// Takes an array of such integers, with no white space in it.
    #[inline(never)] // rare
    pub fn integers(&mut self) -> Option<Json<'a>> {
        let whole = self.0;
        self.take("[")?;
        if self.take("]").is_none() {
            self.integer()?;
            while self.take(",").is_some() {
                self.integer()?;
            }
            self.take("]")?;
        }
        let (text, _) = whole.split_at_checked(whole.len() - self.0.len())?;
        Some(Json::from_verified(text))
    }

    /// Takes a string of ASCII without escapes that is short, and not at the end of a text.
    #[inline]
    pub fn plain_string(&mut self) -> Option<JsonStr<'a>> {
        let contents = self.0.strip_prefix('"')?;
        let (mut len, mut beyond_ascii) = (0, 0);
        for lanes in contents.as_bytes().as_chunks::<LANES>().0.iter().take(LOOKS) {
            let marks = Marks::of(lanes);
            let before = marks.stops.trailing_zeros().min(LANES as u32);
            len += before as usize;
            beyond_ascii |= marks.beyond_ascii & ((1 << before) - 1);
            if marks.stops != 0 {
                break;
            }
        }
        let (text, rest) = self.0.split_at_checked(1 + len + 1)?;
        self.0 = rest;
        (text.ends_with('"') && beyond_ascii == 0).then(|| JsonStr::from_scan(text, false))
    }

    /// Takes a value, likely spelt as others with its hint, and says what the scanner has found.
    #[inline]
    pub fn value<'s>(&mut self, scratch: &'s mut Scratch, hint: TemplateKey) -> Option<(Json<'s>, Checks)>
    where
        'a: 's,
    {
        let (end, checks) = scratch.note_first(self.0, hint)?;
        let (text, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        scratch.noted(text).map(|value| (value, checks))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_string_is_ascii_up_to_its_end_whatever_follows() {
        for len in 0..70 {
            let plain = format!("\"{}\"", "x".repeat(len));
            for behind in ["é", ",é", "\",\u{2028}", "\\", "\"\""] {
                let text = format!("{plain}{behind}, and so on, as far as a look goes");
                let mut prefix = LiteralReader::of(&text);
                let taken = prefix.plain_string().map(|string| string.text().to_owned());
                assert_eq!(taken, (len <= LOOKS * LANES).then(|| plain.clone()), "{text}");
            }
            for at in 0..len {
                for odd in ["é", "\\", "\u{1f}", "\u{7f}"] {
                    let mut text = format!("{plain}, and so on, as far as a look goes");
                    text.replace_range(1 + at..2 + at, odd);
                    let taken = LiteralReader::of(&text).plain_string();
                    let fits = odd == "\u{7f}" && len <= LOOKS * LANES;
                    assert_eq!(taken.is_some(), fits, "{text}");
                }
            }
        }
    }
}
