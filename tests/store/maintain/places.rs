//! What `verify` and `repair` say of the places around a log: directories without one, names that are paths too, and what
//! may not be read. What is told is true of what lies there, and the exit code says it too.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::maintain_support::{Store, header, parse, rows, run, sessiond};

fn sound(id: &str) -> String {
    header(id) + &rows(3).concat()
}

/// Of a directory without a log a person is told that it may be removed if all in it is sessiond's own and holds no
/// events; whatever else lies there is named, for it may be all that is left of the session.
#[test]
fn a_directory_without_a_log_may_be_removed_only_if_nothing_in_it_may_be_a_session() {
    let cases: [(&str, &[&str], &str); 12] = [
        ("--w--/bare", &[], "may be removed"),
        ("--w--/owner", &["session.owner"], "may be removed"),
        (
            "--w--/ours",
            &[
                "session.owner",
                "session.summary.json",
                "session.jsonl.0123456789ab.tmp",
                "session.summary.json.0123456789ab.tmp",
            ],
            "may be removed",
        ),
        ("--w--/renamed", &["session.v1.jsonl.zst"], "may be a log under another name"),
        ("--w--/old", &["session.owner", "session.jsonl.old"], "may be a log under another name"),
        ("--w--/typed", &["Session.JSONL"], "may be a log under another name"),
        ("--w--/cut", &["session.jsonl.cut-99"], "may be the last copy"),
        ("--w--/backup", &["session.jsonl.zstd.backup-1"], "may be the last copy"),
        ("--w--/tmp", &["session.notes.tmp"], "none of sessiond's"),
        ("--w--/notes", &["notes"], "none of sessiond's"),
        ("photos/2024", &[], "none of a session"),
        ("--w--/no id", &[], "none of a session"),
    ];
    let store = Store::with(sound("s").as_bytes());
    for (dir, files, _) in cases {
        fs::create_dir_all(store.dir.path().join(dir)).unwrap();
        files.iter().for_each(|file| store.put(&format!("{dir}/{file}"), b"x"));
    }
    fs::create_dir_all(store.dir.path().join("--w--/deep/below")).unwrap();
    let (code, told, summary) = store.verify();
    assert_eq!((code, &summary["empty"], &summary["sessions"]), (0, &json!(13), &json!(1)));
    for (dir, files, says) in cases.into_iter().chain([("--w--/deep", &["below"][..], "none of sessiond's")])
    {
        let report = told.iter().find(|report| report["path"] == dir).unwrap();
        let notes = report["notes"].to_string();
        assert_eq!(report["status"], "empty", "{report}");
        assert!(notes.contains(says), "{dir}: {notes}");
        if says != "may be removed" {
            assert!(!notes.contains("remove"), "{dir}: no advice to remove: {notes}");
            let named = files.iter().filter(|file| **file != "session.owner");
            named.for_each(|file| assert!(notes.contains(file), "{dir}: {notes}"));
        }
    }
}

/// A session that is its own ancestor loads, and is told with the ids of those between (PROTOCOL 9.11).
#[test]
fn parents_that_lead_back_are_named() {
    let child = |id: &str, parent: &str| {
        let parent = format!("\"id\":\"{id}\",\"parentSession\":\"{parent}\",\"seedLength\":0");
        sound(id).replacen(&format!("\"id\":\"{id}\""), &parent, 1)
    };
    let store = Store::with(sound("s").as_bytes());
    let many: Vec<String> = (0..12).map(|n| format!("n{n}")).collect();
    let parents = [("self", "self"), ("a", "b"), ("b", "a"), ("into", "a"), ("of-s", "s"), ("lost", "gone")];
    let ring = many.iter().zip(many.iter().cycle().skip(1)).map(|(id, parent)| (&**id, &**parent));
    for (id, parent) in parents.into_iter().chain(ring) {
        store.put(&format!("--w--/{id}/session.jsonl"), child(id, parent).as_bytes());
    }
    let (code, told, summary) = store.verify();
    assert_eq!((code, &summary["ok"]), (1, &json!(19)), "{told:?}");
    let told_of = |told: &[Value], id: &str| {
        let report = told.iter().find(|report| report["session"] == id).unwrap();
        report["problems"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["message"].as_str().unwrap().to_owned())
            .collect()
    };
    let of = |id: &str| -> Vec<String> { told_of(&told, id) };
    assert_eq!(of("self"), ["the session names itself, \"self\", as its parent"]);
    assert_eq!(of("a"), ["the session is its own ancestor: \"a\" descends from \"b\", and that from \"a\""]);
    assert_eq!(of("b"), ["the session is its own ancestor: \"b\" descends from \"a\", and that from \"b\""]);
    let ring = "\"n11\" descends from \"n0\", \"n1\", \"n2\", \"n3\", \"n4\", \"n5\", \"n6\", \"n7\" and 3 more, and that from \"n11\"";
    assert_eq!(of("n11"), [format!("the session is its own ancestor: {ring}")]);
    for id in ["into", "of-s", "lost", "s"] {
        assert_eq!(of(id), [] as [String; 0], "{id}");
    }
    // One by itself, by its id or as a file.
    for (which, problems) in [("a", 1), ("s", 0)] {
        let output = run(&["verify", "--json", which, "--store", &store.spec()]);
        let (code, told, _) = parse(&output);
        let found: Vec<String> = told_of(&told, which);
        assert_eq!((code, found.len()), (problems, problems as usize));
    }
    let log = store.dir.path().join("--w--/self/session.jsonl");
    let (code, told, _) = parse(&run(&["verify", "--json", log.to_str().unwrap()]));
    assert_eq!((code, told_of(&told, "self")), (1, of("self")));
    // For a person, too; and the session loads.
    let text = String::from_utf8(run(&["verify", "--store", &store.spec()]).stdout).unwrap();
    assert!(text.contains("ok: a (--w--/a/session.jsonl)\n  the session is its own ancestor"), "{text}");
    assert!(text.contains("[LINEAGE_LOOP]"), "{text}");
}

/// Where a name is that of a session and of a path here, it is said which of both was read.
#[test]
fn an_id_of_a_store_that_is_named_goes_before_a_path_of_that_name() {
    let store = Store::with((header("s") + "{\"torn").as_bytes());
    let here = tempfile::tempdir().unwrap();
    for name in ["s", "t"] {
        fs::create_dir_all(here.path().join(name)).unwrap();
        fs::write(here.path().join(name).join("session.jsonl"), sound(name)).unwrap();
    }
    let ran = |args: &[&str]| {
        let mut command = sessiond(args);
        command.current_dir(here.path()).env("XDG_STATE_HOME", here.path().join("state"));
        let output = command.output().unwrap();
        let first = output.stdout.split(|byte| *byte == b'\n').next().unwrap();
        let status = serde_json::from_slice::<Value>(first).unwrap()["status"].clone();
        (output.status.code().unwrap(), status, String::from_utf8(output.stderr).unwrap())
    };
    let spec = store.spec();
    let (ok, torn) = (json!("ok"), json!("repairable"));
    let cases: [(&str, &[&str], &Value, &[&str]); 5] = [
        ("s", &["--store", &spec], &torn, &["./s", "also a path"]),
        ("./s", &["--store", &spec], &ok, &[]),
        ("s/session.jsonl", &["--store", &spec], &ok, &[]),
        ("t", &["--store", &spec], &ok, &["no session", "path"]),
        ("s", &[], &ok, &[]),
    ];
    for (name, flags, status, says) in cases {
        let (code, found, told) = ran(&[&["verify", "--json", name], flags].concat());
        assert_eq!((code, &found), (0, status), "{name} {flags:?}: {told}");
        assert_eq!(told.is_empty(), says.is_empty(), "{name} {flags:?}: {told}");
        says.iter().for_each(|says| assert!(told.contains(says), "{name} {flags:?}: {told}"));
    }
    // The store of the environment is not named on the command line: a path goes before its ids, and that is said.
    let mut command = sessiond(&["verify", "--json", "s"]);
    let output = command.current_dir(here.path()).env("SESSIOND_STORE", &spec).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.starts_with(b"{\"session\":\"s\"") && told.contains("--store"), "{told}");

    // `repair` takes ids only, whatever lies here.
    let mut command = sessiond(&["repair", "s", "--store", &spec]);
    assert!(command.current_dir(here.path()).output().unwrap().status.success());
    assert_eq!(store.log(), header("s"));
    let mut command = sessiond(&["repair", "./s", "--store", &spec]);
    let output = command.current_dir(here.path()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && told.contains("takes an id, not a path"), "{told}");
}

/// Root may read everything: a command as nobody, if that user can run it.
fn unprivileged(args: &[&str]) -> Option<Command> {
    const NOBODY: u32 = 65_534;
    if !rustix::process::getuid().is_root() {
        return Some(sessiond(args));
    }
    let runs = sessiond(&["--version"]).uid(NOBODY).output().is_ok_and(|ran| ran.status.success());
    if !runs {
        eprintln!("no other user may run sessiond: a log that may not be read is not tested");
    }
    let mut command = sessiond(args);
    command.uid(NOBODY).current_dir("/");
    runs.then_some(command)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What cannot be read is told as that, and not as damage; where it is all that was asked for, the exit code is 3.
#[test]
fn a_log_that_may_not_be_read_is_unreadable_and_not_corrupt() {
    let store = Store::with(sound("s").as_bytes());
    store.put("--w--/t/session.jsonl", sound("t").as_bytes());
    let root = store.dir.path().to_owned();
    let (log, dir) = (root.join("--w--/s/session.jsonl"), root.join("--w--/s"));
    let Some(_) = unprivileged(&[]) else { return };
    for path in [&root, &root.join("--w--"), &dir, &root.join("--w--/t")] {
        set_mode(path, 0o755);
    }
    let spec = store.spec();
    let ran = |args: &[&str]| -> Output {
        unprivileged(&[args, &["--store", &spec]].concat()).unwrap().output().unwrap()
    };
    set_mode(&root.join("--w--/t/session.jsonl"), 0o644);
    // The log; its directory, of which neither the names nor what they stand for are given; its names only.
    for (file, mode) in [(&log, 0o000), (&dir, 0o000), (&dir, 0o444)] {
        let before = fs::metadata(file).unwrap().permissions().mode();
        set_mode(file, mode);
        let (code, told, summary) = parse(&ran(&["verify", "--json"]));
        assert_eq!((code, &summary["unreadable"], &summary["ok"]), (1, &json!(1), &json!(1)), "{told:?}");
        let report = told.iter().find(|report| report["session"] == "s").unwrap();
        assert_eq!(
            (&report["status"], &report["path"]),
            (&json!("unreadable"), &json!("--w--/s/session.jsonl"))
        );
        let problems = report["problems"].as_array().unwrap();
        assert!(problems.len() == 1 && problems[0]["message"].as_str().unwrap().contains("ermission denied"));
        let (code, told, _) = parse(&ran(&["verify", "s", "--json"]));
        assert_eq!((code, told.len()), (3, 1), "{told:?}");
        let (code, told, _) = parse(&ran(&["verify", "t", "--json"]));
        assert_eq!((code, &told[0]["status"]), (0, &json!("ok")));
        for args in [&["repair", "s"][..], &["repair", "s", "--dry-run"]] {
            let output = ran(args);
            let says = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{args:?}: {says}");
            assert!(says.contains("ermission denied"), "{says}");
        }
        set_mode(file, before);
    }
    // A directory that gives its log and not its names: whether there is one is known, and nothing else.
    set_mode(&log, 0o644);
    set_mode(&dir, 0o111);
    let (code, told, _) = parse(&ran(&["verify", "s", "--json"]));
    assert_eq!((code, &told[0]["status"]), (0, &json!("ok")), "{told:?}");
    set_mode(&dir, 0o700);
    fs::remove_file(&log).unwrap();
    set_mode(&dir, 0o111);
    let (code, told, summary) = parse(&ran(&["verify", "--json"]));
    assert_eq!((code, &summary["skipped"], &summary["empty"]), (1, &json!(1), &json!(0)), "{told:?}");
    assert!(!json!(told).to_string().contains("removed"), "{told:?}");
    // All that there is in the store.
    set_mode(&dir, 0o700);
    fs::remove_dir_all(&dir).unwrap();
    set_mode(&root.join("--w--/t/session.jsonl"), 0o000);
    assert_eq!(parse(&ran(&["verify", "--json"])).0, 3);
    set_mode(&root.join("--w--"), 0o000);
    assert_eq!(parse(&ran(&["verify", "--json"])).0, 3);
    assert_eq!(parse(&ran(&["verify", "t", "--json"])).0, 3);
    set_mode(&root.join("--w--"), 0o700);
}

/// A repair says what was there and what it adds, so that the sum is what is stored then.
#[test]
fn a_repair_tells_events_that_were_kept_from_those_that_it_adds() {
    for (log, kept, added, stored) in [
        (header("s") + &rows(7).concat(), "7 events", "1 event", "8 events"),
        (header("s") + &rows(101).concat() + "{\"torn", "101 events", "1 event", "102 events"),
        (
            header("s") + &rows(8).concat().replace("\"turn/start\",\"seq\":6", "\"turn/start\",\"seq\":9"),
            "6 events",
            "",
            "6 events",
        ),
        (
            header("s") + &rows(9).concat().replace("\"seq\":8", "\"seq\":9"),
            "8 events",
            "1 event",
            "9 events",
        ),
    ] {
        let store = Store::with(log.as_bytes());
        for (dry, kept_is, added_is, stored_is) in [
            (&["--dry-run"][..], "would be kept", "would be added", "would be stored"),
            (&[], "kept", "added", "stored"),
        ] {
            let (code, text) = store.repair(dry);
            let mut lines = text.lines();
            assert_eq!(code, 0, "{text}");
            assert!(lines.any(|line| line.starts_with(&format!("{kept} {kept_is}"))), "{text}");
            if added.is_empty() {
                assert!(!text.contains("added"), "{text}");
            } else {
                let adds = format!("{added} {added_is}");
                assert!(text.contains(&adds) && text.contains(&format!("{stored} {stored_is}")), "{text}");
            }
        }
        let count = stored.split(' ').next().unwrap().parse::<usize>().unwrap();
        assert_eq!(store.log().lines().count(), count + 1);
        let again = run(&["verify", "--json", "--store", &store.spec()]);
        assert_eq!(parse(&again).1[0]["events"], count);
    }
}
