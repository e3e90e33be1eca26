//! What holds for every log (the invariants of ACP 13): on real logs and on random ones.

use std::collections::HashMap;

use proptest::prelude::*;
use sessiond::acp::Options;
use sessiond::json::Json;
use sessiond::log::{Kind, Log, Offset};

use crate::acp_support::{follow, member, push, replay, replay_until, tag};

const OPTIONS: [Options; 3] = [
    Options {
        compaction: false,
        notices: false,
        live: false,
        max_text_bytes: 1 << 20,
        max_update_bytes: 31 << 20,
    },
    Options { compaction: true, notices: true, live: true, max_text_bytes: 20, max_update_bytes: 31 << 20 },
    Options { compaction: true, notices: false, live: false, max_text_bytes: 7, max_update_bytes: 2000 },
];

/// What a replay says of the events, without what it says once at its end.
fn history(updates: &[String]) -> Vec<&String> {
    updates
        .iter()
        .filter(|update| !matches!(tag(update), "plan" | "session_info_update" | "usage_update" | "notice"))
        .filter(|update| !update.contains(r#""reason":"unfinished""#))
        .filter(|update| member(update, "status") != "\"in_progress\"" || tag(update) == "tool_call")
        .collect()
}

fn check(log: &mut Log) {
    for options in OPTIONS {
        let all = replay(log, options);
        assert_eq!(replay(log, options), all, "a replay is a function of the log");
        paired(&all, options.live);
        assert_eq!(history(&follow(log, options)), history(&all), "live and replay agree");
        once(&all);
        let mut open_turn = false;
        for at in 0..=log.len().get() {
            if !open_turn && at % 7 == 0 {
                prefix(log, Offset::ZERO.plus(at), options, &all);
            }
            match log.get(Offset::ZERO.plus(at).next()).map(|event| event.kind()) {
                Some(Kind::TurnStart) => open_turn = true,
                Some(Kind::TurnEnd) => open_turn = false,
                _ => {}
            }
        }
    }
}

/// Each `tool_call_update` follows its only `tool_call`; in the end nothing is pending.
fn paired(updates: &[String], live: bool) {
    let mut calls = HashMap::new();
    for update in updates {
        let (id, status) = (member(update, "toolCallId"), member(update, "status"));
        match tag(update) {
            "tool_call" => assert!(calls.insert(id, status).is_none(), "shown twice: {update}"),
            "tool_call_update" => *calls.get_mut(id).unwrap() = status,
            _ => {}
        }
    }
    for (id, status) in calls {
        let over = matches!(status, "\"completed\"" | "\"failed\"");
        assert!(over || live && status == "\"in_progress\"", "{id} is {status}");
    }
}

/// Plan, title and usage come at most once each, in this order, at the very end.
fn once(updates: &[String]) {
    let place = |update: &String| match tag(update) {
        "plan" => 1,
        "session_info_update" => 2,
        "usage_update" => 3,
        _ => 0,
    };
    let places: Vec<_> = updates.iter().map(place).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1] || pair == [0, 0]), "{places:?}");
}

/// A fork shows what its parent showed: the history before the cut, id for id.
fn prefix(log: &mut Log, at: Offset, options: Options, parent: &[String]) {
    let child = log.fork(at);
    let cut = replay(&child, options);
    assert_eq!(cut, replay_until(log, at, options), "a fork is the log cut there");
    let (cut, parent) = (history(&cut), history(parent));
    assert_eq!(cut[..], parent[..cut.len()]);
}

/// The events of a stored log, rows unpacked (FORMAT 11). None for legacy shapes (FORMAT 14): they are
/// upgraded on load, elsewhere.
fn stored(text: &str) -> Option<Log> {
    let mut log = Log::new();
    for line in text.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let (row, _) = Json::parse(line).unwrap();
        let kind = row.get("type").and_then(Json::as_str).unwrap().lossy().into_owned();
        let data = row.get("data")?;
        let legacy = match kind.as_str() {
            "user/message" => data.get("id").is_none(),
            "assistant/message" | "tool/result" => data.get("message").is_none(),
            _ => false,
        };
        if legacy {
            return None;
        }
        match kind.strip_suffix("-chunks") {
            None => push(&mut log, line),
            Some(voice) => unpack(voice, row, data, &mut log),
        }
    }
    Some(log)
}

fn unpack(voice: &str, row: Json<'_>, data: Json<'_>, log: &mut Log) {
    let part = |name: &str| data.get(name).unwrap().text();
    let number = |name: &str| row.get(name).and_then(Json::as_safe_int).unwrap();
    let (mut seq, mut time) = (number("seq0"), number("time0"));
    let mut gaps = data.get("dt").into_iter().flat_map(Json::elements);
    let payload = data.get("texts").or(data.get("args")).unwrap();
    for text in payload.elements() {
        let text = text.text();
        let rest = if voice == "tool-call" {
            let name = data.get("name").map_or(String::new(), |name| format!(r#""name":{},"#, name.text()));
            format!(r#""id":{},{name}"argumentsDelta":{text}"#, part("id"))
        } else {
            format!(r#""text":{text}"#)
        };
        let (turn, step, index) = (part("turn"), part("step"), part("index"));
        push(
            log,
            &format!(
                r#"{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{{"turn":{turn},"step":{step},"chunk":{{"type":"{voice}-delta","index":{index},{rest}}}}}}}"#
            ),
        );
        seq += 1;
        time += gaps.next().and_then(Json::as_safe_int).unwrap_or(0);
    }
}

#[test]
#[ignore = "needs ../shared/corpus"]
fn real_logs() {
    let (mut checked, mut legacy) = (0, 0);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/corpus/fixtures/rehydrated");
    for file in std::fs::read_dir(folder).expect("this test needs ../shared/corpus beside the project") {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        match stored(&text) {
            Some(mut log) => {
                check(&mut log);
                checked += 1;
            }
            None => legacy += 1,
        }
    }
    assert!(checked >= 80, "{checked} checked, {legacy} with legacy shapes");
}

/// Events of every kind, well and badly formed, with ids that clash.
const PALETTE: &[(&str, &str)] = &[
    ("turn/start", r#"{"turn":1}"#),
    ("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#),
    ("turn/end", r#"{"turn":1,"reason":{"kind":"error","error":{"message":"m"}}}"#),
    ("turn/end", "null"),
    ("step/start", r#"{"turn":1,"step":1}"#),
    ("step/end", r#"{"turn":1,"step":1}"#),
    (
        "user/message",
        r#"{"id":"m","role":"user","content":[{"type":"text","text":"caf\u00e9\u2028 \ud83d\ude00\\"},{"type":"image","attachment":{"attachmentId":"a"}},5],"source":{"kind":"user"}}"#,
    ),
    (
        "user/message",
        r#"{"id":"b","role":"user","content":[{"type":"file","name":"a.pdf","annotations":{"audience":["user",1]}},{"type":"diff"},{"type":"text","text":"a long text in several parts","annotations":{"priority":1},"_meta":{"a":[1]}}],"source":{"kind":"user"}}"#,
    ),
    (
        "tool/result",
        r#"{"turn":1,"step":1,"message":{"source":{"kind":"tool","callId":"e"},"content":[{"type":"tool-result","toolCallId":"e","content":[{"type":"diff","path":"/a","oldText":null,"newText":"\ud83d"},{"type":"terminal","terminalId":"t"},{"type":"content","content":{"type":"audio"}}]}]}}"#,
    ),
    (
        "user/message",
        r#"{"id":"m~2","role":"user","content":[{"type":"text","text":""}],"source":{"kind":"user"}}"#,
    ),
    (
        "user/message",
        r#"{"id":"n","role":"user","content":[{"type":"text","text":"x"}],"source":{"kind":"plugin","form":"notice","summary":"s"}}"#,
    ),
    (
        "user/message",
        r#"{"id":"k","role":"user","content":[{"type":"text","text":"sum"}],"source":{"kind":"plugin"}} @"#,
    ),
    (
        "assistant/message",
        r#"{"turn":1,"step":1,"message":{"id":"m","role":"assistant","content":[{"type":"reasoning","text":"think"},{"type":"text","text":"say"},{"type":"tool-call","id":"c","name":"bash","arguments":"{\"a\":[1]}"},{"type":"tool-call","id":"d","name":7,"arguments":null},{"type":"tool-call"}]},"usage":{"inputTokens":1,"outputTokens":2}}"#,
    ),
    (
        "assistant/message",
        r#"{"turn":1,"step":2,"message":{"id":"","content":[{"type":"text","text":"more"}]},"interrupted":true}"#,
    ),
    ("assistant/message", r#"{"turn":{},"step":null,"message":{"content":"none"},"usage":5}"#),
    ("tool/call", r#"{"turn":1,"step":1,"callId":"c","name":"bash","arguments":"{"}"#),
    ("tool/call", r#"{"callId":"c~2","name":"","arguments":"1e999"}"#),
    ("tool/call", r#"{"callId":5}"#),
    ("tool/call", r#"{"callId":"e","name":"Edit","arguments":"{\"file_path\":\"/w/a\",\"line\":3}"}"#),
    (
        "tool/call",
        r#"{"turn":1,"step":1,"callId":"f","name":"x\ud83d","arguments":{"command":["ls","\u2028"]}}"#,
    ),
    (
        "tool/result",
        r#"{"turn":1,"step":1,"message":{"source":{"kind":"tool","callId":"c"},"content":[{"type":"tool-result","toolCallId":"c","content":[{"type":"text","text":"out"},{"type":"odd"}]}]},"meta":{"x":[1]}}"#,
    ),
    (
        "tool/result",
        r#"{"message":{"source":{"kind":"tool","callId":"d"},"content":[{"type":"tool-result","content":[],"isError":true}]},"error":{"code":"E"}}"#,
    ),
    (
        "tool/result",
        r#"{"message":{"source":{"kind":"tool","callId":"c"},"content":[{"type":"tool-result","toolCallId":"c","content":[]}]}} @"#,
    ),
    (
        "assistant/chunk",
        r#"{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"a long delta of text \ud83d"}}"#,
    ),
    ("assistant/chunk", r#"{"turn":1,"step":1,"chunk":{"type":"text-delta","index":1,"text":"\ude00"}}"#),
    ("assistant/chunk", r#"{"turn":1,"step":2,"chunk":{"type":"reasoning-delta","index":0,"text":"r"}}"#),
    (
        "assistant/chunk",
        r#"{"turn":1,"step":1,"chunk":{"type":"tool-call-delta","index":2,"id":"c","name":"bash","argumentsDelta":"{\"a"}}"#,
    ),
    ("assistant/chunk", r#"{"chunk":7}"#),
    ("llm/retry", "{}"),
    (
        "todo/write",
        r#"{"todos":[{"content":"a","status":"pending"},{"content":"b","status":"cancelled","priority":"low"}]}"#,
    ),
    ("request/context", r#"{"contextWindow":100}"#),
    ("request/context", "{}"),
    ("session/title", r#"{"title":"T"}"#),
    ("compaction/start", "{}"),
    ("compaction/summary", r#"{"summary":[{"type":"text","text":"s"}]}"#),
    ("compaction/end", r#"{"error":{"message":"no"}}"#),
    ("compaction/end", "{}"),
    ("session/end-seed", "{}"),
    ("strange/event", "[]"),
];

fn random_log(picks: &[usize]) -> Log {
    let mut log = Log::new();
    for (seq, pick) in picks.iter().enumerate() {
        let (kind, data) = PALETTE[*pick];
        let op = match data.strip_suffix(" @") {
            Some(_) => r#","surfaceOp":{"op":"replace","start":0,"end":0}"#,
            None if kind.ends_with("/message") || kind == "tool/result" => r#","surfaceOp":"append""#,
            None => "",
        };
        let data = data.strip_suffix(" @").unwrap_or(data);
        push(&mut log, &format!(r#"{{"type":"{kind}","seq":{seq},"time":{seq},"data":{data}{op}}}"#));
    }
    log
}

proptest! {
    #[test]
    fn random_logs(picks in prop::collection::vec(0..PALETTE.len(), 0..60)) {
        check(&mut random_log(&picks));
    }
}
