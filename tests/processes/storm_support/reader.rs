//! Reads a stored log by itself, without a line of the daemon's code.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    pub id: String,
    pub parent_session: Option<String>,
    pub seed_length: Option<usize>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: String,
    seq: usize,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// A client's note: its number, and the session that it was appended to.
#[derive(Deserialize)]
pub struct Note {
    pub n: u64,
    pub s: String,
}

pub struct Stored {
    pub kind: String,
    pub digest: u64,
    pub note: Option<Note>,
}

pub struct Log {
    pub header: Header,
    pub events: Vec<Stored>,
    /// Bytes after the last whole event.
    pub torn: usize,
}

pub fn digest(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}

/// An event, if the text is one; with its seq.
pub fn event(text: &[u8]) -> Option<(usize, Stored)> {
    let event: Event<'_> = serde_json::from_slice(text).ok()?;
    let note = (event.kind == "x/note").then(|| serde_json::from_str(event.data.get()).unwrap());
    Some((event.seq, Stored { kind: event.kind, digest: digest(text), note }))
}

/// Everything up to the first line that is no event; seqs must be contiguous.
pub fn read(path: &Path) -> Log {
    let bytes = std::fs::read(path).unwrap();
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let header = serde_json::from_slice(first).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut events, mut whole) = (Vec::new(), first.len());
    for line in lines {
        let Some((seq, event)) = event(line.strip_suffix(b"\n").unwrap_or(line)) else { break };
        assert_eq!(seq, events.len(), "{}: seqs are contiguous", path.display());
        events.push(event);
        whole += line.len();
    }
    Log { header, events, torn: bytes.len() - whole }
}

/// Files of a store: logs by session directory, and what lies beside them.
#[derive(Default)]
pub struct Files {
    pub logs: BTreeMap<String, PathBuf>,
    pub temporary: Vec<PathBuf>,
    pub owners: Vec<PathBuf>,
    pub odd: Vec<PathBuf>,
}

pub fn files(store: &Path) -> Files {
    let mut files = Files::default();
    let entries = |dir: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(dir).map_or(Vec::new(), |dir| dir.map(|entry| entry.unwrap().path()).collect())
    };
    for session in entries(store).iter().flat_map(|project| entries(project)) {
        let id = session.file_name().unwrap().to_str().unwrap().to_owned();
        for path in entries(&session) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            match name.as_str() {
                "session.jsonl" => {
                    assert!(files.logs.insert(id.clone(), path).is_none(), "{id} is there twice")
                }
                "session.owner" => files.owners.push(path),
                "session.summary.json" => {}
                _ if name.ends_with(".tmp") => files.temporary.push(path),
                _ if name.starts_with("session.jsonl.cut-") => {}
                _ => files.odd.push(path),
            }
        }
    }
    files
}
