//! Raw bytes through the line reader and the whole dispatcher: every line is answered as PROTOCOL 1
//! says, nothing but protocol comes out, and the connection goes on.

use serde::de::IgnoredAny;
use sessiond::protocol::Code;
use sessiond::server::{Server, Settings, WireLimits};
use sessiond::session::Limits;
use sessiond::stdio::{Frame, Lines};
use sessiond::store::MemoryStorage;

use super::plain::{Token, Tree, Units, compact, member, parse, parts, squeezed};

const NATIVE: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"sessiond":{"eventTypes":[{"type":"my/event"}]}}}}}"#;
const ACP: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":1}}"#;
const LIVE: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"sessiond":{"dialect":"acp","liveUpdates":true,"notifications":["session/event","session/created"],"prefix":"_"}}}}}"#;
const PROBE: &str = r#"{"jsonrpc":"2.0","id":"the-probe","method":"session/list","params":{"limit":1}}"#;

/// Room for every answer that such short inputs can have.
const LONG: usize = 1 << 20;
const SHORT: usize = 400;

/// The first byte says what is said first and how long lines may be, the second how the bytes come;
/// the rest is what a client sends.
pub fn lines(bytes: &[u8]) {
    let [first, second, input @ ..] = bytes else { return };
    let hello = [None, Some(NATIVE), Some(ACP), Some(LIVE)][usize::from(first % 4)];
    let max = if first & 0x40 == 0 { LONG } else { SHORT };
    let mut text = Vec::new();
    if let Some(hello) = hello {
        text.extend_from_slice(hello.as_bytes());
        text.push(b'\n');
    }
    text.extend_from_slice(input);
    let whole = talk(&text, usize::MAX, max, false);
    answers(&text, &whole.output, max);
    let pieces = talk(&text, usize::from(*second) + 1, max, false);
    answers(&text, &pieces.output, max);
    // A history that is streamed may be overtaken: by whom depends on what has come by then.
    if !whole.streamed && !pieces.streamed {
        assert_eq!(whole.output, pieces.output, "pieces of {} bytes", usize::from(*second) + 1);
        let table = talk(&text, usize::MAX, max, true);
        assert_eq!(whole.output, table.output, "the direct path of appends");
    }
}

struct Talked {
    output: String,
    streamed: bool,
}

fn settings(max: usize) -> Settings {
    Settings {
        clock: "fixed:1700000000000+1".parse().unwrap(),
        ids: "sequential".parse().unwrap(),
        limits: Limits { max_depth: 20, max_event_bytes: 4_000, max_batch_events: 5, max_live_sessions: 8 },
        wire: WireLimits {
            max_message_bytes: max,
            page_entries: 7,
            page_bytes: 2_000,
            ..WireLimits::default()
        },
        ..Settings::default()
    }
}

/// Sends the bytes in pieces of that size, then a known request on a line of its own.
fn talk(input: &[u8], piece: usize, max: usize, through_table: bool) -> Talked {
    let mut server = Server::new(settings(max), Box::new(MemoryStorage::default()));
    if through_table {
        server = server.through_table();
    }
    let (mut lines, mut streamed) = (Lines::new(max), false);
    let mut all = input.to_vec();
    all.extend_from_slice(b"\n");
    all.extend_from_slice(PROBE.as_bytes());
    all.push(b'\n');
    let mut rest = &all[..];
    while !rest.is_empty() {
        let spare = lines.spare();
        let count = spare.len().min(rest.len()).min(piece);
        spare[..count].copy_from_slice(&rest[..count]);
        lines.commit(count);
        rest = &rest[count..];
        while let Some(frame) = lines.next_frame() {
            match frame {
                Frame::Line(line) => server.receive(line),
                Frame::TooLong => server.receive_too_large(),
            }
            streamed |= server.has_more();
        }
        server.settle();
        while server.has_more() {
            server.advance();
        }
    }
    lines.finish();
    assert!(lines.next_frame().is_none());
    assert!(server.is_idle(), "something waits for ever");
    Talked { output: server.output().map(std::mem::take).unwrap_or_default(), streamed }
}

/// What a line is answered with: the id's text and, where the line itself is at fault, the code.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    id: String,
    code: Option<&'static str>,
}

/// What PROTOCOL 1 says of a line.
fn due(line: &[u8], max: usize) -> Option<Due> {
    let fault = |id: &str, code| Some(Due { id: id.to_owned(), code: Some(code) });
    if line.len() > max {
        return fault("null", "MESSAGE_TOO_LARGE");
    }
    let Ok(text) = std::str::from_utf8(line) else { return fault("null", "PARSE_ERROR") };
    if text.trim_matches([' ', '\t', '\r']).is_empty() {
        return None;
    }
    if parse(text).is_err() {
        return fault("null", "PARSE_ERROR");
    }
    let (own, text) = (squeezed(text), compact(text));
    if !text.starts_with('{') {
        return fault("null", "INVALID_REQUEST"); // a batch, or no message at all
    }
    if ["jsonrpc", "id", "method", "params"].into_iter().any(|name| times(&text, name) > 1) {
        return fault("null", "INVALID_REQUEST");
    }
    let id = member(&text, "id");
    if id.is_some_and(|id| {
        !id.starts_with(['"', '-', 'n']) && !id.starts_with(|first: char| first.is_ascii_digit())
    }) || member(&own, "id").is_some_and(|id| id.len() > 1024)
    {
        return fault("null", "INVALID_REQUEST");
    }
    let to = id.unwrap_or("null");
    let string = |name: &str| match member(&text, name).map(parse) {
        Some(Ok(plain)) => {
            plain.tree().and_then(|tree| if let Tree::Text(units) = tree { Some(units) } else { None })
        }
        _ => None,
    };
    if string("jsonrpc").is_none_or(|version| !version.iter().copied().eq("2.0".encode_utf16())) {
        return fault(to, "INVALID_REQUEST");
    }
    if member(&text, "method").is_none() && (times(&text, "result") > 0 || times(&text, "error") > 0) {
        return None;
    }
    if string("method").is_none() {
        return fault(to, "INVALID_REQUEST");
    }
    let id = id?;
    match member(&text, "params") {
        None | Some("null") => {}
        Some(params) if params.starts_with('{') => {
            let mut keys: Vec<Units> = parts(params).into_iter().map(key_of).collect();
            keys.sort();
            if keys.windows(2).any(|pair| pair[0] == pair[1]) {
                return fault(id, "INVALID_PARAMS");
            }
        }
        Some(_) => return fault(id, "INVALID_PARAMS"),
    }
    Some(Due { id: id.to_owned(), code: None })
}

/// The key of a member.
fn key_of(part: &str) -> Units {
    let mut tokens = parse(&format!("{{{part}}}")).unwrap().tokens;
    let Token::Key(units) = tokens.swap_remove(1) else { unreachable!("a member has a key") };
    units
}

/// How many members of that name a compact object has.
fn times(object: &str, name: &str) -> usize {
    parts(object).into_iter().filter(|part| key_of(part).into_iter().eq(name.encode_utf16())).count()
}

/// Holds everything that came out against what was due for what went in.
fn answers(input: &[u8], output: &str, max: usize) {
    let bom: &[u8] = b"\xEF\xBB\xBF";
    let input = input.strip_prefix(bom).unwrap_or(input);
    let lines = input.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut wanted: Vec<Due> = lines.filter_map(|line| due(line, max)).collect();
    wanted.push(Due { id: "\"the-probe\"".to_owned(), code: None });
    wanted.sort();
    let mut given: Vec<(String, Option<String>)> = Vec::new();
    for line in output.lines() {
        assert!(line.len() <= max || max == SHORT, "a line of {} bytes", line.len());
        if let Some(told) = told(line) {
            given.push(told);
        }
    }
    assert!(output.is_empty() || output.ends_with('\n'));
    assert!(!output.contains(['\r', '\u{85}', '\u{2028}', '\u{2029}']));
    given.sort();
    let ids = |due: &Due| due.id.clone();
    assert_eq!(
        given.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(),
        wanted.iter().map(ids).collect::<Vec<_>>(),
        "{output}"
    );
    // Of each code that a line itself earns there are as many; what requests answer is their own.
    for code in ["PARSE_ERROR", "MESSAGE_TOO_LARGE"] {
        let due = wanted.iter().filter(|due| due.code == Some(code)).count();
        assert_eq!(
            given.iter().filter(|(_, given)| given.as_deref() == Some(code)).count(),
            due,
            "{code}: {output}"
        );
    }
    for code in ["INVALID_REQUEST", "INVALID_PARAMS"] {
        let due = wanted.iter().filter(|due| due.code == Some(code)).count();
        assert!(
            given.iter().filter(|(_, given)| given.as_deref() == Some(code)).count() >= due,
            "{code}: {output}"
        );
    }
    let probe = given.iter().find(|(id, _)| id == "\"the-probe\"");
    assert!(max == SHORT || probe.is_some_and(|(_, code)| code.is_none()), "{output}");
}

/// The id and, of an error, the code of a response; nothing for a notification. Anything else is none
/// of the protocol's lines.
fn told(line: &str) -> Option<(String, Option<String>)> {
    serde_json::from_str::<IgnoredAny>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let plain = parse(line).unwrap_or_else(|at| panic!("not JSON at {at}: {line}"));
    assert!(!plain.needs_compaction, "{line}");
    assert_eq!(member(line, "jsonrpc"), Some("\"2.0\""), "{line}");
    let (result, error) = (member(line, "result"), member(line, "error"));
    let Some(id) = member(line, "id") else {
        let method = member(line, "method").unwrap_or_else(|| panic!("neither: {line}"));
        let known = ["created", "event", "durable", "disposed", "update"];
        let name = method.trim_matches('"').trim_start_matches('_').strip_prefix("session/");
        assert!(name.is_some_and(|name| known.contains(&name)), "{line}");
        assert!(result.is_none() && error.is_none() && member(line, "params").is_some(), "{line}");
        return None;
    };
    assert!(member(line, "method").is_none() && result.is_some() != error.is_some(), "{line}");
    let code = error.map(|error| {
        let name = member(member(error, "data").unwrap(), "code").unwrap().trim_matches('"').to_owned();
        let code = Code::ALL.iter().find(|code| code.name() == name);
        let code = code.unwrap_or_else(|| panic!("unknown code: {line}"));
        assert_eq!(member(error, "code").unwrap(), code.number().to_string(), "{line}");
        assert!(!matches!(code, Code::Internal), "{line}");
        assert!(member(error, "message").is_some_and(|message| message.len() > 2), "{line}");
        name
    });
    Some((id.to_owned(), code))
}
