//! Is a long page that leaves while it is made the same, byte for byte, as one that is made whole? And does
//! a page by type hold what a plain filter lets through?

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sessiond::server::{Clock, IdSource, Server, Settings};
use sessiond::store::MemoryStorage;

fn server() -> Server {
    let settings = Settings {
        clock: "fixed:1700000000000+7".parse::<Clock>().unwrap(),
        ids: "sequential".parse::<IdSource>().unwrap(),
        ..Settings::default()
    };
    Server::new(settings, Box::new(MemoryStorage::default()))
}

/// What left early, and what was there at the end of each line, one behind the other.
fn outcome(lines: &[String], early: bool) -> (String, usize) {
    let (told, portions) = (Arc::new(Mutex::new(String::new())), Arc::new(Mutex::new(0)));
    let mut server = server();
    if early {
        let (told, portions) = (Arc::clone(&told), Arc::clone(&portions));
        server = server.with_outlet(Box::new(move |text: &mut String| {
            told.lock().unwrap().push_str(text);
            text.clear();
            *portions.lock().unwrap() += 1;
        }));
    }
    for line in lines {
        server.receive(line.as_bytes());
        let rest = std::mem::take(server.output().unwrap());
        told.lock().unwrap().push_str(&rest);
    }
    let (told, portions) = (told.lock().unwrap().clone(), *portions.lock().unwrap());
    (told, portions)
}

fn request(id: &Value, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// The closers that an inspection shows hold JSON of the client, and may name a member as a result does.
#[test]
fn an_inspection_puts_its_page_in_its_place() {
    let step = json!({"events": null});
    let source = json!({"kind": "model", "provider": "p", "model": "m"});
    let call = json!([{"type": "tool-call", "id": "c", "name": "x", "arguments": "{}"}]);
    let message = json!({"role": "assistant", "content": call, "source": source});
    let append = |kind: &str, data: Value| {
        let op = (kind == "assistant/message").then_some("append");
        let mut params = json!({"sessionId": "s", "type": kind, "data": data});
        if let (Some(op), Some(params)) = (op, params.as_object_mut()) {
            params.insert("surfaceOp".to_owned(), json!(op));
        }
        request(&json!(1), "session/append", &params)
    };
    let lines = [
        request(&json!(0), "session/new", &json!({"sessionId": "s", "invariants": "off"})),
        append("turn/start", json!({"turn": 1})),
        append("step/start", json!({"turn": 1, "step": step})),
        append("assistant/message", json!({"turn": 1, "step": step, "message": message})),
        request(&json!("end"), "session/inspect", &json!({"sessionId": "s"})),
    ];
    let (told, _) = outcome(&lines, true);
    let answer: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let result = &answer["result"];
    assert_eq!(result["events"].as_array().map(Vec::len), Some(3), "{answer}");
    assert!(result["closers"].to_string().contains(r#"{"events":null}"#), "{answer}");
}

#[test]
fn a_page_is_the_same_however_it_leaves() {
    const MESSAGES: usize = 3_000;
    let mut lines = vec![request(&json!(0), "session/new", &json!({"sessionId": "s"}))];
    for n in 0..MESSAGES {
        // Texts that look like what a response is put together from.
        let text = format!("\"messages\":null,\"events\":null}} \u{2028} {n} {}", "x".repeat(n % 700));
        let data =
            json!({"role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": "user"}});
        let params = json!({"sessionId": "s", "type": "user/message", "data": data, "surfaceOp": "append"});
        lines.push(request(&json!(n), "session/append", &params));
    }
    let whole = 30_000_000;
    for (method, params) in [
        ("session/messages", json!({"sessionId": "s", "maxBytes": whole})),
        ("session/messages", json!({"sessionId": "s", "maxBytes": 300_000})),
        (
            "session/messages",
            json!({"sessionId": "s", "maxBytes": 1, "since": {"replaceGeneration": 0, "count": 7}}),
        ),
        ("session/events", json!({"sessionId": "s", "maxBytes": whole, "limit": MESSAGES})),
        ("session/events", json!({"sessionId": "s", "maxBytes": whole, "limit": MESSAGES, "reverse": true})),
        ("session/events", json!({"sessionId": "s", "fromSeq": 5, "limit": 0})),
        ("session/events", json!({"sessionId": "gone"})),
        ("session/snapshot", json!({"sessionId": "s"})),
        ("session/request", json!({"sessionId": "s"})),
        ("session/inspect", json!({"sessionId": "s", "maxBytes": whole, "limit": MESSAGES})),
    ] {
        lines.push(request(&json!("\u{2028}id"), method, &params));
        lines.push(request(&json!("next"), "session/info", &json!({"sessionId": "s"})));
    }
    let ((early, portions), (late, _)) = (outcome(&lines, true), outcome(&lines, false));
    assert!(portions > 10, "only {portions} portions left early");
    for (early, late) in early.lines().zip(late.lines()) {
        assert!(early == late, "{}\n{}", &early[..200.min(early.len())], &late[..200.min(late.len())]);
    }
    assert_eq!(early.len(), late.len());
    let answers = late.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let whole: Vec<Value> = answers.filter(|line| line["result"]["total"] == json!(MESSAGES)).collect();
    assert_eq!(whole.len(), 3);
    let messages = whole.first().unwrap()["result"]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), MESSAGES);
    assert_eq!(messages.last().unwrap()["id"], json!(format!("msg-{MESSAGES}")));
}

/// Types by seq: one that is everywhere, one of the vocabulary that is not, one that comes once, and a crowd of names.
fn type_at(seq: u64) -> String {
    match seq {
        70_000 => "x/once".to_owned(),
        _ if seq % 20_000 == 19_999 => "plan/mode".to_owned(),
        _ if (100_000..100_100).contains(&seq) => format!("x/{seq}"),
        _ if seq.is_multiple_of(1_000) => "turn/start".to_owned(),
        _ => "x/note".to_owned(),
    }
}

#[test]
fn pages_by_type_are_a_plain_filter() {
    const EVENTS: u64 = 140_000;
    let mut server = server();
    let mut ask = |method: &str, params: Value| {
        server.receive(request(&json!(1), method, &params).as_bytes());
        let said = std::mem::take(server.output().unwrap());
        let answer: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        answer["result"].clone()
    };
    ask("session/new", json!({"sessionId": "s", "invariants": "off"}));
    for from in (0..EVENTS).step_by(1_000) {
        let event = |seq| json!({"type": type_at(seq), "data": {"turn": 1}, "ignorable": true});
        let batch: Vec<Value> = (from..from + 1_000).map(event).collect();
        let done = ask("session/append_batch", json!({"sessionId": "s", "events": batch}));
        assert_eq!(done["count"], 1_000);
    }
    let cases: [(&[&str], u64, u64); 8] = [
        (&[], 0, EVENTS),
        (&["turn/end", "goal/change", "x/absent", ""], 0, EVENTS),
        (&["plan/mode"], 0, EVENTS),
        (&["plan/mode", "x/once"], 19_999, 120_000),
        (&["x/once"], 0, 70_000),
        (&["x/100050", "x/100099", "turn/start"], 300, EVENTS),
        (&["turn/start"], 0, EVENTS),
        (&["x/note"], 69_000, 71_001),
    ];
    for (types, from, to) in cases {
        let want: Vec<u64> = (from..to).filter(|&seq| types.contains(&&*type_at(seq))).collect();
        for reverse in [false, true] {
            let (mut from, mut to, mut found, mut pages) = (from, to, Vec::new(), 0);
            loop {
                let page = ask(
                    "session/events",
                    json!({"sessionId": "s", "fromSeq": from, "toSeq": to, "types": types, "reverse": reverse, "limit": 900}),
                );
                found.extend(
                    page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()),
                );
                pages += 1;
                match page["next"].as_u64() {
                    None => break,
                    Some(next) if reverse => to = next,
                    Some(next) => from = next,
                }
            }
            if reverse {
                found.reverse();
            }
            assert_eq!(found, want, "{types:?}, reverse: {reverse}");
            // What one call looks at is bounded, and segments without the types hardly count.
            let rare =
                types.iter().all(|name| ["turn/end", "goal/change", "x/absent", "", "x/once"].contains(name));
            let most = if rare { 1 } else { 4 };
            assert!(pages <= most, "{pages} pages of {types:?}");
        }
    }
}
