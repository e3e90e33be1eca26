//! Content blocks: what ACP has passes, the rest is named.

use sessiond::acp::Options;

use super::{PLAIN, assistant, result, text, update, user};
use crate::acp_support::{log, member, replay};

#[test]
fn optional_members_of_blocks_pass_as_far_as_they_fit() {
    let note = r#""annotations":{"audience":["assistant","tool","user","user"],"priority":0.50,"lastModified":"2026","odd":1,"_meta":{"a":1}},"_meta":{"b":[2]}"#;
    let kept = r#""annotations":{"audience":["assistant","user"],"lastModified":"2026","priority":0.50,"_meta":{"a":1}},"_meta":{"b":[2]}"#;
    let bodies = [
        r#""type":"text","text":"t""#,
        r#""type":"image","data":"AA==","mimeType":"image/png","uri":"file:///i""#,
        r#""type":"audio","data":"AA==","mimeType":"audio/wav""#,
        r#""type":"resource_link","uri":"file:///b","name":"b","title":"B","description":"d","mimeType":"m","size":2"#,
        r#""type":"resource","resource":{"uri":"file:///a","blob":"AA==","mimeType":"m","_meta":{"c":3}}"#,
    ];
    let blocks = |members: &str| bodies.map(|body| format!("{{{body},{members}}}"));
    let said = user("u", &blocks(note).join(","));
    let thought = format!(r#"{{"type":"reasoning","text":"r",{note}}}"#);
    let answered = assistant(1, "a", &thought, "");
    let done = result("c", &blocks(note).join(","), "");
    let log = log(&[("user/message", &said), ("assistant/message", &answered), ("tool/result", &done)]);
    let updates = replay(&log, PLAIN);
    assert_eq!(updates[..5].iter().map(|update| member(update, "content")).collect::<Vec<_>>(), blocks(kept));
    assert_eq!(member(&updates[5], "content"), format!(r#"{{"type":"text","text":"r",{kept}}}"#));
    let whole: Vec<_> =
        blocks(kept).iter().map(|block| format!(r#"{{"type":"content","content":{block}}}"#)).collect();
    assert_eq!(member(&updates[7], "content"), format!("[{}]", whole.join(",")));
}

#[test]
fn members_that_do_not_fit_are_left_out_and_each_part_of_a_text_has_its_audience() {
    let blocks = [
        r#"{"type":"text","text":"a","annotations":null,"_meta":null}"#.to_owned(),
        r#"{"type":"text","text":"b","annotations":["user"],"_meta":7}"#.to_owned(),
        r#"{"type":"text","text":"c","annotations":{"audience":"user","priority":"high","lastModified":5}}"#
            .to_owned(),
        format!(
            r#"{{"type":"text","text":"{}","annotations":{{"audience":["assistant"],"_meta":{{}}}},"_meta":{{"x":1}}}}"#,
            "d".repeat(40)
        ),
    ];
    let log = log(&[("user/message", &user("u", &blocks.join(",")))]);
    let said = replay(&log, Options { max_text_bytes: 20, ..PLAIN });
    let said: Vec<_> = said.iter().map(|update| member(update, "content").to_owned()).collect();
    let long = "d".repeat(20);
    let expected = [
        text("a"),
        text("b"),
        r#"{"type":"text","text":"c","annotations":{}}"#.into(),
        format!(
            r#"{{"type":"text","text":"{long}","annotations":{{"audience":["assistant"],"_meta":{{}}}},"_meta":{{"x":1}}}}"#
        ),
        format!(r#"{{"type":"text","text":"{long}","annotations":{{"audience":["assistant"]}}}}"#),
    ];
    assert_eq!(said, expected);
}

#[test]
fn what_acp_cannot_carry_is_named_and_never_left_out() {
    let cases = [
        (r#"{"type":"file","name":"a.pdf"}"#, "[file: a.pdf]"),
        (r#"{"type":"file","file":{"filename":"b.pdf"}}"#, "[file: b.pdf]"),
        (r#"{"type":"input_text","text":"said"}"#, "said"),
        (r#"{"text":"bare"}"#, "bare"),
        (r#"{"type":"text","text":5}"#, "[text]"),
        (r#"{"type":"image","source":{"type":"url","url":"http://a"}}"#, "[image: http://a]"),
        (r#"{"type":"image","data":"AA=="}"#, "[image]"),
        (r#"{"type":"image","url":"data:image/png;base64,AA=="}"#, "[image]"),
        (r#"{"type":"audio","data":7,"mimeType":"m"}"#, "[audio]"),
        (r#"{"type":"resource","resource":{"uri":"file:///a"}}"#, "[resource: file:///a]"),
        (r#"{"type":"diff","path":"/a","newText":"n"}"#, "[diff: /a]"),
        (r#"{"type":"tool-call","name":"bash"}"#, "[tool-call: bash]"),
        (r#"{"type":"a\nb","title":"\u2028c\n\"d\""}"#, r#"[a b: c \"d\"]"#),
        (r#"{"type":""}"#, "[content]"),
        ("[]", "[content]"),
        ("null", "[content]"),
    ];
    let blocks = cases.map(|(block, _)| block).join(",");
    let log = log(&[
        ("user/message", &user("u", &blocks)),
        ("assistant/message", &assistant(1, "a", &blocks, "")),
        ("tool/result", &result("c", &blocks, "")),
    ]);
    let updates = replay(&log, PLAIN);
    for (at, (block, expected)) in cases.iter().enumerate() {
        for at in [at, cases.len() + at] {
            assert_eq!(member(&updates[at], "content"), text(expected), "{block}");
        }
    }
    let given: Vec<_> = cases
        .iter()
        .filter(|(block, _)| !block.contains("diff"))
        .map(|(_, shown)| format!(r#"{{"type":"content","content":{}}}"#, text(shown)))
        .collect();
    let diff = r#"{"type":"diff","path":"/a","newText":"n"}"#;
    let mut expected = given.clone();
    expected.insert(10, diff.to_owned());
    assert_eq!(member(updates.last().unwrap(), "content"), format!("[{}]", expected.join(",")));
}

#[test]
fn a_tool_gives_diffs_and_content_in_acps_form_too() {
    let diffs = [
        r#"{"type":"diff","path":"/w/f","oldText":"a","newText":"b"}"#,
        r#"{"type":"diff","path":"C:\\f","oldText":null,"newText":"","_meta":{"x":1}}"#,
        r#"{"type":"content","content":{"type":"text","text":"t"},"_meta":{"y":2}}"#,
    ];
    let odd = [
        (r#"{"type":"diff","path":"f","newText":"b"}"#, "[diff: f]"),
        (r#"{"type":"diff","path":"/w/f","oldText":1,"newText":"b"}"#, "[diff: /w/f]"),
        (r#"{"type":"diff","path":"/w/f"}"#, "[diff: /w/f]"),
        (r#"{"type":"terminal","terminalId":"t1"}"#, "[terminal: t1]"),
        (r#"{"type":"content","content":{"type":"odd"}}"#, "[odd]"),
        (r#"{"type":"content","content":"x"}"#, "[content]"),
    ];
    let blocks = [diffs.join(","), odd.map(|(block, _)| block).join(",")].join(",");
    let log = log(&[("tool/result", &result("c", &blocks, ""))]);
    let named = odd.map(|(_, shown)| format!(r#"{{"type":"content","content":{}}}"#, text(shown))).join(",");
    let expected = format!("[{},{named}]", diffs.join(","));
    assert_eq!(member(&replay(&log, PLAIN)[1], "content"), expected);
}

#[test]
fn what_is_too_large_for_an_update_is_named() {
    let image = format!(r#"{{"type":"image","data":"{}","mimeType":"image/png"}}"#, "A".repeat(5000));
    let diff = format!(r#"{{"type":"diff","path":"/f","newText":"{}"}}"#, "n".repeat(5000));
    let log = log(&[
        ("user/message", &user("u", &image)),
        ("tool/result", &result("c", &[image.clone(), diff, text("t")].join(","), "")),
    ]);
    let updates = replay(&log, Options { max_update_bytes: 3000, ..PLAIN });
    let named = format!(r#""messageId":"u","content":{}"#, text("[image]"));
    assert_eq!(updates[0], update(0, "user_message_chunk", &named, r#","truncated":true"#));
    let content = member(&updates[2], "content");
    for shown in ["[image]", "[diff: /f]", "t"] {
        assert!(content.contains(&text(shown)), "{content}");
    }
    assert!(updates[2].contains(r#","truncated":true"#));
}
