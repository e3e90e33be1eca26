//! Does an append, or a batch, that goes past the method table answer, announce and store the same bytes as one that
//! goes through it? All are committed by one function, so what may differ is what the readers of lines (as an earlier
//! one is spelt, by its members, through the table's types) make of a line, and how the answer is put.

use proptest::prelude::*;
use sessiond::server::{Clock, IdSource, Server, Settings};
use sessiond::session::Limits;
use sessiond::store::MemoryStorage;

fn server() -> Server {
    server_with("fixed:1700000000000+7")
}

fn server_with(clock: &str) -> Server {
    let settings = Settings {
        clock: clock.parse::<Clock>().unwrap(),
        ids: "sequential".parse::<IdSource>().unwrap(),
        limits: Limits { max_event_bytes: 2_000, max_depth: 5, max_batch_events: 3, ..Limits::default() },
        ..Settings::default()
    };
    Server::new(settings, Box::new(MemoryStorage::default()))
}

fn taken(server: &mut Server) -> String {
    server.output().map(std::mem::take).unwrap_or_default()
}

/// What the lines do, and then a look at all that they have left.
fn outcome(mut server: Server, lines: &[String]) -> Vec<String> {
    let mut answers = Vec::new();
    let before = [
        r#"{"jsonrpc":"2.0","id":"new","method":"session/new","params":{"sessionId":"s"}}"#,
        r#"{"jsonrpc":"2.0","id":"new","method":"session/new","params":{"sessionId":"off","invariants":"off"}}"#,
        r#"{"jsonrpc":"2.0","id":"new","method":"session/new","params":{"sessionId":"gone"}}"#,
        r#"{"jsonrpc":"2.0","id":"new","method":"session/close","params":{"sessionId":"gone"}}"#,
    ];
    let after = [
        r#"{"jsonrpc":"2.0","id":"all","method":"session/events","params":{"sessionId":"s"}}"#,
        r#"{"jsonrpc":"2.0","id":"all","method":"session/events","params":{"sessionId":"off"}}"#,
        r#"{"jsonrpc":"2.0","id":"clock","method":"session/new","params":{}}"#,
    ];
    let lines = lines.iter().map(String::as_str);
    for line in before.into_iter().chain(lines).chain(after) {
        server.receive(line.as_bytes());
        answers.push(taken(&mut server));
    }
    answers
}

fn assert_same(lines: &[String]) {
    let (direct, table) = (outcome(server(), lines), outcome(server().through_table(), lines));
    for (at, (direct, table)) in direct.iter().zip(&table).enumerate() {
        let line = at.checked_sub(4).and_then(|at| lines.get(at)).map_or("after", String::as_str);
        assert_eq!(direct, table, "\nfor {line}");
        // The types of the table and the reader by members take the same params: the latter never has the last word.
        let says = |text: &str| table.contains(&format!("must be {text}\""));
        assert!(
            !["there", "an array of events", "of an append's members only"].iter().any(|text| says(text)),
            "{table}"
        );
    }
}

fn request(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session/append","params":{params}}}"#)
}

#[test]
fn by_hand() {
    let params = [
        r#"{"sessionId":"s","type":"session/title","data":{},"_meta":{"a":[[[[[[[[1]]]]]]]]}}"#,
        r#"{"sessionId":"s","type":"session/title","data":[[[[[1]]]]],"_meta":{"a":[[[[[[[[1]]]]]]]]}}"#,
        r#"{"sessionId":"s","type":"session/title","data":[[[[[[1]]]]]]}"#,
        "{\"sessionId\":\"s\",\"type\":\"a\u{2028}b\",\"data\":1,\"ignorable\":true}",
        // An id is minted; both are there already, and the id is told again.
        r#"{"sessionId":"s","type":"user/message","data":{"role":"user","content":[],"source":{"kind":"user"}},"surfaceOp":"append"}"#,
        r#"{"sessionId":"s","type":"user/message","data":{"role":"user","content":[],"source":{"kind":"user"}},"surfaceOp":"append","expectedSeq":3}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"expectedSeq":0}"#,
        r#"{"sessionId":"s","type":"turn/start","data":{"turn":1},"expectedSeq":0}"#,
        r#"{"sessionId":"s","type":"turn/start","data":{"turn":1},"expectedSeq":1.0}"#,
        r#"{"sessionId":"s","type":"turn/start","data":{"turn":1},"expectedSeq":1e0}"#,
        r#"{"sessionId":"s","type":"turn/start","data":{"turn":1},"expectedSeq":-0}"#,
        r#"{"sessionId":"s","type":"turn/start","data":{"turn":1},"expectedSeq":-1}"#,
        r#"{"sessionId":"s","type":"turn/start","data":{"turn":1},"expectedSeq":"1"}"#,
        r#"{"sessionId":"s","type":"turn/start","data":{"turn":1},"expectedSeq":9007199254740991}"#,
        r#"{"sessionId":"s","type":"turn/start","data":{"turn":1},"expectedSeq":9007199254740992}"#,
        r#"{"sessionId":"s","type":"turn/start","data":{"turn":1},"expectedSeq":18446744073709551616}"#,
        r#"{"sessionId":"s","type":"turn/start","data":{"turn":1},"expectedSeq":null}"#,
        r#"{"sessionId":"s","type":"user/message","data":{"role":"user","content":[],"source":{"kind":"user"}},"surfaceOp":null}"#,
        r#"{"sessionId":"s","type":"user/message","data":{"role":"user","content":[],"source":{"kind":"user"}},"surfaceOp":"append","sourceEventSeqs":null}"#,
        r#"{"sessionId":"nobody","type":"turn/start","data":{"turn":1}}"#,
        r#"{"sessionId":"gone","type":"turn/start","data":{"turn":1}}"#,
        r#"{"sessionId":"","type":"turn/start","data":{"turn":1}}"#,
        r#"{"sessionId":"\u0073","type":"session/title","data":{}}"#,
        r#"{"sessionId":"\ud800","type":"session/title","data":{}}"#,
        r#"{"sessionId":null,"type":"session/title","data":{}}"#,
        r#"{"sessionId":["s"],"type":"session/title","data":{}}"#,
        r#"{"type":"session/title","data":{}}"#,
        r#"{"sessionId":"s","data":{}}"#,
        r#"{"sessionId":"s","type":"session/title"}"#,
        r#"{"sessionId":"s","type":null,"data":{}}"#,
        r#"{"sessionId":"s","type":{},"data":{}}"#,
        r#"{"sessionId":"s","type":"session\/title","data":{}}"#,
        r#"{"sessionId":"s","type":"my/event","data":{},"ignorable":false}"#,
        r#"{"sessionId":"s","type":"my/event","data":{},"ignorable":null}"#,
        r#"{"sessionId":"s","type":"my/event","data":{},"ignorable":[1,2]}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"durable":true}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"durable":false}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"durable":null}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"durable":0}"#,
        r#"{"sessionId":"nobody","type":"session/title","data":{},"durable":true}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"instanceId":"instance-1"}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"instanceId":"instance-9"}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"instanceId":"\u0069nstance-1"}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"instanceId":null}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"instanceId":7}"#,
        r#"{"sessionId":"gone","type":"session/title","data":{},"instanceId":"instance-3"}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"_meta":null}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"_meta":{"a":1,"a":-0}}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"seq":1}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"seq":null}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"":null}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"\ud800":null}"#,
        r#"{"sessionId":"s","type":"session/title","\u0064ata":[1E5, "x"]}"#,
        r#"{"sessionId":"s","sessionId":"s","type":"session/title","data":{}}"#,
        r#"{"sessionId":"s","type":"session/title","data":{},"\u0064ata":{}}"#,
        r#"{"sessionId":"s","type":"session/title","data":-0}"#,
        r#"{"sessionId":"s","type":"session/title","data":[[[[[[]]]]]]}"#,
        "{\"sessionId\":\"s\",\"type\":\"session/title\",\"data\":\"a\u{2028}\u{2029}\u{85}b\"}",
        "{\"sessionId\":\"s\u{2028}\",\"type\":\"session/title\",\"data\":1}",
        "{\t\"sessionId\" :\r\"s\" , \"type\":\"session/title\",\"data\": { \"a\" : [ 1 , 2 ] } }",
        r#"{}"#,
        r#"[]"#,
        r#"null"#,
        r#"5"#,
    ];
    let mut lines: Vec<String> = params.into_iter().map(request).collect();
    let good = r#""method":"session/append","params":{"sessionId":"s","type":"session/title","data":1}}"#;
    for id in [
        "null",
        "1.0e2",
        r#""\u0061""#,
        r#""\ud800""#,
        "\"a\u{2028}\"",
        "-0",
        "true",
        "[]",
        "99999999999999999999999",
    ] {
        lines.push(format!(r#"{{"jsonrpc":"2.0","id":{id},{good}"#));
    }
    lines.push(format!(r#"{{"jsonrpc":"2.0",{good}"#));
    lines.push(format!(r#"{{"jsonrpc":"1.0","id":1,{good}"#));
    lines.push(
        r#"{"jsonrpc":"2.0","id":1,"method":"_session/append","params":{"sessionId":"s","type":"session/title","data":1}}"#
            .to_owned(),
    );
    lines.push(
        r#"{"jsonrpc":"2.0","id":1,"method":"session\/append","params":{"sessionId":"s","type":"session/title","data":1}}"#
            .to_owned(),
    );
    lines.push(
        r#"{"jsonrpc":"2.0","method":"session/append","id":1,"params":{"sessionId":"s","type":"session/title","data":1},"more":{"a":1,"a":2}}"#
            .to_owned(),
    );
    assert_same(&lines);
}

#[test]
fn an_append_has_the_time_of_its_own_turn() {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
    let now = || i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    for server in [server_with("system"), server_with("system").through_table()] {
        let mut server = server;
        let line = request(r#"{"sessionId":"s","type":"session/title","data":{}}"#);
        server.receive(br#"{"jsonrpc":"2.0","id":"new","method":"session/new","params":{"sessionId":"s"}}"#);
        for _ in 0..3 {
            let before = now();
            server.receive(line.as_bytes());
            server.receive(line.as_bytes());
            server.settle();
            let out = taken(&mut server);
            let times = out.split("\"time\":").skip(1).map(|rest| {
                rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<i64>().unwrap()
            });
            let times: Vec<i64> = times.collect();
            assert!(times.len() >= 2 && times.iter().all(|time| (before..=now()).contains(time)), "{out}");
            std::thread::sleep(PAUSE);
        }
    }
}

#[test]
fn behind_what_may_take_long_an_append_looks_at_the_clock_again() {
    let append = request(r#"{"sessionId":"s","type":"session/title","data":{}}"#);
    let long =
        request(&format!(r#"{{"sessionId":"s","type":"nobody/knows","data":"{}"}}"#, "x".repeat(1 << 16)));
    let read = r#"{"jsonrpc":"2.0","id":2,"method":"session/info","params":{"sessionId":"s"}}"#.to_owned();
    for between in [long, read] {
        let mut server = server_with("system");
        server.receive(br#"{"jsonrpc":"2.0","id":"new","method":"session/new","params":{"sessionId":"s"}}"#);
        server.receive(append.as_bytes());
        let first = last_time(&taken(&mut server));
        std::thread::sleep(std::time::Duration::from_millis(20));
        // The same turn: nothing has settled.
        server.receive(between.as_bytes());
        taken(&mut server);
        server.receive(append.as_bytes());
        assert!(last_time(&taken(&mut server)) >= first + 20, "behind {} bytes", between.len());
    }
}

fn last_time(out: &str) -> i64 {
    let (_, rest) = out.rsplit_once("\"time\":").unwrap();
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// JSON text of every kind, mostly small, with what the scanner refuses and what it keeps.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "false",
            "0",
            "1",
            "2",
            "-0",
            "-0.0",
            "1.0",
            "1e2",
            "1e400",
            "9007199254740993",
            r#""""#,
            r#""append""#,
            r#""\ud83d""#,
            "\"\u{2028}\"",
            "{}",
            "[]",
        ])
        .prop_map(str::to_owned),
        "[a-z]{0,5}".prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        let key = prop::sample::select(vec!["a", "b", r"\u0061", "turn", "step", "id", "role", "content"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(" , "))),
            prop::collection::vec((key, inner), 0..3).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// A known type with a payload that fits it, most of the time.
fn event() -> impl Strategy<Value = (String, String, Option<String>)> {
    let fixed = |kind: &'static str, data: &'static str, op: Option<&'static str>| {
        (Just(format!("\"{kind}\"")), Just(data.to_owned()), Just(op.map(str::to_owned)))
    };
    let user = r#"{"role":"user","content":[],"source":{"kind":"user"}}"#;
    prop_oneof![
        3 => fixed("turn/start", r#"{"turn":1}"#, None),
        3 => fixed("user/message", user, Some("\"append\"")),
        1 => fixed("user/message", user, Some(r#"{"op":"replace","start":1,"end":1}"#)),
        2 => ("\"(session/title|my/event|todo/write)\"", json(), Just(None)),
        1 => (json(), json(), prop::option::of(json())),
    ]
}

/// A line: an append whose params are mostly in order.
fn line() -> impl Strategy<Value = String> {
    let session = prop_oneof![
        8 => Just("\"s\"".to_owned()),
        4 => Just("\"off\"".to_owned()),
        1 => Just("\"gone\"".to_owned()),
        1 => json(),
    ];
    let extra = prop::sample::select(vec![
        "expectedSeq",
        "instanceId",
        "durable",
        "ignorable",
        "sourceEventSeqs",
        "surfaceOp",
        "_meta",
        "other",
        r"d\u0061ta",
        "type",
    ]);
    let value = prop_oneof![
        4 => prop::sample::select(vec!["0", "1", "2", "3", "true", "false", "null", "[0]", "[1,0]", "\"instance-1\""])
            .prop_map(str::to_owned),
        1 => json(),
    ];
    let extras = prop::collection::vec((extra, value), 0..3);
    let id = prop_oneof![4 => Just("1".to_owned()), 1 => json()];
    // Most clients write no spaces, and few any.
    let spelling = prop::sample::select(vec![(",", ":"), (",", ":"), (", ", " : ")]);
    (session, event(), extras, id, prop::bool::weighted(0.2), 0..40u8, spelling).prop_map(
        |(session, (kind, data, op), extras, id, first, drop, (comma, colon))| {
            let mut members = vec![
                format!("\"sessionId\":{session}"),
                format!("\"type\"{colon}{kind}"),
                format!("\"data\":{data}"),
            ];
            members.extend(op.map(|op| format!("\"surfaceOp\":{op}")));
            members.extend(extras.iter().map(|(key, value)| format!("\"{key}\":{value}")));
            if usize::from(drop) < members.len() {
                members.remove(usize::from(drop));
            }
            if first {
                members.reverse();
            }
            let params = members.join(comma);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/append","params":{{{params}}}}}"#)
        },
    )
}

/// Two appends that are spelt alike, the second with one small thing changed somewhere.
fn nearly_alike() -> impl Strategy<Value = Vec<String>> {
    let id =
        || prop::sample::select(vec!["1", "0", "7001", "\"a-1\"", "\"\"", "999999999999999", "1.0", "\"é\""]);
    let end = prop::sample::select(vec![
        "",
        "",
        r#","expectedSeq":1"#,
        r#","expectedSeq":2"#,
        r#","expectedSeq":null"#,
        r#","durable":false"#,
        r#","instanceId":"instance-1""#,
        r#","expectedSeq":1,"instanceId":"instance-9","durable":false"#,
        r#","durable":true"#,
        r#","sourceEventSeqs":[1,0]"#,
        r#","sourceEventSeqs":[]"#,
        r#","ignorable":true"#,
        r#","sourceEventSeqs":[0],"ignorable":true,"expectedSeq":1,"instanceId":"instance-1","durable":false"#,
    ]);
    let piece = prop::sample::select(vec![
        "", "\"", "\\", "{", "}", ",", ":", "0", "1", "-", "e", " ", "\t", "\u{1}", "\u{7f}", "\u{e9}",
        "\u{2028}", "null", "\"a\":1,", "\\u0061", "\\ud800",
    ]);
    let order = (0..4usize, prop::bool::weighted(0.2));
    ([id(), id()], [event(), event()], end, order, any::<prop::sample::Index>(), 0..3usize, piece).prop_map(
        |(ids, events, end, (order, spaced), at, cut, piece)| {
            let spell = |id: &str, (kind, data, op): (String, String, Option<String>)| {
                let op = op.map_or(String::new(), |op| format!(",\"surfaceOp\":{op}"));
                let [session, kind, data] =
                    [r#""sessionId":"s""#.to_owned(), format!("\"type\":{kind}"), format!("\"data\":{data}")];
                let params = match order {
                    0 | 1 => format!("{session},{kind},{data}{op}{end}"),
                    2 => format!("{data}{op}{end},{kind},{session}"),
                    _ => format!("{kind}{op}{end},{session},{data}"),
                };
                let (version, method) = (r#""jsonrpc":"2.0""#, r#""method":"session/append""#);
                let line = match order {
                    1 => format!("{{{method},\"params\":{{{params}}},\"id\":{id},{version}}}"),
                    _ => format!("{{{version},\"id\":{id},{method},\"params\":{{{params}}}}}"),
                };
                if spaced { line.replace(':', " : ").replace(',', ", ") } else { line }
            };
            let [first, second] = events;
            let first = spell(ids[0], first);
            let mut chars: Vec<char> = spell(ids[1], second).chars().collect();
            let at = at.index(chars.len());
            chars.splice(at..(at + cut).min(chars.len()), piece.chars());
            vec![first, chars.into_iter().filter(|&char| char != '\n').collect()]
        },
    )
}

/// A line: a batch whose events are mostly in order.
fn batch() -> impl Strategy<Value = String> {
    let session =
        prop_oneof![8 => Just("\"s\""), 4 => Just("\"off\""), 1 => Just("\"gone\""), 1 => Just("7")];
    let extra = prop::sample::select(vec![
        r#""ignorable":true"#,
        r#""ignorable":null"#,
        r#""sourceEventSeqs":[0]"#,
        r#""surfaceOp":null"#,
        r#""_meta":{"a":[[[[[1]]]]]}"#,
        r#""other":1"#,
        r#""type":"turn/start""#,
    ]);
    let member = |(kind, data, op): (String, String, Option<String>), extra: Option<&str>| {
        let mut members = vec![format!("\"type\":{kind}"), format!("\"data\":{data}")];
        members.extend(op.map(|op| format!("\"surfaceOp\":{op}")));
        members.extend(extra.map(str::to_owned));
        format!("{{{}}}", members.join(","))
    };
    let event =
        (event(), prop::option::weighted(0.1, extra)).prop_map(move |(event, extra)| member(event, extra));
    let events = prop_oneof![
        12 => prop::collection::vec(event, 0..5).prop_map(|events| format!("[{}]", events.join(","))),
        1 => json(),
    ];
    let place = prop::sample::select(vec![
        "",
        "",
        "",
        r#","expectedSeq":0"#,
        r#","expectedSeq":1"#,
        r#","expectedSeq":2"#,
        r#","expectedSeq":1.0"#,
        r#","durable":false"#,
        r#","durable":true"#,
        r#","instanceId":"instance-1""#,
        r#","_meta":{"a":[[[[[1]]]]]}"#,
        r#","events":[]"#,
    ]);
    (session, events, place).prop_map(|(session, events, place)| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"session/append_batch","params":{{"sessionId":{session},"events":{events}{place}}}}}"#
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn at_random(
        lines in prop::collection::vec(
            prop_oneof![
                2 => line().prop_map(|line| vec![line]),
                2 => nearly_alike(),
                1 => batch().prop_map(|line| vec![line]),
            ],
            1..25,
        ),
    ) {
        assert_same(&lines.concat());
    }
}
