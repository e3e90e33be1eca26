//! A log that ends anywhere: does its longest sound prefix load, is it mended once and then left alone, and is nothing
//! thrown away (FORMAT 12, 13.1; PROTOCOL 3, Load, and 9.3)?

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use sessiond::disk::fs::FileSystem;
use sessiond::disk::fs::record::RecordingFs;
use tokio::runtime::Runtime;

use crate::dur_support;
use crate::dur_support::local::{Local, runtime};

const DIR: &str = "--w--/s";
const LOG: &str = "--w--/s/session.jsonl";
const HEADER: &str =
    r#"{"type":"session","version":0,"id":"s","createdAt":5,"cwd":"/w","delegationDepth":0}"#;
/// Two turns, the second of them open with a step and a call.
const RECORDS: [&str; 11] = [
    r#"{"type":"turn/start","seq":0,"time":10,"data":{"turn":1}}"#,
    r#"{"type":"user/message","seq":1,"time":11,"data":{"id":"u1","role":"user","content":[{"type":"text","text":"grüße"}],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
    r#"{"type":"turn/end","seq":2,"time":12,"data":{"turn":1,"reason":{"kind":"completed"}}}"#,
    r#"{"type":"x/note","seq":3,"time":13,"data":{"n":1},"ignorable":true}"#,
    r#"{"type":"turn/start","seq":4,"time":14,"data":{"turn":2}}"#,
    r#"{"type":"step/start","seq":5,"time":15,"data":{"turn":2,"step":1}}"#,
    r#"{"type":"assistant/message","seq":6,"time":16,"data":{"turn":2,"step":1,"message":{"id":"a1","role":"assistant","content":[{"type":"tool-call","id":"c1","name":"bash","arguments":"{}"},{"type":"tool-call","id":"c2","name":"bash","arguments":"{}"}],"source":{"kind":"model","provider":"p","model":"m"}}},"surfaceOp":"append"}"#,
    r#"{"type":"tool/call","seq":7,"time":17,"data":{"turn":2,"step":1,"callId":"c1","name":"bash","arguments":"{}"}}"#,
    r#"{"type":"text-chunks","seq0":8,"time0":18,"data":{"turn":2,"step":1,"index":0,"dt":[1,1],"texts":["a","b","c"]}}"#,
    r#"{"type":"x/note","seq":11,"time":21,"data":{"n":2},"ignorable":true}"#,
    r#"{"type":"x/note","seq":12,"time":22,"data":{"n":3},"ignorable":true}"#,
];

fn whole() -> Vec<u8> {
    let mut log = format!("{HEADER}\n");
    RECORDS.iter().for_each(|record| log += &format!("{record}\n"));
    log.into_bytes()
}

/// How many events the first so many records hold.
fn events_of(records: usize) -> usize {
    records + if records > 8 { 2 } else { 0 }
}

/// With how many events an open turn is closed that was cut after so many records.
fn closers_of(records: usize) -> usize {
    match records {
        0 | 3 | 4 => 0,
        1 | 2 | 5 => 1,
        6 => 2,
        _ => 4,
    }
}

fn disk_with(log: &[u8]) -> RecordingFs {
    let disk = RecordingFs::new();
    disk.create_dir(Path::new("--w--")).unwrap();
    disk.create_dir(Path::new(DIR)).unwrap();
    disk.create_new(Path::new(LOG)).unwrap().append(log).unwrap();
    disk
}

fn local(disk: &RecordingFs, runtime: &Arc<Runtime>) -> Local {
    Local::new(Arc::new(disk.clone()), runtime)
}

fn cuts(disk: &RecordingFs) -> Vec<(PathBuf, Vec<u8>)> {
    let cuts = disk.paths().into_iter().filter(|path| path.to_string_lossy().contains(".cut-"));
    cuts.map(|path| (path.clone(), disk.content(path).unwrap())).collect()
}

/// Events in the lines that are whole.
fn whole_events(tail: &[u8]) -> usize {
    let rows =
        tail.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let events = |row: Value| match row["data"]["texts"].as_array() {
        Some(texts) => texts.len(),
        None => usize::from(row["seq"].is_number()),
    };
    rows.map(events).sum()
}

/// Loads a log of which so many records, up to that byte, are sound; it is mended once.
fn loads(runtime: &Arc<Runtime>, log: &[u8], records: usize, sound: usize, context: &str) {
    let disk = disk_with(log);
    let tail = &log[sound..];
    let (events, closers) = (events_of(records), closers_of(records));
    let mut first = local(&disk, runtime);
    let inspected = first.ok("session/inspect", json!({"sessionId": "s"}));
    assert_eq!(inspected["nextSeq"], events, "{context}");
    assert_eq!(inspected["closers"].as_array().unwrap().len(), closers, "{context}");
    assert_eq!(inspected["tornTail"].is_null(), tail.is_empty(), "{context}: {}", inspected["tornTail"]);
    if whole_events(tail) > 0 {
        let list = first.ok("session/list", json!({}));
        assert_eq!(list["sessions"][0]["status"], "damaged", "{context}: {list}");
    }
    let opened = first.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(opened["nextSeq"], events + closers, "{context}");
    let cut = json!({"closers": closers, "cutBytes": tail.len(), "cutEvents": whole_events(tail)});
    let repaired = (closers > 0 || !tail.is_empty()).then_some(cut);
    assert_eq!(opened.get("repaired"), repaired.as_ref(), "{context}");
    let seen = first.events("s");
    if !tail.is_empty() {
        let info = first.ok("session/info", json!({"sessionId": "s"}));
        assert!(!info["warnings"].as_array().unwrap().is_empty(), "{context}: told from the opening on");
    }
    assert_eq!(disk.content(LOG).unwrap(), log, "{context}: opening wrote");
    first.ok("session/close", json!({"sessionId": "s"}));
    let mended = disk.content(LOG).unwrap();
    assert!(dur_support::is_whole(&mended), "{context}");
    assert!(mended.starts_with(&log[..sound]), "{context}");
    assert_eq!(mended.iter().filter(|byte| **byte == b'\n').count(), 1 + records + closers, "{context}");
    let saved: Vec<_> = (!tail.is_empty())
        .then(|| (format!("{LOG}.cut-{sound}").into(), tail.to_vec()))
        .into_iter()
        .collect();
    assert_eq!(cuts(&disk), saved, "{context}");
    // Loaded again, and closed: nothing more changes, but for a further event when there is one.
    let again = first.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!((again.get("repaired"), &again["nextSeq"]), (None, &json!(events + closers)), "{context}");
    assert_eq!(first.events("s"), seen, "{context}");
    first.ok("session/close", json!({"sessionId": "s"}));
    assert_eq!(disk.content(LOG).unwrap(), mended, "{context}");
    drop(first);
    let mut second = local(&disk, runtime);
    assert_eq!(second.ok("session/load", json!({"sessionId": "s"})).get("repaired"), None, "{context}");
    assert_eq!(second.events("s"), seen, "{context}");
    assert_eq!(cuts(&disk), saved, "{context}");
}

/// Where each line begins, and the end.
fn starts(log: &[u8]) -> Vec<usize> {
    let ends = log.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}

#[test]
fn cut_at_every_byte_the_longest_sound_prefix_loads() {
    let runtime = runtime();
    let log = whole();
    let starts = starts(&log);
    for size in 0..=log.len() {
        let context = format!("cut to {size}");
        if size < starts[1] {
            let disk = disk_with(&log[..size]);
            let error = local(&disk, &runtime).call("session/load", json!({"sessionId": "s"})).unwrap_err();
            assert_eq!(error["data"]["code"], "SESSION_CORRUPT", "{context}: {error}");
            assert_eq!(disk.content(LOG).unwrap(), &log[..size]);
            continue;
        }
        // A record is there when its last brace is, with or without the line end.
        let records = (1..starts.len() - 1).filter(|line| starts[line + 1] - 1 <= size).count();
        let sound = starts[records + 1].min(size);
        loads(&runtime, &log[..size], records, sound, &context);
    }
}

#[test]
fn what_a_crash_leaves_behind_the_records_is_cut_and_kept() {
    let runtime = runtime();
    let log = whole();
    let starts = starts(&log);
    let nuls = [0; 5000];
    let tails: [&[u8]; 7] =
        [&nuls[..1], &nuls, b"\0\0\n", b"{\"type\":\"x/no\n", b"\xff\xfe", b"null\n", b"{}\n{}\n"];
    for records in 0..=RECORDS.len() {
        for (index, tail) in tails.iter().enumerate() {
            let sound = starts[records + 1];
            let log = [&log[..sound], tail].concat();
            loads(&runtime, &log, records, sound, &format!("{records} records and tail {index}"));
        }
    }
}

#[test]
fn damage_before_a_committed_turn_end_is_refused_with_its_place() {
    let runtime = runtime();
    let log = whole();
    let starts = starts(&log);
    for record in 0..RECORDS.len() {
        let start = starts[record + 1];
        for (what, damaged) in [("no JSON", b'!'), ("NUL", 0)] {
            let context = format!("record {record} {what}");
            let mut log = log.clone();
            log[start] = damaged;
            let committed = RECORDS[record + 1..].iter().any(|later| later.contains("turn/end"));
            if !committed {
                loads(&runtime, &log, record, start, &context);
                continue;
            }
            let disk = disk_with(&log);
            let mut client = local(&disk, &runtime);
            let error = client.call("session/load", json!({"sessionId": "s"})).unwrap_err();
            let data = &error["data"];
            assert_eq!(data["code"], "SESSION_CORRUPT", "{context}: {error}");
            assert_eq!((&data["line"], &data["offset"]), (&json!(record + 2), &json!(start)), "{context}");
            let inspected = client.ok("session/inspect", json!({"sessionId": "s"}));
            assert!(!inspected["problems"].as_array().unwrap().is_empty(), "{context}");
            let list = client.ok("session/list", json!({}));
            let row: &Value = &list["sessions"][0];
            assert_eq!((&row["sessionId"], &row["status"]), (&json!("s"), &json!("corrupt")), "{context}");
            client.end();
            assert_eq!(disk.content(LOG).unwrap(), log, "{context}: a damaged log is not touched");
        }
    }
}
