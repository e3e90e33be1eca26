//! The sessions of a store, in byte order of their places, with their headers (FORMAT 13.5, PROTOCOL 9.4).
//!
//! One odd or damaged artifact never hides another: it is listed with what is wrong with it. Nothing is written, and
//! no link is followed.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::find::{Later, OddPlace, check_place, is_absent, is_link, later_in};
use super::head::{Head, Heads};
use super::summary::tail_of;
use crate::disk::fs::{DirEntry, File, FileKind, FileSystem, Metadata, what_helps};
use crate::disk::paths::{Encoding, LogPath, is_project_name, segment_units};
use crate::disk::read::damage::{ReadError, Verdict};
use crate::log::{Header, HeaderLineError, HeaderLineFault, Offset, SessionId};

/// Whether a stored session can be opened, as far as was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing wrong was seen.
    Ok,
    /// It opens, without what damage has cut off.
    Damaged,
    /// It cannot be trusted, or not be read.
    Corrupt,
    /// It may be sound for another program.
    Unsupported,
    /// A later generation of the format beside it continues it: it is read, and no more.
    Superseded,
    /// The disk does not give it.
    Unreadable,
}

/// One stored session, or what looks like one.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The id that its place stands for, under which it is found, inspected and deleted. For places that stand for
    /// no id it is the header's, and without a header the name itself; a lone surrogate is shown as U+FFFD.
    pub id: String,
    /// Whether the id is that of its place, whole: a search for it leads there.
    pub is_found_by_id: bool,
    /// Where it lies, relative to the root.
    pub path: PathBuf,
    /// The log, where there is one to be read.
    pub log: Option<LogPath>,
    /// Its header, where that is readable.
    pub header: Option<Header>,
    /// The header line as it stands there, without its line end.
    pub header_line: String,
    /// A checksum of its last bytes; none where no summary is made for such a log.
    pub(in crate::disk) tail: Option<u64>,
    /// Events that came from the parent.
    pub inherited: Offset,
    /// Facts of the file, its size among them; none when it could not be opened.
    pub meta: Option<Metadata>,
    /// Whether it can be opened.
    pub status: Status,
    /// FORMAT's class of what is wrong; empty when nothing is, or when it has none.
    pub class: &'static str,
    /// What is wrong.
    pub reason: Option<String>,
    /// For another format version: `newer` or `older`.
    pub direction: Option<&'static str>,
}

/// What a walk through a store has found.
#[derive(Debug, Default)]
pub struct Walk {
    /// The artifacts, in byte order of their places.
    pub artifacts: Vec<Artifact>,
    /// Places that could not be looked into.
    pub skipped: Vec<Skipped>,
}

/// A place that could not be looked into: what lies there is not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is, relative to the root.
    pub path: PathBuf,
    /// Why.
    pub why: String,
    /// Whether sessions of this store may lie there; none lie behind a link whose name is no project's.
    pub may_hold: bool,
}

/// Walks a store and reads the header of each log. A root that does not exist is an empty store.
///
/// # Errors
/// The errno of reading the root. Everything below it is told in the [`Walk`].
pub fn walk(fs: &dyn FileSystem) -> io::Result<Walk> {
    let mut walker = Walker { fs, heads: Heads::default(), out: Walk::default() };
    let root = match fs.list_dir(Path::new("")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(walker.out),
        entries => entries?,
    };
    for entry in root {
        match (entry.kind, entry.name.to_str()) {
            (FileKind::Dir, Some(project)) => walker.project(project),
            (FileKind::Dir, None) => walker.skip(&entry.name, "its name is not UTF-8: rename it"),
            (FileKind::Symlink, name) => {
                let may_hold = name.is_some_and(is_project_name);
                let what_helps = if may_hold { ": put the directory itself there" } else { "" };
                let why = format!("it is a link, which is not followed{what_helps}");
                walker.out.skipped.push(Skipped { path: PathBuf::from(&entry.name), why, may_hold });
            }
            _ => {}
        }
    }
    mark_duplicates(&mut walker.out.artifacts);
    Ok(walker.out)
}

struct Walker<'f> {
    fs: &'f dyn FileSystem,
    heads: Heads,
    out: Walk,
}

impl Walker<'_> {
    fn skip(&mut self, path: impl AsRef<Path>, why: impl Into<String>) {
        let (path, why) = (path.as_ref().to_path_buf(), why.into());
        self.out.skipped.push(Skipped { path, why, may_hold: true });
    }

    fn project(&mut self, project: &str) {
        let entries = match self.fs.list_dir(Path::new(project)) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return,
            Err(error) => {
                return self.skip(project, format!("it cannot be read: {error}: {}", what_helps(&error)));
            }
        };
        for DirEntry { name, kind } in entries {
            match (kind, name.to_str()) {
                (FileKind::Dir, Some(session)) => self.session(project, session),
                (FileKind::Dir, None) => {
                    self.skip(Path::new(project).join(&name), "its name is not UTF-8: rename it");
                }
                (FileKind::Symlink, Some(session)) if segment_units(session).is_some() && !is_flat(&name) => {
                    self.odd(session, &OddPlace::NotAFile(Path::new(project).join(session)));
                }
                (FileKind::File, Some(file)) if is_flat(&name) => {
                    let stem = file.split(".jsonl").next().unwrap_or_default();
                    self.odd(stem, &OddPlace::FlatLayout(Path::new(project).join(file)));
                }
                _ => {}
            }
        }
    }

    fn odd(&mut self, segment: &str, odd: &OddPlace) {
        let path = match odd {
            OddPlace::BothEncodings(path) | OddPlace::FlatLayout(path) | OddPlace::NotAFile(path) => {
                path.clone()
            }
            OddPlace::IdMismatch { path, .. }
            | OddPlace::PathMismatch { path, .. }
            | OddPlace::Copy { path, .. } => path.clone(),
            OddPlace::DuplicateId(paths) => paths.first().cloned().unwrap_or_default(),
        };
        let mut artifact = Artifact::new(segment, path);
        // A session directory of that name goes before it.
        artifact.is_found_by_id &= !matches!(odd, OddPlace::FlatLayout(_));
        artifact.is_odd(odd);
        self.out.artifacts.push(artifact);
    }

    fn session(&mut self, project: &str, session: &str) {
        let dir = Path::new(project).join(session);
        let mut unlisted = None;
        let entries = match self.fs.list_dir(&dir) {
            Ok(entries) => Some(entries),
            Err(error) if is_absent(&error) => return,
            // Its logs may open all the same, and if not, that is what is wrong with them.
            Err(error) => {
                unlisted = Some(error);
                None
            }
        };
        let mut log = |encoding: Encoding| {
            let named =
                |entries: &Vec<DirEntry>| entries.iter().any(|entry| entry.name == encoding.file_name());
            let may_be_there = entries.as_ref().is_none_or(named);
            may_be_there.then(|| self.open(LogPath::found(project, session, encoding))).flatten()
        };
        let (plain, zstd) = (log(Encoding::Plain), log(Encoding::Zstd));
        let later = later_in(&dir, entries.as_deref().unwrap_or_default()).pop();
        // Where names are not given, a log that does not open need not be there.
        let is_there = |log: &Artifact| unlisted.is_none() || log.log.is_some();
        let both = [&plain, &zstd].into_iter().all(|log| log.as_ref().is_some_and(is_there));
        let Some(mut artifact) = plain.or(zstd) else {
            if let Some(error) = unlisted {
                return self.skip(&dir, format!("it cannot be read: {error}: {}", what_helps(&error)));
            }
            return self.out.artifacts.extend(later.map(|later| Artifact::later(session, later)));
        };
        if both {
            artifact.is_odd(&OddPlace::BothEncodings(dir));
        }
        if let (Some(later), Status::Ok) = (later, artifact.status) {
            artifact.is(Status::Superseded, "", later.supersedes());
            artifact.direction = Some("newer");
        }
        self.out.artifacts.push(artifact);
    }

    /// The artifact of one log; none when it is not there.
    fn open(&mut self, log: LogPath) -> Option<Artifact> {
        let path = log.log();
        let mut artifact = Artifact::new(log.segment(), path.clone());
        let opened = self.fs.open_read(&path).and_then(|file| file.metadata().map(|meta| (file, meta)));
        match opened {
            Ok((file, meta)) => {
                artifact.meta = Some(meta);
                self.header(&mut artifact, file.as_ref(), meta.len, &log);
                if log.encoding() == Encoding::Plain {
                    artifact.tail = tail_of(file.as_ref(), meta.len).ok();
                }
                artifact.log = Some(log);
            }
            Err(error) if is_absent(&error) => return None,
            Err(error) if is_link(&error) || self.fs.metadata(&path).is_ok_and(not_a_file) => {
                artifact.is_odd(&OddPlace::NotAFile(path));
            }
            Err(error) => artifact.is(
                Status::Unreadable,
                "",
                format!("the log cannot be opened: {error}: {}", what_helps(&error)),
            ),
        }
        Some(artifact)
    }

    fn header(&mut self, artifact: &mut Artifact, file: &dyn File, len: u64, log: &LogPath) {
        match self.heads.read(file, len, log.encoding()) {
            Ok(Head { line, header, inherited }) => {
                artifact.place(&header, log);
                (artifact.header_line, artifact.inherited) = (line, inherited);
                artifact.header = Some(header);
            }
            Err(error) => artifact.fails(&error),
        }
    }
}

/// A log that is over a limit of ours says nothing against itself.
fn status_of(verdict: Verdict) -> Status {
    match verdict {
        Verdict::Corrupt => Status::Corrupt,
        Verdict::Unsupported | Verdict::Limit(_) => Status::Unsupported,
    }
}

fn not_a_file(meta: Metadata) -> bool {
    meta.kind != FileKind::File
}

fn is_flat(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with(".jsonl") || name.ends_with(".jsonl.zstd"))
}

impl Artifact {
    /// What lies at a place of that name, by which it may be found.
    fn new(segment: &str, path: PathBuf) -> Self {
        let units = segment_units(segment);
        let whole = units.as_deref().and_then(|units| String::from_utf16(units).ok());
        Self {
            is_found_by_id: whole.is_some_and(|id| SessionId::new(&id).is_ok()),
            id: units.map_or_else(|| segment.to_owned(), |units| String::from_utf16_lossy(&units)),
            path,
            log: None,
            header: None,
            header_line: String::new(),
            tail: None,
            inherited: Offset::ZERO,
            meta: None,
            status: Status::Ok,
            class: "",
            reason: None,
            direction: None,
        }
    }

    /// The latest of a session's logs of later generations, where it has no other.
    fn later(segment: &str, later: Later) -> Self {
        let mut artifact = Self::new(segment, later.path.clone());
        artifact.is(Status::Unsupported, Later::CLASS, later.to_string());
        artifact.direction = Some("newer");
        artifact
    }

    pub(in crate::disk) fn is(&mut self, status: Status, class: &'static str, reason: String) {
        (self.status, self.class, self.reason) = (status, class, Some(reason));
    }

    fn is_odd(&mut self, odd: &OddPlace) {
        self.is(Status::Corrupt, odd.class(), odd.to_string());
    }

    /// Whether the log lies where its header belongs.
    fn place(&mut self, header: &Header, log: &LogPath) {
        let id = segment_units(log.segment()).and_then(|units| String::from_utf16(&units).ok());
        match id.map(|id| SessionId::new(&id)) {
            Some(Ok(id)) => {
                if let Err(odd) = check_place(header, &id, log) {
                    self.is_odd(&odd);
                }
            }
            // The name stands for no id, so the header's id belongs elsewhere.
            Some(Err(_)) | None => {
                let found = header.id.as_str().to_owned();
                self.id.clone_from(&found);
                self.is_odd(&OddPlace::IdMismatch { path: log.log(), found });
            }
        }
    }

    /// The name of the session directory that it lies in, or is; none in the flat layout.
    fn session_dir(&self) -> Option<&OsStr> {
        let name = self.path.components().nth(1)?.as_os_str();
        (!is_flat(name)).then_some(name)
    }

    /// Whether its log lies where its header belongs.
    fn is_right(&self) -> bool {
        self.header.is_some() && matches!(self.status, Status::Ok | Status::Superseded)
    }

    /// Notes why the log does not read.
    pub(in crate::disk) fn fails(&mut self, error: &ReadError) {
        let status = error.verdict().map_or(Status::Unreadable, status_of);
        if let ReadError::Header(HeaderLineError { fault: HeaderLineFault::Version { version }, .. }) = error
        {
            self.direction = Some(if *version > 0.0 { "newer" } else { "older" });
        }
        self.is(status, error.class(), error.to_string());
    }

    pub(in crate::disk) fn judged(&mut self, verdict: Verdict, class: &'static str, reason: String) {
        self.is(status_of(verdict), class, reason);
    }
}

/// Directories of one name in several projects: the log that is where its header belongs is the session, and the others
/// are copies; where there is not one such log alone, neither can be told from the session (PROTOCOL 9.4).
fn mark_duplicates(artifacts: &mut [Artifact]) {
    let mut places: HashMap<OsString, Vec<usize>> = HashMap::new();
    for (index, artifact) in artifacts.iter().enumerate() {
        if let Some(dir) = artifact.session_dir() {
            places.entry(dir.to_owned()).or_default().push(index);
        }
    }
    for indexes in places.values().filter(|indexes| indexes.len() > 1) {
        let of = |index: &usize| artifacts.get(*index);
        let is_right = |index: &&usize| of(index).is_some_and(Artifact::is_right);
        let mut right = indexes.iter().filter(is_right).copied();
        if let (Some(right), None) = (right.next(), right.next()) {
            let session = of(&right).map(|session| session.path.clone()).unwrap_or_default();
            for index in indexes.iter().filter(|index| **index != right) {
                let Some(copy) = artifacts.get_mut(*index) else { continue };
                copy.is_found_by_id = false;
                if copy.class == "LOG_PATH_MISMATCH" {
                    copy.is_odd(&OddPlace::Copy { path: copy.path.clone(), of: session.clone() });
                }
            }
            continue;
        }
        let odd = OddPlace::DuplicateId(indexes.iter().filter_map(of).map(|a| a.path.clone()).collect());
        for index in indexes {
            if let Some(artifact) = artifacts.get_mut(*index) {
                artifact.is_odd(&odd);
            }
        }
    }
}
