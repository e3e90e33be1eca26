//! What is told once, after the history: open calls, plan, title, usage (ACP 13).

use super::calls;
use super::content::Wrote;
use super::fields::{inner, string};
use super::projector::Projector;
use super::split;
use super::update::{AsBlock, At, Updates};
use crate::json::{Json, JsonStr, MAX_SAFE_INTEGER, Type};
use crate::log::{Event, Kind, LastActive, LastTitle, Log, Offset, Seq, iso8601, title_in};

/// The latest of the things of which only the last one counts.
#[derive(Debug, Default)]
pub(super) struct Latest {
    plan: Option<Seq>,
    title: LastTitle<Seq>,
    /// Tokens in context after the last answer that says so; none once a rewrite has changed what is in it.
    used: Option<(u64, At)>,
    /// The context window of the last `request/context`; one without it clears it (FORMAT 7).
    size: Option<u64>,
    /// The time of the last event that is no title.
    pub(super) active: LastActive<i64>,
}

impl Latest {
    /// Takes a plan, a title or a context.
    pub(super) fn note(&mut self, event: &Event<'_>) {
        match event.kind() {
            Kind::TodoWrite if todos(event).is_some() => self.plan = Some(event.seq()),
            Kind::SessionTitle => self.title.follow(event.data(), |_| event.seq()),
            Kind::RequestContext => {
                self.size = event.data().get("contextWindow").and_then(Json::as_safe_uint);
            }
            _ => {}
        }
    }

    /// Takes an answer's usage (FORMAT 4: disjoint counts).
    pub(super) fn note_usage(&mut self, event: &Event<'_>, usage: Option<Json<'_>>) {
        let Some(usage) = usage else { return };
        let counts = usage
            .fields(&["inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens"])
            .map(|count| count.and_then(Json::as_safe_uint));
        if counts.iter().any(Option::is_some) {
            let sum = counts.into_iter().flatten().fold(0u64, u64::saturating_add);
            self.used = Some((sum.min(MAX_SAFE_INTEGER), At::event(event)));
        }
    }

    /// Takes a rewrite of the surface: earlier usage is of messages that a model is not given any more (ACP 13).
    pub(super) fn note_rewrite(&mut self) {
        self.used = None;
    }

    fn write_usage(&self, updates: &mut Updates, limit: usize) {
        if let (Some((used, at)), Some(size)) = (self.used, self.size) {
            updates
                .begin("usage_update", limit)
                .json("used", &used.to_string())
                .json("size", &size.to_string())
                .finish(at);
        }
    }
}

impl Projector {
    /// Writes what ends a replay of the events before `end`.
    pub(super) fn finish(&self, log: &Log, end: Offset, updates: &mut Updates) {
        let limit = self.options.max_update_bytes;
        if let Some(last) = end.last().and_then(|seq| log.get(seq)) {
            let at = At::event(&last);
            for id in self.calls.open() {
                if self.turn_open && self.options.live {
                    updates
                        .begin("tool_call_update", limit)
                        .json("toolCallId", id)
                        .word("status", "in_progress")
                        .finish(at);
                } else {
                    calls::failed(updates, limit, id, "\"unfinished\"", at);
                }
            }
        }
        if let Some(event) = self.latest.plan.and_then(|seq| log.get(seq)) {
            write_plan(&event, updates, limit);
        }
        if let Some(event) = self.latest.title.get().and_then(|seq| log.get(*seq)) {
            let time = self.latest.active.get().and_then(iso8601);
            write_title(&event, time, updates, limit);
        }
        self.latest.write_usage(updates, limit);
    }

    /// Writes what an appended event changes of these things, for a follower.
    pub(super) fn tell_latest(&self, event: &Event<'_>, updates: &mut Updates) {
        let limit = self.options.max_update_bytes;
        match event.kind() {
            Kind::TodoWrite if self.latest.plan == Some(event.seq()) => write_plan(event, updates, limit),
            // A title is no activity: `updatedAt` stays as it is.
            Kind::SessionTitle if self.latest.title.get() == Some(&event.seq()) => {
                write_title(event, None, updates, limit);
            }
            Kind::AssistantMessage if self.latest.used.is_some_and(|(_, at)| at.seq == event.seq().get()) => {
                self.latest.write_usage(updates, limit);
            }
            _ => {}
        }
    }
}

fn todos<'a>(event: &Event<'a>) -> Option<Json<'a>> {
    event.data().get("todos").filter(|todos| todos.kind() == Type::Array)
}

/// A plan holds the entries whose state ACP can say; `_meta` counts the others.
///
/// ACP has no word for a cancelled entry, and each of its three would be false: what is pending or in progress is still
/// to come, and nobody completed it. A plan says what there is to do, so an entry that is off it is left out. The same
/// holds for a state that is not known here. The event holds them all.
fn write_plan(event: &Event<'_>, updates: &mut Updates, limit: usize) {
    let given = todos(event);
    let entries: Vec<Entry<'_>> = given.into_iter().flat_map(Json::elements).filter_map(Entry::of).collect();
    let omitted = given.map_or(0, |given| given.elements().count()) - entries.len();
    let plan = updates.begin("plan", limit).blocks("entries", entries.into_iter());
    if omitted > 0 { plan.meta("omitted", &omitted.to_string()) } else { plan }.finish(At::event(event));
}

fn write_title(event: &Event<'_>, active: Option<String>, updates: &mut Updates, limit: usize) {
    let Some(title) = title_in(event.data()) else { return };
    // A client shows it on a line; a list gives it whole.
    const LONGEST: usize = 64 << 10;
    let (title, _) = split::head(inner(title), LONGEST);
    let mut update = updates.begin("session_info_update", limit).word("title", title);
    if let Some(active) = active {
        update = update.word("updatedAt", &active);
    }
    update.finish(At::event(event));
}

/// One entry of a `todo/write` (FORMAT 3).
struct Entry<'a> {
    content: JsonStr<'a>,
    status: &'static str,
    /// ACP requires one; the format has none, but a log may.
    priority: &'static str,
}

impl<'a> Entry<'a> {
    fn of(todo: Json<'a>) -> Option<Self> {
        let [content, status, priority] = todo.fields(&["content", "status", "priority"]);
        let one_of = |given: Option<Json<'_>>, words: [&'static str; 3]| {
            words.into_iter().find(|word| given.is_some_and(|given| given.is_str(word)))
        };
        Some(Self {
            content: string(content)?,
            status: one_of(status, ["pending", "in_progress", "completed"])?,
            priority: one_of(priority, ["high", "medium", "low"]).unwrap_or("medium"),
        })
    }
}

impl AsBlock for Entry<'_> {
    fn write(&self, out: &mut String, room: usize) -> Wrote {
        if self.content.text().len() + 80 > room {
            return Wrote::NoRoom;
        }
        out.push_str("{\"content\":");
        out.push_str(self.content.text());
        out.push_str(",\"priority\":\"");
        out.push_str(self.priority);
        out.push_str("\",\"status\":\"");
        out.push_str(self.status);
        out.push_str("\"}");
        Wrote::Whole
    }
}
