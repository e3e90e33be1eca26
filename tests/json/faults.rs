//! Does the scanner find what a store must refuse or rewrite, and say where it is?

use std::collections::BTreeSet;

use proptest::prelude::*;
use sessiond::json::{FaultAt, FaultKind, Json, pointer_at};

/// The first fault of a text: its kind and JSON Pointer.
fn fault(text: &str) -> Option<(FaultKind, String)> {
    let (value, checks) = Json::parse(text).unwrap();
    checks.fault.map(|fault| (fault.kind, pointer_at(value.text(), fault.offset)))
}

#[test]
fn negative_zero_in_all_spellings() {
    for text in ["-0", "-0.0", "-0.000", "-0e5", "-0E-5", "-0.0e+9", "-1e-400", "-0.1e-999", "-2e-324"] {
        assert_eq!(fault(text), Some((FaultKind::NegativeZero, String::new())), "{text}");
    }
    let long = format!("-0.{}1", "0".repeat(400));
    assert_eq!(fault(&long).unwrap().0, FaultKind::NegativeZero);
    for text in ["0", "0.0", "0e5", "1e-400", "-5e-324", "-3e-324", "-0.1", "-1", "\"-0\"", "{\"-0\":0}"] {
        assert_eq!(fault(text), None, "{text}");
    }
}

#[test]
fn overflow_and_long_integers() {
    for text in ["1e400", "-1e400", "1E309", "1.8e308", "1e99999999999999999999", "0.1e400"] {
        assert_eq!(fault(text), Some((FaultKind::Overflow, String::new())), "{text}");
    }
    assert_eq!(fault(&"9".repeat(310)).unwrap().0, FaultKind::Overflow);
    for text in ["1.7976931348623157e308", "9007199254740993", "0e400", "123456789012345678901234567890"] {
        assert_eq!(fault(text), None, "{text}");
    }
    assert_eq!(fault(&"9".repeat(300)), None);
    assert_eq!(fault(&format!("1.{}", "9".repeat(5000))), None);
}

#[test]
fn duplicate_keys_small_and_large() {
    assert_eq!(fault(r#"{"a":1,"b":2,"a":3}"#), Some((FaultKind::DuplicateKey, "/a".into())));
    assert_eq!(fault(r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}"#), None);
    assert_eq!(fault(r#"{"":1,"":2}"#), Some((FaultKind::DuplicateKey, "/".into())));
    assert_eq!(fault(r#"{"longer-key-1":1,"longer-key-2":2}"#), None);
    for count in [2, 23, 24, 25, 26, 60, 500] {
        let mut keys: Vec<_> = (0..count).map(|n| format!("\"key {n}\":{n}")).collect();
        let object = |keys: &[String]| format!("{{{}}}", keys.join(","));
        assert_eq!(fault(&object(&keys)), None, "{count}");
        for (from, to) in [(0, count), (count - 1, count), (count / 2, 0), (0, 1)] {
            let mut keys = keys.clone();
            keys.insert(to, keys[from].clone());
            let text = object(&keys);
            let found = fault(&text).unwrap_or_else(|| panic!("{count} {from} {to}"));
            assert_eq!(found.0, FaultKind::DuplicateKey);
            assert_eq!(found.1, format!("/key {from}"));
        }
        keys.push("\"k\\u0065y 0\":0".into());
        assert_eq!(fault(&object(&keys)), Some((FaultKind::DuplicateKey, "/key 0".into())), "{count}");
    }
}

#[test]
fn the_same_key_in_another_spelling() {
    for text in [
        r#"{"a":1,"\u0061":2}"#,
        r#"{"\u0061":1,"a":2}"#,
        r#"{"\u0061":1,"\U":2}"#.replace("\\U", "\\u0061").as_str(),
        "{\"😀\":1,\"\\ud83d\\ude00\":2}",
        r#"{"\ud83d":1,"\uD83D":2}"#,
        r#"{"/":1,"\/":2}"#,
        r#"{"\n":1,"\u000a":2}"#,
    ] {
        assert_eq!(fault(text).map(|found| found.0), Some(FaultKind::DuplicateKey), "{text}");
    }
    assert_eq!(fault(r#"{"\ud83d":1,"\ud83e":2,"\udc00":3}"#), None);
    assert_eq!(fault(r#"{"\\u0061":1,"a":2,"A":3,"a ":4}"#), None);
}

#[test]
fn the_first_fault_counts() {
    assert_eq!(fault(r#"{"a":[1,-0],"b":1e400,"a":1}"#), Some((FaultKind::NegativeZero, "/a/1".into())));
}

#[test]
fn needs_compaction_is_what_must_be_rewritten() {
    for text in [
        "[1, 2]",
        "{\"a\" :1}",
        "[\n]",
        "{ }",
        "\"\u{85}\"",
        "[\"a\u{2028}\"]",
        "{\"\u{2029}\":1}",
        "[\"ß\u{2028}\"]",
    ] {
        assert!(Json::parse(text).unwrap().1.needs_compaction, "{text:?}");
    }
    for text in ["[1,2]", " [1] ", "\" \\n\\u2028\"", "\"€“—…é\u{84}\u{2027}\u{a0}\"", "{\"a b\":\"\u{7f}\"}"]
    {
        assert!(!Json::parse(text).unwrap().1.needs_compaction, "{text:?}");
    }
}

#[test]
fn pointers_name_the_place() {
    for (text, want) in [
        (r#"{"a":{"b":[0,{"c":-0}]}}"#, "/a/b/1/c"),
        (r#"{"a":{},"b":[[],[-0]]}"#, "/b/1/0"),
        (r#"[{"x":"],["},{"y":"\\\""},-0]"#, "/2"),
        (r#"{"a/b":{"c~d":-0}}"#, "/a~1b/c~0d"),
        (r#"{"\u0061":-0}"#, "/a"),
        (r#"{"":{"":-0}}"#, "//"),
        (r#"{"a":{"k":1,"k":2}}"#, "/a/k"),
        (" [ 1 , -0 ] ", "/1"),
        (r#"{"a":[{}],"b":-0}"#, "/b"),
    ] {
        assert_eq!(fault(text).unwrap().1, want, "{text}");
    }
}

#[test]
fn pointers_are_short_and_deep_ones_do_not_recurse() {
    let text = "[".repeat(100_000) + "-0" + &"]".repeat(100_000);
    let pointer = fault(&text).unwrap().1;
    assert_eq!(pointer, "/0".repeat(128));
    let text = format!("{{\"{}\":-0}}", "é".repeat(300));
    let pointer = fault(&text).unwrap().1;
    assert_eq!(pointer, format!("/{}", "é".repeat(127)));
}

/// Whether a value read by serde_json's rules holds the same key twice; keys are compared decoded.
fn has_duplicate(members: &[(String, u8)]) -> bool {
    members.iter().map(|member| &member.0).collect::<BTreeSet<_>>().len() < members.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn duplicates_are_found_in_any_spelling(
        members in prop::collection::vec(("[ab]{0,2}|[a-z]{1,12}|[é😀]{1,2}", any::<u8>()), 0..60),
        escape in any::<u64>(),
    ) {
        let spell = |(at, (key, value)): (usize, &(String, u8))| {
            let spelled: String = if escape >> (at % 64) & 1 == 1 {
                key.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
            } else {
                key.clone()
            };
            format!("\"{spelled}\":{value}")
        };
        let text = format!("{{{}}}", members.iter().enumerate().map(spell).collect::<Vec<_>>().join(","));
        let found = Json::parse(&text).unwrap().1.fault;
        prop_assert_eq!(found.is_some(), has_duplicate(&members), "{}", text);
    }

    #[test]
    fn a_number_is_faulty_when_its_double_is(text in "-?(0|[1-9][0-9]{0,8})(\\.[0-9]{1,6})?([eE][+-]?[0-9]{1,3})?") {
        let double: f64 = text.parse().unwrap();
        let want = if double.is_infinite() {
            Some(FaultKind::Overflow)
        } else if double == 0.0 && double.is_sign_negative() {
            Some(FaultKind::NegativeZero)
        } else {
            None
        };
        prop_assert_eq!(fault(&text).map(|found| found.0), want, "{}", text);
    }
}

#[test]
fn a_text_with_more_values_than_an_outline_holds_is_judged_alike() {
    let many = vec!["0"; 70_000].join(",");
    let wide: String = (0..30).map(|n| format!(r#""k{n}":{n},"#)).collect();
    for (before, kind, fault) in [
        (format!(r#"{{"a":1,"b":[{many}],"#), FaultKind::DuplicateKey, r#""\u0061":2}"#),
        (format!(r#"{{"a":1,"b":[{many}],"c":["#), FaultKind::NegativeZero, r#"-0]}"#),
        (format!(r#"{{"b":[{many}],"c":{{{wide}"#), FaultKind::DuplicateKey, r#""k7":1}}"#),
    ] {
        let text = format!("{before}{fault}");
        let (value, checks) = Json::parse(&text).unwrap();
        assert_eq!(checks.fault, Some(FaultAt { kind, offset: before.len() }), "{fault}");
        assert!(!checks.needs_compaction && checks.depth == 2);
        assert_eq!(value.get("b").unwrap().elements().count(), 70_000);
        let sound = text.replace(r"\u0061", "d").replace("-0", "0").replace(r#""k7":1"#, r#""k":1"#);
        assert_eq!(Json::parse(&sound).unwrap().1.fault, None);
        let torn = text.strip_suffix('}').unwrap();
        assert_eq!(Json::parse(torn).unwrap_err().offset, torn.len());
    }
}
