//! Limits (PROTOCOL 6): do the flags refuse what cannot work, do our own lines keep the smallest limit, and does what a
//! refusal tells to do work?

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::daemon::Daemon;

/// Exit code and stderr of a daemon with these flags and no client.
fn start(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sessiond"))
        .args(["serve", "--store", "memory:"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_limit_below_its_minimum_is_wrong_usage() {
    for (flag, minimum) in [
        ("--max-message-bytes", 65_536),
        ("--max-event-bytes", 4_096),
        ("--max-depth", 8),
        ("--max-queued-bytes", 4_096),
        ("--max-batch-events", 1),
        ("--max-live-sessions", 1),
    ] {
        let (code, said) = start(&[flag, &(minimum - 1).to_string()]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(flag) && said.contains(&format!("from {minimum} to ")), "{said}");
        assert_eq!(start(&[flag, &minimum.to_string()]).0, Some(0), "{flag} {minimum}");
    }
    let (code, said) = start(&["--max-message-bytes", "65536", "--max-event-bytes", "49153"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--max-event-bytes 49153") && said.contains("at most 49152"), "{said}");
    assert_eq!(start(&["--max-message-bytes", "65536", "--max-event-bytes", "49152"]).0, Some(0));
}

const LINE: usize = 65_536;

/// The response to a request; every line before it, and it, keep the limit.
fn call(daemon: &mut Daemon, method: &str, params: Value) -> Value {
    let id = daemon.send(method, params);
    loop {
        let line = daemon.line();
        assert!(line.len() <= LINE, "{} bytes: {}", line.len(), &line[..200]);
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["id"] == id {
            return line;
        }
    }
}

fn smallest() -> Daemon {
    Daemon::start(&["--store", "memory:", "--max-message-bytes", "65536"])
}

#[test]
fn our_own_lines_keep_the_smallest_limit() {
    let mut daemon = smallest();
    // Texts of a header whose escapes make them longer, as long as they may be.
    let control = |count: usize| "\u{1}".repeat(count);
    let refused = call(&mut daemon, "session/new", json!({"meta": {"agentPreset": control(700)}}));
    assert_eq!(refused["error"]["data"]["field"], "meta.agentPreset");
    let meta = json!({"cwd": format!("/{}", control(680)), "agentPreset": control(682)});
    let id = "~".repeat(48);
    assert!(call(&mut daemon, "session/new", json!({"sessionId": id, "meta": meta}))["error"].is_null());
    // The longest event of all, and lists and pages with it.
    let title = "x".repeat(49_152 - 90);
    let longest = json!({"sessionId": id, "type": "session/title", "data": {"title": title}});
    assert_eq!(call(&mut daemon, "session/append", longest)["result"]["seq"], 0);
    for at in 0..5 {
        let child = format!("child-{at}");
        call(&mut daemon, "session/fork", json!({"sessionId": id, "childSessionId": child}));
    }
    for method in ["session/info", "session/events", "session/inspect", "session/messages"] {
        assert!(call(&mut daemon, method, json!({"sessionId": id}))["error"].is_null(), "{method}");
    }
    // A list is paged by itself; what cannot be says what to do, and that works.
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = call(&mut daemon, "session/list", json!({"cursor": cursor}));
        let page = &page["result"];
        seen.extend(page["sessions"].as_array().unwrap().iter().map(|row| row["sessionId"].clone()));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen.len(), 6);
    let refused = call(&mut daemon, "session/list", json!({"live": true}));
    assert_eq!(refused["error"]["data"]["limit"], "maxMessageBytes");
    assert!(refused["error"]["message"].as_str().unwrap().contains("ask without live"));
}

#[test]
fn a_surface_that_fills_no_line_can_be_folded_from_pages() {
    let mut daemon = smallest();
    call(&mut daemon, "session/new", json!({"sessionId": "s"}));
    let count = 13_000;
    for from in (0..count).step_by(250) {
        let message = |n: usize| {
            let data =
                json!({"id": n.to_string(), "role": "user", "content": [], "source": {"kind": "user"}});
            json!({"type": "user/message", "data": data, "surfaceOp": "append"})
        };
        let events: Vec<_> = (from..from + 250).map(message).collect();
        let batch = json!({"sessionId": "s", "events": events});
        assert_eq!(call(&mut daemon, "session/append_batch", batch)["result"]["count"], 250);
    }
    let refused = call(&mut daemon, "session/surface", json!({"sessionId": "s"}))["error"].clone();
    assert_eq!(
        (&refused["data"]["code"], &refused["data"]["use"]),
        (&json!("LIMIT_EXCEEDED"), &json!("session/events"))
    );
    let (mut nodes, mut from) = (Vec::new(), json!(0));
    while !from.is_null() {
        let types = ["user/message", "assistant/message", "tool/result"];
        let page =
            call(&mut daemon, "session/events", json!({"sessionId": "s", "fromSeq": from, "types": types}));
        let page = &page["result"];
        for event in page["events"].as_array().unwrap() {
            assert_eq!(event["surfaceOp"], "append");
            nodes.push(event["seq"].as_u64().unwrap());
        }
        from = page["next"].clone();
    }
    assert!(nodes.iter().copied().eq(0..count as u64));
    let some = call(&mut daemon, "session/surface", json!({"sessionId": "s", "throughSeq": 99}));
    assert_eq!(some["result"]["nodes"], json!(nodes[..100]));
    for (method, paged) in [("session/snapshot", "session/events"), ("session/request", "session/messages")] {
        let refused = call(&mut daemon, method, json!({"sessionId": "s"}));
        assert_eq!(refused["error"]["data"]["use"], paged, "{refused}");
    }
    // Messages with their seqs: as many as fit into a line together with these.
    let (mut seqs, mut since) = (Vec::new(), json!({"replaceGeneration": 0, "count": 0}));
    while !since.is_null() {
        let params = json!({"sessionId": "s", "withSeqs": true, "since": since, "maxBytes": 1 << 30});
        let page = call(&mut daemon, "session/messages", params)["result"].clone();
        let some: Vec<u64> =
            page["seqs"].as_array().unwrap().iter().map(|seq| seq.as_u64().unwrap()).collect();
        assert_eq!(page["messages"].as_array().unwrap().len(), some.len());
        seqs.extend(some);
        since = page["next"].clone();
    }
    assert_eq!(seqs, nodes);
}

#[test]
fn repairs_that_fill_no_line_are_refused() {
    let mut daemon = smallest();
    call(&mut daemon, "session/new", json!({"sessionId": "s"}));
    let content = json!([{"type": "text", "text": "x"}]);
    let data = json!({"id": "same", "role": "user", "content": content, "source": {"kind": "user"}});
    let message = json!({"type": "user/message", "data": data, "surfaceOp": "append"});
    for _ in 0..3 {
        let batch = json!({"sessionId": "s", "events": vec![message.clone(); 200]});
        assert_eq!(call(&mut daemon, "session/append_batch", batch)["result"]["count"], 200);
    }
    let request = |pairing: &str| json!({"sessionId": "s", "pairing": pairing});
    let plain = call(&mut daemon, "session/request", request("as_is"));
    assert_eq!(plain["result"]["messages"].as_array().unwrap().len(), 600);
    let refused = call(&mut daemon, "session/request", request("repair"))["error"].clone();
    assert_eq!((&refused["data"]["code"], &refused["data"]["max"]), (&json!("LIMIT_EXCEEDED"), &json!(LINE)));
    let some = json!({"sessionId": "s", "pairing": "repair", "throughSeq": 99});
    let some = call(&mut daemon, "session/request", some)["result"].clone();
    assert_eq!(
        (some["repairs"].as_array().unwrap().len(), &some["messages"][99]["id"]),
        (99, &json!("same-100"))
    );
}

#[test]
fn closers_that_fill_a_line_can_be_read_once_the_session_is_loaded() {
    let mut daemon = smallest();
    call(&mut daemon, "session/new", json!({"sessionId": "s"}));
    let content: Vec<_> = (0..400)
        .map(|n| json!({"type": "tool-call", "id": format!("call-{n}"), "name": "n", "arguments": "{}"}))
        .collect();
    let source = json!({"kind": "model", "provider": "p", "model": "m"});
    let message = json!({"id": "a", "role": "assistant", "content": content, "source": source});
    let events = json!([
        {"type": "turn/start", "data": {"turn": 1}},
        {"type": "step/start", "data": {"turn": 1, "step": 1}},
        {"type": "assistant/message", "data": {"turn": 1, "step": 1, "message": message}, "surfaceOp": "append"},
    ]);
    let batch = call(&mut daemon, "session/append_batch", json!({"sessionId": "s", "events": events}));
    assert_eq!(batch["result"]["count"], 3, "{batch}");
    let refused =
        call(&mut daemon, "session/inspect", json!({"sessionId": "s", "maxBytes": 1}))["error"].clone();
    assert_eq!(refused["data"]["code"], "LIMIT_EXCEEDED");
    assert!(refused["message"].as_str().unwrap().contains("load the session"), "{refused}");
    call(&mut daemon, "session/close", json!({"sessionId": "s"}));
    assert!(call(&mut daemon, "session/load", json!({"sessionId": "s"}))["error"].is_null());
    let page = call(&mut daemon, "session/events", json!({"sessionId": "s", "fromSeq": 3, "maxBytes": 4096}));
    assert_eq!(page["result"]["events"][0]["type"], "tool/result", "{page}");
}

#[test]
fn a_stored_log_over_a_limit_names_that_limit() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("jsonl:{}", dir.path().display());
    let mut daemon = Daemon::start(&["--store", &store]);
    call(&mut daemon, "session/new", json!({"sessionId": "deep"}));
    call(&mut daemon, "session/new", json!({"sessionId": "long"}));
    let deep = json!({"sessionId": "deep", "type": "session/title", "data": [[[[[[[[[[1]]]]]]]]]]});
    call(&mut daemon, "session/append", deep);
    let long = json!({"sessionId": "long", "type": "session/title", "data": "x".repeat(5_000)});
    call(&mut daemon, "session/append", long);
    for session in ["deep", "long"] {
        call(&mut daemon, "session/close", json!({"sessionId": session}));
    }
    daemon.end();
    let mut daemon = Daemon::start(&["--store", &store, "--max-depth", "8", "--max-event-bytes", "4096"]);
    for (session, limit, max, flag) in
        [("deep", "maxDepth", 8, "--max-depth"), ("long", "maxEventBytes", 4096, "--max-event-bytes")]
    {
        let refused = call(&mut daemon, "session/load", json!({"sessionId": session}))["error"].clone();
        let data = &refused["data"];
        assert_eq!(
            (&data["code"], &data["limit"], &data["max"]),
            (&json!("LIMIT_EXCEEDED"), &json!(limit), &json!(max))
        );
        let message = refused["message"].as_str().unwrap();
        assert!(
            message.contains(session) && message.contains("line 2") && message.contains(flag),
            "{message}"
        );
    }
}

/// A refusal for a limit; its data and message.
fn over(daemon: &mut Daemon, method: &str, params: Value) -> (Value, String) {
    let error = daemon.error(method, params);
    (error["data"].clone(), error["message"].as_str().unwrap().to_owned())
}

#[test]
fn each_limit_takes_what_just_fits_and_nothing_more() {
    let flags = ["--max-message-bytes", "65536", "--max-event-bytes", "4096", "--max-depth", "8"];
    let more = ["--max-batch-events", "3", "--max-live-sessions", "2", "--store", "memory:"];
    let mut daemon = Daemon::start(&[&flags[..], &more[..]].concat());
    let told = daemon.ok("initialize", native());
    let limits = &told["agentCapabilities"]["_meta"]["sessiond"]["limits"];
    for (limit, value) in [
        ("maxMessageBytes", 65_536),
        ("maxEventBytes", 4_096),
        ("maxDepth", 8),
        ("maxBatchEvents", 3),
        ("maxLiveSessions", 2),
    ] {
        assert_eq!(limits[limit], value, "{limits}");
    }
    daemon.ok("session/new", json!({"sessionId": "s"}));
    let title = |data: Value| json!({"sessionId": "s", "type": "session/title", "data": data});

    // The event's own line, whatever stands around it.
    let of_length = |count: usize| title(json!("x".repeat(count)));
    daemon.ok("session/append", of_length(1));
    let event = daemon.ok("session/events", json!({"sessionId": "s"}))["events"][0].clone();
    let room = 4_096 - (serde_json::to_string(&event).unwrap().len() - 1);
    daemon.ok("session/append", of_length(room));
    let (data, said) = over(&mut daemon, "session/append", of_length(room + 1));
    assert_eq!((&data["limit"], &data["max"]), (&json!("maxEventBytes"), &json!(4_096)));
    assert!(said.contains("--max-event-bytes"), "{said}");

    let nested = |depth: usize| (1..depth).fold(json!([]), |inner, _| json!([inner]));
    daemon.ok("session/append", title(nested(8)));
    let (data, said) = over(&mut daemon, "session/append", title(nested(9)));
    assert_eq!((&data["limit"], &data["max"]), (&json!("maxDepth"), &json!(8)));
    assert!(said.contains("--max-depth"), "{said}");

    let batch = |count| {
        let event = json!({"type": "session/title", "data": 1});
        json!({"sessionId": "s", "events": vec![event; count]})
    };
    assert_eq!(daemon.ok("session/append_batch", batch(3))["count"], 3);
    let (data, said) = over(&mut daemon, "session/append_batch", batch(4));
    assert_eq!((&data["limit"], &data["max"]), (&json!("maxBatchEvents"), &json!(3)));
    assert!(said.contains("--max-batch-events"), "{said}");

    daemon.ok("session/new", json!({"sessionId": "t"}));
    for (method, params) in [("session/new", json!({})), ("session/fork", json!({"sessionId": "s"}))] {
        let (data, said) = over(&mut daemon, method, params);
        assert_eq!((&data["limit"], &data["max"]), (&json!("maxLiveSessions"), &json!(2)));
        assert!(said.contains("--max-live-sessions"), "{said}");
    }
    daemon.ok("session/close", json!({"sessionId": "t"}));
    daemon.ok("session/new", json!({"sessionId": "u"}));

    // A line's end is not part of it.
    let line = |id: u64, bytes: usize| {
        let start =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/info","params":{{"sessionId":"s"}}"#);
        format!("{start}{}}}", " ".repeat(bytes - start.len() - 1))
    };
    daemon.send_line(&line(1_000, LINE));
    assert!(daemon.response(1_000)["error"].is_null());
    daemon.send_line(&line(1_001, LINE + 1));
    let refused: Value = serde_json::from_str(&daemon.line()).unwrap();
    let data = &refused["error"]["data"];
    assert_eq!((&refused["id"], &data["code"]), (&Value::Null, &json!("MESSAGE_TOO_LARGE")));
    assert_eq!((&data["limit"], &data["max"]), (&json!("maxMessageBytes"), &json!(65_536)));
    let count = daemon.ok("session/info", json!({"sessionId": "s"}))["nextSeq"].clone();
    assert_eq!(count, 6, "a refusal changes nothing");
}

/// An `initialize` of the native dialect, without notifications.
fn native() -> Value {
    json!({"protocolVersion": 1, "clientCapabilities": {"_meta": {"sessiond": {"notifications": []}}}})
}

#[test]
fn limits_that_no_flag_sets_are_those_of_the_table() {
    let mut daemon = Daemon::start(&["--store", "memory:"]);
    let told = daemon.ok("initialize", native());
    let limits = &told["agentCapabilities"]["_meta"]["sessiond"]["limits"];
    for (limit, value) in [
        ("maxMessageBytes", 32 << 20),
        ("maxEventBytes", 16 << 20),
        ("maxDepth", 1_000),
        ("maxQueuedBytes", 64 << 20),
        ("maxBatchEvents", 10_000),
        ("maxLiveSessions", 10_000),
    ] {
        assert_eq!(limits[limit], value, "{limits}");
    }
    daemon.ok("session/new", json!({"sessionId": "s"}));
    let small = json!({"type": "session/title", "data": 1});
    daemon.ok("session/append_batch", json!({"sessionId": "s", "events": vec![small; 1_200]}));
    let large = json!({"type": "session/title", "data": "x".repeat(100_000)});
    daemon.ok("session/append_batch", json!({"sessionId": "s", "events": vec![large; 30]}));
    for method in ["session/events", "session/inspect"] {
        let page = daemon.ok(method, json!({"sessionId": "s"}));
        assert_eq!((page["events"].as_array().unwrap().len(), &page["next"]), (1_000, &json!(1_000)));
        let page = daemon.ok(method, json!({"sessionId": "s", "fromSeq": 1_200}));
        let bytes = page["events"].to_string().len();
        assert!(bytes <= 1 << 20 && bytes > (1 << 20) - 110_000, "{method}: {bytes}");
        assert_eq!(page["next"], 1_200 + page["events"].as_array().unwrap().len());
    }
    for n in 0..1_001 {
        daemon.ok("session/new", json!({"sessionId": format!("s{n}")}));
        daemon
            .ok("session/append", json!({"sessionId": format!("s{n}"), "type": "session/title", "data": 1}));
    }
    let page = daemon.ok("session/list", json!({}));
    assert_eq!(page["sessions"].as_array().unwrap().len(), 1_000);
    assert!(page["nextCursor"].is_string());
}

/// The most memory that a process ever had, in bytes.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kb| kb << 10)
}

#[test]
fn a_compressed_log_that_swells_is_refused_and_not_held() {
    use sessiond::disk::read::zstd::FrameEncoder;

    const SWOLLEN: usize = 512 << 20;
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("_no-cwd/bomb");
    std::fs::create_dir_all(&session).unwrap();
    let header = r#"{"type":"session","version":0,"id":"bomb","createdAt":5,"delegationDepth":0}"#;
    let mut log = FrameEncoder::new(3).unwrap().encode(format!("{header}\n").as_bytes()).unwrap();
    log.extend(FrameEncoder::new(3).unwrap().encode(&vec![b'x'; SWOLLEN]).unwrap());
    assert!(log.len() < SWOLLEN / 1_000);
    std::fs::write(session.join("session.jsonl.zstd"), log).unwrap();
    let mut daemon = Daemon::start(&["--store", &format!("jsonl:{}", dir.path().display())]);
    for method in ["session/load", "session/resume"] {
        let error = daemon.error(method, json!({"sessionId": "bomb"}));
        assert_eq!(error["data"]["code"], "LIMIT_EXCEEDED", "{method}: {error}");
    }
    let inspected = daemon.ok("session/inspect", json!({"sessionId": "bomb"}));
    assert_eq!((&inspected["nextSeq"], inspected["problems"].as_array().unwrap().len()), (&json!(0), 1));
    let list = daemon.ok("session/list", json!({"includeEmpty": true}));
    assert_eq!(list["sessions"][0]["sessionId"], "bomb", "{list}");
    assert_ne!(list["sessions"][0]["status"], "ok", "{list}");
    if let Some(peak) = peak(daemon.pid()) {
        assert!(peak < (SWOLLEN / 3) as u64, "{peak} bytes for a line of {SWOLLEN}");
    }
    daemon.end();
}
