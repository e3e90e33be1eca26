//! Update values as text: how they are put together and held until they are taken.

use super::content;
use super::content::Wrote;
use super::unicode::mend;
use crate::json::Json;
use crate::log::Event;

/// Updates in order, each one a compact JSON object on one line: what stands as `update` in the params
/// of a `session/update`.
#[derive(Clone, Debug, Default)]
pub struct Updates {
    text: String,
    ends: Vec<usize>,
}

impl Updates {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The update at `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let start = match index.checked_sub(1) {
            None => 0,
            Some(before) => *self.ends.get(before)?,
        };
        self.text.get(start..*self.ends.get(index)?)
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// Forgets them, and gives back memory that one extreme event has claimed.
    pub fn clear(&mut self) {
        const KEEP: usize = 4 << 20;
        self.text.clear();
        self.text.shrink_to(KEEP);
        self.ends.clear();
        self.ends.shrink_to(KEEP / size_of::<usize>());
    }

    /// Begins an update of that kind. It exists once it is finished.
    pub(super) fn begin(&mut self, tag: &'static str, limit: usize) -> Update<'_> {
        let start = self.ends.last().copied().unwrap_or(0);
        self.text.truncate(start);
        self.text.push_str("{\"sessionUpdate\":\"");
        self.text.push_str(tag);
        self.text.push('"');
        Update { out: self, start, limit, extra: String::new(), truncated: false }
    }
}

/// Which event an update is told of.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) seq: u64,
    pub(super) time: i64,
}

impl At {
    pub(super) fn event(event: &Event<'_>) -> Self {
        Self { seq: event.seq().get(), time: event.time() }
    }
}

/// One update that is being written. Names are ours and need no escapes; all else is JSON text.
pub(super) struct Update<'u> {
    out: &'u mut Updates,
    start: usize,
    limit: usize,
    extra: String,
    truncated: bool,
}

/// Kept free for `_meta` and the closing braces.
const RESERVE: usize = 512;

impl Update<'_> {
    fn name(&mut self, name: &str) {
        self.out.text.push_str(",\"");
        self.out.text.push_str(name);
        self.out.text.push_str("\":");
    }

    /// A member of any JSON text.
    pub(super) fn json(mut self, name: &str, json: &str) -> Self {
        self.name(name);
        self.out.text.push_str(json);
        self
    }

    /// A string member, from its JSON text without quotes.
    pub(super) fn word(mut self, name: &str, word: &str) -> Self {
        self.name(name);
        self.out.text.push('"');
        self.out.text.push_str(word);
        self.out.text.push('"');
        self
    }

    /// A member that may be left out when it does not fit.
    pub(super) fn spare(self, name: &str, json: Option<&str>) -> Self {
        match json {
            Some(json) if json.len() + name.len() < self.room() => self.json(name, json),
            Some(_) => self.truncated(),
            None => self,
        }
    }

    /// `content` with one text block, from the text's JSON without quotes, and from other members if they fit.
    pub(super) fn text(mut self, inner: &str, members: &str) -> Self {
        self.name("content");
        let fits = members.is_empty() || inner.len() + members.len() < self.room();
        content::write_text(inner, if fits { members } else { "" }, &mut self.out.text);
        if fits { self } else { self.truncated() }
    }

    /// `content` with one block; none if there is nothing to show, or no room.
    pub(super) fn block(mut self, block: Json<'_>) -> Option<Self> {
        self.name("content");
        let room = self.room();
        match content::write(block, &mut self.out.text, room) {
            Wrote::Whole => Some(self),
            Wrote::Cut => Some(self.truncated()),
            Wrote::Nothing | Wrote::NoRoom => None,
        }
    }

    /// An array of blocks.
    pub(super) fn blocks(mut self, name: &str, blocks: impl Iterator<Item = impl AsBlock>) -> Self {
        self.name(name);
        self.out.text.push('[');
        let first = self.out.text.len();
        let mut left_out = false;
        for block in blocks {
            let before = self.out.text.len();
            if before > first {
                self.out.text.push(',');
            }
            let room = self.room();
            match block.write(&mut self.out.text, room) {
                Wrote::Whole => {}
                Wrote::Nothing => self.out.text.truncate(before),
                Wrote::Cut => left_out = true,
                Wrote::NoRoom => {
                    self.out.text.truncate(before);
                    left_out = true;
                    break;
                }
            }
        }
        self.out.text.push(']');
        if left_out { self.truncated() } else { self }
    }

    /// A member of `_meta.sessiond` beside seq and time.
    pub(super) fn meta(mut self, name: &str, json: &str) -> Self {
        self.extra.push_str(",\"");
        self.extra.push_str(name);
        self.extra.push_str("\":");
        self.extra.push_str(json);
        self
    }

    fn truncated(self) -> Self {
        Self { truncated: true, ..self }
    }

    fn room(&self) -> usize {
        self.limit.saturating_sub(self.out.text.len() - self.start + self.extra.len() + RESERVE)
    }

    /// Adds the event's seq and time and lets the update exist. What is no Unicode in it is replaced:
    /// clients drop an update that they cannot decode.
    pub(super) fn finish(self, at: At) {
        let text = &mut self.out.text;
        let mut number = itoa::Buffer::new();
        text.push_str(",\"_meta\":{\"sessiond\":{\"seq\":");
        text.push_str(number.format(at.seq));
        text.push_str(",\"time\":");
        text.push_str(number.format(at.time));
        text.push_str(&self.extra);
        if self.truncated {
            text.push_str(",\"truncated\":true");
        }
        text.push_str("}}}");
        mend(text, self.start);
        self.out.ends.push(text.len());
    }
}

/// What can stand in an array of an update.
pub(super) trait AsBlock {
    /// Appends one array element of at most `room` bytes.
    fn write(&self, out: &mut String, room: usize) -> Wrote;
}

impl AsBlock for Json<'_> {
    fn write(&self, out: &mut String, room: usize) -> Wrote {
        content::write(*self, out, room)
    }
}
