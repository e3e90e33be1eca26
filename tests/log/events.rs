//! Is an event read back as it was written, and is an envelope refused exactly by FORMAT 2?

use proptest::prelude::*;
use sessiond::json::{Json, Scratch};
use sessiond::log::{Draft, EnvelopeError, Event, Kind, Log, Seq, read_event};

use crate::support;

fn json(text: &str) -> Json<'_> {
    Json::parse(text).unwrap().0
}

fn read(text: &str) -> Result<(u64, i64), EnvelopeError> {
    let (value, checks) = Json::parse(text).unwrap();
    read_event(value, checks.needs_compaction).map(|(seq, time, _)| (seq.get(), time))
}

/// A log with the one event that `text` is.
fn stored(text: &str) -> Log {
    let (value, checks) = Json::parse(text).unwrap();
    let (_, time, draft) = read_event(value, checks.needs_compaction).unwrap();
    let mut log = Log::new();
    log.push(&draft, time);
    log
}

/// What an event says by its accessors, texts as written.
fn parts(event: Event<'_>) -> (&str, i64, &str, Option<&str>, Option<&str>, bool) {
    let (sources, surface_op) = (event.source_event_seqs(), event.surface_op());
    let data = event.data().text();
    assert_eq!(event.place(), format!("\"seq\":{},\"time\":{}", event.seq().get(), event.time()));
    (
        event.type_text().text(),
        event.time(),
        data,
        sources.map(Json::text),
        surface_op.map(Json::text),
        event.ignorable(),
    )
}

#[test]
fn accessors_give_what_was_written() {
    let log = stored(
        r#"{"ignorable":true,"surfaceOp":{"op":"replace","start":1,"end":2},"sourceEventSeqs":[1,2],"data":{"a":"}"},"time":-5,"seq":0,"type":"user/message"}"#,
    );
    let event = log.last().unwrap();
    assert_eq!(
        event.line(),
        r#"{"type":"user/message","seq":0,"time":-5,"data":{"a":"}"},"sourceEventSeqs":[1,2],"surfaceOp":{"op":"replace","start":1,"end":2},"ignorable":true}"#
    );
    let (sources, op) = (Some("[1,2]"), Some(r#"{"op":"replace","start":1,"end":2}"#));
    assert_eq!(parts(event), ("\"user/message\"", -5, "{\"a\":\"}\"}", sources, op, true));
    assert_eq!(event.kind(), Kind::UserMessage);
}

#[test]
fn optional_members_in_every_combination() {
    let sources = [None, Some("[]"), Some("[0,1]"), Some("null"), Some("\"x,\\\"}\""), Some("7")];
    let ops = [
        None,
        Some("\"append\""),
        Some("null"),
        Some("{\"a\":{\"b\":[1,\"]}\"]}}"),
        Some("1.5"),
        Some("[[]]"),
    ];
    for data in ["null", "\"a\\\"b\"", "{\"ignorable\":true}", "[1,{\"surfaceOp\":1}]", "-1.5e3"] {
        for source in sources {
            for op in ops {
                for ignorable in [false, true] {
                    let member = |name: &str, text: Option<&str>| {
                        text.map_or(String::new(), |text| format!(",\"{name}\":{text}"))
                    };
                    let text = format!(
                        r#"{{"type":"t","seq":0,"time":1,"data":{data}{}{}{}}}"#,
                        member("sourceEventSeqs", source),
                        member("surfaceOp", op),
                        member("ignorable", ignorable.then_some("true")),
                    );
                    let log = stored(&text);
                    let event = log.last().unwrap();
                    assert_eq!(event.line(), text);
                    assert_eq!(parts(event), ("\"t\"", 1, data, source, op, ignorable));
                }
            }
        }
    }
}

#[test]
fn a_type_keeps_its_spelling_and_is_known_by_its_value() {
    let log = stored(r#"{"type":"t\u0075rn/start:,\"data\":","seq":0,"time":7,"data":1}"#);
    let event = log.last().unwrap();
    assert_eq!(event.type_text().text(), r#""t\u0075rn/start:,\"data\":""#);
    assert_eq!((event.kind(), event.time()), (Kind::Other, 7));
    assert_eq!(
        stored(r#"{"type":"t\u0075rn/start","seq":0,"time":7,"data":1}"#).last().unwrap().kind(),
        Kind::TurnStart
    );
    assert_eq!(stored(r#"{"type":"\ud800","seq":0,"time":7,"data":1}"#).last().unwrap().kind(), Kind::Other);
    assert_eq!(stored(r#"{"type":"","seq":0,"time":7,"data":1}"#).last().unwrap().kind(), Kind::Other);
}

#[test]
fn times_are_safe_integers_of_either_sign() {
    for time in ["0", "-1", "1700000000000", "9007199254740991", "-9007199254740991"] {
        let text = format!(r#"{{"type":"t","seq":0,"time":{time},"data":null}}"#);
        assert_eq!(stored(&text).last().unwrap().time().to_string(), time);
    }
    assert_eq!(read(r#"{"type":"t","seq":3.0,"time":1e3,"data":null}"#), Ok((3, 1000)));
}

#[test]
fn needs_compaction_text_becomes_one_line() {
    let log = stored(
        "{ \"type\" : \"a\u{2028}b\" , \"seq\":0,\"time\":1,\n\"data\" : { \"k\u{85}\" : [ 1 , 2 ] } , \"surfaceOp\": [ \"\u{2029}\" ] }",
    );
    assert_eq!(
        log.last().unwrap().line(),
        r#"{"type":"a\u2028b","seq":0,"time":1,"data":{"k\u0085":[1,2]},"surfaceOp":["\u2029"]}"#
    );
}

#[test]
fn what_is_no_envelope() {
    use EnvelopeError::*;
    for (text, error) in [
        ("null", NotAnObject),
        ("[]", NotAnObject),
        ("\"x\"", NotAnObject),
        ("{}", Missing("type")),
        (r#"{"type":1,"seq":0,"time":0,"data":0}"#, Type),
        (r#"{"type":"t","time":0,"data":0}"#, Missing("seq")),
        (r#"{"type":"t","seq":0,"data":0}"#, Missing("time")),
        (r#"{"type":"t","seq":0,"time":0}"#, Missing("data")),
        (r#"{"type":"t","seq":-1,"time":0,"data":0}"#, Seq),
        (r#"{"type":"t","seq":-0,"time":0,"data":0}"#, Seq),
        (r#"{"type":"t","seq":"0","time":0,"data":0}"#, Seq),
        (r#"{"type":"t","seq":0.5,"time":0,"data":0}"#, Seq),
        (r#"{"type":"t","seq":9007199254740992,"time":0,"data":0}"#, Seq),
        (r#"{"type":"t","seq":0,"time":0.5,"data":0}"#, Time),
        (r#"{"type":"t","seq":0,"time":null,"data":0}"#, Time),
        (r#"{"type":"t","seq":0,"time":9007199254740992,"data":0}"#, Time),
        (r#"{"type":"t","seq":0,"time":0,"data":0,"ignorable":false}"#, Ignorable),
        (r#"{"type":"t","seq":0,"time":0,"data":0,"ignorable":null}"#, Ignorable),
        (r#"{"type":"t","seq":0,"time":0,"data":0,"id":1}"#, UnknownMember("id".into())),
        (r#"{"type":"t","seq":0,"time":0,"data":0,"":1}"#, UnknownMember(String::new())),
    ] {
        assert_eq!(read(text), Err(error), "{text}");
    }
}

/// Most stored lines are read by the very text between their values. What is nearly so is read as any other, and
/// only what encoding would give again is taken over.
#[test]
fn a_line_in_our_own_spelling_is_read_as_any_other() {
    let whole = r#"{"type":"user/message","seq":0,"time":-12,"data":{"a":[1,"\\"]},"sourceEventSeqs":[],"surfaceOp":"append","ignorable":true}"#;
    let same = [
        whole.to_owned(),
        r#"{"type":"x","seq":0,"time":0,"data":null}"#.to_owned(),
        r#"{"type":"\u0061","seq":0,"time":999999999999999,"data":{},"surfaceOp":null}"#.to_owned(),
    ];
    let changes = [
        (r#""seq":0"#, r#""seq":-0"#),
        (r#""seq":0"#, r#""seq":-1"#),
        (r#""seq":0"#, r#""seq":0.0"#),
        (r#""seq":0"#, r#""seq":"0""#),
        (r#""seq":0"#, r#""s\u0065q":0"#),
        (r#""seq":0"#, r#""seq":0,"seq":0"#),
        (r#""seq":0,"#, ""),
        (r#""time":-12"#, r#""time":-1.2e1"#),
        (r#""time":-12"#, r#""time":-0"#),
        (r#""time":-12"#, r#""time":9007199254740991"#),
        (r#""time":-12"#, r#""time":9007199254740993"#),
        (r#""seq":0,"time":-12"#, r#""time":-12,"seq":0"#),
        (r#""data":{"#, r#""data": {"#),
        (r#"{"type""#, r#"{ "type""#),
        (r#"true}"#, r#"true }"#),
        (r#"true}"#, r#"false}"#),
        (r#"true}"#, r#"true,"more":1}"#),
        (r#","ignorable":true}"#, r#","surfaceOp":1}"#),
        (r#""sourceEventSeqs":[],"surfaceOp":"append""#, r#""surfaceOp":"append","sourceEventSeqs":[]"#),
        (r#""type":"user/message""#, r#""type":7"#),
    ];
    let changed = changes.map(|(from, to)| {
        let line = whole.replacen(from, to, 1);
        assert_ne!(line, whole, "{from}");
        line
    });
    let mut scratch = Scratch::default();
    for (line, taken_over) in
        same.iter().map(|line| (line, true)).chain(changed.iter().map(|line| (line, false)))
    {
        let (value, checks) = scratch.scan(line).unwrap();
        let taped = read_event(value, checks.needs_compaction);
        // Without a tape the members are looked for in the text.
        let searched = read_event(json(line), checks.needs_compaction);
        let told = |read: &Result<(Seq, i64, Draft<'_>), EnvelopeError>| match read {
            Err(error) => Err(error.clone()),
            Ok((seq, time, draft)) => {
                let mut log = Log::new();
                log.push(&Draft { line: None, ..*draft }, *time);
                Ok((*seq, *time, log.get(Seq::ZERO).unwrap().line().to_owned()))
            }
        };
        assert_eq!(told(&taped), told(&searched), "{line}");
        let line_of =
            |read: Result<(Seq, i64, Draft<'_>), EnvelopeError>| read.is_ok_and(|read| read.2.line.is_some());
        assert_eq!(line_of(taped), taken_over, "{line}");
    }
}

#[test]
fn envelopes_of_the_recorded_seeds() {
    for file in ["04-seed.json", "22-random-seed.json"] {
        support::each_op(file, "create", |case, op| {
            let seed = op.texts("seedJsonl");
            let classes = op.classes();
            let index = op.0["expect"]["err"]["index"].as_u64().map(|n| n as usize);
            for (at, text) in seed.iter().enumerate().take(index.map_or(seed.len(), |n| n + 1)) {
                let (_, checks) = Json::parse(text).unwrap();
                let refused = read(text).is_err() || checks.fault.is_some();
                let bad_envelope = classes.contains(&"SEED_ENVELOPE") && Some(at) == index;
                let lossy = classes.contains(&"SEED_NOT_LOSSLESS") && Some(at) == index;
                // An informative answer is a TypeError upstream: any refusal is right.
                if !op.is_informative() && (classes.is_empty() || index.is_some()) {
                    assert_eq!(refused, bad_envelope || lossy, "{case} {text} {classes:?}");
                }
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn max_len_is_an_upper_bound(
        texts in prop::collection::vec("[ é€\u{85}\u{2028}\u{2029}“a-c😀]{0,30}", 4),
        space in "[ \n\t]{0,5}",
        seqs in prop::collection::vec(any::<u32>(), 0..5),
        time in -9007199254740991i64..=9007199254740991,
        ignorable in any::<bool>(),
    ) {
        let data = format!("{{{space}\"{}\"{space}:{space}[\"{}\"{space}]}}", texts[0], texts[1]);
        let (op, name) = (format!("{{\"op\":{space}\"{}\"}}", texts[2]), format!("\"{}\"", texts[3]));
        let sources = format!("{seqs:?}");
        let needs_compaction = [&data, &op, &name, &sources].iter().any(|text| Json::parse(text).unwrap().1.needs_compaction);
        let draft = Draft {
            sources: Some(json(&sources)),
            surface_op: Some(json(&op)),
            ignorable,
            needs_compaction,
            ..Draft::new(json(&name).as_str().unwrap(), json(&data))
        };
        let mut log = Log::new();
        log.push(&draft, time);
        let event = log.last().unwrap();
        prop_assert!(event.line().len() <= draft.max_len(), "{} > {}", event.line().len(), draft.max_len());
        let (value, checks) = Json::parse(event.line()).unwrap();
        prop_assert!(!checks.needs_compaction);
        let (_, again, read) = read_event(value, false).unwrap();
        prop_assert_eq!((again, read.ignorable), (time, ignorable));
        prop_assert_eq!(event.place(), format!("\"seq\":0,\"time\":{time}"));
        prop_assert_eq!(event.type_text().text(), read.type_text.text());
        prop_assert!(support::same_json(read.data.text(), &data));
        prop_assert!(support::same_json(event.surface_op().unwrap().text(), &op));
        prop_assert!(support::same_json(event.source_event_seqs().unwrap().text(), &sources));
    }
}
