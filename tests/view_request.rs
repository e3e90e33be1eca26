//! Which request does a log state?
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod support;
mod view_support;

use sessiond::json::Json;
use sessiond::log::Log;
use sessiond::view::{
    Reason, RequestState, canonical, context_text, equal_headers, header_reason, header_text, next_reason,
};
use view_support::{log_of, ops, same_value, text, texts};

fn json(text: &str) -> Json<'_> {
    Json::parse(text).unwrap().0
}

fn fold(log: &Log) -> RequestState {
    let mut state = RequestState::default();
    log.iter().for_each(|event| state.apply(event.seq(), event.kind()));
    state
}

fn header_of(log: &Log) -> Option<String> {
    fold(log).header.and_then(|seq| header_text(log.get(seq).unwrap()))
}

#[track_caller]
fn assert_text(found: Option<&str>, expected: &serde_json::Value, case: &str) {
    match (found, expected.as_str()) {
        (Some(found), Some(expected)) => {
            assert!(same_value(found, expected), "{case}: {found}, not {expected}")
        }
        (found, expected) => assert_eq!(found, expected, "{case}"),
    }
}

#[test]
fn canonical_forms_folds_and_equality_are_upstreams() {
    for (case, op) in ops(&["08"]) {
        let ok = &op["expect"]["ok"];
        match text(&op, "op") {
            "canonicalHeader" => {
                assert_text(Some(&canonical(json(text(&op, "headerJson")))), &ok["headerJson"], &case);
            }
            "headerEquals" => {
                let equal = equal_headers(json(text(&op, "aJson")), json(text(&op, "bJson")));
                assert_eq!(Some(equal), ok["equal"].as_bool(), "{case}: {op}");
            }
            "foldRequestHeader" => {
                let found = header_of(&log_of(&texts(&op, "eventsJsonl")));
                assert_text(found.as_deref(), &ok["headerJson"], &case);
            }
            _ => {}
        }
    }
}

const CONFIG: &str = r#"{"provider":"p","model":"m"}"#;

#[test]
fn a_canonical_form_has_one_order_and_keeps_a_prefix() {
    let header = format!(
        r#"{{"prefix": [1], "tools": [ {{"name": "a b"}} ], "junk": 1, "system": "s", "config": {CONFIG}, "adapterDefaults": {{"maxTokens": true, "x": 1}}}}"#
    );
    let expected = format!(
        r#"{{"config":{CONFIG},"adapterDefaults":{{"maxTokens":true,"x":1}},"system":"s","tools":[{{"name":"a b"}}],"prefix":[1]}}"#
    );
    assert_eq!(canonical(json(&header)), expected);
    assert_eq!(canonical(json(&expected)), expected);
    let empty = format!(r#"{{"config":{CONFIG},"adapterDefaults":{{}},"system":"","tools":[],"prefix":[]}}"#);
    assert_eq!(canonical(json(&empty)), format!(r#"{{"config":{CONFIG}}}"#));
    let odd = format!(r#"{{"config":{CONFIG},"system":5,"tools":null,"prefix":"x"}}"#);
    assert_eq!(canonical(json(&odd)), format!(r#"{{"config":{CONFIG}}}"#));
    assert!(equal_headers(json(&empty), json(&odd)));
}

#[test]
fn equality_is_of_printed_values() {
    let header =
        |config: &str, rest: &str| format!(r#"{{"config":{{"provider":"p","model":"m"{config}}}{rest}}}"#);
    let equal = |a: &str, b: &str| equal_headers(json(a), json(b));
    let tools = |text: &str| header("", &format!(r#","tools":[{text}]"#));
    let prefix = |text: &str| header("", &format!(r#","prefix":[{text}]"#));
    for (a, b) in [
        (header(r#","temperature":1"#, ""), header(r#","other":2,"temperature":1.0"#, "")),
        (header(r#","stop":["\u0061"]"#, ""), header(r#","stop":["a"]"#, "")),
        (tools(r#"{"a":1,"2":0,"1":[]}"#), tools(r#"{"1":[],"2":0e0,"\u0061":1.0}"#)),
        (prefix(r#"{"a":1}"#), prefix(r#"{ "a" : 1 }"#)),
    ] {
        assert!(equal(&a, &b) && equal(&b, &a), "{a} {b}");
    }
    for (a, b) in [
        (header("", r#","system":"s""#), header("", "")),
        (header(r#","stop":["a","b"]"#, ""), header(r#","stop":["a"]"#, "")),
        (header(r#","temperature":"1""#, ""), header(r#","temperature":1"#, "")),
        (tools(r#"{"a":1,"b":2}"#), tools(r#"{"b":2,"a":1}"#)),
        (tools(r#"{"01":1,"1":2}"#), tools(r#"{"1":2,"01":1,"0":1}"#)),
        (tools("1,2"), tools("1")),
        (prefix("1"), prefix("2")),
        (prefix("1"), header("", "")),
    ] {
        assert!(!equal(&a, &b) && !equal(&b, &a), "{a} {b}");
    }
}

#[test]
fn a_writer_states_a_header_when_there_is_a_reason() {
    let one = format!(r#"{{"config":{CONFIG}}}"#);
    let two = format!(r#"{{"config":{CONFIG},"system":"s"}}"#);
    let reason = |previous: Option<&str>, next: &str, resumed, series| {
        next_reason(previous.map(json), json(next), resumed, series)
    };
    assert_eq!(reason(None, &one, true, true), Some(Reason::Initial));
    assert_eq!(reason(Some(&one), &one, true, false), Some(Reason::Resume));
    assert_eq!(reason(Some(&one), &two, false, false), Some(Reason::Change { starts_series: false }));
    assert_eq!(reason(Some(&one), &two, false, true), Some(Reason::Change { starts_series: true }));
    assert_eq!(reason(Some(&one), &one, false, true), Some(Reason::Series));
    assert_eq!(reason(Some(&one), &one, false, false), None);

    let data = Reason::Change { starts_series: true }.event_data(&two);
    assert_eq!(data, format!(r#"{{"header":{two},"reason":"change","startsSeries":true}}"#));
    let line = format!(r#"{{"type":"request/header","seq":0,"time":0,"data":{data}}}"#);
    let log = log_of(&[line]);
    let event = log.last().unwrap();
    assert_eq!(header_text(event).as_deref(), Some(&*two));
    assert!(header_reason(event).unwrap().is_str("change"));
    assert_eq!(context_text(event), None);
}
