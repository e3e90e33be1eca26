//! Does a store of live sessions answer as the reference's recorded answers say?
//!
//! Every case of the conformance vectors with operations on live sessions runs here through the store's
//! public API; where this project differs on purpose (PROTOCOL 9), [`EXCEPTIONS`] says so and why, and an
//! exception that no case needs any more fails the test. Values without a session have tests of their
//! own, named in [`ELSEWHERE`].

use crate::support::{cases, vector_files};
use crate::vector_support::run::{Tally, run_case};

/// Where we differ from the reference on purpose: name, rule, reason.
const EXCEPTIONS: [(&str, &str, &str); 9] = [
    (
        "unknown type",
        "PROTOCOL 9.1",
        "a type outside the vocabulary is refused until it is declared; the vector then runs with it required",
    ),
    (
        "refused at load",
        "PROTOCOL 9.1",
        "an append or seed that load would refuse is refused at once, with the class that load gives; a \
         well-formed event of that type stands in, and what is said of that one event is not compared",
    ),
    (
        "duplicate key",
        "PROTOCOL 9.2",
        "the reference keeps the last value of a repeated key; here it is refused",
    ),
    ("empty id", "PROTOCOL 9.5", "a session id is not empty; the vector runs with another one"),
    ("own ids", "PROTOCOL 3, Ids", "an omitted session id is a UUID and not the next free number"),
    ("null boundary", "PROTOCOL 9.6", "a boundary that is null is an absent one"),
    ("shared prefix", "PROTOCOL 9.6", "a fork never re-validates what the log holds, so none fails at that"),
    (
        "lineage is a count",
        "PROTOCOL 3, Snapshot = seed",
        "isSeeded is not said but follows from meta.seedLength, so the two cannot disagree",
    ),
    (
        "seed checked whole",
        "PROTOCOL 9.1",
        "a seed's turn/end is held to the shape that load demands; the reference looks at load only",
    ),
];

/// Operations on values and stored logs, and the tests that run them on these vectors.
const ELSEWHERE: [(&str, &str); 14] = [
    ("isJsonValue", "json/vectors"),
    ("normalizeJson", "json/vectors"),
    ("repair", "log/repair"),
    ("pack", "log/chunk_rows"),
    ("roundtrip", "log/chunk_rows"),
    ("decode", "log/chunk_rows"),
    ("scanLog", "disk/load"),
    ("load", "disk/load"),
    ("headerLine", "log/headers"),
    ("canonicalHeader", "view/request"),
    ("headerEquals", "view/request"),
    ("foldRequestHeader", "view/request"),
    ("invariantCheck", "view/relations"),
    ("encodeSegment", "disk/paths"),
];

/// The same, for names on disk.
const PATHS: [(&str, &str); 2] = [("projectKey", "disk/paths"), ("logPath", "disk/paths")];

#[test]
fn live_sessions_answer_as_recorded() {
    let mut tally = Tally::default();
    let elsewhere: Vec<&str> = ELSEWHERE.iter().chain(&PATHS).map(|(op, _)| *op).collect();
    for file in vector_files(&["0", "1", "2"]) {
        for case in cases(&file) {
            run_case(&case, &mut tally, &elsewhere);
        }
    }
    let Tally { cases, ops, informative, stopped, .. } = tally;
    eprintln!(
        "{cases} cases, {ops} operations; {stopped} cases end early, {informative} informative operations"
    );
    for (name, rule, reason) in EXCEPTIONS {
        eprintln!("exception {:5} x {name} ({rule}): {reason}", tally.used.get(name).copied().unwrap_or(0));
    }
    eprintln!("not run here: {:?}", tally.unrun);
    for name in tally.used.keys() {
        assert!(EXCEPTIONS.iter().any(|(known, ..)| known == name), "{name} is not in the table");
    }
    for (name, ..) in EXCEPTIONS {
        assert!(tally.used.contains_key(name), "the exception {name:?} is needed no more: take it out");
    }
    for (op, test) in ELSEWHERE.iter().chain(&PATHS) {
        let path = format!("{}/tests/{test}.rs", env!("CARGO_MANIFEST_DIR"));
        let runs =
            test == &"disk/paths" || std::fs::read_to_string(&path).unwrap().contains(&format!("\"{op}\""));
        assert!(runs && std::path::Path::new(&path).exists(), "{op} is run nowhere");
    }
}
