//! What becomes of appends that come while the log is mended behind a load?

use serde_json::{Value, json};
use sessiond::disk::fs::fault::{Effect, Op};

use crate::dur_support::bench::Bench;
use crate::dur_support::local::runtime;
use crate::dur_support::{append, note};

fn of(session: &str) -> Value {
    json!({"sessionId": session})
}

/// A loaded session whose log lacks the closers of its turn, and another one; its length.
fn loaded(bench: &mut Bench) -> u64 {
    for session in ["s", "other"] {
        bench.local.ok("session/new", of(session));
        let start = ("turn/start".to_owned(), json!({"turn": 1}));
        bench.local.ok("session/append", append(session, &start));
    }
    bench.local.ok("session/close", of("s"));
    let loaded = bench.local.ok("session/load", of("s"));
    assert!(loaded["repaired"]["closers"].as_u64().unwrap() > 0, "{loaded}");
    loaded["nextSeq"].as_u64().unwrap()
}

/// Two appends, the second while the first is on its way: a read of another session writes it. Then a read of theirs.
fn pipelined(bench: &mut Bench) -> Vec<Result<Value, Value>> {
    bench.local.turn(&[
        ("session/append", append("s", &note(1))),
        ("session/info", of("other")),
        ("session/append", append("s", &note(2))),
        ("session/info", of("s")),
    ])
}

#[test]
fn they_pass_and_are_stored_behind_what_is_mended() {
    let runtime = runtime();
    let mut bench = Bench::new(&runtime);
    let length = loaded(&mut bench);
    bench.local.notices.clear();
    let answers = pipelined(&mut bench);
    assert_eq!(answers[0].as_ref().unwrap()["seq"], length);
    assert_eq!(answers[2].as_ref().unwrap()["seq"], length + 1);
    assert_eq!(answers[3].as_ref().unwrap()["nextSeq"], length + 2);
    let told: Vec<&Value> =
        bench.local.notices.iter().map(|notice| &notice["params"]["event"]["seq"]).collect();
    assert_eq!(told.iter().filter(|seq| seq.is_u64()).count(), 2, "each is told once: {told:?}");
    let live = bench.local.events("s");
    bench.local.ok("session/close", of("s"));
    assert_eq!(bench.local.inspect("s"), live);
}

#[test]
fn where_the_mending_fails_they_fail_with_it_or_take_the_place_of_what_did() {
    let runtime = runtime();
    let mut bench = Bench::new(&runtime);
    let length = loaded(&mut bench);
    let before = bench.local.events("s");
    bench.local.notices.clear();
    bench.faults.fail(Some(Op::Write), 0, Effect::Errno("ENOSPC"));
    let answers = pipelined(&mut bench);
    let is_refused = |answer: &Result<Value, Value>| {
        let data = &answer.as_ref().unwrap_err()["data"];
        assert_eq!((&data["errno"], &data["committed"]), (&json!("ENOSPC"), &json!(false)), "{answer:?}");
    };
    is_refused(&answers[0]);
    // One that came behind the failure takes the place of what was not stored.
    let stored = match &answers[2] {
        Ok(appended) => {
            assert_eq!(appended["seq"], length);
            1
        }
        refused => {
            is_refused(refused);
            0
        }
    };
    assert_eq!(answers[3].as_ref().unwrap()["nextSeq"], length + stored);
    let told = |notice: &&Value| notice["method"] == "session/event";
    let told = bench.local.notices.iter().filter(told).count() as u64;
    assert_eq!(told, stored, "what is not stored is not told");
    assert_eq!(bench.local.events("s")[..before.len()], before[..]);
    let answers = pipelined(&mut bench);
    assert_eq!(answers[3].as_ref().unwrap()["nextSeq"], length + stored + 2);
    let live = bench.local.events("s");
    bench.local.ok("session/close", of("s"));
    assert_eq!(bench.local.inspect("s"), live);
}
