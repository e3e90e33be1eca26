//! Does the list of scenarios name every entry, with a test or transcript that is there, and every test of this folder?

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::needed;

struct Entry {
    id: String,
    kind: String,
    verdict: String,
    places: Vec<String>,
    why: String,
}

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn entries() -> Vec<Entry> {
    let text = fs::read_to_string(project("tests/fixtures/scenarios.tsv")).unwrap();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [id, kind, verdict, places, why] = fields[..] else { panic!("five fields: {line}") };
        let places = places.split_whitespace().map(str::to_owned).collect();
        Entry {
            id: id.to_owned(),
            kind: kind.to_owned(),
            verdict: verdict.to_owned(),
            places,
            why: why.to_owned(),
        }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

/// Tests by the names of their files: those below a `#[test]`, and those inside `proptest!`.
fn tests_in(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap();
    let mut found = BTreeSet::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            marked = true;
        } else if let Some(name) = line.strip_prefix("fn ").filter(|_| marked) {
            found.insert(name.split('(').next().unwrap().to_owned());
            marked = false;
        }
    }
    found
}

fn file_of(place: &str) -> (PathBuf, &str) {
    let (file, name) = place.rsplit_once("::").unwrap();
    (project(&format!("tests/{}.rs", file.replace("::", "/"))), name)
}

#[test]
fn every_place_is_there() {
    for Entry { id, places, .. } in entries() {
        for place in places {
            if place.starts_with("transcripts/") {
                assert!(project(&place).is_file(), "{id}: {place}");
            } else {
                let (file, name) = file_of(&place);
                assert!(file.is_file() && tests_in(&file).contains(name), "{id}: {place}");
            }
        }
    }
}

#[test]
fn every_entry_says_what_is_done_about_it() {
    let mut named: BTreeMap<String, bool> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for Entry { id, kind, verdict, places, why } in entries() {
        assert!(ids.insert(id.clone()), "{id} stands twice");
        match verdict.as_str() {
            "holds" => assert!(!places.is_empty(), "{id} is not tested"),
            "differs" => {
                assert!(!places.is_empty() && !why.is_empty(), "{id} is not tested, or says no reason")
            }
            "none" => assert!(!why.is_empty(), "{id} says no reason"),
            other => panic!("{id}: {other}"),
        }
        let snake = kind.replace('-', "_");
        let by_its_name = places.iter().any(|place| place.rsplit("::").next() == Some(&snake));
        *named.entry(kind).or_default() |= by_its_name || verdict == "none";
    }
    let unnamed: Vec<_> = named.iter().filter(|(_, named)| !**named).collect();
    assert_eq!(unnamed, [], "kinds without a test of their name");
}

#[test]
fn every_test_of_this_folder_is_listed() {
    let listed: BTreeSet<String> = entries().into_iter().flat_map(|entry| entry.places).collect();
    for entry in fs::read_dir(project("tests/scenarios")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if ["main", "table", "isolation"].contains(&file.as_str()) {
            continue;
        }
        for name in tests_in(&path) {
            assert!(listed.contains(&format!("scenarios::{file}::{name}")), "{file}::{name} is in no entry");
        }
    }
}

#[test]
#[ignore = "needs ../shared/scenarios"]
fn the_list_is_that_of_the_contract() {
    let text = fs::read_to_string(needed("scenarios/scenarios.jsonl")).unwrap();
    let entry = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        (entry["id"].as_str().unwrap().to_owned(), entry["kind"].as_str().unwrap().to_owned())
    };
    let theirs: Vec<_> = text.lines().map(entry).collect();
    let ours: Vec<_> = entries().into_iter().map(|entry| (entry.id, entry.kind)).collect();
    assert_eq!(ours, theirs);
}
