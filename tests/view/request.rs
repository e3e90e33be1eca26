//! Which request does a log state?

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use sessiond::json::Json;
use sessiond::log::Log;
use sessiond::view::RepairKind;
use sessiond::view::RepairKind::{DuplicateId, LeftOut, MissingResult, Moved, OrphanResult};
use sessiond::view::{
    Reason, Repair, RequestState, View, Watch, canonical, context_text, equal_headers, header_reason,
    header_text, mend_messages, next_reason,
};

use crate::view_support::{log_of, ops, same_value, text, texts};

fn parsed(text: &str) -> Json<'_> {
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
                assert_text(Some(&canonical(parsed(text(&op, "headerJson")))), &ok["headerJson"], &case);
            }
            "headerEquals" => {
                let equal = equal_headers(parsed(text(&op, "aJson")), parsed(text(&op, "bJson")));
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
    assert_eq!(canonical(parsed(&header)), expected);
    assert_eq!(canonical(parsed(&expected)), expected);
    let empty = format!(r#"{{"config":{CONFIG},"adapterDefaults":{{}},"system":"","tools":[],"prefix":[]}}"#);
    assert_eq!(canonical(parsed(&empty)), format!(r#"{{"config":{CONFIG}}}"#));
    let odd = format!(r#"{{"config":{CONFIG},"system":5,"tools":null,"prefix":"x"}}"#);
    assert_eq!(canonical(parsed(&odd)), format!(r#"{{"config":{CONFIG}}}"#));
    assert!(equal_headers(parsed(&empty), parsed(&odd)));
}

#[test]
fn equality_is_of_printed_values() {
    let header =
        |config: &str, rest: &str| format!(r#"{{"config":{{"provider":"p","model":"m"{config}}}{rest}}}"#);
    let equal = |a: &str, b: &str| equal_headers(parsed(a), parsed(b));
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
        next_reason(previous.map(parsed), parsed(next), resumed, series)
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

fn mended(messages: &[String]) -> (Vec<String>, Vec<Repair>) {
    let messages = messages.iter().map(|text| Json::parse(text).unwrap().0).collect();
    let mended = mend_messages(messages);
    (mended.messages.into_iter().map(Into::into).collect(), mended.repairs)
}

/// The rules of providers written down plainly: what is wrong with the first message that they would refuse.
fn refused(messages: &[String]) -> Option<String> {
    let (mut calls, mut ids) = (BTreeSet::new(), BTreeSet::new());
    let mut waiting: BTreeSet<String> = BTreeSet::new();
    for (at, text) in messages.iter().enumerate() {
        let message: Value = serde_json::from_str(text).unwrap();
        if !ids.insert(message["id"].to_string()) {
            return Some(format!("{at}: message id twice"));
        }
        let blocks = message["content"].as_array().unwrap();
        let is_blank = |block: &Value| block["text"].as_str().is_some_and(|text| text.trim().is_empty());
        if blocks.iter().all(is_blank) {
            return Some(format!("{at}: nothing"));
        }
        for block in blocks {
            let is_result = block["type"] == "tool-result";
            let inner = block["content"].as_array().into_iter().flatten();
            if inner.map(|inner| &inner["type"]).any(|kind| kind == "tool-call" || kind == "tool-result") {
                return Some(format!("{at}: a tool's part in a result"));
            }
            let role = if is_result { "user" } else { "assistant" };
            if (is_result || block["type"] == "tool-call") && message["role"] != role {
                return Some(format!("{at}: a tool's part of the wrong role"));
            }
            match is_result {
                true if !waiting.remove(&block["toolCallId"].to_string()) => {
                    return Some(format!("{at}: a result that nothing waits for"));
                }
                false if !waiting.is_empty() => return Some(format!("{at}: something before results")),
                _ => {}
            }
        }
        if message["role"] == "assistant" {
            for call in blocks.iter().filter(|block| block["type"] == "tool-call") {
                if call["id"].as_str().is_none_or(str::is_empty) || !calls.insert(call["id"].to_string()) {
                    return Some(format!("{at}: no call id, or one twice"));
                }
                waiting.insert(call["id"].to_string());
            }
        }
    }
    (!waiting.is_empty()).then(|| "calls without results".to_owned())
}

fn user(id: &str, blocks: &[Value]) -> String {
    json!({"id": id, "role": "user", "content": blocks, "source": {"kind": "user"}}).to_string()
}

fn assistant(id: &str, calls: &[&str]) -> String {
    let call = |id: &&str| json!({"type": "tool-call", "id": id, "name": "t", "arguments": "{}"});
    let blocks: Vec<_> = calls.iter().map(call).chain([words("x")]).collect();
    let source = json!({"kind": "model", "provider": "p", "model": "m"});
    json!({"id": id, "role": "assistant", "content": blocks, "source": source}).to_string()
}

fn words(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn result_block(call: &str) -> Value {
    json!({"type": "tool-result", "toolCallId": call, "content": [words("done")]})
}

fn result(id: &str, call: &str) -> String {
    let source = json!({"kind": "tool", "callId": call});
    json!({"id": id, "role": "user", "content": [result_block(call)], "source": source}).to_string()
}

fn told(repairs: &[Repair]) -> Vec<(RepairKind, usize, &str)> {
    repairs.iter().map(|repair| (repair.kind, repair.index, repair.id.trim_matches('"'))).collect()
}

#[test]
fn what_is_in_order_stays_as_it_is() {
    let spaced = r#"{ "id": "s", "role":"user","content":[ {"type":"image"} ],"source":{"kind":"user"}, "more":1.0e2 }"#;
    let messages = [
        user("u", &[words("hi")]),
        assistant("a", &["c", "d"]),
        result("r", "d"),
        result("s2", "c"),
        spaced.to_owned(),
        assistant("b", &["e", "f"]),
        user("both", &[result_block("e"), result_block("f"), words("go on")]),
        assistant("c", &[]),
    ];
    assert_eq!(refused(&messages), None);
    assert_eq!(mended(&messages), (messages.to_vec(), vec![]));
}

#[test]
fn a_call_without_a_result_gets_an_error() {
    let (messages, repairs) =
        mended(&[assistant("a", &["c", "d"]), result("r", "c"), user("u", &[words("u")])]);
    assert_eq!(refused(&messages), None);
    assert_eq!(told(&repairs), [(MissingResult, 2, "d")]);
    let made: Value = serde_json::from_str(&messages[2]).unwrap();
    assert_eq!(made["content"][0]["isError"], true);
    assert_eq!(made["source"], json!({"kind": "tool", "callId": "d"}));
    assert!(made["content"][0]["content"][0]["text"].as_str().unwrap().contains("outcome is unknown"));
    assert_eq!(messages[3], user("u", &[words("u")]));
}

#[test]
fn a_result_without_a_call_becomes_text() {
    let (messages, repairs) = mended(&[user("summary", &[words("s")]), result("r", "b")]);
    assert_eq!(refused(&messages), None);
    assert_eq!(told(&repairs), [(OrphanResult, 1, "b")]);
    let made: Value = serde_json::from_str(&messages[1]).unwrap();
    assert_eq!((&made["id"], &made["role"]), (&json!("r"), &json!("user")));
    assert_eq!(made["source"], json!({"kind": "plugin", "plugin": "sessiond"}));
    assert_eq!(made["content"][1], words("done"));
    assert!(made["content"][0]["text"].as_str().unwrap().contains("tool call b"));
    // The second result of a call is none of it.
    let (messages, repairs) = mended(&[assistant("a", &["c"]), result("r", "c"), result("s", "c")]);
    assert_eq!((refused(&messages), told(&repairs)), (None, vec![(OrphanResult, 2, "c")]));
}

#[test]
fn ids_are_made_unique_in_call_and_result() {
    let turn = [assistant("a", &["c"]), result("r", "c")];
    let again = [assistant("b", &["c"]), result("r", "c"), assistant("x", &["c-2", ""]), result("y", "c-2")];
    let (messages, repairs) = mended(&[turn.clone(), [again[0].clone(), again[1].clone()]].concat());
    assert_eq!(refused(&messages), None);
    assert_eq!(told(&repairs), [(DuplicateId, 2, "c-2"), (DuplicateId, 3, "r-2")]);
    assert_eq!(messages[2], assistant("b", &["c-2"]));
    assert_eq!(messages[3], result("r-2", "c-2"));
    // One that stands later has its id before; an empty one is none.
    let (messages, repairs) = mended(&[turn.to_vec(), again.to_vec()].concat());
    assert_eq!(refused(&messages), None);
    assert_eq!(messages[2], assistant("b", &["c-3"]));
    assert_eq!(messages[4], assistant("x", &["c-2", "call"]));
    let last = (MissingResult, 6, "call");
    assert_eq!(told(&repairs)[2..], [(DuplicateId, 4, "call"), last]);
}

#[test]
fn what_stands_between_moves_behind() {
    let (between, first) = (user("u", &[words("wait")]), result("r", "c"));
    let calls = assistant("a", &["c", "d"]);
    let (messages, repairs) = mended(&[calls.clone(), first.clone(), between.clone(), result("s", "d")]);
    assert_eq!(messages, [calls, first.clone(), result("s", "d"), between]);
    assert_eq!(told(&repairs), [(Moved, 3, "u")]);
    // Two messages with calls, then both results.
    let (one, two) = (assistant("a", &["c"]), assistant("b", &["d"]));
    let (messages, repairs) = mended(&[one.clone(), two.clone(), first.clone(), result("s", "d")]);
    assert_eq!(messages, [one.clone(), first, two, result("s", "d")]);
    assert_eq!(told(&repairs), [(Moved, 2, "b")]);
    // A result behind text in one message is taken out.
    let mixed = user("m", &[words("wait"), result_block("c"), result_block("none")]);
    let (messages, repairs) = mended(&[one, mixed]);
    assert_eq!(refused(&messages), None);
    assert_eq!(
        told(&repairs),
        [(Moved, 1, "m"), (Moved, 2, "m-2"), (DuplicateId, 2, "m-2"), (OrphanResult, 2, "none")]
    );
}

fn of_role(role: &str, id: &str, blocks: &[Value]) -> String {
    let source = json!({"kind": "model", "provider": "p", "model": "m"});
    json!({"id": id, "role": role, "content": blocks, "source": source}).to_string()
}

fn call_block(id: &str) -> Value {
    json!({"type": "tool-call", "id": id, "name": "t", "arguments": "{}"})
}

#[test]
fn parts_where_none_may_stand_and_what_says_nothing_are_left_out() {
    let (call, done) = (assistant("a", &["c"]), result("r", "c"));
    // A result in an assistant's message is none, whatever waits for it.
    let odd = of_role("assistant", "b", &[result_block("c"), words("x"), result_block("d")]);
    let (messages, repairs) = mended(&[call.clone(), done.clone(), odd]);
    let kept = of_role("assistant", "b", &[words("x")]);
    assert_eq!(messages, [call.clone(), done.clone(), kept]);
    assert_eq!(told(&repairs), [(LeftOut, 2, "c"), (LeftOut, 2, "d")]);
    // A call in a message of another role is none, and no reason to move anything.
    let odd = user("u", &[call_block("e"), result_block("c"), call_block("f")]);
    let (messages, repairs) = mended(&[call.clone(), odd]);
    assert_eq!(messages, [call.clone(), user("u", &[result_block("c")])]);
    assert_eq!(told(&repairs), [(LeftOut, 1, "e"), (LeftOut, 1, "f")]);
    let (messages, repairs) =
        mended(&[of_role("system", "s", &[call_block("e"), words("x"), result_block("c")])]);
    assert_eq!(messages, [of_role("system", "s", &[words("x")])]);
    assert_eq!(told(&repairs), [(LeftOut, 0, "e"), (LeftOut, 0, "c")]);
    // Of what is told or taken apart, too.
    let (messages, repairs) = mended(&[user("u", &[result_block("n"), call_block("e")])]);
    assert_eq!((refused(&messages), told(&repairs)), (None, vec![(LeftOut, 0, "e"), (OrphanResult, 0, "n")]));
    // A message that says nothing stands between nothing.
    let empty = [user("u", &[]), user("v", &[words(" \n")]), of_role("assistant", "w", &[result_block("c")])];
    let (messages, repairs) =
        mended(&[std::slice::from_ref(&call), &empty[..], &[done.clone(), user("x", &[])]].concat());
    assert_eq!(messages, [call.clone(), done.clone()]);
    // Behind the call stands its result.
    assert_eq!(told(&repairs), ["u", "v", "c", "w", "x"].map(|id| (LeftOut, 2, id)));
    // Nor is there a tool's part in a result.
    let inner = |more: &[Value]| json!({"type": "tool-result", "toolCallId": "c", "content": more});
    let odd = user("u", &[inner(&[words("x"), call_block("e"), result_block("f")])]);
    let (messages, repairs) = mended(&[call.clone(), odd]);
    assert_eq!(messages, [call.clone(), user("u", &[inner(&[words("x")])])]);
    assert_eq!(told(&repairs), [(LeftOut, 1, "e"), (LeftOut, 1, "f")]);
    let odd = user("u", &[words("first"), inner(&[call_block("e")])]);
    let (messages, repairs) = mended(&[call, odd]);
    assert_eq!(refused(&messages), None);
    assert_eq!(told(&repairs)[..3], [(Moved, 1, "u"), (LeftOut, 1, "e"), (Moved, 2, "u-2")]);
}

fn view_of(log: &Log) -> View {
    let mut view = View::default();
    log.iter().for_each(|event| view.follow(event));
    view
}

fn surface(seq: usize, kind: &str, message: &str, more: &str) -> String {
    let data = match kind {
        "user/message" => message.to_owned(),
        _ => format!(r#"{{"turn":1,"step":1,"message":{message}}}"#),
    };
    format!(r#"{{"type":"{kind}","seq":{seq},"time":0,"data":{data},{more}}}"#)
}

fn warnings(lines: &[String]) -> Vec<String> {
    let log = log_of(lines);
    let mut all = Watch::default().warnings(&log, &view_of(&log));
    all.retain(|one| !one.contains(" breaks INV_")); // there are no turns
    all.iter().map(|one| one.split("; session/request").next().unwrap().to_owned()).collect()
}

const APPEND: &str = r#""surfaceOp":"append""#;

#[test]
fn warnings_name_seqs_and_ids() {
    let mut lines = vec![
        surface(0, "assistant/message", &assistant("a", &["c", "", "d"]), APPEND),
        surface(1, "user/message", &user("a", &[words("a")]), APPEND),
        surface(2, "tool/result", &result("r", "d"), APPEND),
        surface(3, "tool/result", &result("s", "d"), APPEND),
        surface(4, "assistant/message", &assistant("b", &["\u{e9}c"]), APPEND),
    ];
    let told = [
        "call \"c\" of event 0 has no result",
        "call \"éc\" of event 4 has no result",
        "event 2 holds the result of call \"d\" of event 0, but other messages stand between them",
        "event 3 holds a result of call \"d\", but no call of that id waits for one before it on the surface",
        "event 0 holds an empty call id",
        "event 1 repeats message id \"a\", which event 0 has used",
    ];
    assert_eq!(warnings(&lines), told);
    // A rewrite keeps the ids of what it replaces; a compaction takes the rest from the surface.
    let op = |start: usize, end: usize, cited: &[usize]| {
        format!(r#""sourceEventSeqs":{cited:?},"surfaceOp":{{"op":"replace","start":{start},"end":{end}}}"#)
    };
    lines.push(surface(5, "tool/result", &result("r", "d"), &op(2, 2, &[2])));
    assert_eq!(warnings(&lines), told.map(|one| one.replace("event 2", "event 5")));
    lines.push(surface(6, "user/message", &user("k", &[words("k")]), &op(0, 3, &[0, 1, 5, 3])));
    assert_eq!(warnings(&lines), [told[1], told[4], told[5]]);
    // Ids are told wherever they were used before.
    lines.push(surface(7, "assistant/message", &assistant("z", &["c"]), APPEND));
    assert!(warnings(&lines).contains(&"event 7 repeats call id \"c\", which event 0 has used".to_owned()));
}

#[test]
fn warnings_name_parts_where_none_may_stand() {
    let nested = |more: &[Value]| {
        let block = json!({"type": "tool-result", "toolCallId": "d", "content": more});
        json!({"id": "r", "role": "user", "content": [block], "source": {"kind": "tool", "callId": "d"}})
            .to_string()
    };
    let of_model = of_role("assistant", "b", &[words("x"), result_block("c")]);
    let mut lines = vec![
        surface(0, "user/message", &user("u", &[words("x"), call_block("c")]), APPEND),
        surface(1, "assistant/message", &of_model, APPEND),
        surface(2, "assistant/message", &assistant("a", &["d"]), APPEND),
        surface(3, "tool/result", &nested(&[call_block("e")]), APPEND),
        surface(4, "user/message", &user("v", &[words(" ")]), APPEND),
    ];
    let of_result = |seq: usize, id: &str| {
        format!(
            "event {seq} holds a result of call {id:?} outside of a message of role user, or inside another result, where no provider takes one"
        )
    };
    let of_call = |seq: usize, id: &str| {
        format!(
            "event {seq} holds call {id:?} outside of an assistant's message, where no provider takes one"
        )
    };
    let first = [of_call(0, "c"), of_result(1, "c")];
    let empty = "event 4 holds a message without content".to_owned();
    assert_eq!(warnings(&lines), [&first[..], &[of_call(3, "e"), empty.clone()]].concat());
    // Of a log that is followed as it grows, too.
    let mut watch = Watch::default();
    let op = |of: usize| {
        format!(r#""sourceEventSeqs":[{of}],"surfaceOp":{{"op":"replace","start":{of},"end":{of}}}"#)
    };
    for (of, more, want) in [(3, words("x"), None), (5, result_block("f"), Some(of_result(6, "f")))] {
        lines.push(surface(lines.len(), "tool/result", &nested(&[more]), &op(of)));
        assert_eq!(warnings(&lines), [&first[..], want.as_slice(), std::slice::from_ref(&empty)].concat());
        let log = log_of(&lines);
        let told = watch.warnings(&log, &view_of(&log)).len();
        assert_eq!(told, Watch::default().warnings(&log, &view_of(&log)).len());
    }
}

#[test]
fn warnings_are_bounded() {
    let long = "x".repeat(10_000);
    let lines: Vec<String> = (0..200)
        .map(|seq| surface(seq, "assistant/message", &assistant("a", &[&long, ""]), APPEND))
        .collect();
    let told = warnings(&lines);
    assert!(told.len() <= 45 && told.iter().all(|one| one.len() < 300), "{told:?}");
    assert!(told.contains(&"578 more ids are repeated or empty".to_owned()), "{told:?}");
}

/// A message from small numbers: mostly what agents write, some of it out of order.
fn message((kind, at, call, other): (u8, usize, u8, u8)) -> String {
    let id = if other % 8 == 0 { format!("m{}", call % 4) } else { format!("n{at}") };
    let (first, second) =
        (format!("c{call}"), if other % 5 == 0 { String::new() } else { format!("c{other}") });
    match kind {
        0 => user(&id, &[words("t")]),
        1 => assistant(&id, &[&first]),
        2 => assistant(&id, &[&first, &second]),
        3 => user(&id, &[]),
        4 => user(&id, &[result_block(&first), result_block(&second)]),
        5 => user(&id, &[result_block(&first), words("t"), result_block(&second)]),
        6 => user(&id, &[words("t"), result_block(&first)]),
        7 => assistant(&id, &[]),
        14 => user(&id, &[call_block(&first), result_block(&second)]),
        15 => of_role("assistant", &id, &[result_block(&first), call_block(&second)]),
        16 => of_role("assistant", &id, &[result_block(&first)]),
        17 => user(&id, &[call_block(&first), words(" ")]),
        18 => user(&id, &[words(""), result_block(&first), result_block(&second)]),
        19 => {
            let inner = [call_block(&second), words("t"), result_block(&second)];
            user(
                &id,
                &[json!({"type": "tool-result", "toolCallId": first, "content": inner}), call_block(&first)],
            )
        }
        _ => result(&id, &first),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_mended_is_taken_and_stays(acts in prop::collection::vec((0..20u8, 0..6u8, 0..6u8), 0..30)) {
        let messages: Vec<String> =
            acts.into_iter().enumerate().map(|(at, (kind, call, other))| message((kind, at, call, other))).collect();
        let (once, repairs) = mended(&messages);
        prop_assert_eq!(refused(&once), None, "{:#?}\n{:#?}", messages, once);
        prop_assert_eq!(repairs.is_empty(), once == messages);
        prop_assert_eq!(refused(&messages).is_none(), repairs.is_empty(), "{:?}", repairs);
        // Every message that is not as it was is named; none that is not there.
        for (index, message) in once.iter().enumerate() {
            prop_assert!(messages.contains(message) || repairs.iter().any(|repair| repair.index == index || repair.kind == DuplicateId));
        }
        let count = |repair: &Repair| once.len() + usize::from(repair.kind == LeftOut);
        prop_assert!(repairs.iter().all(|repair| repair.index < count(repair)));
        let (twice, more) = mended(&once);
        prop_assert_eq!((twice, more), (once, vec![]));
    }
}
