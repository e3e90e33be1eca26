//! A message's text with some of its parts replaced, put in or taken out; the rest stays to the byte.

use std::borrow::Cow;

use super::pairing::blocks;
use crate::json::{Json, JsonStr};

/// Parts of a value's text that are replaced.
pub(super) struct Edits<'a> {
    pub(super) value: Json<'a>,
    /// From where to where, in bytes of the text, and what comes there.
    edits: Vec<(usize, usize, String)>,
}

impl<'a> Edits<'a> {
    pub(super) fn of(value: Json<'a>) -> Self {
        Self { value, edits: Vec::new() }
    }

    fn start_of(&self, part: Json<'_>) -> usize {
        // A part of a value is a slice of its text, so addresses tell how far in it begins.
        part.text().as_ptr().addr().saturating_sub(self.value.text().as_ptr().addr())
    }

    pub(super) fn put(&mut self, part: Json<'_>, with: String) {
        let start = self.start_of(part);
        self.edits.push((start, start + part.text().len(), with));
    }

    /// The same of a string, unless it is that already.
    pub(super) fn rename(&mut self, id: Json<'_>, name: &str) {
        if id.as_str() != Some(JsonStr::from_verified(name)) {
            self.put(id, name.to_owned());
        }
    }

    /// Takes blocks out of the content of a message or result.
    pub(super) fn cut(&mut self, holder: Json<'a>, is_out: impl Fn(Json<'a>) -> bool) {
        let mut around = blocks(holder).peekable();
        let (mut stays, mut before) = (false, None);
        while let Some(block) = around.next() {
            let start = self.start_of(block);
            let end = start + block.text().len();
            if is_out(block) {
                // With the comma that parts it from what stays.
                let next = around.peek().map(|next| self.start_of(*next));
                let before = before.filter(|_| stays);
                let (from, to) = before.map_or((start, next.unwrap_or(end)), |before| (before, end));
                self.edits.push((from, to, String::new()));
            } else {
                stays = true;
            }
            before = Some(end);
        }
    }

    /// A member at the front of an object that has others.
    pub(super) fn insert(&mut self, object: Json<'_>, member: String) {
        let at = self.start_of(object) + 1;
        self.edits.push((at, at, member));
    }

    pub(super) fn text(mut self) -> Cow<'a, str> {
        let text = self.value.text();
        if self.edits.is_empty() {
            return Cow::Borrowed(text);
        }
        self.edits.sort_by_key(|edit| edit.0);
        let (mut out, mut from) = (String::with_capacity(text.len()), 0);
        for (start, end, with) in &self.edits {
            out.push_str(text.get(from..*start).unwrap_or(""));
            out.push_str(with);
            from = *end;
        }
        out.push_str(text.get(from..).unwrap_or(""));
        Cow::Owned(out)
    }
}
