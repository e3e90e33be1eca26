//! The sessions of a store, in byte order of their places, with their headers (FORMAT 13.5, PROTOCOL 9.4).
//!
//! One odd or damaged artifact never hides another: it is listed with what is wrong with it. Nothing is written, and
//! no link is followed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::damage::{ReadError, Verdict};
use super::find::{OddPlace, check_place, is_absent, is_link};
use super::fs::{DirEntry, File, FileKind, FileSystem, Metadata, what_helps};
use super::paths::{Encoding, LogPath, segment_units};
use super::read_plain::read_header_line;
use super::read_zstd::header_frame;
use super::summary::tail_of;
use super::zstd::{FrameDecoder, Frames};
use crate::log::{Header, HeaderLineError, HeaderLineFault, Offset, SessionId, parse_header_line};

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
    pub(super) tail: Option<u64>,
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
    /// Places that could not be looked into, and why; their sessions are not listed.
    pub skipped: Vec<(PathBuf, String)>,
}

/// Headers are short; a longer first line belongs to a log that a load would refuse as well.
pub(super) const MAX_HEADER: usize = 16 << 20;

/// Walks a store and reads the header of each log. A root that does not exist is an empty store.
///
/// # Errors
/// The errno of reading the root. Everything below it is told in the [`Walk`].
pub fn walk(fs: &dyn FileSystem) -> io::Result<Walk> {
    let mut walker = Walker { fs, decoder: None, out: Walk::default() };
    let root = match fs.list_dir(Path::new("")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(walker.out),
        entries => entries?,
    };
    for entry in root {
        match (entry.kind, entry.name.to_str()) {
            (FileKind::Dir, Some(project)) => walker.project(project),
            (FileKind::Dir, None) => walker.skip(&entry.name, "its name is not UTF-8: rename it"),
            (FileKind::Symlink, _) => walker.skip(&entry.name, "it is a link, which is not followed"),
            _ => {}
        }
    }
    mark_duplicates(&mut walker.out.artifacts);
    Ok(walker.out)
}

struct Walker<'f> {
    fs: &'f dyn FileSystem,
    /// Made for the first compressed log.
    decoder: Option<FrameDecoder>,
    out: Walk,
}

impl Walker<'_> {
    fn skip(&mut self, path: impl AsRef<Path>, why: impl Into<String>) {
        self.out.skipped.push((path.as_ref().to_path_buf(), why.into()));
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
            OddPlace::IdMismatch { path, .. } | OddPlace::PathMismatch { path, .. } => path.clone(),
            OddPlace::DuplicateId(paths) => paths.first().cloned().unwrap_or_default(),
        };
        let mut artifact = Artifact::new(segment, path);
        // A session directory of that name goes before it.
        artifact.is_found_by_id &= !matches!(odd, OddPlace::FlatLayout(_));
        artifact.is_odd(odd);
        self.out.artifacts.push(artifact);
    }

    fn session(&mut self, project: &str, session: &str) {
        let plain = self.open(LogPath::found(project, session, Encoding::Plain));
        let zstd = self.open(LogPath::found(project, session, Encoding::Zstd));
        let both = plain.is_some() && zstd.is_some();
        let Some(mut artifact) = plain.or(zstd) else { return };
        if both {
            artifact.is_odd(&OddPlace::BothEncodings(Path::new(project).join(session)));
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
                Status::Corrupt,
                "",
                format!("the log cannot be opened: {error}: {}", what_helps(&error)),
            ),
        }
        Some(artifact)
    }

    fn header(&mut self, artifact: &mut Artifact, file: &dyn File, len: u64, log: &LogPath) {
        let line = self.header_line(file, len, log.encoding());
        let parsed = line.and_then(|line| {
            let line = String::from_utf8(line).map_err(|_| ReadError::HeaderNotUtf8)?;
            match parse_header_line(&line) {
                Ok((header, inherited)) => Ok((line, header, inherited)),
                Err(error) => Err(ReadError::Header(error)),
            }
        });
        match parsed {
            Ok((line, header, inherited)) => {
                artifact.place(&header, log);
                (artifact.header_line, artifact.inherited) = (line, inherited);
                artifact.header = Some(header);
            }
            Err(error) => artifact.fails(&error),
        }
    }

    fn header_line(&mut self, file: &dyn File, len: u64, encoding: Encoding) -> Result<Vec<u8>, ReadError> {
        if encoding == Encoding::Plain {
            return read_header_line(file, len, MAX_HEADER);
        }
        let decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => FrameDecoder::new()?,
        };
        let decoder = self.decoder.insert(decoder);
        Ok(header_frame(&mut Frames::new(file, len), decoder, file, MAX_HEADER)?.0)
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

    pub(super) fn is(&mut self, status: Status, class: &'static str, reason: String) {
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

    /// Notes why the log does not read.
    pub(super) fn fails(&mut self, error: &ReadError) {
        let status = error.verdict().map_or(Status::Corrupt, status_of);
        if let ReadError::Header(HeaderLineError { fault: HeaderLineFault::Version { version }, .. }) = error
        {
            self.direction = Some(if *version > 0.0 { "newer" } else { "older" });
        }
        self.is(status, error.class(), error.to_string());
    }

    pub(super) fn judged(&mut self, verdict: Verdict, class: &'static str, reason: String) {
        self.is(status_of(verdict), class, reason);
    }
}

/// Two directories of one name, in two projects: neither can be told from the session (PROTOCOL 9.4).
fn mark_duplicates(artifacts: &mut [Artifact]) {
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, artifact) in artifacts.iter().enumerate() {
        if let Some(log) = &artifact.log {
            places.entry(log.segment().to_owned()).or_default().push(index);
        }
    }
    for indexes in places.values().filter(|indexes| indexes.len() > 1) {
        let path_of = |index: &usize| artifacts.get(*index).map(|artifact| artifact.path.clone());
        let odd = OddPlace::DuplicateId(indexes.iter().filter_map(path_of).collect());
        for index in indexes {
            if let Some(artifact) = artifacts.get_mut(*index) {
                artifact.is_odd(&odd);
            }
        }
    }
}
