//! Are headers read, refused and written as FORMAT 8, 13 and 13.1 say?

use base64::Engine;
use sessiond::json::{Json, JsonText};
use sessiond::log::{
    Header, HeaderError, HeaderLineFault, HeaderMeta, Offset, SessionId, SessionIdError, header_line,
    parse_header_line,
};

use crate::support;

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn json(text: &str) -> Json<'_> {
    Json::parse(text).unwrap().0
}

/// A header as the reference reads it, or the class that it is refused with.
fn logical(text: &str, expected: &str) -> Result<String, &'static str> {
    let (value, checks) = Json::parse(text).unwrap();
    if checks.fault.is_some() {
        return Err("HEADER_NOT_LOSSLESS");
    }
    let header = Header::from_logical(value, &id(expected)).map_err(|error| error.class())?;
    Ok(header.logical_json())
}

#[test]
fn constructed_headers() {
    support::each_op("06-header.json", "construct", |case, op| {
        let Some(text) = op.0["headerJson"].as_str() else { return };
        let got = logical(text, op.text("id"));
        let classes = op.classes();
        match &got {
            // Seeds and counts are checked after the header, by the session.
            Ok(_) if !classes.is_empty() => {
                let later = |class: &&str| !class.starts_with("HEADER_");
                assert!(classes.iter().all(later), "{case} {text} {classes:?}");
            }
            Ok(shown) => {
                let want = op.ok().unwrap()["header"].to_string();
                assert!(support::same_json(shown, &want), "{case} {shown} {want}");
            }
            Err(class) => assert!(classes.contains(class), "{case} {text} {class} {classes:?}"),
        }
    });
}

#[test]
fn metas_are_checked_by_the_same_rules() {
    support::each_op("06-header.json", "create", |case, op| {
        let Some(text) = op.0["metaJson"].as_str() else { return };
        // The wire has no isSeeded in a meta: a seed and its count say it.
        let got = HeaderMeta::parse(json(&text.replace("\"isSeeded\":true,", "")));
        match got {
            Ok(meta) => {
                let want = &op.ok().unwrap_or_else(|| panic!("{case} {text}"))["header"];
                let now = want["createdAt"].as_u64().unwrap_or(77);
                let header = meta.into_header(id(op.text("id")), now, want["isSeeded"] == true);
                let mut want = want.clone();
                want["createdAt"] = now.into();
                assert!(support::same_json(&header.logical_json(), &want.to_string()), "{case} {text}");
            }
            Err(error) => assert!(op.classes().contains(&error.class()), "{case} {text} {error}"),
        }
    });
}

#[test]
fn a_meta_is_strict() {
    for (text, error) in [
        ("null", HeaderError::NotRecord),
        ("[]", HeaderError::NotRecord),
        (r#"{"isSeeded":true}"#, HeaderError::UnknownMember("isSeeded".into())),
        (r#"{"cwd":null}"#, HeaderError::CwdType),
        (r#"{"parentSession":null}"#, HeaderError::ParentSession),
        (r#"{"seedLength":-1}"#, HeaderError::SeedLength),
        (r#"{"seedLength":"1"}"#, HeaderError::SeedLength),
        (r#"{"seedLength":9007199254740992}"#, HeaderError::SeedLength),
        (r#"{"origin":"user"}"#, HeaderError::Origin),
        (r#"{"agentPreset":"\ud800"}"#, HeaderError::LoneSurrogate("agentPreset")),
        (r#"{"cwd":"/\udc00"}"#, HeaderError::LoneSurrogate("cwd")),
    ] {
        assert_eq!(HeaderMeta::parse(json(text)), Err(error), "{text}");
    }
    let meta = HeaderMeta::parse(json(r#"{"parentSession":"p","seedLength":3,"cwd":"/w","_meta":{"x":1}}"#))
        .unwrap();
    assert_eq!(meta.seed_length, Offset::new(3));
    let header = meta.into_header(id("k"), 5, true);
    assert_eq!(
        header.logical_json(),
        r#"{"version":0,"id":"k","createdAt":5,"cwd":"/w","parentSession":"p","isSeeded":true}"#
    );
}

#[test]
fn first_lines_are_written_to_the_byte() {
    support::each_op("13-paths.json", "headerLine", |case, op| {
        let value = json(op.text("headerJson"));
        let own = value.get("id").unwrap().as_str().unwrap().decode().unwrap();
        let header = Header::from_logical(value, &id(&own)).unwrap();
        let inherited = Offset::new(op.0["inheritedEventCount"].as_u64().unwrap()).unwrap();
        let line = header_line(&header, inherited);
        assert_eq!(line, op.ok().unwrap()["lineJson"].as_str().unwrap(), "{case}");
        let (again, count) = parse_header_line(&line).unwrap();
        let depth = Some(header.delegation_depth.unwrap_or(0));
        assert_eq!((again, count), (Header { delegation_depth: depth, ..header }, inherited), "{case}");
    });
}

#[test]
fn first_lines_of_recorded_logs() {
    for (file, name) in [("14-scan.json", "scanLog"), ("15-load.json", "load")] {
        support::each_op(file, name, |case, op| {
            let bytes = base64::engine::general_purpose::STANDARD.decode(op.text("bytesBase64")).unwrap();
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return };
            let line = std::str::from_utf8(&bytes[..end]).unwrap();
            let classes = op.classes();
            let about_header = |class: &&str| {
                class.starts_with("LOG_HEADER")
                    || class.starts_with("HEADER_") && !class.starts_with("HEADER_EVENT")
                    || class.starts_with("VERSION")
            };
            let got = parse_header_line(line);
            match &got {
                Ok((header, inherited)) => {
                    assert!(!classes.iter().any(about_header), "{case} {line} {classes:?}");
                    if let Some(ok) = op.ok() {
                        assert!(
                            support::same_json(&header.logical_json(), &ok["header"].to_string()),
                            "{case}"
                        );
                        assert_eq!(Some(inherited.get()), ok["inheritedEventCount"].as_u64(), "{case}");
                    }
                }
                // The reference's scan leaves the types of cwd and parentSession to its load.
                Err(error) if name == "scanLog" && error.class() == "HEADER_PARENT_SESSION" => {}
                Err(error) => assert!(classes.contains(&error.class()), "{case} {line} {error} {classes:?}"),
            }
        });
    }
}

fn line(change: &str) -> String {
    format!(r#"{{"type":"session","version":0,"id":"log","createdAt":1,"delegationDepth":0{change}}}"#)
}

#[test]
fn the_order_of_checks_and_what_an_error_still_tells() {
    use HeaderLineFault::*;
    let class = |text: &str| parse_header_line(text).unwrap_err().class();
    assert_eq!(class(r#"{"version":2,"a":-0,"a":1}"#), "VERSION_NEWER");
    assert_eq!(class(r#"{"version":-0.5}"#), "VERSION_OLDER");
    assert_eq!(class(r#"{"version":1e400}"#), "VERSION_NEWER");
    assert_eq!(class(&line(",\"origin\":\"x\",\"sandboxMode\":1")), "LOG_HEADER_SHAPE");
    assert_eq!(class(&line(",\"cwd\":\"rel\",\"sandboxMode\":null")), "LOG_HEADER_RETIRED_FIELDS");
    assert_eq!(class(&line(",\"cwd\":\"rel\"")), "HEADER_CWD_RELATIVE");
    assert_eq!(class(&line(",\"cwd\":1")), "HEADER_CWD_TYPE");
    assert_eq!(class(&line(",\"parentSession\":1")), "HEADER_PARENT_SESSION");
    assert_eq!(class(&line(",\"agentPreset\":1")), "LOG_HEADER_SHAPE");
    assert_eq!(class(&line(",\"seedLength\":null")), "LOG_HEADER_SHAPE");
    assert_eq!(class(&line(",\"id\":\"twice\"")), "LOG_HEADER_SHAPE");
    assert_eq!(class(&line(",\"x\":1e999")), "LOG_HEADER_SHAPE");
    for text in ["null", "[]", "5", "{}"] {
        assert_eq!(class(text), "LOG_HEADER_SHAPE");
    }
    for text in ["", "\u{feff}{}", "{", "{}{}"] {
        assert_eq!(class(text), "LOG_HEADER_NOT_JSON");
    }
    let error = parse_header_line(r#"{"version":42, "id" : "x" ,"future":true}"#).unwrap_err();
    assert_eq!(
        (error.id.as_ref().map(JsonText::text), &error.fault),
        (Some("\"x\""), &Version { version: 42.0 })
    );
    assert!(error.fault.is_unsupported());
    assert!(error.to_string().contains("v42"));
    let error = parse_header_line(&line(",\"cwd\":\"rel\"")).unwrap_err();
    assert_eq!(error.id.unwrap().text(), "\"log\"");
}

#[test]
fn ids_that_are_not_ours_are_unsupported_and_still_named() {
    let text =
        |id: &str| format!(r#"{{"type":"session","version":0,"id":{id},"createdAt":1,"delegationDepth":0}}"#);
    let long = format!("\"{}\"", "é".repeat(60));
    for (id, want) in [
        ("\"\"", SessionIdError::Empty),
        (r#""a\ud83d""#, SessionIdError::LoneSurrogate),
        (long.as_str(), SessionIdError::TooLong(300)),
    ] {
        let error = parse_header_line(&text(id)).unwrap_err();
        assert_eq!(error.fault, HeaderLineFault::Field(HeaderError::UnsupportedId(want)));
        assert_eq!(error.id.as_ref().unwrap().text(), id);
        assert!(error.fault.is_unsupported());
        assert_eq!(error.class(), "HEADER_ID_UNSUPPORTED");
    }
    let (header, _) = parse_header_line(&text(r#""\ud83d\ude00\u0061""#)).unwrap();
    assert_eq!(header.id.as_str(), "😀a");
}

#[test]
fn texts_survive_the_line() {
    let header = Header {
        id: id("a\u{2028}\"\\\n"),
        created_at: 9007199254740991,
        cwd: Some("/\u{85}é\t".into()),
        parent_session: Some(String::new()),
        is_seeded: true,
        subagent: true,
        delegation_depth: Some(2),
        agent_preset: Some("\u{1}".into()),
    };
    let line = header_line(&header, Offset::ZERO);
    assert!(!line.contains(['\n', '\u{85}', '\u{2028}']));
    assert_eq!(parse_header_line(&format!(" {line}\r")).unwrap(), (header.clone(), Offset::ZERO));
    assert_eq!(Header::from_logical(json(&header.logical_json()), &header.id).unwrap(), header);
}
