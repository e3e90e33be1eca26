//! What ACP clients see of a log: one expectation per event kind and special case (ACP 13).

mod blocks;
mod streams;

use sessiond::acp::{Follower, Options, Replay, Updates};
use sessiond::log::Log;

use crate::acp_support;
use crate::acp_support::{follow, log, log_of_lines, member, replay, tag};

const PLAIN: Options = Options {
    compaction: false,
    notices: false,
    live: false,
    max_text_bytes: 1 << 20,
    max_update_bytes: 31 << 20,
};
const ALL: Options = Options { compaction: true, notices: true, live: true, ..PLAIN };

/// An update of the event at `seq`: its members, and what stands in `_meta` beside seq and time.
fn update(seq: usize, tag: &str, members: &str, meta: &str) -> String {
    let time = 1000 + seq;
    format!(
        r#"{{"sessionUpdate":"{tag}",{members},"_meta":{{"sessiond":{{"seq":{seq},"time":{time}{meta}}}}}}}"#
    )
}

fn chunk(seq: usize, who: &str, id: &str, text: &str) -> String {
    let members = format!(r#""messageId":"{id}","content":{{"type":"text","text":"{text}"}}"#);
    update(seq, who, &members, "")
}

fn user(id: &str, content: &str) -> String {
    format!(r#"{{"id":"{id}","role":"user","content":[{content}],"source":{{"kind":"user"}}}}"#)
}

fn assistant(step: u32, id: &str, content: &str, rest: &str) -> String {
    format!(
        r#"{{"turn":1,"step":{step},"message":{{"id":"{id}","role":"assistant","content":[{content}],"source":{{"kind":"model","provider":"p","model":"m"}}}}{rest}}}"#
    )
}

fn result(call: &str, content: &str, rest: &str) -> String {
    format!(
        r#"{{"turn":1,"step":1,"message":{{"id":"r","role":"user","source":{{"kind":"tool","callId":"{call}"}},"content":[{{"type":"tool-result","toolCallId":"{call}","content":[{content}]}}]}}{rest}}}"#
    )
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn delta(step: u32, chunk: &str) -> String {
    format!(r#"{{"turn":1,"step":{step},"chunk":{{{chunk}}}}}"#)
}

const CALL: &str = r#"{"type":"tool-call","id":"c","name":"bash","arguments":"{}"}"#;
const CALLED: &str = r#"{"turn":1,"step":1,"callId":"c","name":"bash","arguments":"{}"}"#;

fn shown(seq: usize, id: &str, status: &str) -> String {
    let members = format!(
        r#""toolCallId":"{id}","title":"bash","name":"bash","kind":"execute","status":"{status}","rawInput":{{}}"#
    );
    update(seq, "tool_call", &members, "")
}

fn ended(seq: usize, id: &str, status: &str, more: &str, meta: &str) -> String {
    let members = format!(r#""toolCallId":"{id}","status":"{status}"{more}"#);
    update(seq, "tool_call_update", &members, meta)
}

#[test]
fn a_conversation_on_replay_and_live() {
    let log = log_of_lines(include_str!("../fixtures/acp/conversation.jsonl"));
    let lines = |text: &'static str| text.lines().collect::<Vec<_>>();
    let options = Options { compaction: true, ..PLAIN };
    assert_eq!(replay(&log, options), lines(include_str!("../fixtures/acp/conversation.replay.jsonl")));
    assert_eq!(follow(&log, ALL), lines(include_str!("../fixtures/acp/conversation.live.jsonl")));
    let without: Vec<_> =
        replay(&log, options).into_iter().filter(|update| tag(update) != "compaction_update").collect();
    assert_eq!(replay(&log, PLAIN), without, "what is not advertised is not sent");
}

#[test]
fn an_empty_log_shows_nothing() {
    assert!(replay(&Log::new(), ALL).is_empty());
    assert!(follow(&Log::new(), ALL).is_empty());
}

#[test]
fn events_without_a_carrier_show_nothing() {
    let kinds = [
        "step/start",
        "step/end",
        "turn/start",
        "turn/end",
        "request/header",
        "request/context",
        "session/end-seed",
        "session/title-llm-request",
        "approval/asked",
        "hook/invoked",
        "x/y",
        "compaction/start",
        "compaction/prune",
        "llm/retry",
        "tool/call",
        "todo/write",
        "session/title",
    ];
    for data in ["{}", "null", "5", "\"x\"", "[]"] {
        let events: Vec<_> = kinds.iter().map(|kind| (*kind, data)).collect();
        assert!(replay(&log(&events), ALL).is_empty(), "{data}");
        assert!(follow(&log(&events), ALL).is_empty(), "{data}");
    }
}

#[test]
fn a_user_message_is_a_chunk_per_block_and_injections_are_none() {
    let mixed = [
        text("a\\u2028\\ud83d"),
        text(""),
        r#"{"type":"video"}"#.into(),
        "7".into(),
        r#"{"type":"image","data":"AA==","mediaType":"image/png"}"#.into(),
        r#"{"type":"image","attachment":{"attachmentId":"x"}}"#.into(),
        r#"{"type":"resource","resource":{"uri":"file:///a","text":"t"}}"#.into(),
        r#"{"type":"resource_link","uri":"file:///b","size":2}"#.into(),
    ];
    let injected = r#"{"id":"p","role":"user","content":[{"type":"text","text":"x"}],"source":{"kind":"plugin","plugin":"x","form":"notice","summary":"sum"}}"#;
    let log = log(&[("user/message", &user("u", &mixed.join(","))), ("user/message", injected)]);
    let part = |content: &str| {
        update(0, "user_message_chunk", &format!(r#""messageId":"u","content":{content}"#), "")
    };
    let expected = [
        chunk(0, "user_message_chunk", "u", "a\\u2028\\ufffd"),
        chunk(0, "user_message_chunk", "u", "[video]"),
        chunk(0, "user_message_chunk", "u", "[content]"),
        part(r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#),
        part(r#"{"type":"resource_link","uri":"attachment:x","name":"image"}"#),
        part(r#"{"type":"resource","resource":{"uri":"file:///a","text":"t"}}"#),
        chunk(0, "user_message_chunk", "u", "[resource_link: file:///b]"),
    ];
    assert_eq!(replay(&log, ALL), expected, "a notice is not replayed");
    let notice = update(1, "notice", r#""severity":"info","title":"sum""#, "");
    assert_eq!(follow(&log, ALL)[7..], [notice]);
    assert_eq!(follow(&log, PLAIN), expected);
}

#[test]
fn an_interrupted_answer_says_so() {
    let content = format!(r#"{{"type":"reasoning","text":"r"}},{}"#, text("t"));
    let log = log(&[("assistant/message", &assistant(1, "a", &content, r#","interrupted":true"#))]);
    let said = |who: &str, id: &str, text: &str| {
        let members = format!(r#""messageId":"{id}","content":{{"type":"text","text":"{text}"}}"#);
        update(0, who, &members, r#","interrupted":true"#)
    };
    let expected = [said("agent_thought_chunk", "a/r0", "r"), said("agent_message_chunk", "a", "t")];
    assert_eq!(replay(&log, PLAIN), expected);
}

#[test]
fn a_call_is_shown_once_and_ends_by_its_result() {
    let answer = assistant(1, "a", CALL, "");
    let done = result("c", &text("ok"), r#","meta":{"n":1.50},"error":null"#);
    let events = [
        ("turn/start", r#"{"turn":1}"#),
        ("assistant/message", &answer),
        ("tool/call", CALLED),
        ("tool/result", &done),
        ("tool/result @3-3", &done),
        ("turn/end", r#"{"turn":1}"#),
    ];
    let more =
        r#","content":[{"type":"content","content":{"type":"text","text":"ok"}}],"rawOutput":{"n":1.50}"#;
    let end = ended(3, "c", "completed", more, "");
    assert_eq!(replay(&log(&events), PLAIN), [shown(1, "c", "pending"), end.clone()]);
    let running = ended(2, "c", "in_progress", "", "");
    assert_eq!(follow(&log(&events), PLAIN), [shown(1, "c", "pending"), running, end]);
}

#[test]
fn calls_that_nothing_announced_are_shown_before_they_end() {
    let log = log(&[
        ("tool/call", CALLED),
        ("tool/result", &result("c", "", "")),
        ("tool/result", &result("z", "", r#","error":{"code":"E"}"#)),
    ]);
    let unknown =
        update(2, "tool_call", r#""toolCallId":"z","title":"z","kind":"other","status":"in_progress""#, "");
    let expected = [
        shown(0, "c", "in_progress"),
        ended(1, "c", "completed", r#","content":[]"#, ""),
        unknown,
        ended(2, "z", "failed", r#","content":[]"#, r#","errorCode":"E""#),
    ];
    assert_eq!(replay(&log, PLAIN), expected);
    assert_eq!(follow(&log, PLAIN), expected);
}

#[test]
fn a_turn_ends_its_open_calls() {
    let two = format!(r#"{CALL},{{"type":"tool-call","id":"b","name":"bash","arguments":"{{}}"}}"#);
    let answer = assistant(1, "a", &two, "");
    let end = r#"{"turn":1,"reason":{"kind":"error","error":{"message":"no route","code":"AUTH"}}}"#;
    let log = log(&[("turn/start", "{}"), ("assistant/message", &answer), ("turn/end", end)]);
    let mut expected = vec![
        shown(1, "c", "pending"),
        shown(1, "b", "pending"),
        ended(2, "c", "failed", "", r#","reason":"error""#),
        ended(2, "b", "failed", "", r#","reason":"error""#),
    ];
    assert_eq!(replay(&log, ALL), expected);
    expected.push(update(2, "notice", r#""severity":"error","title":"no route""#, ""));
    assert_eq!(follow(&log, ALL), expected);
}

#[test]
fn a_running_call_is_left_running_only_for_a_client_that_will_hear_its_end() {
    let answer = assistant(1, "a", CALL, "");
    let mut open = log(&[("turn/start", "{}"), ("assistant/message", &answer), ("tool/call", CALLED)]);
    let first = shown(1, "c", "pending");
    assert_eq!(replay(&open, PLAIN)[1..], [ended(2, "c", "failed", "", r#","reason":"unfinished""#)]);
    assert_eq!(replay(&open, ALL), [first, ended(2, "c", "in_progress", "", "")]);
    // The follower that takes over knows the call.
    let mut follower = Replay::new(&open, ALL).into_follower(&open);
    let line = format!(
        r#"{{"type":"tool/result","seq":3,"time":1003,"data":{},"surfaceOp":"append"}}"#,
        result("c", "", "")
    );
    acp_support::push(&mut open, &line);
    let mut updates = Updates::default();
    follower.advance(&open, &mut updates);
    follower.advance(&open, &mut updates);
    assert_eq!(updates.iter().collect::<Vec<_>>(), [ended(3, "c", "completed", r#","content":[]"#, "")]);
    // Outside a turn nothing runs any more.
    let stray = log(&[("assistant/message", &answer)]);
    assert_eq!(replay(&stray, ALL)[1..], [ended(0, "c", "failed", "", r#","reason":"unfinished""#)]);
}

#[test]
fn repeated_ids_are_told_apart_by_their_order() {
    let answer = assistant(1, "a", &format!("{CALL},{}", text("x")), "");
    let odd = user("a~2", &text("y"));
    let done = result("c", "", "");
    let log = log(&[
        ("assistant/message", &answer),
        ("tool/result", &done),
        ("user/message", &odd),
        ("assistant/message", &answer),
        ("tool/result", &done),
        ("assistant/message", &answer),
    ]);
    let names: Vec<_> = replay(&log, PLAIN)
        .iter()
        .map(|update| {
            format!("{}{}", member(update, "toolCallId"), member(update, "messageId")).replace('"', "")
        })
        .collect();
    assert_eq!(names, ["c", "a", "c", "a~2", "c~2", "a~3", "c~2", "c~3", "a~4", "c~3"]);
}

#[test]
fn ids_that_cannot_be_shown_come_from_the_seq() {
    let long = "x".repeat(5000);
    let call = CALL.replace("\"c\"", &format!("\"{long}\""));
    let log = log(&[
        ("user/message", &user(&long, &text("x"))),
        ("assistant/message", &assistant(1, "a", &call, "")),
        ("tool/result", &result(&long, "", "")),
    ]);
    let updates = replay(&log, PLAIN);
    assert_eq!(updates[0], chunk(0, "user_message_chunk", "message-0", "x"));
    assert_eq!(updates[1], shown(1, "call-1", "pending"));
    assert_eq!(member(&updates[2], "toolCallId"), "\"call-1\"");
}

#[test]
fn plan_title_and_usage_are_told_once_at_the_end() {
    let usage = |counts: &str| assistant(1, "a", "", &format!(r#","usage":{{{counts}}}"#));
    let (first, last) = (
        usage(r#""inputTokens":5,"outputTokens":1"#),
        usage(
            r#""inputTokens":7,"cacheReadTokens":20,"cacheWriteTokens":300,"outputTokens":4000,"reasoningTokens":9"#,
        ),
    );
    let events = [
        ("request/context", r#"{"contextWindow":100}"#),
        ("todo/write", r#"{"todos":[]}"#),
        (
            "todo/write",
            r#"{"todos":[{"content":"a","status":"in_progress"},{"content":"b","status":"odd"},{"content":"c","status":"cancelled"},{"content":"d"},{"content":"e","status":"pending","priority":"high"},{"status":"pending"},3]}"#,
        ),
        ("todo/write", r#"{"todos":"none"}"#),
        ("assistant/message", &first),
        ("session/title", r#"{"title":"Old"}"#),
        ("assistant/message", &last),
        ("request/context", r#"{"contextWindow":200}"#),
        ("session/title", r#"{"title":"\ud83dNew"}"#),
        ("session/title", r#"{"title":""}"#),
    ];
    let plan = r#""entries":[{"content":"a","priority":"medium","status":"in_progress"},{"content":"e","priority":"high","status":"pending"}]"#;
    let expected = [
        update(2, "plan", plan, r#","omitted":5"#),
        update(8, "session_info_update", r#""title":"\ufffdNew","updatedAt":"1970-01-01T00:00:01.007Z""#, ""),
        update(6, "usage_update", r#""used":4327,"size":200"#, ""),
    ];
    assert_eq!(replay(&log(&events), PLAIN), expected);
    // Without a window there is no usage; a log of titles alone has no activity.
    let unknown = [events[0], events[6], ("request/context", "{}")];
    assert!(replay(&log(&unknown), PLAIN).is_empty());
    assert_eq!(
        replay(&log(&events[5..6]), PLAIN),
        [update(0, "session_info_update", r#""title":"Old""#, "")]
    );
}

#[test]
fn compactions_are_told_where_they_end_and_hide_nothing() {
    let said = user("u", &text("q"));
    let summary = user("k", &text("sum"));
    let events = [
        ("user/message", said.as_str()),
        ("compaction/start", r#"{"compactionId":"x","turn":null}"#),
        ("compaction/end", r#"{"compactionId":"x","turn":null,"error":{"message":"too long"}}"#),
        ("user/message @0-0", &summary),
        ("compaction/end", "{}"),
        ("compaction/start", "{}"),
        ("compaction/summary", r#"{"summary":[{"type":"text","text":"s"},{"type":"odd"}]}"#),
        ("user/message @3-3", &summary),
        ("compaction/end", r#"{"error":null}"#),
    ];
    let told = |seq, members: &str| update(seq, "compaction_update", members, "");
    let expected = [
        chunk(0, "user_message_chunk", "u", "q"),
        told(2, r#""compactionId":"compaction-1","status":"failed","error":"too long""#),
        told(
            3,
            r#""compactionId":"compaction-3","status":"completed","summary":[{"type":"text","text":"sum"}]"#,
        ),
        told(4, r#""compactionId":"compaction-4","status":"completed""#),
        told(
            8,
            r#""compactionId":"compaction-5","status":"completed","summary":[{"type":"text","text":"s"},{"type":"text","text":"[odd]"}]"#,
        ),
    ];
    assert_eq!(replay(&log(&events), ALL), expected);
    assert_eq!(follow(&log(&events), ALL), expected);
    assert_eq!(replay(&log(&events), PLAIN), expected[..1]);
}

#[test]
fn usage_is_told_once_an_answer_after_the_last_rewrite_reports() {
    let said = user("u", &text("q"));
    let usage = |count: u32| assistant(1, "a", "", &format!(r#","usage":{{"inputTokens":{count}}}"#));
    let (before, after, silent) = (usage(900), usage(30), assistant(1, "a", "", ""));
    let pruned = result("c", "", "");
    let told = |seq, used: u32| update(seq, "usage_update", &format!(r#""used":{used},"size":1000"#), "");
    let opening = [
        ("request/context", r#"{"contextWindow":1000}"#),
        ("user/message", said.as_str()),
        ("tool/result", pruned.as_str()),
        ("assistant/message", before.as_str()),
    ];
    let usages = |events: &[(&str, &str)]| -> Vec<String> {
        let log = log(&[&opening[..], events].concat());
        replay(&log, PLAIN).into_iter().filter(|update| tag(update) == "usage_update").collect()
    };
    assert_eq!(usages(&[]), [told(3, 900)]);
    // A rewrite of any message makes it stale, and the usage that a rewrite itself names is of the call that wrote it.
    for rewrite in [
        ("user/message @1-3", said.as_str()),
        ("tool/result @2-2", pruned.as_str()),
        ("assistant/message @3-3", after.as_str()),
    ] {
        assert!(usages(&[rewrite]).is_empty(), "{}", rewrite.0);
        assert!(usages(&[rewrite, ("assistant/message", &silent)]).is_empty(), "{}", rewrite.0);
        assert_eq!(usages(&[rewrite, ("assistant/message", &after)]), [told(5, 30)]);
    }
    // A follower tells each as it comes, and none for a rewrite.
    let live =
        log(&[&opening[..], &[("assistant/message @3-3", &after), ("assistant/message", &after)]].concat());
    let live: Vec<_> =
        follow(&live, PLAIN).into_iter().filter(|update| tag(update) == "usage_update").collect();
    assert_eq!(live, [told(3, 900), told(5, 30)]);
}

#[test]
fn a_persons_title_outlives_later_ones() {
    let title = |title: &str, by: &str| {
        format!(r#"{{"title":"{title}","messageSeqs":[],"source":{{"kind":"{by}"}}}}"#)
    };
    let titles = [title("First", "fallback"), title("Mine", "user"), title("Auto", "provider")];
    let events: Vec<_> = titles.iter().map(|data| ("session/title", data.as_str())).collect();
    let told = |seq, title: &str| update(seq, "session_info_update", &format!(r#""title":"{title}""#), "");
    assert_eq!(replay(&log(&events), PLAIN), [told(1, "Mine")]);
    assert_eq!(follow(&log(&events), PLAIN), [told(0, "First"), told(1, "Mine")]);
}

#[test]
fn a_call_says_what_it_is_about_and_where() {
    let call = |name: &str, arguments: &str| {
        let arguments = sessiond::json::quote(arguments);
        format!(r#"{{"turn":1,"step":1,"callId":"c-{name}","name":"{name}","arguments":{arguments}}}"#)
    };
    let calls = [
        call("Edit", r#"{"file_path":"/w/a.rs","old_string":"a","new_string":"b"}"#),
        call("view", r#"{"path":"/w/a.rs","view_range":[7,9]}"#),
        call("http_get", r#"{"url":"http://a/b","path":"/b"}"#),
        call("exec_command", r#"{"cmd":"ls\n\u2028-l"}"#),
    ];
    let events: Vec<_> = calls.iter().map(|data| ("tool/call", data.as_str())).collect();
    let updates = replay(&log(&events), PLAIN);
    let facts = |update: &String| {
        ["title", "kind", "locations"].map(|name| member(update, name).to_owned()).join(" ")
    };
    let expected = [
        r#""Edit /w/a.rs" "edit" [{"path":"/w/a.rs"}]"#,
        r#""view /w/a.rs" "read" [{"path":"/w/a.rs","line":7}]"#,
        r#""http_get http://a/b" "fetch" "#,
        r#""ls -l" "execute" "#,
    ];
    assert_eq!(updates[..4].iter().map(facts).collect::<Vec<_>>(), expected);
}

#[test]
fn large_texts_are_split_between_characters() {
    let long = r#"é\ud83d\ude00\\\n"#.repeat(40);
    let folded = delta(2, &format!(r#""type":"text-delta","index":0,"text":"{long}""#));
    let log = log(&[
        ("user/message", &user("u", &text(&long))),
        ("assistant/chunk", &folded),
        ("assistant/chunk", &folded),
        ("step/end", "{}"),
    ]);
    for max_text_bytes in [1, 16, 30, 100] {
        let updates = replay(&log, Options { max_text_bytes, ..PLAIN });
        let mut joined = [String::new(), String::new()];
        for update in &updates {
            let id = member(update, "messageId");
            let content = member(update, "content");
            let inner = member(content, "text").trim_matches('"');
            assert!(inner.len() <= max_text_bytes.max(16), "{inner}");
            assert!(!inner.ends_with("\\ud83d") && !inner.starts_with("\\ude00"));
            joined[usize::from(id != "\"u\"")].push_str(inner);
        }
        assert_eq!(joined, [long.clone(), long.repeat(2)]);
    }
}

#[test]
fn an_update_stays_under_its_limit_and_says_what_it_lacks() {
    let long = "y".repeat(5000);
    let blocks = [text("a"), text(&long), text("b")].join(",");
    let arguments = format!(r#"{{"turn":1,"step":1,"callId":"c","name":"bash","arguments":"{long}"}}"#);
    let log = log(&[
        ("tool/call", &arguments),
        ("tool/result", &result("c", &blocks, &format!(r#","meta":"{long}""#))),
    ]);
    let updates = replay(&log, Options { max_update_bytes: 3000, ..PLAIN });
    assert!(updates.iter().all(|update| update.len() < 3000 && update.contains(r#","truncated":true"#)));
    assert_eq!(member(&updates[0], "rawInput"), "");
    assert!(member(&updates[1], "content").contains("\"a\"") && updates[1].contains("yyyy"));
    assert!(replay(&log, PLAIN).iter().all(|update| !update.contains("truncated")));
}

#[test]
fn a_replay_does_not_see_what_comes_after_it_began() {
    let mut growing = log(&[("user/message", &user("u", &text("q"))), ("todo/write", r#"{"todos":[]}"#)]);
    let expected = replay(&growing, PLAIN);
    let mut late = Replay::new(&growing, PLAIN);
    let mut out = String::new();
    assert!(late.next_into(&growing, &mut out));
    acp_support::push(
        &mut growing,
        r#"{"type":"todo/write","seq":2,"time":1,"data":{"todos":[{"content":"x"}]}}"#,
    );
    assert!(late.next_into(&growing, &mut out));
    assert_eq!(out, expected.concat());
    assert!(!late.next_into(&growing, &mut out));
    let mut follower: Follower = late.into_follower(&growing);
    let mut updates = Updates::default();
    follower.advance(&growing, &mut updates);
    assert_eq!(updates.len(), 1);
}
