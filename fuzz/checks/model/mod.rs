//! Sequences of operations, on the real store through its protocol and on a plain model of log, surface
//! and fork; acceptance and everything that can be read are compared after every step.
//!
//! The model ([`log`], [`rules`]) keeps a log as a list of events and folds everything anew at each
//! question; [`source`] makes operations out of bytes; here they are carried out on both sides.

pub mod log;
pub mod rules;
mod source;
mod talk;

use log::{Event, canonical, clip, closers, last, messages, open_turn, surface, trace, turn_number};
use rules::{MAX_BATCH, MAX_EVENT_BYTES, Refused, Wanted, admit};
use source::Source;
use talk::{Answer, Talk, array, kept};

use super::plain::{member, parts};

/// Most operations of one input.
const MAX_OPERATIONS: usize = 120;
/// Most sessions of one input.
const MAX_SESSIONS: usize = 10;

/// A session as the model has it.
#[derive(Clone)]
struct Session {
    id: String,
    instance: String,
    live: bool,
    events: Vec<Event>,
    inherited: usize,
    enforce: bool,
    /// What appends were given, by seq, so that they can be repeated.
    given: Vec<(usize, Wanted)>,
}

struct Model {
    talk: Talk,
    sessions: Vec<Session>,
    made: usize,
}

/// What an append or a batch ought to do.
enum Outcome {
    Refused(Refused, Option<usize>),
    /// So many of the events are there already.
    Done(usize),
}

/// Carries out what the bytes say on both sides.
pub fn model(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let mut model = Model { talk: Talk::begin(), sessions: Vec::new(), made: 0 };
    model.new_session(source.below(4) != 0);
    for _ in 0..MAX_OPERATIONS {
        if source.is_over() {
            break;
        }
        model.step(&mut source);
    }
    for at in 0..model.sessions.len() {
        model.check(at, None);
        model.past(at);
        model.stored(at);
    }
}

impl Model {
    fn step(&mut self, source: &mut Source<'_>) {
        let at = if source.once_in(4) { source.below(self.sessions.len()) } else { self.sessions.len() - 1 };
        match source.below(32) {
            0..=15 => self.append(at, source),
            16..=18 => self.batch(at, source),
            19 => self.repeat(at, source),
            20..=22 => self.fork(at, source),
            23 => self.plant(at, source),
            24 => self.interrupt(at),
            25 | 26 => self.read(at, source),
            27 => self.page(at, source),
            28 => self.close(at),
            29 => self.load(at, source),
            30 if self.sessions.len() < MAX_SESSIONS => self.new_session(source.below(2) == 0),
            _ => self.read(at, source),
        }
    }

    fn name(&mut self) -> String {
        self.made += 1;
        format!("s{}", self.made)
    }

    fn new_session(&mut self, enforce: bool) {
        let (id, mode) = (self.name(), if enforce { "enforce" } else { "off" });
        let answer =
            self.talk.call("session/new", &format!("{{\"sessionId\":\"{id}\",\"invariants\":\"{mode}\"}}"));
        let opened = answer.expect_ok();
        let instance = opened.text("instanceId");
        opened.assert_followed_by(&["session/created"]);
        let (live, events, inherited, given) = (true, Vec::new(), 0, Vec::new());
        self.sessions.push(Session { id, instance, live, events, inherited, enforce, given });
        self.check(self.sessions.len() - 1, None);
    }

    fn append(&mut self, at: usize, source: &mut Source<'_>) {
        let session = &self.sessions[at];
        let (sent, kept) = source.event(&session.events);
        let length = session.events.len();
        let expected = match source.below(8) {
            5 => Some(length),
            6 => Some(source.below(length + 2)),
            _ => None,
        };
        let wrong_instance = source.once_in(24);
        let mut params = format!("{{\"sessionId\":\"{}\",{}", session.id, sent_members(&sent));
        if let Some(expected) = expected {
            params.push_str(&format!(",\"expectedSeq\":{expected}"));
        }
        if wrong_instance {
            params.push_str(",\"instanceId\":\"instance-none\"");
        }
        params.push('}');
        let outcome = self.judge(at, std::slice::from_ref(&kept), expected, wrong_instance);
        let answer = self.talk.call("session/append", &params);
        let Some(done) = self.agree(at, &outcome, &answer, std::slice::from_ref(&kept)) else {
            return self.check(at, None);
        };
        let seq = expected.unwrap_or(length);
        assert_eq!(answer.number("seq"), seq as i64, "{params}");
        assert_eq!(answer.flag("duplicate"), done == 1, "{params}");
        let minted = answer.maybe_text("messageId");
        if done == 1 {
            let event = &self.sessions[at].events[seq];
            assert_eq!((answer.number("time"), &minted), (event.time, &minted_for(&kept, event)));
            answer.assert_alone();
        } else {
            assert_eq!(minted.is_some(), kept.with_id("x").is_some(), "an id is minted where there is none");
            self.commit(at, &[(kept, minted)], answer.number("time"));
            self.announced(at, &answer, length);
        }
        self.check(at, None);
    }

    /// What ought to become of events that are appended together or alone.
    fn judge(&self, at: usize, wanted: &[Wanted], expected: Option<usize>, wrong_instance: bool) -> Outcome {
        let session = &self.sessions[at];
        let refused = |code| Outcome::Refused((code, ""), None);
        if !session.live {
            return refused("SESSION_NOT_FOUND");
        }
        if wrong_instance {
            return refused("SESSION_NOT_LIVE");
        }
        let length = session.events.len();
        let first = expected.unwrap_or(length);
        if first > length {
            return refused("SEQ_CONFLICT");
        }
        for (index, (event, wanted)) in session.events[first..].iter().zip(wanted).enumerate() {
            if wanted.is_oddly_marked() {
                return Outcome::Refused(("INVALID_EVENT", "SEED_ENVELOPE"), Some(index));
            }
            if !wanted.is(event) {
                return refused("SEQ_CONFLICT");
            }
        }
        let there = wanted.len().min(length - first);
        let mut events = session.events.clone();
        for (index, event) in wanted.iter().enumerate().skip(there) {
            if let Err(rule) = admit(&events, event, session.enforce, true) {
                return Outcome::Refused(rule, Some(index));
            }
            let committed = event.committed(events.len(), self.talk.time, Some("msg-1"));
            let room = if committed.data == event.data { 0 } else { 4 }; // a longer id
            if committed.line.len() + room > MAX_EVENT_BYTES {
                return Outcome::Refused(("LIMIT_EXCEEDED", ""), Some(index));
            }
            events.push(committed);
        }
        Outcome::Done(there)
    }

    /// Compares a refusal, or gives how many events had been there.
    fn agree(&self, at: usize, outcome: &Outcome, answer: &Answer, wanted: &[Wanted]) -> Option<usize> {
        match outcome {
            Outcome::Done(there) => {
                assert!(answer.is_ok(), "refused: {}\n{wanted:?}", answer.line);
                Some(*there)
            }
            Outcome::Refused((code, rule), index) => {
                let told = answer.refusal();
                assert_eq!(
                    told,
                    (*code, *rule),
                    "{}\n{wanted:?}\n{:?}",
                    answer.line,
                    self.sessions[at].events
                );
                answer.assert_alone();
                if let (Some(index), true) = (index, answer.is_batch) {
                    assert_eq!(answer.index(), Some(*index), "{}", answer.line);
                }
                None
            }
        }
    }

    /// Takes events into the model.
    fn commit(&mut self, at: usize, events: &[(Wanted, Option<String>)], time: i64) {
        assert!(time >= self.talk.time, "time goes back");
        self.talk.time = time;
        let session = &mut self.sessions[at];
        for (wanted, minted) in events {
            let seq = session.events.len();
            session.events.push(wanted.committed(seq, time, minted.as_deref()));
            session.given.push((seq, wanted.clone()));
        }
    }

    /// The events from `from` on were announced, one line each, before the answer and nothing else.
    fn announced(&self, at: usize, answer: &Answer, from: usize) {
        let session = &self.sessions[at];
        let lines: Vec<String> = session.events[from..]
            .iter()
            .map(|event| {
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"session/event\",\"params\":{{\"sessionId\":\"{}\",\"event\":{}}}}}",
                    session.id, event.line
                )
            })
            .collect();
        assert_eq!(answer.before, lines);
        assert_eq!(answer.after, [""; 0]);
    }

    fn batch(&mut self, at: usize, source: &mut Source<'_>) {
        let mut events = self.sessions[at].events.clone();
        let length = events.len();
        let mut both = Vec::new();
        for _ in 0..source.below(MAX_BATCH + 2) {
            let (sent, kept) = source.event(&events);
            if admit(&events, &kept, self.sessions[at].enforce, true).is_ok() {
                events.push(kept.committed(events.len(), self.talk.time, Some("msg-1")));
            }
            both.push((sent, kept));
        }
        let expected = match source.below(4) {
            2 => Some(length),
            3 => Some(source.below(length + 2)),
            _ => None,
        };
        self.batch_of(at, both, expected);
    }

    fn batch_of(&mut self, at: usize, both: Vec<(Wanted, Wanted)>, expected: Option<usize>) {
        let length = self.sessions[at].events.len();
        let sent: Vec<String> = both.iter().map(|(sent, _)| format!("{{{}}}", sent_members(sent))).collect();
        let kept: Vec<Wanted> = both.into_iter().map(|(_, kept)| kept).collect();
        let condition = expected.map_or(String::new(), |seq| format!(",\"expectedSeq\":{seq}"));
        let id = &self.sessions[at].id;
        let params = format!("{{\"sessionId\":\"{id}\",\"events\":[{}]{condition}}}", sent.join(","));
        let outcome = if kept.len() > MAX_BATCH {
            Outcome::Refused(("LIMIT_EXCEEDED", ""), None)
        } else {
            self.judge(at, &kept, expected, false)
        };
        let answer = self.talk.call("session/append_batch", &params);
        let Some(there) = self.agree(at, &outcome, &answer, &kept) else { return self.check(at, None) };
        assert_eq!(answer.number("firstSeq"), expected.unwrap_or(length) as i64);
        assert_eq!(answer.number("count"), kept.len() as i64);
        assert_eq!(answer.flag("duplicate"), !kept.is_empty() && there == kept.len());
        if there == kept.len() {
            answer.assert_alone();
        } else {
            // The ids that were minted are told by the announcements alone.
            let minted: Vec<Option<String>> =
                answer.before.iter().map(|line| talk::announced_id(line)).collect();
            assert_eq!(minted.len(), kept.len() - there);
            let fresh = kept.into_iter().skip(there).zip(minted);
            let fresh: Vec<_> = fresh
                .map(|(wanted, id)| {
                    let id = id.filter(|_| wanted.with_id("x").is_some());
                    (wanted, id)
                })
                .collect();
            let time = talk::announced_time(&answer.before[0]);
            self.commit(at, &fresh, time);
            self.announced(at, &answer, length);
        }
        self.check(at, None);
    }

    /// Appends events again that are there, and perhaps one that is not.
    fn repeat(&mut self, at: usize, source: &mut Source<'_>) {
        let session = &self.sessions[at];
        if session.given.is_empty() {
            return;
        }
        let from = source.below(session.given.len());
        let count = 1 + source.below(3);
        let mut both = Vec::new();
        let first = session.given[from].0;
        for (seq, wanted) in session.given[from..].iter().take(count) {
            if *seq == first + both.len() {
                both.push((wanted.clone(), wanted.clone()));
            }
        }
        // As it was, or different in one thing, or only looking different.
        let (sent, kept) = both.last_mut().expect("one at least");
        let toggled = |text: &Option<String>, other: &str| match text {
            Some(_) => None,
            None => Some(other.to_owned()),
        };
        match source.below(14) {
            7 => kept.sources = toggled(&kept.sources, "[0]"),
            8 => kept.op = toggled(&kept.op, "\"append\""),
            9 => kept.ignorable = if kept.ignorable.is_some() { None } else { Some("true") },
            10 => kept.data = source.odd_kept().to_owned(),
            11 => kept.name.push('x'),
            12 => kept.ignorable = Some("false"),
            13 => kept.ignorable = Some("1"),
            _ => {}
        }
        kept.spelled = None;
        *sent = Wanted { data: format!("\t{} ", kept.data), ..kept.clone() };
        if source.below(2) == 0 {
            both.push(source.event(&session.events));
        }
        self.batch_of(at, both, Some(first));
    }

    fn fork(&mut self, at: usize, source: &mut Source<'_>) {
        let parent = &self.sessions[at];
        let length = parent.events.len();
        let odd = ["null", "-1", "-0", "1.5", "\"0\"", "[]", "9007199254740992", "1e0", "0.0"];
        let boundary = match source.below(8) {
            0..=2 => None,
            3 => Some(source.pick(&odd).to_owned()),
            _ => Some(source.below(length + 1).to_string()),
        };
        let clipped = source.below(3) == 0;
        let mode = source.pick(&[None, None, Some(true), Some(false)]);
        let taken = source.once_in(12);
        if self.sessions.len() >= MAX_SESSIONS && !taken {
            return;
        }
        let child = if taken { self.sessions[0].id.clone() } else { format!("s{}", self.made + 1) };
        let mut params = format!("{{\"sessionId\":\"{}\",\"childSessionId\":\"{child}\"", parent.id);
        if let Some(boundary) = &boundary {
            params.push_str(&format!(",\"boundary\":{boundary}"));
        }
        if clipped {
            params.push_str(",\"onOpenTurn\":\"clip\"");
        }
        if let Some(enforce) = mode {
            params.push_str(&format!(",\"invariants\":\"{}\"", if enforce { "enforce" } else { "off" }));
        }
        params.push('}');
        let answer = self.talk.call("session/fork", &params);
        let cut = match (taken, self.sessions[at].live) {
            (true, _) => Err("SESSION_ALREADY_EXISTS"),
            (_, false) => Err("SESSION_NOT_FOUND"),
            _ => cut(&self.sessions[at].events, boundary.as_deref(), clipped),
        };
        let cut = match cut {
            Err(code) => return assert_eq!(answer.refusal().0, code, "{params}: {}", answer.line),
            Ok(cut) => cut,
        };
        let opened = answer.expect_ok();
        let shown = cut.checked_sub(1).map_or(-1, |seq| seq as i64);
        assert_eq!(opened.number_or("boundary", -1), shown, "{params}");
        self.made += 1;
        let parent = &self.sessions[at];
        let mut events = parent.events[..cut].to_vec();
        let given = parent.given.iter().filter(|(seq, _)| *seq < cut).cloned().collect();
        let enforce = mode.unwrap_or(parent.enforce);
        self.opened(opened, child, &mut events, cut, enforce, given);
    }

    /// A session that begins with events is live: they end in one marker, and that is all that is told.
    fn opened(
        &mut self,
        answer: &Answer,
        id: String,
        events: &mut Vec<Event>,
        inherited: usize,
        enforce: bool,
        given: Vec<(usize, Wanted)>,
    ) {
        if events.last().is_none_or(|event| event.name != "session/end-seed") {
            let marker = Wanted { name: "session/end-seed".into(), data: "{}".into(), ..Wanted::default() };
            let time = self.talk.time_of(&id, events.len());
            events.push(marker.committed(events.len(), time, None));
        }
        answer.assert_followed_by(&["session/created"]);
        assert_eq!(answer.number("nextSeq"), events.len() as i64, "{}", answer.line);
        assert_eq!(answer.number("inheritedEventCount"), inherited as i64);
        let enforce = enforce && trace(events).broken.is_none();
        assert_eq!(answer.text("invariants"), if enforce { "enforce" } else { "off" }, "{}", answer.line);
        let instance = answer.text("instanceId");
        assert!(self.sessions.iter().all(|session| session.instance != instance));
        let events = std::mem::take(events);
        self.sessions.push(Session { id, instance, live: true, events, inherited, enforce, given });
        self.check(self.sessions.len() - 1, None);
    }

    /// A snapshot, and a session made from it or from something like it.
    fn plant(&mut self, at: usize, source: &mut Source<'_>) {
        let session = &self.sessions[at];
        if !session.live || self.sessions.len() >= MAX_SESSIONS {
            return;
        }
        let clipped = source.below(2) == 0;
        let policy = if clipped { ",\"onOpenTurn\":\"clip\"" } else { "" };
        let answer =
            self.talk.call("session/snapshot", &format!("{{\"sessionId\":\"{}\"{policy}}}", session.id));
        let cut = match cut(&session.events, None, clipped) {
            Err(code) => return assert_eq!(answer.refusal().0, code),
            Ok(cut) => cut,
        };
        let result = answer.expect_ok().result();
        let seed = member(result, "seed").unwrap();
        assert_eq!(parts(seed), session.events[..cut].iter().map(|event| &*event.line).collect::<Vec<_>>());
        let meta = member(result, "meta").unwrap();
        // As it is; or an import; or with one event missing.
        let (lineage, missing) =
            (source.below(4) != 0, if source.below(3) == 0 { source.below(cut + 1) } else { cut });
        let mut events: Vec<Event> = session.events[..cut].to_vec();
        if missing < cut {
            events.remove(missing);
        }
        let enforce = source.below(3) != 0;
        let id = format!("s{}", self.made + 1);
        let lines: Vec<&str> = events.iter().map(|event| &*event.line).collect();
        let mode = if enforce { "enforce" } else { "off" };
        let meta = if lineage { format!(",\"meta\":{meta}") } else { String::new() };
        let params = format!(
            "{{\"sessionId\":\"{id}\",\"seed\":[{}],\"invariants\":\"{mode}\"{meta}}}",
            lines.join(",")
        );
        let answer = self.talk.call("session/new", &params);
        for (index, event) in events.iter().enumerate() {
            let refused = if missing < cut && index >= missing {
                Err(("INVALID_EVENT", "SEED_SEQ"))
            } else {
                admit(&events[..index], &kept(event), enforce, false)
            };
            if let Err(rule) = refused {
                assert_eq!((answer.refusal(), answer.index()), (rule, Some(index)), "{params}");
                return;
            }
        }
        if lineage && cut > events.len() {
            return assert_eq!(answer.refusal().0, "INVALID_PARAMS"); // seedLength exceeds the seed
        }
        let opened = answer.expect_ok();
        self.made += 1;
        let given = self.sessions[at].given.iter().filter(|(seq, _)| *seq < events.len()).cloned().collect();
        let inherited = if lineage { cut } else { 0 };
        self.opened(opened, id, &mut events, inherited, enforce, given);
    }

    fn interrupt(&mut self, at: usize) {
        let answer =
            self.talk.call("session/interrupt", &format!("{{\"sessionId\":\"{}\"}}", self.sessions[at].id));
        if !self.sessions[at].live {
            return assert_eq!(answer.refusal().0, "SESSION_NOT_FOUND");
        }
        let length = self.sessions[at].events.len();
        let closing = closers(&self.sessions[at].events);
        let done = answer.expect_ok();
        assert_eq!((done.number("firstSeq"), done.number("count")), (length as i64, closing.len() as i64));
        if let Some(line) = answer.before.first() {
            let time = talk::announced_time(line);
            assert!(time >= self.talk.time);
            self.talk.time = time;
            self.close_turn(at, time);
        }
        self.announced(at, &answer, length);
        self.check(at, None);
    }

    fn close_turn(&mut self, at: usize, time: i64) -> usize {
        let events = &mut self.sessions[at].events;
        let closing = closers(events);
        let count = closing.len();
        for (name, data, op, sources) in closing {
            let op = op.map(str::to_owned);
            let wanted = Wanted { name: name.to_owned(), data, op, sources, ..Wanted::default() };
            events.push(wanted.committed(events.len(), time, None));
        }
        count
    }

    fn close(&mut self, at: usize) {
        let answer =
            self.talk.call("session/close", &format!("{{\"sessionId\":\"{}\"}}", self.sessions[at].id));
        assert_eq!(answer.expect_ok().result(), "{}");
        let told = usize::from(std::mem::take(&mut self.sessions[at].live));
        assert_eq!(answer.before.len(), told, "{:?}", answer.before);
        self.check(at, None);
    }

    fn load(&mut self, at: usize, source: &mut Source<'_>) {
        let method = source.pick(&["session/load", "session/resume"]);
        let enforce = source.below(2) == 0;
        let mode = if enforce { "enforce" } else { "off" };
        let id = self.sessions[at].id.clone();
        let answer = self.talk.call(method, &format!("{{\"sessionId\":\"{id}\",\"invariants\":\"{mode}\"}}"));
        let opened = answer.expect_ok();
        let instance = opened.text("instanceId");
        if self.sessions[at].live {
            assert_eq!(instance, self.sessions[at].instance);
            answer.assert_alone();
        } else {
            let time = self.sessions[at].events.last().map_or(0, |event| event.time);
            let closed = self.close_turn(at, time);
            let repaired = member(opened.result(), "repaired").map(str::to_owned);
            let wanted =
                (closed > 0).then(|| format!("{{\"closers\":{closed},\"cutBytes\":0,\"cutEvents\":0}}"));
            assert_eq!(repaired, wanted);
            answer.assert_followed_by(&["session/created"]);
            assert!(self.sessions.iter().all(|session| session.instance != instance));
            let session = &mut self.sessions[at];
            session.enforce = enforce && trace(&session.events).broken.is_none();
            (session.live, session.instance) = (true, instance);
        }
        let session = &self.sessions[at];
        assert_eq!(opened.number("nextSeq"), session.events.len() as i64);
        assert_eq!(opened.number("inheritedEventCount"), session.inherited as i64);
        assert_eq!(opened.text("invariants"), if session.enforce { "enforce" } else { "off" });
        self.check(at, None);
    }

    fn read(&mut self, at: usize, source: &mut Source<'_>) {
        let through = source.below(self.sessions[at].events.len() + 1);
        self.check(at, Some(through));
    }

    /// The surface as it was after each event.
    fn past(&mut self, at: usize) {
        let session = self.sessions[at].clone();
        for seq in (0..session.events.len()).filter(|_| session.live) {
            let params = format!("{{\"sessionId\":\"{}\",\"throughSeq\":{seq}}}", session.id);
            let seen = self.talk.call("session/surface", &params);
            let (nodes, generation) = surface(&session.events[..=seq]);
            let nodes: Vec<String> = nodes.iter().map(usize::to_string).collect();
            let wanted = format!(
                "{{\"nodes\":[{}],\"replaceGeneration\":{generation},\"nextSeq\":{}}}",
                nodes.join(","),
                seq + 1
            );
            assert_eq!(seen.expect_ok().result(), wanted);
        }
    }

    /// Everything that can be read of a session, now or as it was after the event `through`.
    fn check(&mut self, at: usize, through: Option<usize>) {
        let session = self.sessions[at].clone();
        let id = &session.id;
        let when = through.map_or(String::new(), |seq| format!(",\"throughSeq\":{seq}"));
        let params = format!("{{\"sessionId\":\"{id}\"{when}}}");
        let seen = self.talk.call("session/surface", &params);
        if !session.live {
            return assert_eq!(seen.refusal().0, "SESSION_NOT_FOUND");
        }
        let length = through.map_or(session.events.len(), |seq| seq + 1);
        if length > session.events.len() {
            return assert_eq!(seen.refusal().0, "INVALID_BOUNDARY");
        }
        let events = &session.events[..length];
        let (nodes, generation) = surface(events);
        let numbers: Vec<String> = nodes.iter().map(usize::to_string).collect();
        let wanted = format!(
            "{{\"nodes\":[{}],\"replaceGeneration\":{generation},\"nextSeq\":{length}}}",
            numbers.join(",")
        );
        assert_eq!(seen.expect_ok().result(), wanted, "{events:?}");
        let told = messages(events);
        let seen = self.talk.call("session/request", &params);
        let (header, context) = (last(events, "request/header"), last(events, "request/context"));
        let header_seq = header.map_or("null".to_owned(), |seq| seq.to_string());
        let text = header.map_or("null".to_owned(), |seq| canonical(&events[seq]));
        let reason = header.and_then(|seq| member(&events[seq].data, "reason")).unwrap_or("null");
        let context = context.map_or("null", |seq| {
            let data = &*events[seq].data;
            if data.starts_with('{') { data } else { "{}" }
        });
        let wanted = format!(
            "{{\"header\":{text},\"headerSeq\":{header_seq},\"reason\":{reason},\"context\":{context},\"messages\":[{}],\"nextSeq\":{length}}}",
            told.join(",")
        );
        assert_eq!(seen.expect_ok().result(), wanted);
        if through.is_none() {
            self.check_all(&session, generation, nodes.len());
        }
    }

    /// The whole log, and where it stands.
    fn check_all(&mut self, session: &Session, generation: u64, nodes: usize) {
        let (id, events) = (&session.id, &session.events);
        let seen = self.talk.call("session/events", &format!("{{\"sessionId\":\"{id}\"}}"));
        let lines: Vec<&str> = events.iter().map(|event| &*event.line).collect();
        assert_eq!(array(seen.expect_ok().result(), "events"), lines);
        assert_eq!(seen.number("nextSeq"), events.len() as i64);
        let info = self.talk.call("session/info", &format!("{{\"sessionId\":\"{id}\"}}"));
        let info = info.expect_ok();
        assert_eq!(info.text("instanceId"), session.instance);
        assert_eq!(info.number("inheritedEventCount"), session.inherited as i64);
        assert_eq!(
            (info.number("surfaceLength"), info.number("replaceGeneration")),
            (nodes as i64, generation as i64)
        );
        let trace = trace(events);
        let open = member(info.result(), "openTurn").unwrap();
        let turn = open_turn(events).map(|seq| turn_number(events, seq).to_string());
        assert_eq!(open, turn.as_deref().unwrap_or("null"));
        if trace.broken.is_none() {
            let step = member(info.result(), "openStep").unwrap();
            match trace.step {
                log::Mark::Number(number) => assert_eq!(step.parse::<f64>().unwrap(), number),
                _ => assert_eq!(step, "null"),
            }
        }
        let warned = info.result().contains(" breaks INV_");
        assert_eq!(warned, trace.broken.is_some(), "{}", info.line);
        if let Some((seq, rule)) = trace.broken {
            assert!(info.result().contains(&format!("event {seq} breaks {rule}")), "{}", info.line);
        }
    }

    /// Pages of the log and of the messages.
    fn page(&mut self, at: usize, source: &mut Source<'_>) {
        let session = self.sessions[at].clone();
        if !session.live {
            return;
        }
        let (id, length) = (&session.id, session.events.len());
        let (from, to) = (source.below(length + 2), source.below(length + 2));
        let (reverse, own, limit) = (source.below(2) == 1, source.once_in(4), 1 + source.below(4));
        let only = source.pick(&["", "turn/start", "user/message", "assistant/message"]);
        let types = if only.is_empty() { String::new() } else { format!(",\"types\":[\"{only}\"]") };
        let first = from.min(length).max(if own { session.inherited } else { 0 });
        let last = to.min(length).max(first);
        let mut wanted: Vec<&str> = session.events[first..last]
            .iter()
            .filter(|event| only.is_empty() || event.name == only)
            .map(|event| &*event.line)
            .collect();
        if reverse {
            wanted.reverse();
        }
        let (mut got, mut next) = (Vec::new(), None);
        for _ in 0..=length {
            let (from, to) = match next {
                None => (from as i64, to as i64),
                Some(next) if reverse => (from as i64, next),
                Some(next) => (next, to as i64),
            };
            let params = format!(
                "{{\"sessionId\":\"{id}\",\"fromSeq\":{from},\"toSeq\":{to},\"reverse\":{reverse},\"own\":{own},\"limit\":{limit}{types}}}"
            );
            let page = self.talk.call("session/events", &params);
            let events = array(page.expect_ok().result(), "events");
            assert!(events.len() <= limit);
            got.extend(events.into_iter().map(str::to_owned));
            next = member(page.result(), "next").map(|next| next.parse().unwrap());
            if next.is_none() {
                break;
            }
        }
        assert_eq!(got, wanted);
        let (told, (_, generation)) = (messages(&session.events), surface(&session.events));
        let (asked, count) = (source.below(generation as usize + 2) as u64, source.below(told.len() + 2));
        let since = format!(",\"since\":{{\"replaceGeneration\":{asked},\"count\":{count}}}");
        let seen = self.talk.call("session/messages", &format!("{{\"sessionId\":\"{id}\"{since}}}"));
        let from = if asked == generation && count <= told.len() { count } else { 0 };
        assert_eq!(
            (seen.number("total"), seen.number("replaceGeneration")),
            (told.len() as i64, generation as i64)
        );
        assert_eq!(seen.number("nextSeq"), length as i64);
        assert_eq!(array(seen.expect_ok().result(), "messages"), told[from..]);
        assert_eq!(seen.number("fromIndex"), from as i64);
    }

    /// As a stored log it reads back to the same events, with nothing wrong.
    fn stored(&self, at: usize) {
        let session = &self.sessions[at];
        let lines: Vec<&str> = session.events.iter().map(|event| &*event.line).collect();
        talk::assert_reads_back(&session.id, session.inherited, &lines);
    }
}

/// Where a boundary cuts, or why it does not.
fn cut(events: &[Event], boundary: Option<&str>, clipped: bool) -> Result<usize, &'static str> {
    let end = match boundary {
        None | Some("null") => events.len(),
        Some(text) => {
            let seq = super::plain::tree_of(text).safe_int().filter(|seq| *seq >= 0);
            let seq = seq.filter(|seq| (*seq as usize) < events.len());
            seq.map(|seq| seq as usize + 1).ok_or("INVALID_BOUNDARY")?
        }
    };
    match open_turn(&events[..end]) {
        None => Ok(end),
        Some(_) if clipped => Ok(clip(&events[..end])),
        Some(_) => Err("OPEN_TURN"),
    }
}

/// The id that a repeated append is told again.
fn minted_for(wanted: &Wanted, event: &Event) -> Option<String> {
    event.minted.clone().filter(|_| wanted.with_id("x").is_some())
}

fn sent_members(wanted: &Wanted) -> String {
    let Wanted { data, op, sources, ignorable, .. } = wanted;
    let member =
        |name: &str, value: Option<&str>| value.map_or(String::new(), |value| format!(",\"{name}\":{value}"));
    format!(
        "\"type\":{},\"data\":{data}{}{}{}",
        wanted.type_text(),
        member("surfaceOp", op.as_deref()),
        member("sourceEventSeqs", sources.as_deref()),
        member("ignorable", *ignorable)
    )
}
