//! Do logs hold what was pushed, and do forks share a prefix without ever seeing what came after?

use proptest::prelude::*;
use sessiond::json::Json;
use sessiond::log::{Draft, Log, Offset, Run, Seq, TypeSet};

fn offset(n: usize) -> Offset {
    Offset::new(n as u64).unwrap()
}

fn seq(n: usize) -> Seq {
    Seq::new(n as u64).unwrap()
}

/// Types by turns, in spellings of their own: one in `TYPES.len()` events is of each, but the last is rare.
const TYPES: [(&str, &str); 4] = [
    ("plugin/x", "plugin/x"),
    ("turn/start", "turn\\/start"),
    ("plan/mode", "plan/mode"),
    ("rare", "r\\u0061re"),
];

/// Pushes an event whose data is the string `text`, and gives its line as it must be.
fn push(log: &mut Log, text: &str, time: i64) -> String {
    let data = format!("\"{text}\"");
    let at = log.len().get();
    let (_, spelling) = if at % 97 == 96 { TYPES[3] } else { TYPES[(at / 7 % 3) as usize] };
    let kind = format!("\"{spelling}\"");
    let type_text = Json::parse(&kind).unwrap().0.as_str().unwrap();
    let (seq, _) = log.push(&Draft::new(type_text, Json::parse(&data).unwrap().0), time);
    assert_eq!(seq.get(), at);
    format!(r#"{{"type":{kind},"seq":{at},"time":{time},"data":{data}}}"#)
}

/// The events of these types in a range, by the segments that may have them.
fn of_types<'l>(log: &'l Log, types: &TypeSet<'_>, (from, to): (usize, usize)) -> Vec<&'l str> {
    let runs = |run: &Run<'_>| run.may_have(types);
    let found: Vec<_> = log.runs(offset(from), offset(to)).filter(runs).flatten().collect();
    let mut back: Vec<_> =
        log.runs(offset(from), offset(to)).rev().filter(runs).flat_map(Iterator::rev).collect();
    back.reverse();
    assert!(found.iter().map(|event| event.seq()).eq(back.iter().map(|event| event.seq())));
    found.into_iter().filter(|event| types.has(*event)).map(|event| event.line()).collect()
}

fn filled(count: usize, width: usize) -> (Log, Vec<String>) {
    let mut log = Log::new();
    let lines = (0..count).map(|n| push(&mut log, &"x".repeat(width), n as i64)).collect();
    (log, lines)
}

/// All ways of reading a log give these lines.
fn assert_holds(log: &Log, lines: &[String]) {
    assert_eq!(log.len(), offset(lines.len()));
    assert_eq!(log.is_empty(), lines.is_empty());
    assert_eq!(log.last().map(|event| event.line()), lines.last().map(String::as_str));
    assert!(log.get(seq(lines.len())).is_none());
    for (at, line) in lines.iter().enumerate() {
        let event = log.get(seq(at)).unwrap();
        assert_eq!((event.line(), event.seq()), (line.as_str(), seq(at)));
    }
    assert_eq!(log.iter().len(), lines.len());
    assert!(log.iter().map(|event| event.line()).eq(lines.iter()));
    assert!(log.iter().rev().map(|event| event.line()).eq(lines.iter().rev()));
    let (third, half) = (lines.len() / 3, lines.len().div_ceil(2));
    for (from, to) in
        [(0, lines.len() + 9), (third, half), (half, third), (half, lines.len()), (third, third)]
    {
        let want = lines.get(from..to.min(lines.len())).unwrap_or(&[]);
        let got = log.range(offset(from), offset(to)).map(|event| event.line());
        assert!(got.eq(want.iter()), "{from}..{to}");
        let text: String = log.lines(offset(from), offset(to)).collect();
        assert_eq!(text, want.iter().map(|line| format!("{line}\n")).collect::<String>(), "{from}..{to}");
        for (name, spelling) in TYPES {
            let start = format!("{{\"type\":\"{spelling}\"");
            let want: Vec<_> = want.iter().filter(|line| line.starts_with(&start)).collect();
            let types = TypeSet::new([name, "nobody's"]);
            assert_eq!(of_types(log, &types, (from, to)), want, "{name} in {from}..{to}");
        }
        let none = TypeSet::new(["turn/end", "goal/change", "plugin/y"]);
        assert!(log.runs(offset(from), offset(to)).all(|run| !run.may_have(&none)));
    }
}

#[test]
fn an_empty_log() {
    let mut log = Log::new();
    assert_holds(&log, &[]);
    assert_eq!(log.footprint(), 0);
    assert_holds(&log.fork(offset(3)), &[]);
    log.truncate(Offset::ZERO);
    assert_holds(&log, &[]);
}

#[test]
fn every_boundary_forks_and_later_events_stay_apart() {
    let (mut parent, mut lines) = filled(150, 40);
    for at in 0..=150 {
        let mut child = parent.fork(offset(at));
        assert_holds(&child, &lines[..at]);
        let own = push(&mut child, "child", 7);
        let after = push(&mut parent, "parent", 8);
        lines.push(after);
        let mut want = lines[..at].to_vec();
        want.push(own);
        assert_holds(&child, &want);
    }
    assert_holds(&parent, &lines);
}

#[test]
fn forks_of_forks_and_cuts_inside_sealed_segments() {
    let (mut log, lines) = filled(300, 60);
    let mut child = log.fork(offset(200));
    let mut grandchild = child.fork(offset(111));
    child.truncate(offset(57));
    assert_holds(&child, &lines[..57]);
    assert_holds(&grandchild, &lines[..111]);
    let mut want = lines[..57].to_vec();
    want.push(push(&mut child, "again", 1));
    assert_holds(&child, &want);
    grandchild.truncate(Offset::ZERO);
    assert_holds(&grandchild, &[]);
    log.truncate(offset(299));
    log.truncate(offset(500));
    assert_holds(&log, &lines[..299]);
}

#[test]
fn segments_grow_and_say_when_a_new_one_begins() {
    let mut log = Log::new();
    let type_text = Json::parse("\"t\"").unwrap().0.as_str().unwrap();
    let data = format!("\"{}\"", "x".repeat(100));
    let data = Json::parse(&data).unwrap().0;
    let fresh: Vec<u64> = (0..20_000)
        .filter_map(|_| {
            let (seq, fresh) = log.push(&Draft::new(type_text, data), 0);
            fresh.then_some(seq.get())
        })
        .collect();
    assert_eq!(fresh[0], 0);
    let gaps: Vec<_> = fresh.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.windows(2).all(|pair| pair[1] + 1 >= pair[0]), "{gaps:?}");
    assert!(fresh.len() < 16, "{} segments for 3 MB", fresh.len());
    let lines: usize = log.lines(Offset::ZERO, log.len()).map(str::len).sum();
    let overhead = (log.footprint() - lines) / 20_000;
    assert!(overhead < 96, "{overhead} bytes beside the line for each event");
}

#[test]
fn an_event_larger_than_a_segment_gets_its_own() {
    let (mut log, mut lines) = filled(3, 10);
    lines.push(push(&mut log, &"y".repeat(3 << 20), 5));
    lines.push(push(&mut log, "z", 6));
    assert_holds(&log, &lines);
    let child = log.fork(offset(4));
    assert_holds(&child, &lines[..4]);
}

#[test]
fn sealed_memory_is_lines_and_sixteen_bytes_an_event_and_the_names_of_types() {
    let (mut log, lines) = filled(10_000, 200);
    let text: usize = lines.iter().map(|line| line.len() + 1).sum();
    let child = log.fork(log.len());
    // Three types a segment go by name, and there are 13 segments.
    let names: usize = TYPES.iter().map(|(_, spelling)| spelling.len() + 2 + size_of::<Box<str>>()).sum();
    let exact = text + 16 * lines.len();
    assert!((exact..exact + 13 * names).contains(&child.footprint()), "{} beside {exact}", child.footprint());
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize, usize),
    Fork(usize, usize),
    Truncate(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (log, at) = (0usize..6, 0usize..400);
    prop_oneof![
        6 => (log.clone(), 0usize..400).prop_map(|(log, width)| Step::Push(log, width)),
        2 => (log.clone(), at.clone()).prop_map(|(log, at)| Step::Fork(log, at)),
        1 => (log, at).prop_map(|(log, at)| Step::Truncate(log, at)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_of_forks_and_cuts(steps in prop::collection::vec(step(), 0..250)) {
        let mut all = vec![(Log::new(), Vec::new())];
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(at, width) => {
                    let at = at % all.len();
                    let (log, lines) = &mut all[at];
                    lines.push(push(log, &"w".repeat(width), n as i64 - 50));
                }
                Step::Fork(at, length) => {
                    let at = at % all.len();
                    let (log, lines) = &mut all[at];
                    let length = length % (lines.len() + 2);
                    let child = (log.fork(offset(length)), lines[..length.min(lines.len())].to_vec());
                    if all.len() < 6 { all.push(child) } else { all[n % 6] = child }
                }
                Step::Truncate(at, length) => {
                    let at = at % all.len();
                    let (log, lines) = &mut all[at];
                    let length = length % (lines.len() + 2);
                    log.truncate(offset(length));
                    lines.truncate(length);
                }
            }
        }
        for (log, lines) in &all {
            assert_holds(log, lines);
        }
    }
}
