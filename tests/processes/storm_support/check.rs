//! When all daemons have ended: every log, read from the disk and then through a fresh daemon, against the ledger.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use super::Plan;
use super::ledger::{Ledger, Record, one};
use super::reader::{Files, Log, files, read};
use crate::dur_support::process::Daemon;

/// Stored sessions that a storm goes on with.
const KEPT: usize = 60;

pub fn check(store: &Path, ledger: &Ledger, plan: &Plan) {
    let found = files(store);
    assert!(found.odd.is_empty(), "{:?}", found.odd);
    assert!(plan.kills || plan.faults || found.temporary.is_empty(), "{:?}", found.temporary);
    assert!(plan.kills || found.owners.is_empty(), "{:?}", found.owners);
    for (name, path) in &found.logs {
        let file = File::open(path).unwrap();
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            let history = ledger.with(name, |record| record.history());
            panic!("{name} is locked: {error}{history}");
        }
    }
    let logs: BTreeMap<String, Log> = found.logs.iter().map(|(id, path)| (id.clone(), read(path))).collect();
    {
        let mut sessions = ledger.sessions();
        for (name, record) in sessions.iter_mut() {
            record.judge_owners(name);
            judge_presence(name, record, logs.contains_key(name));
        }
        for (name, log) in &logs {
            assert_eq!(&log.header.id, name);
            let record = sessions.get(name).unwrap_or_else(|| panic!("nobody made {name}"));
            judge_log(name, log, record);
            judge_prefix(name, log, &logs, &sessions);
            assert!(log.torn == 0 || plan.kills || plan.faults, "{name}: {} bytes are torn", log.torn);
            one(&ledger.count.logs);
            ledger.count.lines.fetch_add(log.events.len() as u64, std::sync::atomic::Ordering::Relaxed);
        }
        // What is stored now is promised from now on, whoever may have been told.
        let stamp = ledger.stamp();
        for name in logs.keys() {
            sessions.get_mut(name).unwrap().stored_at.get_or_insert(stamp);
        }
    }
    through_a_daemon(store, ledger, &logs);
    let left = files(store);
    // A delete that is cut short after its log has gone leaves what lay beside it.
    let beside_a_log = |owner: &&std::path::PathBuf| owner.with_file_name("session.jsonl").exists();
    assert_eq!(left.owners.iter().find(beside_a_log), None, "let go of, and its hint is there");
    assert!(plan.kills || plan.faults || left.owners.is_empty(), "{:?}", left.owners);
    ledger.count.left.fetch_add(left.owners.len() as u64, std::sync::atomic::Ordering::Relaxed);
    for owner in &left.owners {
        std::fs::remove_file(owner).unwrap();
    }
    tidy(store, ledger, left);
}

fn judge_presence(name: &str, record: &Record, there: bool) {
    if record.gone_at.is_some() {
        assert!(!there, "{name} was deleted and is there");
    } else if record.stored_at.is_some() && record.deletes.is_empty() {
        assert!(there, "{name} is lost");
    }
}

/// What was announced is there with its bytes, what was refused is not, and nothing is there twice.
fn judge_log(name: &str, log: &Log, record: &Record) {
    assert!(
        log.events.len() >= record.told.len(),
        "{name}: {} events, {} told",
        log.events.len(),
        record.told.len()
    );
    for (seq, (told, stored)) in record.told.iter().zip(&log.events).enumerate() {
        assert!(told.is_none_or(|told| told == stored.digest), "{name}: event {seq} has changed");
    }
    let mut notes = HashSet::new();
    let inherited = log.header.seed_length.unwrap_or(0);
    for (seq, event) in log.events.iter().enumerate() {
        let Some(note) = &event.note else { continue };
        assert!(notes.insert(note.n), "{name}: note {} is there twice", note.n);
        assert!(!record.refused.contains(&note.n), "{name}: note {} was refused", note.n);
        assert!(seq < inherited || note.s == name, "{name}: note {} of {} at {seq}", note.n, note.s);
    }
}

/// A fork begins as its parent did, whether that is still there or not.
fn judge_prefix(name: &str, log: &Log, logs: &BTreeMap<String, Log>, sessions: &BTreeMap<String, Record>) {
    let record = &sessions[name];
    let length = log.header.seed_length.unwrap_or(0);
    let parent = log.header.parent_session.as_deref();
    if let Some((of, count)) = &record.fork {
        assert_eq!((parent, length), (Some(of.as_str()), *count), "{name}");
    }
    let Some(parent) = parent else { return };
    assert!(log.events.len() > length || log.events.len() == length, "{name}: its prefix is cut");
    let stored = logs.get(parent).map(|log| &log.events);
    let told = sessions.get(parent).map(|record| &record.told);
    for (seq, event) in log.events.iter().take(length).enumerate() {
        // Closers that the parent got at its opening stand in memory before they are written.
        let there = stored.and_then(|events| events.get(seq)).map(|event| event.digest);
        let told = told.and_then(|told| told.get(seq).copied().flatten());
        let wanted = told.or(there.filter(|_| event.note.is_some()));
        assert!(wanted.is_none_or(|wanted| wanted == event.digest), "{name}: event {seq} is not {parent}'s");
    }
}

/// The same through the daemon: all of it loads, is what the file holds, and closers at most are added.
fn through_a_daemon(store: &Path, ledger: &Ledger, logs: &BTreeMap<String, Log>) {
    let mut daemon = Daemon::start(store);
    let list = daemon.ok("session/list", json!({"includeEmpty": true, "limit": 10_000}));
    let rows = list["sessions"].as_array().unwrap();
    let listed: Vec<&str> = rows.iter().map(|row| row["sessionId"].as_str().unwrap()).collect();
    assert_eq!(listed.len(), logs.len(), "every session is listed once");
    assert!(rows.iter().all(|row| row["status"] == "ok"), "{list}");
    for (name, log) in logs {
        let opened = daemon.ok("session/load", json!({"sessionId": name}));
        let closers = opened["repaired"]["closers"].as_u64().unwrap_or(0);
        let cut = opened["repaired"]["cutBytes"].as_u64().unwrap_or(0);
        let next = opened["nextSeq"].as_u64().unwrap();
        assert_eq!(next, log.events.len() as u64 + closers, "{name}");
        assert!(cut <= log.torn as u64, "{name}: {cut} bytes are cut, {} torn", log.torn);
        ledger.count.closers.fetch_add(closers, std::sync::atomic::Ordering::Relaxed);
        ledger.count.torn.fetch_add(u64::from(log.torn > 0), std::sync::atomic::Ordering::Relaxed);
        daemon.ok("session/flush", json!({"sessionId": name}));
        daemon.ok("session/close", json!({"sessionId": name}));
    }
    for (name, _) in ledger.sessions().iter().filter(|(_, record)| record.gone_at.is_some()).take(50) {
        assert_eq!(daemon.err("session/load", json!({"sessionId": name})).0, "SESSION_NOT_FOUND");
    }
    daemon.end();
    let found = files(store);
    for (name, before) in logs {
        let after = read(&found.logs[name]);
        assert_eq!(after.torn, 0, "{name}: mended");
        let same = before.events.iter().zip(&after.events).all(|(a, b)| a.digest == b.digest);
        assert!(same && after.events.len() >= before.events.len(), "{name}: changed by its mending");
        let added = &after.events[before.events.len()..];
        assert!(added.iter().all(|event| event.kind == "turn/end"), "{name}: more than closers");
    }
}

/// Keeps a store of a long storm from growing, and forgets what is not there any more.
fn tidy(store: &Path, ledger: &Ledger, found: Files) {
    ledger.count.left.fetch_add(found.temporary.len() as u64, std::sync::atomic::Ordering::Relaxed);
    for path in found.temporary {
        std::fs::remove_file(path).unwrap();
    }
    one(&ledger.round);
    let mut daemon = Daemon::start(store);
    for name in found.logs.keys().rev().skip(KEPT) {
        daemon.ok("session/delete", json!({"sessionId": name}));
        let stamp = ledger.stamp();
        ledger.with(name, |record| record.gone_at = Some(stamp));
    }
    daemon.end();
    let gone: Vec<String> = found.logs.keys().rev().skip(KEPT).cloned().collect();
    let left = files(store);
    assert!(gone.iter().all(|name| !left.logs.contains_key(name)));
}
