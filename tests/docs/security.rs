//! Does SECURITY.md name tests that exist, and do those of its promises hold that no other file tests?

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::daemon::Daemon;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_test_that_is_named_exists() {
    let text = read("SECURITY.md");
    let (_, table) = text.split_once("| promise | held by |").unwrap();
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 15, "{rows:?}");
    for row in rows {
        let names: Vec<&str> = row.split('`').filter(|part| part.contains("::")).collect();
        assert!(!names.is_empty(), "nothing holds {row}");
        for name in names {
            let (file, test) = name.split_once("::").unwrap();
            let source = read(&format!("tests/{file}.rs"));
            let (before, _) =
                source.split_once(&format!("\nfn {test}(")).unwrap_or_else(|| panic!("no {name}"));
            let attributes = before.rsplit("\n\n").next().unwrap();
            assert!(attributes.contains("#[test]") && !attributes.contains("#[ignore"), "{name}");
        }
    }
}

/// Rust files below a directory.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn nothing_here_speaks_to_a_network() {
    let manifest = read("Cargo.toml");
    let tokio = manifest.lines().find(|line| line.starts_with("tokio = ")).unwrap();
    assert!(!tokio.contains("\"net\"") && !tokio.contains("\"full\""), "{tokio}");
    for path in sources(&root().join("src")) {
        let text = std::fs::read_to_string(&path).unwrap();
        for name in ["std::net", "tokio::net", "TcpStream", "TcpListener", "UdpSocket", "UnixListener"] {
            assert!(!text.contains(name), "{}: {name}", path.display());
        }
    }
}

/// The longest run of a letter that no message of ours holds twice in a row.
fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != 'Q').map(str::len).max().unwrap_or(0)
}

#[test]
fn an_error_quotes_little_of_what_was_sent() {
    let long = "Q".repeat(5_000);
    let mut daemon = Daemon::start(&["--store", "memory:"]);
    let hello = json!({"_meta": {"sessiond": {"notifications": []}}});
    daemon.ok("initialize", json!({"protocolVersion": 1, "clientCapabilities": hello}));
    daemon.ok("session/new", json!({"sessionId": "s"}));
    let event = |kind: &str, data: Value| json!({"sessionId": "s", "type": kind, "data": data});
    let message = |id: Value| {
        let data = json!({"id": id, "role": long, "content": long, "source": {"kind": long}});
        json!({"sessionId": "s", "type": "user/message", "data": data, "surfaceOp": "append"})
    };
    let with = |key: &str, value: Value| {
        let mut params = event("session/title", json!(1));
        params[key] = value;
        params
    };
    let requests = [
        (long.as_str(), json!({})),
        ("session/new", json!({"sessionId": long})),
        ("session/new", json!({"cwd": long})),
        ("session/new", json!({"meta": {"agentPreset": 1, long.as_str(): 1}})),
        ("session/new", json!({"seed": [{"type": long, "seq": 0, "time": 0, "data": 1}]})),
        (
            "session/new",
            json!({"seed": [{"type": "session/title", "seq": 0, "time": 0, "data": 1, long.as_str(): 1}]}),
        ),
        ("session/load", json!({"sessionId": long})),
        ("session/info", json!({"sessionId": long})),
        ("session/append", event(&long, json!(1))),
        ("session/append", with("surfaceOp", json!(long))),
        ("session/append", with("surfaceOp", json!({"op": long}))),
        ("session/append", with("instanceId", json!(long))),
        ("session/append", with("expectedSeq", json!(long))),
        ("session/append", with(&long, json!(1))),
        ("session/append", with("data", json!({long.as_str(): -0.0}))),
        ("session/append", message(json!(long))),
        ("session/append", message(json!(1))),
        ("session/append", event("turn/end", json!({"turn": 1, "reason": {"kind": long}}))),
        ("session/append", event("turn/start", json!({"turn": long}))),
        ("session/fork", json!({"sessionId": "s", "boundary": long})),
        ("session/fork", json!({"sessionId": "s", "onOpenTurn": long})),
        ("session/fork", json!({"sessionId": "s", "instanceId": long})),
        ("session/list", json!({"cursor": long})),
        ("session/events", json!({"sessionId": "s", "fromSeq": long})),
        ("session/messages", json!({"sessionId": "s", "since": {"replaceGeneration": long}})),
    ];
    for (method, params) in requests {
        let said = daemon.call(method, params.clone());
        let said = said["error"].to_string();
        let short = &said[..said.len().min(400)];
        assert!(said.starts_with('{'), "{}", &params.to_string()[..100]);
        let message = serde_json::from_str::<Value>(&said).unwrap()["message"].to_string();
        let most = match method {
            "session/load" | "session/info" => 300, // an id
            _ if said.contains("\"pointer\"") => 256,
            _ => 120,
        };
        assert!(longest_run(&message) <= most, "{method}: {} in {short}", longest_run(&message));
    }
    for line in [
        long.clone(),
        format!("{{\"jsonrpc\":\"{long}\",\"id\":1,\"method\":\"session/list\"}}"),
        format!("[{long}"),
    ] {
        daemon.send_line(&line);
        let said = daemon.line();
        assert!(longest_run(&said) <= 120, "{}", &said[..400.min(said.len())]);
    }
}
