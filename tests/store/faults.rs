//! What happens when a file operation fails (PROTOCOL 3, Storage failure)? Every operation of a scenario fails once, in
//! every way; afterwards nothing that was answered is missing, and nothing that was refused is there.
//!
//! In memory, over `FaultFs` around `RecordingFs`; `SESSIOND_FAULTS_ALL` for every place of every operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use sessiond::disk::fs::fault::{Effect, Op};
use tokio::runtime::Runtime;

use crate::dur_support::bench::{Bench, refusal};
use crate::dur_support::local::runtime;
use crate::dur_support::{Said, append, entry, is_whole, note, said};

#[test]
fn a_failed_write_refuses_its_appends_and_changes_nothing() {
    let runtime = runtime();
    for (errno, effect) in [
        ("ENOSPC", vec![Effect::Errno("ENOSPC")]),
        ("EIO", vec![Effect::Errno("EIO")]),
        ("EDQUOT", vec![Effect::Short(1), Effect::Errno("EDQUOT")]),
        (
            "ENOSPC",
            vec![Effect::Short(60), Effect::Errno("EINTR"), Effect::Short(1), Effect::Errno("ENOSPC")],
        ),
    ] {
        let mut bench = Bench::new(&runtime);
        bench.local.ok("session/new", json!({"sessionId": "s"}));
        bench.local.ok("session/append", append("s", &note(0)));
        let before = bench.log("s").unwrap();
        bench.local.notices.clear();
        for effect in effect {
            bench.faults.fail(Some(Op::Write), 0, effect);
        }
        // Two appends and a retry of the first in one turn stand or fall together.
        let mut first = append("s", &note(1));
        first["expectedSeq"] = json!(1);
        let turn = [
            ("session/append", first.clone()),
            ("session/append", append("s", &note(2))),
            ("session/append", first.clone()),
        ];
        for answer in bench.local.turn(&turn) {
            let data = refusal(answer);
            assert_eq!((&data["errno"], &data["committed"]), (&json!(errno), &json!(false)));
        }
        assert_eq!(bench.notices_of("session/event"), [] as [Value; 0], "nothing is announced");
        assert_eq!(bench.log("s").unwrap(), before, "the file is at its record boundary");
        assert_eq!(bench.local.events("s").len(), 1, "reads go on");
        assert_eq!(bench.local.ok("session/append", first)["seq"], 1);
        bench.local.ok("session/append", append("s", &note(2)));
        for killed in [true, false] {
            bench = bench.restart(killed);
            bench.local.ok("session/load", json!({"sessionId": "s"}));
            let events: Vec<Said> = bench.local.events("s").iter().map(said).collect();
            assert_eq!(events, [note(0), note(1), note(2)]);
            assert_eq!(bench.stored("s"), events);
        }
    }
}

#[test]
fn interrupted_and_short_operations_are_continued() {
    let runtime = runtime();
    for op in [Op::Write, Op::Read, Op::Copy] {
        for effect in [Effect::Errno("EINTR"), Effect::Short(1), Effect::Short(17)] {
            let mut bench = Bench::new(&runtime);
            bench.local.ok("session/new", json!({"sessionId": "s"}));
            for skip in 0..6 {
                bench.faults.fail(Some(op), skip, effect);
                bench.local.ok("session/append", append("s", &note(skip)));
            }
            bench.local.ok("session/fork", json!({"sessionId": "s", "childSessionId": "c"}));
            bench.local.ok("session/close", json!({"sessionId": "s"}));
            bench.local.ok("session/load", json!({"sessionId": "s"}));
            assert_eq!(bench.local.events("s").len(), 6);
            assert_eq!(bench.stored("c").len(), 7);
        }
    }
}

#[test]
fn a_failed_sync_retracts_nothing_and_is_made_up_for() {
    let runtime = runtime();
    for errno in ["EIO", "ENOSPC"] {
        let mut bench = Bench::new(&runtime);
        bench.local.ok("session/new", json!({"sessionId": "s"}));
        bench.local.ok("session/append", append("s", &note(0)));
        bench.local.notices.clear();
        bench.fail(Op::Sync, errno);
        // A plain append does not wait for the sync that fails behind it.
        assert_eq!(bench.local.ok("session/append", append("s", &note(1)))["seq"], 1);
        let mut durable = append("s", &note(2));
        durable["durable"] = json!(true);
        bench.fail(Op::Sync, errno);
        let data = refusal(bench.local.call("session/append", durable.clone()));
        assert_eq!((&data["errno"], &data["committed"]), (&json!(errno), &json!(true)));
        assert_eq!(bench.local.ok("session/info", json!({"sessionId": "s"}))["durableSeq"], 0);
        bench.fail(Op::Sync, errno);
        let data = refusal(bench.local.call("session/flush", json!({"sessionId": "s"})));
        assert_eq!(data["committed"], true);
        assert_eq!(bench.notices_of("session/durable"), [] as [Value; 0]);
        // The unsynced tail is written again before anything is promised.
        let _ = bench.faults.take_done();
        assert_eq!(bench.local.ok("session/flush", json!({"sessionId": "s"}))["durableSeq"], 2);
        let done: Vec<Op> =
            bench.faults.take_done().into_iter().filter(|op| matches!(op, Op::WriteAt | Op::Sync)).collect();
        assert_eq!(done, [Op::WriteAt, Op::Sync]);
        let told = bench.notices_of("session/durable");
        assert_eq!(told.last().unwrap()["params"]["durableSeq"], 2);
        // The durable append had been committed: asked for again, it is a duplicate.
        durable["expectedSeq"] = json!(2);
        assert_eq!(bench.local.ok("session/append", durable)["duplicate"], true);
        bench = bench.restart(true);
        bench.local.ok("session/load", json!({"sessionId": "s"}));
        let events: Vec<Said> = bench.local.events("s").iter().map(said).collect();
        assert_eq!(events, [note(0), note(1), note(2)]);
    }
}

#[test]
fn a_close_that_fails_leaves_the_session_live_until_it_can_be_promised() {
    let runtime = runtime();
    let mut bench = Bench::new(&runtime);
    let opened = bench.local.ok("session/new", json!({"sessionId": "s"}));
    bench.local.ok("session/append", append("s", &note(0)));
    bench.fail(Op::Sync, "EIO"); // behind the append
    bench.local.ok("session/append", append("s", &note(1)));
    bench.local.notices.clear();
    for _ in 0..3 {
        bench.fail(Op::Sync, "EIO");
        assert_eq!(refusal(bench.local.call("session/close", json!({"sessionId": "s"})))["committed"], true);
        assert_eq!(bench.notices_of("session/disposed"), [] as [Value; 0]);
        let info = bench.local.ok("session/info", json!({"sessionId": "s"}));
        assert_eq!((&info["instanceId"], &info["durableSeq"]), (&opened["instanceId"], &json!(0)));
    }
    // What the failed syncs may have lost is written again from memory, which is why it had to stay.
    let _ = bench.faults.take_done();
    bench.local.ok("session/close", json!({"sessionId": "s"}));
    let done: Vec<Op> =
        bench.faults.take_done().into_iter().filter(|op| matches!(op, Op::WriteAt | Op::Sync)).collect();
    assert_eq!(done, [Op::WriteAt, Op::Sync]);
    assert_eq!(bench.notices_of("session/disposed").len(), 1);
    bench.local.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(bench.local.events("s").len(), 2);
    // At the end of the input nobody can ask again: it is tried twice.
    bench.fail(Op::Sync, "EIO");
    bench.local.ok("session/append", append("s", &note(2)));
    bench.fail(Op::Sync, "EIO");
    let Bench { disk, local, .. } = bench;
    local.end();
    let mut bench = Bench::on(disk, &runtime);
    bench.local.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(bench.local.events("s").len(), 3);
}

#[test]
fn a_close_keeps_a_session_whose_log_another_program_changed() {
    let runtime = runtime();
    let mut bench = Bench::new(&runtime);
    bench.local.ok("session/new", json!({"sessionId": "s"}));
    bench.local.ok("session/append", append("s", &note(0)));
    let path = bench.disk.paths().into_iter().find(|path| path.ends_with("s/session.jsonl")).unwrap();
    let file = sessiond::disk::fs::FileSystem::open_append(&bench.disk, &path).unwrap();
    let whole = bench.disk.content(&path).unwrap().len() as u64;
    bench.fail(Op::Sync, "EIO");
    bench.local.ok("session/append", append("s", &note(1)));
    file.set_len(whole).unwrap();
    bench.local.notices.clear();
    let flushed = bench.local.call("session/flush", json!({"sessionId": "s"}));
    assert_eq!(refusal(flushed)["reason"], "changed_outside");
    let closed = bench.local.call("session/close", json!({"sessionId": "s"}));
    assert_eq!(refusal(closed)["reason"], "changed_outside");
    assert_eq!(bench.notices_of("session/disposed").len(), 0);
    assert_eq!(bench.local.events("s").len(), 2, "memory is the last good copy");
    let rescue = json!({"sessionId": "s", "childSessionId": "saved"});
    assert_eq!(bench.local.ok("session/rescue", rescue)["sessionId"], "saved");
    assert_eq!(bench.notices_of("session/disposed").len(), 1);
    bench.local.ok("session/close", json!({"sessionId": "saved"}));
    assert_eq!(bench.stored("saved"), [note(0), note(1)]);
    bench.local.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(bench.local.events("s").len(), 1, "as the other program left it");
}

#[test]
fn a_name_that_is_in_doubt_is_settled_by_a_later_sync() {
    let runtime = runtime();
    let mut bench = Bench::new(&runtime);
    bench.local.ok("session/new", json!({"sessionId": "warm"}));
    bench.local.ok("session/append", append("warm", &note(0)));
    // The directory's sync fails so often, and the name cannot be taken back.
    let doubt = |bench: &Bench, syncs: usize| {
        (0..syncs).for_each(|_| bench.faults.fail(Some(Op::SyncDir), 1, Effect::Errno("EIO")));
        // The first removal is that of a stale hint.
        bench.faults.fail(Some(Op::Unlink), 1, Effect::Errno("EIO"));
    };
    let append_of = |session: &str, n: u64, durable: bool| {
        let mut params = append(session, &note(n));
        (params["durable"], params["expectedSeq"]) = (json!(durable), json!(n));
        ("session/append", params)
    };
    // A first append: its log is there, whole and locked. Only what promises stable storage is refused.
    bench.local.ok("session/new", json!({"sessionId": "s"}));
    doubt(&bench, 2);
    let mut answers = bench.local.turn(&[append_of("s", 0, false), append_of("s", 1, true)]);
    assert_eq!(refusal(answers.remove(1))["committed"], true);
    assert_eq!(answers.remove(0).unwrap()["seq"], 0);
    assert_eq!(bench.local.ok("session/info", json!({"sessionId": "s"}))["durableSeq"], Value::Null);
    bench.fail(Op::SyncDir, "EIO");
    let flushed = bench.local.call("session/flush", json!({"sessionId": "s"}));
    assert_eq!(refusal(flushed)["committed"], true);
    let (method, again) = append_of("s", 1, true);
    let _ = bench.faults.take_done();
    assert_eq!(bench.local.ok(method, again)["duplicate"], true);
    assert!(bench.faults.take_done().contains(&Op::SyncDir), "the name is made durable");
    assert_eq!(bench.local.ok("session/info", json!({"sessionId": "s"}))["durableSeq"], 1);
    assert_eq!(bench.stored("s"), [note(0), note(1)]);
    // One more try goes well: nobody is told.
    bench.local.ok("session/new", json!({"sessionId": "t"}));
    doubt(&bench, 1);
    let (method, first) = append_of("t", 0, true);
    assert_eq!(bench.local.ok(method, first)["seq"], 0);
    // A fork is not live after a refusal; asked for again, it is seen to have worked, and it loads.
    doubt(&bench, 2);
    let fork = json!({"sessionId": "s", "childSessionId": "c"});
    assert_eq!(refusal(bench.local.call("session/fork", fork.clone()))["committed"], true);
    let taken = bench.local.call("session/fork", fork).unwrap_err();
    assert_eq!(taken["data"]["code"], "SESSION_ALREADY_EXISTS");
    assert_eq!((&taken["data"]["parentSession"], &taken["data"]["nextSeq"]), (&json!("s"), &json!(3)));
    bench.local.ok("session/load", json!({"sessionId": "c"}));
    bench.local.ok("session/append", append("c", &note(3)));
    bench = bench.restart(true);
    for (session, count) in [("s", 2), ("t", 1), ("c", 4)] {
        bench.local.ok("session/load", json!({"sessionId": session}));
        assert_eq!(bench.local.events(session).len(), count);
    }
}

#[test]
fn a_first_append_or_a_fork_that_cannot_be_stored_leaves_no_session_behind() {
    let runtime = runtime();
    let ops = [Op::CreateDir, Op::CreateNew, Op::Write, Op::Sync, Op::Lock, Op::Link, Op::SyncDir];
    for op in ops {
        for errno in ["ENOSPC", "EIO"] {
            let mut bench = Bench::new(&runtime);
            bench.local.ok("session/new", json!({"sessionId": "s"}));
            bench.local.notices.clear();
            bench.fail(op, errno);
            let two = [("session/append", append("s", &note(0))), ("session/append", append("s", &note(1)))];
            for answer in bench.local.turn(&two) {
                let data = refusal(answer);
                let named = data["errno"] == errno || op == Op::Lock;
                assert!(named && data["committed"] == false, "{op:?}: {data}");
            }
            // Live and empty, as before, and nothing is stored.
            assert_eq!(bench.notices_of("session/event"), [] as [Value; 0]);
            assert_eq!(bench.local.ok("session/info", json!({"sessionId": "s"}))["nextSeq"], 0);
            assert_eq!(bench.log("s"), None, "{op:?}");
            for answer in bench.local.turn(&two) {
                answer.unwrap();
            }
            // A fork, and a new session with a seed, are not there at all.
            let forked = ("session/fork", json!({"sessionId": "s", "childSessionId": "c"}));
            let seeded = ("session/new", json!({"sessionId": "c", "seed": bench.local.events("s")}));
            for (method, params) in [forked, seeded] {
                bench.fail(op, errno);
                refusal(bench.local.call(method, params.clone()));
                let gone = bench.local.call("session/info", json!({"sessionId": "c"})).unwrap_err();
                assert_eq!(gone["data"]["code"], "SESSION_NOT_FOUND");
                assert_eq!(gone["data"]["stored"], false, "{op:?} {method}");
                let notices = std::mem::take(&mut bench.local.notices);
                assert!(notices.iter().all(|notice| notice["params"]["sessionId"] != "c"), "{notices:?}");
                bench.faults.clear();
                bench.local.ok(method, params);
                bench.local.ok("session/append", append("c", &note("own")));
                bench.local.ok("session/delete", json!({"sessionId": "c"}));
                bench.local.notices.clear();
            }
            bench = bench.restart(true);
            bench.local.ok("session/load", json!({"sessionId": "s"}));
            assert_eq!(bench.stored("s"), [note(0), note(1)]);
        }
    }
}

#[test]
fn a_repair_that_fails_half_way_is_gone_on_with() {
    let runtime = runtime();
    let mut steps = 0;
    for (tail, missing) in [(&b"{\"type\":\"x/no"[..], false), (b"", true), (b"\0\0\0\0", false)] {
        let save = [Op::CreateNew, Op::Lock, Op::Copy, Op::Link, Op::Unlink];
        for op in save.into_iter().chain([Op::Write, Op::SetLen, Op::Sync, Op::SyncDir, Op::Stat]) {
            for first in ["session/append", "session/flush", "session/close"] {
                for skip in 0..4 {
                    for durable in [false, true] {
                        if durable && first != "session/append" {
                            continue;
                        }
                        steps += usize::from(mend(&runtime, (tail, missing), (op, skip), first, durable));
                    }
                }
            }
        }
    }
    eprintln!("{steps} failures inside a repair");
    assert!(steps > 60);
}

/// Whether the fault was met.
fn mend(
    runtime: &Arc<Runtime>,
    (tail, missing): (&[u8], bool),
    (op, skip): (Op, u64),
    first: &str,
    durable: bool,
) -> bool {
    let mut bench = Bench::torn(runtime, tail, missing);
    let context = format!("{tail:?} {op:?}+{skip} {first} {durable}");
    bench.local.ok("session/load", json!({"sessionId": "s"}));
    bench.faults.fail(Some(op), skip, Effect::Errno("ENOSPC"));
    let mut params = match first {
        "session/append" => append("s", &note(2)),
        _ => json!({"sessionId": "s"}),
    };
    if durable {
        params["durable"] = json!(true);
    }
    let answer = bench.local.call(first, params.clone());
    let met = answer.is_err();
    let mut kept = first == "session/append";
    if let Err(error) = answer {
        let data = refusal(Err(error));
        assert_eq!(data["errno"], "ENOSPC", "{context}");
        kept &= data["committed"] == true;
        if first == "session/append" {
            assert_eq!(bench.local.events("s").len(), 3 + usize::from(kept), "{context}");
        }
    }
    bench.faults.clear();
    if first == "session/close" {
        bench.local.ok("session/load", json!({"sessionId": "s"}));
    } else {
        // Another event than the one that failed: memory and file must agree on which it is.
        bench.local.ok("session/append", append("s", &note("a longer one than before")));
        bench.local.ok("session/append", append("s", &note(4)));
        bench.local.ok("session/flush", json!({"sessionId": "s"}));
    }
    let live: Vec<Value> = bench.local.events("s");
    let mut expected = vec![
        ("turn/start".to_owned(), json!({"turn": 1})),
        note(1),
        ("turn/end".to_owned(), json!({"turn": 1, "reason": {"kind": "interrupted"}})),
    ];
    expected.extend(kept.then(|| note(2)));
    if first != "session/close" {
        expected.extend([note("a longer one than before"), note(4)]);
    }
    assert_eq!(live.iter().map(said).collect::<Vec<_>>(), expected, "{context}");
    bench = bench.restart(true);
    bench.local.ok("session/load", json!({"sessionId": "s"}));
    assert_eq!(bench.local.events("s"), live, "{context}");
    if first != "session/close" {
        assert!(is_whole(&bench.log("s").unwrap()), "{context}");
        assert_eq!(bench.stored("s"), expected, "{context}");
    }
    let cuts: Vec<Vec<u8>> = bench
        .disk
        .paths()
        .iter()
        .filter(|path| path.to_str().unwrap().contains(".cut-"))
        .map(|path| bench.disk.content(path).unwrap())
        .collect();
    if first != "session/close" {
        let saved = cuts.iter().filter(|cut| *cut == tail).count();
        assert_eq!((saved, cuts.len()), if tail.is_empty() { (0, 0) } else { (1, 1) }, "{context}: {cuts:?}");
    }
    met
}

/// What a client that asks each refused request once more has been promised.
#[derive(Default)]
struct Promises {
    sessions: BTreeMap<String, Vec<Said>>,
}

/// A life with every kind of file work in it. Gives how many requests were refused.
fn scenario(bench: &mut Bench, promises: &mut Promises, context: &str) -> usize {
    let mut refused = 0;
    let mut ask = |bench: &mut Bench, method: &str, params: Value| -> Value {
        match bench.local.call(method, params.clone()) {
            Ok(result) => result,
            Err(error) => {
                refused += 1;
                assert_eq!(error["data"]["code"], "STORAGE_FAILED", "{context} {method}: {error}");
                match bench.local.call(method, params) {
                    Ok(result) => result,
                    // A close, or a fork whose name could not be taken back, has happened all the same.
                    Err(error) => panic!("{context} {method}, again: {error}"),
                }
            }
        }
    };
    let mut keep =
        |session: &str, event: Said| promises.sessions.entry(session.to_owned()).or_default().push(event);
    ask(bench, "session/new", json!({"sessionId": "a", "cwd": "/w"}));
    for n in 0..3 {
        let mut params = append("a", &note(n));
        params["durable"] = json!(n == 1);
        // Committed though not durable: asked again, it must not be there twice.
        params["expectedSeq"] = json!(n);
        ask(bench, "session/append", params);
        keep("a", note(n));
    }
    ask(bench, "session/flush", json!({"sessionId": "a"}));
    ask(bench, "session/fork", json!({"sessionId": "a", "childSessionId": "b"}));
    for n in 0..3 {
        keep("b", note(n));
    }
    keep("b", ("session/end-seed".to_owned(), json!({})));
    let batch = json!({"sessionId": "b", "events": [entry(&note("x")), entry(&note("y"))], "expectedSeq": 4});
    ask(bench, "session/append_batch", batch);
    keep("b", note("x"));
    keep("b", note("y"));
    ask(bench, "session/close", json!({"sessionId": "a"}));
    ask(bench, "session/list", json!({}));
    ask(bench, "session/inspect", json!({"sessionId": "a"}));
    ask(bench, "session/load", json!({"sessionId": "a"}));
    let start = ("turn/start".to_owned(), json!({"turn": 1}));
    ask(bench, "session/append", append("a", &start));
    keep("a", start);
    ask(bench, "session/close", json!({"sessionId": "a"}));
    ask(bench, "session/resume", json!({"sessionId": "a"}));
    keep("a", ("turn/end".to_owned(), json!({"turn": 1, "reason": {"kind": "interrupted"}})));
    ask(bench, "session/append", append("a", &note("after")));
    keep("a", note("after"));
    ask(bench, "session/new", json!({"sessionId": "gone"}));
    ask(bench, "session/append", append("gone", &note(0)));
    ask(bench, "session/delete", json!({"sessionId": "gone"}));
    ask(bench, "session/delete", json!({"sessionId": "nobody"}));
    ask(bench, "session/list", json!({}));
    refused
}

#[test]
fn every_operation_of_a_life_may_fail_once() {
    let runtime = runtime();
    // How often each operation happens when nothing fails.
    let mut bench = Bench::new(&runtime);
    scenario(&mut bench, &mut Promises::default(), "no fault");
    let done = bench.faults.take_done();
    let all = std::env::var_os("SESSIOND_FAULTS_ALL").is_some();
    let (mut runs, mut refusals) = (0, 0);
    for (op, name) in Op::ALL {
        let count = done.iter().filter(|other| **other == op).count();
        let step = if all { 1 } else { count / 4 + 1 };
        for effect in ["ENOSPC", "EIO", "EINTR", "short"] {
            for skip in (0..count).step_by(step) {
                let context = format!("{name} +{skip} {effect}");
                let mut bench = Bench::new(&runtime);
                let effect = if effect == "short" { Effect::Short(3) } else { Effect::Errno(effect) };
                bench.faults.fail(Some(op), skip as u64, effect);
                let mut promises = Promises::default();
                refusals += scenario(&mut bench, &mut promises, &context);
                runs += 1;
                for killed in [true, false] {
                    bench = bench.restart(killed);
                    for (session, expected) in &promises.sessions {
                        let opened = bench.local.call("session/load", json!({"sessionId": session}));
                        opened.unwrap_or_else(|error| panic!("{context}: {session}: {error}"));
                        let events: Vec<Said> = bench.local.events(session).iter().map(said).collect();
                        assert_eq!(&events, expected, "{context}: {session}");
                    }
                    let gone = bench.local.call("session/load", json!({"sessionId": "gone"})).unwrap_err();
                    assert_eq!(gone["data"]["code"], "SESSION_NOT_FOUND", "{context}");
                }
            }
        }
    }
    eprintln!("{runs} lives with one fault each, {refusals} requests refused and granted when asked again");
    assert!(runs > 100 && refusals > 20, "{runs} {refusals}");
}
