//! Do the reference's own artifacts load as it loads them: whole, damaged by hand, cut at every size, flipped?
//!
//! All of it needs the corpus, which lies beside the project; `load` and `zstd` do without.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sessiond::disk::catalog::find::{FindError, Later, check_place, find};
use sessiond::disk::fs::os::OsFs;
use sessiond::disk::paths::Encoding;
use sessiond::disk::read::damage::{Damage, Problem};
use sessiond::disk::read::reader::{ReadLimits, read_log};
use sessiond::json::Json;
use sessiond::log::SessionId;

use crate::load_support;
use crate::load_support::{Keeper, Loaded, load};
use crate::support;

fn artifacts() -> Vec<(String, PathBuf, Value)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(support::needed("corpus/artifacts")).unwrap() {
        let dir = entry.unwrap().path();
        if let Ok(text) = std::fs::read_to_string(dir.join("expect.json")) {
            let name = dir.file_name().unwrap().to_str().unwrap().to_owned();
            all.push((name, dir.join("root"), serde_json::from_str(&text).unwrap()));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(all.len() > 30);
    all
}

/// Finds, reads and checks a session as a load does.
fn load_from(root: &Path, id: &SessionId) -> Result<Loaded, (String, String)> {
    let path = match find(&OsFs::new(root), id) {
        Ok(Some(path)) => path,
        Ok(None) => return Err(("SESSION_NOT_FOUND".to_owned(), String::new())),
        Err(FindError::Later(later)) => return Err((Later::CLASS.to_owned(), later.to_string())),
        Err(FindError::Odd(odd)) => return Err((odd.class().to_owned(), odd.to_string())),
        Err(error) => panic!("{error}"),
    };
    let loaded = load(&std::fs::read(root.join(path.log())).unwrap(), path.encoding())?;
    check_place(&loaded.header, id, &path).map_err(|odd| (odd.class().to_owned(), odd.to_string()))?;
    Ok(loaded)
}

/// Where we load what the reference does not, or the other way round, and the clause that wants it. All are needed.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("flat-layout", "9.4: an odd artifact hides no other, so its neighbour loads"),
    ("wrong-encoding", "9.4: the encoding is decided per session"),
    ("odd-ids", "9.5: an id with a lone surrogate is no session id here"),
    ("newline", "9.3: a complete last record without its newline is kept"),
    (
        "unnumbered turn",
        "3, Append: what an append accepts, every load accepts; such a turn is closed by its place in the count of turns",
    ),
];

#[test]
#[ignore = "needs ../shared/corpus"]
fn artifacts_load_as_the_reference_loads_them() {
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, root, expect) in artifacts() {
        let before = tree(&root);
        for expected in expect["loads"].as_array().unwrap() {
            let (json, _) = Json::parse(expected["idJson"].as_str().unwrap()).unwrap();
            let context = format!("{name} {}", json.text());
            let Ok(id) = SessionId::from_json(json.as_str().unwrap()) else {
                assert!(name.starts_with("odd-ids"), "{context}");
                *used.entry("odd-ids").or_default() += 1;
                continue;
            };
            let found = load_from(&root, &id);
            let stem = name.rsplit_once('.').unwrap().0;
            if let Some(stem) = ["flat-layout", "wrong-encoding"].into_iter().find(|known| *known == stem) {
                assert!(expected["err"].is_object() && found.is_ok(), "{context}");
                *used.entry(stem).or_default() += 1;
                continue;
            }
            match (&found, expected.get("ok")) {
                (Ok(loaded), Some(ok)) => {
                    let header = ok["headerJson"].as_str().unwrap();
                    assert!(support::same_json(&loaded.header.logical_json(), header), "{context}");
                    assert_eq!(Some(loaded.inherited), ok["inheritedEventCount"].as_u64(), "{context}");
                    let lines = support::texts(&ok["eventsJsonl"]);
                    assert_eq!(loaded.lines().len(), lines.len(), "{context}");
                    assert!(
                        loaded.lines().iter().zip(lines).all(|(a, b)| support::same_json(a, b)),
                        "{context}"
                    );
                }
                (Err((class, text)), None) => {
                    assert_eq!(expected["err"]["class"], class.as_str(), "{context}: {text}");
                }
                (Err((class, text)), Some(_)) => panic!("{context}: {class} {text}"),
                (Ok(_), None) => panic!("{context} loads, not: {}", expected["err"]),
            }
        }
        assert_eq!(tree(&root), before, "{name}: reading wrote");
        if name.starts_with("torn-tail") {
            *used.entry("newline").or_default() += cuts(&name, &root, &expect["cuts"]);
            *used.entry("unnumbered turn").or_default() += flips(&name, &root, &expect["flips"]);
        }
    }
    for (name, clause) in EXCEPTIONS {
        assert!(used.get(name).is_some_and(|count| *count > 0), "not needed: {name} ({clause})");
    }
    eprintln!("exceptions used: {used:?}");
}

/// Every file below a directory, with its bytes.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(tree(&path));
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

fn encoding_of(name: &str) -> Encoding {
    if name.ends_with(".zstd") { Encoding::Zstd } else { Encoding::Plain }
}

/// The log cut at every size; the answer is how many cuts keep one record more than the reference does.
fn cuts(name: &str, root: &Path, cuts: &Value) -> usize {
    let (bytes, encoding) =
        (std::fs::read(root.join(cuts["file"].as_str().unwrap())).unwrap(), encoding_of(name));
    let whole = load(&bytes, encoding).unwrap();
    let (mut more, mut sizes) = (0, 0);
    for row in cuts["rows"].as_array().unwrap() {
        let size = usize::try_from(row["size"].as_u64().unwrap()).unwrap();
        sizes += 1;
        match (load(&bytes[..size], encoding), row["err"].as_str()) {
            (Ok(loaded), None) => {
                let expected = row["events"].as_u64().unwrap();
                let sound = loaded.scan.events.get() as usize;
                assert!(whole.lines().starts_with(&loaded.lines()[..sound]), "{name} cut to {size}");
                // Cut just before a line end: the record is whole (PROTOCOL 9.3).
                let next_to_newline = encoding == Encoding::Plain && bytes.get(size) == Some(&b'\n');
                if next_to_newline && size > usize::try_from(loaded.scan.header_bytes).unwrap() {
                    assert!(loaded.scan.missing_newline, "{name} cut to {size}");
                    more += 1;
                    let shorter = load(&bytes[..size - 1], encoding).unwrap();
                    assert_eq!(shorter.history.log().len().get(), expected, "{name} cut to {size}");
                    continue;
                }
                assert_eq!(loaded.history.log().len().get(), expected, "{name} cut to {size}");
                if let Some(after) = row["after"]["bytes"].as_u64().filter(|_| encoding == Encoding::Plain) {
                    // The reference prints its closers and the file as we do, the time of day aside.
                    let mine = load_support::repaired(&bytes[..size], &loaded).len() as u64;
                    assert_eq!(mine, after, "{name} cut to {size}");
                }
            }
            (Err((class, _)), Some(expected)) => assert_eq!(class, expected, "{name} cut to {size}"),
            (Ok(_), Some(expected)) => panic!("{name} cut to {size} loads, not: {expected}"),
            (Err((class, text)), None) => panic!("{name} cut to {size}: {class} {text}"),
        }
    }
    assert_eq!(sizes, bytes.len() + 1);
    more
}

fn is_unnumbered(line: &str) -> bool {
    let event: Value = serde_json::from_str(line).unwrap();
    event["type"] == "turn/start" && !event["data"]["turn"].is_u64()
}

/// One byte changed: never a crash, refused where the reference refuses; what still loads is a prefix of the original
/// but for what stands inside strings and numbers. The answer is how often an open turn has lost its number.
fn flips(name: &str, root: &Path, flips: &Value) -> usize {
    let (bytes, encoding) =
        (std::fs::read(root.join(flips["file"].as_str().unwrap())).unwrap(), encoding_of(name));
    let id = SessionId::new(flips["idJson"].as_str().unwrap().trim_matches('"')).unwrap();
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for row in flips["rows"].as_array().unwrap() {
        let at = usize::try_from(row["at"].as_u64().unwrap()).unwrap();
        let mut bytes = bytes.clone();
        bytes[at] ^= u8::try_from(row["mask"].as_u64().unwrap()).unwrap();
        let context = format!("{name} byte {at}");
        let found = load(&bytes, encoding).and_then(|loaded| {
            let cwd = loaded.header.cwd.clone();
            let path =
                sessiond::disk::paths::LogPath::new(Some("/srv/project"), id.as_str(), encoding).unwrap();
            let _ = cwd;
            check_place(&loaded.header, &id, &path)
                .map(|()| loaded)
                .map_err(|odd| (odd.class().to_owned(), odd.to_string()))
        });
        let key = match (&found, row["err"].as_str()) {
            (Ok(loaded), None) => {
                assert_eq!(Some(loaded.history.log().len().get()), row["events"].as_u64(), "{context}");
                "both load".to_owned()
            }
            (Ok(loaded), Some("LEGACY_SHAPE_MALFORMED"))
                if loaded.closers > 0 && loaded.lines().iter().any(|line| is_unnumbered(line)) =>
            {
                "a turn without a number is closed".to_owned()
            }
            (Ok(_), Some(expected)) => panic!("{context} loads, not: {expected}"),
            (Err((class, _)), Some(expected)) if class == expected => "same class".to_owned(),
            (Err((class, _)), Some(expected)) => format!("{expected} is {class} here"),
            (Err((class, text)), None) => {
                format!("refused here only: {class} {}", text.split(": ").nth(1).unwrap_or(""))
            }
        };
        *outcomes.entry(key).or_default() += 1;
    }
    eprintln!("{name}: {outcomes:#?}");
    outcomes.get("a turn without a number is closed").copied().unwrap_or(0)
}

fn problems(bytes: &[u8], encoding: Encoding) -> Vec<Problem> {
    read_log(&bytes, bytes.len() as u64, encoding, ReadLimits::default(), &mut Keeper::default())
        .unwrap()
        .problems
}

#[test]
#[ignore = "needs ../shared/corpus"]
fn a_damaged_frame_takes_its_events_back() {
    let (_, root, _) = artifacts().into_iter().find(|(name, ..)| name == "simple.zstd").unwrap();
    let path =
        tree(&root).into_keys().find(|path| path.extension().is_some_and(|ext| ext == "zstd")).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let all = load(&bytes, Encoding::Zstd).unwrap();
    let whole: Vec<_> = all.lines().iter().map(|line| (*line).to_owned()).collect();
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        let mut keeper = Keeper::default();
        let scan = read_log(
            &bytes.as_slice(),
            bytes.len() as u64,
            Encoding::Zstd,
            ReadLimits::default(),
            &mut keeper,
        );
        let Ok(scan) = scan else { continue };
        load_support::check(&scan, bytes.len() as u64);
        assert_eq!(scan.events, keeper.log.len());
        assert!(keeper.log.iter().zip(&whole).all(|(event, line)| event.line() == line), "byte {at}");
        if scan.failure().is_none() {
            assert!(scan.torn.is_some() || scan.events.get() as usize == whole.len(), "byte {at}");
        }
    }
    let nuls = [&bytes[..], &[0; 5000]].concat();
    assert!(matches!(problems(&nuls, Encoding::Zstd)[0].damage, Damage::Nuls(5000)));
    let loaded = load(&nuls, Encoding::Zstd).unwrap();
    assert_eq!((loaded.lines().len(), loaded.scan.committed), (whole.len(), bytes.len() as u64));
    assert_eq!(loaded.scan.recovered_from, loaded.scan.events);
}
