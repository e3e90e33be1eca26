//! Do real logs read as their index says: header, rows, packed rows, events, an even end?

use serde_json::Value;
use sessiond::json::Json;
use sessiond::log::{EnvelopeError, Log, Row, decode_row, pack_rows, parse_header_line, read_event};
use sessiond::view::open_turn;

use crate::support;

/// The log of a stored file, and how many of its rows were packed.
fn read(text: &str) -> (Log, u64) {
    let (mut log, mut packed) = (Log::new(), 0);
    for line in text.lines().skip(1) {
        let (value, checks) = Json::parse(line).unwrap();
        assert_eq!(checks.fault, None);
        match decode_row(value, checks.needs_compaction).unwrap() {
            Row::Event(event) => {
                let (seq, time, draft) = read_event(event, checks.needs_compaction).unwrap();
                assert_eq!(log.push(&draft, time).0, seq);
            }
            Row::Chunks(row) => {
                packed += 1;
                let pushed: Result<(), EnvelopeError> = row.each(|seq, time, draft| {
                    assert_eq!(log.push(draft, time).0, seq);
                    Ok(())
                });
                pushed.unwrap();
            }
        }
    }
    (log, packed)
}

#[test]
#[ignore = "needs ../shared/corpus"]
fn every_fixture_reads_as_its_index_says() {
    let root = support::needed("corpus");
    let index: Value =
        serde_json::from_str(&std::fs::read_to_string(root.join("fixtures/index.json")).unwrap()).unwrap();
    let files = index["files"].as_array().unwrap();
    for file in files {
        let name = file["rehydrated"].as_str().unwrap();
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        let (header, inherited) = parse_header_line(text.lines().next().unwrap()).unwrap();
        let (log, packed) = read(&text);
        assert_eq!(Some(log.len().get()), file["logicalEvents"].as_u64(), "{name}");
        assert_eq!(Some(packed), file["packedRows"].as_u64(), "{name}");
        let load = &file["rehydratedLoad"];
        if load["loads"] == true {
            assert!(support::same_json(&header.logical_json(), &load["header"].to_string()), "{name}");
            assert_eq!(Some(inherited.get()), load["inheritedEventCount"].as_u64(), "{name}");
            assert_eq!(open_turn(&log).is_some(), load["closersAppended"] != 0, "{name}");
        }
        // Packed again as one batch, it holds the same events.
        let rows = pack_rows(log.iter().map(|event| event.json()));
        assert!(rows.len() as u64 <= file["rows"].as_u64().unwrap(), "{name}");
        let again = rows.iter().fold(String::from("header\n"), |text, row| text + row + "\n");
        assert!(read(&again).0.iter().map(|e| e.line()).eq(log.iter().map(|e| e.line())), "{name}");
    }
    eprintln!("{} logs", files.len());
}
