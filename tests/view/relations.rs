//! Do turns, steps, calls and results fit together?

use proptest::prelude::*;
use sessiond::log::{Log, Offset};
use sessiond::view::{Reading, Relations};

use crate::view_support::{log_of, ops, seq, texts, with_draft};

fn fold(log: &Log) -> Relations {
    let mut relations = Relations::new();
    for event in log.iter() {
        relations.apply(event.seq(), &Reading::of_event(event).fact);
    }
    relations
}

#[test]
fn the_first_violation_is_upstreams() {
    for (case, op) in ops(&["11", "24"]) {
        if op["op"] != "invariantCheck" {
            continue;
        }
        let relations = fold(&log_of(&texts(&op, "eventsJsonl")));
        let expected = &op["expect"]["ok"]["violation"];
        let found = relations.broken().map(|broken| (broken.seq.get(), broken.error.rule()));
        let expected = expected["class"].as_str().map(|class| (expected["index"].as_u64().unwrap(), class));
        assert_eq!(found, expected, "{case}");
    }
}

/// A line with that seq.
fn line(seq: usize, kind: &str, data: &str, more: &str) -> String {
    format!(r#"{{"type":"{kind}","seq":{seq},"time":0,"data":{data}{more}}}"#)
}

fn log(events: &[(&str, &str)]) -> Log {
    let append = r#","surfaceOp":"append""#;
    let lines = events.iter().enumerate().map(|(at, (kind, data))| {
        let surface = matches!(*kind, "user/message" | "assistant/message" | "tool/result");
        line(at, kind, data, if surface { append } else { "" })
    });
    log_of(&lines.collect::<Vec<_>>())
}

const TURN_END: &str = r#"{"turn":1,"reason":{"kind":"completed"}}"#;
const STEP: &str = r#"{"turn":1,"step":1}"#;

#[test]
fn a_clip_goes_back_to_the_last_completed_turn() {
    let state = fold(&log(&[("turn/start", r#"{"turn":1.0}"#), ("step/start", STEP)]));
    let open = state.open_turn().unwrap();
    assert_eq!((open.seq, open.number.to_string()), (seq(0), "1".to_owned()));
    assert_eq!(state.open_step().map(|open| (open.seq, open.number.to_string())), Some((seq(1), "1".into())));
    assert_eq!(state.clip(Offset::new(2).unwrap()), Offset::ZERO);

    let state =
        fold(&log(&[("turn/start", r#"{"turn":1}"#), ("turn/end", TURN_END), ("session/end-seed", "{}")]));
    assert_eq!(state.clip(Offset::new(3).unwrap()).get(), 3);

    // Only the last marker counts, whatever the numbers say.
    let state = fold(&log(&[
        ("turn/end", "null"),
        ("plan/mode", "{}"),
        ("turn/start", "5"),
        ("turn/start", r#"{"turn":"x"}"#),
    ]));
    assert_eq!(state.open_turn().map(|open| (open.seq, open.number.to_string())), Some((seq(3), "2".into())));
    assert_eq!(state.clip(Offset::new(4).unwrap()).get(), 1);
    assert_eq!(state.last_turn_end(), Some(seq(0)));
    assert_eq!(state.broken().map(|broken| broken.seq), Some(seq(0)));
}

#[test]
fn null_is_what_is_open_when_nothing_is() {
    let state = fold(&log(&[
        ("assistant/chunk", r#"{"turn":null,"step":null}"#),
        ("step/start", r#"{"turn":null,"step":1}"#),
        ("turn/start", r#"{"turn":1}"#),
        ("assistant/chunk", STEP),
    ]));
    assert!(state.broken().is_none());
}

fn call(id: &str) -> String {
    format!(r#"{{"turn":1,"step":1,"callId":{id}}}"#)
}

fn result(id: &str) -> String {
    format!(r#"{{"turn":1,"step":1,"message":{{"source":{{"kind":"tool","callId":{id}}},"content":[]}}}}"#)
}

#[test]
fn a_result_must_come_in_the_step_of_its_call() {
    let events = [
        ("turn/start", r#"{"turn":1}"#),
        ("step/start", STEP),
        ("tool/call", &call(r#""a""#)),
        ("step/end", STEP),
        ("step/start", r#"{"turn":1,"step":2}"#),
        ("tool/result", &result(r#""a""#).replace(r#""step":1"#, r#""step":2"#)),
    ];
    let state = fold(&log(&events));
    let broken = state.broken().unwrap();
    assert_eq!((broken.seq, broken.error.rule()), (seq(5), "INV_RESULT_WITHOUT_CALL"));
    assert_eq!(
        broken.error.to_string(),
        "tool/result for the call \"a\", which this step has not started; append its tool/call first"
    );
    assert!(state.waiting_calls().next().is_none());
}

/// FORMAT 10 written down plainly, to hold the state machine to.
#[derive(Default)]
struct Model {
    turn: Option<u32>,
    step: Option<u32>,
    turns: u32,
    steps: u32,
    pending: Vec<u32>,
}

impl Model {
    fn take(&mut self, kind: &str, turn: u32, step: u32, id: u32) -> bool {
        let here = self.turn == Some(turn) && self.step == Some(step);
        let fits = match kind {
            "turn/start" => self.turn.is_none() && turn == self.turns + 1,
            "turn/end" => self.turn == Some(turn) && self.step.is_none(),
            "step/start" => self.turn == Some(turn) && self.step.is_none() && step == self.steps + 1,
            "todo/write" => self.turn.is_some(),
            "user/message" => true,
            "tool/result" => here && self.pending.contains(&id),
            _ => here,
        };
        if fits {
            match kind {
                "turn/start" => (self.turn, self.steps) = (Some(turn), 0),
                "turn/end" => (self.turn, self.turns) = (None, self.turns + 1),
                "step/start" => self.step = Some(step),
                "step/end" => {
                    (self.step, self.steps) = (None, self.steps + 1);
                    self.pending.clear();
                }
                "tool/call" => self.pending.push(id),
                "tool/result" => self.pending.retain(|other| *other != id),
                _ => {}
            }
        }
        fits
    }
}

const KINDS: [&str; 9] = [
    "turn/start",
    "turn/end",
    "step/start",
    "step/end",
    "assistant/chunk",
    "tool/call",
    "tool/result",
    "todo/write",
    "user/message",
];

proptest! {
    #[test]
    fn any_order_is_judged_as_the_rules_say(events in prop::collection::vec((0..KINDS.len(), 0..3u32, 0..3u32, 0..3u32, any::<bool>()), 0..120)) {
        let (mut model, mut state, mut next) = (Model::default(), Relations::new(), 0);
        for (kind, turn, step, id, steer) in events {
            let kind = KINDS[kind];
            // Half of the events are steered to numbers that fit, so that logs get somewhere.
            let (turn, step) = if steer {
                let turn = model.turn.unwrap_or(model.turns + 1);
                (turn, model.step.unwrap_or(model.steps + 1))
            } else {
                (turn, step)
            };
            let data = match kind {
                "tool/result" => format!(r#"{{"message":{{"source":{{"callId":"{id}"}},"content":[{{}}]}},"step":{step},"turn":{turn}}}"#),
                _ => format!(r#"{{"callId":"{id}","turn":{turn}.0,"x":[1,{{}}],"step":{step}e0}}"#),
            };
            with_draft(kind, &data, Some(r#""append""#), |draft, _| {
                let mut alone = Log::new();
                alone.push(&draft, 0);
                let fact = Reading::of_event(alone.last().unwrap()).fact;
                let fits = state.check(&fact).is_ok();
                assert_eq!(fits, model.take(kind, turn, step, id), "{kind} {data}");
                if fits {
                    state.apply(seq(next), &fact);
                    next += 1;
                }
            });
            prop_assert_eq!(state.open_turn().map(|open| open.number.to_string()), model.turn.map(|turn| turn.to_string()));
            prop_assert_eq!(state.open_step().map(|open| open.number.to_string()), model.step.map(|step| step.to_string()));
        }
        prop_assert!(state.broken().is_none());
    }
}
