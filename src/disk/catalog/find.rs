//! Where the log of a session lies, and whether it lies where its header belongs (FORMAT 13.3, 13.5).

use std::io;
use std::path::{Path, PathBuf};

use super::head::header_of;
use crate::disk::fs::{DirEntry, FileKind, FileSystem, errno_error};
use crate::disk::paths::{Encoding, LogPath, generation_of, is_cut, is_project_name, session_segment};
use crate::log::{Header, SessionId};

/// Why a stored session has no log that could be read: it is stored oddly (PROTOCOL 9.4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// The session itself lies where the header belongs.
    #[error("{} is a copy of the session in {}: remove it, or keep it outside the store", .path.display(), .of.display())]
    Copy {
        /// Where it lies.
        path: PathBuf,
        /// Where the session lies.
        of: PathBuf,
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
            Self::PathMismatch { .. } | Self::Copy { .. } => "LOG_PATH_MISMATCH",
        }
    }
}

/// A log of a later generation of the format (FOREIGN 1). This version does not read it, and it may be the very session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is a log of generation {generation} of the format, and generation 0 is the one read here: open it with the program that wrote it, or with a later version of this one",
    .path.display()
)]
pub struct Later {
    /// Where it lies.
    pub path: PathBuf,
    /// The number in its name.
    pub generation: u64,
}

impl Later {
    /// FORMAT's class.
    pub const CLASS: &'static str = "VERSION_NEWER";

    /// What a log of version 0 beside it is told.
    #[must_use]
    pub fn supersedes(&self) -> String {
        let (path, generation) = (self.path.display(), self.generation);
        format!(
            "it is continued in {path}, in generation {generation} of the format; its log of generation 0 can be inspected, but is not continued: go on with the program that wrote the later one"
        )
    }
}

/// Why a session was not found, beyond not being there.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// It is stored oddly.
    #[error(transparent)]
    Odd(#[from] OddPlace),
    /// There are logs of later generations only; this is the latest.
    #[error(transparent)]
    Later(#[from] Later),
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

/// What one project directory holds of a session.
pub(in crate::disk) struct Place {
    /// What stands under the names of its log.
    pub(in crate::disk) logs: Vec<(LogPath, FileKind)>,
    /// Its logs of later generations, the latest last.
    pub(in crate::disk) later: Vec<Later>,
    /// Its log, whether it is there or not.
    pub(in crate::disk) plain: LogPath,
}

impl Place {
    /// What lies in the session directory of that name; none when there is none.
    fn find(fs: &dyn FileSystem, project: &str, segment: &str) -> io::Result<Option<Self>> {
        let plain = LogPath::found(project, segment, Encoding::Plain);
        let dir = plain.session_dir();
        let entries = match fs.list_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(None),
            // The session directory is a link: what it leads to is none of ours.
            Err(error) if is_link(&error) => {
                let logs = vec![(plain.clone(), FileKind::Symlink)];
                return Ok(Some(Self { logs, later: Vec::new(), plain }));
            }
            Err(error) => return Err(error),
        };
        let log = |entry: &DirEntry| {
            let encoding = Encoding::of_file_name(&entry.name)?;
            Some((LogPath::found(project, segment, encoding), entry.kind))
        };
        Ok(Some(Self {
            logs: entries.iter().filter_map(log).collect(),
            later: later_in(&dir, &entries),
            plain,
        }))
    }

    fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.later.is_empty()
    }

    /// The log that is to be read there.
    fn log(&self) -> Result<LogPath, FindError> {
        match (&self.logs[..], self.later.last()) {
            ([(log, FileKind::File)], _) => Ok(log.clone()),
            ([], Some(later)) => Err(later.clone().into()),
            ([(log, _)], _) => Err(OddPlace::NotAFile(log.log()).into()),
            _ => Err(OddPlace::BothEncodings(self.plain.session_dir()).into()),
        }
    }

    /// Whether its log is where its header belongs.
    fn is_right(&self, fs: &dyn FileSystem, id: &SessionId) -> bool {
        let Ok(log) = self.log() else { return false };
        header_of(fs, &log).is_some_and(|header| check_place(&header, id, &log).is_ok())
    }

    /// All its logs.
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let logs = self.logs.iter().map(|(log, _)| log.log());
        logs.chain(self.later.iter().map(|later| later.path.clone()))
    }
}

/// Of several places that hold a session, the one whose log is where its header belongs: the others are copies that
/// something made of a directory.
///
/// # Errors
/// [`OddPlace::DuplicateId`] when none is, or several are.
pub(in crate::disk) fn right_of<'p>(
    fs: &dyn FileSystem,
    id: &SessionId,
    places: &'p [Place],
) -> Result<Option<&'p Place>, OddPlace> {
    let [_, _, ..] = places else { return Ok(places.first()) };
    let mut right = places.iter().filter(|place| place.is_right(fs, id));
    match (right.next(), right.next()) {
        (Some(place), None) => Ok(Some(place)),
        _ => Err(OddPlace::DuplicateId(places.iter().flat_map(Place::paths).collect())),
    }
}

/// The log of a session, sought in every project directory by its name there; none when it is not stored. Where there are
/// several, the one at the place that its header names.
///
/// # Errors
/// [`FindError::Odd`] when there are several of which not one alone is at its place, or none that could be read;
/// [`FindError::Later`] when no log of generation 0 is there; [`FindError::Io`] when the root cannot be read, or when a
/// project directory cannot, or is a link, and no other holds the session: it may be there.
pub fn find(fs: &dyn FileSystem, id: &SessionId) -> Result<Option<LogPath>, FindError> {
    let Ok(segment) = session_segment(id.as_str()) else { return Ok(None) };
    let projects = project_dirs(fs).map_err(Unsearched::at("")).map_err(FindError::Io)?;
    let (mut places, unseen) = places_of(fs, &projects, &segment);
    places.retain(|place| !place.is_empty());
    match (right_of(fs, id, &places)?, unseen) {
        (Some(place), _) => place.log().map(Some),
        (None, Some(unseen)) => Err(FindError::Io(unseen)),
        (None, None) => find_flat(fs, &projects.dirs, &segment),
    }
}

/// Whether a session of that id stands in the way of a log at `path`: beside it, or where its own header belongs. A copy
/// that lies elsewhere does not, as the log at its place is the one that counts.
///
/// # Errors
/// [`Unsearched`], as of [`find`].
pub fn is_taken(fs: &dyn FileSystem, id: &SessionId, path: &LogPath) -> Result<bool, Unsearched> {
    match find(fs, id) {
        Ok(None) => Ok(false),
        Ok(Some(log)) if log.session_dir() == path.session_dir() => Ok(true),
        Ok(Some(log)) => Ok(header_of(fs, &log).is_none_or(|header| check_place(&header, id, &log).is_ok())),
        Err(FindError::Io(unsearched)) => Err(unsearched),
        Err(FindError::Odd(_) | FindError::Later(_)) => Ok(true),
    }
}

/// What lies beside a log and is to be told of it.
#[derive(Default)]
pub struct Beside {
    /// The latest generation that continues it, if one does.
    pub later: Option<Later>,
    /// The names of what was cut off it, in byte order.
    pub cuts: Vec<String>,
}

impl Beside {
    /// Looks into a session directory.
    ///
    /// # Errors
    /// The errno of reading it.
    pub fn look(fs: &dyn FileSystem, dir: &Path) -> io::Result<Self> {
        let entries = fs.list_dir(dir)?;
        let cuts = entries.iter().filter(|entry| is_cut(&entry.name));
        let cuts = cuts.map(|entry| entry.name.to_string_lossy().into_owned()).collect();
        Ok(Self { later: later_in(dir, &entries).pop(), cuts })
    }
}

/// The logs of later generations among what a session directory holds, the latest last.
pub(in crate::disk) fn later_in(dir: &Path, entries: &[DirEntry]) -> Vec<Later> {
    let later = |entry: &DirEntry| {
        let generation = generation_of(&entry.name)?;
        Some(Later { path: dir.join(&entry.name), generation })
    };
    let mut found: Vec<_> = entries.iter().filter_map(later).collect();
    found.sort_by_key(|later| later.generation);
    found
}

/// All that a session has in the store, for its deletion.
#[derive(Default)]
pub(in crate::disk) struct Traces {
    /// Where its logs lie.
    pub(in crate::disk) places: Vec<Place>,
    /// Its directories without a log, each as the log that it does not hold: what a deletion that was cut short has
    /// left, or where a log is being made.
    pub(in crate::disk) emptied: Vec<LogPath>,
    /// A project directory that could not be searched.
    pub(in crate::disk) unseen: Option<io::Error>,
}

/// Looks for them.
///
/// # Errors
/// That of reading the root.
pub(in crate::disk) fn find_all(fs: &dyn FileSystem, id: &SessionId) -> io::Result<Traces> {
    let Ok(segment) = session_segment(id.as_str()) else { return Ok(Traces::default()) };
    let (found, unseen) = places_of(fs, &project_dirs(fs)?, &segment);
    let (emptied, places) = found.into_iter().partition::<Vec<_>, _>(Place::is_empty);
    let emptied = emptied.into_iter().map(|place| place.plain).collect();
    Ok(Traces { places, emptied, unseen: unseen.map(|unseen| unseen.error) })
}

/// The directories of a session in these project directories, and one of them that could not be searched: it hides no other.
fn places_of(fs: &dyn FileSystem, projects: &Projects, segment: &str) -> (Vec<Place>, Option<Unsearched>) {
    let (mut places, mut unseen) = (Vec::new(), projects.unseen());
    for project in &projects.dirs {
        match Place::find(fs, project, segment) {
            Ok(place) => places.extend(place),
            Err(error) => unseen = unseen.or(Some(Unsearched::at(project)(error))),
        }
    }
    (places, unseen)
}

/// What of a root may hold sessions.
#[derive(Default)]
struct Projects {
    dirs: Vec<String>,
    /// A link in the place of a project directory. It is not followed, so nobody knows what is not stored behind it.
    link: Option<String>,
}

impl Projects {
    fn unseen(&self) -> Option<Unsearched> {
        let link = self.link.as_ref()?;
        Some(Unsearched::at(link)(errno_error(rustix::io::Errno::LOOP)))
    }
}

fn project_dirs(fs: &dyn FileSystem) -> io::Result<Projects> {
    let mut projects = Projects::default();
    let entries = match fs.list_dir(Path::new("")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(projects),
        entries => entries?,
    };
    for DirEntry { name, kind } in entries {
        match (kind, name.into_string()) {
            (FileKind::Dir, Ok(name)) => projects.dirs.push(name),
            (FileKind::Symlink, Ok(name)) if is_project_name(&name) => projects.link = Some(name),
            _ => {}
        }
    }
    Ok(projects)
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

pub(in crate::disk) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}
