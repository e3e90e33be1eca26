//! Lines and pipes: what clients send, what they do not read, and in which order they are told.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_setfl};
use serde_json::{Value, json};

use super::kit::{Says, Store, header, lines, note, resident, to, turn};
use crate::wire_support::{Daemon, line};

/// A request's line for an append of that event.
fn append(id: u64, session: &str, event: &Value) -> String {
    line(id, "session/append", to(session, event))
}

/// The real binary over a store on disk, as a child with three pipes.
fn serve(store: &Store, flags: &[&str]) -> Daemon {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    Daemon::spawn(
        command.args(["serve", "--store", &format!("jsonl:{}", store.root().display())]).args(flags),
    )
}

/// B096: the reader goes away in the middle of a stream; what was answered is stored, the end is quiet.
#[test]
fn broken_pipe() {
    let store = Store::new();
    let mut daemon = serve(&store, &[]);
    daemon.call(0, "session/new", json!({"sessionId": "s", "cwd": "/w"}));
    let batch: String = (1..=3000).map(|n| append(n, "s", &note(n))).collect();
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || drop(stdin.write_all(batch.as_bytes())));
    daemon.answer(500);
    daemon.hang_up();
    assert_eq!(daemon.status().code(), Some(0));
    assert_eq!(daemon.log(), "", "no panic, no complaint");
    writer.join().unwrap();
    let mut next = store.daemon();
    let held = next.ok("session/load", json!({"sessionId": "s"}))["nextSeq"].as_u64().unwrap();
    assert!(held >= 500, "{held}");
    let said: Vec<u64> = next.events("s").iter().map(|event| event["data"]["n"].as_u64().unwrap()).collect();
    assert_eq!(said, (1..=held).collect::<Vec<_>>());
}

/// B097, B098: no line is longer than the limit. It is a flag of the daemon's, told by `initialize`, not a wish of the
/// client's; pages are cut by bytes, and what no line could carry is refused on the way in.
#[test]
fn client_line_limit() {
    const MAX: usize = 64 << 10;
    let store = Store::new();
    let mut big = store.daemon();
    big.new_with("s", &turn(1, &["c"]));
    big.put("s", &(0..400).map(|n| note(format!("{n} {}", "x".repeat(1000)))).collect::<Vec<_>>());
    big.new_with("huge", &[note("x".repeat(1_300_000))]);
    big.end();
    let mut daemon = serve(&store, &["--max-message-bytes", &MAX.to_string()]);
    let hello = daemon.call(
        0,
        "initialize",
        json!({"protocolVersion": 1, "clientCapabilities": {"_meta": {"sessiond": {}}}}),
    );
    let limits = &hello["result"]["agentCapabilities"]["_meta"]["sessiond"]["limits"];
    assert_eq!(limits["maxMessageBytes"], MAX);
    let mut id = 0;
    let mut call = |daemon: &mut Daemon, method: &str, params: Value| {
        id += 1;
        daemon.request(id, method, params);
        loop {
            let text = daemon.line().unwrap();
            assert!(text.len() <= MAX, "{} bytes", text.len());
            let value: Value = serde_json::from_str(&text).unwrap();
            if value["id"] == id {
                return value;
            }
        }
    };
    assert_eq!(
        call(&mut daemon, "session/load", json!({"sessionId": "s", "replay": "updates"}))["result"]["nextSeq"],
        408
    );
    let (mut from, mut pages, mut events) = (json!(0), 0, 0);
    while !from.is_null() {
        let page =
            call(&mut daemon, "session/events", json!({"sessionId": "s", "fromSeq": from, "limit": 1000}));
        events += page["result"]["events"].as_array().unwrap().len();
        pages += 1;
        from = page["result"]["next"].clone();
    }
    assert!(events == 408 && pages > 5, "{events} events in {pages} pages");
    for method in ["session/snapshot", "session/events", "session/messages", "session/request"] {
        let answer = call(&mut daemon, method, json!({"sessionId": "s"}));
        let refused = &answer["error"]["data"];
        assert_eq!(refused.is_object(), method == "session/snapshot", "{answer}");
        if refused.is_object() {
            assert_eq!(
                (&refused["code"], &refused["limit"]),
                (&json!("LIMIT_EXCEEDED"), &json!("maxMessageBytes"))
            );
            assert!(
                answer["error"]["message"].as_str().unwrap().contains("session/events"),
                "names the paged call"
            );
        }
    }
    let huge = call(&mut daemon, "session/load", json!({"sessionId": "huge"}));
    assert_eq!(huge["error"]["data"]["code"], "LIMIT_EXCEEDED");
    let long = call(&mut daemon, "session/append", to("s", &note("x".repeat(60 << 10))));
    assert_eq!(long["error"]["data"]["limit"], "maxEventBytes", "what could not be read back is not taken");
}

/// B101: CR LF and LF are taken, LF alone is written.
#[test]
fn framing_length() {
    let mut daemon = Daemon::start(&[]);
    daemon.send(line(1, "session/new", json!({"sessionId": "s"})).replace('\n', "\r\n").as_bytes());
    daemon.send(append(2, "s", &note("a\r\nb")).replace('\n', "\r\n").as_bytes());
    daemon.send(b"\r\n\n");
    daemon.send(line(3, "session/events", json!({"sessionId": "s"})).as_bytes());
    daemon.close_stdin();
    let output = daemon.rest();
    assert!(!output.contains(&b'\r'));
    let text = String::from_utf8(output).unwrap();
    assert_eq!(text.lines().count(), 5);
    assert!(text.contains("a\\r\\nb") && !text.contains("error"), "{text}");
}

/// B103: every id comes back as the text that it came in. The contract takes any number, a fraction too.
#[test]
fn id_precision() {
    let mut daemon = Daemon::start(&[]);
    for id in ["9007199254740993", "-1", "\"\"", "\"1\"", "1", "null", "1.5", "1e3", "\"\\u0061\""] {
        daemon.send(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"session/close\",\"params\":{{\"sessionId\":\"s\"}}}}\n").as_bytes());
        assert_eq!(daemon.line().unwrap(), format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}"));
    }
    for id in ["true", "[1]", "{}"] {
        daemon.send(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"session/close\"}}\n").as_bytes());
        let answer = daemon.json();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    }
}

/// B105: ten thousand requests, then the reading.
#[test]
fn pipe_deadlock() {
    let mut daemon = Daemon::start(&[]);
    let mut all = line(0, "session/new", json!({"sessionId": "s"}));
    (1..=10_000).for_each(|id| all += &append(id, "s", &note(id)));
    daemon.send(all.as_bytes()); // on this thread: it returns because the daemon goes on reading
    for id in 0..=10_000 {
        assert_eq!(daemon.answer(id)["result"]["seq"].as_u64(), id.checked_sub(1));
    }
}

/// B106: a log at its most talkative, to a stderr that nobody reads, that is full, or that is closed.
#[test]
fn stderr_deadlock() {
    let secret = "payload-of-the-user".repeat(3400);
    let talk = |daemon: &mut Daemon| {
        daemon.call(0, "session/new", json!({"sessionId": "s"}));
        for id in 1..=1000 {
            // Refused, unknown and not run: each is worth a line.
            let request = match id % 3 {
                0 => append(id, "s", &json!({"type": "x/unknown", "data": secret})),
                1 => line(id, "session/nothing", json!({"x": secret})),
                _ => append(id, "s", &note(secret.as_str())),
            };
            let unanswered =
                "{\"jsonrpc\":\"2.0\",\"method\":\"session/close\",\"params\":{\"sessionId\":\"s\"}}\n";
            daemon.send((unanswered.repeat(20) + &request).as_bytes());
            daemon.answer(id);
        }
    };
    let mut daemon = Daemon::start(&["--log", "trace"]);
    talk(&mut daemon);
    daemon.close_stdin();
    assert!(daemon.status().success());
    let log = daemon.log();
    assert!(!log.is_empty() && !log.contains("payload-of-the-user"), "logged, and no payload");

    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    let mut daemon = Daemon::spawn_with(command.args(["--store", "memory:", "--log", "trace"]), full.into());
    talk(&mut daemon);
    let mut command = Command::new("sh");
    let script = "exec \"$0\" serve --store memory: --log trace 2>&-";
    let mut daemon = Daemon::spawn(command.args(["-c", script, env!("CARGO_BIN_EXE_sessiond")]));
    talk(&mut daemon);
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    let closed = Stdio::from(closed);
    let mut daemon = Daemon::spawn_with(command.args(["--store", "memory:", "--log", "trace"]), closed);
    talk(&mut daemon);
    daemon.close_stdin();
    assert!(daemon.status().success());
}

/// B107: a stdout that does not block, and a reader that is slow: nothing is lost, memory is bounded.
#[test]
fn stdout_backpressure() {
    const READS: u64 = 100;
    let (mut reader, writer) = std::io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sessiond"))
        .args(["serve", "--store", "memory:", "--max-queued-bytes", "1048576"])
        .stdin(Stdio::piped())
        .stdout(writer)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let pid = child.id();
    let asking = std::thread::spawn(move || {
        let mut all = line(0, "session/new", json!({"sessionId": "s"}));
        all += &append(1, "s", &note("x".repeat(1 << 20)));
        (2..2 + READS).for_each(|id| all += &line(id, "session/events", json!({"sessionId": "s"})));
        stdin.write_all(all.as_bytes()).unwrap();
    });
    let (mut output, mut part, mut most) = (Vec::new(), vec![0; 1 << 16], 0);
    loop {
        let count = reader.read(&mut part).unwrap();
        if count == 0 {
            break;
        }
        output.extend_from_slice(&part[..count]);
        if output.len() % (1 << 20) < count {
            std::thread::sleep(std::time::Duration::from_millis(5));
            most = most.max(if child.try_wait().unwrap().is_none() { resident(pid) } else { 0 });
        }
    }
    asking.join().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(most < 48 << 10, "{most} KiB for a queue of 1 MiB");
    let answers: Vec<&[u8]> =
        output.split(|byte| *byte == b'\n').filter(|line| line.len() > 1 << 20).collect();
    assert_eq!(answers.len() as u64, 1 + READS, "the announcement and every page");
    for (index, answer) in answers[1..].iter().enumerate() {
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", index + 2);
        assert!(answer.starts_with(head.as_bytes()) && answer.ends_with(b"}"), "{index}");
    }
}

/// B108: answers that wait for disks on other threads, streams and answers at once: every line is whole, each id once.
#[test]
fn stdout_interleave() {
    let store = Store::new();
    let mut daemon = serve(&store, &["--sync-window", "0"]);
    let (mut all, mut id) = (String::new(), 0);
    let mut ask = |method: &str, params: Value| {
        all += &line(id, method, params);
        id += 1;
    };
    for session in 0..64 {
        let name = format!("s{session}");
        ask("session/new", json!({"sessionId": name, "cwd": "/w"}));
        for n in 0..6 {
            let mut params = to(&name, &note(format!("{n} {}", "x".repeat(500))));
            params["durable"] = json!(n % 2 == 0);
            ask("session/append", params);
        }
        ask("session/fork", json!({"sessionId": name, "childSessionId": format!("c{session}")}));
        ask("session/inspect", json!({"sessionId": name}));
        if session % 8 == 0 {
            ask("session/list", json!({}));
        }
        ask("session/close", json!({"sessionId": name}));
        ask("session/load", json!({"sessionId": name, "replay": "updates"}));
    }
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || stdin.write_all(all.as_bytes()).unwrap());
    let mut answered = HashSet::new();
    while let Some(line) = daemon.line() {
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line.get("error").is_none(), "{line}");
        if let Some(id) = line.get("id") {
            assert!(answered.insert(id.as_u64().unwrap()), "answered twice: {line}");
        }
    }
    writer.join().unwrap();
    assert_eq!(answered.len() as u64, id);
}

/// B109: whatever writes to fd 1 inside the daemon's process reaches its stderr, never the client.
#[test]
fn stdout_pollution() {
    let mut daemon = Daemon::start(&[]);
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    let fd = |number: u32| format!("/proc/{}/fd/{number}", daemon.pid());
    assert_eq!(std::fs::read_link(fd(1)).unwrap(), std::fs::read_link(fd(2)).unwrap());
    let mut fd1 = std::fs::OpenOptions::new().write(true).open(fd(1)).unwrap();
    for id in 1..=50 {
        fd1.write_all(b"debug: from some library\n").unwrap();
        let answer = daemon.call(id, "session/append", to("s", &note(id)));
        assert_eq!(answer["result"]["seq"], id - 1);
    }
    drop(fd1);
    daemon.close_stdin();
    while let Some(line) = daemon.line() {
        serde_json::from_str::<Value>(&line).unwrap();
    }
    assert_eq!(daemon.log().matches("debug: from some library").count(), 50);
}

/// B111: 200 MB without a line end under a limit of 16 MiB: skipped without being held, and the next line is served.
#[test]
fn unbounded_line() {
    let mut daemon = Daemon::start(&["--max-message-bytes", &(16 << 20).to_string()]);
    let before = daemon.resident();
    let part = vec![b'x'; 1 << 20];
    for _ in 0..200 {
        daemon.send(&part);
    }
    assert!(daemon.resident() < before + (40 << 10), "{} KiB", daemon.resident());
    daemon.send(b"\n");
    assert_eq!(daemon.json()["error"]["data"]["code"], "MESSAGE_TOO_LARGE");
    assert_eq!(daemon.call(1, "session/new", json!({"sessionId": "s"}))["result"]["nextSeq"], 0);
}

/// B113, B114, B115, B117: lines end at LF alone, and nothing that leaves holds another separator.
#[test]
fn unicode_line_separators() {
    let said = "a\u{2028}b\u{2029}c\u{85}d";
    let store = Store::with(header("s") + &lines(&[note(said)]).concat());
    assert!(String::from_utf8(store.bytes("s")).unwrap().contains('\u{2028}'), "raw in the old log");
    let old = store.bytes("s");
    let mut daemon = serve(&store, &[]);
    daemon.send(b"{\"jsonrpc\":\n");
    let broken = daemon.json();
    assert_eq!((&broken["id"], &broken["error"]["code"]), (&Value::Null, &json!(-32700)));
    let mut answers = vec![
        daemon.call(1, "session/load", json!({"sessionId": "s"})),
        daemon.call(2, "session/append", to("s", &note(said))),
        daemon.call(
            3,
            "session/append",
            json!({"sessionId": "s", "type": "session/title", "data": {said: said}}),
        ),
    ];
    daemon.request(4, "session/events", json!({"sessionId": "s"}));
    daemon.request(5, "session/load", json!({"sessionId": said}));
    daemon.request(6, said, json!({said: said}));
    for _ in 4..=6 {
        let text = daemon.line().unwrap();
        // A reader that splits at any Unicode line end gets the same lines.
        assert_eq!(text.split(['\u{2028}', '\u{2029}', '\u{85}']).count(), 1, "{text}");
        answers.push(serde_json::from_str(&text).unwrap());
    }
    let events = answers[3]["result"]["events"].as_array().unwrap();
    assert_eq!((&events[0]["data"]["n"], &events[1]["data"]["n"]), (&json!(said), &json!(said)), "exactly");
    assert_eq!(events[2]["data"][said], said);
    daemon.close_stdin();
    for byte in daemon.rest_lines() {
        assert!(!byte.contains(['\u{2028}', '\u{2029}', '\u{85}']));
    }
    assert!(daemon.status().success());
    let log = String::from_utf8(store.bytes("s")).unwrap();
    assert!(log.as_bytes().starts_with(&old), "the old lines keep their bytes");
    assert!(!log[old.len()..].contains(['\u{2028}', '\u{2029}', '\u{85}']));
}

/// B174, B176: a thousand times, what a load replays comes before its response, and a new session's response before
/// every other line that names it.
#[test]
fn load_replay_order() {
    let mut daemon = Daemon::start(&[]);
    let mut all = String::new();
    for n in 0..1000_u64 {
        let name = format!("s{n}");
        all += &line(5 * n, "session/new", json!({"sessionId": name}));
        let batch = json!({"sessionId": name, "events": turn(1, &["c"])});
        all += &line(5 * n + 1, "session/append_batch", batch);
        all += &line(5 * n + 2, "session/close", json!({"sessionId": name}));
        all += &line(5 * n + 3, "session/load", json!({"sessionId": name, "replay": "updates"}));
        all += &line(5 * n + 4, "session/close", json!({"sessionId": name}));
    }
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || stdin.write_all(all.as_bytes()).unwrap());
    let mut orders: Vec<Vec<String>> = vec![Vec::new(); 1000];
    while let Some(line) = daemon.line() {
        let line: Value = serde_json::from_str(&line).unwrap();
        let (session, what) = match line["id"].as_u64() {
            Some(id) => (id / 5, (id % 5).to_string()),
            None => {
                let session = line["params"]["sessionId"].as_str().unwrap()[1..].parse().unwrap();
                (session, line["method"].as_str().unwrap().rsplit('/').next().unwrap().to_owned())
            }
        };
        orders[usize::try_from(session).unwrap()].push(what);
    }
    for (n, mut order) in orders.into_iter().enumerate() {
        order.dedup();
        let told = ["0", "created", "event", "1", "disposed", "2", "update", "3", "created", "disposed", "4"];
        assert_eq!(order, told, "{n}");
    }
    writer.join().unwrap();
}

/// B178: appends behind a load wait for its history, so that the response is the mark between what was and what comes:
/// each event is shown once, and `nextSeq` says where the new ones begin.
#[test]
fn replay_vs_live() {
    let mut daemon = Daemon::start(&[]);
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    let events: Vec<Value> = (1..=300).flat_map(|number| turn(number, &[])).collect();
    let count = events.len() as u64;
    daemon.call(1, "session/append_batch", json!({"sessionId": "s", "events": events}));
    daemon.call(2, "session/close", json!({"sessionId": "s"}));
    let mut all = line(3, "session/load", json!({"sessionId": "s", "replay": "updates"}));
    (0..50).for_each(|n| all += &append(4 + n, "s", &note(n)));
    daemon.send(all.as_bytes());
    let (mut replayed, mut live, mut caught_up) = (0, Vec::new(), None);
    while live.len() < 50 {
        let line = daemon.json();
        match line["method"].as_str() {
            Some("session/update") => {
                assert_eq!(caught_up, None, "history behind its mark");
                replayed += 1;
            }
            Some("session/event") => live.push(line["params"]["event"]["seq"].as_u64().unwrap()),
            _ if line["id"] == 3 => caught_up = line["result"]["nextSeq"].as_u64(),
            _ => {}
        }
    }
    assert!(replayed >= 300);
    assert_eq!(caught_up, Some(count));
    assert_eq!(live, (count..count + 50).collect::<Vec<_>>(), "each seq once, in order");
}

/// B180, B181: notifications begin at *Opened*.`nextSeq`, reads give what is before: read and told, every event once.
/// There is no subscription; a client that comes back loads and reads on from the seq that it has.
#[test]
fn subscription_gap() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &(0..100).map(note).collect::<Vec<_>>());
    daemon.end();
    let mut seen: Vec<u64> = Vec::new();
    for round in 0..3 {
        let mut daemon = store.daemon();
        let load = daemon.send("session/load", json!({"sessionId": "s"}));
        let appends: Vec<u64> =
            (0..100).map(|n| daemon.send("session/append", to("s", &note(format!("{round} {n}"))))).collect();
        let opened = daemon.answer(load).unwrap()["nextSeq"].as_u64().unwrap();
        let from = seen.len() as u64;
        let read = daemon.ok("session/events", json!({"sessionId": "s", "fromSeq": from, "toSeq": opened}));
        seen.extend(read["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()));
        appends.into_iter().for_each(|id| drop(daemon.answer(id).unwrap()));
        let told = daemon.notices.iter().filter(|notice| notice["method"] == "session/event");
        seen.extend(told.map(|notice| notice["params"]["event"]["seq"].as_u64().unwrap()));
        if round == 1 {
            daemon.kill(); // it comes back to a daemon that was killed as well
        }
    }
    assert_eq!(seen, (0..400).collect::<Vec<_>>());
}
