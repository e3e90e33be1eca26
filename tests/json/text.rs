//! Does verified text read as serde_json reads it: walked, decoded, compared and compacted?

use proptest::prelude::*;
use serde_json::Value;
use sessiond::json::{
    Json, JsonStr, JsonText, Scratch, Type, equal, equal_except, escape_separators, quote, write_compact,
};

use crate::support;

fn json(text: &str) -> Json<'_> {
    Json::parse(text).unwrap().0
}

fn string(text: &str) -> JsonStr<'_> {
    json(text).as_str().unwrap()
}

/// The value as serde_json would hold it, built by walking.
fn tree(value: Json<'_>) -> Value {
    match value.kind() {
        Type::Null => Value::Null,
        Type::Bool => Value::Bool(value.as_bool().unwrap()),
        Type::Number => serde_json::from_str(value.text()).unwrap(),
        Type::String => Value::String(value.as_str().unwrap().decode().unwrap().into_owned()),
        Type::Array => value.elements().map(tree).collect(),
        Type::Object => {
            let member =
                |(key, value): (JsonStr<'_>, Json<'_>)| (key.decode().unwrap().into_owned(), tree(value));
            Value::Object(value.members().map(member).collect())
        }
    }
}

/// Values whose keys differ, as serde_json holds them.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // serde_json rounds long decimals its own way; eighths are exact in both.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        "[a-z\"\\\\\n\u{1}é€\u{85}\u{2028}\u{2029}😀/ ]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-d\"\\\\é]{0,3}", inner, 0..20)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// `value` spelled in another way: escapes for all characters, white space, members backwards.
fn respell(value: &Value, out: &mut String) {
    let escape = |text: &str, out: &mut String| {
        out.push('"');
        text.encode_utf16().for_each(|unit| out.push_str(&format!("\\u{unit:04X}")));
        out.push('"');
    };
    match value {
        Value::String(text) => escape(text, out),
        Value::Array(items) => {
            out.push_str("[ ");
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { " ,\n" } else { "" });
                respell(item, out);
            }
            out.push_str("\t]");
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (key, item)) in members.iter().rev().enumerate() {
                out.push_str(if at > 0 { "\r\n, " } else { " " });
                escape(key, out);
                out.push_str(" : ");
                respell(item, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn walking_sees_what_serde_json_sees(value in any_value()) {
        let plain = value.to_string();
        let mut odd = String::new();
        respell(&value, &mut odd);
        prop_assert_eq!(tree(json(&plain)), value.clone());
        prop_assert_eq!(tree(json(&odd)), value);
    }

    #[test]
    fn compact_text_is_one_line_and_the_same_value(value in any_value()) {
        for text in [serde_json::to_string_pretty(&value).unwrap(), value.to_string()] {
            let (kept, _) = JsonText::parse(&text).unwrap();
            let splits = kept.text().contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
            prop_assert!(!splits);
            let (again, checks) = Json::parse(kept.text()).unwrap();
            prop_assert!(!checks.needs_compaction);
            prop_assert_eq!(tree(again), value.clone());
        }
    }

    #[test]
    fn equality_is_that_of_values(a in any_value(), b in any_value()) {
        let (x, y) = (a.to_string(), b.to_string());
        let mut odd = String::new();
        respell(&a, &mut odd);
        prop_assert!(equal(json(&x), json(&odd)), "{} {}", x, odd);
        prop_assert_eq!(equal(json(&x), json(&y)), support::same_value(&a, &b), "{} {}", x, y);
    }

    #[test]
    fn quoting_and_decoding_are_inverse(text in any::<String>()) {
        let quoted = quote(&text);
        prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text.clone());
        prop_assert!(!Json::parse(&quoted).unwrap().1.needs_compaction);
        let read = string(&quoted);
        prop_assert_eq!(read.decode().unwrap(), text.as_str());
        prop_assert!(read.is(&text));
        prop_assert_eq!(read.units().collect::<Vec<_>>(), text.encode_utf16().collect::<Vec<_>>());
        prop_assert_eq!(&*read.wtf8(), text.as_bytes());
        prop_assert_eq!(read.is_empty(), text.is_empty());
    }

    #[test]
    fn strings_of_any_units_keep_them(units in prop::collection::vec(any::<u16>(), 0..20)) {
        let text: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
        let text = format!("\"{text}\"");
        let read = string(&text);
        prop_assert_eq!(read.units().collect::<Vec<_>>(), units.clone());
        prop_assert_eq!(read.decode().is_some(), String::from_utf16(&units).is_ok());
        prop_assert_eq!(read.lossy(), String::from_utf16_lossy(&units));
        let other = format!("\"{}\"", units.iter().map(|unit| format!("\\u{unit:04X}")).collect::<String>());
        prop_assert_eq!(read, string(&other));
        prop_assert_eq!(read.wtf8(), string(&other).wtf8());
    }
}

#[test]
fn strings_are_equal_by_unit() {
    assert_eq!(string(r#""\ud83d\ude00""#), string("\"😀\""));
    assert_eq!(string(r#""\u0061\/""#), string("\"a/\""));
    assert_ne!(string(r#""\ud83d""#), string(r#""\ude00""#));
    assert_ne!(string(r#""\ud83d""#), string("\"\u{fffd}\""));
    assert!(string(r#""\n""#).is("\n"));
    assert!(!string(r#""\n""#).is("n"));
    assert_eq!(string(r#""a\tb""#).plain(), None);
    assert_eq!(string(r#""\ud83d""#).decode(), None);
    assert_eq!(&*string(r#""\ud83d""#).wtf8(), [0xED, 0xA0, 0xBD]);
    assert_eq!(string(r#""x\ude00""#).lossy(), "x\u{fffd}");
}

#[test]
fn integers_in_any_spelling() {
    for (text, want) in [
        ("0", Some(0)),
        ("1.0", Some(1)),
        ("1e2", Some(100)),
        ("100e-2", Some(1)),
        ("-7", Some(-7)),
        ("9007199254740991", Some(9007199254740991)),
        ("-9007199254740991", Some(-9007199254740991)),
        ("9007199254740992", None),
        ("9007199254740993", None),
        ("123456789012345678901234567890", None),
        ("-0", None),
        ("-0.0", None),
        ("0.5", None),
        ("1e400", None),
        ("\"1\"", None),
        ("null", None),
    ] {
        assert_eq!(json(text).as_safe_int(), want, "{text}");
        assert_eq!(json(text).as_safe_uint(), want.and_then(|n| u64::try_from(n).ok()), "{text}");
    }
    assert_eq!(json("2.5e-324").as_f64(), Some(5e-324));
    assert_eq!(json("true").as_f64(), None);
}

#[test]
fn members_are_found_by_name() {
    let value = json(r#" { "a" : { "b" : [ 1 , { "c" : "}" } ] } , "\u0064" : "x\"," , "e" : null } "#);
    assert_eq!(value.at(&["a", "b"]).unwrap().text(), r#"[ 1 , { "c" : "}" } ]"#);
    assert!(value.get("d").unwrap().is_str("x\","));
    assert_eq!(value.get("e").unwrap().kind(), Type::Null);
    assert!(value.get("c").is_none());
    assert!(value.at(&["a", "x", "y"]).is_none());
    assert_eq!(value.elements().count(), 0);
    assert_eq!(json("[1]").members().count(), 0);
    assert_eq!(json("5").elements().count(), 0);
    let items: Vec<_> = json("[\"a]\",[[]],{},-1.5e3,true,false,null]").elements().map(Json::text).collect();
    assert_eq!(items, ["\"a]\"", "[[]]", "{}", "-1.5e3", "true", "false", "null"]);
}

#[test]
fn members_are_taken_in_order() {
    /// What is taken of the innermost object, if it has nothing else: a, b, c in that order.
    fn taken(object: Json<'_>) -> Option<String> {
        let mut spelt = object.ordered_fields();
        let found = [spelt.member(r#"{"a":"#), spelt.member(r#","b":"#), spelt.member(r#","c":"#)];
        let texts = found.map(|value| value.map_or("-", Json::text));
        spelt.is_whole().then(|| texts.join(" "))
    }
    let cases = [
        (r#"{"a":1,"b":[{"a":2,"b":3},4],"c":"é\""}"#, Some(r#"1 [{"a":2,"b":3},4] "é\"""#)),
        (r#"{"a":{"a":1,"b":2},"c":null}"#, Some(r#"{"a":1,"b":2} - null"#)),
        (r#"{"a":{}}"#, Some("{} - -")),
        (r#"{"b":1}"#, None),
        (r#"{"b":1,"a":2}"#, None),
        (r#"{"a":1,"c":2,"b":3}"#, None),
        (r#"{"a":1,"b":2,"c":3,"d":4}"#, None),
        (r#"{"a":1,"a":2}"#, None),
        (r#"{"a": 1}"#, None),
        (r#"{"a":1 }"#, None),
        (r#"{"a":1, "b":2}"#, None),
        (r#"{"\u0061":1}"#, None),
        (r#"{}"#, None),
        (r#"[1,2]"#, None),
        (r#""a""#, None),
        (r#"7"#, None),
    ];
    let mut scratch = Scratch::default();
    for (text, expected) in cases {
        assert_eq!(taken(scratch.scan(text).unwrap().0).as_deref(), expected, "{text}");
        // Places count from the beginning of the whole text, which may have space before it.
        let within = format!(" \t[0,{{\"x\":{text}}}]");
        let inner = scratch.scan(&within).unwrap().0.elements().nth(1).unwrap().get("x").unwrap();
        assert_eq!(taken(inner).as_deref(), expected, "{within}");
        assert_eq!(taken(json(text)), None, "no places are noted: {text}");
    }
}

#[test]
fn compact_keeps_every_spelling() {
    for (text, want) in [
        (" [ 1.50 , \"\\u0041 b\" ] ", "[1.50,\"\\u0041 b\"]"),
        ("{\"a\u{2028}\" : \"\u{85}é\u{2029}—\"}", "{\"a\\u2028\":\"\\u0085é\\u2029—\"}"),
        ("[\"\\\\\" , \"\\\"\" ]", "[\"\\\\\",\"\\\"\"]"),
        ("\t-0.0e5\r\n", "-0.0e5"),
    ] {
        let mut out = String::from(">");
        write_compact(text, &mut out);
        assert_eq!(out, format!(">{want}"));
    }
    let mut out = String::new();
    escape_separators("{ \"—\u{2028}\u{2028}x\u{c2}\u{85}\" }", &mut out);
    assert_eq!(out, "{ \"—\\u2028\\u2028x\u{c2}\\u0085\" }");
}

#[test]
fn equality_but_for_one_member() {
    let a = json(r#"{"x":1,"m":{"c":[{"t":1,"content":[1,2]}],"k":"v"}}"#);
    let path = ["m", "c", "0", "content"];
    for (other, want) in [
        (r#"{"m":{"k":"v","c":[{"content":"else","t":1.0}]},"x":1}"#, true),
        (r#"{"m":{"k":"v","c":[{"t":1}]},"x":1}"#, false),
        (r#"{"x":2,"m":{"c":[{"t":1,"content":[1,2]}],"k":"v"}}"#, false),
        (r#"{"x":1,"m":{"c":[{"t":1,"content":[1,2]},{"t":1,"content":[1,2]}],"k":"v"}}"#, false),
        (r#"{"x":1,"m":{"c":[{"t":2,"content":[1,2]}],"k":"v"}}"#, false),
        (r#"{"x":1,"m":{"c":{"0":{"t":1,"content":[1,2]}},"k":"v"}}"#, false),
    ] {
        assert_eq!(equal_except(a, json(other), &path), want, "{other}");
        assert_eq!(equal_except(json(other), a, &path), want, "{other}");
    }
    assert!(!equal(a, json(r#"{"m":{"k":"v","c":[{"content":"else","t":1}]},"x":1}"#)));
    assert!(equal(json("[1,1e2,\"\\u0041\"]"), json("[1.0,100,\"A\"]")));
    assert!(!equal(json("true"), json("false")));
    assert!(!equal(json("null"), json("0")));
    assert!(!equal(json(r#"{"a":1}"#), json(r#"{"b":1}"#)));
}

/// A text is read once and not once a level, or this takes a thousand times as long.
#[test]
fn equality_of_what_lies_deep() {
    let deep = |space: &str, inner: &str| {
        let (open, close) = (format!("{{{space}\"k\":[1,"), format!("],{space}\"z\":null}}"));
        format!("{}{inner}{}", open.repeat(450), close.repeat(450))
    };
    let long = "x".repeat(1 << 20);
    let (a, b) = (deep("", &format!("\"{long}a\"")), deep(" ", &format!("\"{long}\\u0061\"")));
    assert!(equal(json(&a), json(&b)));
    assert!(!equal(json(&a), json(&deep(" ", &format!("\"{long}b\"")))));
    let path: Vec<_> = ["k", "1"].repeat(450);
    assert!(equal_except(json(&a), json(&deep(" ", "{}")), &path));
    assert!(!equal_except(json(&a), json(&deep(" ", "{}")), &path[1..]));
}
