//! What a client is told when the store cannot be used: a log that goes away while it is looked for, directories that may
//! no longer be read, and what helps against each kind of failure (PROTOCOL 5, `STORAGE_FAILED`).

use serde_json::{Value, json};
use sessiond::disk::fs::fault::{Effect, Op};

use crate::dur_support::bench::Bench;
use crate::dur_support::local::runtime;
use crate::dur_support::{append, note, said};

fn of(session: &str) -> Value {
    json!({"sessionId": session})
}

/// A session with one event, closed unless it is to stay live.
fn stored(bench: &mut Bench, session: &str, cwd: Option<&str>, live: bool) {
    let mut params = of(session);
    if let Some(cwd) = cwd {
        params["cwd"] = json!(cwd);
    }
    bench.local.ok("session/new", params);
    bench.local.ok("session/append", append(session, &note(0)));
    if !live {
        bench.local.ok("session/close", of(session));
    }
}

/// The refusal of a request as STORAGE_FAILED: its errno, whether something was committed, and its message.
fn refused(bench: &mut Bench, method: &str, params: Value) -> (String, bool, String) {
    let error = bench.local.call(method, params).expect_err(method);
    assert_eq!(error["data"]["code"], "STORAGE_FAILED", "{method}: {error}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let data = &error["data"];
    (text(&data["errno"]), data["committed"].as_bool().unwrap(), text(&error["message"]))
}

#[test]
fn a_log_that_goes_away_while_it_is_looked_for_is_not_found() {
    let runtime = runtime();
    for errno in ["ENOENT", "ENOTDIR"] {
        for method in ["session/load", "session/resume", "session/inspect"] {
            let mut bench = Bench::new(&runtime);
            stored(&mut bench, "s", None, false);
            bench.faults.fail(Some(Op::Open), 0, Effect::Errno(errno));
            let error = bench.local.call(method, of("s")).unwrap_err();
            assert_eq!(error["data"]["code"], "SESSION_NOT_FOUND", "{method} {errno}: {error}");
            bench.local.ok(method, of("s"));
        }
        // What is known of an id that was taken a moment ago: it is free.
        let mut bench = Bench::new(&runtime);
        stored(&mut bench, "s", None, false);
        let taken = bench.local.call("session/new", of("s")).unwrap_err();
        assert_eq!(taken["data"]["code"], "SESSION_ALREADY_EXISTS");
        bench.faults.fail(Some(Op::Open), 0, Effect::Errno(errno));
        bench.local.ok("session/new", of("s"));
        let taken = bench.local.call("session/append", append("s", &note(1))).unwrap_err();
        assert_eq!(taken["data"]["code"], "SESSION_ALREADY_EXISTS", "it is there all the same: {taken}");
        // What it says leads to the one that is stored.
        let says = taken["message"].as_str().unwrap();
        assert!(says.contains("close this one, then load that one"), "{says}");
        bench.local.ok("session/close", of("s"));
        let stored = bench.local.ok("session/load", of("s"));
        assert_eq!(stored["nextSeq"], 1, "{stored}");
    }
}

#[test]
fn every_failure_says_what_helps() {
    let helps = [
        ("EACCES", "read and write the store"),
        ("EPERM", "read and write the store"),
        ("EROFS", "--store"),
        ("EINVAL", "nothing was changed; try again"),
        ("EISDIR", "directory"),
        ("ENAMETOOLONG", "shorter"),
        ("EMFILE", "ulimit -n"),
        ("ENFILE", "limit of open files"),
        ("ENOSPC", "make room"),
        ("EDQUOT", "quota"),
        ("EFBIG", "ulimit -f"),
        ("EIO", "check the store's disk"),
        ("ENOLCK", "local disk"),
        ("ENODEV", "mount"),
        ("ESTALE", "mount"),
        ("ENOMEM", "close sessions"),
        ("EXDEV", "one file system"),
        ("ELOOP", "link"),
        ("ENOTDIR", "file that stands in the place"),
        ("EAGAIN", "nothing was changed; try again"),
        ("ETIMEDOUT", "nothing was changed; try again"),
    ];
    let runtime = runtime();
    let mut bench = Bench::new(&runtime);
    stored(&mut bench, "s", None, false);
    stored(&mut bench, "live", None, true);
    for (errno, phrase) in helps {
        // Where names that are no regular file's are looked for, some of these say that there is none.
        bench.faults.fail(Some(Op::ListDir), 0, Effect::Errno(errno));
        let (told, committed, message) = refused(&mut bench, "session/list", json!({}));
        assert_eq!((told.as_str(), committed), (errno, false));
        assert!(message.contains(phrase) && message.ends_with("try again"), "{errno}: {message}");
        // The same where events are kept: then it is to be asked for again.
        bench.faults.fail(Some(Op::Sync), 0, Effect::Errno(errno));
        let mut params = append("live", &note(errno));
        params["durable"] = json!(true);
        let (told, committed, message) = refused(&mut bench, "session/append", params);
        assert_eq!((told.as_str(), committed), (errno, true));
        assert!(
            message.contains("the events are kept") && message.ends_with("ask again"),
            "{errno}: {message}"
        );
        if let Some(phrase) = Some(phrase).filter(|phrase| !phrase.contains("nothing")) {
            assert!(message.contains(phrase), "{errno}: {message}");
        }
    }
    // The lock of a new log says its own errno, too.
    bench.local.ok("session/new", of("new"));
    bench.faults.fail(Some(Op::Lock), 0, Effect::Errno("ENOLCK"));
    let (errno, _, message) = refused(&mut bench, "session/append", append("new", &note(0)));
    assert_eq!(errno, "ENOLCK");
    assert!(message.contains("local disk"), "{message}");
}

/// The rows of a list.
fn listed(bench: &mut Bench) -> Vec<String> {
    let list = bench.local.ok("session/list", json!({"includeEmpty": true}));
    let id = |row: &Value| row["sessionId"].as_str().unwrap().to_owned();
    let mut ids: Vec<String> = list["sessions"].as_array().unwrap().iter().map(id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_directory_that_may_no_longer_be_read_stops_what_needs_it_and_nothing_else() {
    let runtime = runtime();
    for errno in ["EACCES", "EPERM", "EIO"] {
        for place in ["--w--", ""] {
            let context = format!("{errno} {place:?}");
            let mut bench = Bench::new(&runtime);
            stored(&mut bench, "s", Some("/w"), true);
            stored(&mut bench, "other", Some("/w"), false);
            stored(&mut bench, "free", None, false);
            bench.faults.deny(place, errno);
            let stopped = |bench: &mut Bench, method: &str, params: Value| {
                let told = refused(bench, method, params);
                assert_eq!((told.0.as_str(), told.1), (errno, false), "{context} {method}");
                let helps = if errno == "EIO" { "check" } else { "read and write" };
                assert!(told.2.contains(helps), "{context} {method}: {}", told.2);
                let searched = if place.is_empty() { "its root directory" } else { place };
                let searches = ["session/load", "session/inspect"].contains(&method);
                assert!(!searches || told.2.contains(searched), "{context} {method}: {}", told.2);
            };
            // Whoever is live goes on with the log that it has open.
            let mut durable = append("s", &note(1));
            durable["durable"] = json!(true);
            assert_eq!(bench.local.ok("session/append", durable)["seq"], 1, "{context}");
            assert_eq!(bench.local.ok("session/flush", of("s"))["durableSeq"], 1, "{context}");
            assert_eq!(bench.local.events("s").len(), 2);
            // What must find, make or remove something there is refused, and changes nothing.
            stopped(&mut bench, "session/load", of("other"));
            stopped(&mut bench, "session/inspect", of("other"));
            stopped(&mut bench, "session/new", json!({"sessionId": "new", "cwd": "/w", "seed": []}));
            stopped(&mut bench, "session/fork", json!({"sessionId": "s", "childSessionId": "child"}));
            stopped(&mut bench, "session/delete", of("s"));
            stopped(&mut bench, "session/delete", of("other"));
            stopped(&mut bench, "session/info", of("child")); // it may be stored
            assert_eq!(bench.local.ok("session/append", append("s", &note(2)))["seq"], 2, "{context}");
            // What lies elsewhere is there.
            if place.is_empty() {
                stopped(&mut bench, "session/list", json!({}));
                stopped(&mut bench, "session/load", of("free"));
            } else {
                assert_eq!(listed(&mut bench), ["--w--", "free", "s"], "{context}: told, and hides no other");
                bench.local.ok("session/load", of("free"));
                bench.local.ok("session/append", append("free", &note(1)));
                bench.local.ok("session/close", of("free"));
            }
            // All that it has promised is in the log already.
            bench.local.ok("session/close", of("s"));
            stopped(&mut bench, "session/load", of("s"));
            bench.faults.clear();
            assert_eq!(listed(&mut bench), ["free", "other", "s"], "{context}");
            bench = bench.restart(true);
            for (session, count) in [("s", 3), ("other", 1)] {
                bench.local.ok("session/load", of(session));
                let events: Vec<_> = bench.local.events(session).iter().map(said).collect();
                assert_eq!(events, (0..count).map(note).collect::<Vec<_>>(), "{context} {session}");
            }
        }
    }
}
