//! Do the closers of an open tail turn say what FORMAT 12 says, at the cost of that turn alone?

use sessiond::json::Json;
use sessiond::log::{Log, Seq, read_event};
use sessiond::view::{Reading, Relations, closers, open_turn};

use crate::support;

fn push(log: &mut Log, text: &str) {
    let (value, checks) = Json::parse(text).unwrap();
    let (_, time, draft) = read_event(value, checks.needs_compaction).unwrap();
    log.push(&draft, time);
}

/// A log of these events, with events of no meaning before them up to the first one's seq.
fn log_of(events: &[&str]) -> Log {
    let mut log = Log::new();
    let first = events.first().and_then(|text| Json::parse(text).unwrap().0.get("seq")?.as_safe_uint());
    for _ in 0..first.unwrap_or(0) {
        push(&mut log, r#"{"type":"plugin/x","seq":0,"time":0,"data":null}"#);
    }
    events.iter().for_each(|text| push(&mut log, text));
    log
}

/// The log with its closers appended, as lines from the first closer on.
fn closed(log: &mut Log, now: Option<i64>) -> Vec<String> {
    let Some(turn) = open_turn(log) else { return Vec::new() };
    let from = log.len();
    let found = closers(log, turn, now);
    for closer in &found.events {
        log.push(&closer.draft(), found.time);
    }
    log.range(from, log.len()).map(|event| event.line().to_owned()).collect()
}

#[test]
fn recorded_repairs() {
    for file in ["10-repair.json", "23-random-repair.json"] {
        support::each_op(file, "repair", |case, op| {
            let mut log = log_of(&op.texts("eventsJsonl"));
            let got = closed(&mut log, None);
            let want = support::texts(&op.ok().unwrap()["closersJsonl"]);
            assert_eq!(got.len(), want.len(), "{case} {got:?}");
            for (got, want) in got.iter().zip(want) {
                assert!(support::same_json(got, want), "{case}\n{got}\n{want}");
                assert!(!Json::parse(got).unwrap().1.needs_compaction, "{case} {got}");
            }
            assert!(open_turn(&log).is_none(), "{case}");
            assert!(closed(&mut log, None).is_empty());
        });
    }
}

const START: &str = r#"{"type":"turn/start","seq":0,"time":10,"data":{"turn":2}}"#;
const STEP: &str = r#"{"type":"step/start","seq":1,"time":20,"data":{"turn":2,"step":1}}"#;

fn asks(ids: &[&str]) -> String {
    let block = |id: &&str| format!(r#"{{"type":"tool-call","id":{id},"name":"n","arguments":""}}"#);
    let blocks: Vec<_> = ids.iter().map(block).collect();
    format!(
        r#"{{"type":"assistant/message","seq":2,"time":30,"data":{{"turn":2,"step":1,"message":{{"id":"m","role":"assistant","content":[{}]}}}},"surfaceOp":"append"}}"#,
        blocks.join(",")
    )
}

#[test]
fn members_stand_in_our_order_and_text_is_copied() {
    let call =
        r#"{"type":"tool/call","seq":3,"time":-40,"data":{"turn":2,"step":1,"callId":"\u0063\ud83d"}}"#;
    let ask = asks(&[r#""c\ud83d""#]);
    let start = START.replace("\"turn\":2", "\"turn\":2.0");
    let mut log = log_of(&[start.as_str(), STEP, &ask, call]);
    let lines = closed(&mut log, None);
    assert!(lines[0].starts_with(
        r#"{"type":"tool/result","seq":4,"time":-40,"data":{"turn":2,"step":1,"message":{"id":"interrupted-tool-result-c\ud83d-4","role":"user","source":{"kind":"tool","callId":"c\ud83d"},"content":[{"type":"tool-result","toolCallId":"c\ud83d","isError":true,"content":[{"type":"text","text":"The tool call was interrupted after"#
    ), "{}", lines[0]);
    assert!(lines[0].ends_with(
        r#""error":{"name":"ToolOutcomeUnknownError","code":"TOOL_OUTCOME_UNKNOWN"}},"sourceEventSeqs":[3],"surfaceOp":"append"}"#
    ));
    assert_eq!(lines[1], r#"{"type":"step/end","seq":5,"time":-40,"data":{"turn":2,"step":1}}"#);
    assert_eq!(
        lines[2],
        r#"{"type":"turn/end","seq":6,"time":-40,"data":{"turn":2,"reason":{"kind":"interrupted"}}}"#
    );
}

#[test]
fn an_interrupt_uses_the_given_time() {
    let mut log = log_of(&[START]);
    assert_eq!(
        closed(&mut log, Some(99)),
        [r#"{"type":"turn/end","seq":1,"time":99,"data":{"turn":2,"reason":{"kind":"interrupted"}}}"#]
    );
}

#[test]
fn order_of_calls_and_what_removes_them() {
    let first = asks(&["\"a\"", "\"b\"", "\"c\""]);
    let again = asks(&["\"b\"", "\"a\""]);
    let result = r#"{"type":"tool/result","seq":4,"time":30,"data":{"turn":2,"step":1,"message":{"source":{"kind":"tool","callId":"\u0061"}}},"surfaceOp":"append"}"#;
    let call = r#"{"type":"tool/call","seq":3,"time":30,"data":{"callId":"b"}}"#;
    let mut log = log_of(&[START, STEP, &first, call, result, &again]);
    let ids: Vec<_> = closed(&mut log, None)
        .iter()
        .filter_map(|line| {
            let value = Json::parse(line).unwrap().0;
            assert!(value.get("sourceEventSeqs").is_none());
            Some(value.at(&["data", "message", "source", "callId"])?.text().to_owned())
        })
        .collect();
    // "b" keeps its place and forgets its start; "a" was answered and asked for anew.
    assert_eq!(ids, ["\"b\"", "\"c\"", "\"a\""]);
}

#[test]
fn a_turn_without_a_number_is_closed_by_its_place() {
    let end = r#"{"type":"turn/end","seq":1,"time":20,"data":{"turn":7,"reason":{"kind":"completed"}}}"#;
    for data in ["5", "null", "{}", r#"{"turn":null}"#, r#"{"turn":"1"}"#, r#"{"turn":0}"#, r#"{"turn":1.5}"#]
    {
        let start = format!(r#"{{"type":"turn/start","seq":0,"time":10,"data":{data}}}"#);
        let mut log = log_of(&[START, end, &start, STEP]);
        let mut relations = Relations::new();
        log.iter().for_each(|event| relations.apply(event.seq(), &Reading::of_event(event).fact));
        let (followed, found) = (relations.open_turn().unwrap(), open_turn(&log).unwrap());
        assert_eq!((followed.seq, followed.number.to_string()), (found.seq, "2".to_owned()), "{data}");
        assert_eq!(found.number.to_string(), "2", "{data}");
        let own =
            r#"{"type":"turn/end","seq":5,"time":20,"data":{"turn":2,"reason":{"kind":"interrupted"}}}"#;
        assert_eq!(closed(&mut log, None).last().unwrap(), own, "{data}");
        assert!(open_turn(&log).is_none(), "{data}");
    }
}

#[test]
fn nothing_that_could_not_be_loaded_is_made() {
    let ask = asks(&["\"\"", "5", "null"]);
    let mut log = log_of(&[START, STEP, &ask]);
    assert_eq!(closed(&mut log, None).len(), 2);
    let odd = r#"{"type":"assistant/message","seq":2,"time":30,"data":7,"surfaceOp":"append"}"#;
    assert_eq!(closed(&mut log_of(&[START, odd, odd]), None).len(), 1);
}

#[test]
fn no_turn_is_open() {
    let start = |log: &Log| open_turn(log).map(|open| open.seq);
    assert_eq!(start(&Log::new()), None);
    let end = r#"{"type":"turn/end","seq":1,"time":20,"data":{"turn":2,"reason":{"kind":"completed"}}}"#;
    assert_eq!(start(&log_of(&[START, end, STEP])), None);
    assert_eq!(start(&log_of(&[STEP])), None);
    assert_eq!(start(&log_of(&[START, end, START, STEP])), Seq::new(2));
}
