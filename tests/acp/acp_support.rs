//! Logs for the projector's tests, and what it makes of them.
#![allow(dead_code, unreachable_pub)]

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock};

use serde_json::Value;
use sessiond::acp::{Follower, Options, Replay, Updates};
use sessiond::json::{Json, quote};
use sessiond::log::{Log, Offset, read_event};

/// Puts one event line into a log.
pub fn push(log: &mut Log, line: &str) {
    let (value, checks) = Json::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let (seq, time, draft) =
        read_event(value, checks.needs_compaction).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(log.push(&draft, time).0, seq, "{line}");
}

/// A log of event lines; empty lines are skipped.
pub fn log_of_lines(lines: &str) -> Log {
    let mut log = Log::new();
    lines.lines().filter(|line| !line.trim().is_empty()).for_each(|line| push(&mut log, line));
    log
}

/// A log of `(type, data)`: seq k has time 1000 + k, message types are appended. A type may end in
/// ` @A-B`: then the event replaces the surface from A to B.
pub fn log(events: &[(&str, &str)]) -> Log {
    let mut log = Log::new();
    for (seq, (kind, data)) in events.iter().enumerate() {
        let (kind, op) = match kind.split_once(" @") {
            Some((kind, range)) => {
                let (start, end) = range.split_once('-').unwrap();
                (kind, format!(r#","surfaceOp":{{"op":"replace","start":{start},"end":{end}}}"#))
            }
            None if matches!(*kind, "user/message" | "assistant/message" | "tool/result") => {
                (*kind, r#","surfaceOp":"append""#.to_owned())
            }
            None => (*kind, String::new()),
        };
        let time = 1000 + seq;
        push(&mut log, &format!(r#"{{"type":{},"seq":{seq},"time":{time},"data":{data}{op}}}"#, quote(kind)));
    }
    log
}

/// All updates of a replay. Each must be one compact line.
pub fn replay(log: &Log, options: Options) -> Vec<String> {
    collect(Replay::new(log, options), log)
}

/// All updates of a replay of the events before `end`.
pub fn replay_until(log: &Log, end: Offset, options: Options) -> Vec<String> {
    collect(Replay::until(end, options), log)
}

fn collect(mut replay: Replay, log: &Log) -> Vec<String> {
    let mut out = Vec::new();
    let mut text = String::new();
    while replay.next_into(log, &mut text) {
        out.push(checked(std::mem::take(&mut text)));
    }
    assert!(!replay.next_into(log, &mut text) && text.is_empty(), "an end stays one");
    assert_eq!(replay.total(), out.len() as u64);
    out
}

/// All updates of a follower that sees every event of the log arrive.
pub fn follow(log: &Log, options: Options) -> Vec<String> {
    let mut follower = Follower::new(&Log::new(), options);
    let mut updates = Updates::default();
    follower.advance(log, &mut updates);
    assert_eq!(follower.position(), log.len());
    updates.iter().map(|update| checked(update.to_owned())).collect()
}

/// The update, which is a compact line and fits ACP's schema.
fn checked(update: String) -> String {
    static FITTING: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let mut fitting = FITTING.lock().unwrap();
    if fitting.get_or_insert_default().contains(&update) {
        return update;
    }
    let (value, checks) = Json::parse(&update).unwrap_or_else(|error| panic!("{error}: {update}"));
    assert!(!checks.needs_compaction && checks.fault.is_none() && checks.depth < 110, "{update}");
    let faults = schema_faults(value);
    assert!(faults.is_empty(), "{faults:?}: {update}");
    fitting.get_or_insert_default().insert(update.clone());
    update
}

fn schema_faults(update: Json<'_>) -> Vec<String> {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    let read = || serde_json::from_str(include_str!("../fixtures/acp/update.schema.json")).unwrap();
    let schema = SCHEMA.get_or_init(read);
    let kinds = schema.pointer("/$defs/SessionUpdate/oneOf").and_then(Value::as_array).unwrap();
    let tag = |kind: &Value| kind["properties"]["sessionUpdate"]["const"].as_str().unwrap().to_owned();
    let own = kinds.iter().find(|kind| update.get("sessionUpdate").unwrap().is_str(&tag(kind)));
    crate::schema_support::faults(schema, own.expect("an update of ACP"), update)
}

/// The string member of an update, as JSON text.
pub fn member<'a>(update: &'a str, name: &str) -> &'a str {
    let (value, _) = Json::parse(update).unwrap();
    value.get(name).map_or("", Json::text)
}

/// The update's tag.
pub fn tag(update: &str) -> &str {
    member(update, "sessionUpdate").trim_matches('"')
}
