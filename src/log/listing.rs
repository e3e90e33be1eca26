//! What lists of sessions show of a log, followed event by event: kept with a live log, or gathered while one is read.

use std::sync::Arc;

use super::header::Header;
use super::kind::Kind;
use super::log::Log;
use super::seq::Offset;
use crate::json::{Json, JsonStr};

/// The last event that counts as activity (PROTOCOL 3, Listing), as its seq or its time: titles do not, nor does the end
/// of a seed, which is written when a log is imported or forked.
///
/// The closers of a crash repair take the time of the last event (FORMAT 12). Where that does not count, they would say
/// that the session was active then, and loading must not move a session in a list: an interrupted turn's closers
/// directly behind such an event, at its very time, count as little as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastActive<S> {
    last: Option<S>,
    /// Behind an event that does not count: its time in milliseconds, and `last` as it was there.
    behind_quiet: Option<(i64, Option<S>)>,
}

impl<S> Default for LastActive<S> {
    fn default() -> Self {
        Self { last: None, behind_quiet: None }
    }
}

impl<S: Copy> LastActive<S> {
    /// Follows an event that `stamp` stands for; `time` is its own, in milliseconds.
    pub fn follow<'a>(
        &mut self,
        kind: Kind,
        stamp: S,
        time: impl Fn() -> i64,
        data: impl FnOnce() -> Json<'a>,
    ) {
        match (kind, self.behind_quiet) {
            (kind, _) if is_quiet(kind) => {
                self.behind_quiet = Some((time(), self.last));
            }
            (Kind::ToolResult | Kind::StepEnd, Some((quiet, _))) if time() == quiet => {
                self.last = Some(stamp);
            }
            (Kind::TurnEnd, Some((quiet, before))) if is_interrupted(data()) && time() == quiet => {
                (self.last, self.behind_quiet) = (before, None);
            }
            _ => (self.last, self.behind_quiet) = (Some(stamp), None),
        }
    }

    /// The stamp of that event; none when there is no such event.
    pub fn get(self) -> Option<S> {
        self.last
    }
}

/// The time that [`LastActive`] finds in a log, its events behind `moment` left out: what a list that began then goes by
/// (PROTOCOL 3, Listing). Read from the log's end, so that it costs what came since.
pub fn active_until(log: &Log, moment: i64) -> Option<i64> {
    let mut events = log.range(Offset::ZERO, log.len()).rev().filter(|event| event.time() <= moment);
    while let Some(event) = events.next() {
        let time = event.time();
        match event.kind() {
            kind if is_quiet(kind) => {}
            Kind::TurnEnd if is_interrupted(event.data()) => {
                // Closers directly behind what does not count, at its very time.
                let mut ahead = events.by_ref().take_while(|before| before.time() == time);
                let before = ahead.find(|before| !matches!(before.kind(), Kind::ToolResult | Kind::StepEnd));
                if !before.is_some_and(|before| is_quiet(before.kind())) {
                    return Some(time);
                }
            }
            _ => return Some(time),
        }
    }
    None
}

/// Whether events of that kind are no activity.
fn is_quiet(kind: Kind) -> bool {
    matches!(kind, Kind::SessionTitle | Kind::SessionTitleLlmRequest | Kind::SessionEndSeed)
}

/// The longest event of a log, in bytes of its line: more than `--max-event-bytes` takes is no log that loads. Events
/// that close a turn as a repair does count as nothing, since the limit lets them pass (PROTOCOL 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestEvent(usize);

impl LongestEvent {
    /// Follows an event of that kind whose line has `bytes` bytes.
    pub fn follow<'a>(&mut self, kind: Kind, bytes: usize, data: impl FnOnce() -> Json<'a>) {
        if bytes > self.0 && !is_closer(kind, data) {
            self.0 = bytes;
        }
    }

    /// Its bytes; 0 when there is none.
    pub fn bytes(self) -> usize {
        self.0
    }
}

/// Whether an event looks as one that closes a turn: whether it was due where it stands, its log alone can tell.
fn is_closer<'a>(kind: Kind, data: impl FnOnce() -> Json<'a>) -> bool {
    match kind {
        Kind::TurnEnd => is_interrupted(data()),
        Kind::StepEnd => data().members().all(|(name, _)| name.is("turn") || name.is("step")),
        Kind::ToolResult => {
            let id = data().at(&["message", "id"]).and_then(Json::as_str);
            id.is_some_and(|id| id.lossy().starts_with("interrupted-tool-result-"))
        }
        _ => false,
    }
}

/// Whether the data of a `turn/end` says that a repair or an interrupt wrote it.
fn is_interrupted(data: Json<'_>) -> bool {
    data.at(&["reason", "kind"]).is_some_and(|kind| kind.is_str("interrupted"))
}

/// The time that sorts a session in a list, in milliseconds since the Unix epoch: of its last event that
/// counts as activity ([`LastActive`]), if it has one, else of its creation.
pub fn active_at(header: &Header, last: Option<i64>) -> i64 {
    last.unwrap_or_else(|| i64::try_from(header.created_at).unwrap_or(i64::MAX))
}

/// The title that the data of a `session/title` gives (FORMAT 3.1): none where it is no string, or empty.
pub fn title_in(data: Json<'_>) -> Option<JsonStr<'_>> {
    data.get("title").and_then(Json::as_str).filter(|title| !title.is_empty())
}

/// The title of a log, as its seq or its text: the last one that a person gave, whatever came after it; else the last one
/// (PROTOCOL 3 and 9.10). A list and a replay follow it alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastTitle<S> {
    last: Option<S>,
    is_by_person: bool,
}

impl<S> Default for LastTitle<S> {
    fn default() -> Self {
        Self { last: None, is_by_person: false }
    }
}

impl<S> LastTitle<S> {
    /// Follows the data of a `session/title`; `stamp` makes of its title what stands for it.
    pub fn follow(&mut self, data: Json<'_>, stamp: impl FnOnce(JsonStr<'_>) -> S) {
        let Some(title) = title_in(data) else { return };
        let is_by_person = data.at(&["source", "kind"]).is_some_and(|kind| kind.is_str("user"));
        if is_by_person || !self.is_by_person {
            *self = Self { last: Some(stamp(title)), is_by_person };
        }
    }

    /// What stands for it; none when no event gives a title.
    pub fn get(&self) -> Option<&S> {
        self.last.as_ref()
    }
}

/// Types outside the vocabulary that are not marked ignorable: a log loads only where all of them are declared. The
/// first few are named. Clones share the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignTypes(Option<Arc<Vec<String>>>);

impl ForeignTypes {
    /// So many are named.
    const MOST: usize = 8;

    /// Notes the type of an event of [`Kind::Other`] that is not ignorable.
    pub fn note(&mut self, name: impl FnOnce() -> String) {
        if self.names().len() < Self::MOST {
            let name = name();
            if !self.names().contains(&name) {
                Arc::make_mut(self.0.get_or_insert_default()).push(name);
            }
        }
    }

    /// Their names, in the order in which they were met.
    pub fn names(&self) -> &[String] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl FromIterator<String> for ForeignTypes {
    fn from_iter<T: IntoIterator<Item = String>>(names: T) -> Self {
        let mut types = Self::default();
        names.into_iter().for_each(|name| types.note(|| name));
        types
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Draft;

    #[test]
    fn titles_ends_of_seeds_and_closers_behind_them_are_no_activity() {
        let last = |events: &[(Kind, i64, &str)]| {
            let mut last = LastActive::default();
            for (kind, time, data) in events {
                let (data, _) = Json::parse(data).unwrap_or((Json::NULL, Default::default()));
                last.follow(*kind, *time, || *time, || data);
            }
            last.get()
        };
        let (user, title) = ((Kind::UserMessage, 5, "{}"), (Kind::SessionTitle, 9, "{}"));
        let interrupted = (Kind::TurnEnd, 9, r#"{"turn":1,"reason":{"kind":"interrupted"}}"#);
        let (result, step) = ((Kind::ToolResult, 9, "{}"), (Kind::StepEnd, 9, "{}"));
        assert_eq!(last(&[title]), None);
        assert_eq!(last(&[user, title]), Some(5));
        assert_eq!(last(&[user, title, interrupted]), Some(5));
        assert_eq!(last(&[user, title, title, result, result, step, interrupted]), Some(5));
        let seed = (Kind::SessionEndSeed, 9, "{}");
        assert_eq!(last(&[seed]), None);
        assert_eq!(last(&[user, seed]), Some(5));
        assert_eq!(last(&[user, seed, title, step, interrupted]), Some(5));
        // Anything else in between, another time, or another end is activity.
        assert_eq!(last(&[user, title, result, (Kind::UserMessage, 9, "{}"), interrupted]), Some(9));
        assert_eq!(last(&[user, title, (Kind::TurnEnd, 10, interrupted.2)]), Some(10));
        let completed = r#"{"turn":1,"reason":{"kind":"completed"}}"#;
        assert_eq!(last(&[user, title, (Kind::TurnEnd, 9, completed)]), Some(9));
        assert_eq!(last(&[title, user, step, interrupted]), Some(9));
    }

    /// Read from its end or followed from its beginning, a log says the same.
    #[test]
    fn a_log_tells_its_last_activity_until_any_moment() {
        let kinds = ["session/title", "session/end-seed", "tool/result", "step/end", "turn/end", "plan/mode"];
        let ends =
            [r#"{"turn":1,"reason":{"kind":"interrupted"}}"#, r#"{"turn":1,"reason":{"kind":"completed"}}"#];
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..2_000 {
            let mut log = Log::default();
            let mut time = 0;
            for _ in 0..next(9) {
                time = i64::try_from(next(3)).unwrap_or_default() + if next(8) == 0 { 0 } else { time };
                let kind = kinds.get(next(6) as usize).copied().unwrap_or_default();
                let end = ends.get(usize::from(next(4) == 0)).copied().unwrap_or_default();
                let (data, _) = Json::parse(end).unwrap_or((Json::NULL, Default::default()));
                let kind = format!("\"{kind}\"");
                log.push(&Draft::new(JsonStr::from_verified(&kind), data), time);
            }
            for moment in -1..8 {
                let mut last = LastActive::default();
                for event in log.range(Offset::ZERO, log.len()).filter(|event| event.time() <= moment) {
                    last.follow(event.kind(), event.time(), || event.time(), || event.data());
                }
                assert_eq!(active_until(&log, moment), last.get(), "{moment}: {log:?}");
            }
        }
    }

    #[test]
    fn the_longest_event_is_none_that_closes_a_turn() {
        let longest = |events: &[(Kind, usize, &str)]| {
            let mut longest = LongestEvent::default();
            for (kind, bytes, data) in events {
                let (data, _) = Json::parse(data).unwrap_or((Json::NULL, Default::default()));
                longest.follow(*kind, *bytes, || data);
            }
            longest.bytes()
        };
        let (user, result) =
            ((Kind::UserMessage, 50, "{}"), (Kind::ToolResult, 90, r#"{"message":{"id":"m"}}"#));
        assert_eq!(longest(&[]), 0);
        assert_eq!(longest(&[user, (Kind::UserMessage, 40, "{}")]), 50);
        assert_eq!(longest(&[result, user]), 90);
        let closers = [
            (Kind::ToolResult, 99, r#"{"message":{"id":"interrupted-tool-result-c-4"}}"#),
            (Kind::StepEnd, 99, r#"{"turn":1,"step":2}"#),
            (Kind::TurnEnd, 99, r#"{"turn":1,"reason":{"kind":"interrupted"}}"#),
        ];
        for closer in closers {
            assert_eq!(longest(&[user, closer]), 50, "{closer:?}");
        }
        assert_eq!(longest(&[user, (Kind::StepEnd, 99, r#"{"turn":1,"usage":2}"#)]), 99);
        assert_eq!(longest(&[user, (Kind::TurnEnd, 99, r#"{"turn":1,"reason":{"kind":"completed"}}"#)]), 99);
    }

    #[test]
    fn a_persons_title_outlives_those_of_others() {
        let last = |titles: &[&str]| {
            let mut last = LastTitle::default();
            for data in titles {
                let (data, _) = Json::parse(data).unwrap_or((Json::NULL, Default::default()));
                last.follow(data, |title| title.lossy().into_owned());
            }
            last.get().cloned().unwrap_or_default()
        };
        let mine = r#"{"title":"mine","source":{"kind":"user"}}"#;
        let mine_too = r#"{"title":"mine too","source":{"kind":"\u0075ser"}}"#;
        let (provider, fallback) = (
            r#"{"title":"provider","source":{"kind":"provider","provider":"p"}}"#,
            r#"{"title":"fallback","source":{"kind":"fallback"}}"#,
        );
        assert_eq!(last(&[]), "");
        assert_eq!(last(&[provider, fallback]), "fallback");
        assert_eq!(last(&[provider, mine, fallback, provider]), "mine");
        assert_eq!(last(&[mine, provider, mine_too, fallback]), "mine too");
        // What gives no title takes none away; a source that is none is nobody's.
        assert_eq!(last(&[mine, r#"{"title":"","source":{"kind":"user"}}"#, fallback]), "mine");
        assert_eq!(last(&[r#"{"title":"bare"}"#, r#"{"title":"odd","source":"user"}"#]), "odd");
    }

    #[test]
    fn foreign_types_are_named_once_and_few() {
        let mut types: ForeignTypes = ["a", "b", "a"].map(str::to_owned).into_iter().collect();
        assert_eq!(types.names(), ["a", "b"]);
        let before = types.clone();
        (0..20).for_each(|n| types.note(|| n.to_string()));
        assert_eq!((types.names().len(), before.names().len()), (ForeignTypes::MOST, 2));
    }
}
