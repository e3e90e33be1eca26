//! The lossless pass over any text against [`plain`](super::plain) and serde_json: the same texts are
//! JSON, with the same values, faults, depth and compact form.

use serde::de::IgnoredAny;
use serde_json::Value;
use sessiond::json::{
    Checks, FaultKind, Json, JsonStr, JsonText, Scratch, TemplateKey, Type, equal, escape_separators,
    pointer_at, quote, write_compact,
};

use super::plain::{Plain, Tree, Units, parse};

/// The text up to a byte 0xFF is judged by itself; one after it is compared with it.
pub fn lossless(bytes: &[u8]) {
    let mut texts = bytes.splitn(2, |byte| *byte == 0xFF).map(String::from_utf8_lossy);
    let text = texts.next().unwrap_or_default();
    let value = judge(&text);
    quoting(&text);
    if let Some(other) = texts.next() {
        let other = judge(&other);
        if let (Some((a, left)), Some((b, right))) = (value, other) {
            compare((a, left), (b, right));
        }
    }
}

fn judge(text: &str) -> Option<(Json<'_>, Plain)> {
    let (theirs, ours) = (parse(text), Json::parse(text));
    // serde_json reads the grammar alone here, as deep as it goes.
    assert_eq!(theirs.is_ok(), serde_json::from_str::<IgnoredAny>(text).is_ok(), "the judges differ: {text}");
    // Buffers that another text has gone through change nothing.
    let mut scratch = Scratch::default();
    let half = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let _ = scratch.scan(&text[..half]);
    let again = scratch.scan(text);
    // Nor do texts that are spelt alike, of which it learns what differs.
    let (mut learnt, hint) = (Scratch::default(), TemplateKey::opening(text));
    let sevens = text.replace(|letter: char| letter.is_ascii_digit(), "7");
    for other in [text, &sevens, &text.replace("\\n", "n")] {
        let _ = learnt.scan_with_hint(other, hint);
    }
    let alike = learnt.scan_with_hint(text, hint);
    let (plain, (value, checks)) = match (theirs, ours) {
        (Ok(plain), Ok(ours)) => (plain, ours),
        (Err(broken), Err(error)) => {
            assert!(error.offset <= broken, "broken at {broken}, told {}: {text}", error.offset);
            assert_eq!(again.unwrap_err(), error);
            assert_eq!(alike.unwrap_err(), error);
            return None;
        }
        (theirs, ours) => panic!("plain {theirs:?}, scanner {ours:?}: {text}"),
    };
    let (value_again, checks_again) = again.unwrap();
    assert_eq!((value.text(), checks), (value_again.text(), checks_again));
    let (value_alike, checks_alike) = alike.unwrap();
    assert_eq!((value.text(), checks), (value_alike.text(), checks_alike));
    assert_eq!(value.text(), &text[plain.start..plain.end]);
    assert_eq!(checks.depth as usize, plain.depth, "{text}");
    assert_eq!(checks.needs_compaction, plain.needs_compaction, "{text}");
    faults(value, checks, &plain);
    compact(value, checks, &plain);
    if let Some(tree) = plain.tree() {
        walk(value, &tree);
        walk(value_again, &tree); // with the index that a scan leaves
        walk(value_alike, &tree);
        if let Ok(theirs) = serde_json::from_str::<Value>(text) {
            assert!(as_serde_has_it(&tree, &theirs), "serde_json has {theirs}: {text}");
        }
    }
    Some((value, plain))
}

fn faults(value: Json<'_>, checks: Checks, plain: &Plain) {
    match checks.fault {
        None => assert_eq!(plain.faults, [], "not told: {}", value.text()),
        Some(told) => {
            let found = plain.faults.iter().find(|fault| fault.offset == told.offset);
            let Some(found) = found else { panic!("{told:?} is not among {:?}", plain.faults) };
            assert_eq!(found.kind, told.kind);
            assert_eq!(pointer_at(value.text(), told.offset), found.pointer, "{}", value.text());
            // The first one is told, but that repeated keys of a large object are found at its end.
            if told.kind != FaultKind::DuplicateKey
                && let Some(first) = plain.faults.first()
            {
                assert!(first == found || first.kind == FaultKind::DuplicateKey);
            }
        }
    }
}

/// The compact form is the same value, on one line, and its own compact form.
fn compact(value: Json<'_>, checks: Checks, plain: &Plain) {
    let mut compact = String::new();
    write_compact(value.text(), &mut compact);
    if !checks.needs_compaction {
        assert_eq!(compact, value.text());
    }
    let back = parse(&compact).unwrap_or_else(|at| panic!("not JSON at {at}: {compact}"));
    assert_eq!(back.tokens, plain.tokens);
    assert!(!back.needs_compaction, "still to be compacted: {compact}");
    assert!(!compact.bytes().any(|byte| byte < b' '), "several lines: {compact}");
    let (own, checks) = Json::parse(&compact).unwrap();
    assert!(!checks.needs_compaction && checks.depth as usize == plain.depth);
    assert_eq!(own.text(), compact);
    assert_eq!(JsonText::compact(value).text(), compact);
    let (text, kept) = JsonText::parse(value.text()).unwrap();
    assert_eq!((text.text(), kept.fault.is_some()), (&*compact, !plain.faults.is_empty()));
    let mut separated = String::new();
    escape_separators(value.text(), &mut separated);
    assert_eq!(parse(&separated).unwrap().tokens, plain.tokens);
    assert!(!separated.contains(['\u{85}', '\u{2028}', '\u{2029}']));
}

/// What a reader of verified text sees is what the plain reader saw.
fn walk(value: Json<'_>, tree: &Tree) {
    let kind = match tree {
        Tree::Null => Type::Null,
        Tree::Bool(_) => Type::Bool,
        Tree::Number(_) => Type::Number,
        Tree::Text(_) => Type::String,
        Tree::Array(_) => Type::Array,
        Tree::Object(_) => Type::Object,
    };
    assert_eq!(value.kind(), kind, "{}", value.text());
    assert_eq!(value.as_bool(), if let Tree::Bool(bool) = tree { Some(*bool) } else { None });
    assert_eq!(value.as_safe_int(), tree.safe_int(), "{}", value.text());
    assert_eq!(value.as_safe_uint(), tree.safe_int().and_then(|int| u64::try_from(int).ok()));
    match (tree, value.as_f64()) {
        (Tree::Number(number), Some(own)) => assert_eq!(own.to_bits(), number.to_bits(), "{}", value.text()),
        (Tree::Number(_), None) => panic!("no number: {}", value.text()),
        (_, own) => assert_eq!(own, None),
    }
    match (tree, value.as_str()) {
        (Tree::Text(units), Some(own)) => string(own, units),
        (Tree::Text(_), None) => panic!("no string: {}", value.text()),
        (_, own) => assert!(own.is_none()),
    }
    let items: &[Tree] = if let Tree::Array(items) = tree { items } else { &[] };
    assert_eq!(value.elements().count(), items.len());
    value.elements().zip(items).for_each(|(value, tree)| walk(value, tree));
    let members: &[(Units, Tree)] = if let Tree::Object(members) = tree { members } else { &[] };
    assert_eq!(value.members().count(), members.len());
    for ((own_key, own), (key, member)) in value.members().zip(members) {
        string(own_key, key);
        walk(own, member);
        if let Ok(name) = String::from_utf16(key)
            && members.len() < 64
        {
            let first = members.iter().find(|(other, _)| other == key).map(|(_, first)| first);
            let got = value.get(&name).map(|got| parse(got.text()).unwrap().tokens.len());
            assert_eq!(got, first.map(tokens), "{name}");
        }
    }
}

fn tokens(tree: &Tree) -> usize {
    match tree {
        Tree::Array(items) => 2 + items.iter().map(tokens).sum::<usize>(),
        Tree::Object(members) => 2 + members.iter().map(|(_, value)| 1 + tokens(value)).sum::<usize>(),
        _ => 1,
    }
}

fn string(own: JsonStr<'_>, units: &Units) {
    assert_eq!(own.units().collect::<Units>(), *units, "{}", own.text());
    assert_eq!(own.is_empty(), units.is_empty());
    let decoded = String::from_utf16(units).ok();
    assert_eq!(own.decode().as_deref(), decoded.as_deref());
    assert_eq!(own.lossy(), String::from_utf16_lossy(units));
    if let Some(plain) = own.plain() {
        assert_eq!(Some(plain), decoded.as_deref());
    }
    if let Some(text) = &decoded {
        assert!(own.is(text));
        assert_eq!(&*own.wtf8(), text.as_bytes());
        let quoted = quote(text);
        let (again, checks) = Json::parse(&quoted).unwrap();
        assert!(!checks.needs_compaction && again.as_str() == Some(own));
    }
}

/// Where serde_json keeps less than the text, it has the last of equal keys and nearly the number.
fn as_serde_has_it(tree: &Tree, theirs: &Value) -> bool {
    match (tree, theirs) {
        (Tree::Null, Value::Null) => true,
        (Tree::Bool(a), Value::Bool(b)) => a == b,
        (Tree::Number(a), Value::Number(b)) => {
            let b = b.as_f64().unwrap_or(f64::NAN);
            *a == b || (a - b).abs() <= a.abs() * 1e-14
        }
        (Tree::Text(units), Value::String(text)) => text.encode_utf16().eq(units.iter().copied()),
        (Tree::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| as_serde_has_it(a, b))
        }
        (Tree::Object(a), Value::Object(b)) => b.iter().all(|(key, value)| {
            let own = a.iter().rev().find(|(name, _)| key.encode_utf16().eq(name.iter().copied()));
            own.is_some_and(|(_, own)| as_serde_has_it(own, value))
        }),
        _ => false,
    }
}

/// Comparison of two values, where both are lossless and no deeper than a stored one may be.
fn compare((a, left): (Json<'_>, Plain), (b, right): (Json<'_>, Plain)) {
    if left.faults.is_empty()
        && right.faults.is_empty()
        && let (Some(left), Some(right)) = (left.tree(), right.tree())
    {
        assert_eq!(equal(a, b), left.same(&right), "{} and {}", a.text(), b.text());
        assert_eq!(equal(b, a), left.same(&right), "{} and {}", b.text(), a.text());
    }
    if let (Some(left), Some(right)) = (a.as_str(), b.as_str()) {
        let same = left.units().eq(right.units());
        assert_eq!(left == right, same);
        assert_eq!(left.wtf8() == right.wtf8(), same);
    }
}

/// Any text at all becomes a string of JSON that says it.
fn quoting(text: &str) {
    let quoted = quote(text);
    let plain = parse(&quoted).unwrap_or_else(|at| panic!("not JSON at {at}: {quoted}"));
    assert!(!plain.needs_compaction);
    assert_eq!(plain.tokens, [super::plain::Token::Text(text.encode_utf16().collect())]);
    assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
}
