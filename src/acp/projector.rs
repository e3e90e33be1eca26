//! The projection: one event after the other, each as the updates that show it.

use super::Options;
use super::calls;
use super::calls::{Calls, Facts};
use super::content;
use super::fields::{filled, inner, string};
use super::fold::{Fold, Step, Stream, Target, is_appended, is_retry};
use super::ids::{Ids, Space};
use super::split;
use super::tail::Latest;
use super::update::{At, Updates};
use crate::json::{Json, JsonStr, Type};
use crate::log::{Event, Kind, Log, Offset, Seq};

/// Which of the two drivers asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Replay,
    Live,
}

/// A compaction between its start and its end.
#[derive(Clone, Copy, Debug)]
struct Compaction {
    start: Seq,
    summary: Option<Seq>,
}

/// What the events so far mean for the ones to come. It grows with what is open, and by a hash and a
/// count per message and call ([`Ids`]).
#[derive(Debug)]
pub(super) struct Projector {
    pub(super) options: Options,
    pub(super) mode: Mode,
    pub(super) latest: Latest,
    pub(super) calls: Calls,
    /// The latest of `turn/start` and `turn/end` is a start (PROTOCOL 3, Boundary).
    pub(super) turn_open: bool,
    ids: Ids,
    stream: Option<Stream>,
    /// The step that has got its message: what it still streams is in the message.
    answered: Option<Step>,
    fold: Option<Fold>,
    compaction: Option<Compaction>,
}

impl Projector {
    pub(super) fn new(options: Options, mode: Mode) -> Self {
        // A chunk must fit into its update; and very small ones would cut at every character.
        let max_text_bytes = options.max_text_bytes.min(options.max_update_bytes / 2).max(16);
        let options = Options { max_text_bytes, ..options };
        Self {
            options,
            mode,
            latest: Latest::default(),
            calls: Calls::default(),
            turn_open: false,
            ids: Ids::default(),
            stream: None,
            answered: None,
            fold: None,
            compaction: None,
        }
    }

    /// Whether something must be folded before that event: then [`Self::pump`], as long as this is so. The log is read
    /// up to `end` to tell.
    ///
    /// At the end of a log nothing is: a step that is not over may still get its message, under an id
    /// of its own. A log that is loaded is closed by repair (FORMAT 12).
    pub(super) fn must_fold(&mut self, log: &Log, next: &Event<'_>, end: Offset) -> bool {
        if self.fold.is_some() {
            return true;
        }
        let Some(stream) = self.stream else { return false };
        let here = next.seq().before();
        let over = match next.kind() {
            Kind::TurnStart | Kind::TurnEnd | Kind::StepStart | Kind::StepEnd => true,
            Kind::AssistantChunk => stream.is_left_by(Step::of(&self.ids, next), self.answered),
            _ => false,
        };
        if over {
            self.fold = Some(Fold::last(stream, here));
            self.stream = None;
        } else if stream.shown < here && self.parts(stream, log, next, end) {
            self.fold = Some(Fold::part(stream, here));
            self.stream = Some(Stream { shown: here, orphan: Some(true), ..stream });
        }
        self.fold.is_some()
    }

    /// Whether that event shows something in the middle of a stream that has no message.
    fn parts(&mut self, stream: Stream, log: &Log, next: &Event<'_>, end: Offset) -> bool {
        let shows = match next.kind() {
            Kind::AssistantMessage => Step::of(&self.ids, next) != Some(stream.step) || !is_appended(next),
            Kind::UserMessage | Kind::ToolCall | Kind::ToolResult | Kind::CompactionEnd => true,
            _ => false,
        };
        if !shows {
            return false;
        }
        // Outside a turn nothing is awaited, and a fork may end anywhere: it must show the same.
        let ask =
            || !self.turn_open || stream.is_orphan(&self.ids, self.answered, log, [next.seq().before(), end]);
        let orphan = stream.orphan.unwrap_or_else(ask);
        self.stream = Some(Stream { orphan: Some(orphan), ..stream });
        orphan
    }

    /// Goes on folding until there are updates or nothing is left.
    pub(super) fn pump(&mut self, log: &Log, updates: &mut Updates) {
        let Some(mut fold) = self.fold.take() else { return };
        let mut target = Target {
            updates,
            ids: &mut self.ids,
            calls: &mut self.calls,
            max_text: self.options.max_text_bytes,
            limit: self.options.max_update_bytes,
        };
        if !fold.pump(log, &mut target) {
            self.fold = Some(fold);
        }
    }

    /// Takes the next event and writes what it shows, but for what is told once (see [`Latest`]).
    pub(super) fn apply(&mut self, log: &Log, event: &Event<'_>, updates: &mut Updates) {
        let kind = event.kind();
        self.latest.active.follow(kind, event.time(), || event.time(), || event.data());
        match kind {
            Kind::UserMessage | Kind::AssistantMessage | Kind::ToolResult => {
                let appended = is_appended(event);
                if !appended {
                    self.latest.note_rewrite();
                }
                match kind {
                    Kind::UserMessage if appended => self.user(event, updates),
                    Kind::AssistantMessage if appended => self.assistant(event, updates),
                    Kind::ToolResult if appended => self.result(event, updates),
                    Kind::ToolResult => {} // pruned: the first result is what the person saw
                    _ => self.rewritten(event, updates),
                }
            }
            Kind::AssistantChunk => self.chunk(event),
            Kind::ToolCall => self.call(event, updates),
            Kind::TurnStart => {
                self.turn_open = true;
                self.answered = None;
                self.compaction = None; // one whose process died never ends
            }
            Kind::StepStart => self.answered = None,
            Kind::TurnEnd => self.turn_end(event, updates),
            Kind::CompactionStart => {
                self.compaction = Some(Compaction { start: event.seq(), summary: None });
            }
            Kind::CompactionSummary => {
                let open = self.compaction.get_or_insert(Compaction { start: event.seq(), summary: None });
                open.summary = Some(event.seq());
            }
            Kind::CompactionEnd => self.compaction_end(log, event, updates),
            Kind::TodoWrite | Kind::SessionTitle | Kind::RequestContext => self.latest.note(event),
            Kind::Known if self.stream.is_some() && is_retry(event) => self.stream = None,
            _ => {}
        }
    }

    fn chunk(&mut self, event: &Event<'_>) {
        if self.stream.is_none() {
            let step = Step::of(&self.ids, event).filter(|step| self.answered != Some(*step));
            self.stream = step.map(|step| Stream::new(step, event.seq()));
        }
    }

    fn user(&mut self, event: &Event<'_>, updates: &mut Updates) {
        let [id, content, source] = event.data().fields(&["id", "content", "source"]);
        let id = self.ids.assign(Space::Message, filled(id), event.seq());
        let [kind, form, summary] = source.map_or([None; 3], |s| s.fields(&["kind", "form", "summary"]));
        if kind.is_some_and(|kind| kind.is_str("user")) {
            for block in content.into_iter().flat_map(Json::elements) {
                self.message_block("user_message_chunk", &id, block, false, At::event(event), updates);
            }
        } else if form.is_some_and(|form| form.is_str("notice")) {
            // Other sources speak to the model, not for the person (ACP 13).
            self.notice("info", filled(summary), event, updates);
        }
    }

    fn assistant(&mut self, event: &Event<'_>, updates: &mut Updates) {
        let [message, usage, interrupted] = event.data().fields(&["message", "usage", "interrupted"]);
        let step = Step::of(&self.ids, event);
        self.answered = step.or(self.answered);
        self.stream = self.stream.filter(|stream| Some(stream.step) != step);
        self.latest.note_usage(event, usage);
        let [id, content] = message.map_or([None; 2], |message| message.fields(&["id", "content"]));
        let id = self.ids.assign(Space::Message, filled(id), event.seq());
        let at = At::event(event);
        let cut = interrupted.and_then(Json::as_bool) == Some(true);
        for (index, block) in content.into_iter().flat_map(Json::elements).enumerate() {
            let [kind, text, call, name, arguments] =
                block.fields(&["type", "text", "id", "name", "arguments"]);
            let is = |name: &str| kind.is_some_and(|kind| kind.is_str(name));
            match (string(text), string(call)) {
                (Some(text), _) if is("reasoning") => {
                    let id = format!("{}/r{index}\"", id.strip_suffix('"').unwrap_or("\""));
                    self.message_text("agent_thought_chunk", &id, (block, text), cut, at, updates);
                }
                (None, _) if is("reasoning") => {} // a provider's own, which nobody can read
                (_, Some(id)) if is("tool-call") => {
                    let facts = Facts { id, name: string(name), arguments };
                    self.show_call(facts, "pending", event, updates);
                }
                _ => self.message_block("agent_message_chunk", &id, block, cut, at, updates),
            }
        }
    }

    /// One block of a message; text that is too long goes out in several chunks.
    fn message_block(
        &self,
        tag: &'static str,
        id: &str,
        block: Json<'_>,
        cut: bool,
        at: At,
        updates: &mut Updates,
    ) {
        if let Some(text) = content::text_of(block) {
            return self.message_text(tag, id, (block, text), cut, at, updates);
        }
        let update = updates.begin(tag, self.options.max_update_bytes).json("messageId", id).block(block);
        if let Some(update) = update {
            if cut { update.meta("interrupted", "true") } else { update }.finish(at);
        }
    }

    fn message_text(
        &self,
        tag: &'static str,
        id: &str,
        (block, text): (Json<'_>, JsonStr<'_>),
        cut: bool,
        at: At,
        updates: &mut Updates,
    ) {
        let mut rest = inner(text);
        let mut members = content::members(block, true);
        while !rest.is_empty() {
            let (head, after) = split::head(rest, self.options.max_text_bytes);
            let update =
                updates.begin(tag, self.options.max_update_bytes).json("messageId", id).text(head, &members);
            if cut { update.meta("interrupted", "true") } else { update }.finish(at);
            rest = after;
            if !rest.is_empty() {
                members = content::members(block, false);
            }
        }
    }

    fn show_call(&mut self, facts: Facts<'_>, status: &str, event: &Event<'_>, updates: &mut Updates) {
        if let Some(id) = self.calls.begin(&mut self.ids, facts.id, event.seq()) {
            let limit = self.options.max_update_bytes;
            calls::shown(updates, limit, id, facts, status).finish(At::event(event));
        }
    }

    fn call(&mut self, event: &Event<'_>, updates: &mut Updates) {
        let [id, name, arguments] = event.data().fields(&["callId", "name", "arguments"]);
        let Some(id) = string(id) else { return };
        match self.calls.get(&self.ids, id) {
            // On replay the call's end follows, or the tail's word on open calls.
            Some(_) if self.mode == Mode::Replay => {}
            Some(open) => updates
                .begin("tool_call_update", self.options.max_update_bytes)
                .json("toolCallId", open)
                .word("status", "in_progress")
                .finish(At::event(event)),
            None => {
                let facts = Facts { id, name: string(name), arguments };
                self.show_call(facts, "in_progress", event, updates);
            }
        }
    }

    fn result(&mut self, event: &Event<'_>, updates: &mut Updates) {
        let data = event.data();
        let [content, source] =
            data.get("message").map_or([None; 2], |message| message.fields(&["content", "source"]));
        let Some(block) = content.and_then(|content| content.elements().next()) else { return };
        let named = block.get("toolCallId").or_else(|| source.and_then(|source| source.get("callId")));
        let Some(id) = string(named) else { return };
        // An update must follow its call (ACP 13).
        self.show_call(Facts { id, name: None, arguments: None }, "in_progress", event, updates);
        if let Some(shown) = self.calls.end(&self.ids, id) {
            let limit = self.options.max_update_bytes;
            calls::result(updates, limit, &shown, data, block, At::event(event));
        }
    }

    fn turn_end(&mut self, event: &Event<'_>, updates: &mut Updates) {
        self.turn_open = false;
        let reason = event.data().get("reason");
        let [kind, error] = reason.map_or([None; 2], |reason| reason.fields(&["kind", "error"]));
        let word = string(kind).map_or("\"\"", calls::short);
        for id in self.calls.open() {
            calls::failed(updates, self.options.max_update_bytes, id, word, At::event(event));
        }
        self.calls.clear();
        if kind.is_some_and(|kind| kind.is_str("error")) {
            let message = error.and_then(|error| error.get("message"));
            self.notice("error", filled(message), event, updates);
        }
    }

    /// A notice is a live event, not history (ACP 5).
    fn notice(&self, severity: &str, title: Option<JsonStr<'_>>, event: &Event<'_>, updates: &mut Updates) {
        if !self.options.notices || self.mode == Mode::Replay {
            return;
        }
        if let Some(title) = title {
            let (title, _) = split::head(inner(title), self.options.max_text_bytes);
            updates
                .begin("notice", self.options.max_update_bytes)
                .word("severity", severity)
                .word("title", title)
                .finish(At::event(event));
        }
    }

    fn compaction_end(&mut self, log: &Log, event: &Event<'_>, updates: &mut Updates) {
        let open = self.compaction.take().unwrap_or(Compaction { start: event.seq(), summary: None });
        if !self.options.compaction {
            return;
        }
        let summary = open.summary.and_then(|seq| log.get(seq)).and_then(|event| event.data().get("summary"));
        let error = event.data().get("error").filter(|error| error.kind() != Type::Null);
        self.compacted(open.start, summary, error, event, updates);
    }

    /// A rewrite of the surface. Inside a compaction its end tells of it; one without brackets tells of
    /// itself.
    fn rewritten(&mut self, event: &Event<'_>, updates: &mut Updates) {
        if !self.options.compaction || self.compaction.is_some() {
            return;
        }
        let data = event.data();
        let message = if event.kind() == Kind::AssistantMessage { data.get("message") } else { Some(data) };
        let content = message.and_then(|message| message.get("content"));
        self.compacted(event.seq(), content, None, event, updates);
    }

    fn compacted(
        &self,
        start: Seq,
        summary: Option<Json<'_>>,
        error: Option<Json<'_>>,
        event: &Event<'_>,
        updates: &mut Updates,
    ) {
        let mut update = updates
            .begin("compaction_update", self.options.max_update_bytes)
            .word("compactionId", &format!("compaction-{start}"))
            .word("status", if error.is_some() { "failed" } else { "completed" });
        if let Some(summary) = summary {
            update = update.blocks("summary", summary.elements());
        }
        let text = error.and_then(|error| error.as_str().or_else(|| string(error.get("message"))));
        update.spare("error", text.map(JsonStr::text)).finish(At::event(event));
    }
}
