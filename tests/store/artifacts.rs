//! Do the reference's own stores open here as they open there: loads, refusals, lists and repairs, through the server?
//!
//! All of it needs the corpus, which lies beside the project. The reader alone is held to it in `disk/artifacts.rs`;
//! here is what the server adds: codes, closers, what a close writes, and lists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sessiond::disk::fs::os::OsFs;
use tokio::runtime::Runtime;

use crate::dur_support::local::{Local, runtime};
use crate::dur_support::process::tree;
use crate::dur_support::readable;
use crate::support;

/// Where we answer otherwise than the reference, and the clause that wants it. All are needed.
const EXCEPTIONS: [(&str, &str); 3] = [
    ("flat-layout", "9.4: an odd artifact hides no other, so its neighbour loads and is listed"),
    ("wrong-encoding", "9.4: the encoding is decided per session"),
    ("odd-ids", "9.5: an id with a lone surrogate is no session id here, and is listed as unsupported"),
];

fn artifacts() -> Vec<(String, PathBuf, Value)> {
    let dirs =
        std::fs::read_dir(support::needed("corpus/artifacts")).unwrap().map(|entry| entry.unwrap().path());
    let read = |dir: PathBuf| {
        let text = std::fs::read_to_string(dir.join("expect.json")).ok()?;
        let name = dir.file_name()?.to_str()?.to_owned();
        Some((name, dir.join("root"), serde_json::from_str(&text).unwrap()))
    };
    let mut all: Vec<_> = dirs.filter_map(read).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(all.len() > 30);
    all
}

/// A copy that may be written to.
fn copy(root: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for (path, bytes) in tree(root) {
        let path = to.path().join(path.strip_prefix(root).unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    to
}

fn open(root: &Path, runtime: &Arc<Runtime>) -> Local {
    Local::new(Arc::new(OsFs::new(root)), runtime)
}

fn code_of(class: &str) -> &'static str {
    match class {
        "SESSION_NOT_FOUND" => "SESSION_NOT_FOUND",
        "VERSION_NEWER" | "VERSION_OLDER" | "EVENT_TYPE_UNKNOWN" => "FORMAT_UNSUPPORTED",
        _ => "SESSION_CORRUPT",
    }
}

/// The logs of a tree without what the store leaves beside them.
fn logs(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_log = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name == "session.jsonl" || name == "session.jsonl.zstd"
    };
    tree(root).into_iter().filter(|(path, _)| is_log(path)).collect()
}

#[test]
#[ignore = "needs ../shared/corpus"]
fn the_references_stores_open_as_they_do_there() {
    let runtime = runtime();
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut loaded, mut refused, mut repaired) = (0, 0, 0);
    for (name, root, expect) in artifacts() {
        let stem = name.rsplit_once('.').unwrap().0;
        for expected in expect["loads"].as_array().unwrap() {
            let context = format!("{name} {}", expected["idJson"]);
            let Ok(id) = serde_json::from_str::<String>(expected["idJson"].as_str().unwrap()) else {
                assert_eq!(stem, "odd-ids", "{context}");
                *used.entry("odd-ids").or_default() += 1;
                continue;
            };
            let store = copy(&root);
            let before = tree(store.path());
            let mut local = open(store.path(), &runtime);
            let answer = local.call("session/load", json!({"sessionId": id}));
            assert_eq!(logs(store.path()), logs_of(&before), "{context}: loading wrote");
            let exception = EXCEPTIONS.iter().map(|(name, _)| *name).find(|known| *known == stem);
            match (answer, expected.get("ok")) {
                (Ok(opened), Some(ok)) => {
                    loaded += 1;
                    check_open(&mut local, &id, &opened, ok, &context);
                    repaired += usize::from(check_close(&mut local, &id, expected, store.path(), &context));
                }
                (Ok(_), None) if exception.is_some() => {
                    *used.entry(exception.unwrap()).or_default() += 1;
                }
                (Err(error), None) => {
                    refused += 1;
                    let class = expected["err"]["class"].as_str().unwrap();
                    assert_eq!(error["data"]["code"], code_of(class), "{context}: {error}");
                    if code_of(class) == "SESSION_CORRUPT" {
                        assert_eq!(error["data"]["rule"], class, "{context}: {error}");
                    }
                    local.end();
                    assert_eq!(tree(store.path()), before, "{context}: a refusal wrote");
                }
                (Err(error), Some(_)) => panic!("{context}: {error}"),
                (Ok(_), None) => panic!("{context} loads, not: {}", expected["err"]),
            }
        }
        lists(&name, &root, &expect, &runtime);
    }
    for (name, clause) in EXCEPTIONS {
        assert!(used.contains_key(name), "not needed: {name} ({clause})");
    }
    eprintln!(
        "{loaded} load, {repaired} of them repaired by a close, {refused} refused; exceptions: {used:?}"
    );
}

fn logs_of(tree: &BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut logs = tree.clone();
    logs.retain(|path, _| {
        path.file_name().is_some_and(|name| name == "session.jsonl" || name == "session.jsonl.zstd")
    });
    logs
}

/// The header, the count and every event, closers included; no end-seed marker is added.
fn check_open(local: &mut Local, id: &str, opened: &Value, ok: &Value, context: &str) {
    let header = readable(ok["headerJson"].as_str().unwrap());
    assert!(support::same_value(&opened["header"], &header), "{context}: {}", opened["header"]);
    assert_eq!(opened["inheritedEventCount"], ok["inheritedEventCount"], "{context}");
    let expected = support::texts(&ok["eventsJsonl"]);
    assert_eq!(opened["nextSeq"], expected.len(), "{context}");
    assert_eq!(opened["firstLiveSeq"], expected.len(), "{context}");
    let inspected = local.ok("session/inspect", json!({"sessionId": id, "limit": 1}));
    // Beside what only a model provider would refuse, what the first write cuts off is told, and nothing else.
    let told: Vec<&str> =
        inspected["problems"].as_array().unwrap().iter().map(|told| told.as_str().unwrap()).collect();
    let of_log = told.iter().filter(|told| !told.ends_with("makes a request that providers accept"));
    let cut = opened["repaired"]["cutBytes"].as_u64().is_some_and(|bytes| bytes > 0);
    assert_eq!(of_log.count(), usize::from(cut), "{context}: {told:?}");
    for (event, line) in local.events(id).iter().zip(expected) {
        let line = readable(line);
        assert!(support::same_value(event, &line), "{context}: {event} is not {line}");
    }
}

/// A close writes what the reference's load wrote. Whether there was something.
fn check_close(local: &mut Local, id: &str, expected: &Value, store: &Path, context: &str) -> bool {
    let before = logs(store);
    let seen = local.events(id);
    local.ok("session/close", json!({"sessionId": id}));
    let after = logs(store);
    let changed: Vec<&PathBuf> = before.keys().filter(|path| before[*path] != after[*path]).collect();
    let theirs = expected["filesChangedByLoad"].as_array();
    let theirs: Vec<&Value> =
        theirs.into_iter().flatten().filter(|file| file["plaintextBase64"].is_string()).collect();
    assert_eq!(changed.len(), theirs.len(), "{context}: {changed:?}");
    for (path, file) in changed.iter().zip(&theirs) {
        let text = STANDARD.decode(file["plaintextBase64"].as_str().unwrap()).unwrap();
        let bytes = &after[*path];
        let plain = path.extension().is_some_and(|extension| extension == "jsonl");
        let mine = if plain { bytes.clone() } else { zstd::decode_all(bytes.as_slice()).unwrap() };
        let (mine, theirs) = (String::from_utf8(mine).unwrap(), String::from_utf8(text).unwrap());
        assert!(mine.ends_with('\n'), "{context}");
        assert_eq!(mine.lines().count(), theirs.lines().count(), "{context}");
        for (mine, theirs) in mine.lines().zip(theirs.lines()) {
            // Its closers have their members in another order than any other event.
            assert!(support::same_json(mine, theirs), "{context}: {mine} is not {theirs}");
        }
    }
    let again = local.ok("session/load", json!({"sessionId": id}));
    assert_eq!(again.get("repaired"), None, "{context}");
    assert_eq!(local.events(id), seen, "{context}");
    !changed.is_empty()
}

/// Every session that loads without a loss is listed as sound, every one that does not with its reason; nothing is hidden.
fn lists(name: &str, root: &Path, expect: &Value, runtime: &Arc<Runtime>) {
    let store = copy(root);
    let mut local = open(store.path(), runtime);
    let list = local.ok("session/list", json!({"includeEmpty": true}));
    let rows: BTreeMap<&str, &Value> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["sessionId"].as_str().unwrap(), row))
        .collect();
    for expected in expect["loads"].as_array().unwrap() {
        let Ok(id) = serde_json::from_str::<String>(expected["idJson"].as_str().unwrap()) else {
            let odd = rows.values().filter(|row| row["status"] == "unsupported").count();
            assert_eq!(odd, 1, "{name}: {list}");
            continue;
        };
        let context = format!("{name} {id:?}: {list}");
        let status = match expected.get("ok") {
            // What they cut off without a word is told here.
            Some(_) if id == "gap-tail" => "damaged",
            Some(_) => "ok",
            None => match code_of(expected["err"]["class"].as_str().unwrap()) {
                "FORMAT_UNSUPPORTED" => "unsupported",
                "SESSION_NOT_FOUND" => {
                    assert!(!rows.contains_key(id.as_str()), "{context}");
                    continue;
                }
                _ => "corrupt",
            },
        };
        // A log in the place of another session is listed by that place, where load finds it too.
        let row = rows.get(id.as_str()).unwrap_or_else(|| panic!("not listed: {context}"));
        let answer = local.call("session/load", json!({"sessionId": id}));
        if name.starts_with("flat-layout") || name.starts_with("wrong-encoding") {
            assert_eq!(row["status"] == "ok", answer.is_ok(), "{context}");
            continue;
        }
        assert_eq!(row["status"], status, "{context}");
        assert_eq!(row.get("reason").is_some(), status != "ok", "{context}");
        assert_eq!(answer.is_ok(), ["ok", "damaged"].contains(&status), "{context}");
    }
    // Reading left only what lists remember, and no log is another.
    assert_eq!(
        logs(store.path()).values().collect::<Vec<_>>(),
        logs(root).values().collect::<Vec<_>>(),
        "{name}"
    );
}
