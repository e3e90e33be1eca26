//! Where the log of a session lies, and whether it lies where its header belongs (FORMAT 13.3, 13.5).

use std::io;
use std::path::{Path, PathBuf};

use super::fs::{FileKind, FileSystem};
use super::paths::{Encoding, LogPath, session_segment};
use crate::log::{Header, SessionId};

/// Why a stored session has no log that could be read: it is stored oddly (PROTOCOL 9.4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OddPlace {
    /// The same id in several project directories.
    #[error("the session is stored more than once, in {}: keep one of them", list(.0))]
    DuplicateId(Vec<PathBuf>),
    /// Both encodings in one directory.
    #[error("{} holds both a plain and a compressed log: keep one of them", .0.display())]
    BothEncodings(PathBuf),
    /// A log directly in a project directory, as an earlier layout had it.
    #[error("{} lies in the flat layout of an earlier version: move it into a session directory, or away", .0.display())]
    FlatLayout(PathBuf),
    /// A directory, link, pipe or device where the log should be, or a link on the way.
    #[error("{} is no regular file and is not followed: put the log itself there", .0.display())]
    NotAFile(PathBuf),
    /// The header names another session.
    #[error("{} holds the header of session {found:?}: move it where that session belongs", .path.display())]
    IdMismatch {
        /// Where it lies.
        path: PathBuf,
        /// The id in the header.
        found: String,
    },
    /// The header's working directory belongs to another project directory.
    #[error("{} belongs at {} by its header: move it there", .path.display(), .belongs.display())]
    PathMismatch {
        /// Where it lies.
        path: PathBuf,
        /// Where its header belongs.
        belongs: PathBuf,
    },
}

fn list(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(" and ")
}

impl OddPlace {
    /// FORMAT's class.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::DuplicateId(_) => "LOG_DUPLICATE_ID",
            Self::BothEncodings(_) => "LOG_ENCODING_MISMATCH",
            Self::FlatLayout(_) => "LOG_FLAT_LAYOUT",
            Self::NotAFile(_) => "LOG_NOT_A_FILE",
            Self::IdMismatch { .. } => "LOG_ID_MISMATCH",
            Self::PathMismatch { .. } => "LOG_PATH_MISMATCH",
        }
    }
}

/// Why a session was not found, beyond not being there.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// It is stored oddly.
    #[error(transparent)]
    Odd(#[from] OddPlace),
    /// The store could not be searched.
    #[error("the store could not be searched at {}: {}", shown(&.0.path), .0.error)]
    Io(Unsearched),
}

/// A directory that could not be searched.
#[derive(Debug)]
pub struct Unsearched {
    /// Which one, below the root; empty for the root itself.
    pub path: PathBuf,
    /// The errno of the attempt.
    pub error: io::Error,
}

impl Unsearched {
    fn at(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |error| Self { path: path.as_ref().to_owned(), error }
    }
}

/// A path below the root, as messages name it.
#[must_use]
pub fn shown(path: &Path) -> String {
    if path.as_os_str().is_empty() { "its root directory".to_owned() } else { path.display().to_string() }
}

/// Checks that a header belongs to the log at `path`, which was found for `id`.
///
/// # Errors
/// [`OddPlace::IdMismatch`], [`OddPlace::PathMismatch`].
pub fn check_place(header: &Header, id: &SessionId, path: &LogPath) -> Result<(), OddPlace> {
    if header.id != *id {
        return Err(OddPlace::IdMismatch { path: path.log(), found: header.id.as_str().to_owned() });
    }
    match LogPath::new(header.cwd.as_deref(), header.id.as_str(), path.encoding()) {
        Ok(belongs) if belongs == *path => Ok(()),
        Ok(belongs) => Err(OddPlace::PathMismatch { path: path.log(), belongs: belongs.log() }),
        Err(_) => Err(OddPlace::IdMismatch { path: path.log(), found: header.id.as_str().to_owned() }),
    }
}

/// The log of a session, sought in every project directory by its name there; none when it is not stored.
///
/// # Errors
/// [`FindError::Odd`] when there are several, or none that could be read; [`FindError::Io`] when the root cannot be
/// read, or when a project directory cannot and no other holds the session: it may be there.
pub fn find(fs: &dyn FileSystem, id: &SessionId) -> Result<Option<LogPath>, FindError> {
    let Ok(segment) = session_segment(id.as_str()) else { return Ok(None) };
    let projects = project_dirs(fs).map_err(Unsearched::at("")).map_err(FindError::Io)?;
    let found = logs_of(fs, &projects, &segment).map_err(FindError::Io)?;
    let mut logs = found.iter();
    match (logs.next(), logs.next()) {
        (None, _) => find_flat(fs, &projects, &segment),
        (Some((log, FileKind::File)), None) => Ok(Some(log.clone())),
        (Some((log, _)), None) => Err(OddPlace::NotAFile(log.log()).into()),
        (Some((one, _)), Some((other, _)))
            if found.len() == 2 && one.session_dir() == other.session_dir() =>
        {
            Err(OddPlace::BothEncodings(one.session_dir()).into())
        }
        _ => Err(OddPlace::DuplicateId(found.iter().map(|(log, _)| log.log()).collect()).into()),
    }
}

/// All that a session has in the store, for its deletion.
#[derive(Default)]
pub(super) struct Traces {
    /// Its logs, wherever they lie.
    pub(super) logs: Vec<LogPath>,
    /// Its directories without a log, each as the log that it does not hold: what a deletion that was cut short has
    /// left, or where a log is being made.
    pub(super) emptied: Vec<LogPath>,
    /// A project directory that could not be searched.
    pub(super) unseen: Option<io::Error>,
}

/// Looks for them.
///
/// # Errors
/// That of reading the root.
pub(super) fn find_all(fs: &dyn FileSystem, id: &SessionId) -> io::Result<Traces> {
    let mut traces = Traces::default();
    let Ok(segment) = session_segment(id.as_str()) else { return Ok(traces) };
    for project in project_dirs(fs)? {
        let none = LogPath::found(&project, &segment, Encoding::Plain);
        let logs = logs_in(fs, &project, &segment);
        match logs.and_then(|logs| Ok((is_dir(fs, &none.session_dir())?, logs))) {
            Ok((true, logs)) if logs.is_empty() => traces.emptied.push(none),
            Ok((_, logs)) => traces.logs.extend(logs.into_iter().map(|(log, _)| log)),
            Err(error) => traces.unseen = traces.unseen.or(Some(error)),
        }
    }
    Ok(traces)
}

fn is_dir(fs: &dyn FileSystem, path: &Path) -> io::Result<bool> {
    match fs.metadata(path) {
        Err(error) if is_absent(&error) || is_link(&error) => Ok(false),
        meta => Ok(meta?.kind == FileKind::Dir),
    }
}

/// What stands under the names of a log in these project directories. One that cannot be read hides no other.
fn logs_of(
    fs: &dyn FileSystem,
    projects: &[String],
    segment: &str,
) -> Result<Vec<(LogPath, FileKind)>, Unsearched> {
    let (mut found, mut unseen) = (Vec::new(), None);
    for project in projects {
        match logs_in(fs, project, segment) {
            Ok(logs) => found.extend(logs),
            Err(error) => unseen = unseen.or(Some(Unsearched::at(project)(error))),
        }
    }
    match unseen {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

fn project_dirs(fs: &dyn FileSystem) -> io::Result<Vec<String>> {
    let entries = match fs.list_dir(Path::new("")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let dirs = entries.into_iter().filter(|entry| entry.kind == FileKind::Dir);
    Ok(dirs.filter_map(|entry| entry.name.into_string().ok()).collect())
}

/// What stands under the names of a log in one session directory.
fn logs_in(fs: &dyn FileSystem, project: &str, segment: &str) -> io::Result<Vec<(LogPath, FileKind)>> {
    let mut found = Vec::new();
    for encoding in [Encoding::Plain, Encoding::Zstd] {
        let log = LogPath::found(project, segment, encoding);
        match fs.metadata(&log.log()) {
            Ok(meta) => found.push((log, meta.kind)),
            Err(error) if is_absent(&error) => {}
            // The session directory is a link: what it leads to is none of ours.
            Err(error) if is_link(&error) => return Ok(vec![(log, FileKind::Symlink)]),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn find_flat(fs: &dyn FileSystem, projects: &[String], segment: &str) -> Result<Option<LogPath>, FindError> {
    for project in projects {
        for suffix in [".jsonl", ".jsonl.zstd"] {
            let path = Path::new(project).join(format!("{segment}{suffix}"));
            if fs.metadata(&path).is_ok_and(|meta| meta.kind == FileKind::File) {
                return Err(OddPlace::FlatLayout(path).into());
            }
        }
    }
    Ok(None)
}

/// Nothing has that name; another program may have removed it a moment ago.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    // A name too long for the file system cannot be there either.
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory, io::ErrorKind::InvalidFilename];
    kinds.contains(&error.kind())
}

pub(super) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}
