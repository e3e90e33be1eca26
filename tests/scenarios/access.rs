//! What is reached, by whom, and how often: paths, modes, locks that are not there, retries.

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::kit::{Says, Store, header, lines, note, to, turn};
use crate::dur_support::process::{Daemon, tree};

/// B189, B190: no id and no cwd leads out of the root, and no link below it is followed.
#[test]
fn path_traversal() {
    let around = tempfile::tempdir().unwrap();
    let root = around.path().join("a/b/root");
    std::fs::create_dir_all(&root).unwrap();
    let outside = around.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("session.jsonl"), header("s") + &lines(&turn(1, &[])).concat()).unwrap();
    let mut daemon = Daemon::start(&root);
    let long = "x".repeat(5000);
    let ids = [
        "../../etc/cron.d/x",
        "/abs/path",
        "..\\..\\x",
        "../../x",
        "a/b",
        "CON",
        "a\u{0}b",
        ".",
        "..",
        "~",
        "-",
        " ",
        "\u{202e}x",
        "session.jsonl",
        &long,
        "",
    ];
    let mut stored = 0;
    for id in ids {
        let made = daemon.call("session/new", json!({"sessionId": id, "cwd": "/../../x"}));
        assert_eq!(made.is_ok(), id.len() < 5000 && !id.is_empty(), "{id:?}: {made:?}");
        if made.is_ok() {
            daemon.put(id, &[note(0)]);
            daemon.ok("session/close", json!({"sessionId": id}));
            assert_eq!(daemon.ok("session/load", json!({"sessionId": id}))["header"]["id"], id);
            daemon.ok("session/close", json!({"sessionId": id}));
            stored += 1;
        }
    }
    assert_eq!(daemon.rows(json!({})).len(), stored, "each has a place of its own");
    assert!(
        tree(around.path()).into_keys().all(|path| path.starts_with(&root) || path.starts_with(&outside))
    );

    // A session's directory, its log, a project and what is made beside a log, replaced by links that leave the root.
    let before = tree(&outside);
    let link = |from: &str, to: &Path| {
        let path = root.join(from);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
    };
    link("--w--/s", &outside);
    link("--v--/t/session.jsonl", &outside.join("session.jsonl"));
    for id in ["s", "t"] {
        for method in ["session/load", "session/inspect", "session/resume"] {
            let (code, data) = daemon.err(method, json!({"sessionId": id}));
            assert_eq!(code, "SESSION_CORRUPT", "{method} {id}");
            assert!(!data.to_string().contains("outside"), "{data}");
        }
        assert_eq!(daemon.row(id)["status"], "corrupt");
    }
    daemon.new_with("good", &[note(0)]);
    let dir = root.join("--w--/good");
    for name in ["session.owner", "session.summary.json", "session.jsonl.cut-1"] {
        let _ = std::fs::remove_file(dir.join(name));
        symlink(outside.join("made"), dir.join(name)).unwrap();
    }
    daemon.ok("session/append", to("good", &note(1)));
    let _ = daemon.call("session/close", json!({"sessionId": "good"}));
    link("--linked--", &outside);
    // It may be behind that link, which is not followed.
    let (code, data) = daemon.err("session/new", json!({"sessionId": "u", "cwd": "/linked"}));
    assert_eq!((code.as_str(), &data["errno"]), ("STORAGE_FAILED", &json!("ELOOP")));
    for id in ["s", "t", "good"] {
        let _ = daemon.call("session/delete", json!({"sessionId": id}));
    }
    daemon.end();
    assert_eq!(tree(&outside), before, "nothing outside was made, changed or removed");
}

fn modes(dir: &Path) -> Vec<(String, u32)> {
    let mut found = vec![(dir.display().to_string(), dir.metadata().unwrap().permissions().mode() & 0o7777)];
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(modes(&path));
        } else {
            found.push((path.display().to_string(), path.metadata().unwrap().permissions().mode() & 0o7777));
        }
    }
    found
}

/// B192, B193: owner-only from the first moment on, under any umask: logs, hints, summaries, saved cuts, backups,
/// recordings, and a file that a kill leaves without its name.
#[test]
fn permissions() {
    for umask in ["000", "022", "077", "277"] {
        let store = Store::new();
        let root = store.root().join("root");
        let plan = tempfile::NamedTempFile::new().unwrap();
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        let run = |args: &[&str]| {
            let mut command = Command::new("sh");
            command.args(["-c", &script, env!("CARGO_BIN_EXE_sessiond")]).args(args);
            command
        };
        let spec = format!("jsonl:{}", root.display());
        let serve = ["serve", "--store", &spec, "--fault-file", plan.path().to_str().unwrap()];
        let mut daemon = Daemon::run(run(&serve));
        daemon.new_with("torn", &turn(1, &[]));
        daemon.new_with("bad", &turn(1, &["c"]));
        for id in ["torn", "bad"] {
            daemon.ok("session/close", json!({"sessionId": id}));
        }
        let log = |id: &str| root.join("--w--").join(id).join("session.jsonl");
        let mut file = std::fs::File::options().append(true).open(log("torn")).unwrap();
        file.write_all(b"{\"torn").unwrap();
        let broken =
            std::fs::read_to_string(log("bad")).unwrap().replacen("user/message", "user\u{0}message", 1);
        std::fs::write(log("bad"), broken).unwrap();
        daemon.ok("session/load", json!({"sessionId": "torn"}));
        daemon.ok("session/append", to("torn", &note(0)));
        assert!(run(&["repair", "bad", "--store", &spec]).output().unwrap().status.success());
        // The file has no name yet, and its temporary one stays.
        writeln!(plan.as_file(), "link EIO\nunlink EIO *").unwrap();
        daemon.ok("session/new", json!({"sessionId": "half", "cwd": "/w"}));
        daemon.refused("half", &note(0));
        let found = modes(&root);
        for part in ["session.owner", ".summary.json", ".cut-", ".backup-1", ".tmp", "session.jsonl"] {
            assert!(found.iter().any(|(path, _)| path.contains(part)), "{part}: {found:?}");
        }
        for (path, mode) in found {
            let wanted = if Path::new(&path).is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, wanted, "{umask}: {path}");
        }
        daemon.kill();
    }
}

/// B173: the place in the log is the key: checked and taken in one step, and it outlives a restart.
#[test]
fn idempotency_not_enforced() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &[note("first")]);
    let mut keyed = to("s", &note("once"));
    keyed["expectedSeq"] = json!(1);
    let asked: Vec<u64> = (0..3).map(|_| daemon.send("session/append", keyed.clone())).collect();
    let answers: Vec<Value> = asked.into_iter().map(|id| daemon.answer(id).unwrap()).collect();
    let duplicates: Vec<bool> = answers.iter().map(|answer| answer["duplicate"] == true).collect();
    assert_eq!(duplicates, [false, true, true]);
    assert!(answers.iter().all(|answer| answer["seq"] == 1 && answer["time"] == answers[0]["time"]));
    let announced = daemon.notices.iter().filter(|notice| notice["method"] == "session/event").count();
    assert_eq!(announced, 2, "each event once");
    daemon.kill();
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "s"}));
    let again = daemon.ok("session/append", keyed.clone());
    assert_eq!(
        (&again["seq"], &again["time"], &again["duplicate"]),
        (&json!(1), &answers[0]["time"], &json!(true))
    );
    keyed["data"]["n"] = json!("another");
    let (code, data) = daemon.err("session/append", keyed);
    assert_eq!((code.as_str(), &data["expected"], &data["actual"]), ("SEQ_CONFLICT", &json!(1), &json!(2)));
    assert_eq!(daemon.events("s").len(), 2);
}

/// B157: a file system without locks is named as the cause, with what to do. B159: of two daemons one is refused.
#[test]
fn sqlite_on_network_fs() {
    let store = Store::with(header("s") + &lines(&turn(1, &[])).concat());
    let plan = tempfile::NamedTempFile::new().unwrap();
    let before = store.files();
    let mut daemon = store.daemon_with(&["--fault-file", plan.path().to_str().unwrap()]);
    writeln!(plan.as_file(), "lock ENOLCK *").unwrap();
    let told = |error: Value| {
        assert_eq!(
            (&error["data"]["code"], &error["data"]["errno"]),
            (&json!("STORAGE_FAILED"), &json!("ENOLCK"))
        );
        assert!(error["message"].as_str().unwrap().contains("keep the store on a local disk"), "{error}");
    };
    told(daemon.call("session/load", json!({"sessionId": "s"})).unwrap_err());
    assert_eq!(store.files(), before);
    writeln!(plan.as_file(), "clear").unwrap();
    daemon.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(store.daemon().err("session/load", json!({"sessionId": "s"})).0, "SESSION_LOCKED");
}
