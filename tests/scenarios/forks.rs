//! Forks and children: what they inherit, how they are told apart, what they cost.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::kit::{
    Says, Store, assistant, note, replacing, resident, step_start, to, tool_call, tool_result, turn,
    turn_end, turn_start, user,
};
use crate::dur_support::process::Daemon;

fn fork(daemon: &mut Daemon, of: &str, child: &str, boundary: impl Into<Option<u64>>) -> Value {
    let params = json!({"sessionId": of, "childSessionId": child, "boundary": boundary.into()});
    daemon.ok("session/fork", params)
}

fn surface(daemon: &mut Daemon, session: &str, through: Option<u64>) -> Value {
    let mut answer = daemon.ok("session/surface", json!({"sessionId": session, "throughSeq": through}));
    answer["nodes"].take()
}

fn through(daemon: &mut Daemon, session: &str, seq: u64) -> Vec<Value> {
    let answer = daemon.ok("session/messages", json!({"sessionId": session, "throughSeq": seq}));
    answer["messages"].as_array().unwrap().clone()
}

/// A log in which messages and a tool result have been replaced: boundaries, and what they leave visible.
fn rewritten() -> Vec<Value> {
    let mut events = turn(1, &["c"]); // user 1, assistant 3, result 5
    events.extend([turn_start(2), user("u2", "two")]);
    let mut shorter = tool_result(2, 1, "c");
    shorter["data"] = tool_result(1, 1, "c")["data"].clone();
    shorter["data"]["message"]["content"][0]["content"] = json!([]);
    events.push(replacing(shorter, 5, 5, &[5])); // 10
    events.push(replacing(user("k1", "summary"), 1, 3, &[1, 3])); // 11
    events.extend([turn_end(2), user("u3", "three")]);
    events.push(replacing(user("k2", "summary of the summary"), 11, 10, &[10, 11])); // 14
    events.extend(turn(3, &["d", "e"]));
    events
}

/// B053: children are sessions of their own; the parent's log holds what its front-end says of them.
#[test]
fn child_events_in_parent() {
    const CHILDREN: usize = 400;
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("parent", &[note("start")]);
    let batch: Vec<Value> = (0..50).map(note).collect();
    let mut asked = Vec::new();
    for n in 0..CHILDREN {
        let id = format!("child{n}");
        let meta = json!({"parentSession": "parent", "origin": "subagent", "delegationDepth": 1});
        asked.push(daemon.send("session/new", json!({"sessionId": id, "cwd": "/w", "meta": meta})));
        asked.push(daemon.send("session/append_batch", json!({"sessionId": id, "events": batch})));
        let link = json!({"type": "subagent/descriptor", "data": {"child": id}});
        asked.push(daemon.send("session/append", to("parent", &link)));
    }
    asked.into_iter().for_each(|id| drop(daemon.answer(id).unwrap()));
    assert_eq!(daemon.events("parent").len(), 1 + CHILDREN, "links only");
    let rows = daemon.rows(json!({"limit": 150}));
    let children: HashSet<&str> = rows
        .iter()
        .filter(|row| row["parentSession"] == "parent" && row["origin"] == "subagent")
        .map(|row| row["sessionId"].as_str().unwrap())
        .collect();
    assert_eq!(children.len(), CHILDREN);
    // By type, without reading the payloads of others.
    let links = daemon.ok("session/events", json!({"sessionId": "parent", "types": ["subagent/descriptor"]}));
    assert_eq!(links["events"].as_array().unwrap().len(), CHILDREN);
    daemon.kill();
    let mut daemon = store.daemon();
    assert_eq!(daemon.rows(json!({})).len(), 1 + CHILDREN);
    assert_eq!(daemon.ok("session/load", json!({"sessionId": "child399"}))["nextSeq"], 50);
}

/// B054: forks share their prefix in memory; a load copies nothing; on disk every child is whole by itself, so that the
/// parent may go.
#[test]
fn fork_resume_copies() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("parent", &[]);
    for n in 0..8 {
        daemon.put("parent", &[note(format!("{n} {}", "x".repeat(1 << 20)))]);
    }
    let size = store.bytes("parent").len();
    let before = resident(daemon.pid());
    for n in 0..20 {
        fork(&mut daemon, "parent", &format!("c{n}"), None);
        daemon.ok("session/append", to(&format!("c{n}"), &note(n)));
    }
    let grown = resident(daemon.pid()).saturating_sub(before);
    assert!(grown < 24 << 10, "{grown} KiB for 20 forks of 8 MiB");
    for n in 0..20 {
        let child = store.bytes(&format!("c{n}")).len();
        assert!(child > size && child < size + 1000, "the prefix and what is its own");
    }
    daemon.ok("session/delete", json!({"sessionId": "parent"}));
    daemon.kill();
    let mut daemon = store.daemon();
    let files = store.files();
    for _ in 0..3 {
        assert_eq!(daemon.ok("session/load", json!({"sessionId": "c7"}))["nextSeq"], 10);
        assert_eq!(daemon.events("c7").len(), 10);
    }
    assert_eq!(store.bytes("c7"), files[&store.log("c7")], "a load copies and writes nothing");
}

/// B082: at every boundary the child's surface and messages are those of the prefix; B084: seqs and ids are kept.
#[test]
fn fork_dangling_references() {
    let store = Store::new();
    let mut daemon = store.daemon();
    let events = rewritten();
    daemon.ok("session/new", json!({"sessionId": "parent", "invariants": "off"}));
    daemon.put("parent", &events);
    let parent = daemon.events("parent");
    let mut forks = 0;
    for boundary in 0..events.len() as u64 {
        let child = format!("c{boundary}");
        let params = json!({"sessionId": "parent", "childSessionId": child, "boundary": boundary});
        match daemon.call("session/fork", params) {
            Err(error) => assert_eq!(error["data"]["code"], "OPEN_TURN", "{boundary}"),
            Ok(opened) => {
                forks += 1;
                let length = boundary as usize + 1;
                assert_eq!(opened["inheritedEventCount"], length);
                assert_eq!(
                    daemon.events(&child)[..length],
                    parent[..length],
                    "seqs, ids, times and references"
                );
                assert_eq!(
                    surface(&mut daemon, &child, None),
                    surface(&mut daemon, "parent", Some(boundary))
                );
                assert_eq!(daemon.messages(&child), through(&mut daemon, "parent", boundary), "{boundary}");
                daemon.ok("session/close", json!({"sessionId": child}));
                daemon.ok("session/load", json!({"sessionId": child}));
                assert_eq!(
                    daemon.messages(&child),
                    through(&mut daemon, "parent", boundary),
                    "{boundary}, loaded"
                );
            }
        }
    }
    assert!(forks >= 5, "{forks}");
}

/// B085: what is inherited can be left out of every count.
#[test]
fn fork_double_count() {
    let store = Store::new();
    let mut daemon = store.daemon();
    let spending = |number: u64, tokens: u64| {
        let mut events = turn(number, &[]);
        events[3]["data"]["usage"] = json!({"inputTokens": tokens, "outputTokens": 0});
        events
    };
    daemon.new_with("parent", &spending(1, 100));
    let opened = fork(&mut daemon, "parent", "child", None);
    daemon.put("child", &spending(2, 10));
    let total = |daemon: &mut Daemon, session: &str, own: bool| -> u64 {
        let params = json!({"sessionId": session, "own": own, "types": ["assistant/message"]});
        let page = daemon.ok("session/events", params);
        let events = page["events"].as_array().unwrap();
        events.iter().map(|event| event["data"]["usage"]["inputTokens"].as_u64().unwrap()).sum()
    };
    assert_eq!(total(&mut daemon, "child", true), 10);
    assert_eq!(total(&mut daemon, "parent", true) + total(&mut daemon, "child", true), 110);
    assert_eq!(total(&mut daemon, "child", false), 110);
    assert_eq!((&opened["inheritedEventCount"], &opened["header"]["isSeeded"]), (&json!(6), &json!(true)));
    daemon.kill();
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "child"}));
    assert_eq!(total(&mut daemon, "child", true), 10);
}

/// B086: a fork, a subagent and a continuation say what they are, and the parent's id always reads the parent.
#[test]
fn fork_lineage_confusion() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("parent", &turn(1, &[]));
    let parent = daemon.events("parent");
    fork(&mut daemon, "parent", "fork", None);
    let meta = json!({"parentSession": "parent", "origin": "subagent"});
    daemon.ok("session/new", json!({"sessionId": "agent", "cwd": "/w", "meta": meta}));
    daemon.put("agent", &[note(0)]);
    daemon.put("fork", &turn(2, &[]));
    let told = |daemon: &mut Daemon, id: &str| {
        let row = daemon.row(id);
        (row["parentSession"].clone(), row["isSeeded"].clone(), row["origin"].clone())
    };
    let parents = [("fork", json!(true), Value::Null), ("agent", json!(false), json!("subagent"))];
    for live in [true, false] {
        for (id, seeded, origin) in &parents {
            assert_eq!(
                told(&mut daemon, id),
                (json!("parent"), seeded.clone(), origin.clone()),
                "{id} {live}"
            );
        }
        assert_eq!(told(&mut daemon, "parent"), (Value::Null, json!(false), Value::Null));
        if live {
            for id in ["parent", "fork", "agent"] {
                daemon.ok("session/close", json!({"sessionId": id}));
            }
        }
    }
    // A continuation is the session itself, under its own id.
    let opened = daemon.ok("session/load", json!({"sessionId": "parent"}));
    assert_eq!((&opened["sessionId"], &opened["inheritedEventCount"]), (&json!("parent"), &json!(0)));
    assert_eq!(daemon.events("parent"), parent);
}

/// B088: an answered fork is whole on disk.
#[test]
fn fork_loses_history() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("parent", &rewritten()[..8]);
    let parent = daemon.events("parent");
    fork(&mut daemon, "parent", "child", None);
    daemon.kill();
    let mut daemon = store.daemon();
    let opened = daemon.ok("session/load", json!({"sessionId": "child"}));
    assert_eq!((&opened["inheritedEventCount"], opened.get("repaired")), (&json!(8), None));
    assert_eq!(daemon.events("child")[..8], parent);
}

/// B089: the child's id is the key: a fork that is asked for again is told what its first request has made.
#[test]
fn fork_not_idempotent() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("parent", &turn(1, &[]));
    let asked = json!({"sessionId": "parent", "childSessionId": "child", "boundary": 5});
    let (first, again) =
        (daemon.send("session/fork", asked.clone()), daemon.send("session/fork", asked.clone()));
    let opened = daemon.answer(first).unwrap();
    let facts = |error: &Value| {
        let data = &error["data"];
        assert_eq!(data["code"], "SESSION_ALREADY_EXISTS", "{error}");
        (data["parentSession"].clone(), data["inheritedEventCount"].clone(), data["nextSeq"].clone())
    };
    let expected = (json!("parent"), opened["inheritedEventCount"].clone(), opened["nextSeq"].clone());
    assert_eq!(facts(&daemon.answer(again).unwrap_err()), expected);
    // The client was gone before the answer: it asks a new daemon.
    daemon.kill();
    let mut daemon = store.daemon();
    daemon.ok("session/load", json!({"sessionId": "parent"}));
    assert_eq!(facts(&daemon.call("session/fork", asked).unwrap_err()), expected);
    assert_eq!(daemon.rows(json!({})).len(), 2, "one child");
    daemon.ok("session/delete", json!({"sessionId": "child"}));
    assert_eq!(daemon.rows(json!({})).len(), 1);
}

/// B090: the child of a compacted session has the raw history; B095: and one cut before that derives it.
#[test]
fn fork_of_compacted_view() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("parent", &[user("u1", "one"), user("u2", "two"), user("u3", "three")]);
    daemon.put("parent", &[replacing(user("k", "one and two"), 0, 1, &[0, 1])]);
    fork(&mut daemon, "parent", "child", None);
    let said: Vec<Value> =
        daemon.events("child")[..4].iter().map(|event| event["data"]["id"].clone()).collect();
    assert_eq!(said, ["u1", "u2", "u3", "k"]);
    assert_eq!(surface(&mut daemon, "child", None), json!([3, 2]));
    assert_eq!(surface(&mut daemon, "child", Some(2)), json!([0, 1, 2]), "the view of then is there, too");
}

/// B095.
#[test]
fn rewind_before_compaction() {
    let store = Store::new();
    let mut daemon = store.daemon();
    daemon.new_with("parent", &[user("u1", "one"), user("u2", "two"), user("u3", "three")]);
    daemon.put("parent", &[replacing(user("k", "one and two"), 0, 1, &[0, 1]), user("u4", "four")]);
    fork(&mut daemon, "parent", "child", 2);
    let ids: Vec<Value> = daemon.messages("child").iter().map(|message| message["id"].clone()).collect();
    assert_eq!(ids, ["u1", "u2", "u3"]);
    daemon.ok("session/append", to("child", &user("u5", "another way")));
    assert_eq!(daemon.messages("parent").len(), 3, "and the parent is where it was");
}

/// B093: a boundary is the seq of an event of the raw log, whatever the surface shows; the answer repeats it.
#[test]
fn fork_wrong_boundary() {
    let store = Store::new();
    let mut daemon = store.daemon();
    let said = ["one", "two", "three", "four"];
    daemon.new_with("parent", &said.map(|text| user(text, text)));
    daemon.put("parent", &[replacing(user("k", "one and two"), 0, 1, &[0, 1]), user("five", "five")]);
    let opened = fork(&mut daemon, "parent", "child", 2);
    assert_eq!((&opened["boundary"], &opened["inheritedEventCount"]), (&json!(2), &json!(3)));
    let events = daemon.events("child");
    assert_eq!((events.len(), &events[2]["data"]["id"]), (4, &json!("three")));
    assert_eq!(events[3]["type"], "session/end-seed");
    for odd in [json!(-1), json!(1.5), json!(6), json!(9_007_199_254_740_993_u64), json!("2")] {
        let params = json!({"sessionId": "parent", "boundary": odd});
        let code = daemon.err("session/fork", params).0;
        assert!(code == "INVALID_BOUNDARY" || code == "INVALID_PARAMS", "{odd}: {code}");
    }
    daemon.put("parent", &[turn_start(1), step_start(1, 1), assistant(1, 1, "a", &[tool_call("c")])]);
    assert_eq!(
        daemon.err("session/fork", json!({"sessionId": "parent"})).0,
        "OPEN_TURN",
        "nothing is clipped silently"
    );
    let params = json!({"sessionId": "parent", "onOpenTurn": "clip"});
    assert_eq!(
        daemon.ok("session/fork", params)["boundary"],
        Value::Null,
        "and the answer says where it was"
    );
}
