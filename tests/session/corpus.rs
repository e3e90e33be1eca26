//! Do real logs mean here what they mean to the reference?
//!
//! Every log of the corpus that loads in its current shape is given to a server (a) as a seed and (b)
//! event by event through `session/append`, relations off; then its events, surface, messages and request
//! header must be those that the reference has, the last two by the hash of their text as JavaScript
//! prints it. Logs in legacy shapes need the loader's upgrade and are only counted here.

use serde_json::Value;
use sessiond::json::{Json, Type, quote};
use sessiond::log::{EnvelopeError, Log, Row, decode_row, parse_header_line};
use sha2::{Digest, Sha256};

use crate::support;
use crate::support::bench::{array, without};
use crate::support::client::Client;
use crate::support::same_json;

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value as `JSON.stringify(JSON.parse(text))` prints it (FORMAT 1).
fn stringify(value: Json<'_>, out: &mut String) {
    match value.kind() {
        Type::Null | Type::Bool => out.push_str(value.text()),
        Type::String => {
            out.push_str(&serde_json::to_string(&value.as_str().unwrap().decode().unwrap()).unwrap())
        }
        Type::Number => out.push_str(&number(value.as_f64().unwrap())),
        Type::Array => {
            let mut separator = '[';
            for element in value.elements() {
                out.push(std::mem::replace(&mut separator, ','));
                stringify(element, out);
            }
            out.push_str(if separator == '[' { "[]" } else { "]" });
        }
        Type::Object => {
            let mut members: Vec<_> = value.members().collect();
            members.sort_by_key(|(key, _)| {
                let index = key.decode().unwrap().parse::<u32>().ok().filter(|index| *index < u32::MAX);
                index.filter(|index| key.is(&index.to_string())).map_or(u64::MAX, u64::from)
            });
            let mut separator = '{';
            for (key, value) in members {
                out.push(std::mem::replace(&mut separator, ','));
                out.push_str(&serde_json::to_string(&key.decode().unwrap()).unwrap());
                out.push(':');
                stringify(value, out);
            }
            out.push_str(if separator == '{' { "{}" } else { "}" });
        }
    }
}

/// A number as JavaScript prints it.
fn number(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || (1e-6..1e21).contains(&size) => format!("{value}"),
        size if size < 1.0 => format!("{value:e}"),
        _ => format!("{value:e}").replace('e', "e+"),
    }
}

fn stringified(text: &str) -> String {
    let mut out = String::new();
    stringify(Json::parse(text).unwrap().0, &mut out);
    out
}

#[test]
fn numbers_print_as_in_javascript() {
    for (value, text) in [(0.0, "0"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (1.5e300, "1.5e+300")]
    {
        assert_eq!(number(value), text);
    }
    for (value, text) in
        [(1e-6, "0.000001"), (1e-7, "1e-7"), (-2.5e-324, "-5e-324"), (0.1, "0.1"), (-3.0, "-3")]
    {
        assert_eq!(number(value), text);
    }
    assert_eq!(
        stringified(r#"{"b":1.0,"10":"\u0041\u2028","2":[1E2, {}]}"#),
        "{\"2\":[100,{}],\"10\":\"A\u{2028}\",\"b\":1}"
    );
}

/// The events of a stored file, packed rows unpacked.
fn stored_events(text: &str) -> Vec<String> {
    let mut events = Vec::new();
    for line in text.lines().skip(1) {
        let (value, checks) = Json::parse(line).unwrap();
        match decode_row(value, checks.needs_compaction).unwrap() {
            Row::Event(event) => events.push(event.text().to_owned()),
            Row::Chunks(row) => {
                let unpacked: Result<(), EnvelopeError> = row.each(|seq, time, draft| {
                    let mut log = Log::starting_at(seq.before());
                    log.push(draft, time);
                    events.push(log.get(seq).unwrap().line().to_owned());
                    Ok(())
                });
                unpacked.unwrap();
            }
        }
    }
    events
}

/// The params of a `session/append` of a stored event.
fn append_params(session: &str, event: &str) -> String {
    let event = without(&without(event, "seq"), "time");
    format!("{{\"sessionId\":{},{}", quote(session), &event[1..])
}

#[derive(Default)]
struct Tally {
    logs: usize,
    events: usize,
    messages: usize,
    replacements: u64,
    exact: usize,
    legacy: usize,
    refused: usize,
}

#[test]
#[ignore = "needs ../shared/corpus"]
fn real_logs_mean_what_the_reference_says() {
    let root = support::needed("corpus");
    let index = std::fs::read_to_string(root.join("fixtures/index.json")).unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    let mut tally = Tally::default();
    for file in index["files"].as_array().unwrap() {
        let name = file["rehydrated"].as_str().unwrap();
        let load = &file["rehydratedLoad"];
        let events = stored_events(&std::fs::read_to_string(root.join(name)).unwrap());
        if load["loads"] != true {
            refused(name, &events, load["class"].as_str().unwrap());
            tally.refused += 1;
        } else if load["legacyUpgradedEvents"] != 0 {
            // Upgraded by the loader only: as a seed such a log is refused (PROTOCOL 3, Append).
            let error =
                Client::quiet().call("session/new", &new_params("x", Some(&events), "{}")).unwrap_err();
            let code = error.json().at(&["data", "code"]);
            assert!(code.is_some_and(|code| code.is_str("INVALID_EVENT")), "{name}: {}", error.text());
            tally.legacy += 1;
        } else {
            check(name, &root.join(name), load, &events, &mut tally);
        }
    }
    let Tally { logs, events, messages, replacements, exact, legacy, refused } = tally;
    eprintln!(
        "{logs} logs, {events} events, {messages} messages ({exact} logs print them to the byte), \
         {replacements} replacements; {legacy} in legacy shapes left to the loader, {refused} refused as by the reference"
    );
    assert!(logs > 50 && messages > 100, "{logs} {messages}");
}

fn new_params(id: &str, seed: Option<&[String]>, meta: &str) -> String {
    let seed = seed.map_or(String::new(), |events| format!(",\"seed\":{}", array(events)));
    format!("{{\"sessionId\":{}{seed},\"meta\":{meta},\"invariants\":\"off\"}}", quote(id))
}

/// A log that the reference refuses to load is refused as a seed, and at the append that makes it so.
fn refused(name: &str, events: &[String], class: &str) {
    let mut client = Client::quiet();
    let is = |error: &Json<'_>| error.at(&["data", "rule"]).is_some_and(|rule| rule.is_str(class));
    let error = client.call("session/new", &new_params("seeded", Some(events), "{}")).unwrap_err();
    assert!(is(&error.json()), "{name}: {} is not {class}", error.text());
    client.call("session/new", &new_params("appended", None, "{}")).unwrap();
    let mut results =
        events.iter().map(|event| client.call("session/append", &append_params("appended", event)));
    let error = results.find_map(Result::err).expect(name);
    assert!(is(&error.json()), "{name}: {} is not {class}", error.text());
}

fn check(name: &str, path: &std::path::Path, load: &Value, events: &[String], tally: &mut Tally) {
    let text = std::fs::read_to_string(path).unwrap();
    let (header, inherited) = parse_header_line(text.lines().next().unwrap()).unwrap();
    let mut meta = header.logical_json();
    for member in ["version", "id", "isSeeded"] {
        meta = without(&meta, member);
    }
    if header.is_seeded {
        meta = format!("{{\"seedLength\":{inherited},{}", &meta[1..]);
    } else {
        // A seed with a parent says how much of it is the parent's: an import of this log has none.
        meta = without(&meta, "parentSession");
    }
    let mut client = Client::quiet();
    let opened = client.call("session/new", &new_params("seeded", Some(events), &meta)).unwrap();
    let opened = opened.json();
    assert_eq!(opened.get("firstLiveSeq").unwrap().as_safe_uint(), Some(events.len() as u64), "{name}");
    assert_eq!(
        opened.get("inheritedEventCount").unwrap().text(),
        load["inheritedEventCount"].to_string(),
        "{name}"
    );
    let mut shown = opened.get("header").unwrap().text().to_owned();
    let mut wanted = load["header"].to_string();
    for member in ["id", "parentSession"] {
        shown = without(&shown, member);
        wanted = without(&wanted, member);
    }
    assert!(same_json(&shown, &wanted), "{name}: {shown} {wanted}");
    client.call("session/new", &new_params("appended", None, "{}")).unwrap();
    for (seq, event) in events.iter().enumerate() {
        let done = client.call("session/append", &append_params("appended", event));
        let done = done.unwrap_or_else(|error| panic!("{name} at {seq}: {}", error.text()));
        assert_eq!(done.json().get("seq").unwrap().as_safe_uint(), Some(seq as u64), "{name}");
        assert!(done.json().get("messageId").is_none(), "{name}");
    }
    for session in ["seeded", "appended"] {
        let mut got = client.events(session);
        if session == "seeded" && !events.last().is_some_and(|event| event.contains("\"session/end-seed\"")) {
            let marker = got.pop().unwrap();
            assert!(marker.contains("\"session/end-seed\""), "{name}");
        }
        assert_eq!(got.len(), events.len(), "{name}");
        assert_eq!(load["events"], got.len() as u64 + load["closersAppended"].as_u64().unwrap(), "{name}");
        for (got, wanted) in got.iter().zip(events) {
            let same = match session {
                "seeded" => same_json(got, wanted),
                _ => same_json(&without(got, "time"), &without(wanted, "time")),
            };
            assert!(same, "{name}: {got} {wanted}");
        }
        let one = format!("{{\"sessionId\":\"{session}\"}}");
        let surface = client.call("session/surface", &one).unwrap();
        let nodes = surface.json().get("nodes").unwrap().elements().count();
        assert_eq!(load["surfaceLength"], nodes, "{name}");
        let generation = surface.json().get("replaceGeneration").unwrap().as_safe_uint().unwrap();
        assert_eq!(load["replaceGeneration"], generation, "{name}");
        let messages = client.messages(session, 1_000);
        assert_eq!(load["derivedMessages"], messages.len(), "{name}");
        assert_eq!(client.messages(session, 1 << 20), messages, "{name}");
        let printed = array(&messages);
        let wanted = load["derivedSha256"].as_str().unwrap();
        tally.exact += usize::from(session == "seeded" && sha256(&printed) == wanted);
        assert_eq!(sha256(&stringified(&printed)), wanted, "{name}: {printed}");
        let request = client.call("session/request", &one).unwrap();
        let header = request.json().get("header").unwrap().text().to_owned();
        match load["requestHeaderSha256"].as_str() {
            Some(wanted) => assert_eq!(sha256(&stringified(&header)), wanted, "{name}: {header}"),
            None => assert_eq!(header, "null", "{name}"),
        }
        assert!(same_json(request.json().get("messages").unwrap().text(), &printed), "{name}");
        if session == "seeded" {
            tally.logs += 1;
            tally.events += events.len();
            tally.messages += messages.len();
            tally.replacements += generation;
        }
    }
}
