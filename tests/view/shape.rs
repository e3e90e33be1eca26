//! Which payloads may enter a log?

use sessiond::json::Json;
use sessiond::log::read_event;
use sessiond::view::{Reading, message_id_missing, minted_id, same_data};

use crate::view_support::{expected_classes, log_of, ops, seq, text, with_draft};

/// The classes that the shape check is the judge of.
fn is_shape(class: &str) -> bool {
    ["MESSAGE_", "HEADER_EVENT_", "LEGACY_"].iter().any(|prefix| class.starts_with(prefix))
}

fn append_class(kind: &str, data: &str) -> Option<&'static str> {
    with_draft(kind, data, None, |draft, _| Reading::of_append(&draft).err().map(|error| error.class()))
}

#[test]
fn stored_turn_ends_and_messages_are_held_to_the_same_rules() {
    use base64::Engine;
    for (case, op) in ops(&["15"]) {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text(&op, "bytesBase64")).unwrap();
        let stored = String::from_utf8_lossy(&bytes).into_owned();
        let mut found = Vec::new();
        for line in stored.lines().skip(1) {
            let Ok((value, checks)) = Json::parse(line) else { continue };
            let Ok((_, _, draft)) = read_event(value, checks.needs_compaction) else { continue };
            found.extend(Reading::of_stored(&draft).err().map(|error| (error.class(), draft.kind)));
        }
        let classes = expected_classes(&op);
        // Upstream upgrades legacy shapes before it checks; this check sees them as they lie there.
        let upgraded = case.starts_with("load.legacy");
        match found.first() {
            Some((class, kind)) => {
                let expected = classes.iter().any(|expected| expected == class);
                assert!(expected || upgraded, "{case}: {class} {kind:?}, not {classes:?}");
            }
            None => assert!(!classes.iter().any(|class| is_shape(class)), "{case}: accepted"),
        }
    }
}

#[test]
fn turn_ends_are_exact() {
    let class = |data| append_class("turn/end", data);
    for data in [
        r#"{"turn":1,"reason":{"kind":"completed"}}"#,
        r#"{"reason":{"kind":"max-tokens"},"turn":1.0}"#,
        r#"{"turn":1e2,"reason":{"kind":"aborted","reason":{"kind":"user"},"more":1}}"#,
        r#"{"turn":1,"reason":{"kind":"error","error":null}}"#,
        r#"{"turn":1,"reason":{"kind":"","any":1}}"#,
        r#"{"turn":1,"reason":{"kind":"refusal","any":1}}"#,
        "null",
        "5",
        "[1]",
        r#""x""#,
    ] {
        assert_eq!(class(data), None, "{data}");
    }
    for data in [
        "{}",
        r#"{"turn":1}"#,
        r#"{"turn":0,"reason":{"kind":"completed"}}"#,
        r#"{"turn":1.5,"reason":{"kind":"completed"}}"#,
        r#"{"turn":"1","reason":{"kind":"completed"}}"#,
        r#"{"turn":9007199254740992,"reason":{"kind":"completed"}}"#,
        r#"{"turn":1,"reason":{"kind":"completed"},"more":1}"#,
        r#"{"turn":1,"reason":"completed"}"#,
        r#"{"turn":1,"reason":["completed"]}"#,
        r#"{"turn":1,"reason":{"kind":null}}"#,
        r#"{"turn":1,"reason":{"kind":"interrupted","reason":1}}"#,
        r#"{"turn":1,"reason":{"kind":"blocked","error":1}}"#,
        r#"{"turn":1,"reason":{"kind":"aborted"}}"#,
        r#"{"turn":1,"reason":{"kind":"disposed"}}"#,
        r#"{"turn":1,"reason":{"kind":"error","step":1,"message":"boom"}}"#,
    ] {
        assert_eq!(class(data), Some("LEGACY_SHAPE_MALFORMED"), "{data}");
    }
}

#[test]
fn shapes_of_other_times_are_refused() {
    let text = r#"{"type":"text","text":"a"}"#;
    assert_eq!(append_class("mode/set", "{}"), Some("LEGACY_MODE_SET"));
    assert_eq!(append_class("request/header-delta", "1"), Some("LEGACY_REQUEST_HEADER_DELTA"));
    assert_eq!(append_class("steering/message", "1"), Some("LEGACY_STEERING_MESSAGE"));
    let trigger = append_class("turn/start", r#"{"turn":1,"trigger":{"kind":"user"}}"#);
    assert_eq!(trigger, Some("LEGACY_SHAPE_MALFORMED"));
    assert_eq!(append_class("turn/start", r#"{"turn":"x"}"#), None);
    let user = format!(r#"{{"content":[{text}],"source":{{"kind":"user"}}}}"#);
    assert_eq!(append_class("user/message", &user), Some("MESSAGE_ROLE"));
    let assistant = format!(r#"{{"turn":1,"step":1,"content":[{text}],"provenance":{{"provider":"p"}}}}"#);
    assert_eq!(append_class("assistant/message", &assistant), Some("MESSAGE_NO_ID"));
    let tool = r#"{"turn":1,"step":1,"callId":"c","content":[],"isError":false}"#;
    assert_eq!(append_class("tool/result", tool), Some("MESSAGE_NO_ID"));
    let fallback = r#"{"header":{"config":{"provider":"p","model":"m"}},"reason":"fallback"}"#;
    assert_eq!(append_class("request/header", fallback), Some("LEGACY_REQUEST_HEADER_FALLBACK"));
}

#[test]
fn a_refusal_says_where() {
    let pointer = |kind, data| {
        with_draft(kind, data, None, |draft, _| Reading::of_stored(&draft).unwrap_err().pointer())
    };
    let wrong = r#"{"message":{"id":"a","role":"assistant","source":5,"content":[]}}"#;
    assert_eq!(pointer("assistant/message", wrong), "/data/message/source");
    assert_eq!(pointer("user/message", r#"{"id":""}"#), "/data/id");
    assert_eq!(pointer("tool/result", "{}"), "/data/message");
    assert_eq!(pointer("mode/set", "{}"), "/type");
    let message =
        with_draft("tool/result", "{}", None, |draft, _| Reading::of_stored(&draft).unwrap_err().to_string());
    assert_eq!(message, "the event needs a message object with id, role, content and source in data.message");
}

#[test]
fn an_id_is_minted_as_the_first_member_and_left_out_of_comparison() {
    for (kind, data, minted) in [
        ("user/message", r#"{"role":"user"}"#, r#"{"id":"msg-7","role":"user"}"#),
        ("user/message", "{}", r#"{"id":"msg-7"}"#),
        ("user/message", "{ }", r#"{"id":"msg-7" }"#),
        ("assistant/message", r#"{"turn":1, "message": { "a":{"id":1} } }"#, ""),
        (
            "tool/result",
            r#"{"message":{"ID":1},"message2":{}}"#,
            r#"{"message":{"id":"msg-7","ID":1},"message2":{}}"#,
        ),
    ] {
        with_draft(kind, data, Some(r#""append""#), |draft, _| {
            let gap = message_id_missing(&draft).expect(data);
            let spliced = gap.splice(draft.data.text(), "msg-7");
            if !minted.is_empty() {
                assert_eq!(spliced, minted);
            }
            let line = format!(r#"{{"type":"{kind}","seq":0,"time":0,"data":{spliced}}}"#);
            let log = log_of(&[line]);
            let stored = log.get(seq(0)).unwrap().data();
            assert_eq!(minted_id(draft.kind, stored), Some("msg-7"));
            assert!(same_data(stored, &draft), "{} {data}", stored.text());
            for other in [r#"{"role":"user","x":1}"#, r#"{"id":"msg-8","role":"user"}"#, "1"] {
                with_draft(kind, other, None, |other, _| assert!(!same_data(stored, &other)));
            }
        });
    }
    for (kind, data) in [
        ("user/message", r#"{"id":null}"#),
        ("user/message", r#"{"\u0069d":1}"#),
        ("user/message", "[]"),
        ("tool/result", r#"{"callId":"c"}"#),
        ("turn/start", "{}"),
    ] {
        assert!(with_draft(kind, data, None, |draft, _| message_id_missing(&draft).is_none()), "{data}");
    }
    // An id that the client had given is not left out.
    let log = log_of(&[r#"{"type":"user/message","seq":0,"time":0,"data":{"id":"mine","role":"user"}}"#]);
    let stored = log.get(seq(0)).unwrap().data();
    with_draft("user/message", r#"{"role":"user"}"#, None, |draft, _| assert!(!same_data(stored, &draft)));
}
