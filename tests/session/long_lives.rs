//! Sessions that live long, with thousands of replacements, forks, cuts and looks at the past: the surface is what a plain
//! list would be, and nothing is told of what a parent or a cut end held.

use sessiond::log::Seq;
use sessiond::session::{OnOpenTurn, Refusal, Validation};

use crate::support::bench::{Bench, Event, Making, folded, offset, seq};
use crate::support::traffic::{Random, user};

/// The states that a log keeps for looks at its past are its own: a child that has outgrown its parent by far tells
/// nothing of what the parent did behind the boundary, at whatever length it is asked.
#[test]
fn a_child_outgrows_its_parent() {
    let mut bench = Bench::default();
    bench.create("s", Making { invariants: Validation::Note, ..Making::default() }).unwrap();
    let message = Event::new("user/message", user(1)).op("\"append\"");
    let note = Event::new("todo/write", r#"{"todos":[]}"#);
    let go_on = |bench: &mut Bench, id: &str, event: &Event, count: usize| {
        bench.batch(id, &vec![event.clone(); count], None).unwrap();
    };
    go_on(&mut bench, "s", &message, 1_200);
    for boundary in [0, 3, 9, 40, 200, 505, 511, 512, 700] {
        bench.fork("s", None, Some(&boundary.to_string()), Some("kid"), OnOpenTurn::Reject).unwrap();
        let nodes = |bench: &Bench, at: u64| {
            bench
                .session("kid")
                .history()
                .view_at(offset(at))
                .surface
                .nodes()
                .map(Seq::get)
                .collect::<Vec<_>>()
        };
        let inherited: Vec<u64> = (0..=boundary).collect();
        go_on(&mut bench, "kid", &note, 3_000);
        for at in boundary + 1..=bench.session("kid").next_seq().get() {
            assert_eq!(nodes(&bench, at), inherited, "of {at} events, forked behind event {boundary}");
        }
        // Cut and grown anew, it is the same.
        let cut = boundary + 60;
        bench.store.session_mut("kid").unwrap().retract(offset(cut));
        go_on(&mut bench, "kid", &message, 1_500);
        for at in (cut..=bench.session("kid").next_seq().get()).step_by(7) {
            let own: Vec<u64> = inherited.iter().copied().chain(cut..at).collect();
            assert_eq!(nodes(&bench, at), own, "of {at} events, cut after {cut}");
        }
        bench.close("kid");
    }
}

/// An assistant's message without content: a node that gives no message.
const SILENT: &str = r#"{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[],"source":{"kind":"model","provider":"p","model":"m"}}}"#;

/// A session's list: its nodes and generation now, and what they were at some lengths.
type Life = (String, Vec<u64>, u64, Vec<(u64, Vec<u64>, u64)>);

/// Long lives: thousands of replacements at random ranges, forks and looks at the past in between.
#[test]
fn a_surface_is_a_plain_list() {
    let mut replaced = 0;
    for seed in 1..=3u64 {
        let mut random = Random(seed * 0x9E37_79B9);
        let mut bench = Bench::default();
        bench.create("s0", Making { invariants: Validation::Note, ..Making::default() }).unwrap();
        let mut lives: Vec<Life> = vec![("s0".to_owned(), Vec::new(), 0, vec![(0, Vec::new(), 0)])];
        for round in 0..12_000u64 {
            let (alive, which) = (lives.len(), random.below(lives.len()));
            let (id, nodes, generation, past) = &mut lives[which];
            let next = bench.session(id).next_seq().get();
            let dice = random.below(100);
            let silent = random.below(5) == 0;
            let event = if silent {
                Event::new("assistant/message", SILENT)
            } else {
                Event::new("user/message", user(round as u16))
            };
            // The list grows, shrinks and grows again.
            let replaces = if nodes.len() > 900 { 70 } else { 25 };
            if dice < replaces && !nodes.is_empty() {
                let first = random.below(nodes.len());
                let wide = if random.below(50) == 0 { nodes.len() } else { 6 };
                let last = (first + random.below(wide)).min(nodes.len() - 1);
                let op = format!(r#"{{"op":"replace","start":{},"end":{}}}"#, nodes[first], nodes[last]);
                let event = event.op(op).citing(format!("{:?}", &nodes[first..=last]));
                assert_eq!(bench.append(id, &event).unwrap().seq.get(), next);
                nodes.splice(first..=last, [next]);
                *generation += 1;
                replaced += 1;
            } else if dice < 97 {
                assert_eq!(bench.append(id, &event.op(r#""append""#)).unwrap().seq.get(), next);
                nodes.push(next);
            } else if dice == 97 && alive < 6 {
                let cut = past[random.below(past.len())].clone();
                if cut.0 > 0 {
                    let child = format!("s{}", lives.len());
                    let parent = lives[which].0.clone();
                    bench
                        .fork(&parent, None, Some(&(cut.0 - 1).to_string()), Some(&child), OnOpenTurn::Reject)
                        .unwrap();
                    let shared =
                        lives[which].3.iter().filter(|(length, ..)| *length <= cut.0).cloned().collect();
                    lives.push((child, cut.1, cut.2, shared));
                }
            } else {
                // A node that is gone is not found, whatever it was.
                let gone = random.below(next as usize) as u64;
                if !nodes.contains(&gone) {
                    let op = format!(r#"{{"op":"replace","start":{gone},"end":{gone}}}"#);
                    assert!(bench.append(id, &event.op(op).citing(format!("[{gone}]"))).is_err());
                }
            }
            let (id, nodes, generation, past) = &mut lives[which];
            let session = bench.session(id);
            let surface = &session.view().surface;
            assert_eq!((surface.len(), surface.replace_generation()), (nodes.len(), *generation));
            if round % 16 == 0 {
                assert!(surface.nodes().map(|seq| seq.get()).eq(nodes.iter().copied()), "{id}");
                let speaks = |node: &&u64| {
                    let line = session.history().log().get(seq(**node)).unwrap().line();
                    !line.contains("assistant")
                };
                let messages: Vec<u64> = nodes.iter().filter(speaks).copied().collect();
                let from = random.below(messages.len() + 1);
                assert!(surface.message_seqs(from).map(|seq| seq.get()).eq(messages[from..].iter().copied()));
                assert_eq!(surface.message_count(), messages.len());
                past.push((session.next_seq().get(), nodes.clone(), *generation));
                let (length, was, generation) = &past[random.below(past.len())];
                let then = session.history().view_at(offset(*length)).surface;
                assert!(then.nodes().map(|seq| seq.get()).eq(was.iter().copied()), "{id} at {length}");
                assert_eq!(then.replace_generation(), *generation);
            }
        }
        for (id, nodes, ..) in &lives {
            assert!(bench.session(id).view().surface.nodes().map(|seq| seq.get()).eq(nodes.iter().copied()));
            assert_eq!(bench.seen(id), folded(&bench, id));
        }
    }
    assert!(replaced > 5_000, "{replaced}");
}

#[test]
fn a_session_is_found_by_its_id_whichever_was_written_to_last() {
    let mut bench = Bench::default();
    let event = Event::new("plan/mode", "{}");
    for id in ["a", "b", "c"] {
        bench.create(id, Making::default()).unwrap();
    }
    let mut lengths = std::collections::BTreeMap::new();
    for id in ["b", "b", "a", "c", "b", "a"] {
        let length = lengths.entry(id).or_insert(0);
        assert_eq!(bench.append(id, &event).unwrap().seq, seq(*length), "{id}");
        *length += 1;
    }
    // The one that was written to last goes, and another takes its room.
    bench.close("a");
    let is_gone = |bench: &mut Bench, id: &str| matches!(bench.append(id, &event), Err(Refusal::NotFound(_)));
    assert!(is_gone(&mut bench, "a"));
    bench.create("d", Making::default()).unwrap();
    assert!(is_gone(&mut bench, "a"));
    assert_eq!(bench.append("d", &event).unwrap().seq, seq(0));
    assert!(is_gone(&mut bench, "a"));
    for (id, length) in [("b", 3), ("c", 1), ("d", 1)] {
        assert_eq!(bench.append(id, &event).unwrap().seq, seq(length), "{id}");
        bench.close(id);
        assert!(is_gone(&mut bench, id), "{id}");
    }
}
