//! A daemon stays within its bounds: the system's limits fail a write and nothing else, nothing outside the root is
//! touched, and no other user reads what is in it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::dur_support;
use crate::dur_support::process::{Daemon, log_of, tree, with_note};
use crate::dur_support::{append, note};

/// A daemon below limits of the shell that starts it.
fn limited(store: &Path, ulimit: &str) -> Daemon {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {ulimit} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_sessiond")]);
    command.arg("serve").arg("--store").arg(format!("jsonl:{}", store.display()));
    Daemon::run(command)
}

#[test]
fn a_limit_of_file_sizes_fails_the_write_and_ends_nothing() {
    let store = tempfile::tempdir().unwrap();
    let mut daemon = limited(store.path(), "-f 12");
    with_note(&mut daemon, "s");
    let large = append("s", &note("x".repeat(5_000)));
    let mut kept = 1;
    let refused = loop {
        match daemon.call("session/append", large.clone()) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 10, "the limit did not bind");
    };
    assert_eq!(
        (&refused["data"]["code"], &refused["data"]["errno"]),
        (&json!("STORAGE_FAILED"), &json!("EFBIG"))
    );
    daemon.ok("session/append", append("s", &note("small")));
    daemon.ok("session/close", json!({"sessionId": "s"}));
    daemon.end();
    let mut daemon = Daemon::start(store.path());
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], kept + 1);
    daemon.end();
    // The same for the commands that write: a torn end is not kept beside the log, and the log stays as it was.
    let log = log_of(store.path(), "s");
    let torn = [std::fs::read(&log).unwrap(), vec![b'x'; 20_000]].concat();
    std::fs::write(&log, &torn).unwrap();
    let repair = format!("ulimit -f 12 && exec \"$0\" repair s --store 'jsonl:{}'", store.path().display());
    let repaired = Command::new("sh").args(["-c", &repair, env!("CARGO_BIN_EXE_sessiond")]).output().unwrap();
    assert_eq!(repaired.status.code(), Some(1), "{repaired:?}");
    assert_eq!(std::fs::read(&log).unwrap(), torn);
}

/// What comes in one piece is written at once, and stands or falls together: each append that a failed write carried is
/// refused as not stored, may be sent again, and nothing else is.
#[test]
fn pipelined_appends_of_a_failed_write_are_each_refused_and_may_be_sent_again() {
    let store = tempfile::tempdir().unwrap();
    let mut daemon = limited(store.path(), "-S -f 12");
    for session in ["s", "other"] {
        with_note(&mut daemon, session);
    }
    let (small, large) = (|at: u64| append("s", &note(at)), append("s", &note("x".repeat(13_000))));
    let with = |mut params: Value, more: Value| {
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let batch =
        json!({"sessionId": "s", "events": [dur_support::entry(&note(3)), dur_support::entry(&note(4))]});
    let refused = [
        ("session/append", with(small(1), json!({"expectedSeq": 1}))),
        ("session/append", with(small(1), json!({"expectedSeq": 1}))), // a duplicate of what is not stored
        ("session/append", large),
        ("session/append_batch", batch),
        ("session/append", with(small(2), json!({"durable": true}))),
        // Refusals that tell of what is not stored.
        ("session/append", with(small(5), json!({"expectedSeq": 1}))),
        ("session/append", with(small(5), json!({"expectedSeq": 1, "durable": true}))),
    ];
    let all = refused.iter().map(|(method, params)| ((*method).to_owned(), params.clone()));
    let other = ("session/append".to_owned(), append("other", &note(1)));
    let requests: Vec<_> = all.chain([other]).collect();
    let before = std::fs::read(log_of(store.path(), "s")).unwrap();
    // One write of the client, so that one turn of the daemon carries all of it.
    let (first, thread) = daemon.send_all(&requests);
    let count = refused.len() as u64;
    for at in 0..count {
        let error = daemon.answer(first + at).unwrap_err();
        let (data, message) = (&error["data"], error["message"].as_str().unwrap());
        assert_eq!(
            (&data["code"], &data["errno"]),
            (&json!("STORAGE_FAILED"), &json!("EFBIG")),
            "{at}: {error}"
        );
        assert_eq!(data["committed"], false);
        assert!(message.contains("nothing was changed") && message.ends_with("try again"), "{message}");
    }
    assert_eq!(daemon.answer(first + count).unwrap()["seq"], 1, "another session's append is kept");
    daemon.give_back(thread);
    assert_eq!(std::fs::read(log_of(store.path(), "s")).unwrap(), before);
    let told = |notice: &&Value| notice["method"] == "session/event" && notice["params"]["sessionId"] == "s";
    assert_eq!(daemon.notices.iter().filter(told).count(), 1, "what is taken back was announced to nobody");
    // Sent again one by one, all but the large one and those that come too late are taken.
    for (at, (method, params)) in refused.iter().enumerate() {
        assert_eq!(daemon.call(method, params.clone()).is_ok(), !matches!(at, 2 | 5 | 6), "{params}");
    }
    assert_eq!(daemon.events("s").len(), 5);
    daemon.end();
    let mut daemon = Daemon::start(store.path());
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "s"}))["nextSeq"], 5);
    daemon.end();
}

/// The end of a daemon that cannot store what it has answered: which session and why, in words and on one line.
#[test]
fn an_end_that_cannot_store_everything_says_so_in_a_plain_sentence() {
    for fault in ["sync EIO *", "sync panic *"] {
        let (store, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (stderr, faults) = (logs.path().join("stderr"), logs.path().join("faults"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
        command.arg("serve").arg("--store").arg(format!("jsonl:{}", store.path().display()));
        command.args(["--sync-window", "60000", "--fault-file"]).arg(&faults);
        let mut daemon = Daemon::run_with(command, std::fs::File::create(&stderr).unwrap().into());
        with_note(&mut daemon, "s");
        daemon.ok("session/append", append("s", &note("secret")));
        std::fs::write(&faults, format!("{fault}\n")).unwrap();
        assert_eq!(daemon.end_with(), Some(1), "{fault}");
        let said = std::fs::read_to_string(&stderr).unwrap();
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("is not stored whole: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains("session s is not stored whole"), "{fault}: {said}");
        let why = if fault.contains("EIO") { "failed with EIO" } else { "a bug in sessiond" };
        assert!(lines[0].contains(why), "{said}");
        assert!(
            !said.contains(['{', '(', '"']) && !said.contains("secret"),
            "no value of the program: {said}"
        );
    }
}

#[test]
fn descriptors_are_as_many_as_the_process_may_have() {
    let store = tempfile::tempdir().unwrap();
    let mut daemon = limited(store.path(), "-S -n 40");
    for at in 0..60 {
        with_note(&mut daemon, &format!("s{at}"));
    }
    assert_eq!(daemon.ok("session/list", json!({"live": true}))["sessions"].as_array().unwrap().len(), 60);
    daemon.end();
}

#[test]
fn no_id_and_no_cwd_leads_out_of_the_root() {
    let around = tempfile::tempdir().unwrap();
    let store = around.path().join("a/b/store");
    std::fs::create_dir_all(store.parent().unwrap()).unwrap();
    let before = tree(around.path());
    let mut daemon = Daemon::start(&store);
    let names = [
        "../../x",
        "..",
        ".",
        "/etc/passwd",
        "a/../../../x",
        "\u{0}",
        "a\u{0}b",
        "~",
        "C:\\x",
        "session.jsonl",
    ];
    let long = "l".repeat(5000);
    for id in names.into_iter().chain([long.as_str(), ""]) {
        for method in ["session/new", "session/load", "session/inspect", "session/delete"] {
            let params = json!({"sessionId": id});
            match (method, daemon.call(method, params)) {
                ("session/new", Ok(_)) => {
                    daemon.ok("session/append", append(id, &note(1)));
                    daemon.ok("session/close", json!({"sessionId": id}));
                }
                ("session/delete", Ok(_)) => {}
                (_, Ok(_)) => assert!(id.len() < 300 && !id.is_empty(), "{method} {id:?}"),
                (_, Err(error)) => {
                    let code = error["data"]["code"].as_str().unwrap();
                    assert!(
                        ["INVALID_PARAMS", "SESSION_NOT_FOUND"].contains(&code),
                        "{method} {id:?}: {error}"
                    );
                    assert!(
                        id.len() > 255 || id.is_empty() || method != "session/new",
                        "{method} {id:?}: {error}"
                    );
                }
            }
            if method == "session/load" {
                daemon.ok("session/close", json!({"sessionId": id}));
            }
        }
    }
    for (n, cwd) in ["/../../x", "/..", "/a/../../..", "/\u{0}", "/a\u{0}b"]
        .into_iter()
        .chain([&*format!("/{}", &long[..4000])])
        .enumerate()
    {
        let id = format!("cwd-{n}");
        daemon.ok("session/new", json!({"sessionId": id, "cwd": cwd}));
        daemon.ok("session/append", append(&id, &note(1)));
        daemon.ok("session/close", json!({"sessionId": id}));
        assert_eq!(daemon.ok("session/load", json!({"sessionId": id}))["header"]["cwd"], cwd);
    }
    for cwd in ["../../x", "x", "", &format!("/{long}")] {
        assert_eq!(daemon.err("session/new", json!({"cwd": cwd})).0, "INVALID_PARAMS");
    }
    daemon.end();
    let after = tree(around.path());
    assert!(
        after.keys().all(|path| path.starts_with(&store) || before.contains_key(path)),
        "{:?}",
        after.keys()
    );
}

#[test]
fn modes_do_not_follow_the_umask() {
    for umask in ["000", "077", "277"] {
        let around = tempfile::tempdir().unwrap();
        let store = around.path().join("store");
        let mut command = Command::new("sh");
        let script = format!("umask {umask}; exec \"$0\" serve --store \"jsonl:$1\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_sessiond")]).arg(&store);
        let mut daemon = Daemon::run(command);
        with_note(&mut daemon, "s");
        daemon.ok("session/fork", json!({"sessionId": "s", "childSessionId": "c"}));
        daemon.ok("session/close", json!({"sessionId": "s"})); // a summary, too
        let mut seen = 0;
        let mut dirs = vec![store.clone()];
        while let Some(dir) = dirs.pop() {
            assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o7777, 0o700, "{umask} {dir:?}");
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    assert_eq!(
                        path.metadata().unwrap().permissions().mode() & 0o7777,
                        0o600,
                        "{umask} {path:?}"
                    );
                    seen += 1;
                }
            }
        }
        assert!(seen >= 3, "{seen}");
        daemon.end();
    }
}
