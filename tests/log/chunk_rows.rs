//! Do packed rows say exactly what their events said (FORMAT 11)?

use std::convert::Infallible;

use proptest::prelude::*;
use sessiond::json::Json;
use sessiond::log::{Log, Row, RowRule, decode_row, pack_rows, read_event};

use crate::support;

fn json(text: &str) -> Json<'_> {
    Json::parse(text).unwrap().0
}

fn pack(events: &[&str]) -> Vec<String> {
    pack_rows(events.iter().map(|text| json(text))).into_iter().map(|row| row.into_owned()).collect()
}

/// The events of a row as JSON texts, or FORMAT's class of the refusal.
fn decode(text: &str) -> Result<Vec<String>, &'static str> {
    let (value, checks) = Json::parse(text).unwrap();
    match decode_row(value, checks.needs_compaction).map_err(|error| error.rule.class())? {
        Row::Event(event) => Ok(vec![event.text().to_owned()]),
        Row::Chunks(row) => {
            let mut events = Vec::new();
            let mut bytes = 0;
            let done: Result<(), Infallible> = row.each(|seq, time, draft| {
                let mut log = Log::new();
                log.push(draft, time);
                let line = log.last().unwrap().line().to_owned();
                bytes += line.len() as u64;
                // The test log counts from 0: put the event's own seq in.
                events.push(line.replacen("\"seq\":0", &format!("\"seq\":{seq}"), 1));
                Ok(())
            });
            done.unwrap();
            assert_eq!(events.len() as u64, row.count());
            assert!(bytes <= row.unpacked_len(), "{bytes} {}", row.unpacked_len());
            assert_eq!(json(&events[0]).get("seq").unwrap().as_safe_uint(), Some(row.first().get()));
            Ok(events)
        }
    }
}

fn assert_same(case: &str, got: &[String], want: &[&str]) {
    assert_eq!(got.len(), want.len(), "{case} {got:?}");
    for (got, want) in got.iter().zip(want) {
        assert!(support::same_json(got, want), "{case}: {got} and {want}");
    }
}

#[test]
fn recorded_packs() {
    support::each_op("09-chunk-rows.json", "pack", |case, op| {
        assert_same(case, &pack(&op.texts("eventsJsonl")), &support::texts(&op.ok().unwrap()["rowsJsonl"]));
    });
}

#[test]
fn recorded_round_trips() {
    for file in ["09-chunk-rows.json", "25-random-chunks.json"] {
        support::each_op(file, "roundtrip", |case, op| {
            let events = op.texts("eventsJsonl");
            let rows = pack(&events);
            assert_same(case, &rows, &support::texts(&op.ok().unwrap()["rowsJsonl"]));
            let back: Vec<String> = rows.iter().flat_map(|row| decode(row).unwrap()).collect();
            assert_same(case, &back, &events);
        });
    }
}

#[test]
fn recorded_decodes() {
    for file in ["09-chunk-rows.json", "26-random-decode.json"] {
        support::each_op(file, "decode", |case, op| {
            let got = decode(op.text("rowJson"));
            if op.is_informative() {
                // The reference rounds the last seq in doubles here.
                assert_eq!(got, Err("ROW_SEQ_RANGE"), "{case}");
                return;
            }
            match (&got, op.ok()) {
                (Ok(events), Some(ok)) => assert_same(case, events, &support::texts(&ok["eventsJsonl"])),
                (Err(class), None) => {
                    assert!(op.classes().contains(class), "{case} {class} {:?}", op.classes())
                }
                _ => panic!("{case} {} {got:?}", op.text("rowJson")),
            }
        });
    }
}

#[test]
fn seq_arithmetic_is_exact() {
    let row = |seq0: u64, count: usize| {
        format!(
            r#"{{"type":"text-chunks","seq0":{seq0},"time0":0,"data":{{"turn":1,"step":1,"index":0,"dt":{:?},"texts":{:?}}}}}"#,
            vec![0; count - 1],
            vec!["x"; count]
        )
    };
    let max = 9007199254740991;
    for (back, count, fits) in
        [(0, 1, true), (0, 2, false), (1, 2, true), (1, 3, false), (9, 10, true), (9, 11, false)]
    {
        assert_eq!(decode(&row(max - back, count)).is_ok(), fits, "{back} {count}");
    }
}

#[test]
fn rows_with_repeated_keys_are_refused_and_events_with_them_pass_verbatim() {
    let row = r#"{"type":"text-chunks","seq0":0,"time0":0,"data":{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]},"seq0":1}"#;
    assert_eq!(decode(row), Err(RowRule::Envelope.class()));
    let event = |seq: u64| {
        format!(
            r#"{{"type":"assistant/chunk","seq":{seq},"time":0,"data":{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":"a","index":0}}}}}}"#
        )
    };
    let events: Vec<_> = (0..4).map(event).collect();
    let texts: Vec<_> = events.iter().map(String::as_str).collect();
    assert_eq!(pack(&texts), events);
}

#[test]
fn spellings_are_kept() {
    let event = |seq: u64, turn: &str, text: &str| {
        format!(
            r#"{{"type":"assistant/chunk","seq":{seq},"time":{seq},"data":{{"turn":{turn},"step":1e0,"chunk":{{"type":"text-delta","index":0,"text":{text}}}}}}}"#
        )
    };
    let events: Vec<_> =
        (0..6).map(|seq| event(seq, if seq < 3 { "1" } else { "1.0" }, r#""\u0041\ud83d""#)).collect();
    let texts: Vec<_> = events.iter().map(String::as_str).collect();
    let rows = pack(&texts);
    assert_eq!(rows.len(), 2);
    let back: Vec<String> = rows.iter().flat_map(|row| decode(row).unwrap()).collect();
    assert_eq!(back, events);
}

#[test]
fn needs_compaction_rows_become_single_lines() {
    let row = "{ \"type\":\"tool-call-chunks\", \"seq0\":0,\"time0\":5,\"data\":{\"turn\":1,\"step\":1,\"index\":0,\"id\":\"c\u{2028}\",\"dt\":[ -1 ],\"args\":[\"a\u{85}\", \"b\" ]}}";
    assert_eq!(
        decode(row).unwrap(),
        [
            r#"{"type":"assistant/chunk","seq":0,"time":5,"data":{"turn":1,"step":1,"chunk":{"type":"tool-call-delta","index":0,"id":"c\u2028","argumentsDelta":"a\u0085"}}}"#,
            r#"{"type":"assistant/chunk","seq":1,"time":4,"data":{"turn":1,"step":1,"chunk":{"type":"tool-call-delta","index":0,"id":"c\u2028","argumentsDelta":"b"}}}"#,
        ]
    );
}

#[test]
fn a_refusal_ends_the_walk() {
    let text = r#"{"type":"text-chunks","seq0":7,"time0":0,"data":{"turn":1,"step":1,"index":0,"dt":[0,0],"texts":["a","b","c"]}}"#;
    let Row::Chunks(row) = decode_row(json(text), false).unwrap() else { panic!("a row") };
    let mut seen = Vec::new();
    let stopped = row.each(|seq, _, _| {
        seen.push(seq.get());
        if seq.get() == 8 { Err("full") } else { Ok(()) }
    });
    assert_eq!((stopped, seen), (Err("full"), vec![7, 8]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_log_holds_survives_packing(
        steps in prop::collection::vec((0u8..7, 0u8..2, -3i64..1000, "[a-z\"\\\\é\u{2028}]{0,8}"), 0..60),
    ) {
        let mut log = Log::new();
        let mut time = 0;
        for (kind, variant, gap, text) in steps {
            time += gap;
            let text = serde_json::to_string(&text).unwrap();
            let chunk = match kind {
                0..3 => format!(r#"{{"type":"text-delta","index":{variant},"text":{text}}}"#),
                3 => format!(r#"{{"type":"reasoning-delta","index":0,"text":{text}}}"#),
                4..6 => format!(r#"{{"type":"tool-call-delta","index":0,"id":"c{variant}","argumentsDelta":{text}}}"#),
                _ => format!(r#"{{"type":"usage","usage":{text}}}"#),
            };
            let event = format!(r#"{{"type":"assistant/chunk","seq":0,"time":{time},"data":{{"turn":1,"step":1,"chunk":{chunk}}}}}"#);
            let (value, checks) = Json::parse(&event).unwrap();
            let (_, time, draft) = read_event(value, checks.needs_compaction).unwrap();
            log.push(&draft, time);
        }
        let rows: Vec<String> = pack_rows(log.iter().map(|event| event.json())).into_iter().map(|row| row.into_owned()).collect();
        let mut again = Log::new();
        for row in &rows {
            let (value, checks) = Json::parse(row).unwrap();
            prop_assert!(!checks.needs_compaction);
            match decode_row(value, checks.needs_compaction).unwrap() {
                Row::Event(event) => {
                    let (_, time, draft) = read_event(event, false).unwrap();
                    again.push(&draft, time);
                }
                Row::Chunks(row) => {
                    prop_assert!(row.count() >= 3);
                    let done: Result<(), Infallible> = row.each(|_, time, draft| {
                        again.push(draft, time);
                        Ok(())
                    });
                    done.unwrap();
                }
            }
        }
        prop_assert!(log.iter().map(|event| event.line()).eq(again.iter().map(|event| event.line())));
    }
}
