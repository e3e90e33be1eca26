//! Calls and results, replacements, providers: what the derived messages are.

use serde_json::{Value, json};

use super::kit::{
    Says, Store, assistant, called, replacing, step_end, step_start, text, to, tool_call, tool_result, turn,
    turn_end, turn_start, user,
};
use crate::dur_support::Random;
use crate::dur_support::process::Daemon;

fn ids(daemon: &mut Daemon, session: &str) -> Vec<String> {
    daemon.messages(session).iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect()
}

/// B068, B071: FORMAT 5 lets a user's or an assistant's message replace any range, so a range that splits a call from
/// its result is taken, as the reference takes it: which ranges make sense is the compacting client's to say. What the
/// store holds is that a result alone is rewritten only into the same result, that what is shadowed must be cited, and
/// that the whole is still there to be read and forked.
#[test]
fn compaction_orphans_result() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &turn(1, &["c"])); // user 1, assistant 3, result 5
    let summary = |id: &str, start, end, cited: &[u64]| replacing(user(id, "summary"), start, end, cited);
    // Uncited, or with what is not on the surface, or a result turned into another: refused, with the rule.
    let mut other = tool_result(1, 1, "d");
    other["data"]["message"]["source"]["callId"] = json!("d");
    for (event, rule) in [
        (summary("k", 1, 3, &[1]), "SOURCES_MISSING_SHADOWED"),
        (summary("k", 2, 3, &[2, 3]), "REPLACE_START_NOT_FOUND"),
        (summary("k", 5, 3, &[3, 5]), "REPLACE_INVERTED"),
        (replacing(other, 5, 5, &[5]), "TOOL_REWRITE_CHANGED"),
    ] {
        assert_eq!(daemon.refused("s", &event)["data"]["rule"], rule);
    }
    assert_eq!(ids(&mut daemon, "s"), ["u1", "a1", "r-c"]);
    daemon.ok("session/append", to("s", &summary("k", 1, 3, &[1, 3])));
    assert_eq!(ids(&mut daemon, "s"), ["k", "r-c"], "split, as asked for");
    // Nothing is lost by it: the view of before can be read, and a child can go on from there.
    let before = daemon.ok("session/messages", json!({"sessionId": "s", "throughSeq": 7}));
    assert_eq!(before["messages"].as_array().unwrap().len(), 3);
    daemon.ok("session/fork", json!({"sessionId": "s", "childSessionId": "c", "boundary": 7}));
    assert_eq!(ids(&mut daemon, "c"), ["u1", "a1", "r-c"]);
    // And the orphan can be taken in, too.
    daemon.ok("session/append", to("s", &summary("k2", 8, 5, &[5, 8])));
    assert_eq!(ids(&mut daemon, "s"), ["k2"]);
}

/// B071: a client that replaces whole steps keeps its pairs, however often it does and whatever it nests.
#[test]
fn compaction_orphans_result_not_by_whole_steps() {
    let mut random = Random(0xc0ffee);
    let mut daemon = crate::dur_support::process::Daemon::run({
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sessiond"));
        command.args(["serve", "--store", "memory:"]);
        command
    });
    for run in 0..1000 {
        let id = format!("s{run}");
        daemon.ok("session/new", json!({"sessionId": id}));
        // Surface nodes by group: what belongs together is replaced together.
        let mut groups: Vec<Vec<u64>> = Vec::new();
        let mut events = Vec::new();
        let mut number = 0;
        for _ in 0..8 {
            if groups.len() > 1 && random.chance(40) {
                let from = random.below(groups.len());
                let to = from + random.below(groups.len() - from);
                let shadowed: Vec<u64> = groups[from..=to].concat();
                let (first, last) = (shadowed[0], shadowed[shadowed.len() - 1]);
                groups.splice(from..=to, [vec![events.len() as u64]]);
                events.push(replacing(
                    user(&format!("k{}", events.len()), "summary"),
                    first,
                    last,
                    &shadowed,
                ));
            } else {
                number += 1;
                let at = events.len() as u64;
                let calls = [format!("c{number}"), format!("d{number}")];
                let calls: Vec<&str> = calls.iter().map(String::as_str).take(random.below(3)).collect();
                events.extend(turn(number, &calls));
                groups.push(vec![at + 1]);
                let mut step = vec![at + 3];
                step.extend((0..calls.len() as u64).map(|call| at + 5 + 2 * call));
                groups.push(step);
            }
        }
        daemon.put(&id, &events);
        let messages = daemon.messages(&id);
        let of = |kind: &str| -> Vec<Value> {
            let blocks = messages.iter().flat_map(|message| message["content"].as_array().unwrap());
            let blocks = blocks.filter(|block| block["type"] == kind);
            blocks
                .map(|block| if kind == "tool-call" { &block["id"] } else { &block["toolCallId"] }.clone())
                .collect()
        };
        assert_eq!(of("tool-call"), of("tool-result"), "run {run}");
        daemon.ok("session/close", json!({"sessionId": id}));
        daemon.ok("session/delete", json!({"sessionId": id}));
    }
}

/// B077, B078: FORMAT 4 leaves the blocks of a message unchecked, and the reference takes such logs; so they are taken,
/// and `warnings` names them, live and after a load. A result is held to a call that is pending.
#[test]
fn duplicate_or_empty_ids() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("s", &[turn_start(1), step_start(1, 1)]);
    daemon.put("s", &[assistant(1, 1, "a", &[tool_call(""), tool_call("")])]);
    daemon.put("s", &[assistant(1, 1, "b", &[tool_call("x"), tool_call("x")]), called(1, 1, "x")]);
    let named = |daemon: &mut Daemon| {
        let info = daemon.ok("session/info", json!({"sessionId": "s"}));
        let warnings = info["warnings"].as_array().unwrap().clone();
        let has = |words: &[&str]| {
            warnings.iter().any(|one| words.iter().all(|word| one.as_str().unwrap().contains(word)))
        };
        assert!(has(&["event 2", "empty call id"]), "{warnings:?}");
        assert!(has(&["event 3", "repeats call id", "x"]), "{warnings:?}");
    };
    named(&mut daemon);
    // A message without any id is another thing: it is refused, with its place.
    let mut odd = assistant(1, 1, "", &[]);
    let error = daemon.refused("s", &odd);
    assert!(error["data"]["pointer"].as_str().unwrap().ends_with("/id"), "{error}");
    odd["data"]["message"]["id"] = json!("c");
    daemon.put("s", &[odd, tool_result(1, 1, "x")]);
    assert_eq!(
        daemon.refused("s", &tool_result(1, 1, "x"))["data"]["rule"],
        "INV_RESULT_WITHOUT_CALL",
        "once only"
    );
    daemon.put("s", &[step_end(1, 1), turn_end(1)]);
    daemon.kill();
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "s"}));
    named(&mut daemon);
}

/// B079: every message says who made it, and its replay state is kept as it came; which provider a request goes to is
/// the client's to know, so it leaves out what is foreign.
#[test]
fn foreign_provider_content() {
    let store = Store::new();
    let mut daemon = store.daemon();
    let mut events = vec![turn_start(1), step_start(1, 1)];
    for (provider, state) in [("a", "{\"signature\":\"1.0e2\"}"), ("b", "[1,2]")] {
        let mut message = assistant(1, 1, provider, &[text("said")]);
        let state: Value = serde_json::from_str(state).unwrap();
        message["data"]["message"]["source"] =
            json!({"kind": "model", "provider": provider, "model": "m", "replayState": state});
        events.push(message);
    }
    daemon.new_with("s", &events);
    daemon.kill();
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "s"}));
    let messages = daemon.messages("s");
    assert_eq!(messages[0]["source"]["replayState"], json!({"signature": "1.0e2"}));
    let for_b: Vec<Value> = messages
        .into_iter()
        .map(|mut message| {
            if message["source"]["provider"] != "b" {
                message["source"].as_object_mut().unwrap().remove("replayState");
            }
            message
        })
        .collect();
    assert_eq!(for_b[0]["source"], json!({"kind": "model", "provider": "a", "model": "m"}));
    assert_eq!(
        (&for_b[0]["content"], &for_b[1]["source"]["replayState"]),
        (&json!([text("said")]), &json!([1, 2]))
    );
}

/// B080: one assistant message with both calls, whole; its results in the order in which they came (FORMAT 6: nothing
/// is reordered), each with its call's id.
#[test]
fn parallel_calls_split() {
    let store = Store::new();
    let mut daemon = store.daemon();
    let call = assistant(1, 1, "a", &[text("both"), tool_call("c1"), tool_call("c2")]);
    daemon.new_with("s", &[turn_start(1), step_start(1, 1), call]);
    daemon.put(
        "s",
        &[called(1, 1, "c1"), called(1, 1, "c2"), tool_result(1, 1, "c2"), tool_result(1, 1, "c1")],
    );
    let messages = daemon.messages("s");
    let blocks: Vec<&Value> =
        messages[0]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(blocks, ["text", "tool-call", "tool-call"]);
    assert_eq!(ids(&mut daemon, "s"), ["a", "r-c2", "r-c1"]);
    for message in &messages[1..] {
        assert_eq!(message["source"]["callId"], message["content"][0]["toolCallId"]);
    }
}
