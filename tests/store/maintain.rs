//! `sessiond verify` tells what a load would say, and changes nothing; `sessiond repair` makes a session load, and
//! loses nothing.

mod places;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use sessiond::disk::read::zstd::FrameEncoder;

use crate::maintain_support::{Store, ask, ask_each, daemon, header, load, parse, rows, run, sessiond, tree};
use crate::support;

#[test]
fn a_byte_lost_in_the_middle_is_named_and_the_lines_before_it_are_kept() {
    let lines: Vec<String> = [vec![header("s")], rows(99)].concat();
    let mut log = lines.concat().into_bytes();
    let at: usize = lines[..69].iter().map(String::len).sum();
    log[at + 10] = 0;
    let store = Store::with(&log);

    let error = store.load().unwrap_err();
    assert_eq!((&error["data"]["code"], &error["data"]["line"]), (&json!("SESSION_CORRUPT"), &json!(70)));
    let (code, sessions, summary) = store.verify();
    assert_eq!((code, &sessions[0]["status"], &summary["corrupt"]), (1, &json!("corrupt"), &json!(1)));
    assert_eq!(sessions[0]["problems"][0]["line"], 70);
    assert_eq!(sessions[0]["problems"][0]["byte"], at);
    assert_eq!(sessions[0]["events"], 68);

    let before = tree(store.dir.path());
    let (code, text) = store.repair(&["--dry-run"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("68 events would be kept, lines 1 to 69"), "{text}");
    assert!(text.contains("lines 70 to 100 would be left out"), "{text}");
    assert_eq!(tree(store.dir.path()), before, "a dry run wrote");

    let (code, text) = store.repair(&[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("lines 70 to 100 left out") && text.contains("session.jsonl.backup-1"), "{text}");
    assert_eq!(store.read("session.jsonl.backup-1"), log);
    let mode = |name: &str| {
        fs::metadata(store.dir.path().join("--w--/s").join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("session.jsonl.backup-1"), mode("session.jsonl")), (0o600, 0o600));
    // Line 69 is a message: the turn that it stands in is closed.
    let repaired = store.log();
    let closers = repaired.strip_prefix(&lines[..69].concat()).unwrap();
    assert!(closers.contains("\"reason\":{\"kind\":\"interrupted\"}") && closers.lines().count() == 1);
    assert_eq!(store.names(), ["session.jsonl", "session.jsonl.backup-1"]);
    assert_eq!(store.load().unwrap().len(), 69);

    let (code, text) = store.repair(&[]);
    assert!(code == 0 && text.starts_with("nothing to do"), "{text}");
    let (code, sessions, _) = store.verify();
    assert_eq!((code, &sessions[0]["status"]), (0, &json!("ok")));
    assert!(sessions[0]["notes"][0].as_str().unwrap().contains("backup-1"));

    // Who deletes the session does not want to keep its backup.
    ask(store.dir.path(), "s", &["session/delete"]);
    assert!(!store.dir.path().join("--w--/s").exists());
}

#[test]
fn what_a_model_provider_would_refuse_is_a_note() {
    let message = r#"{"id":"a","role":"assistant","content":[{"type":"tool-call","id":"c","name":"t","arguments":""}],"source":{"kind":"model","provider":"p","model":"m"}}"#;
    let events = [
        r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#.to_owned(),
        r#"{"type":"step/start","seq":1,"time":1,"data":{"turn":1,"step":1}}"#.to_owned(),
        format!(
            r#"{{"type":"assistant/message","seq":2,"time":1,"data":{{"turn":1,"step":1,"message":{message}}},"surfaceOp":"append"}}"#
        ),
        r#"{"type":"step/end","seq":3,"time":1,"data":{"turn":1,"step":1}}"#.to_owned(),
        r#"{"type":"turn/end","seq":4,"time":1,"data":{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"user"}}}}"#.to_owned(),
    ];
    let store = Store::with((header("s") + &events.join("\n") + "\n").as_bytes());
    let (code, sessions, _) = store.verify();
    assert_eq!((code, &sessions[0]["status"]), (0, &json!("ok")), "it loads as it is: {}", sessions[0]);
    let note = sessions[0]["notes"][0].as_str().unwrap();
    assert!(note.starts_with("call \"c\" of event 2 has no result"), "{note}");
}

#[test]
fn what_a_load_mends_is_told_and_mended() {
    let lines: Vec<String> = [vec![header("s")], rows(7)].concat();
    let whole = lines.concat();
    let torn = lines[..6].concat() + &lines[6][..20];
    let nuls = [lines[..7].concat().as_bytes(), &[0; 64 << 10]].concat();
    let cases = [
        ("open turn", whole.as_bytes().to_vec(), whole.len(), 1),
        ("no line end", whole.as_bytes()[..whole.len() - 1].to_vec(), whole.len(), 1),
        ("torn", torn.clone().into_bytes(), lines[..6].concat().len(), 1),
        ("nuls", nuls, lines[..7].concat().len(), 0),
    ];
    for (name, log, kept, closers) in cases {
        let store = Store::with(&log);
        let (code, sessions, _) = store.verify();
        assert_eq!((code, &sessions[0]["status"]), (0, &json!("repairable")), "{name}: {}", sessions[0]);
        for problem in sessions[0]["problems"].as_array().unwrap() {
            assert_eq!(problem["class"], "LOG_TORN_TAIL", "{problem}");
        }
        let told = String::from_utf8(run(&["verify", "--store", &store.spec()]).stdout).unwrap();
        assert!(told.contains("first write"), "a load writes nothing: {told}");
        let (code, text) = store.repair(&["--dry-run"]);
        assert!(code == 0 && text.contains("would be"), "{name}: {text}");
        assert_eq!(store.read("session.jsonl"), log, "{name}");
        let (code, text) = store.repair(&[]);
        assert!(code == 0 && !text.contains("would"), "{name}: {text}");
        let repaired = store.log();
        assert!(repaired.starts_with(&whole[..kept]), "{name}");
        assert_eq!(repaired[kept..].lines().count(), closers, "{name}: {text}");
        // Nothing is lost.
        let cut = store.names().into_iter().find(|name| name.contains(".cut-"));
        assert_eq!(cut.is_some(), ["torn", "nuls"].contains(&name), "{name}");
        if let Some(cut) = cut {
            assert_eq!([&repaired.as_bytes()[..kept], &store.read(&cut)].concat(), log, "{name}");
            assert!(text.contains(&cut), "{name}: {text}");
        }
        assert_eq!(store.load().unwrap().len(), repaired.lines().count() - 1, "{name}");
        assert!(store.repair(&[]).1.starts_with("nothing to do"), "{name}");
    }
}

#[test]
fn damage_that_no_crash_explains_is_a_finding() {
    // A record without a seq at the end, and lost bytes in an open turn: both load, neither is a torn write.
    let mut lines: Vec<String> = [vec![header("s")], rows(4)].concat();
    lines.push("{\"type\":\"session/title\",\"time\":9,\"data\":{}}\n".to_owned());
    let store = Store::with(lines.concat().as_bytes());
    let (code, sessions, _) = store.verify();
    assert_eq!((code, &sessions[0]["status"]), (1, &json!("damaged")));
    assert_eq!(sessions[0]["problems"][0]["line"], 6);
    assert_eq!(sessions[0]["tornTail"]["bytes"], lines[5].len());
    let (code, _) = store.repair(&[]);
    assert_eq!(code, 0);
    assert_eq!(store.verify().0, 0);
    assert_eq!(store.load().unwrap().len(), 5);
}

#[test]
fn whole_events_that_a_load_cuts_off_are_counted_wherever_it_is_told() {
    let row = |seq: usize, kind: &str, data: &str, more: &str| {
        format!("{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":1000,\"data\":{data}{more}}}\n")
    };
    let mut lines = vec![header("s"), row(0, "turn/start", "{\"turn\":1}", "")];
    for seq in 1..100 {
        let content = "[{\"type\":\"text\",\"text\":\"words\"}]";
        let source = "{\"kind\":\"user\"}";
        let data =
            format!("{{\"id\":\"m{seq}\",\"role\":\"user\",\"content\":{content},\"source\":{source}}}");
        lines.push(row(seq, "user/message", &data, ",\"surfaceOp\":\"append\""));
    }
    // Garbage, lost bytes, a wrong seq (whole by itself), a lost line, and a packed row of three among those behind it.
    let (mut garbage, mut nuls, mut renumbered, mut lost) =
        (lines.clone(), lines.clone(), lines.clone(), lines.clone());
    garbage[50].replace_range(0..1, "#");
    nuls[50] = "\0".repeat(30) + "\n";
    renumbered[50] = renumbered[50].replace("\"seq\":49", "\"seq\":94");
    lost.remove(50);
    let mut packed = garbage.clone();
    packed[52] = "{\"type\":\"text-chunks\",\"seq0\":51,\"time0\":9,\"data\":{\"turn\":1,\"step\":1,\"index\":0,\"dt\":[0,0],\"texts\":[\"a\",\"b\",\"c\"]}}\n".to_owned();
    for (name, lines, events) in [
        ("garbage", garbage, 50),
        ("nuls", nuls, 50),
        ("renumbered", renumbered, 51),
        ("lost", lost, 50),
        ("packed", packed, 52),
    ] {
        let store = Store::with(lines.concat().as_bytes());
        let bytes = lines[50..].concat().len();
        let (code, sessions, _) = store.verify();
        assert_eq!((code, &sessions[0]["status"]), (1, &json!("damaged")), "{name}: {}", sessions[0]);
        assert_eq!(sessions[0]["tornTail"]["bytes"], bytes, "{name}");
        assert_eq!(sessions[0]["tornTail"]["events"], events, "{name}: {}", sessions[0]);
        assert!(!sessions[0]["problems"][0]["class"].as_str().unwrap().is_empty(), "{name}");
        let told = format!("{events} whole events");
        assert!(store.repair(&["--dry-run"]).1.contains(&told), "{name}");
        let (list, of) = (("session/list", json!({})), |method| (method, json!({ "sessionId": "s" })));
        let requests = [list.clone(), of("session/inspect"), of("session/load"), list, of("session/info")];
        let answers: Vec<_> = ask_each(store.dir.path(), &requests)
            .into_iter()
            .map(|answer| answer["result"].clone())
            .collect();
        let repaired = json!({ "closers": 1, "cutBytes": bytes, "cutEvents": events });
        for list in [&answers[0], &answers[3]] {
            assert_eq!(list["sessions"][0]["status"], "damaged", "{name}: {list}");
            assert!(list["sessions"][0]["reason"].as_str().unwrap().contains(&told), "{name}: {list}");
        }
        assert_eq!(answers[1]["tornTail"]["events"], events, "{name}");
        assert_eq!((&answers[2]["repaired"], &answers[4]["repaired"]), (&repaired, &repaired), "{name}");
        assert!(answers[4]["warnings"].to_string().contains(&told), "{name}: {}", answers[4]);
        assert_eq!(store.verify().1[0]["status"], "ok", "{name}: the end of the daemon has mended it");
    }
}

#[test]
fn a_refused_event_is_one_of_all_the_problems() {
    let mut lines: Vec<String> = [vec![header("s")], rows(9)].concat();
    lines[5] = lines[5].replace("\"role\":\"user\"", "\"role\":\"nobody\"");
    lines[7] = "garbage\n".to_owned();
    let store = Store::with(lines.concat().as_bytes());
    let (code, sessions, _) = store.verify();
    assert_eq!((code, &sessions[0]["status"]), (1, &json!("corrupt")));
    let named: Vec<u64> =
        sessions[0]["problems"].as_array().unwrap().iter().filter_map(|one| one["line"].as_u64()).collect();
    assert_eq!(named, [6, 8], "{}", sessions[0]);
    assert_eq!(store.repair(&[]).0, 0);
    assert_eq!(store.read("session.jsonl.backup-1"), lines.concat().as_bytes());
    assert_eq!(store.load().unwrap().len(), 5);
}

#[test]
fn damage_in_what_came_from_the_parent_lowers_its_count() {
    let header = header("s")
        .replace(",\"delegationDepth\"", ",\"parentSession\":\"p\",\"seedLength\":6,\"delegationDepth\"");
    let mut lines: Vec<String> = [vec![header], rows(9)].concat();
    lines[5] = "garbage\n".to_owned();
    let store = Store::with(lines.concat().as_bytes());
    assert_eq!(store.verify().0, 1);
    let (code, text) = store.repair(&[]);
    assert!(code == 0 && text.contains("lowered from 6 to 4"), "{text}");
    assert_eq!(store.load().unwrap().len(), 5);
    assert_eq!(store.read("session.jsonl.backup-1"), lines.concat().as_bytes());
}

#[test]
fn a_compressed_log_keeps_its_encoding() {
    let mut encoder = FrameEncoder::new(3).unwrap();
    let mut frames: Vec<Vec<u8>> = vec![encoder.encode(header("s").as_bytes()).unwrap()];
    frames.extend(rows(9).chunks(4).map(|part| encoder.encode(part.concat().as_bytes()).unwrap()));
    let at = frames[..3].concat().len() - 5;
    let mut log = frames.concat();
    log[at] ^= 0xFF; // within the last block of the second frame of rows
    let store = Store { dir: tempfile::tempdir().unwrap() };
    store.put("--w--/s/session.jsonl.zstd", &log);
    let (code, sessions, _) = store.verify();
    assert_eq!((code, &sessions[0]["status"]), (1, &json!("corrupt")), "{}", sessions[0]);
    let (code, text) = store.repair(&[]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(store.read("session.jsonl.zstd.backup-1"), log);
    assert!(store.read("session.jsonl.zstd").starts_with(&frames[..2].concat()));
    assert_eq!(store.load().unwrap().len(), 5);
    assert!(store.repair(&[]).1.starts_with("nothing to do"));
}

#[test]
fn what_is_not_repaired_says_why() {
    let good = header("s") + &rows(3).concat();
    let unknown = "{\"type\":\"x/y\",\"seq\":3,\"time\":1,\"data\":{}}\n";
    let cases = [
        ("unsupported", good.replace("\"version\":0", "\"version\":1"), "newer"),
        ("unsupported", good.clone() + unknown, "--event-type"),
        ("corrupt", String::new(), "no complete header"),
        ("corrupt", "\u{feff}".to_owned() + &good, "header"),
        ("corrupt", good.replace("\"id\":\"s\"", "\"id\":\"t\""), "move it"),
        ("corrupt", good.replace("\"/w\"", "\"/v\""), "belongs at"),
    ];
    for (status, log, why) in cases {
        let store = Store::with(log.as_bytes());
        let (code, sessions, _) = store.verify();
        assert_eq!((code, &sessions[0]["status"]), (1, &json!(status)), "{}", sessions[0]);
        if why == "--event-type" {
            let message = sessions[0]["problems"][0]["message"].as_str().unwrap();
            assert!(message.contains(why), "{message}");
        }
        let (code, text) = store.repair(&[]);
        assert!(code == 1 && text.contains(why), "{why}: {text}");
        assert_eq!(store.names(), ["session.jsonl"], "{why}");
        assert_eq!(store.read("session.jsonl"), log.as_bytes());
        assert!(store.load().is_err(), "{why}");
    }
    let store = Store::with((good + unknown).as_bytes());
    let (code, text) = store.repair(&["--event-type", "x/y"]);
    assert!(code == 0 && text.starts_with("nothing to do"), "{text}");

    let output = run(&["repair", "nobody", "--store", &store.spec()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(run(&["repair", "", "--store", &store.spec()]).status.code(), Some(2));
    assert_eq!(run(&["repair", "s", "--store", "memory:"]).status.code(), Some(2));
    assert_eq!(run(&["repair"]).status.code(), Some(2));
    assert_eq!(run(&["verify", "--store", "memory:"]).status.code(), Some(2));
    assert_eq!(run(&["verify", "/no/such/place"]).status.code(), Some(3));
}

/// A daemon may take larger or deeper events than another: so may these commands, with the same flags.
#[test]
fn the_limits_of_events_are_those_of_serve() {
    let large = |bytes: usize| {
        let text = "x".repeat(bytes);
        format!("{{\"type\":\"session/title\",\"seq\":0,\"time\":1,\"data\":{{\"title\":\"{text}\"}}}}\n")
    };
    let deep = format!(
        "{{\"type\":\"session/title\",\"seq\":0,\"time\":1,\"data\":{}{}}}\n",
        "[".repeat(20),
        "]".repeat(20)
    );
    let flags: [(String, &[&str], &[&str]); 3] = [
        (large(17 << 20), &[], &["--max-event-bytes", "33554432"]),
        (large(5_000), &["--max-event-bytes", "4096"], &[]),
        (deep, &["--max-depth", "8"], &["--max-depth", "30"]),
    ];
    for (row, low, high) in flags {
        // Torn, so that there is something to mend.
        let store = Store::with((header("s") + &row + "{\"torn").as_bytes());
        let spec = store.spec();
        let verify = |more: &[&str]| {
            let args = [&["verify", "--json", "--store", &spec], more].concat();
            let (code, sessions, _) = parse(&run(&args));
            (code, sessions[0]["status"].as_str().unwrap().to_owned())
        };
        assert_eq!(verify(low), (1, "limit".to_owned()), "{low:?}");
        let (code, told) = store.repair(low);
        assert!(code == 1 && told.contains("--max-event-bytes") && told.contains("--max-depth"), "{told}");
        assert_eq!(verify(high), (0, "repairable".to_owned()), "{high:?}");
        assert_eq!(store.repair(high).0, 0);
        assert_eq!(verify(high), (0, "ok".to_owned()));
        assert!(store.log().ends_with(&row));
    }
    for wrong in [["--max-event-bytes", "4095"], ["--max-event-bytes", "1073741825"], ["--max-depth", "7"]] {
        let output = run(&[&["verify"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_session_that_is_open_elsewhere_is_read_and_not_repaired() {
    let lines: Vec<String> = [vec![header("s")], rows(4)].concat();
    let store = Store::with(lines.concat().as_bytes());
    let mut child = daemon(store.dir.path());
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, r#"{{"jsonrpc":"2.0","id":1,"method":"session/load","params":{{"sessionId":"s"}}}}"#)
        .unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut String::new()).unwrap();
    let (code, sessions, _) = store.verify();
    assert_eq!((code, &sessions[0]["status"]), (0, &json!("repairable")));
    assert_eq!(sessions[0]["lockedBy"]["pid"], child.id());
    for flags in [&["--dry-run"][..], &[]] {
        let (code, text) = store.repair(flags);
        assert!(code == 1 && text.contains("SESSION_LOCKED"), "{text}");
        assert!(text.contains(&child.id().to_string()), "{text}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_store_is_told_whole_whatever_lies_in_it() {
    let good = |id: &str| header(id) + &rows(3).concat();
    let store = Store::with(good("s").as_bytes());
    store.put("--w--/empty/session.jsonl", b"");
    fs::create_dir_all(store.dir.path().join("--w--/bare")).unwrap();
    store.put("--w--/temp/session.jsonl.0123456789ab.tmp", b"x");
    store.put("--w--/flat.jsonl", good("flat").as_bytes());
    store.put("--w--/twice/session.jsonl", good("twice").as_bytes());
    store.put("--x--/twice/session.jsonl", good("twice").as_bytes());
    std::os::unix::fs::symlink(store.dir.path(), store.dir.path().join("link")).unwrap();
    let output = run(&["verify", "--json", "--store", &store.spec()]);
    let (code, lines, summary) = parse(&output);
    assert_eq!(code, 1);
    let told = |path: &str| lines.iter().find(|line| line["path"] == path).unwrap();
    for (path, status) in [
        ("--w--/s/session.jsonl", "ok"),
        ("--w--/empty/session.jsonl", "corrupt"),
        ("--w--/bare", "empty"),
        ("--w--/temp", "empty"),
        ("--w--/flat.jsonl", "corrupt"),
        ("--w--/twice/session.jsonl", "ok"),
        ("--x--/twice/session.jsonl", "corrupt"),
    ] {
        assert_eq!(told(path)["status"], status, "{}", told(path));
    }
    assert_eq!(told("--x--/twice/session.jsonl")["problems"][0]["class"], "LOG_PATH_MISMATCH");
    assert!(lines.iter().any(|line| line["skipped"] == "link"));
    assert_eq!(
        summary,
        json!({ "sessions": 5, "ok": 2, "repairable": 0, "damaged": 0, "corrupt": 3, "unsupported": 0, "superseded": 0,
            "limit": 0, "unreadable": 0, "empty": 2, "skipped": 1 })
    );
    let text = run(&["verify", "--store", &store.spec()]).stdout;
    let text = String::from_utf8(text).unwrap();
    let last = text.lines().last().unwrap();
    assert_eq!(last, "5 sessions: 2 ok, 3 corrupt; 2 directories without a log; 1 place not looked into");
    assert!(!text.contains("/s/session.jsonl"), "all is well with it: {text}");

    // One session by its id, with all that stands for it; a path that is there comes first.
    for (id, code, count) in [("s", 0, 1), ("twice", 1, 2), ("flat", 1, 1), ("empty", 1, 1)] {
        let (found, lines, _) = parse(&run(&["verify", id, "--json", "--store", &store.spec()]));
        assert_eq!((found, lines.len()), (code, count), "{id}: {lines:?}");
        assert!(lines.iter().all(|line| line["session"] == id), "{lines:?}");
    }
    let output = run(&["verify", "nobody", "--store", &store.spec()]);
    let says = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(3) && says.contains("no session of that id"), "{says}");

    // One directory, one project, one file; and a copy under any name.
    let root = store.dir.path();
    store.put("copy", good("s").as_bytes());
    for (path, code, count) in
        [("--w--/s", 0, 1), ("--w--", 1, 3), ("--w--/s/session.jsonl", 0, 1), ("copy", 0, 1)]
    {
        let output = run(&["verify", "--json", root.join(path).to_str().unwrap()]);
        let (found, lines, _) = parse(&output);
        assert_eq!((found, lines.len()), (code, count), "{path}: {lines:?}");
    }
    store.put("--w--/odd/notes", b"");
    std::os::unix::fs::symlink("nowhere", root.join("--w--/odd/session.jsonl")).unwrap();
    let output = run(&["verify", "--json", root.join("--w--/odd").to_str().unwrap()]);
    let (code, lines, _) = parse(&output);
    assert_eq!((code, &lines[0]["status"]), (3, &json!("unreadable")));
    fs::remove_dir_all(root.join("--w--/odd")).unwrap();
    let args = ["verify", "--json"];
    let (_, _, by_env) = parse(&sessiond(&args).env("SESSIOND_STORE", store.spec()).output().unwrap());
    assert_eq!(by_env, summary);
    // An empty variable is none: the user's own store, which is empty here.
    let mut unset = sessiond(&args);
    unset.env("SESSIOND_STORE", "").env("XDG_STATE_HOME", root.join("state"));
    let (code, lines, _) = parse(&unset.output().unwrap());
    assert_eq!((code, lines.len()), (0, 0), "{lines:?}");
    for command in [&["serve"][..], &["verify"], &["repair", "s"]] {
        let flag = run(&[command, &["--store", "nowhere:"]].concat());
        let variable = sessiond(command).env("SESSIOND_STORE", "nowhere:").output().unwrap();
        for output in [flag, variable] {
            let says = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.code() == Some(2) && says.contains("memory: or jsonl:DIR"), "{says}");
        }
    }
}

#[test]
fn a_store_that_may_not_be_written_is_verified() {
    let store = Store::with(&[header("s").as_bytes(), rows(4).concat().as_bytes(), b"{\"ty"].concat());
    let dir = store.dir.path().join("--w--/s");
    let set = |mode, file_mode| {
        fs::set_permissions(dir.join("session.jsonl"), fs::Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o500, 0o400);
    let (code, sessions, _) = store.verify();
    let (dry, text) = store.repair(&["--dry-run"]);
    set(0o700, 0o600);
    assert_eq!((code, &sessions[0]["status"]), (0, &json!("repairable")));
    assert!(dry == 0 && text.contains("4 bytes from byte"), "{text}");
}

#[test]
#[ignore = "needs ../shared/corpus"]
fn the_artifacts_are_judged_as_a_load_judges_them_and_repaired_where_that_is_possible() {
    let (mut judged, mut repaired) = (0, 0);
    for entry in fs::read_dir(support::needed("corpus/artifacts")).unwrap() {
        let dir = entry.unwrap().path();
        if !dir.join("root").is_dir() {
            continue;
        }
        let copy = tempfile::tempdir().unwrap();
        for (path, bytes) in tree(&dir.join("root")) {
            let to = copy.path().join(path.strip_prefix(dir.join("root")).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, bytes).unwrap();
        }
        let store = Store { dir: copy };
        let (_, sessions, _) = store.verify();
        for session in sessions.iter().filter(|session| session["status"] != "empty") {
            let id = session["session"].as_str().unwrap();
            if id.contains(['\u{fffd}', '\0']) {
                continue; // no id here, or none for a command line
            }
            judged += 1;
            let status = session["status"].as_str().unwrap();
            let spec = store.spec();
            let output = run(&["repair", "--dry-run", "--store", &spec, "--", id]);
            let possible = output.status.success();
            assert!(possible || !["ok", "repairable", "damaged"].contains(&status), "{session}: {output:?}");
            let output = run(&["repair", "--store", &spec, "--", id]);
            assert_eq!(output.status.success(), possible, "{session}: {output:?}");
            let loaded = load(store.dir.path(), id);
            assert_eq!(loaded.is_ok(), possible, "{session}: {loaded:?}");
            if possible && status != "ok" {
                repaired += 1;
                let events = session["events"].as_u64().unwrap();
                let closers = session["closers"].as_u64().unwrap_or(0);
                let most = usize::try_from(events + closers).unwrap();
                assert_eq!(loaded.unwrap().len(), most.min(1000), "{session}");
                let again = run(&["repair", "--store", &spec, "--", id]);
                assert!(again.stdout.starts_with(b"nothing to do"), "{again:?}");
            }
        }
    }
    assert!(judged > 60 && repaired > 8, "{judged} {repaired}");
}

/// A log of a later generation is told as what it is, and left alone; so is a log of version 0 beside one, and what lies
/// behind a link.
#[test]
fn later_generations_and_links_are_told_and_left_alone() {
    let store = Store::with(&[vec![header("s")], rows(3)].concat().concat().into_bytes());
    store.put("--w--/later/session.v3.jsonl", b"{\"type\":\"session\",\"version\":3,\"id\":\"later\"}\n");
    store.put("--w--/s/session.v2.jsonl.zstd", b"x");
    let before = tree(store.dir.path());
    let (code, sessions, summary) = store.verify();
    assert_eq!(
        (code, &summary["superseded"], &summary["unsupported"], &summary["empty"]),
        (1, &json!(1), &json!(1), &json!(0))
    );
    for session in &sessions {
        let (id, said) = (session["session"].as_str().unwrap(), session.to_string());
        let expected =
            if id == "s" { ("superseded", "generation 2") } else { ("unsupported", "generation 3") };
        assert_eq!(session["status"], expected.0);
        assert!(said.contains(expected.1) && !said.contains("may be removed"), "{said}");
    }
    let dir = store.dir.path().join("--w--/later");
    let (code, lines, _) = parse(&run(&["verify", dir.to_str().unwrap(), "--json"]));
    assert_eq!((code, &lines[0]["status"]), (1, &json!("unsupported")), "{lines:?}");
    for (id, named) in [("s", "session.v2.jsonl.zstd"), ("later", "session.v3.jsonl")] {
        for more in [&["repair", id, "--dry-run"][..], &["repair", id]] {
            let output = run(&[more, &["--store", &store.spec()]].concat());
            let says = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.code() == Some(1) && says.contains(named), "{says}");
        }
    }
    assert_eq!(tree(store.dir.path()), before);

    let away = tempfile::tempdir().unwrap();
    fs::rename(store.dir.path().join("--w--"), away.path().join("w")).unwrap();
    std::os::unix::fs::symlink(away.path().join("w"), store.dir.path().join("--w--")).unwrap();
    let (code, lines, _) = parse(&run(&["verify", "s", "--json", "--store", &store.spec()]));
    assert_eq!((code, &lines[0]["skipped"]), (3, &json!("--w--")), "{lines:?}");
    let answers = ask_each(
        store.dir.path(),
        &[
            ("session/load", json!({"sessionId": "s"})),
            ("session/new", json!({"sessionId": "s", "cwd": "/x"})),
            ("session/delete", json!({"sessionId": "s"})),
            ("session/list", json!({})),
        ],
    );
    for refused in &answers[..3] {
        let error = &refused["error"];
        assert_eq!(
            (&error["data"]["code"], &error["data"]["errno"]),
            (&json!("STORAGE_FAILED"), &json!("ELOOP"))
        );
    }
    assert!(answers[0]["error"]["message"].as_str().unwrap().contains("--w--"), "{}", answers[0]);
    let row = &answers[3]["result"]["sessions"][0];
    assert_eq!((&row["sessionId"], &row["status"]), (&json!("--w--"), &json!("corrupt")));
    assert!(row["reason"].as_str().unwrap().contains("is a link"), "{row}");
}
