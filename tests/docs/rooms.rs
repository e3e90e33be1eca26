//! Does every room name only rooms to its left? (`ARCHITECTURE.md`)
//!
//! ```text
//! json <- log <- view <- session <- store <- server <- daemon <- cli <- main
//! json, log <- disk <- store
//! json, log <- acp <- server
//! json, log, view <- protocol <- server, client (feature `client`)
//! stdio <- daemon
//! replay <- daemon, cli
//! ```
//!
//! Reads the source as text, comments and strings taken out. Beside the edges: what the inner rooms
//! never name, how long a file may be, what `mod.rs` holds, and that no file tells of a machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each room with the rooms that it may name.
const ROOMS: [(&str, &[&str]); 14] = [
    ("json", &[]),
    ("log", &["json"]),
    ("view", &["json", "log"]),
    ("session", &["json", "log", "view"]),
    ("disk", &["json", "log"]),
    ("acp", &["json", "log"]),
    // The words of the wire; the schema restates what the view checks.
    ("protocol", &["json", "log", "view"]),
    ("store", &["json", "log", "view", "session", "disk"]),
    ("server", &["json", "log", "view", "session", "acp", "protocol", "store"]),
    // Bytes and lines only.
    ("stdio", &[]),
    // The other end of the pipes: it knows the wire, and no store.
    ("client", &["json", "protocol"]),
    // Judges any daemon, so it knows none.
    ("replay", &[]),
    ("daemon", &["json", "log", "session", "store", "server", "stdio", "replay"]),
    ("cli", &["json", "log", "session", "disk", "protocol", "store", "server", "stdio", "replay", "daemon"]),
];

/// Rooms that are given time, ids and bytes as arguments.
const PURE: [&str; 4] = ["json", "log", "view", "session"];

/// What they never name.
const WORLD: [&str; 6] =
    ["tokio", "jsonrpsee", "std::fs", "std::net", "std::process", "std::time::SystemTime"];

/// Lines of the longest file.
const LONGEST: usize = 600;

struct Source {
    /// From `src` on, with `/`.
    name: String,
    text: String,
    /// Without comments and the contents of strings.
    code: String,
}

impl Source {
    fn room(&self) -> &str {
        let first = self.name.split('/').next().unwrap();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// How many `super::` lead from this module to the crate.
    fn depth(&self) -> usize {
        let path = self.name.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').count()
    }
}

fn sources() -> Vec<Source> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), found);
            } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
                found.push(entry.path());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&root, &mut found);
    found.sort();
    let source = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
        let text = fs::read_to_string(&path).unwrap();
        let code = code_of(&text);
        Source { name, text, code }
    };
    found.into_iter().map(source).collect()
}

/// The code of a source: comments gone, strings and characters empty.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(len) = raw_string(rest).filter(|_| !code.ends_with(is_name)) {
            code.push_str("\"\"");
            len
        } else if first == '"' {
            code.push_str("\"\"");
            quoted(rest, '"')
        } else if let Some(len) = character(rest) {
            code.push_str("' '");
            len
        } else {
            code.push(first);
            first.len_utf8()
        };
        rest = &rest[skipped..];
    }
    code
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a raw string that starts here: `r"…"`, `r#"…"#`, `br"…"`.
fn raw_string(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('b').unwrap_or(text).strip_prefix('r')?;
    let hashes = inner.len() - inner.trim_start_matches('#').len();
    let body = inner[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + length)
}

/// The length of what is quoted from here on, its quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal, told apart from a lifetime by its closing quote.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.strip_prefix('\'')?.chars();
    match chars.next()? {
        '\\' => Some(quoted(text, '\'')),
        c => (chars.next()? == '\'').then(|| 2 + c.len_utf8()),
    }
}

/// The names that follow a path's head: `crate::a` and `crate::{a, b::{c}}`.
fn named_after(code: &str, head: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(head) {
        if code[..at].ends_with(|c| is_name(c) || c == ':') {
            continue;
        }
        let rest = code[at + head.len()..].trim_start();
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group_names(group)),
            None => names.extend(first_name(rest)),
        }
    }
    names
}

fn first_name(text: &str) -> Option<String> {
    let text = text.trim_start();
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// The heads of a group's paths, from after its `{` on.
fn group_names(group: &str) -> Vec<String> {
    let mut names: Vec<String> = first_name(group).into_iter().collect();
    let mut depth = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.extend(first_name(&group[at + 1..])),
            _ => {}
        }
    }
    names
}

/// The rooms that a source names, its own left out.
fn edges(source: &Source) -> Vec<String> {
    let mut names = named_after(&source.code, "crate::");
    // Out of the room by its roof, one step further from within an inline module.
    for steps in [source.depth(), source.depth() + 1] {
        names.extend(named_after(&source.code, &"super::".repeat(steps)));
    }
    names.extend(named_after(&source.code, "sessiond::"));
    names.retain(|name| name != source.room() && ROOMS.iter().any(|(room, _)| room == name));
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_room_names_only_rooms_to_its_left() {
    let (mut wrong, mut met) = (Vec::new(), 0);
    for source in sources() {
        if matches!(source.room(), "main" | "lib") {
            continue; // main wires everything, lib lists the rooms
        }
        let Some((_, allowed)) = ROOMS.iter().find(|(room, _)| *room == source.room()) else {
            wrong.push(format!("src/{}: no room of that name in the picture", source.name));
            continue;
        };
        for name in edges(&source) {
            met += 1;
            if !allowed.contains(&name.as_str()) {
                wrong.push(format!("src/{}: {} must not name {name}", source.name, source.room()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(met > 20, "only {met} edges were seen: the reader of sources is blind");
}

#[test]
fn inner_rooms_name_no_runtime_files_or_clock() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| PURE.contains(&source.room())) {
        for world in WORLD {
            let (head, last) = world.rsplit_once("::").unwrap_or(("", world));
            let grouped = !head.is_empty()
                && named_after(&source.code, &format!("{head}::")).iter().any(|name| name == last);
            let plain = head.is_empty() && source.code.split(|c| !is_name(c)).any(|word| word == world);
            // `std::{time::SystemTime}` and `use std::time` both end in the name itself.
            let clock = last == "SystemTime" && source.code.contains(last);
            if grouped || plain || clock {
                wrong.push(format!("src/{} names {world}", source.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The one file with an unsafe call, and why it is sound.
const UNSAFE: &str = "store/jsonl/heap.rs";

#[test]
fn unsafe_code_is_one_call() {
    let unsafe_words =
        |source: &Source| source.code.split(|c| !is_name(c)).filter(|word| *word == "unsafe").count();
    for source in sources() {
        let most = usize::from(source.name == UNSAFE);
        assert!(unsafe_words(&source) <= most, "src/{} has unsafe code; only {UNSAFE} may", source.name);
    }
}

#[test]
fn no_file_is_too_long() {
    for source in sources() {
        let lines = source.text.lines().count();
        assert!(lines <= LONGEST, "src/{} has {lines} lines; {LONGEST} is the most", source.name);
    }
}

/// Whether a source is docs, attributes, `mod` and `use` only.
fn is_bare(code: &str) -> bool {
    let mut rest = code.trim_start();
    while !rest.is_empty() {
        let end = if rest.starts_with('#') { rest.find(']') } else { rest.find(';') };
        let Some(end) = end else { return false };
        let item = rest[..end].trim_start_matches("pub").trim_start();
        let item = item.split_once(')').filter(|_| item.starts_with('(')).map_or(item, |(_, item)| item);
        let item = item.trim_start();
        if !["#", "mod ", "use "].iter().any(|start| item.starts_with(start)) || item.contains("mod tests") {
            return false;
        }
        rest = rest[end + 1..].trim_start();
    }
    true
}

#[test]
fn mod_files_hold_docs_and_exports_only() {
    for source in sources().iter().filter(|source| source.name.ends_with("mod.rs")) {
        assert!(source.text.starts_with("//! "), "src/{} does not say what its room is for", source.name);
        assert!(is_bare(&source.code), "src/{} holds code; give it a file of its own", source.name);
    }
}

/// The files that git tracks; those on disk where git is not at hand.
fn tracked_files(root: &Path) -> Vec<PathBuf> {
    let listed = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    if let Some(listed) = listed.ok().filter(|listed| listed.status.success() && !listed.stdout.is_empty()) {
        let names = String::from_utf8(listed.stdout).unwrap();
        return names.split('\0').filter(|name| !name.is_empty()).map(|name| root.join(name)).collect();
    }
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name();
            if entry.file_type().unwrap().is_dir() {
                if name != "target" && name != ".git" {
                    walk(&entry.path(), found);
                }
            } else {
                found.push(entry.path());
            }
        }
    }
    let mut found = Vec::new();
    walk(root, &mut found);
    found
}

#[test]
fn no_dependency_asks_for_a_later_rust() {
    let rustc = Command::new("rustc").arg("-vV").output().unwrap();
    let rustc = String::from_utf8(rustc.stdout).unwrap();
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    // What this platform needs has been fetched to build this test.
    let told = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--all-features", "--format-version", "1"])
        .args(["--filter-platform", host])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let version =
        |text: &str| text.split('.').take(2).map(|part| part.parse().unwrap()).collect::<Vec<u32>>();
    let ours = version(env!("CARGO_PKG_RUST_VERSION"));
    let packages = told["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "{} packages", packages.len());
    for package in packages {
        let Some(theirs) = package["rust_version"].as_str() else { continue };
        assert!(version(theirs) <= ours, "{} {} needs Rust {theirs}", package["name"], package["version"]);
    }
}

#[test]
fn no_file_tells_of_a_machine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut places = vec![root.to_path_buf()];
    // The other checkouts beside this one, too.
    let siblings = root.parent().and_then(|parent| fs::read_dir(parent).ok()).into_iter().flatten();
    places.extend(siblings.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()));
    places.extend(
        ["HOME", "CARGO_HOME", "RUSTUP_HOME"].into_iter().filter_map(std::env::var_os).map(PathBuf::from),
    );
    // One step below the root says nothing: `/root` and `/w` are names that a test may use.
    places.retain(|place| place.is_absolute() && place.components().count() > 2);
    let places: Vec<Vec<u8>> =
        places.iter().filter_map(|place| Some(place.to_str()?.as_bytes().to_vec())).collect();
    for file in tracked_files(root) {
        let Ok(bytes) = fs::read(&file) else { continue }; // deleted, not yet committed
        for place in &places {
            let found = bytes.windows(place.len()).any(|window| window == place);
            assert!(!found, "{} holds the path {}", file.display(), String::from_utf8_lossy(place));
        }
    }
}

#[test]
fn the_reader_of_sources_is_not_fooled() {
    let code = code_of(
        "use crate::{log::{Seq, x}, json}; // crate::server\nlet a = \"crate::server\"; let b = '\"'; crate::view::f::<'a>(r#\"\"crate::disk\"\"#);",
    );
    assert_eq!(named_after(&code, "crate::"), ["log", "json", "view"]);
    let source =
        |name: &str, text: &str| Source { name: name.into(), text: text.into(), code: code_of(text) };
    assert_eq!(
        edges(&source("log/kind.rs", "use super::super::server::Code; use super::seq::Seq;")),
        ["server"]
    );
    assert_eq!(
        edges(&source("server/methods/read.rs", "use super::super::super::disk; use super::super::log;")),
        ["disk"]
    );
    assert_eq!(
        edges(&source("server/mod.rs", "pub use super::view; mod log; pub(in crate::server) fn f() {}")),
        ["view"]
    );
    assert!(is_bare("mod a;\npub(super) use a::{b,\n c};\n#[allow(x)]\npub mod d;"));
    assert!(!is_bare("mod a; pub struct B;") && !is_bare("mod tests { use a; }") && !is_bare("fn f() {}"));
}
