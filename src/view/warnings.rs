//! What a model provider would refuse of a log's messages, in words (PROTOCOL 3, Warnings).
//!
//! Appends pay nothing for it: whoever asks has the events followed since the last one who asked. Behind a replacement by a
//! user's or an assistant's message the surface is walked anew; one of a tool's result changes no pair and no id, and is
//! walked to only where parts are astray.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use super::message_id::message_of as message_in;
use super::pairing::{Answer, Astray, Pairs, astray, call_ids, says_nothing};
use super::reading::message_of;
use super::view::View;
use crate::json::{Json, JsonStr, quote};
use crate::log::{Event, Kind, Log, Offset, Seq, SeqRuns};

/// Warnings of each kind that are told; more are only counted.
const NAMED: usize = 20;

const REMEDY: &str = "session/request with pairing \"repair\" makes a request that providers accept";

/// Findings of one kind.
#[derive(Debug)]
struct Told<T> {
    first: Vec<T>,
    count: usize,
}

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self { first: Vec::new(), count: 0 }
    }
}

impl<T> Told<T> {
    fn tell(&mut self, finding: impl FnOnce() -> T) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(finding());
        }
    }

    fn put_into(&self, out: &mut Vec<String>, words: impl Fn(&T) -> String, what: &str) {
        out.extend(self.first.iter().map(words));
        if self.count > self.first.len() {
            out.push(format!("{} more {what}", self.count - self.first.len()));
        }
    }
}

/// A result out of place.
#[derive(Debug)]
struct Misplaced {
    /// The place of its message on the surface: a rewrite of it stands there too.
    place: Seq,
    /// Its call's id, for a person to read.
    id: String,
    /// The event that its call is in, if there is one.
    call: Option<Seq>,
}

/// A part or a message of the surface that no provider takes.
#[derive(Debug)]
struct Refused {
    seq: Seq,
    /// What it is, in words.
    what: String,
}

/// How an id was used so far.
#[derive(Debug)]
struct Use {
    /// The last event that has made a message or a call of that id.
    seq: Seq,
    asked: u32,
    started: u32,
}

/// What is known of a log up to some event. It takes a few words of memory for each id.
#[derive(Debug, Default)]
pub struct Watch {
    through: Offset,
    hasher: RandomState,
    uses: HashMap<u64, Use, RandomState>,
    ids: Told<String>,
    /// Messages of the surface that are followed, by place and seq.
    messages: usize,
    pairs: Pairs<(Seq, Seq)>,
    results: Told<Misplaced>,
    refused: Told<Refused>,
}

impl Watch {
    /// Forgets the events from `at` on.
    pub fn forget(&mut self, at: Offset) {
        if at < self.through {
            *self = Self::default();
        }
    }

    /// What is to be said of the whole of a log, whose projections these are.
    pub fn warnings(&mut self, log: &Log, view: &View) -> Vec<String> {
        self.follow(log, view);
        let relations = &view.relations;
        let mut out = Vec::new();
        if let Some(broken) = relations.broken() {
            out.push(format!("event {} breaks {}: {}", broken.seq, broken.error.rule(), broken.error));
        }
        // Calls of the open turn may still get their result.
        let end = relations.open_turn().map(|turn| turn.seq);
        let settled = |place: Seq| end.is_none_or(|end| place < end);
        let mut open = self.pairs.open().take_while(|(((place, _), _), _)| settled(*place));
        for (((_, seq), at), _) in open.by_ref().take(NAMED) {
            let id = log.get(seq).and_then(message_of).and_then(|message| call_ids(message).nth(at)?);
            out.push(format!("call {} of event {seq} has no result; {REMEDY}", shown(id)));
        }
        if open.next().is_some() {
            out.push(format!("more calls have no result than these {NAMED}"));
        }
        let misplaced = |Misplaced { place, id, call }: &Misplaced| {
            let seq = view.surface.seq_at(*place).unwrap_or(*place);
            match call {
                Some(call) => format!(
                    "event {seq} holds the result of call {id} of event {call}, but other messages stand between them; {REMEDY}"
                ),
                None => format!(
                    "event {seq} holds a result of call {id}, but no call of that id waits for one before it on the surface; {REMEDY}"
                ),
            }
        };
        self.results.put_into(&mut out, misplaced, "results are out of place");
        let refused = |Refused { seq, what }: &Refused| format!("event {seq} holds {what}; {REMEDY}");
        self.refused.put_into(&mut out, refused, "parts or messages would be refused");
        self.ids.put_into(&mut out, String::clone, "ids are repeated or empty");
        out
    }

    fn follow(&mut self, log: &Log, view: &View) {
        let mut rewritten = false;
        for event in log.range(self.through, log.len()) {
            let replaces = || event.surface_op().is_some_and(|op| !op.is_str("append"));
            match event.kind() {
                Kind::ToolCall => self.started(event),
                Kind::ToolResult => {
                    let replaces = replaces();
                    let is_astray =
                        || message_of(event).is_some_and(|message| astray(message).next().is_some());
                    rewritten |= replaces && (self.refused.count > 0 || is_astray());
                    self.message(event, replaces);
                }
                Kind::UserMessage | Kind::AssistantMessage => {
                    let replaces = replaces();
                    rewritten |= replaces;
                    self.message(event, replaces);
                }
                _ => {}
            }
        }
        self.through = log.len();
        if rewritten {
            (self.messages, self.pairs, self.results, self.refused) = Default::default();
        }
        let mut finder = log.finder();
        for (place, seq) in view.surface.messages_from(self.messages) {
            self.messages += 1;
            let Some(message) = finder.get(seq).and_then(message_of) else { continue };
            for part in astray(message) {
                self.refused.tell(|| Refused { seq, what: in_words(part) });
            }
            if says_nothing(message) {
                self.refused.tell(|| Refused { seq, what: "a message without content".to_owned() });
            }
            let results = &mut self.results;
            self.pairs.take((place, seq), message, |_, id, answer| {
                let call = match answer {
                    Answer::Direct(_) => return,
                    Answer::Late(((_, call), _)) => Some(call),
                    Answer::Orphan => None,
                };
                results.tell(|| Misplaced { place, id: shown(id), call });
            });
        }
    }

    fn message(&mut self, event: Event<'_>, replaces: bool) {
        let Some(message) = message_in(event.kind(), event.data()) else { return };
        if let Some(id) = message.get("id").and_then(Json::as_str) {
            self.used("message", id, event, replaces);
        }
        if event.kind() != Kind::AssistantMessage {
            return;
        }
        for id in call_ids(message) {
            match id {
                Some(id) => self.used("call", id, event, replaces),
                None => {
                    self.ids.tell(|| format!("event {} holds an empty call id; {REMEDY}", event.seq()));
                }
            }
        }
    }

    fn key(&self, what: &'static str, id: JsonStr<'_>) -> u64 {
        self.hasher.hash_one((what, &*id.wtf8()))
    }

    /// A message or call of that id is made. One that replaces events may have the ids of these.
    fn used(&mut self, what: &'static str, id: JsonStr<'_>, event: Event<'_>, replaces: bool) {
        let key = self.key(what, id);
        let used = self.uses.entry(key).or_insert(Use { seq: event.seq(), asked: 0, started: 0 });
        let before = std::mem::replace(&mut used.seq, event.seq());
        if used.asked == 0 || (replaces && cites(event, before)) {
            used.asked = used.asked.max(1);
            return;
        }
        used.asked = used.asked.saturating_add(1);
        self.ids.tell(|| repeats(what, id, event, before));
    }

    /// A call is started: once for each time that it is asked for.
    fn started(&mut self, event: Event<'_>) {
        let id = event.data().get("callId").and_then(Json::as_str).filter(|id| !id.is_empty());
        let Some(id) = id else {
            return self.ids.tell(|| format!("event {} holds an empty call id", event.seq()));
        };
        let key = self.key("call", id);
        let used = self.uses.entry(key).or_insert(Use { seq: event.seq(), asked: 0, started: 0 });
        used.started = used.started.saturating_add(1);
        if used.started > used.asked.max(1) {
            let before = used.seq;
            self.ids.tell(|| repeats("call", id, event, before));
        }
    }
}

fn in_words(part: Astray<'_>) -> String {
    match part {
        Astray::Call(id) => {
            format!("call {} outside of an assistant's message, where no provider takes one", shown(id))
        }
        Astray::Result(id) => format!(
            "a result of call {} outside of a message of role user, or inside another result, where no provider takes one",
            shown(id)
        ),
    }
}

fn repeats(what: &str, id: JsonStr<'_>, event: Event<'_>, before: Seq) -> String {
    format!(
        "event {} repeats {what} id {}, which event {before} has used; {REMEDY}",
        event.seq(),
        shown(Some(id))
    )
}

fn cites(event: Event<'_>, seq: Seq) -> bool {
    let Some(sources) = event.source_event_seqs() else { return false };
    match SeqRuns::read(sources, event.seq()) {
        Some(runs) => runs.has(seq),
        None => sources.elements().any(|cited| cited.as_safe_uint() == Some(seq.get())),
    }
}

/// An id for a person to read: a long one is cut.
fn shown(id: Option<JsonStr<'_>>) -> String {
    const MOST: usize = 60;
    let id = id.map(JsonStr::lossy).unwrap_or_default();
    let mut text: String = id.chars().take(MOST).collect();
    if text.len() < id.len() {
        text.push('…');
    }
    quote(&text)
}
