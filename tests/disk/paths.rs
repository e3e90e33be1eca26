//! Names on disk, against the published path vectors (FORMAT 13).

use std::path::Path;

use serde_json::Value;
use sessiond::disk::paths::{
    Encoding, LogPath, PathError, project_key, project_key_units, session_segment, session_segment_units,
};

/// The code units of a JSON string's text, lone surrogate escapes included (serde refuses those).
fn units(json: &str) -> Vec<u16> {
    let inner = json.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
    let mut units = Vec::new();
    let mut rest = inner.chars();
    while let Some(next) = rest.next() {
        let plain = match next {
            '\\' => match rest.next().unwrap() {
                'u' => {
                    let hex: String = rest.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&hex, 16).unwrap());
                    continue;
                }
                'n' => '\n',
                't' => '\t',
                same => same,
            },
            same => same,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    units
}

#[test]
fn vectors() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("../fixtures/paths.json")).unwrap();
    assert_eq!(rows.len(), 36);
    for row in rows {
        let text = |name: &str| row[name].as_str().map(units);
        let expected = &row["expect"]["ok"];
        match row["op"].as_str().unwrap() {
            "encodeSegment" => match session_segment_units(text("rawJson").unwrap()) {
                Ok(name) => assert_eq!(expected["segment"], name.as_str(), "{row}"),
                Err(error) => {
                    assert_eq!(error, PathError::EmptyId);
                    assert_eq!(row["expect"]["err"]["class"], "PATH_EMPTY_ID");
                }
            },
            "projectKey" => match project_key_units(text("rawJson").unwrap()) {
                Ok(name) => assert_eq!(expected["key"], name.as_str(), "{row}"),
                Err(error) => {
                    assert_eq!(error, PathError::EmptyCwd);
                    assert_eq!(row["expect"]["err"]["class"], "PATH_EMPTY_CWD");
                }
            },
            "logPath" => {
                let string = |name: &str| text(name).map(|units| String::from_utf16(&units).unwrap());
                let encoding = if row["compression"] == "zstd" { Encoding::Zstd } else { Encoding::Plain };
                let path =
                    LogPath::new(string("cwdJson").as_deref(), &string("idJson").unwrap(), encoding).unwrap();
                assert_eq!(expected["path"], Path::new("/root").join(path.log()).to_str().unwrap(), "{row}");
            }
            other => panic!("unknown operation {other}"),
        }
    }
}

#[test]
fn an_id_takes_at_most_255_bytes() {
    assert_eq!(session_segment(&"x".repeat(255)).unwrap().len(), 255);
    assert_eq!(session_segment(&"x".repeat(256)), Err(PathError::IdTooLong { bytes: 256 }));
    // One character beyond the basic plane takes ten bytes.
    assert_eq!(session_segment(&"👋".repeat(25)).unwrap().len(), 250);
    assert_eq!(session_segment(&"👋".repeat(26)), Err(PathError::IdTooLong { bytes: 260 }));
}

#[test]
fn project_keys_are_bounded_and_known_not_to_be_injective() {
    for cwd in ["/".repeat(9000), "x".repeat(9000), "é".repeat(9000), "~".repeat(251)] {
        assert!(project_key(Some(&cwd)).unwrap().len() <= 255);
    }
    assert_eq!(project_key(None).unwrap(), "_no-cwd");
    assert_eq!(project_key(Some("/a/b-c")), project_key(Some("/a-b/c")));
}

#[test]
fn no_name_leads_out_of_its_directory() {
    for id in [".", "..", "/", "../x", "a/../../b", "\0", "\\", "con:"] {
        let path = LogPath::new(Some(id), id, Encoding::Plain).unwrap().log();
        assert_eq!(path.components().count(), 3, "{id:?}");
        assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))), "{id:?}");
    }
}
