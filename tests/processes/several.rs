//! Several daemons, other programs and odd files on one store: one owner for each session, nothing
//! damaged that another program changed, and odd files told (PROTOCOL 3, Storage failure; 9.4).

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::dur_support::process::{Daemon, log_of, tree, with_note};
use crate::dur_support::{append, note, said};

/// The rows of a list, by id.
pub(crate) fn rows(daemon: &mut Daemon) -> BTreeMap<String, Value> {
    let list = daemon.ok("session/list", json!({"includeEmpty": true}));
    let rows = list["sessions"].as_array().unwrap().iter();
    rows.map(|row| (row["sessionId"].as_str().unwrap().to_owned(), row.clone())).collect()
}

/// A list says which of its sessions another process has open, and since when; its own it does not.
#[test]
fn a_list_names_the_owners_of_its_rows() {
    let store = tempfile::tempdir().unwrap();
    let mut owner = Daemon::start(store.path());
    for id in ["free", "held", "held-too"] {
        with_note(&mut owner, id);
    }
    owner.ok("session/close", json!({"sessionId": "free"}));
    let mut other = Daemon::start(store.path());
    other.ok("session/load", json!({"sessionId": "free"}));
    for (daemon, held_by) in [(&mut other, Some(owner.pid())), (&mut owner, None)] {
        for (id, row) in rows(daemon) {
            let is_held = if held_by.is_some() { id != "free" } else { id == "free" };
            assert_eq!(row.get("lockedBy").is_some(), is_held, "{row}");
            if let Some(pid) = held_by.filter(|_| is_held) {
                assert_eq!((&row["lockedBy"]["pid"], &row["live"]), (&json!(pid), &json!(false)));
                assert!(row["lockedBy"]["since"].as_u64().unwrap() > 1_600_000_000_000, "{row}");
            }
        }
    }
    let row = other.ok("session/list", json!({"cwd": "/w", "limit": 1}))["sessions"][0].clone();
    assert_eq!((&row["sessionId"], &row["lockedBy"]["pid"]), (&json!("held-too"), &json!(owner.pid())));
    let inspected = other.ok("session/inspect", json!({"sessionId": "held"}));
    assert_eq!(inspected["lockedBy"]["pid"], owner.pid());
    // The hints of a killed process are nobody's.
    owner.kill();
    assert!(rows(&mut other).values().all(|row| row.get("lockedBy").is_none()));
    other.end();
}

#[test]
fn a_session_has_one_owner_and_none_once_that_is_killed() {
    let store = tempfile::tempdir().unwrap();
    let mut owner = Daemon::start(store.path());
    with_note(&mut owner, "s");
    let mut other = Daemon::start(store.path());
    for method in ["session/load", "session/resume", "session/delete"] {
        let (code, data) = other.err(method, json!({"sessionId": "s"}));
        assert_eq!(code, "SESSION_LOCKED", "{method}");
        assert_eq!(data["pid"], owner.pid(), "{method}");
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
        assert!(now - data["since"].as_u64().unwrap() < 600_000, "{method}");
    }
    let (code, _) = other.err("session/new", json!({"sessionId": "s", "cwd": "/elsewhere"}));
    assert_eq!(code, "SESSION_ALREADY_EXISTS");
    // It may be looked at, and listed, while its owner goes on.
    let inspected = other.ok("session/inspect", json!({"sessionId": "s"}));
    assert_eq!(inspected["lockedBy"]["pid"], owner.pid());
    assert_eq!(inspected["nextSeq"], 1);
    owner.ok("session/append", append("s", &note(1)));
    assert_eq!(other.ok("session/inspect", json!({"sessionId": "s"}))["nextSeq"], 2);
    let row = &rows(&mut other)["s"];
    assert_eq!((&row["status"], &row["live"]), (&json!("ok"), &json!(false)));
    owner.kill();
    let inspected = other.ok("session/inspect", json!({"sessionId": "s"}));
    assert_eq!(inspected.get("lockedBy"), None);
    assert_eq!(other.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 2);
    // And back: closing gives it up, too.
    let mut third = Daemon::start(store.path());
    assert_eq!(third.err("session/load", json!({"sessionId": "s"})).0, "SESSION_LOCKED");
    other.ok("session/close", json!({"sessionId": "s"}));
    third.ok("session/load", json!({"sessionId": "s"}));
}

#[test]
fn of_two_daemons_that_make_one_session_one_wins() {
    let store = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let id = format!("s{round}");
        let mut daemons = [Daemon::start(store.path()), Daemon::start(store.path())];
        for daemon in &mut daemons {
            daemon.ok("session/new", json!({"sessionId": id}));
        }
        let asked: Vec<u64> =
            daemons.iter_mut().map(|daemon| daemon.send("session/append", append(&id, &note(1)))).collect();
        let answers: Vec<_> = daemons.iter_mut().zip(asked).map(|(daemon, id)| daemon.answer(id)).collect();
        let won: Vec<bool> = answers.iter().map(Result::is_ok).collect();
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{answers:?}");
        let error = answers.into_iter().find_map(Result::err).unwrap();
        assert_eq!(error["data"]["code"], "SESSION_ALREADY_EXISTS", "{error}");
        assert_eq!(std::fs::read_to_string(log_of(store.path(), &id)).unwrap().lines().count(), 2);
    }
}

#[test]
fn deleting_spares_forks_and_what_another_process_holds() {
    let store = tempfile::tempdir().unwrap();
    let mut owner = Daemon::start(store.path());
    with_note(&mut owner, "parent");
    owner.ok("session/fork", json!({"sessionId": "parent", "childSessionId": "child"}));
    owner.ok("session/close", json!({"sessionId": "parent"}));
    let child = std::fs::read(log_of(store.path(), "child")).unwrap();
    let mut other = Daemon::start(store.path());
    assert_eq!(other.err("session/delete", json!({"sessionId": "child"})).0, "SESSION_LOCKED");
    other.ok("session/delete", json!({"sessionId": "parent"}));
    assert_eq!(std::fs::read(log_of(store.path(), "child")).unwrap(), child);
    assert_eq!(rows(&mut owner).into_keys().collect::<Vec<_>>(), ["child"]);
    owner.ok("session/append", append("child", &note(1)));
    owner.end();
    assert_eq!(other.ok("session/load", json!({"sessionId": "child"}))["nextSeq"], 3);
}

/// Something another program does to a log.
type Meddling = fn(&Path);

#[test]
fn a_log_that_was_changed_outside_is_not_written_to() {
    let meddlings: [(&str, Meddling); 4] = [
        ("appended", |log| {
            let mut file = std::fs::OpenOptions::new().append(true).open(log).unwrap();
            file.write_all(b"{\"type\":\"x/other\",\"seq\":1,\"time\":1,\"data\":{},\"ignorable\":true}\n")
                .unwrap();
        }),
        ("truncated", |log| {
            let file = std::fs::OpenOptions::new().write(true).open(log).unwrap();
            file.set_len(std::fs::metadata(log).unwrap().len() - 3).unwrap();
        }),
        ("removed", |log| std::fs::remove_file(log).unwrap()),
        ("replaced", |log| {
            let bytes = std::fs::read(log).unwrap();
            std::fs::remove_file(log).unwrap();
            std::fs::write(log, bytes).unwrap();
        }),
    ];
    for (what, meddle) in meddlings {
        let reason = if matches!(what, "removed" | "replaced") { "removed" } else { "changed_outside" };
        for durable in [false, true] {
            let store = tempfile::tempdir().unwrap();
            let mut daemon = Daemon::start(store.path());
            with_note(&mut daemon, "s");
            daemon.ok("session/flush", json!({"sessionId": "s"}));
            let log = log_of(store.path(), "s");
            meddle(&log);
            let left = std::fs::read(&log).ok();
            for _ in 0..2 {
                let mut params = append("s", &note(1));
                params["durable"] = json!(durable);
                let (code, data) = daemon.err("session/append", params);
                assert_eq!((code.as_str(), &data["reason"]), ("STORAGE_FAILED", &json!(reason)), "{what}");
                assert_eq!(data["committed"], false, "{what}");
            }
            // Reads go on, a fork takes what memory holds, and the file is as the other left it.
            assert_eq!(daemon.events("s").iter().map(said).collect::<Vec<_>>(), [note(0)], "{what}");
            let events = daemon.notices.iter().filter(|notice| notice["method"] == "session/event");
            assert_eq!(events.count(), 1, "{what}: nothing is announced");
            let fork = json!({"sessionId": "s", "childSessionId": "c"});
            daemon.ok("session/fork", fork);
            daemon.ok("session/close", json!({"sessionId": "c"}));
            let child = daemon.ok("session/load", json!({"sessionId": "c"}));
            assert_eq!(child["inheritedEventCount"], 1, "{what}");
            assert_eq!(said(&daemon.events("c")[0]), note(0), "{what}");
            assert_eq!(std::fs::read(&log).ok(), left, "{what}");
            let (_, data) = daemon.err("session/close", json!({"sessionId": "s"}));
            assert_eq!(data["reason"], reason, "{what}");
            assert_eq!(std::fs::read(&log).ok(), left, "{what}");
            daemon.end();
        }
    }
}

#[test]
fn a_store_whose_directory_was_removed_is_made_again() {
    for made in [true, false] {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("store");
        let mut daemon = Daemon::start(&root);
        with_note(&mut daemon, "closed");
        daemon.ok("session/close", json!({"sessionId": "closed"}));
        with_note(&mut daemon, "s");
        std::fs::remove_dir_all(&root).unwrap();
        if made {
            std::fs::create_dir(&root).unwrap();
        }
        let (_, data) = daemon.err("session/append", append("s", &note(1)));
        assert_eq!(data["reason"], "removed");
        assert_eq!(daemon.err("session/load", json!({"sessionId": "closed"})).0, "SESSION_NOT_FOUND");
        with_note(&mut daemon, "new");
        daemon.ok("session/append", append("new", &note(1)));
        assert_eq!(daemon.ok("session/rescue", json!({"sessionId": "s"}))["sessionId"], "s");
        daemon.ok("session/append", append("s", &note(1)));
        assert_eq!(rows(&mut daemon).into_keys().collect::<Vec<_>>(), ["new", "s"]);
        daemon.end();
        let mut daemon = Daemon::start(&root);
        for id in ["new", "s"] {
            daemon.ok("session/load", json!({"sessionId": id}));
            assert_eq!(daemon.events(id).iter().map(said).collect::<Vec<_>>(), [note(0), note(1)]);
        }
    }
}

#[test]
fn a_store_whose_directory_was_moved_promises_nothing_there() {
    for made in [true, false] {
        let parent = tempfile::tempdir().unwrap();
        let (root, moved) = (parent.path().join("store"), parent.path().join("moved"));
        let mut daemon = Daemon::start(&root);
        with_note(&mut daemon, "s");
        with_note(&mut daemon, "deleted");
        std::fs::rename(&root, &moved).unwrap();
        if made {
            std::fs::create_dir(&root).unwrap();
        }
        let before = tree(&moved);
        let (code, data) = daemon.err("session/flush", json!({"sessionId": "s"}));
        assert_eq!((code.as_str(), &data["reason"]), ("STORAGE_FAILED", &json!("removed")));
        let mut durable = append("s", &note(1));
        durable["durable"] = json!(true);
        assert_eq!(daemon.err("session/append", durable).1["reason"], "removed");
        daemon.ok("session/delete", json!({"sessionId": "deleted"}));
        with_note(&mut daemon, "new");
        daemon.ok("session/flush", json!({"sessionId": "new"}));
        daemon.ok("session/rescue", json!({"sessionId": "s"}));
        daemon.ok("session/flush", json!({"sessionId": "s"}));
        daemon.end();
        assert_eq!(tree(&moved), before, "what was moved stays as it is");
        let mut daemon = Daemon::start(&root);
        assert_eq!(rows(&mut daemon).into_keys().collect::<Vec<_>>(), ["new", "s"]);
        daemon.ok("session/load", json!({"sessionId": "s"}));
        assert_eq!(daemon.events("s").iter().map(said).collect::<Vec<_>>(), [note(0)]);
    }
}

#[test]
fn a_store_behind_a_link_is_where_the_link_leads() {
    let parent = tempfile::tempdir().unwrap();
    let [first, second, root] = ["first", "second", "store"].map(|name| parent.path().join(name));
    for dir in [&first, &second] {
        std::fs::create_dir(dir).unwrap();
    }
    symlink(&first, &root).unwrap();
    let mut daemon = Daemon::start(&root);
    with_note(&mut daemon, "s");
    std::fs::remove_file(&root).unwrap();
    symlink(&second, &root).unwrap();
    assert_eq!(daemon.err("session/flush", json!({"sessionId": "s"})).1["reason"], "removed");
    with_note(&mut daemon, "new");
    daemon.ok("session/flush", json!({"sessionId": "new"}));
    assert!(second.join("--w--/new/session.jsonl").exists());
    assert!(!first.join("--w--/new").exists());
    daemon.end();
}

#[test]
fn a_live_session_whose_directories_are_gone_is_deleted_all_the_same() {
    let remove: Meddling = |dir| std::fs::remove_dir_all(dir).unwrap();
    let rename: Meddling = |dir| std::fs::rename(dir, dir.with_extension("bak")).unwrap();
    for above in 1..=3 {
        for take in [remove, rename] {
            let parent = tempfile::tempdir().unwrap();
            let root = parent.path().join("store");
            let mut daemon = Daemon::start(&root);
            with_note(&mut daemon, "s");
            daemon.ok("session/flush", json!({"sessionId": "s"}));
            take(log_of(&root, "s").ancestors().nth(above).unwrap());
            let left = tree(parent.path());
            daemon.ok("session/delete", json!({"sessionId": "s"}));
            assert_eq!(tree(parent.path()), left, "{above}: what is elsewhere is none of its");
            assert_eq!(daemon.err("session/info", json!({"sessionId": "s"})).0, "SESSION_NOT_FOUND");
            with_note(&mut daemon, "new");
            daemon.end();
            assert!(log_of(&root, "new").exists(), "{above}");
        }
    }
}

#[test]
fn odd_artifacts_are_told_and_lead_nowhere() {
    let outside = tempfile::tempdir().unwrap();
    let store = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(store.path());
    for id in ["good", "copied", "linked-log", "linked-dir"] {
        with_note(&mut daemon, id);
    }
    daemon.end();
    let project = store.path().join("--w--");
    // A copy in another project, and links in the place of a log and of a session's directory.
    let other = store.path().join("--other--/copied");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::copy(project.join("copied/session.jsonl"), other.join("session.jsonl")).unwrap();
    let (log, secret) = (project.join("linked-log/session.jsonl"), outside.path().join("secret.jsonl"));
    std::fs::rename(&log, &secret).unwrap();
    symlink(&secret, &log).unwrap();
    let (dir, away) = (project.join("linked-dir"), outside.path().join("linked-dir"));
    std::fs::rename(&dir, &away).unwrap();
    symlink(&away, &dir).unwrap();
    let before = (tree(outside.path()), tree(&project.join("good")));
    let mut daemon = Daemon::start(store.path());
    let rows = rows(&mut daemon);
    assert_eq!(rows["good"]["status"], "ok");
    // The copy is told by its place; the session loads.
    daemon.ok("session/load", json!({"sessionId": "copied"}));
    daemon.ok("session/close", json!({"sessionId": "copied"}));
    for id in ["linked-log", "linked-dir"] {
        assert_eq!(rows[id]["status"], "corrupt", "{id}");
        assert!(!rows[id]["reason"].as_str().unwrap().is_empty(), "{id}");
        for method in ["session/load", "session/inspect"] {
            let (code, data) = daemon.err(method, json!({"sessionId": id}));
            assert_eq!(code, "SESSION_CORRUPT", "{method} {id}");
            assert!(!data.to_string().contains("secret"), "{data}");
        }
        let (code, _) = daemon.err("session/new", json!({"sessionId": id, "cwd": "/w"}));
        assert_eq!(code, "SESSION_ALREADY_EXISTS", "{id}");
    }
    daemon.ok("session/load", json!({"sessionId": "good"}));
    daemon.ok("session/close", json!({"sessionId": "good"}));
    for id in ["copied", "linked-log", "linked-dir"] {
        let _ = daemon.call("session/delete", json!({"sessionId": id}));
    }
    daemon.end();
    assert_eq!(tree(outside.path()), before.0, "nothing outside the root was touched");
    let kept = tree(&project.join("good"));
    assert_eq!(kept[&project.join("good/session.jsonl")], before.1[&project.join("good/session.jsonl")]);
}

#[test]
fn a_copy_under_another_name_hides_nothing() {
    let store = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(store.path());
    with_note(&mut daemon, "good");
    daemon.end();
    let project = store.path().join("--w--");
    std::fs::create_dir(project.join("copy")).unwrap();
    std::fs::copy(project.join("good/session.jsonl"), project.join("copy/session.jsonl")).unwrap();
    let mut daemon = Daemon::start(store.path());
    let list = daemon.ok("session/list", json!({}));
    let mut statuses: Vec<&str> =
        list["sessions"].as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["corrupt", "ok"], "{list}");
    assert_eq!(daemon.err("session/load", json!({"sessionId": "copy"})).0, "SESSION_CORRUPT");
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "good"}))["nextSeq"], 1);
    daemon.ok("session/delete", json!({"sessionId": "copy"}));
    daemon.ok("session/append", append("good", &note(1)));
}

#[test]
fn rows_of_one_time_and_one_id_are_all_listed_in_pages_too() {
    let store = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(store.path());
    with_note(&mut daemon, "s1");
    with_note(&mut daemon, "\u{FFFD}");
    daemon.end();
    let project = store.path().join("--w--");
    let put = |name: &str, bytes: &[u8]| {
        let path = project.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let log = std::fs::read(project.join("s1/session.jsonl")).unwrap();
    for copy in ["s1.bak/session.jsonl", "s1 copy/session.jsonl", "another copy/session.jsonl", "s1.jsonl"] {
        put(copy, &log);
    }
    for unit in ["d800", "d801"] {
        let header = format!(
            "{{\"type\":\"session\",\"version\":0,\"id\":\"\\u{unit}\",\"createdAt\":5,\"delegationDepth\":0}}\n"
        );
        put(&format!("~{}/session.jsonl", unit.to_uppercase()), header.as_bytes());
    }
    let mut daemon = Daemon::start(store.path());
    for live in [false, true] {
        if live {
            for id in ["s1", "\u{FFFD}"] {
                daemon.ok("session/load", json!({"sessionId": id}));
            }
        }
        let list = daemon.ok("session/list", json!({}))["sessions"].as_array().unwrap().clone();
        let mut shown: Vec<_> = list
            .iter()
            .map(|row| {
                let reason = row["reason"].as_str().unwrap_or_default();
                assert_eq!(reason.is_empty(), row["status"] == "ok", "{row}");
                (row["sessionId"].as_str().unwrap(), row["status"].as_str().unwrap(), row["live"] == true)
            })
            .collect();
        shown.sort_unstable();
        let expected = [
            ("s1", "corrupt", false), // three copies at places that stand for no id, or in no directory
            ("s1", "corrupt", false),
            ("s1", "corrupt", false),
            ("s1", "ok", live),
            ("s1.bak", "corrupt", false),
            ("\u{FFFD}", "ok", live),
            ("\u{FFFD}", "unsupported", false),
            ("\u{FFFD}", "unsupported", false),
        ];
        assert_eq!(shown, expected);
        let (mut paged, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let page = daemon.ok("session/list", json!({"limit": 1, "cursor": cursor}));
            paged.extend(page["sessions"].as_array().unwrap().iter().cloned());
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(paged, list);
    }
}

/// Counted message ids go on behind those that a log holds, whoever counted them.
#[test]
fn counted_message_ids_do_not_repeat_in_a_log() {
    let root = tempfile::tempdir().unwrap();
    let data = json!({"role": "user", "content": [], "source": {"kind": "user"}});
    let params = json!({"sessionId": "s", "type": "user/message", "surfaceOp": "append", "data": data});
    let minted = |daemon: &mut Daemon| {
        let answer = daemon.ok("session/append", params.clone());
        answer["messageId"].as_str().unwrap().to_owned()
    };
    let flags = ["--ids", "sequential"];
    let mut daemon = Daemon::with(root.path(), &flags);
    daemon.ok("session/new", json!({"sessionId": "s"}));
    assert_eq!([minted(&mut daemon), minted(&mut daemon)], ["msg-1", "msg-2"]);
    daemon.end();
    let mut daemon = Daemon::with(root.path(), &flags);
    daemon.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(minted(&mut daemon), "msg-3");
    let seed = daemon.ok("session/snapshot", json!({"sessionId": "s"}))["seed"].clone();
    daemon.end();
    let root = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::with(root.path(), &flags);
    daemon.ok("session/new", json!({"sessionId": "s", "seed": seed}));
    assert_eq!(minted(&mut daemon), "msg-4");
}

/// Each request sees what those before it have done, though the files are made and let go of meanwhile.
#[test]
fn a_list_shows_what_all_requests_before_it_have_done() {
    for _ in 0..8 {
        let store = tempfile::tempdir().unwrap();
        let line = |id: u64, method: &str, params: Value| {
            format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        };
        let title = json!({"sessionId": "s", "type": "session/title", "data": {"title": "t"}});
        let lines = [
            line(1, "session/new", json!({"sessionId": "s"})),
            line(2, "session/append", title),
            line(3, "session/list", json!({})),
            line(4, "session/fork", json!({"sessionId": "s", "childSessionId": "c"})),
            line(5, "session/list", json!({})),
            line(6, "session/close", json!({"sessionId": "s"})),
            line(7, "session/list", json!({})),
            line(8, "session/load", json!({"sessionId": "s"})),
            line(9, "session/list", json!({"live": true})),
        ];
        let mut child = Command::new(env!("CARGO_BIN_EXE_sessiond"))
            .args(["serve", "--store", &format!("jsonl:{}", store.path().display())])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(lines.concat().as_bytes()).unwrap();
        let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let listed = |id: u64, live: bool| {
            let answers = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let answer = answers.into_iter().find(|line| line["id"] == id).unwrap();
            let rows = answer["result"]["sessions"].as_array().unwrap().clone();
            let rows = rows.iter().filter(|row| !live || row["live"] == true);
            let mut ids: Vec<String> =
                rows.map(|row| row["sessionId"].as_str().unwrap().to_owned()).collect();
            ids.sort();
            ids
        };
        // What requests behind it have done while it looked, a list may show too.
        assert!(listed(3, false).contains(&"s".to_owned()), "{output}");
        assert_eq!(listed(5, false), ["c", "s"], "{output}");
        assert_eq!(listed(7, false), ["c", "s"], "{output}");
        assert_eq!(listed(9, true), ["c", "s"], "{output}");
    }
}
