//! Does the daemon keep its word to a client that is fast, broken, gone or in a hurry?
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod wire_support;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use wire_support::{Daemon, line};

fn title(id: u64, session: &str, data: Value) -> String {
    line(id, "session/append", json!({"sessionId": session, "type": "session/title", "data": data}))
}

#[test]
fn very_many_appends_through_one_pipe_are_answered_in_order() {
    const APPENDS: u64 = 200_000;
    let mut daemon = Daemon::start(&[]);
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || {
        let mut chunk = String::new();
        for id in 1..=APPENDS {
            chunk.push_str(&title(id, "s", json!(id)));
            if chunk.len() > 50_000 || id == APPENDS {
                stdin.write_all(chunk.as_bytes()).unwrap();
                chunk.clear();
            }
        }
    });
    assert_eq!(daemon.json()["method"], "session/created");
    for id in 1..=APPENDS {
        let (seq, event, answer) = (id - 1, daemon.line().unwrap(), daemon.line().unwrap());
        let prefix = format!(
            r#"{{"jsonrpc":"2.0","method":"session/event","params":{{"sessionId":"s","event":{{"type":"session/title","seq":{seq},"#
        );
        assert!(event.starts_with(&prefix) && event.ends_with(&format!(r#","data":{id}}}}}}}"#)), "{event}");
        assert!(
            answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"seq":{seq},"#)),
            "{answer}"
        );
    }
    writer.join().unwrap();
    // Stdin is closed by now.
    assert_eq!(daemon.line(), None);
    assert!(daemon.status().success());
}

/// The window of a group commit is the daemon's own affair: nothing has to be asked for it to end (PROTOCOL 3).
#[test]
fn what_is_written_becomes_durable_though_nothing_else_is_asked() {
    let store = tempfile::tempdir().unwrap();
    let place = format!("jsonl:{}", store.path().display());
    for window in ["1", "30"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
        let mut daemon = Daemon::spawn(command.args(["serve", "--store", &place, "--sync-window", window]));
        let session = format!("s{window}");
        daemon.call(0, "session/new", json!({"sessionId": session}));
        for seq in 0..4 {
            daemon.send(title(seq, &session, json!({})).as_bytes());
            while let told = daemon.json()
                && (&told["method"], &told["params"]["durableSeq"])
                    != (&json!("session/durable"), &json!(seq))
            {}
        }
    }
}

#[test]
fn after_every_kind_of_bad_line_the_next_request_is_answered() {
    let mut daemon = Daemon::start(&[]);
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    let mut id = 0;
    let mut expect = |bytes: &[u8], code: Option<&str>| {
        id += 1;
        daemon.send(bytes);
        daemon.send(b"\n");
        daemon.request(id, "session/info", json!({"sessionId": "s"}));
        let mut codes = Vec::new();
        loop {
            let line = daemon.json();
            if line.get("id").and_then(Value::as_u64) == Some(id) {
                assert_eq!(line["result"]["nextSeq"], 0, "{line}");
                break;
            }
            codes.extend(line.pointer("/error/data/code").and_then(Value::as_str).map(str::to_owned));
        }
        match code {
            Some(code) => assert_eq!(codes, [code]),
            None => assert!(codes.is_empty(), "{codes:?}"),
        }
    };
    let append = |data: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"x","method":"session/append","params":{{"sessionId":"s","type":"session/title","data":{data}}}}}"#
        )
    };
    let nested =
        |open: &str, close: &str, depth: usize| format!("{}0{}", open.repeat(depth), close.repeat(depth));
    expect(append(&nested("[", "]", 100_000)).as_bytes(), Some("LIMIT_EXCEEDED"));
    expect(append(&nested(r#"{"a":"#, "}", 100_000)).as_bytes(), Some("LIMIT_EXCEEDED"));
    expect(append(&"[".repeat(100_000)).as_bytes(), Some("PARSE_ERROR"));
    expect("[".repeat(1 << 20).as_bytes(), Some("PARSE_ERROR"));
    expect(nested("[", "]", 100_000).as_bytes(), Some("INVALID_REQUEST"));
    let deep = nested("[", "]", 100_000);
    for (method, member) in [
        ("session/new", "meta"),
        ("session/new", "cwd"),
        ("session/events", "types"),
        ("session/messages", "since"),
        ("session/append", "expectedSeq"),
        ("session/info", "other"),
    ] {
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":"x","method":"{method}","params":{{"sessionId":"s","{member}":{deep}}}}}"#
        );
        expect(request.as_bytes(), Some("INVALID_PARAMS"));
    }
    expect(
        format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"session/list"}}"#).as_bytes(),
        Some("INVALID_REQUEST"),
    );
    expect(append(&format!("\"{}\"", "x".repeat(40 << 20))).as_bytes(), Some("MESSAGE_TOO_LARGE"));
    expect(append(&format!("\"{}\"", "x".repeat(20 << 20))).as_bytes(), Some("LIMIT_EXCEEDED"));
    expect(b"\xff\xfe{}", Some("PARSE_ERROR"));
    expect(b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\x28\"}", Some("PARSE_ERROR"));
    expect(b"\xed\xa0\x80", Some("PARSE_ERROR")); // a surrogate in UTF-8
    expect(b"\0\0\0", Some("PARSE_ERROR"));
    expect(b"", None);
    expect(b" \t ", None);
    expect(b"\r", None);
    let long_id = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"session/list"}}"#, "i".repeat(1_023));
    expect(long_id.as_bytes(), Some("INVALID_REQUEST"));
    let many: Vec<String> = (0..200_000).map(|n| format!("\"k{n}\":0")).collect();
    expect(
        format!(r#"{{"jsonrpc":"2.0","id":"x","method":"session/info","params":{{{}}}}}"#, many.join(","))
            .as_bytes(),
        Some("INVALID_PARAMS"),
    );
}

/// Bytes that repeat.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn random_bytes_and_mangled_requests_never_end_the_connection() {
    let mut daemon = Daemon::start(&["--max-message-bytes", "65536"]);
    let good = [
        line(1, "session/new", json!({"sessionId": "s", "seed": [], "meta": {"cwd": "/w"}})),
        title(1, "s", json!({"a": [1, -0.0, "\u{2028}"]})),
        line(1, "session/fork", json!({"sessionId": "s", "boundary": 0, "onOpenTurn": "clip"})),
        line(1, "session/events", json!({"sessionId": "s", "types": ["x"], "limit": 3})),
        line(
            1,
            "session/append_batch",
            json!({"sessionId": "s", "events": [{"type": "turn/start", "data": {}}]}),
        ),
    ];
    let mut noise = Noise(0x9E37_79B9_7F4A_7C15);
    let mut bytes = Vec::new();
    for round in 0..6_000 {
        let mut line: Vec<u8> = match round % 3 {
            0 => (0..noise.next() % 60).map(|_| noise.next() as u8).collect(),
            _ => good[noise.next() as usize % good.len()].clone().into_bytes(),
        };
        for _ in 0..noise.next() % 4 {
            let at = noise.next() as usize % (line.len() + 1);
            match noise.next() % 3 {
                0 => line.insert(at, noise.next() as u8),
                1 => line.insert(at, b"{}[]\",:\\0-"[noise.next() as usize % 10]),
                _ if at < line.len() => _ = line.remove(at),
                _ => {}
            }
        }
        bytes.extend(line);
    }
    bytes.extend(b"\n");
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || {
        stdin.write_all(&bytes).unwrap();
        stdin.write_all(line(424_242, "session/list", json!({})).as_bytes()).unwrap();
        stdin
    });
    // Every line that comes is JSON-RPC; none says that a bug was met.
    loop {
        let line = daemon.json();
        assert_eq!(line["jsonrpc"], "2.0");
        assert_ne!(line.pointer("/error/code"), Some(&json!(-32603)), "{line}");
        if line.get("id").and_then(Value::as_u64) == Some(424_242) {
            break;
        }
    }
    drop(writer.join().unwrap());
    while daemon.line().is_some() {}
    assert!(daemon.status().success());
}

#[test]
fn the_end_of_input_in_the_middle_of_a_line_is_the_end_of_that_line() {
    for (tail, code) in [
        (title(2, "s", json!(1)).trim_end().to_owned(), None),
        (r#"{"jsonrpc":"2.0","id":2,"method":"session/ap"#.to_owned(), Some("PARSE_ERROR")),
    ] {
        let mut daemon = Daemon::start(&[]);
        daemon.request(1, "session/new", json!({"sessionId": "s"}));
        daemon.send(tail.as_bytes());
        daemon.close_stdin();
        let mut last = Value::Null;
        while let Some(line) = daemon.line() {
            last = serde_json::from_str(&line).unwrap();
        }
        match code {
            None => assert_eq!(last["result"]["seq"], 0, "{last}"),
            Some(code) => assert_eq!(last["error"]["data"]["code"], code, "{last}"),
        }
        assert!(daemon.status().success());
        assert_eq!(daemon.log(), "", "an end is quiet");
    }
}

#[test]
fn a_signal_ends_the_daemon_after_what_it_has_taken_is_answered() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut daemon = Daemon::start(&[]);
        daemon.call(0, "session/new", json!({"sessionId": "s"}));
        let batch: String = (1..=2_000).map(|id| title(id, "s", json!(id))).collect();
        let mut stdin = daemon.take_stdin();
        // What the daemon does not take any more is lost, and the pipe breaks: both are fine.
        let writer = std::thread::spawn(move || while stdin.write_all(batch.as_bytes()).is_ok() {});
        daemon.answer(1_000);
        daemon.signal(signal);
        // Every event is followed by the answer that it belongs to, to the very last line.
        let mut open = None;
        let mut answered = 1_000;
        while let Some(line) = daemon.line() {
            let line: Value = serde_json::from_str(&line).unwrap();
            match line["method"].as_str() {
                Some("session/event") => open = Some(line["params"]["event"]["data"].as_u64().unwrap()),
                _ => {
                    assert_eq!(open.take(), line["id"].as_u64(), "{line}");
                    answered = answered % 2_000 + 1;
                    assert_eq!(line["id"].as_u64(), Some(answered), "in order");
                }
            }
        }
        assert_eq!(open, None, "an event without its answer");
        assert_eq!(daemon.status().code(), Some(0));
        assert_eq!(daemon.log(), "", "an end is quiet");
        writer.join().unwrap();
    }
}

#[test]
fn a_second_signal_does_not_wait_for_anybody() {
    let mut daemon = Daemon::start(&[]);
    daemon.request(0, "session/new", json!({"sessionId": "s"}));
    // The start of an answer shows that signals are listened for; nobody reads the rest, so that a first
    // signal alone would wait for 5 seconds.
    daemon.send(title(1, "s", json!("x".repeat(4 << 20))).as_bytes());
    daemon.read_some();
    daemon.signal(Signal::TERM);
    daemon.signal(Signal::INT);
    assert_eq!(daemon.status().code(), Some(130));
}

#[test]
fn a_reader_that_goes_away_ends_the_daemon_quietly() {
    // While it waits for input …
    let mut daemon = Daemon::start(&[]);
    daemon.close_stdout();
    assert_eq!(daemon.status().code(), Some(0));
    assert_eq!(daemon.log(), "");
    // … and while it has much to write.
    let mut daemon = Daemon::start(&[]);
    daemon.send(line(0, "session/new", json!({"sessionId": "s"})).as_bytes());
    daemon.send(title(1, "s", json!("x".repeat(4 << 20))).as_bytes());
    daemon.close_stdout();
    assert_eq!(daemon.status().code(), Some(0));
    assert_eq!(daemon.log(), "");
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let mut daemon = Daemon::start(&["--log", "trace"]);
    // Each of these is worth a line in the log.
    let noise = r#"{"jsonrpc":"2.0","method":"session/close","params":{"sessionId":"s"}}"#.to_owned() + "\n";
    for id in 0..50 {
        daemon.send(noise.repeat(1_000).as_bytes());
        daemon.call(id, "session/list", json!({}));
    }
    daemon.close_stdin();
    assert_eq!(daemon.line(), None);
    assert!(daemon.status().success());
}

#[test]
fn standard_streams_that_are_closed_or_null_are_no_trouble() {
    let daemon = env!("CARGO_BIN_EXE_sessiond");
    let run = |redirections: &str| {
        let script = format!("exec {daemon:?} serve --store memory: {redirections}");
        let request = line(1, "session/new", json!({"sessionId": "s"}));
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(request.as_bytes());
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (child.wait().unwrap().code(), out)
    };
    assert_eq!(run("</dev/null"), (Some(0), String::new()));
    let (code, out) = run("2>&-");
    assert_eq!((code, out.lines().count()), (Some(0), 2), "without a stderr: {out}");
    assert_eq!(run(">/dev/null"), (Some(0), String::new()));
    let (_, out) = run("<&-");
    assert_eq!(out, "", "without a stdin");
    let (_, out) = run(">&-");
    assert_eq!(out, "", "without a stdout");
}

#[test]
fn open_files_that_the_client_shares_keep_their_flags() {
    let ((input, mut requests), (mut answers, output)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    command.args(["serve", "--store", "memory:"]);
    command.stdin(input.try_clone().unwrap()).stdout(output.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    requests.write_all(line(1, "session/new", json!({"sessionId": "s"})).as_bytes()).unwrap();
    // More than the pipe takes, so that it is written in every way there is.
    requests.write_all(title(2, "s", json!("x".repeat(4 << 20))).as_bytes()).unwrap();
    let mut seen = Vec::new();
    while lines_in(&seen) < 4 {
        let mut buf = vec![0; 1 << 16];
        let n = answers.read(&mut buf).unwrap();
        seen.extend_from_slice(&buf[..n]);
        for (ours, what) in [(input.as_fd(), "stdin"), (output.as_fd(), "stdout")] {
            assert!(!rustix::fs::fcntl_getfl(ours).unwrap().contains(rustix::fs::OFlags::NONBLOCK), "{what}");
        }
    }
    drop(requests);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn lines_in(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

#[test]
fn named_pipes_and_sockets_are_as_good_as_pipes() {
    let daemon = env!("CARGO_BIN_EXE_sessiond");
    // A client that opens a pipe for both keeps it from ending: a signal has to.
    for (redirections, ends) in [("<in >out", true), ("<in 1<>out", true), ("<>in >out", false)] {
        let directory = tempfile::tempdir().unwrap();
        let script =
            format!("mkfifo in out && echo made && exec {daemon:?} serve --store memory: {redirections}");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .current_dir(&directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 5]).unwrap();
        let open = || std::fs::OpenOptions::new().write(true).open(directory.path().join("in")).unwrap();
        let mut requests = open();
        let mut answers = BufReader::new(std::fs::File::open(directory.path().join("out")).unwrap());
        let mut answer = |requests: &mut std::fs::File, request: String| {
            requests.write_all(request.as_bytes()).unwrap();
            loop {
                let mut line = String::new();
                answers.read_line(&mut line).unwrap();
                let line: Value = serde_json::from_str(&line).unwrap();
                if line.get("id").is_some() {
                    return line;
                }
            }
        };
        answer(&mut requests, line(1, "session/new", json!({"sessionId": "s"})));
        for id in 2..200 {
            let answer = answer(&mut requests, title(id, "s", json!(id)));
            assert_eq!(answer["result"]["seq"], id - 2, "{redirections}");
        }
        drop(requests);
        if !ends {
            answer(&mut open(), title(200, "s", json!(1)));
            rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(0), "{redirections}");
    }
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new(daemon);
    command.args(["serve", "--store", "memory:"]);
    command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
    let mut child = command.spawn().unwrap();
    drop(command);
    (&ours).write_all(line(1, "session/new", json!({"sessionId": "s"})).as_bytes()).unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut out = String::new();
    (&ours).read_to_string(&mut out).unwrap();
    assert_eq!(out.lines().count(), 2, "{out}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[cfg(target_os = "linux")] // threads are counted in /proc
#[test]
fn a_thread_is_there_while_it_has_something_to_do() {
    let mut daemon = Daemon::start(&["--log", "trace"]);
    let threads =
        |daemon: &Daemon| std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap().count();
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    for id in 1..=100 {
        daemon.call(id, "session/append", json!({"sessionId": "s", "type": "session/title", "data": id}));
    }
    assert_eq!(threads(&daemon), 1);
    // More than a pipe takes, and a line for the log; then one more, when both threads have ended.
    for round in 0..2 {
        daemon.send(title(1000 + round, "s", json!("x".repeat(4 << 20))).as_bytes());
        daemon.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"session/close\",\"params\":{}}\n");
        // It cannot end before the answer is read.
        while threads(&daemon) == 1 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        daemon.answer(1000 + round);
        while threads(&daemon) > 1 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    daemon.close_stdin();
    assert_eq!(daemon.line(), None);
    assert!(daemon.status().success());
    assert_eq!(daemon.log().lines().count(), 2);
}

/// Reads everything and holds it to the order of PROTOCOL 1: a session is named only once a response has
/// told of it, an event comes before its answer and exactly once, in seq order.
struct Order {
    told: HashSet<String>,
    next: HashMap<String, u64>,
    announced: HashSet<(String, u64)>,
}

impl Order {
    fn check(&mut self, line: &Value, asked: &HashMap<u64, (String, &'static str)>) {
        let params = &line["params"];
        if let Some(method) = line["method"].as_str() {
            let session = params["sessionId"].as_str().unwrap().to_owned();
            assert!(self.told.contains(&session), "{session} was not told of: {line}");
            match method {
                "session/created" => {
                    let next = params["nextSeq"].as_u64().unwrap();
                    assert_eq!(*self.next.entry(session).or_insert(next), next, "{line}");
                }
                "session/event" => {
                    let seq = params["event"]["seq"].as_u64().unwrap();
                    let next = self.next.get_mut(&session).unwrap();
                    assert_eq!(*next, seq, "{line}");
                    *next += 1;
                    assert!(self.announced.insert((session, seq)), "{line}");
                }
                _ => {}
            }
            return;
        }
        let (session, method) = &asked[&line["id"].as_u64().unwrap()];
        let result = line.get("result").unwrap_or_else(|| panic!("{method} of {session}: {line}"));
        match *method {
            "session/new" | "session/fork" => {
                assert!(self.told.insert(session.clone()));
            }
            "session/append" => {
                let key = (session.clone(), result["seq"].as_u64().unwrap());
                assert!(self.announced.contains(&key), "answered before it was announced: {line}");
            }
            _ => {}
        }
    }
}

#[test]
fn many_sessions_through_one_pipe_keep_their_order() {
    let mut daemon = Daemon::start(&[]);
    let mut asked: HashMap<u64, (String, &'static str)> = HashMap::new();
    let mut bytes = String::new();
    let mut ask = |session: &str, method: &'static str, params: Value| {
        let id = asked.len() as u64;
        bytes.push_str(&line(id, method, params));
        asked.insert(id, (session.to_owned(), method));
    };
    let mut noise = Noise(7);
    let mut sessions = vec!["s0".to_owned()];
    ask("s0", "session/new", json!({"sessionId": "s0"}));
    for n in 1..6_000 {
        let session = sessions[noise.next() as usize % sessions.len()].clone();
        match noise.next() % 20 {
            0 => {
                let child = format!("s{n}");
                ask(&child, "session/fork", json!({"sessionId": session, "childSessionId": child}));
                // In the same breath, before anybody has answered.
                ask(
                    &child,
                    "session/append",
                    json!({"sessionId": child, "type": "session/title", "data": n}),
                );
                sessions.push(child);
            }
            1 => {
                let fresh = format!("s{n}");
                ask(&fresh, "session/new", json!({"sessionId": fresh}));
                sessions.push(fresh);
            }
            2 => ask(&session, "session/events", json!({"sessionId": session, "limit": 2, "reverse": true})),
            3 => ask(&session, "session/list", json!({"limit": 1})),
            _ => ask(
                &session,
                "session/append",
                json!({"sessionId": session, "type": "session/title", "data": {"n": n}}),
            ),
        }
    }
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || stdin.write_all(bytes.as_bytes()).unwrap());
    let mut order = Order { told: HashSet::new(), next: HashMap::new(), announced: HashSet::new() };
    let mut answered = HashSet::new();
    while let Some(line) = daemon.line() {
        let line: Value = serde_json::from_str(&line).unwrap();
        order.check(&line, &asked);
        if let Some(id) = line.get("id").and_then(Value::as_u64) {
            assert!(answered.insert(id), "answered twice: {line}");
        }
    }
    writer.join().unwrap();
    assert_eq!(answered.len(), asked.len());
    assert!(daemon.status().success());
}

#[test]
fn closing_and_loading_in_one_breath_works() {
    let mut daemon = Daemon::start(&[]);
    let mut bytes = line(0, "session/new", json!({"sessionId": "s"}));
    for round in 0..500 {
        let id = 1 + 4 * round;
        bytes.push_str(&title(id, "s", json!(round)));
        bytes.push_str(&line(id + 1, "session/close", json!({"sessionId": "s"})));
        bytes.push_str(&line(id + 2, "session/load", json!({"sessionId": "s"})));
        bytes.push_str(&line(id + 3, "session/list", json!({})));
    }
    let mut stdin = daemon.take_stdin();
    let writer = std::thread::spawn(move || stdin.write_all(bytes.as_bytes()).unwrap());
    let mut last = Value::Null;
    while let Some(line) = daemon.line() {
        last = serde_json::from_str(&line).unwrap();
        assert!(last.get("error").is_none(), "{last}");
    }
    writer.join().unwrap();
    assert_eq!(last["result"]["sessions"][0]["live"], true);
    assert!(daemon.status().success());
}

#[test]
fn the_texts_of_a_header_cannot_fill_a_line() {
    let mut daemon = Daemon::start(&[]);
    for (id, field, params) in [
        (1, "cwd", json!({"sessionId": "s", "cwd": format!("/{}", "c".repeat(5_000))})),
        (2, "meta.agentPreset", json!({"sessionId": "s", "meta": {"agentPreset": "\u{1}".repeat(5_000)}})),
        (3, "meta.parentSession", json!({"sessionId": "s", "meta": {"parentSession": "p".repeat(5_000)}})),
    ] {
        assert_eq!(daemon.call(id, "session/new", params)["error"]["data"]["field"], field);
    }
    assert_eq!(daemon.call(4, "session/new", json!({"sessionId": "s"}))["result"]["nextSeq"], 0);
}

#[test]
fn no_log_level_shows_a_payload() {
    const SECRET: &str = "a-secret-of-the-user";
    let mut daemon = Daemon::start(&["--log", "trace"]);
    daemon.call(0, "session/new", json!({"sessionId": "s"}));
    let event = |data: Value| json!({"sessionId": "s", "type": "session/title", "data": data});
    daemon.call(1, "session/append", event(json!({ "title": SECRET })));
    let mut odd = event(json!({ "title": SECRET }));
    odd["expectedSeq"] = json!(SECRET);
    daemon.call(2, "session/append", odd);
    daemon.call(3, "session/events", json!({"sessionId": "s", "limit": [SECRET]}));
    daemon.send(format!("{{\"{SECRET}\n").as_bytes());
    daemon.send(
        b"{\"jsonrpc\":\"2.0\",\"method\":\"session/flush\",\"params\":{\"x\":\"a-secret-of-the-user\"}}\n",
    );
    daemon.close_stdin();
    while daemon.line().is_some() {}
    assert!(daemon.status().success());
    assert!(!daemon.log().contains(SECRET));
}

#[test]
fn a_recording_replays() {
    let dir = tempfile::tempdir().unwrap();
    for store in ["memory:".to_owned(), format!("jsonl:{}", dir.path().join("store").display())] {
        let file = dir.path().join(if store == "memory:" { "memory.txt" } else { "disk.txt" });
        let mut serve = Command::new(env!("CARGO_BIN_EXE_sessiond"));
        serve.args(["serve", "--record", file.to_str().unwrap(), "--clock", "fixed:1000+1"]);
        serve.args(["--ids", "sequential", "--store", &store]);
        let mut daemon = Daemon::spawn(&mut serve);
        daemon.call(0, "session/new", json!({"sessionId": "s"}));
        daemon.send(title(1, "s", json!({"title": "t"})).as_bytes());
        daemon.close_stdin();
        while daemon.line().is_some() {}
        assert!(daemon.status().success());
        let replay = Command::new(env!("CARGO_BIN_EXE_sessiond")).arg("replay").arg(&file).output().unwrap();
        assert!(replay.status.success(), "{}", String::from_utf8_lossy(&replay.stdout));
    }
}
