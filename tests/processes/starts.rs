//! Commands that are given a store: one that is not there, is no directory, or may not be read or written (PROTOCOL 8).

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::dur_support::process::{Daemon, tree, with_note};
use crate::dur_support::{append, note};
use crate::several::rows;

/// A daemon that is asked to start and to end at once: its exit code, and what it said.
fn start(command: &mut Command) -> (Option<i32>, String) {
    let output = command.env_remove("SESSIOND_STORE").stdin(Stdio::null()).output().unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn sessiond() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sessiond"))
}

#[test]
fn a_store_of_no_use_is_told_at_the_start_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    for place in ["file", "file/below", "dangling"] {
        let place = dir.path().join(place);
        for log in ["warn", "off"] {
            let store = format!("jsonl:{}", place.display());
            let (code, told) = start(sessiond().args(["--store", &store, "--log", log]));
            assert_eq!(code, Some(3), "{told}");
            assert!(told.contains(place.to_str().unwrap()) && told.lines().count() == 1, "{told}");
        }
    }
    // Nor can every directory that may be written take another.
    let long = format!("{}/{}", dir.path().display(), "x".repeat(256));
    let kernels: &[&str] = if cfg!(target_os = "linux") { &["/proc/nosuch/x", "/proc/x"] } else { &[] };
    for place in kernels.iter().copied().chain([&*long]) {
        let (code, told) = start(sessiond().args(["--store", &format!("jsonl:{place}")]));
        assert_eq!(code, Some(3), "{told}");
        assert!(told.contains(place) && told.contains("cannot be made"), "{told}");
    }
    let removed = dir.path().join("removed");
    std::fs::create_dir(&removed).unwrap();
    let script =
        format!("rmdir {0} && exec {1} --store jsonl:x", removed.display(), env!("CARGO_BIN_EXE_sessiond"));
    let (code, told) = start(Command::new("sh").args(["-c", &script]).current_dir(&removed));
    assert_eq!(code, Some(3), "{told}");
    // What is not there yet is made with the first session; a home directory is written as in a shell.
    for (store, root) in
        [("jsonl:~", "home"), ("jsonl:~/a/b", "home/a/b"), ("jsonl:a/~", "a/~"), ("jsonl:./~x", "~x")]
    {
        let mut command = sessiond();
        let home = dir.path().join("home");
        std::fs::create_dir_all(&home).unwrap();
        command.current_dir(dir.path()).env("HOME", &home).args(["serve", "--store", store]);
        let mut daemon = Daemon::run(command);
        with_note(&mut daemon, "s");
        daemon.end();
        assert!(dir.path().join(root).join("--w--/s/session.jsonl").is_file(), "{store}");
        std::fs::remove_dir_all(&home).unwrap();
    }
    // A text that names none: what was meant is offered.
    for (text, offer) in [
        ("/tmp/q", "write jsonl:/tmp/q"),
        ("sessions", "write jsonl:sessions"),
        ("memory", "write memory:"),
        ("jsonl:", "write jsonl:DIR"),
        ("sqlite:x", "write memory: or jsonl:DIR"),
        ("jsonl:~nobody/x", "jsonl:./~nobody/x for a directory of that name"),
        ("jsonl:~x", "jsonl:~/DIR for your own home directory"),
        ("jsonl:$HOME/x", "jsonl:./$HOME/x for a directory of that name"),
        ("jsonl:${HOME}", "which only a shell expands"),
    ] {
        let (code, told) = start(sessiond().args(["--store", text]));
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(offer) && told.contains(&format!("{text:?}")), "{told}");
    }
}

/// Root may write everywhere: the daemon runs as nobody, if that user can run it.
fn unprivileged() -> Option<Command> {
    const NOBODY: u32 = 65_534;
    if !rustix::process::getuid().is_root() {
        return Some(sessiond());
    }
    let runs = sessiond().arg("--version").uid(NOBODY).output().is_ok_and(|ran| ran.status.success());
    if !runs {
        eprintln!("no other user may run the daemon: a store that may not be written is not tested");
    }
    let mut command = sessiond();
    command.uid(NOBODY).current_dir("/");
    runs.then_some(command)
}

fn set_modes(root: &Path, dirs: u32, files: u32) {
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { set_modes(&path, dirs, files) } else { set_mode(&path, files) }
    }
    set_mode(root, dirs);
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_store_that_may_not_be_written_is_read_and_one_that_may_not_be_read_or_made_is_refused() {
    let Some(mut command) = unprivileged() else { return };
    let outside = tempfile::tempdir().unwrap();
    set_mode(outside.path(), 0o755);
    let store = outside.path().join("store");
    let mut daemon = Daemon::start(&store);
    with_note(&mut daemon, "s");
    daemon.end();
    set_modes(&store, 0o555, 0o444);
    let spec = format!("jsonl:{}", store.display());

    // It says so once, and goes on.
    let log = tempfile::NamedTempFile::new().unwrap();
    command.args(["serve", "--store", &spec]);
    let mut daemon = Daemon::run_with(command, log.reopen().unwrap().into());
    let row = &rows(&mut daemon)["s"];
    assert_eq!(row["status"], "ok", "{row}");
    assert_eq!(daemon.ok("session/inspect", json!({"sessionId": "s"}))["nextSeq"], 1);
    let before = tree(&store);
    for (method, params) in [
        ("session/load", json!({"sessionId": "s"})),
        ("session/delete", json!({"sessionId": "s"})),
        (
            "session/new",
            json!({"sessionId": "t", "seed": [], "meta": {"parentSession": "p", "seedLength": 0}}),
        ),
    ] {
        let (code, data) = daemon.err(method, params);
        assert_eq!((code.as_str(), &data["errno"]), ("STORAGE_FAILED", &json!("EACCES")), "{method}");
    }
    daemon.ok("session/new", json!({"sessionId": "u"}));
    let (code, data) = daemon.err("session/append", append("u", &note(0)));
    assert_eq!((code.as_str(), &data["errno"]), ("STORAGE_FAILED", &json!("EACCES")));
    daemon.ok("session/close", json!({"sessionId": "u"}));
    daemon.end();
    assert_eq!(tree(&store), before);
    let told = std::fs::read_to_string(log.path()).unwrap();
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("read-only")).collect();
    assert!(lines.len() == 1 && lines[0].contains(store.to_str().unwrap()), "{told}");

    for (place, mode) in [("store", 0o000), ("store", 0o444), ("store/below/it", 0o555)] {
        set_mode(&store, mode);
        let place = outside.path().join(place);
        let mut command = unprivileged().unwrap();
        let (code, told) = start(command.args(["--store", &format!("jsonl:{}", place.display())]));
        assert_eq!(code, Some(3), "{place:?} {mode:o}: {told}");
        assert!(told.contains(place.to_str().unwrap()) && told.contains("ermission denied"), "{told}");
    }
    set_modes(&store, 0o755, 0o644);
}

#[test]
fn a_store_that_is_not_there_or_no_directory_is_told_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let commands: [&[&str]; 5] = [
        &["verify"],
        &["verify", "--json"],
        &["verify", "s"],
        &["repair", "s"],
        &["repair", "s", "--dry-run"],
    ];
    for (place, why) in
        [("missing", "is not there"), ("file", "is not a directory"), ("file/below", "is not there")]
    {
        let path = dir.path().join(place);
        let store = format!("jsonl:{}", path.display());
        for command in commands {
            for (args, variable) in [(vec!["--store", &store], ""), (vec![], store.as_str())] {
                let mut run = sessiond();
                run.args(command).args(args).env("SESSIOND_STORE", variable);
                let output = run.output().unwrap();
                let told = String::from_utf8(output.stderr).unwrap();
                assert_eq!(output.status.code(), Some(3), "{command:?} {place}: {told}");
                assert!(told.contains(why) && told.contains(path.to_str().unwrap()), "{command:?}: {told}");
                assert!(output.stdout.is_empty(), "nothing was looked at");
            }
        }
        let mut run = sessiond();
        run.arg("verify").arg(path.join("x")).args(["--store", &store]);
        let output = run.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(3) && told.contains(path.to_str().unwrap()), "{told}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was made");
    }
    // One that is there and holds nothing is a store.
    let empty = tempfile::tempdir().unwrap();
    let store = format!("jsonl:{}", empty.path().display());
    let output = sessiond().args(["verify", "--store", &store]).output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"0 sessions"), "{output:?}");
}
