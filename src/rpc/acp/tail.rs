//! What is told once, after the history: open calls, plan, title, usage (ACP 13).

use super::calls;
use super::content::Wrote;
use super::fields::{inner, string};
use super::projector::Projector;
use super::split;
use super::time::iso8601;
use super::update::{AsBlock, At, Updates};
use crate::json::{Json, MAX_SAFE_INTEGER, Type};
use crate::log::{Event, Kind, LastActive, Log, Offset, Seq, title_in};

/// The latest of the things of which only the last one counts.
#[derive(Debug, Default)]
pub(super) struct Latest {
    plan: Option<Seq>,
    title: Option<Seq>,
    /// Tokens in context after the last answer that says so.
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
            Kind::SessionTitle if title_in(event.data()).is_some() => self.title = Some(event.seq()),
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
        if let Some(event) = self.latest.title.and_then(|seq| log.get(seq)) {
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
            Kind::SessionTitle if self.latest.title == Some(event.seq()) => {
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

fn write_plan(event: &Event<'_>, updates: &mut Updates, limit: usize) {
    let todos = todos(event).into_iter().flat_map(Json::elements).map(Todo);
    updates.begin("plan", limit).blocks("entries", todos, ["", ""]).finish(At::event(event));
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

/// One entry of a `todo/write`; ACP requires a priority, the log has none.
struct Todo<'a>(Json<'a>);

impl AsBlock for Todo<'_> {
    fn write(&self, out: &mut String, room: usize) -> Wrote {
        let [content, status] = self.0.fields(&["content", "status"]);
        let Some(content) = string(content) else { return Wrote::Nothing };
        if content.text().len() + 80 > room {
            return Wrote::NoRoom;
        }
        let is = |word: &str| status.is_some_and(|status| status.is_str(word));
        let status = ["in_progress", "completed"].into_iter().find(|word| is(word)).unwrap_or("pending");
        out.push_str("{\"content\":");
        out.push_str(content.text());
        out.push_str(",\"priority\":\"medium\",\"status\":\"");
        out.push_str(status);
        out.push_str("\"}");
        Wrote::Whole
    }
}
