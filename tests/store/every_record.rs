//! `sessiond verify` and `session/inspect` judge every record of a log by itself, as far as that is told by the record.

use serde_json::{Value, json};

use crate::maintain_support::{Store, ask, header, rows};

/// What `verify` and `session/inspect` name of a log, as lines; they name the same ones.
fn named(lines: &[String]) -> (Vec<u64>, Value) {
    let store = Store::with(lines.concat().as_bytes());
    let (_, mut sessions, _) = store.verify();
    let problems = sessions[0]["problems"].as_array().unwrap();
    let named: Vec<u64> = problems.iter().filter_map(|problem| problem["line"].as_u64()).collect();
    let inspected = &ask(store.dir.path(), "s", &["session/inspect"])[0]["result"]["problems"];
    let told: Vec<&str> = inspected.as_array().unwrap().iter().filter_map(|told| told.as_str()).collect();
    let prefix = |line: &u64| format!("line {line} (");
    assert!(
        named.iter().zip(&told).all(|(line, told)| told.starts_with(&prefix(line))),
        "{named:?} {told:?}"
    );
    (named, sessions.remove(0))
}

#[test]
fn every_record_is_judged_by_itself() {
    let sound: Vec<String> = [vec![header("s")], rows(21)].concat();
    let renumber = |line: &str, by: usize| {
        let (before, seq) = line.split_once("\"seq\":").unwrap();
        let (seq, behind) = seq.split_once(',').unwrap();
        format!("{before}\"seq\":{},{behind}", seq.parse::<usize>().unwrap() + by)
    };
    let message = |line: &str, from: &str, to: &str| {
        assert!(line.contains(from), "{line}");
        line.replace(from, to)
    };
    type Spoil<'s> = &'s dyn Fn(&str) -> String;
    let spoils: [(&str, [usize; 2], Spoil<'_>); 9] = [
        ("seq", [4, 18], &|line| renumber(line, 60)),
        ("low seq", [7, 18], &|line| message(line, "\"seq\":", "\"seq\":0,\"was\":")),
        ("garbage", [4, 18], &|line| line.replace('{', "<")),
        ("role", [6, 18], &|line| message(line, "\"role\":\"user\"", "\"role\":\"nobody\"")),
        ("marker", [6, 18], &|line| message(line, ",\"surfaceOp\":\"append\"", "")),
        ("range", [6, 18], &|line| message(line, "\"append\"", "{\"op\":\"replace\",\"start\":0,\"end\":0}")),
        ("type", [6, 18], &|line| message(line, "user/message", "x/unknown")),
        ("turn end", [4, 19], &|line| message(line, ",\"reason\":{\"kind\":\"completed\"}", "")),
        ("time", [4, 18], &|line| message(line, "\"time\":", "\"time\":\"soon\",\"was\":")),
    ];
    for (name, places, spoil) in &spoils {
        let mut lines = sound.clone();
        places.iter().for_each(|line| lines[line - 1] = spoil(&lines[line - 1]));
        let (named, report) = named(&lines);
        assert_eq!(named, places.map(|line| line as u64), "{name}: {report}");
        for problem in report["problems"].as_array().unwrap() {
            assert_ne!(problem["class"], "", "{name}: {problem}");
        }
    }
    // What is wrong in one way hides nothing that is wrong in another, as far as that is told by the record.
    let mut lines = sound.clone();
    for (line, (_, _, spoil)) in
        [(3, &spoils[3]), (6, &spoils[5]), (8, &spoils[2]), (12, &spoils[4]), (15, &spoils[6])]
    {
        lines[line - 1] = spoil(&lines[line - 1]);
    }
    lines[16] = spoils[0].2(&lines[16]);
    assert_eq!(named(&lines).0, [3, 6, 8, 12, 15, 17]);
    // One that is lost, or there twice, is one thing.
    for line in [5, 6, 7] {
        let (mut lost, mut twice) = (sound.clone(), sound.clone());
        lost.remove(line);
        twice.insert(line, sound[line].clone());
        assert_eq!(named(&lost).0, [line as u64 + 1]);
        assert_eq!(named(&twice).0, [line as u64 + 2]);
    }
}

#[test]
fn of_very_many_problems_the_first_are_named_and_the_others_counted() {
    for (from, to) in [("\"role\":\"user\"", "\"role\":\"nobody\""), ("\"type\":\"user/message\"", "")] {
        let lines: Vec<String> = rows(900).iter().map(|line| line.replace(from, to)).collect();
        let (named, report) = named(&[vec![header("s")], lines].concat());
        assert_eq!((named.len(), &report["moreProblems"]), (100, &json!(200)), "{report}");
        assert!(named.iter().enumerate().all(|(index, line)| *line == 3 * index as u64 + 3));
    }
}
