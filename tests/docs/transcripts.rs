//! Does the daemon answer every transcript byte for byte, and do they leave no method and no error out?

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use sessiond::protocol::Code;
use sessiond::replay::{Options, run};

fn transcripts() -> Vec<PathBuf> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let entries = fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    files
}

#[test]
fn every_transcript_comes_back_byte_for_byte() {
    let files = transcripts();
    assert!(files.len() > 40);
    let options = Options {
        command: Some(vec![env!("CARGO_BIN_EXE_sessiond").into(), "serve".into()]),
        timeout: Duration::from_secs(120),
        ..Options::default()
    };
    let mut report = Vec::new();
    let summary = run(&files, &options, &mut report).unwrap();
    assert_eq!(summary.failed, 0, "\n{}", String::from_utf8_lossy(&report));
}

/// The lines of all transcripts that start with `marker`, as JSON where they are.
fn lines(marker: &str) -> Vec<Value> {
    let texts = transcripts().into_iter().map(|path| fs::read_to_string(path).unwrap());
    let lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines
        .iter()
        .filter_map(|line| line.strip_prefix(marker))
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn texts(values: &[Value], pointer: &str) -> BTreeSet<String> {
    values.iter().filter_map(|value| value.pointer(pointer)?.as_str()).map(str::to_owned).collect()
}

#[test]
fn they_cover_every_method_under_both_names_and_every_notification() {
    let (sent, received) = (texts(&lines("> "), "/method"), texts(&lines("< "), "/method"));
    let hello = lines("< ").into_iter().find_map(|line| {
        Some(line.pointer("/result/agentCapabilities/_meta/sessiond/methods")?.as_array()?.clone())
    });
    let methods = hello.expect("a handshake");
    for method in methods.iter().filter_map(Value::as_str) {
        assert!(sent.contains(method), "{method} is in no transcript");
        assert!(
            method == "initialize" || sent.contains(&format!("_{method}")),
            "_{method} is in no transcript"
        );
    }
    assert!(sent.contains("$/cancel_request"));
    for notice in ["session/created", "session/event", "session/disposed", "session/update"] {
        assert!(received.contains(notice), "{notice} is in no transcript");
    }
    assert!(received.contains("_session/event"), "the prefix is in no transcript");
}

#[test]
fn they_cover_every_error_that_one_daemon_can_give() {
    let given = texts(&lines("< "), "/error/data/code");
    // With a fixed clock nothing waits, so nothing can be cancelled; the other is a bug.
    let elsewhere = [Code::RequestCancelled, Code::Internal];
    for code in Code::ALL.iter().filter(|code| !elsewhere.contains(code)) {
        assert!(given.contains(code.name()), "{} is in no transcript", code.name());
    }
}

#[test]
fn errors_carry_their_code_and_quote_little() {
    for line in lines("< ") {
        let Some(error) = line.get("error") else { continue };
        let (number, data) = (error.get("code").and_then(Value::as_i64), error.get("data"));
        let name = data.and_then(|data| data.get("code")).and_then(Value::as_str);
        let code = Code::ALL.iter().find(|code| Some(code.name()) == name);
        assert_eq!(code.map(|code| i64::from(code.number())), number, "{line}");
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        assert!(!message.is_empty() && message.len() < 400, "{line}");
        assert!(!message.ends_with('.') && !message.contains(" at line "), "{line}");
    }
}
