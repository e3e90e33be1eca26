//! Texts that are scanned before they are walked: their tapes side by side in one buffer.

use super::scan::{Checks, Scratch};
use super::tape::Tape;
use super::template::TemplateKey;
use super::text::Json;

/// The tapes of texts that were scanned one after the other, where a [`Scratch`] keeps the last one's only.
#[derive(Default)]
pub struct Tapes {
    tape: Tape,
}

/// What the scan of one text said, and where its tape is kept.
#[derive(Clone, Copy, Debug)]
pub struct Scanned {
    checks: Checks,
    first: usize,
    end: usize,
}

impl Tapes {
    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.tape.clear();
    }

    /// Gives back memory that extreme texts have claimed: beyond room for so many values.
    pub fn trim(&mut self, keep: usize) {
        self.tape.trim(keep);
    }

    /// Scans a text and keeps its tape. None for what is no JSON, and for what has more values than a tape
    /// notes: that is to be scanned where it is walked.
    pub fn scan(&mut self, text: &str, scratch: &mut Scratch) -> Option<Scanned> {
        let first = self.tape.next() as usize;
        let checks = scratch.scan_behind(text, TemplateKey::opening(text), &mut self.tape)?;
        let end = self.tape.next() as usize;
        (first < end).then_some(Scanned { checks, first, end })
    }

    /// What [`Scratch::scan`] would give of that very text.
    #[inline]
    pub fn value<'a>(&'a self, text: &'a str, scanned: &Scanned) -> Option<(Json<'a>, Checks)> {
        let value = Json::taped(text, self.tape.part(scanned.first..scanned.end)?)?;
        Some((value, scanned.checks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_were_scanned_ahead_are_walked_as_if_scanned_now() {
        let many = format!("[{}1]", "1,".repeat(1 << 16));
        let texts =
            [" {\"a\":[1,{\"b\":\"x\\n\"}], \"é\":-0} ", "[", "\"x\"", &many, "{}", "{\"a\":1,\"a\":2}"];
        let (mut tapes, mut scratch) = (Tapes::default(), Scratch::default());
        let scanned = texts.map(|text| tapes.scan(text, &mut scratch));
        assert_eq!(scanned.map(|scanned| scanned.is_some()), [true, false, true, false, true, true]);
        for (text, scanned) in texts.iter().zip(scanned) {
            let Some((ahead, checks)) = scanned.and_then(|scanned| tapes.value(text, &scanned)) else {
                continue;
            };
            let now = scratch.scan(text).map(|(value, checks)| (value.text().to_owned(), checks));
            assert_eq!(now, Ok((ahead.text().to_owned(), checks)));
            let walked = |value: Json<'_>| {
                value
                    .members()
                    .map(|(key, value)| format!("{}:{}", key.text(), value.text()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(walked(ahead), walked(Json::from_verified(ahead.text())));
        }
    }
}
