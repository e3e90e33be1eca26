//! Ids of messages and tool calls as the client sees them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};

use crate::json::JsonStr;
use crate::log::Seq;

/// Longest id that is shown as it is, in bytes of JSON text: an id is repeated in every update of its
/// message, and a log may hold ids of megabytes.
const MAX_ID: usize = 1 << 10;

/// Which ids must differ from each other.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) enum Space {
    Message,
    Call,
}

/// Gives every message and every call an id of its own.
///
/// ACP joins what has one id (ACP 7), and logs repeat ids: models count calls anew in each turn, a
/// message is appended twice. The first use keeps the log's id, later ones get `~2`, `~3`, … This
/// depends on earlier events only, so it is stable. Kept per id: a hash and a count.
#[derive(Debug, Default)]
pub(super) struct Ids {
    uses: HashMap<u64, u32>,
    state: RandomState,
}

impl Ids {
    /// A number that stands for an id: equal for equal strings, whatever their escapes.
    pub(super) fn key(&self, space: Space, id: JsonStr<'_>) -> u64 {
        self.state.hash_one((space, &*id.wtf8()))
    }

    /// A number that stands for any two texts.
    pub(super) fn pair(&self, first: &str, second: &str) -> u64 {
        self.state.hash_one((first, second))
    }

    /// The id for one more use of `id`, as JSON text. Without a usable one (too long, or no Unicode: it
    /// could not be told from others of its kind) it is made from the seq,
    /// never from the session's id, because a fork must give the same.
    pub(super) fn assign(&mut self, space: Space, id: Option<JsonStr<'_>>, seq: Seq) -> String {
        let Some(id) = id.filter(|id| id.text().len() <= MAX_ID && id.decode().is_some()) else {
            let word = match space {
                Space::Message => "message",
                Space::Call => "call",
            };
            return format!("\"{word}-{seq}\"");
        };
        let uses = self.uses.entry(self.state.hash_one((space, &*id.wtf8()))).or_insert(0);
        *uses += 1;
        let mut count = *uses;
        if count == 1 {
            return id.text().to_owned();
        }
        let stem = id.text().strip_suffix('"').unwrap_or("\"");
        loop {
            let name = format!("{stem}~{count}\"");
            let key = self.key(space, JsonStr::from_verified(&name));
            // The log may hold an id that looks like a made one.
            if let Entry::Vacant(free) = self.uses.entry(key) {
                free.insert(1);
                return name;
            }
            count += 1;
        }
    }
}
