//! Does the scanner accept exactly the JSON grammar, at any depth, in linear time?
//!
//! The independent judge is serde_json reading into `IgnoredAny`: it checks the grammar alone, without
//! numbers' ranges, surrogates or a depth limit.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde::de::IgnoredAny;
use sessiond::json::{FaultKind, Json, Scratch, Type, pointer_at};

fn accepts(text: &str) -> bool {
    Json::parse(text).is_ok()
}

fn grammar_accepts(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Texts of JSON values, with odd spellings and white space.
fn json_text() -> impl Strategy<Value = String> {
    let space = "[ \t\r\n]{0,2}";
    let string = prop_oneof![
        "\"[a-zéß€\u{85}\u{2028}😀 ]{0,20}\"",
        r#""([a-z]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|\\ud83d\\ude00){0,12}""#,
    ];
    let number = prop_oneof![
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",
        any::<f64>().prop_map(|n| if n.is_finite() { format!("{n:?}") } else { "0".into() }),
    ];
    let leaf = prop_oneof![string.clone(), number, "true|false|null"];
    leaf.prop_recursive(5, 60, 8, move |inner| {
        let padded = (space, inner, space).prop_map(|(a, b, c)| a + &b + &c);
        let member =
            (space, string.clone(), space, padded.clone()).prop_map(|(a, b, c, d)| a + &b + &c + ":" + &d);
        prop_oneof![
            (space, prop::collection::vec(padded, 1..8))
                .prop_map(|(_, items)| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 1..8).prop_map(|items| format!("{{{}}}", items.join(","))),
            space.prop_map(|a| format!("[{a}]")),
            space.prop_map(|a| format!("{{{a}}}")),
        ]
    })
}

/// Pieces that break or bend a text where they land.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "\"", "\\", "{", "}", "[", "]", ",", ":", "-", "0", "1", ".", "e", "+", "\\u", "\\ud8", " ", "\n",
        "\u{0}", "\u{1f}", "\u{7f}", "\u{85}", "\u{2028}", "é", "t", "null", "tru", "//", "\u{feff}", "'",
        "NaN", "01", "1.", "\\x", "\\u12g4",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_texts_are_accepted_whole(text in json_text()) {
        prop_assert!(grammar_accepts(&text), "generator: {text}");
        let (value, checks) = Json::parse(&text).unwrap();
        prop_assert_eq!(value.text(), text.trim_matches([' ', '\t', '\r', '\n']));
        prop_assert!(checks.depth >= 1);
    }

    #[test]
    fn mutated_texts_are_judged_alike(
        text in json_text(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..3, piece()), 1..4),
    ) {
        let mut text = text;
        for (at, cut, insert) in edits {
            let boundary = |from: usize| (from..).find(|&at| text.is_char_boundary(at)).unwrap();
            let at = boundary(at.index(text.len() + 1));
            let end = boundary((at + cut).min(text.len()));
            text.replace_range(at..end, insert);
        }
        prop_assert_eq!(accepts(&text), grammar_accepts(&text), "{}", text);
    }

    #[test]
    fn token_soup_is_judged_alike(pieces in prop::collection::vec(piece(), 0..12)) {
        let text = pieces.concat();
        prop_assert_eq!(accepts(&text), grammar_accepts(&text), "{}", text);
    }

    #[test]
    fn every_prefix_is_refused_or_a_number(text in json_text()) {
        for (end, _) in text.char_indices() {
            let head = &text[..end];
            prop_assert_eq!(accepts(head), grammar_accepts(head), "{}", head);
        }
    }
}

#[test]
fn what_is_not_json() {
    for text in [
        "",
        " ",
        "\u{feff}1",
        "1 2",
        "{}{}",
        "[1,]",
        "[,1]",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{1:1}",
        "01",
        "-",
        "-01",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x1",
        "NaN",
        "Infinity",
        "-Infinity",
        "nul",
        "nulll",
        "True",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"\t\"",
        "\"\u{0}\"",
        "\u{0}",
        "[1\u{0}]",
        "[\u{a0}1]",
        "\u{2028}1",
        "'a'",
        "[1}",
        "{\"a\":1]",
        "]",
        "}",
        ",",
        ":",
        "[\"a\":1]",
        "{\"a\",1}",
        "tru",
        "\"a",
        "{\"a",
        "[[",
    ] {
        assert!(!accepts(text), "{text:?}");
        assert!(!grammar_accepts(text), "{text:?}");
    }
}

#[test]
fn lone_surrogate_escapes_are_strings_here() {
    for text in [r#""\ud83d""#, r#""\udc00\ud800""#, r#"{"\uDFFF":"\ud800x"}"#] {
        assert_eq!(Json::parse(text).unwrap().1.fault, None, "{text}");
    }
}

#[test]
fn a_number_beyond_a_double_is_json_with_a_fault() {
    let (value, checks) = Json::parse("[1,1e400]").unwrap();
    let fault = checks.fault.unwrap();
    assert_eq!((fault.kind, fault.offset), (FaultKind::Overflow, 3));
    assert_eq!(value.kind(), Type::Array);
}

#[test]
fn an_error_tells_its_byte() {
    for (text, offset) in
        [("[1,x]", 3), ("{\"é\":1,}", 8), ("[1", 2), ("\"a\nb\"", 2), ("1 2", 2), ("\"\\q\"", 2)]
    {
        assert_eq!(Json::parse(text).unwrap_err().offset, offset, "{text:?}");
    }
}

#[test]
fn depth_counts_containers_and_starts_at_one() {
    for (text, depth) in [
        ("1", 1),
        ("\"[[[\"", 1),
        ("{}", 1),
        ("[]", 1),
        ("{\"a\":1,\"b\":[]}", 2),
        ("[1,2,[3],4]", 2),
        ("[[],[[]],[]]", 3),
        (" { \"a\" : { \"b\" : [ 1 ] } } ", 3),
    ] {
        assert_eq!(Json::parse(text).unwrap().1.depth, depth, "{text}");
    }
}

/// `open` and `close` repeated around `middle`.
fn nest(open: &str, middle: &str, close: &str, times: usize) -> String {
    open.repeat(times) + middle + &close.repeat(times)
}

#[test]
fn depth_costs_memory_but_no_stack() {
    let small_stack = std::thread::Builder::new().stack_size(64 << 10);
    let work = || {
        for (open, middle, close) in [("[", "1", "]"), ("{\"a\":", "{}", "}"), ("[{\"k\":[", "", "]}]")] {
            let text = nest(open, middle, close, 100_000);
            let (_, checks) = Json::parse(&text).unwrap();
            assert!(checks.depth >= 100_000, "{}", checks.depth);
            assert!(!accepts(&text[..text.len() - 1]));
        }
    };
    small_stack.spawn(work).unwrap().join().unwrap();
}

/// Levels about as many as are known by all that is in them (16,384), and far more.
#[test]
fn a_text_is_json_or_not_at_any_depth() {
    let mut scratch = Scratch::default();
    for levels in [10_u32, 16_382, 16_383, 16_384, 16_385, 16_386, 40_000] {
        let open: String = (0..levels).map(|n| if n % 3 == 0 { "[0," } else { "{\"a\":1,\"b\":" }).collect();
        let shut: String = (0..levels).rev().map(|n| if n % 3 == 0 { ",2]" } else { ",\"c\":{}}" }).collect();
        let text = format!("{open}null{shut}");
        let (value, checks) = scratch.scan(&text).unwrap();
        assert_eq!((value.text(), checks.fault, checks.needs_compaction), (&*text, None, false), "{levels}");
        // What closes an object holds a level more.
        assert_eq!(checks.depth, if levels % 3 == 1 { levels } else { levels + 1 }, "{levels}");
        assert_eq!(Json::parse(&text).unwrap().1, checks);
        let inner = open.len() + 4;
        let innermost = inner + if levels % 3 == 1 { 2 } else { 7 };
        let shut_as_other = if levels % 3 == 1 { "}" } else { "]" };
        for (at, with) in [
            (inner, "}"),
            (inner, "]"),
            (innermost, shut_as_other),
            (text.len() - 1, "}"),
            (text.len() - 1, ""),
        ] {
            let mut broken = text.clone();
            broken.replace_range(at..at + 1, with);
            assert!(!accepts(&broken), "{levels}: {with:?} at {at}");
        }
        for closed in ["[]", "{}", "[[]]", "{\"a\":[]}"] {
            let flat = text.replace("null", closed);
            let more = 1 + u32::from(closed.len() > 2);
            assert_eq!(Json::parse(&flat).unwrap().1.depth, levels + more, "{levels} {closed}");
        }
    }
    assert_walks_alike("{\"small\":[1,2]}", &mut scratch);
}

#[test]
fn keys_are_compared_in_all_levels_that_may_be_kept() {
    let text = |levels| nest("[", r#"{"a":1,"a":2}"#, "]", levels);
    for levels in [1, 10_010, 16_000] {
        let (_, checks) =
            Json::parse(&text(levels)).map(|(value, checks)| (value.text().len(), checks)).unwrap();
        assert!(checks.fault.is_some(), "{levels}");
    }
    // Those around what is far inside, too.
    let text = format!(r#"{{"a":{},"a":0}}"#, nest("[", "", "]", 100_000));
    assert_eq!(Json::parse(&text).unwrap().1.fault.map(|fault| fault.offset), Some(text.len() - 6));
}

#[test]
fn a_place_far_inside_is_told_by_its_outer_levels() {
    let outer = nest("[", "", "", 100_000) + "-0" + &"]".repeat(100_000);
    assert_eq!(pointer_at(&outer, 100_000), "/0".repeat(128));
    let behind = format!(
        r#"{{"a":{},"b":[1,-0]}}"#,
        nest("[{\"x\":1,\"y\":", "1,2", "}]", 50_000).replace("1,2", "12")
    );
    assert_eq!(pointer_at(&behind, behind.len() - 4), "/b/1");
}

/// The shortest of three runs, so that a busy machine does not decide.
fn shortest(text: &str) -> Duration {
    let run = |_| {
        let start = Instant::now();
        Json::parse(text).unwrap();
        start.elapsed()
    };
    (0..3).map(run).min().unwrap()
}

#[test]
fn time_is_linear_in_depth_and_in_keys() {
    let deep = |levels| nest("[{\"key\":", "0", "}]", levels);
    let keys = |count: usize| {
        let members: Vec<_> =
            (0..count).map(|n| format!("\"\\u006bey-with-a-long-common-prefix-{n}\":0")).collect();
        format!("{{{}}}", members.join(","))
    };
    let texts: [(&str, String, String); 3] = [
        ("levels", deep(50_000), deep(800_000)),
        ("keys", keys(10_000), keys(160_000)),
        ("elements", format!("[{}0]", "0,".repeat(100_000)), format!("[{}0]", "0,".repeat(1_600_000))),
    ];
    for (name, short, long) in &texts {
        let (a, b) = (shortest(short), shortest(long));
        // Sixteen times the text: a quadratic scan would take 256 times as long.
        assert!(b < a * 100 + Duration::from_millis(50), "{name}: {a:?}, then {b:?}");
    }
}

#[test]
fn a_scratch_gives_back_what_an_extreme_line_took() {
    let mut scratch = Scratch::default();
    let text = nest("[", "", "]", 200_000);
    scratch.scan(&text).unwrap();
    scratch.trim();
    let (_, checks) = scratch.scan("[1]").unwrap();
    assert_eq!(checks.depth, 1);
}

/// All values of a text in order, with their keys.
fn walked(value: Json<'_>, out: &mut Vec<String>) {
    for (key, member) in value.members() {
        let text = member.as_str().map(|text| (text.plain().map(str::to_owned), text.is_empty()));
        out.push(format!("{} {:?} {} {text:?}", key.text(), key.plain(), member.text()));
        walked(member, out);
    }
    for element in value.elements() {
        out.push(element.text().to_owned());
        walked(element, out);
    }
}

fn assert_walks_alike(text: &str, scratch: &mut Scratch) {
    let (plain, checks) = Json::parse(text).unwrap();
    let (taped, same_checks) = scratch.scan(text).unwrap();
    assert_eq!(checks, same_checks, "{text}");
    let (mut by_bytes, mut by_tape) = (Vec::new(), Vec::new());
    walked(plain, &mut by_bytes);
    walked(taped, &mut by_tape);
    assert_eq!(by_bytes, by_tape, "{text}");
}

#[test]
fn members_are_the_same_by_tape_and_by_bytes() {
    let mut scratch = Scratch::default();
    for text in [
        " { \"a\" : [ 1 , { } , [ ] ] , \"b\\n\":{\"c\":-0},\"d\":[[2],\"\\\"}\"], \"e\" : \"x\" , \"a long key of more bytes\":{} } ",
        "[]",
        "{}",
        "\"text\"",
        "7",
        "[{\"a\":{\"b\":{\"c\":[true,false,null,-1.5e3]}}},\"\u{2028}\u{e9}\",{\"\":\"\"}]",
    ] {
        assert_walks_alike(text, &mut scratch);
    }
    // One more value than a tape takes, and far more: the bytes are walked then.
    for count in [65_534, 65_535, 65_536, 200_000] {
        let many = format!("{{\"list\":[{}0],\"after\":{{\"x\":\"y\"}}}}", "1,".repeat(count));
        let (value, _) = scratch.scan(&many).unwrap();
        let list = value.get("list").unwrap();
        assert_eq!(list.elements().count(), count + 1);
        assert!(value.at(&["after", "x"]).unwrap().is_str("y"));
    }
    assert_walks_alike("{\"small\":[1,2]}", &mut scratch);
}
