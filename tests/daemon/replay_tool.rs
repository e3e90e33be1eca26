//! Does `replay` see every way in which a daemon can leave its transcript, and nothing else?
//!
//! The daemon is a double: this test binary, started again with `FAKE_ARGS` set. The test harness writes to stdout
//! before a test runs, so a shell puts the pipe on descriptor 3 for the double.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use sessiond::cli::{ReplayArgs, main_replay};
use sessiond::disk::fs::fault::{Op, parse_plan};
use sessiond::replay::{FAULT_ERRNOS, FAULT_OPS, Recorder, Recording, ReplayError, Summary, run};

use crate::replay_support::{Case, be_the_double, fake, request, result};

// ---- the double ----

#[test]
fn fake_daemon() {
    let Ok(args) = std::env::var("FAKE_ARGS") else { return };
    be_the_double(&args);
}

// ---- matching ----

#[test]
fn equal_answers_match() {
    let text = format!(
        "# Title\n\n# Two lines at once, then one without an answer.\n> {}\n> {}\n< {}\n# between\n< {}\n\n> {}\n\n> {}\n< {}\n! eof\n",
        request(1, "echo", r#"{"a":"ü"}"#),
        request(2, "count", "{}"),
        result(1, r#"{"a":"ü"}"#),
        result(2, "1"),
        r#"{"method":"x"}"#,
        request(3, "count", "{}"),
        result(3, "2"),
    );
    Case::new().matches(&text);
}

#[test]
fn sentinels_never_fix_the_dialect() {
    // Nothing before the first `initialize` that is accepted may be a request, so the runner must not add one.
    let error = r#"{"error":{"code":-32700},"id":null}"#;
    let text = format!(
        "# Title\n> garbage\n< {error}\n\n>b\n\n> {}\n< {}\n\n> more\n> garbage\n< {error}\n< {error}\n\n> {}\n< {}\n\n> {}\n< {}\n",
        request(1, "initialize", "{}"),
        r#"{"error":-32602,"id":1}"#,
        request(2, "initialize", r#"{"protocolVersion":1}"#),
        result(2, r#""acp""#),
        request(3, "dialect", "{}"),
        result(3, r#""acp""#),
    );
    Case::new().matches(&text);
}

#[test]
fn bytes_that_are_not_text_go_both_ways_as_base64() {
    let case = Case::new();
    let text = format!(
        "# Title\n>b /w==\n< {}\n\n> {}\n<b /wEg\n<b\n< {}\n",
        r#"{"error":{"code":-32700},"id":null}"#,
        request(1, "raw", "{}"),
        result(1, "{}"),
    );
    case.matches(&text);
    case.differs(
        &text.replace("<b /wEg", "<b /wE="),
        &["t.txt:5: ", "- \\xff\\u{1}\n", "+ \\xff\\u{1} \n", "byte 2"],
    );
}

#[test]
fn a_line_without_its_newline_is_answered_at_the_end() {
    let case = Case::new();
    case.matches("# Title\n>- {\"half\n! eof\n< {\"unended\":\"{\\\"half\"}\n");
    case.matches(&format!(
        "# Title\n> {}\n< {}\n>- tail\n! kill -9\n",
        request(1, "echo", "{}"),
        result(1, "{}")
    ));
}

// ---- differing ----

#[test]
fn a_difference_names_file_line_and_place() {
    let text = format!("# Title\n\n> {}\n< {}\n", request(1, "count", "{}"), result(1, "2"));
    let (report, failed) = Case::new().report(&text);
    assert!(failed);
    assert_eq!(
        report,
        concat!(
            "t.txt:3: 1 of 1 line differs\n",
            "       3 > {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"count\",\"params\":{}}\n",
            "       4 - {\"id\":1,\"result\":2}\n",
            "         + {\"id\":1,\"result\":1}\n",
            "           byte 17, in /result: expected `2}`, got `1}`\n",
        )
    );
}

#[test]
fn extra_and_missing_lines_are_told_and_what_follows_is_still_compared() {
    let note = r#"{"method":"note","params":{}}"#;
    let text = format!(
        "# Title\n> {}\n< {note}\n< {}\n\n> {}\n< {}\n< {}\n\n> {}\n< {}\n",
        request(1, "notify", "{}"),
        result(1, "{}"),
        request(2, "echo", "{}"),
        result(2, "{}"),
        result(3, "{}"),
        request(3, "count", "{}"),
        result(3, "1"),
    );
    let (report, _) = Case::new().report(&text);
    assert!(report.contains("t.txt:2: expected 2 lines, got 3 lines\n"), "{report}");
    assert!(report.contains(&format!("         + {note}\n")), "{report}");
    assert!(report.contains("t.txt:6: expected 2 lines, got 1 line\n"), "{report}");
    assert!(report.contains("       8 - {\"id\":3,\"result\":{}}\n"), "{report}");
    assert!(!report.contains("t.txt:10"), "{report}");
}

#[test]
fn lines_that_differ_are_not_missing() {
    let case = Case::new();
    let two = |first: &str, second: &str| {
        let (one, other) = (request(1, "echo", "{}"), request(2, "echo", r#"{"a":1}"#));
        format!("# Title\n> {one}\n> {other}\n< {first}\n< {second}\n")
    };
    let (one, other) = (result(1, "{}"), result(2, r#"{"a":1}"#));
    case.matches(&two(&one, &other));
    case.differs(&two(&one, &result(2, "{}")), &["t.txt:2: 1 of 2 lines differs\n"]);
    case.differs(&two("x", "y"), &["t.txt:2: 2 of 2 lines differ\n"]);
    case.differs(&two(&other, &one), &["t.txt:2: the 2 lines came in another order\n"]);
}

#[test]
fn what_is_awaited_is_awaited_whatever_the_clock() {
    let mut case = Case::new();
    // The double says these behind the answer to whatever it is asked next.
    let text = format!(
        "# Title\n# args: --clock system\n> {}\n< {}\n\n> {}\n< {}\n\n> {}\n< {}\n< {}\n\n> {}\n< {}\n",
        request(1, "later", "{}"),
        result(1, r#""late""#),
        request(2, "count", "{}"),
        result(2, "1"),
        request(3, "note_later", "{}"),
        result(3, "{}"),
        r#"{"method":"note"}"#,
        request(4, "count", "{}"),
        result(4, "2"),
    );
    case.matches(&text);
    // An answer is its request's, however late it comes; what follows a difference is compared by itself.
    case.options.timeout = Duration::from_millis(300);
    let text = format!(
        "# Title\n> {}\n< {}\n\n> {}\n< {}\n\n> {}\n< {}\n",
        request(1, "hold", "{}"),
        result(1, r#""held""#),
        request(2, "release", "{}"),
        result(2, "{}"),
        request(3, "count", "{}"),
        result(3, "1"),
    );
    case.matches(&text);
    let (report, failed) = case.report(&text.replace("held", "told"));
    assert!(failed && report.starts_with("t.txt:2: 1 of 1 line differs\n"), "{report}");
    assert!(!report.contains("t.txt:5") && !report.contains("t.txt:8"), "{report}");
    let (report, failed) = case.report(&text.replace("release", "count"));
    assert!(failed && report.starts_with("t.txt:2: expected 1 line, got no line\n"), "{report}");
    assert!(report.contains("t.txt:5: 1 of 1 line differs\n"), "{report}");
}

#[test]
fn lines_after_the_end_are_told() {
    let text = "# Title\n# args: --says-bye\n";
    let mut case = Case::new();
    case.differs(text, &["t.txt:2: 1 line came after the end, when stdin was closed\n         + \"bye\"\n"]);
    let updated = case.updated(text);
    assert_eq!(updated, format!("{text}! eof\n< \"bye\"\n"));
    case.matches(&updated);
}

#[test]
fn a_daemon_that_ends_badly_is_told() {
    let case = Case::new();
    let status = "the daemon left with exit status: 1 after its stdin was closed; 0 was expected";
    case.differs("# Title\n# args: --exit-badly\n! eof\n", &[&format!("t.txt:3: {status}")]);
    case.differs("# Title\n# args: --exit-badly\n", &[&format!("t.txt:2: {status}")]);
    let text = format!(
        "# Title\n> {}\n< {}\n> {}\n",
        request(1, "die", "{}"),
        result(1, "0"),
        request(2, "echo", "{}")
    );
    case.differs(
        &text,
        &[
            "t.txt:2: expected 1 line, got no line",
            "ended by itself (exit status: 7)",
            "stderr: the double gives up",
        ],
    );
    let text = format!("# Title\n> {}\n", request(1, "torn", "{}"));
    case.differs(&text, &["t.txt:2: the daemon's last line has no newline: `half a li`"]);
}

#[test]
fn a_daemon_that_hangs_is_killed_after_the_timeout() {
    let mut case = Case::new();
    case.options.timeout = Duration::from_millis(300);
    let started = Instant::now();
    // More than a pipe holds, so that writing would block, too.
    let params = format!(r#"{{"a":"{}"}}"#, "x".repeat(1 << 20));
    case.options.command = Some(vec!["sh".into(), "-c".into(), "sleep 100; true".into()]);
    let text = format!("# Title\n> {}\n< {}\n", request(1, "echo", &params), result(1, &params));
    case.differs(&text, &["t.txt:2: no answer for 300ms"]);
    case.differs("# Title\n! eof\n", &["t.txt:2: the daemon still ran 300ms after its stdin was closed"]);
    case.options.command = Some(fake());
    case.differs(
        &format!("# Title\n# args: --hangs\n> {}\n", request(1, "echo", "{}")),
        &["t.txt:3: no answer for"],
    );
    assert!(started.elapsed() < Duration::from_secs(8));
}

#[test]
fn what_ends_a_run_is_an_error_and_what_is_wrong_with_a_file_is_counted() {
    let mut case = Case::new();
    case.differs("# Title\n> {}\r\n", &["t.txt: line 2: control characters"]);
    case.differs(
        "# Title\n# args: --store jsonl:$STORE\n! copy none\n",
        &["t.txt: line 3: cannot copy the fixture none"],
    );
    let files = [case.directory.path().join("missing.txt"), case.file("# Title\n")];
    let mut out = Vec::new();
    let summary = run(&files, &case.options, &mut out).unwrap();
    assert_eq!(summary, Summary { files: 2, failed: 1, updated: 0 });
    assert!(String::from_utf8(out).unwrap().contains("missing.txt: cannot read the transcript"));

    case.options.command = Some(vec!["/nonexistent/daemon".into()]);
    let error = run(&files[1..], &case.options, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, ReplayError::Start { .. }), "{error}");
}

#[test]
fn a_daemon_that_floods_is_stopped() {
    let mut case = Case::new();
    let asked = format!("# Title\n> {}\n< {}\n", request(1, "echo", "{}"), result(1, "{}"));
    // Lines, a line that never ends, and what comes when stdin is closed.
    let floods = [
        ("yes", asked.as_str()),
        ("cat /dev/zero", asked.as_str()),
        ("while read line; do :; done; yes", "# Title\n! eof\n"),
    ];
    for (script, text) in floods {
        case.options.command = Some(vec!["sh".into(), "-c".into(), script.into()]);
        let (report, failed) = case.report(text);
        let told = "the daemon wrote more than 64 MiB; it was killed";
        assert!(failed && report.contains(told), "{report:.1000}");
        assert!(report.len() < 5000, "{} bytes are told", report.len());
    }
}

#[test]
fn a_transcript_is_a_file() {
    let case = Case::new();
    let pipe = case.directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for path in [pipe, case.directory.path().to_owned(), "/dev/zero".into()] {
        let mut out = Vec::new();
        let summary = run(&[path], &case.options, &mut out).unwrap();
        assert_eq!(summary.failed, 1);
        let report = String::from_utf8(out).unwrap();
        assert!(report.ends_with(": a transcript is a file; this is none\n"), "{report}");
    }
    let large = case.file("");
    fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    let mut out = Vec::new();
    assert_eq!(run(&[large], &case.options, &mut out).unwrap().failed, 1);
    assert!(String::from_utf8(out).unwrap().ends_with(": a transcript has at most 268435456 bytes\n"));
}

#[test]
fn a_transcript_names_nothing_of_the_users() {
    let case = Case::new();
    let own = case.directory.path().join("own");
    let own = own.display();
    for (line, part) in [
        (format!("# args: --store jsonl:{own}"), "a transcript uses no store but that of its run"),
        (
            format!("# args: --store=jsonl:$STORE/../../{own}"),
            "a transcript uses no store but that of its run",
        ),
        (format!("# args: --record {own}"), "a transcript names no files: leave `--record` out"),
        (format!("! copy {own}"), "takes a directory below the transcript's own"),
        ("! copy ../..".to_owned(), "\"../..\" leads out of that"),
        ("! copy ..".to_owned(), "\"..\" leads out of that"),
        ("! copy fixture/../../own".to_owned(), "\"fixture/../../own\" leads out of that"),
        ("! fault nosuch EIO".to_owned(), "no operation of storage is called \"nosuch\""),
        ("! fault write ENOSUCH".to_owned(), "no error is called \"ENOSUCH\""),
        ("! fault write EIO".to_owned(), "need a store directory"),
    ] {
        let (report, failed) = case.report(&format!("# Title\n{line}\n"));
        assert!(failed && report.starts_with("t.txt: line 2: ") && report.contains(part), "{report}");
    }
    assert!(!fs::exists(case.directory.path().join("own")).unwrap());
    // Nor by a link beside it.
    std::os::unix::fs::symlink("/", case.directory.path().join("root")).unwrap();
    let (report, failed) = case.report("# Title\n# args: --store jsonl:$STORE\n! copy root/etc\n");
    assert!(failed && report.contains("a link leads out of the transcript's directory"), "{report}");
}

#[test]
fn every_fault_that_may_be_written_is_one_that_the_daemon_knows() {
    let mut ops: Vec<&str> = Op::ALL.iter().map(|(_, name)| *name).chain(["any"]).collect();
    ops.sort_unstable();
    assert_eq!(ops, FAULT_OPS);
    for errno in FAULT_ERRNOS {
        assert!(parse_plan(&format!("any {errno}")).is_ok(), "{errno}");
    }
}

// ---- steps ----

#[test]
fn flags_are_added_to_the_defaults() {
    let case = Case::new();
    let flags = |args: &str, flags: &str| {
        let flags: Vec<&str> = flags.split(' ').chain([""]).collect();
        let flags = serde_json::to_string(&flags).unwrap();
        case.matches(&format!("# Title\n{args}> {}\n< {}\n", request(1, "flags", "{}"), result(1, &flags)));
    };
    flags("", "--store memory: --clock fixed:1700000000000+1000 --ids sequential");
    flags(
        "# args: --store jsonl:$STORE\n",
        "--clock fixed:1700000000000+1000 --ids sequential --store jsonl:$STORE",
    );
    flags(
        "# args: --ids=random --x y\n",
        "--store memory: --clock fixed:1700000000000+1000 --ids=random --x y",
    );
}

#[test]
fn the_store_outlives_restarts_and_its_path_is_hidden() {
    let case = Case::new();
    let fixture = case.directory.path().join("fixture");
    fs::create_dir_all(fixture.join("deep/er")).unwrap();
    fs::write(fixture.join("given"), "x").unwrap();
    fs::write(fixture.join("deep/er/file"), "x").unwrap();
    let text = format!(
        "# Title\n# args: --store jsonl:$STORE\n! copy fixture\n> {}\n< {}\n> {}\n< {}\n> {}\n< {}\n! kill -9\n! copy fixture/deep\n! restart\n> {}\n< {}\n> {}\n< {}\n! restart\n> {}\n< {}\n! eof\n! restart\n> {}\n< {}\n",
        request(1, "store", "{}"),
        result(1, r#"{"store":"$STORE","twice":"$STORE/a:$STORE"}"#),
        request(2, "write", r#"{"name":"new"}"#),
        result(2, "{}"),
        request(3, "count", "{}"),
        result(3, "1"),
        request(4, "list", "{}"),
        result(4, r#"["deep","er","given","new"]"#),
        request(5, "count", "{}"),
        result(5, "1"),
        request(6, "count", "{}"),
        result(6, "1"),
        request(7, "count", "{}"),
        result(7, "1"),
    );
    case.matches(&text);
}

#[test]
fn faults_reach_the_daemon_that_runs_and_not_the_next_one() {
    let write = |id| request(id, "write", r#"{"name":"a"}"#);
    let failed = |id| format!(r#"{{"error":-31023,"id":{id}}}"#);
    let text = format!(
        "# Title\n# args: --store jsonl:$STORE\n! fault write EIO\n> {}\n< {}\n> {}\n< {}\n! fault write ENOSPC\n> {}\n< {}\n! fault write EIO\n! restart\n> {}\n< {}\n",
        write(1),
        failed(1),
        write(2),
        result(2, "{}"),
        write(3),
        failed(3),
        write(4),
        result(4, "{}"),
    );
    Case::new().matches(&text);
}

// ---- updating ----

#[test]
fn update_rewrites_answers_and_nothing_else() {
    let mut case = Case::new();
    let note = r#"{"method":"note","params":{}}"#;
    let text = format!(
        "# Title\n\n> garbage\n\n# about the first\n> {}\n# what comes\n< old\n\n< {}\n# kept\n\n\n> {}\n> {}\n! kill -9\n! restart\n> {}\n< gone\n< gone too\n! eof\n",
        request(1, "notify", "{}"),
        result(1, "{}"),
        request(2, "count", "{}"),
        request(3, "raw", "{}"),
        r#"{"method":"silent"}"#,
    );
    let expected = format!(
        "# Title\n\n> garbage\n< {}\n\n# about the first\n> {}\n# what comes\n< {note}\n< {note}\n\n< {}\n# kept\n\n\n> {}\n> {}\n< {}\n<b /wEg\n<b\n< {}\n! kill -9\n! restart\n> {}\n! eof\n",
        r#"{"error":{"code":-32700},"id":null}"#,
        request(1, "notify", "{}"),
        result(1, "{}"),
        request(2, "count", "{}"),
        request(3, "raw", "{}"),
        result(2, "1"),
        result(3, "{}"),
        r#"{"method":"silent"}"#,
    );
    let updated = case.updated(&text);
    assert_eq!(updated, expected);
    case.matches(&updated);
    assert_eq!(case.updated(&updated), updated);
}

#[test]
fn a_daemon_that_dies_leaves_the_file_as_it_was() {
    let mut case = Case::new();
    case.options.update = true;
    let text = format!("# Title\n> {}\n> {}\n", request(1, "count", "{}"), request(2, "die", "{}"));
    case.differs(&text, &["t.txt: not updated"]);
    assert_eq!(fs::read_to_string(case.directory.path().join("t.txt")).unwrap(), text);
    let names = fs::read_dir(case.directory.path()).unwrap().count();
    assert_eq!(names, 1);
}

// ---- recording ----

#[test]
fn a_recording_replays_and_holds_no_secret() {
    let case = Case::new();
    let path = case.directory.path().join("recorded.txt");
    let args = ["--store".to_owned(), "memory:".to_owned(), "a b".to_owned()];
    let recording = Recording { title: "From a client", args: &args };
    let mut recorder = Recorder::create(&path, &recording).unwrap();
    let server = |value| {
        format!(
            r#"{{"mcpServers":[{{"args":["--token","{value}","--header=Authorization: {value}"],"env":[{{"name":"KEY","value":"{value}"}}]}},{{"url":"https://{value}@h/?api_key={value}&x=1","headers":[{{"name":"n","value":"{value}"}}]}}]}}"#
        )
    };
    recorder.received(request(1, "session/new", &server("s3cret")).as_bytes()).unwrap();
    recorder.sent(br#"{"error":-32601,"id":1}"#).unwrap();
    recorder.received(b"\xff").unwrap();
    recorder.received_oversized(5000).unwrap();
    for _ in 0..2 {
        recorder.sent(br#"{"error":{"code":-32700},"id":null}"#).unwrap();
    }
    recorder.received_unended(b"tail").unwrap();
    recorder.end_of_input().unwrap();
    recorder.sent(br#"{"unended":"tail"}"#).unwrap();
    recorder.finish().unwrap();

    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# From a client\n# args: --store memory: 'a b'\n\n> {"), "{text}");
    assert!(text.contains(&server("***")) && !text.contains("s3cret"), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    case.matches(&text);

    let error = Recorder::create(&path, &recording).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
}

#[test]
fn a_recording_needs_a_title_on_one_line() {
    let directory = tempfile::tempdir().unwrap();
    for title in ["", "two\nlines", "args: --x", " ends in space "] {
        let recording = Recording { title, args: &[] };
        assert!(Recorder::create(&directory.path().join("x"), &recording).is_err(), "{title:?}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

// ---- the command ----

#[test]
fn exit_codes_and_summaries() {
    let case = Case::new();
    let run = |files: Vec<PathBuf>, command: Vec<OsString>| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let args = ReplayArgs { files, update: false, timeout: 10, command };
        let code = main_replay(args, &mut out, &mut err);
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    };
    let good = case.file("# Title\n");
    let missing = case.directory.path().join("missing");
    let (code, out, err) = run(vec![good.clone()], fake());
    assert_eq!((code, out.as_str(), err.as_str()), (ExitCode::SUCCESS, "1 transcript, all match\n", ""));
    let (code, out, _) = run(vec![good.clone(), missing], fake());
    assert!(code == ExitCode::from(1) && out.ends_with("2 transcripts: 1 good, 1 failed\n"), "{out}");
    let (code, _, err) = run(vec![good], vec!["/nonexistent/daemon".into()]);
    assert!(
        code == ExitCode::from(3) && err.starts_with("sessiond replay: cannot start /nonexistent/daemon"),
        "{err}"
    );
}
