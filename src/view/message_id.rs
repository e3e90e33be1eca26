//! Message ids that the store mints: where one goes, and how a retry is compared without it.

use crate::json::{Json, JsonText, Type, quote_into};
use crate::log::{Draft, Kind};

/// What every minted message id begins with (PROTOCOL 3, Message ids).
pub const MINTED_PREFIX: &str = "msg-";

/// Where a minted id belongs: as the first member of a message that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdGap {
    at: usize,
    empty: bool,
}

impl IdGap {
    /// The gap in `message`, an object that is `data` or a part of it.
    pub(super) fn of(data: Json<'_>, message: Json<'_>) -> Self {
        // A part of a value is a slice of its text, so addresses tell how far in it begins.
        let start = message.text().as_ptr().addr().saturating_sub(data.text().as_ptr().addr());
        Self { at: start + 1, empty: message.members().next().is_none() }
    }

    /// The data's text with `"id":"…"` written into the gap.
    pub fn splice(self, data: &str, id: &str) -> String {
        let (before, after) = data.split_at_checked(self.at).unwrap_or((data, ""));
        let mut out = String::with_capacity(data.len() + id.len() + 10);
        out.push_str(before);
        out.push_str("\"id\":");
        quote_into(id, &mut out);
        if !self.empty {
            out.push(',');
        }
        out.push_str(after);
        out
    }
}

/// The message of a surface event: its data for `user/message`, else `data.message` (FORMAT 3).
pub(super) fn message_of(kind: Kind, data: Json<'_>) -> Option<Json<'_>> {
    match kind {
        Kind::UserMessage => Some(data),
        Kind::AssistantMessage | Kind::ToolResult => data.get("message"),
        _ => None,
    }
}

/// The place of the id that an appended message lacks; `None` when it has one (of whatever value) or
/// when there is no message to put it into (PROTOCOL 3, Message ids).
pub fn message_id_missing(draft: &Draft<'_>) -> Option<IdGap> {
    gap(draft.kind, draft.data)
}

fn gap(kind: Kind, data: Json<'_>) -> Option<IdGap> {
    let message = message_of(kind, data)?;
    let lacking = message.kind() == Type::Object && message.get("id").is_none();
    lacking.then(|| IdGap::of(data, message))
}

/// The id that was minted into a committed event's data, if its message begins with one.
pub fn minted_id(kind: Kind, data: Json<'_>) -> Option<&str> {
    let (key, id) = message_of(kind, data)?.members().next()?;
    let id = id.as_str()?.plain()?;
    (key.is("id") && id.starts_with(MINTED_PREFIX)).then_some(id)
}

/// The id of a committed event's message, minted or not; none of one that is spelled with escapes.
pub fn message_id(kind: Kind, data: Json<'_>) -> Option<&str> {
    message_of(kind, data)?.get("id")?.as_str()?.plain()
}

/// Whether a committed event is the message of that id, in whatever spelling.
pub fn holds_message(kind: Kind, data: Json<'_>, id: &str) -> bool {
    message_of(kind, data).and_then(|message| message.get("id")).is_some_and(|own| own.is_str(id))
}

/// Whether a committed event's data is what this draft says: the same compact text, but for an id
/// that was minted where the draft has none (PROTOCOL 3, `expectedSeq`).
pub fn same_data(stored: Json<'_>, draft: &Draft<'_>) -> bool {
    let compact = draft.needs_compaction.then(|| JsonText::compact(draft.data));
    let data = compact.as_ref().map_or(draft.data, JsonText::json);
    if stored.text() == data.text() {
        return true;
    }
    gap(draft.kind, data).is_some_and(|gap| {
        let id = minted_id(draft.kind, stored);
        id.is_some_and(|id| stored.text() == gap.splice(data.text(), id))
    })
}
