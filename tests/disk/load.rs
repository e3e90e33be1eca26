//! Do stored logs load as FORMAT 13 says, but for the differences that PROTOCOL 9 names?
//!
//! The vectors lie beside the project, with a subset in `tests/fixtures`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sessiond::disk::catalog::find::check_place;
use sessiond::disk::paths::{Encoding, LogPath};
use sessiond::disk::read::damage::Damage;
use sessiond::disk::read::reader::{ReadLimits, Scan, read_log};
use sessiond::json::Json;
use sessiond::log::SessionId;

use crate::load_support;
use crate::load_support::{Keeper, Loaded, load, repaired};
use crate::support;

fn bytes_of(op: &support::Op) -> Vec<u8> {
    STANDARD.decode(op.text("bytesBase64")).unwrap()
}

/// The differences to the reference's scan, each with the clause that wants it. All must be needed.
#[derive(Default)]
struct Exceptions {
    used: BTreeMap<&'static str, usize>,
}

impl Exceptions {
    const ALL: [(&'static str, &'static str); 3] = [
        ("lossless", "9.2: a stored -0, overflow or duplicate key damages its record"),
        ("utf-8", "9.3: a record that is not UTF-8 is damaged"),
        ("newline", "9.3: a complete last record without its newline is kept"),
    ];

    fn use_one(&mut self, name: &'static str) {
        assert!(Self::ALL.iter().any(|(known, _)| *known == name));
        *self.used.entry(name).or_default() += 1;
    }

    fn all_needed(&self) {
        for (name, clause) in Self::ALL {
            assert!(self.used.contains_key(name), "not needed any more: {name} ({clause})");
        }
    }
}

/// A physical scan: nothing of the events' meaning is checked. The reference checks no envelope there either.
fn scan(bytes: &[u8]) -> Result<(Scan, Keeper), String> {
    let mut keeper = Keeper::default();
    let scan = read_log(&bytes, bytes.len() as u64, Encoding::Plain, ReadLimits::default(), &mut keeper)
        .map_err(|error| error.class().to_owned())?;
    load_support::check(&scan, bytes.len() as u64);
    match scan.failure() {
        Some(problem) => Err(problem.class().to_owned()),
        None => Ok((scan, keeper)),
    }
}

/// The difference that a log shows, by looking at its bytes in another way than the reader does.
fn exception_of(bytes: &[u8], lossy_rule: bool) -> Option<&'static str> {
    if lossy_rule {
        return Some("lossless");
    }
    if std::str::from_utf8(bytes).is_err() {
        return Some("utf-8");
    }
    let last = bytes.rsplit(|byte| *byte == b'\n').next().unwrap();
    serde_json::from_slice::<Value>(last).is_ok().then_some("newline")
}

#[test]
fn scans_agree_with_the_reference_but_for_the_table() {
    let mut exceptions = Exceptions::default();
    for file in support::vector_files(&["14", "28"]) {
        support::each_op(&file, "scanLog", |id, op| scans_as(id, op, &mut exceptions));
    }
    exceptions.all_needed();
}

fn scans_as(id: &str, op: &support::Op, exceptions: &mut Exceptions) {
    let bytes = bytes_of(op);
    let found = scan(&bytes);
    // The reference's scan lets any object with the right seq pass; its load refuses it (SEED_ENVELOPE).
    if let (Err(class), Some(ok)) = (&found, op.ok()) {
        // The header's fields are checked at once here, after the events there.
        let late = ["SEED_ENVELOPE", "HEADER_PARENT_SESSION", "HEADER_CWD_TYPE", "LEGACY_SHAPE_MALFORMED"];
        if late.contains(&class.as_str()) {
            assert!(class.starts_with("HEADER_") || !support::texts(&ok["eventsJsonl"]).is_empty(), "{id}");
            return;
        }
    }
    if op.is_informative() {
        assert_eq!(found.as_ref().map(|(_, keeper)| keeper.log.len().get()).unwrap(), 1, "{id}");
        return;
    }
    let Some(ok) = op.ok() else {
        assert!(op.classes().contains(&found.err().unwrap().as_str()), "{id}");
        return;
    };
    let (scan, keeper) = found.unwrap_or_else(|class| panic!("{id}: {class}"));
    assert!(support::same_json(&scan.header.logical_json(), &ok["header"].to_string()), "{id}");
    assert_eq!(Some(scan.inherited.get()), ok["inheritedEventCount"].as_u64(), "{id}");
    let mine: Vec<_> = keeper.log.iter().map(|event| event.line().to_owned()).collect();
    let expected = support::texts(&ok["eventsJsonl"]);
    let same_events =
        mine.len() == expected.len() && mine.iter().zip(&expected).all(|(a, b)| support::same_json(a, b));
    if same_events && Some(scan.committed) == ok["committedBytes"].as_u64() {
        return;
    }
    let name = exception_of(&bytes, id.starts_with("scan.lossy-values"));
    let name = name.unwrap_or_else(|| panic!("{id}: {mine:?} {} {ok}", scan.committed));
    exceptions.use_one(name);
    match name {
        "newline" => {
            assert!(scan.missing_newline && scan.torn.is_none(), "{id}");
            assert!(mine.len() > expected.len(), "{id}");
        }
        _ => {
            assert!(mine.len() < expected.len(), "{id}");
            let damage = &scan.problems[0].damage;
            assert!(matches!(damage, Damage::Lossy(_) | Damage::NotUtf8(_)), "{id}: {damage:?}");
        }
    }
}

fn load_at(op: &support::Op, bytes: &[u8]) -> Result<Loaded, (String, String)> {
    let loaded = load(bytes, Encoding::Plain)?;
    let text =
        |name| Json::parse(op.text(name)).ok().map(|(json, _)| json.as_str().unwrap().decode().unwrap());
    let (id, cwd) = (text("idJson").unwrap(), text("cwdJson"));
    let path = LogPath::new(cwd.as_deref(), &id, Encoding::Plain).unwrap();
    check_place(&loaded.header, &SessionId::new(&id).unwrap(), &path)
        .map_err(|odd| (odd.class().to_owned(), odd.to_string()))?;
    Ok(loaded)
}

#[test]
fn loads_agree_with_the_reference() {
    let mut lossy = 0;
    support::each_op("15-load.json", "load", |id, op| {
        let bytes = bytes_of(op);
        let found = load_at(op, &bytes);
        if op.is_informative() {
            lossy += 1;
            let loaded = found.unwrap_or_else(|(class, text)| panic!("{id}: {class} {text}"));
            assert!(matches!(loaded.scan.problems[0].damage, Damage::Lossy(_)));
            return;
        }
        let Some(ok) = op.ok() else {
            let (class, text) = found.err().unwrap_or_else(|| panic!("{id} loads"));
            assert!(op.classes().contains(&class.as_str()), "{id}: {class} {text}");
            return;
        };
        let loaded = found.unwrap_or_else(|(class, text)| panic!("{id}: {class} {text}"));
        assert!(support::same_json(&loaded.header.logical_json(), &ok["header"].to_string()), "{id}");
        assert_eq!(Some(loaded.inherited), ok["inheritedEventCount"].as_u64(), "{id}");
        // Byte for byte: members stand where the reference puts them.
        assert_eq!(loaded.lines(), support::texts(&ok["eventsJsonl"]), "{id}");
        let after = STANDARD.decode(ok["fileAfterBase64"].as_str().unwrap()).unwrap();
        let (after, mine) =
            (String::from_utf8(after).unwrap(), String::from_utf8(repaired(&bytes, &loaded)).unwrap());
        assert_eq!(mine.lines().count(), after.lines().count(), "{id}");
        assert!(
            mine.lines().zip(after.lines()).all(|(a, b)| support::same_json(a, b)),
            "{id}: {mine}\n{after}"
        );
    });
    assert_eq!(lossy, 1);
}

#[test]
#[ignore = "needs ../shared/corpus"]
fn real_logs_load_as_their_index_says() {
    let root = support::needed("corpus");
    let index: Value =
        serde_json::from_str(&std::fs::read_to_string(root.join("fixtures/index.json")).unwrap()).unwrap();
    let (mut loads, mut upgraded) = (0, 0);
    for file in index["files"].as_array().unwrap() {
        let name = file["rehydrated"].as_str().unwrap();
        let bytes = std::fs::read(root.join(name)).unwrap();
        let (found, expected) = (load(&bytes, Encoding::Plain), &file["rehydratedLoad"]);
        if expected["loads"] != true {
            let (class, text) = found.err().unwrap_or_else(|| panic!("{name} loads"));
            assert_eq!(expected["class"], class, "{name}: {text}");
            continue;
        }
        let loaded = found.unwrap_or_else(|(class, text)| panic!("{name}: {class} {text}"));
        loads += 1;
        upgraded += loaded.scan.counts.upgraded;
        assert!(support::same_json(&loaded.header.logical_json(), &expected["header"].to_string()), "{name}");
        assert_eq!(Some(loaded.history.log().len().get()), expected["events"].as_u64(), "{name}");
        assert_eq!(Some(loaded.closers), expected["closersAppended"].as_u64(), "{name}");
        assert_eq!(Some(loaded.scan.counts.upgraded), expected["legacyUpgradedEvents"].as_u64(), "{name}");
        assert_eq!(
            Some(loaded.history.view().surface.len() as u64),
            expected["surfaceLength"].as_u64(),
            "{name}"
        );
        assert_eq!(loaded.scan.torn, None);
        assert_eq!(derived_sha256(&loaded), expected["derivedSha256"].as_str().unwrap(), "{name}");
    }
    eprintln!("{loads} real logs loaded, {upgraded} events upgraded");
    assert!(loads > 80 && upgraded > 20);
}

/// SHA-256 of the derived messages as the reference prints them. Its numbers and escapes are as stored in these logs.
fn derived_sha256(loaded: &Loaded) -> String {
    use sha2::{Digest, Sha256};
    let (log, surface) = (loaded.history.log(), &loaded.history.view().surface);
    let messages = surface.message_seqs(0).map(|seq| {
        let message = sessiond::view::message_of(log.get(seq).unwrap()).unwrap();
        let value: Value = serde_json::from_str(message.text()).unwrap();
        let _ = value;
        message.text().to_owned()
    });
    let text = format!("[{}]", messages.collect::<Vec<_>>().join(","));
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
