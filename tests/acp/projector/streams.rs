//! Streams of steps that never got their message.

use sessiond::log::Log;

use super::{CALLED, PLAIN, assistant, chunk, delta, ended, result, shown, text, update, user};
use crate::acp_support::{self, follow, log, member, replay};

#[test]
fn deltas_are_folded_only_where_no_message_came() {
    let one = delta(1, r#""type":"text-delta","index":0,"text":"lost""#);
    let two = delta(2, r#""type":"text-delta","index":0,"text":"par\ud83d""#);
    let tail = delta(2, r#""type":"text-delta","index":0,"text":"\ude00t""#);
    let answer = assistant(1, "a", &text("whole"), "");
    let retried = log(&[
        ("turn/start", "{}"),
        ("step/start", "{}"),
        ("assistant/chunk", &one),
        ("assistant/message", &answer),
        ("assistant/chunk", &one),
        ("step/end", "{}"),
        ("step/start", "{}"),
        ("assistant/chunk", &one),
        ("llm/retry", "{}"),
        ("assistant/chunk", &two),
        ("assistant/chunk", "5"),
        ("assistant/chunk", &tail),
    ]);
    let mut expected = vec![chunk(3, "agent_message_chunk", "a", "whole")];
    assert_eq!(replay(&retried, PLAIN), expected, "the step may still get its message");
    assert_eq!(follow(&retried, PLAIN), expected);
    let mut crashed = retried;
    acp_support::push(&mut crashed, r#"{"type":"turn/end","seq":12,"time":1012,"data":{"turn":1}}"#);
    let folded = r#""messageId":"stream-9","content":{"type":"text","text":"par\ud83d\ude00t"}"#;
    expected.push(update(9, "agent_message_chunk", folded, r#","interrupted":true"#));
    assert_eq!(replay(&crashed, PLAIN), expected);
    assert_eq!(follow(&crashed, PLAIN), expected);
}

#[test]
fn a_stream_without_a_message_stands_where_it_was_streamed() {
    let say = |text: &str| delta(1, &format!(r#""type":"text-delta","index":0,"text":"{text}""#));
    let (one, two, three) = (say("one"), say("two"), say("three"));
    let writes =
        delta(1, r#""type":"tool-call-delta","index":1,"id":"c","name":"bash","argumentsDelta":"{}""#);
    let lost = delta(1, r#""type":"tool-call-delta","index":2,"id":"d","name":"bash","argumentsDelta":"{}""#);
    let (steered, done, answer) =
        (user("u", &text("q")), result("c", "", ""), assistant(1, "a", &text("whole"), ""));
    let open = [
        ("turn/start", "{}"),
        ("step/start", "{}"),
        ("assistant/chunk", one.as_str()),
        ("assistant/chunk", &writes),
        ("assistant/chunk", &lost),
        ("tool/call", CALLED),
        ("assistant/chunk", &two),
        ("user/message", &steered),
        ("tool/result", &done),
        ("assistant/chunk", &three),
    ];
    let piece = |seq, text: &str| {
        let members = format!(r#""messageId":"stream-2","content":{{"type":"text","text":"{text}"}}"#);
        update(seq, "agent_message_chunk", &members, r#","interrupted":true"#)
    };
    let call = shown(5, "c", "in_progress");
    let said = chunk(7, "user_message_chunk", "u", "q");
    let ended = ended(8, "c", "completed", r#","content":[]"#, "");
    let never_said =
        r#""toolCallId":"d","title":"bash","name":"bash","kind":"execute","status":"failed","rawInput":{}"#;
    let failed = update(4, "tool_call", never_said, r#","interrupted":true"#);
    let parted = [
        piece(2, "one"),
        call.clone(),
        piece(6, "two"),
        said.clone(),
        ended.clone(),
        piece(9, "three"),
        failed,
    ];
    for over in [("turn/end", "{}"), ("step/end", "{}"), ("turn/start", "{}")] {
        let log = log(&[&open[..], &[over]].concat());
        assert_eq!(replay(&log, PLAIN), parted, "{}", over.0);
        assert_eq!(follow(&log, PLAIN), parted, "{}", over.0);
    }
    // Where the message comes after all, or may still come, or a new attempt has begun, it is as if nothing was streamed.
    let whole = chunk(10, "agent_message_chunk", "a", "whole");
    for (next, rest) in [
        (Some(("assistant/message", &*answer)), vec![whole]),
        (Some(("llm/retry", "{}")), vec![]),
        (None, vec![]),
    ] {
        let log = log(&open.into_iter().chain(next).collect::<Vec<_>>());
        let expected = [vec![call.clone(), said.clone(), ended.clone()], rest].concat();
        assert_eq!(replay(&log, PLAIN), expected);
        assert_eq!(follow(&log, PLAIN), expected);
    }
    // Outside a turn nothing is awaited.
    let mut stray: Vec<_> = open[2..].to_vec();
    let texts = |log: &Log| -> Vec<String> {
        let texts = replay(log, PLAIN).into_iter().filter(|update| !update.contains("toolCallId"));
        texts.map(|update| member(member(&update, "content"), "text").to_owned()).collect()
    };
    assert_eq!(texts(&log(&stray)), ["\"one\"", "\"two\"", "\"q\""]);
    stray.push(("step/end", "{}"));
    assert_eq!(texts(&log(&stray)), ["\"one\"", "\"two\"", "\"q\"", "\"three\""]);
}

#[test]
fn a_fold_keeps_blocks_apart_and_ends_calls() {
    let deltas = [
        r#""type":"reasoning-delta","index":0,"text":"th""#,
        r#""type":"text-delta","index":1,"text":"te""#,
        r#""type":"tool-call-delta","index":3,"id":"d","name":"bash","argumentsDelta":"{\"a\"""#,
        r#""type":"reasoning-delta","index":0,"text":"ink""#,
        r#""type":"tool-call-delta","index":2,"id":"c","name":"bash","argumentsDelta":"{""#,
        r#""type":"tool-call-delta","index":2,"id":"c","name":"bash","argumentsDelta":"}""#,
        r#""type":"usage","usage":{}"#,
    ]
    .map(|chunk| delta(1, chunk));
    let mut events: Vec<_> = deltas.iter().map(|data| ("assistant/chunk", data.as_str())).collect();
    events.push(("step/end", "{}"));
    let piece = |seq, who, id: &str, text: &str| {
        let members = format!(r#""messageId":"{id}","content":{{"type":"text","text":"{text}"}}"#);
        update(seq, who, &members, r#","interrupted":true"#)
    };
    let call = |seq, id: &str, input: &str| {
        let members = format!(
            r#""toolCallId":"{id}","title":"bash","name":"bash","kind":"execute","status":"failed","rawInput":{input}"#
        );
        update(seq, "tool_call", &members, r#","interrupted":true"#)
    };
    let expected = [
        piece(0, "agent_thought_chunk", "stream-0/r0", "th"),
        piece(1, "agent_message_chunk", "stream-0", "te"),
        piece(3, "agent_thought_chunk", "stream-0/r0", "ink"),
        call(4, "c", "{}"),
        call(2, "d", r#""{\"a\"""#),
    ];
    assert_eq!(replay(&log(&events), PLAIN), expected);
    assert_eq!(follow(&log(&events), PLAIN), expected);
}
