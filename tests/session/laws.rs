//! What holds of every session whatever agents do to it: a projection is the fold of its log, a fork is
//! the prefix, what an append accepts a seed accepts, a refusal leaves no trace, a batch is all or
//! nothing, a retry is idempotent.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;
use sessiond::json::Json;
use sessiond::log::{Offset, read_event};
use sessiond::protocol::WireError;
use sessiond::session::{
    Candidate, Expect, History, Interrupt, Interrupted, Limits, OnOpenTurn, Refusal, Restore, Rules,
    Validation,
};
use sessiond::view::{View, Watch};

use crate::support::bench::{Bench, Event, Making, Seen, array, folded, offset, plain_header};
use crate::support::plain::{Client, Plain};
use crate::support::traffic::{Act, KINDS, OPTIONAL, REQUIRED, Random, event_of};

/// What a wrong event can be told, by the rule or else by the code.
const RULES: [&str; 36] = [
    "LOSSY_JSON",
    "LIMIT_EXCEEDED",
    "UNKNOWN_EVENT_TYPE",
    "SEED_ENVELOPE",
    "LEGACY_MODE_SET",
    "LEGACY_SHAPE_MALFORMED",
    "MESSAGE_NO_ID",
    "HEADER_EVENT_NO_PROVIDER_MODEL",
    "SURFACE_OP_ON_LOG_ONLY",
    "SOURCES_ON_LOG_ONLY",
    "SURFACE_OP_MISSING",
    "SURFACE_OP_INVALID",
    "SURFACE_REPLACE_INVALID",
    "REPLACE_START_NOT_FOUND",
    "REPLACE_INVERTED",
    "SOURCES_NOT_ARRAY",
    "SOURCES_EMPTY",
    "SOURCES_BAD_SEQ",
    "SOURCES_DUPLICATE",
    "SOURCES_NOT_EARLIER",
    "SOURCES_MISSING_SHADOWED",
    "TOOL_REWRITE_CHANGED",
    "INV_TURN_ALREADY_OPEN",
    "INV_TURN_NUMBER",
    "INV_TURN_END_MISMATCH",
    "INV_TURN_END_STEP_OPEN",
    "INV_STEP_WRONG_TURN",
    "INV_STEP_ALREADY_OPEN",
    "INV_STEP_NUMBER",
    "INV_NOT_IN_OPEN_STEP",
    "INV_RESULT_WITHOUT_CALL",
    "INV_REWRITE_OUTSIDE_TURN",
    "INV_OUTSIDE_TURN",
    "TOOL_REWRITE_NOT_SINGLE",
    "TOOL_REWRITE_TARGET",
    "REPLACE_END_NOT_FOUND",
];

fn bench() -> Bench {
    let mut bench = Bench::default();
    bench.store.vocabulary_mut().declare(REQUIRED, true);
    bench.store.vocabulary_mut().declare(OPTIONAL, false);
    bench
}

fn mode(enforce: bool) -> Validation {
    if enforce { Validation::Enforce } else { Validation::Note }
}

fn acts(most: usize) -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec((0..KINDS, any::<u8>(), any::<u16>(), any::<u16>()), 0..most)
}

/// `LAWS` times as many cases, for a long look.
fn config(cases: u32) -> ProptestConfig {
    let times = std::env::var("LAWS").map_or(1, |times| times.parse().unwrap());
    ProptestConfig { cases: cases * times, failure_persistence: None, ..ProptestConfig::default() }
}

/// What the session said when its log was that long.
fn seen_at(bench: &Bench, id: &str, length: u64) -> Seen {
    let history = bench.session(id).history();
    Seen::of(history.log(), offset(length), &history.view_at(offset(length)))
}

proptest! {
    #![proptest_config(config(120))]

    #[test]
    fn projections_forks_seeds_and_the_past(enforce: bool, acts in acts(160), polls in any::<u64>()) {
        let mut bench = bench();
        bench.create("s", Making { invariants: mode(enforce), ..Making::default() }).unwrap();
        let (mut plain, mut client) = (Plain::default(), Client::default());
        let mut past = vec![bench.seen("s")];
        let mut children: Vec<(String, Seen)> = Vec::new();
        for (at, act) in acts.into_iter().enumerate() {
            let event = event_of(act, bench.session("s"));
            let before = past.last().unwrap();
            match bench.append("s", &event) {
                Err(_) => prop_assert_eq!(&bench.seen("s"), before, "a refusal leaves a trace: {:?}", event),
                Ok(appended) => {
                    prop_assert_eq!(appended.seq.get() as usize + 1, past.len());
                    let seen = bench.seen("s");
                    prop_assert_eq!(&seen, &folded(&bench, "s"));
                    prop_assert_eq!(&seen.lines[..seen.lines.len() - 1], &before.lines[..]);
                    plain.push(seen.lines.last().unwrap());
                    plain.assert_is(&seen);
                    past.push(seen);
                }
            }
            if polls >> (at % 64) & 1 == 1 {
                // What is followed as the log grows is what a look at the whole of it says.
                let told = bench.store.session_mut("s").unwrap().warnings();
                let session = bench.session("s");
                prop_assert_eq!(told, Watch::default().warnings(session.history().log(), session.view()));
                client.poll(&bench, "s");
                prop_assert_eq!(&client.messages, &past.last().unwrap().messages);
            }
            // A fork wherever one may be, and nothing of it changes when the parent goes on.
            let (_, _, b, c) = act;
            if c % 8 == 0 && past.len() > 1 {
                let boundary = u64::from(b) % (past.len() as u64 - 1);
                let wanted = &past[boundary as usize + 1];
                let child = format!("k{}", children.len());
                let forked = bench.fork("s", None, Some(&boundary.to_string()), Some(&child), OnOpenTurn::Reject);
                match forked {
                    Err(Refusal::OpenTurn { .. }) => {
                        prop_assert!(wanted.open_turn.is_some());
                        let clipped = bench.fork("s", None, Some(&boundary.to_string()), Some(&child), OnOpenTurn::Clip);
                        let cut = clipped.unwrap().1;
                        prop_assert_eq!(cut, wanted.last_turn_end.map_or(0, |seq| seq + 1));
                        prop_assert!(past[cut as usize].open_turn.is_none());
                        prop_assert_eq!(&seen_at(&bench, &child, cut), &past[cut as usize]);
                    }
                    Err(other) => return Err(TestCaseError::fail(other.to_string())),
                    Ok((_, cut)) => {
                        prop_assert!(wanted.open_turn.is_none());
                        prop_assert_eq!(cut, boundary + 1);
                        prop_assert_eq!(&seen_at(&bench, &child, cut), wanted);
                    }
                }
                let seen = bench.seen(&child);
                prop_assert_eq!(&seen, &folded(&bench, &child));
                prop_assert!(seen.lines.last().unwrap().contains("\"session/end-seed\""));
                let session = bench.session(&child);
                prop_assert!(session.next_seq().get() - session.inherited_event_count().get() <= 1);
                children.push((child, seen));
            }
        }
        for (length, seen) in past.iter().enumerate() {
            prop_assert_eq!(&seen_at(&bench, "s", length as u64), seen);
        }
        for (child, seen) in &children {
            prop_assert_eq!(&bench.seen(child), seen);
            for (length, seen) in past.iter().enumerate().take(bench.session(child).inherited_event_count().get() as usize) {
                prop_assert_eq!(&seen_at(&bench, child, length as u64), seen);
            }
        }
        // What the appends accepted is a seed, of the same log and the same meaning.
        let all = past.last().unwrap();
        let seed = array(&all.lines);
        bench.create("planted", Making { seed: Some(&seed), invariants: mode(enforce), ..Making::default() }).unwrap();
        prop_assert_eq!(&seen_at(&bench, "planted", all.lines.len() as u64), all);
        prop_assert_eq!(bench.session("planted").invariants(), bench.session("s").invariants());
        // Read back from storage it is the same log, and nothing is added.
        let mut history = History::default();
        let rules = Rules { vocabulary: bench.store.vocabulary(), limits: bench.store.limits() };
        for line in &all.lines {
            let (value, checks) = Json::parse(line).unwrap();
            let (_, time, draft) = read_event(value, checks.needs_compaction).unwrap();
            history.admit_stored(&Candidate::stored(draft, value, checks), time, rules).unwrap();
        }
        let header = plain_header("restored");
        let restore = Restore { header, inherited: Offset::ZERO, history, invariants: mode(enforce), mended: None };
        let (store, mut moment) = bench.tick();
        store.restore(restore, &mut moment).unwrap();
        prop_assert_eq!(&bench.seen("restored"), all);
        prop_assert_eq!(bench.session("restored").invariants(), bench.session("s").invariants());
        // What was never written can be taken back, to any length.
        let mut length = all.lines.len() as u64;
        while length > 0 {
            length = length * 2 / 3;
            bench.store.session_mut("s").unwrap().retract(offset(length));
            prop_assert_eq!(&bench.seen("s"), &past[length as usize]);
        }
        bench.store.session_mut("planted").unwrap().refold();
        prop_assert_eq!(&seen_at(&bench, "planted", all.lines.len() as u64), all);
        for (child, seen) in &children {
            prop_assert_eq!(&bench.seen(child), seen, "a child keeps what its parent takes back");
        }
    }

    #[test]
    fn a_child_goes_on_as_its_parent_would(enforce: bool, before in acts(60), after in acts(40)) {
        let mut bench = bench();
        bench.create("s", Making { invariants: mode(enforce), ..Making::default() }).unwrap();
        for act in before {
            let event = event_of(act, bench.session("s"));
            let _ = bench.append("s", &event);
        }
        bench.fork("s", None, None, Some("kid"), OnOpenTurn::Clip).unwrap();
        // The same as a session of its own, made from the snapshot (PROTOCOL 3, Snapshot = seed).
        let kid = bench.session("kid");
        let (count, lines) = (kid.inherited_event_count().get(), bench.seen("kid").lines);
        let seed = array(&lines[..count as usize]);
        let making = Making { seed: Some(&seed), seed_length: Some(count), parent: Some("s"), invariants: mode(enforce) };
        bench.create("twin", making).unwrap();
        prop_assert_eq!(bench.session("twin").inherited_event_count().get(), count);
        prop_assert!(bench.session("twin").header().is_seeded);
        for act in after {
            let event = event_of(act, bench.session("kid"));
            let (kid, twin) = (bench.append("kid", &event), bench.append("twin", &event));
            prop_assert_eq!(kid.map_err(told).map(|done| done.seq), twin.map_err(told).map(|done| done.seq));
        }
        let normal = |seen: Seen| seen.lines.iter().map(|line| timeless(line)).collect::<Vec<_>>();
        prop_assert_eq!(normal(bench.seen("kid")), normal(bench.seen("twin")));
        prop_assert_eq!(bench.seen("kid").nodes, bench.seen("twin").nodes);
    }

    /// A fork leaves its parent's states of what lies beyond the boundary behind, and a log that was cut its own: the
    /// past that grows there instead is told of by its own events.
    #[test]
    fn what_grows_behind_a_cut_has_its_own_past(
        enforce: bool, before in acts(100), boundary: u16, keep: u16, after in acts(100), again in acts(60)
    ) {
        let mut bench = bench();
        bench.create("s", Making { invariants: mode(enforce), ..Making::default() }).unwrap();
        let go_on = |bench: &mut Bench, id: &str, acts: Vec<Act>| {
            for act in acts {
                let event = event_of(act, bench.session(id));
                let _ = bench.append(id, &event);
            }
        };
        let assert_past = |bench: &Bench, id: &str| {
            let log = bench.session(id).history().log();
            let mut view = View::default();
            for event in log.iter() {
                assert_eq!(seen_at(bench, id, event.seq().get()), Seen::of(log, event.seq().before(), &view));
                view.follow(event);
            }
            assert_eq!(bench.seen(id), Seen::of(log, log.len(), &view));
        };
        go_on(&mut bench, "s", before);
        if let Some(last) = bench.session("s").next_seq().last() {
            let boundary = (u64::from(boundary) % last.after().get()).to_string();
            bench.fork("s", None, Some(&boundary), Some("kid"), OnOpenTurn::Clip).unwrap();
        } else {
            bench.fork("s", None, None, Some("kid"), OnOpenTurn::Clip).unwrap();
        }
        go_on(&mut bench, "kid", after);
        assert_past(&bench, "kid");
        for id in ["s", "kid"] {
            let length = bench.session(id).next_seq().get();
            bench.store.session_mut(id).unwrap().retract(offset(u64::from(keep) % (length + 1)));
            go_on(&mut bench, id, again.clone());
            assert_past(&bench, id);
        }
    }

    #[test]
    fn an_interrupt_closes_the_turn(enforce: bool, acts in acts(60)) {
        let mut bench = bench();
        bench.create("s", Making { invariants: mode(enforce), ..Making::default() }).unwrap();
        for act in acts {
            let event = event_of(act, bench.session("s"));
            let _ = bench.append("s", &event);
        }
        let before = bench.seen("s");
        let closers = bench.session("s").history().closer_lines();
        let (store, mut moment) = bench.tick();
        let interrupt = Interrupt { session: "s", instance: None };
        let Interrupted { first, count } = store.interrupt(interrupt, &mut moment).unwrap();
        prop_assert_eq!((first.get(), count), (before.lines.len() as u64, closers.len() as u64));
        let after = bench.seen("s");
        prop_assert_eq!(&after, &folded(&bench, "s"));
        prop_assert_eq!(&after.lines[..before.lines.len()], &before.lines[..]);
        let own: Vec<_> = after.lines[before.lines.len()..].iter().map(|line| timeless(line)).collect();
        prop_assert_eq!(own, closers.iter().map(|line| timeless(line)).collect::<Vec<_>>());
        prop_assert_eq!(count > 0, before.open_turn.is_some());
        prop_assert_eq!(&after.open_turn, &None);
        // A step outside any turn is no turn to close.
        prop_assert!(after.open_step.is_none() || count == 0 && before.broken.is_some());
        prop_assert!(bench.session("s").history().closer_lines().is_empty());
        // The relations hold after it if they held before: it can be planted, and go on.
        prop_assert_eq!(&after.broken, &before.broken);
        let seed = array(&after.lines);
        bench.create("planted", Making { seed: Some(&seed), invariants: mode(enforce), ..Making::default() }).unwrap();
        bench.fork("s", None, None, None, OnOpenTurn::Reject).unwrap();
    }

    #[test]
    fn a_batch_is_its_events_or_nothing(enforce: bool, before in acts(40), batch in acts(12), keep in any::<u8>()) {
        let mut bench = bench();
        for id in ["one by one", "batch"] {
            bench.create(id, Making { invariants: mode(enforce), ..Making::default() }).unwrap();
        }
        for act in before {
            let event = event_of(act, bench.session("batch"));
            let same = bench.append("batch", &event).is_ok() == bench.append("one by one", &event).is_ok();
            prop_assert!(same);
        }
        let start = bench.seen("batch");
        let first = start.lines.len() as u64;
        let (mut events, mut stop) = (Vec::new(), None);
        for act in batch {
            let event = event_of(act, bench.session("one by one"));
            let done = bench.append("one by one", &event);
            events.push(event);
            if let Err(refusal) = done {
                stop = Some(refusal);
                break;
            }
        }
        match (bench.batch("batch", &events, Some(first)), stop) {
            (Err(Refusal::At { index, cause }), Some(refusal)) => {
                prop_assert_eq!(index + 1, events.len());
                prop_assert_eq!(told(*cause), told(refusal));
                prop_assert_eq!(&bench.seen("batch"), &start);
            }
            (Ok(done), None) => {
                let count = events.len() as u64;
                prop_assert_eq!((done.first.get(), done.count, done.committed.get()), (first, count, first));
                let seen = bench.seen("batch");
                let normal = |lines: &[String]| lines.iter().map(|line| timeless(line)).collect::<Vec<_>>();
                prop_assert_eq!(normal(&seen.lines), normal(&bench.seen("one by one").lines));
                prop_assert_eq!(&seen, &folded(&bench, "batch"));
                // Again: nothing happens. After a crash that kept a part: the rest is committed.
                let again = bench.batch("batch", &events, Some(first)).unwrap();
                prop_assert_eq!((again.duplicate(), again.first, again.count), (count > 0, done.first, count));
                prop_assert_eq!(&bench.seen("batch"), &seen);
                let kept = first + u64::from(keep) % (count + 1);
                bench.store.session_mut("batch").unwrap().retract(offset(kept));
                let rest = bench.batch("batch", &events, Some(first)).unwrap();
                prop_assert_eq!(rest.committed.get(), if kept == first + count { first + count } else { kept });
                prop_assert_eq!(normal(&bench.seen("batch").lines), normal(&seen.lines));
                if count > 0 {
                    let other = bench.batch("batch", &[Event::new("plan/mode", "\"other\"")], Some(first));
                    let conflict = matches!(other, Err(Refusal::SeqConflict { .. }));
                    prop_assert!(conflict);
                }
            }
            (done, stop) => return Err(TestCaseError::fail(format!("{done:?} {stop:?}"))),
        }
    }

    #[test]
    fn a_repeated_append_is_told_so(enforce: bool, acts in acts(80)) {
        let mut bench = bench();
        bench.create("s", Making { invariants: mode(enforce), ..Making::default() }).unwrap();
        let mut done: Vec<(Event, i64)> = Vec::new();
        for act in acts {
            let event = event_of(act, bench.session("s"));
            let next = done.len() as u64;
            let late = matches!(bench.append_at("s", &event, Some(next + 1)), Err(Refusal::SeqConflict { .. }));
            prop_assert!(late);
            if let Ok(appended) = bench.append_at("s", &event, Some(next)) {
                prop_assert!(!appended.duplicate);
                done.push((event, appended.time));
            }
        }
        let seen = bench.seen("s");
        for (at, (event, time)) in done.iter().enumerate() {
            if at + 1 == done.len() {
                prop_assert_eq!(bench.session("s").next_seq().get(), done.len() as u64);
            }
            let again = bench.append_at("s", event, Some(at as u64)).unwrap();
            prop_assert_eq!((again.seq.get(), again.time, again.duplicate), (at as u64, *time, true));
            // Any other event there is a conflict; white space is no difference.
            let other = Event { data: "\"other\"".to_owned(), ..event.clone() };
            let conflict = matches!(bench.append_at("s", &other, Some(at as u64)), Err(Refusal::SeqConflict { .. }));
            prop_assert!(conflict);
            let spaced = Event { data: format!(" {} ", event.data.replace("\":", "\" : ")), ..event.clone() };
            prop_assert!(bench.append_at("s", &spaced, Some(at as u64)).unwrap().duplicate);
        }
        prop_assert_eq!(bench.seen("s"), seen);
    }
}

/// A refusal as it is told, apart from the index in a batch.
fn told(refusal: Refusal) -> String {
    WireError::from(refusal).to_json()
}

/// A line without its time and with one name for every minted message id.
fn timeless(line: &str) -> String {
    let (head, rest) = line.split_once(",\"time\":").unwrap();
    let (_, rest) = rest.split_once(",\"data\":").unwrap();
    let (mut out, mut rest) = (format!("{head} {}", &rest[..0]), rest);
    while let Some(at) = rest.find("\"msg-") {
        out.push_str(&rest[..at]);
        rest = rest[at + 5..].trim_start_matches(|digit: char| digit.is_ascii_digit());
    }
    out + rest
}

/// The traffic of these laws gets somewhere: it breaks every rule and is accepted in every way.
#[test]
fn traffic_reaches_every_rule() {
    let mut random = Random(7);
    let (mut rules, mut accepted) = (BTreeMap::<String, u32>::new(), BTreeMap::<String, u32>::new());
    for round in 0..400 {
        let mut bench = bench();
        bench.create("s", Making { invariants: mode(round % 4 != 0), ..Making::default() }).unwrap();
        for _ in 0..80 {
            let kind = random.below(usize::from(KINDS)) as u8;
            let act =
                (kind, random.below(256) as u8, random.below(65_536) as u16, random.below(65_536) as u16);
            let event = event_of(act, bench.session("s"));
            match bench.append("s", &event) {
                Err(refusal) => {
                    let told: Value = serde_json::from_str(&told(refusal)).unwrap();
                    let data = &told["data"];
                    let rule = data["rule"].as_str().unwrap_or(data["code"].as_str().unwrap());
                    *rules.entry(rule.to_owned()).or_default() += 1;
                }
                Ok(_) => {
                    let replaces = event.surface_op.is_some_and(|op| op.contains("replace"));
                    *accepted
                        .entry(format!("{}{}", event.kind, if replaces { " replaces" } else { "" }))
                        .or_default() += 1;
                }
            }
        }
    }
    eprintln!("{accepted:?}\n{rules:?}");
    for rule in RULES {
        assert!(rules.contains_key(rule), "{rule} is never broken");
    }
    for kind in ["user/message", "assistant/message", "tool/result"] {
        assert!(accepted.get(&format!("\"{kind}\" replaces")).is_some_and(|count| *count > 100), "{kind}");
    }
    for kind in ["turn/end", "step/end", "tool/call", "tool/result", "request/header", OPTIONAL, REQUIRED] {
        assert!(accepted.get(&format!("\"{kind}\"")).is_some_and(|count| *count > 100), "{kind}");
    }
}

#[test]
fn limits_are_the_same_at_append_and_in_a_seed() {
    let limits = Limits { max_depth: 3, max_event_bytes: 200, ..Limits::default() };
    let mut bench = Bench { store: sessiond::session::Store::new(limits), ..Bench::default() };
    bench.store.vocabulary_mut().declare(OPTIONAL, false);
    let making = Making { invariants: Validation::Note, ..Making::default() };
    bench.create("s", making).unwrap();
    let line = |event: &Event, seq: u64, time: i64, more: &str| {
        format!("{{\"type\":{},\"seq\":{seq},\"time\":{time},\"data\":{}{more}}}", event.kind, event.data)
    };
    for (depth, fits) in [(1, true), (3, true), (4, false)] {
        let event = Event::new("plan/mode", format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        assert_eq!(bench.append("s", &event).is_ok(), fits, "{depth}");
        let seed = array(&[line(&event, 0, 1, "")]);
        let planted = bench.create("planted", Making { seed: Some(&seed), ..making });
        assert_eq!(planted.is_ok(), fits, "{depth}");
        if fits {
            bench.close("planted");
        }
    }
    // To the byte, with what the store itself writes into the event.
    for (kind, more) in [("plan/mode", ""), (OPTIONAL, ",\"ignorable\":true")] {
        let seq = bench.session("s").next_seq().get();
        let empty = line(&Event::new(kind, "\"\""), seq, bench.now + 1, more).len();
        for (extra, fits) in [(1, false), (0, true)] {
            let event = Event::new(kind, format!("\"{}\"", "x".repeat(200 - empty + extra)));
            let now = bench.now;
            assert_eq!(bench.append("s", &event).is_ok(), fits, "{kind} {extra}");
            assert_eq!(bench.now.to_string().len(), now.to_string().len());
        }
        let stored = bench.seen("s").lines.pop().unwrap();
        assert_eq!(stored.len(), 200);
    }
}

#[test]
fn expectations_are_about_the_whole_event() {
    let mut bench = bench();
    bench.create("s", Making::default()).unwrap();
    let minted = Event::new("user/message", r#"{"role":"user","content":[],"source":{"kind":"user"}}"#)
        .op("\"append\"");
    let done = bench.append_at("s", &minted, Some(0)).unwrap();
    assert_eq!(done.message_id.as_deref(), Some("msg-1"));
    let again = bench.append_at("s", &minted, Some(0)).unwrap();
    assert!(again.duplicate);
    assert_eq!(bench.session("s").next_seq(), Offset::ZERO.plus(1));
    let conflicts = [
        minted.clone().citing("[]"),
        Event { surface_op: None, ..minted.clone() },
        Event { ignorable: Some("true".to_owned()), ..minted.clone() },
        Event { kind: "\"plan/mode\"".to_owned(), ..minted.clone() },
    ];
    for other in conflicts {
        assert!(
            matches!(bench.append_at("s", &other, Some(0)), Err(Refusal::SeqConflict { .. })),
            "{other:?}"
        );
    }
    assert_eq!(Expect::default().seq, None);
}
