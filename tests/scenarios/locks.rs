//! Several processes on one store: who owns a session, and what is left of an owner that is gone.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::kit::{Says, Store, header, lines, note, resident, to, turn, turn_start};
use crate::dur_support::process::Daemon;
use crate::dur_support::{Random, from_env};

/// B001.
#[test]
fn changed_under_lock() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &[note(0)]);
    let foreign = lines(&[note(0), note("foreign")]).pop().unwrap();
    let mut log = std::fs::OpenOptions::new().append(true).open(store.log("s")).unwrap();
    log.write_all(foreign.as_bytes()).unwrap();
    let left = store.bytes("s");
    let error = daemon.refused("s", &note(1));
    assert_eq!(error["data"]["reason"], "changed_outside", "{error}");
    assert_eq!(store.bytes("s"), left, "the other's line is kept, and nothing is written behind it");
    // What the message says helps: what was answered goes on under another id, and the log can be loaded with the
    // other's event.
    let rescue = json!({"sessionId": "s", "childSessionId": "saved"});
    assert_eq!(daemon.ok("session/rescue", rescue)["sessionId"], "saved");
    assert_eq!(daemon.ok("session/append", to("saved", &note("after")))["seq"], 1);
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 2);
    assert_eq!(daemon.ok("session/append", to("s", &note(1)))["seq"], 2);
    let said: Vec<Value> = daemon.events("s").iter().map(|event| event["data"]["n"].clone()).collect();
    assert_eq!(said, [json!(0), json!("foreign"), json!(1)]);
}

/// B003: damage without end costs no memory and no time to speak of, on the wire and in a log.
#[test]
fn concurrent_writers_of_garbage() {
    const LINES: usize = 100_000;
    let mut wire = crate::wire_support::Daemon::start(&[]);
    let mut stdin = wire.take_stdin();
    let writer = std::thread::spawn(move || {
        let part = b"{\"type\":\"x/note\",\"seq\":1,\"ti\n".repeat(100);
        (0..LINES / 100).for_each(|_| stdin.write_all(&part).unwrap());
        stdin
    });
    for _ in 0..LINES {
        let answer = wire.line().unwrap();
        assert!(answer.contains("\"id\":null") && answer.contains("PARSE_ERROR"), "{answer}");
    }
    assert!(wire.resident() < 64 << 10);
    drop(writer.join().unwrap());

    let garbage = "{\"type\":\"x/note\",\"seq\":1,\"ti\n".repeat(LINES);
    let sound = header("s") + &lines(&turn(1, &[]))[..2].concat();
    for (end, code) in [("", None), (lines(&turn(1, &[])).last().unwrap().as_str(), Some("SESSION_CORRUPT"))]
    {
        let store = Store::with(sound.clone() + &garbage + end);
        let mut daemon = store.daemon();
        let inspected = daemon.ok("session/inspect", json!({"sessionId": "s"}));
        assert_eq!(inspected["nextSeq"], 2);
        let problems = inspected["problems"].as_array().unwrap().len();
        assert!((1..=200).contains(&problems), "{problems} problems");
        match code {
            None => assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 3),
            Some(code) => assert_eq!(daemon.err("session/load", json!({"sessionId": "s"})).0, code),
        }
        assert!(resident(daemon.pid()) < 64 << 10);
        let verified = store.run(&["verify", "--json"]);
        assert!(verified.stdout.len() < 64 << 10, "{} bytes of findings", verified.stdout.len());
    }
}

/// B005: two daemons take turns on one session; while one has it, the other is refused.
#[test]
fn concurrent_writers() {
    const EACH: u64 = 200;
    let store = Store::new();
    store.daemon().new_with("s", &[note("first")]);
    let writer = |name: &'static str| {
        let root = store.root().to_path_buf();
        std::thread::spawn(move || {
            let mut daemon = Daemon::start(&root);
            let (mut written, mut refused) = (0, 0);
            while written < EACH {
                match daemon.call("session/load", json!({"sessionId": "s"})) {
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(error["data"]["code"], "SESSION_LOCKED", "{error}");
                        refused += 1;
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    }
                }
                for _ in 0..10 {
                    daemon.ok("session/append", to("s", &note(format!("{name}{written}"))));
                    written += 1;
                }
                daemon.ok("session/close", json!({"sessionId": "s"}));
            }
            refused
        })
    };
    let threads = [writer("a"), writer("b")];
    let refused: Vec<u32> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    eprintln!("refused while the other had it: {refused:?}");
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "s"}));
    let mut count: BTreeMap<String, u64> = BTreeMap::new();
    for event in &daemon.events("s")[1..] {
        let said = event["data"]["n"].as_str().unwrap();
        let next = count.entry(said[..1].to_owned()).or_default();
        assert_eq!(said[1..], next.to_string(), "each once, each writer's in its order");
        *next += 1;
    }
    assert_eq!(count.into_values().collect::<Vec<_>>(), [EACH, EACH]);
}

/// B007: a live holder is told at once, however old its claim looks; a dead one is not waited for.
#[test]
fn lock_timeouts() {
    let store = Store::new();
    let mut owner = store.daemon();
    owner.new_with("s", &[note(0)]);
    let hint = store.log("s").with_file_name("session.owner");
    std::fs::write(&hint, format!("{{\"pid\":{},\"since\":1}}\n", owner.pid())).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    std::fs::File::options().append(true).open(&hint).unwrap().set_modified(old).unwrap();
    std::fs::File::options().append(true).open(store.log("s")).unwrap().set_modified(old).unwrap();
    let mut other = store.daemon();
    let (code, data) = other.err("session/load", json!({"sessionId": "s"}));
    assert_eq!(
        (code.as_str(), &data["pid"], &data["since"]),
        ("SESSION_LOCKED", &json!(owner.pid()), &json!(1))
    );
    owner.kill();
    assert_eq!(other.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 1);
}

/// B010, B012: the hint of a process that is alive and has nothing to do with it, and that of a killed owner.
#[test]
fn stale_lock_pid_reuse() {
    let store = Store::with(header("s") + &lines(&[note(0)]).concat());
    store.put("--w--/s/session.owner", format!("{{\"pid\":{},\"since\":1}}\n", std::process::id()));
    let mut daemon = store.daemon();
    assert_eq!(daemon.ok("session/inspect", json!({"sessionId": "s"})).get("lockedBy"), None);
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 1);
    daemon.kill();
    assert!(store.root().join("--w--/s/session.owner").exists(), "the killed owner's hint is left");
    let mut daemon = store.daemon();
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 1);
    daemon.ok("session/append", to("s", &note(1)));
    daemon.end();
    assert!(
        !store.root().join("--w--/s/session.owner").exists(),
        "an owner that ends takes its hint with it"
    );
}

/// B008: two daemons on one store are killed at random moments while both write, and want each other's sessions.
/// `SESSIOND_CRASH_ROUNDS=200` for the long form.
#[test]
fn no_lock_no_atomic() {
    let rounds = from_env("SESSIOND_CRASH_ROUNDS", 12);
    let mut random = Random(0x5eed);
    let store = Store::new();
    // What each session must hold, and what it may hold behind that.
    let mut sent: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut number = 0;
    for round in 0..rounds {
        let mut daemons = Vec::new();
        for name in ["a", "b"] {
            let mut daemon = store.daemon_with(&["--sync-window", "2"]);
            let mine = sent.entry(name.to_owned()).or_default();
            let method = if mine.is_empty() { "session/new" } else { "session/load" };
            daemon.ok(method, json!({"sessionId": name, "cwd": "/w"}));
            daemons.push((name, daemon));
        }
        let mut asked = Vec::new();
        for (name, daemon) in &mut daemons {
            let other = if *name == "a" { "b" } else { "a" };
            let mut requests = Vec::new();
            for n in 0..400 {
                if n % 50 == 25 {
                    requests.push(("session/load".to_owned(), json!({"sessionId": other})));
                }
                requests.push(("session/append".to_owned(), to(name, &note(number))));
                number += 1;
            }
            let (first, sender) = daemon.send_all(&requests);
            asked.push((first, requests, sender));
        }
        let lines = random.below(500);
        daemons[round % 2].1.wait_for_lines(lines, Duration::from_millis(500));
        std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
        let killed: Vec<_> = daemons.into_iter().map(|(name, daemon)| (name, daemon.kill())).collect();
        for ((name, answers), (first, requests, sender)) in killed.into_iter().zip(asked) {
            drop(sender.join().unwrap());
            let must = sent.get_mut(name).unwrap();
            let known = must.len();
            let mut answered = 0;
            for (index, (method, params)) in requests.iter().enumerate() {
                let answer = answers.get(&(first + index as u64));
                if method == "session/load" {
                    if let Some(answer) = answer {
                        let code = &answer["error"]["data"]["code"];
                        assert!(
                            *code == "SESSION_LOCKED" || *code == "SESSION_NOT_FOUND" || code.is_null(),
                            "{answer}"
                        );
                    }
                    continue;
                }
                must.push(params["data"]["n"].as_u64().unwrap());
                if let Some(answer) = answer {
                    assert!(answer.get("result").is_some(), "{answer}");
                    answered = must.len() - known;
                }
            }
            check(store.root(), name, must, known + answered);
        }
    }
}

/// The session holds the first `least` of these notes, and of the rest a prefix.
fn check(root: &Path, session: &str, notes: &mut Vec<u64>, least: usize) {
    let mut daemon = Daemon::start(root);
    match daemon.call("session/load", json!({"sessionId": session})) {
        Err(error) => {
            assert!(error["data"]["code"] == "SESSION_NOT_FOUND" && least == 0, "{error}");
            notes.clear();
        }
        Ok(_) => {
            let held: Vec<u64> =
                daemon.events(session).iter().map(|event| event["data"]["n"].as_u64().unwrap()).collect();
            assert!(held.len() >= least, "{session}: {} of {least} that were answered", held.len());
            assert!(notes.starts_with(&held), "{session}");
            *notes = held;
        }
    }
    daemon.end();
}

/// B009: what describes a session lies in its own log, so that nothing is shared that could be lost.
#[test]
fn shared_state_file_race() {
    const PROCESSES: usize = 16;
    let store = Store::new();
    let threads: Vec<_> = (0..PROCESSES)
        .map(|index| {
            let root = store.root().to_path_buf();
            std::thread::spawn(move || {
                let mut daemon = Daemon::start(&root);
                let id = format!("s{index}");
                daemon.ok("session/new", json!({"sessionId": id, "cwd": "/w"}));
                for n in 0..63 {
                    let data =
                        json!({"title": format!("{id} {n}"), "messageSeqs": [], "source": {"kind": "user"}});
                    let params = json!({"sessionId": id, "type": "session/title", "data": data});
                    daemon.ok("session/append", params);
                    if n % 20 == 10 {
                        daemon.ok("session/close", json!({"sessionId": id}));
                        let rows = daemon.rows(json!({}));
                        assert!(rows.iter().all(|row| row["status"] == "ok"), "{rows:?}");
                        daemon.ok("session/load", json!({"sessionId": id}));
                    }
                }
                daemon.end();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut daemon = store.daemon();
    let rows = daemon.rows(json!({}));
    assert_eq!(rows.len(), PROCESSES);
    for row in rows {
        assert_eq!(row["title"], format!("{} 62", row["sessionId"].as_str().unwrap()), "the last title");
    }
    for (path, bytes) in store.files().into_iter().filter(|(path, _)| path.ends_with("session.summary.json"))
    {
        serde_json::from_slice::<Value>(&bytes).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
}

/// B154: whoever only reads needs no lock and no leave to write: every operation that writes would fail here.
#[test]
fn needless_write_lock() {
    let store = Store::new();
    let mut owner = store.daemon();
    owner.new_with("held", &turn(1, &["c"]));
    owner.new_with("free", &turn(1, &[]));
    owner.ok("session/close", json!({"sessionId": "free"}));
    let plan = tempfile::NamedTempFile::new().unwrap();
    for op in ["create_dir", "create_new", "link", "rename", "unlink", "write", "write_at", "set_len", "sync"]
    {
        writeln!(plan.as_file(), "{op} EROFS *").unwrap();
    }
    let before = store.files();
    let mut reader = store.daemon_with(&["--fault-file", plan.path().to_str().unwrap()]);
    for session in ["held", "free"] {
        let inspected = reader.ok("session/inspect", json!({"sessionId": session}));
        assert_eq!(inspected["problems"], json!([]));
        assert_eq!(inspected["lockedBy"].is_object(), session == "held");
        assert_eq!(reader.row(session)["status"], "ok");
    }
    owner.ok("session/append", to("held", &turn_start(2)));
    assert_eq!(reader.ok("session/inspect", json!({"sessionId": "held"}))["nextSeq"], 9);
    reader.end();
    let after = store.files();
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
}

/// B149: eight daemons meet a store that is not there yet; there is no schema to make or to migrate, only directories.
#[test]
fn concurrent_migration() {
    let around = tempfile::tempdir().unwrap();
    let root = around.path().join("not/there/yet");
    let mut daemons: Vec<Daemon> = (0..8).map(|_| Daemon::start(&root)).collect();
    let asked: Vec<Vec<u64>> = daemons
        .iter_mut()
        .enumerate()
        .map(|(index, daemon)| {
            let id = format!("s{index}");
            vec![
                daemon.send("session/new", json!({"sessionId": id, "cwd": "/w"})),
                daemon.send("session/append", to(&id, &note(index))),
                daemon.send("session/flush", json!({"sessionId": id})),
            ]
        })
        .collect();
    for (daemon, asked) in daemons.iter_mut().zip(asked) {
        asked.into_iter().for_each(|id| drop(daemon.answer(id).unwrap()));
    }
    for daemon in &mut daemons {
        assert_eq!(daemon.rows(json!({})).len(), 8);
    }
}

/// B051: an owner is killed in every state of a turn; the next one goes on with a new turn.
#[test]
fn stuck_session() {
    let events = turn(1, &["c1", "c2"]);
    for length in 1..=events.len() {
        let store = Store::new();
        let mut daemon = store.daemon();
        daemon.new_with("s", &events[..length]);
        daemon.kill();
        let mut daemon = store.daemon();
        let opened = daemon.ok("session/load", json!({"sessionId": "s"}));
        let closers = opened["repaired"]["closers"].as_u64().unwrap_or(0);
        assert_eq!(closers > 0, length < events.len(), "{length}: {opened}");
        assert_eq!(opened["nextSeq"], length as u64 + closers);
        let info = daemon.ok("session/info", json!({"sessionId": "s"}));
        assert_eq!((&info["openTurn"], &info["openStep"]), (&Value::Null, &Value::Null));
        daemon.put("s", &turn(2, &["c3"]));
    }
}
