//! Where a session's files lie: `<root>/<project>/<session>/session.jsonl[.zstd]` (FORMAT 13).
//!
//! Names are built from UTF-16 code units, because the format was born in JavaScript: a character beyond the basic
//! plane becomes two escapes. Results are pure ASCII, so that bytes and characters are the same.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The longest file name that common file systems take, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// The project directory of sessions without a working directory.
pub const NO_CWD: &str = "_no-cwd";

/// The name of the lock holder's hint beside a log.
pub(crate) const OWNER_FILE: &str = "session.owner";

/// The name of the disposable summary beside a log.
pub(crate) const SUMMARY_FILE: &str = "session.summary.json";

/// A project key is cut to this many characters before `--` is put on both sides.
const MAX_KEY_CHARS: usize = 251;

/// Why an id or a working directory has no place on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The session id is empty.
    #[error("the session id is empty: give it at least one character")]
    EmptyId,
    /// The working directory is given but empty.
    #[error("the working directory is empty: give an absolute path, or leave it out")]
    EmptyCwd,
    /// The session id's directory name would be longer than a file system takes.
    #[error(
        "the session id takes {bytes} bytes as a directory name, more than {MAX_NAME_BYTES}: use a shorter id"
    )]
    IdTooLong {
        /// The length of the encoded name.
        bytes: usize,
    },
}

/// How a log's bytes are stored; decided per session (PROTOCOL 9.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `session.jsonl`: lines as they are.
    Plain,
    /// `session.jsonl.zstd`: concatenated frames.
    Zstd,
}

impl Encoding {
    /// The log's file name.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Plain => "session.jsonl",
            Self::Zstd => "session.jsonl.zstd",
        }
    }

    /// The encoding that a file name in a session directory stands for, if it is a log's.
    #[must_use]
    pub fn of_file_name(name: &OsStr) -> Option<Self> {
        [Self::Plain, Self::Zstd].into_iter().find(|encoding| name == encoding.file_name())
    }
}

/// The generation of the log format that a file name in a session directory stands for, if it is a log's of a later one
/// (FOREIGN 1): `session.vN.jsonl` or `session.vN.jsonl.zstd`, N counted from 1.
#[must_use]
pub fn generation_of(name: &OsStr) -> Option<u64> {
    let (number, end) = name.to_str()?.strip_prefix("session.v")?.split_once('.')?;
    let is_number = !number.starts_with('0') && number.bytes().all(|digit| digit.is_ascii_digit());
    (is_number && ["jsonl", "jsonl.zstd"].contains(&end)).then(|| number.parse().ok()).flatten()
}

/// What follows a log's name in the name of a torn end that was saved beside it.
pub(in crate::disk) const CUT: &str = ".cut-";

/// Whether a file name in a session directory stands for what was cut off a log.
#[must_use]
pub fn is_cut(name: &OsStr) -> bool {
    let logs = [Encoding::Plain, Encoding::Zstd].into_iter();
    name.to_str().is_some_and(|name| {
        logs.filter_map(|log| name.strip_prefix(log.file_name())).any(|rest| rest.starts_with(CUT))
    })
}

/// Whether a name is one that [`project_key`] gives.
#[must_use]
pub fn is_project_name(name: &str) -> bool {
    name == NO_CWD || (name.len() > 4 && name.starts_with("--") && name.ends_with("--"))
}

/// The place of one session's log below the root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogPath {
    project: String,
    session: String,
    encoding: Encoding,
}

impl LogPath {
    /// The place that FORMAT 13 gives to a session.
    ///
    /// # Errors
    /// [`PathError`], whenever the id or the working directory has no name on disk.
    pub fn new(cwd: Option<&str>, id: &str, encoding: Encoding) -> Result<Self, PathError> {
        Ok(Self { project: project_key(cwd)?, session: session_segment(id)?, encoding })
    }

    /// A place that was found in a store. Whether it is the one of its header is the finder's to check.
    pub(super) fn found(project: &str, session: &str, encoding: Encoding) -> Self {
        Self { project: project.to_owned(), session: session.to_owned(), encoding }
    }

    /// The name of the session directory.
    #[must_use]
    pub fn segment(&self) -> &str {
        &self.session
    }

    /// The project directory, relative to the root.
    #[must_use]
    pub fn project_dir(&self) -> &Path {
        Path::new(&self.project)
    }

    /// The session directory, relative to the root.
    #[must_use]
    pub fn session_dir(&self) -> PathBuf {
        self.project_dir().join(&self.session)
    }

    /// The log, relative to the root.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.session_dir().join(self.encoding.file_name())
    }

    /// How the log is stored.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }
}

/// The name of a session's directory. Injective, so that two ids never share one.
///
/// # Errors
/// [`PathError::EmptyId`], [`PathError::IdTooLong`].
pub fn session_segment(id: &str) -> Result<String, PathError> {
    session_segment_units(id.encode_utf16())
}

/// [`session_segment`] of UTF-16 code units, lone surrogates included: the reference knows such ids.
///
/// # Errors
/// As [`session_segment`].
pub fn session_segment_units(units: impl IntoIterator<Item = u16>) -> Result<String, PathError> {
    let mut name = String::new();
    for unit in units {
        push_unit(&mut name, unit);
    }
    match name.as_str() {
        "" => Err(PathError::EmptyId),
        "." => Ok("~002E".to_owned()),
        ".." => Ok("~002E~002E".to_owned()),
        _ if name.len() > MAX_NAME_BYTES => Err(PathError::IdTooLong { bytes: name.len() }),
        _ => Ok(name),
    }
}

/// The id that a session directory's name stands for, as UTF-16 code units; none for a name that
/// [`session_segment_units`] gives to no id.
#[must_use]
pub fn segment_units(name: &str) -> Option<Vec<u16>> {
    let mut units = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let escape = rest.strip_prefix('~').and_then(|rest| rest.get(..4));
        let unit = match first {
            '~' => u16::from_str_radix(escape?, 16).ok()?,
            literal => u16::try_from(u32::from(literal)).ok()?,
        };
        units.push(unit);
        rest = rest.get(if first == '~' { 5 } else { first.len_utf8() }..)?;
    }
    // Lower-case digits, escaped letters and raw specials are nobody's name.
    (session_segment_units(units.iter().copied()).as_deref() == Ok(name)).then_some(units)
}

/// The name of the project directory of a working directory; `None` has one of its own. Lossy: `/a/b-c` and `/a-b/c`
/// share one, so a stored log is checked by its header and not by its place.
///
/// # Errors
/// [`PathError::EmptyCwd`].
pub fn project_key(cwd: Option<&str>) -> Result<String, PathError> {
    cwd.map_or_else(|| Ok(NO_CWD.to_owned()), |cwd| project_key_units(cwd.encode_utf16()))
}

/// [`project_key`] of a working directory given as UTF-16 code units, lone surrogates included.
///
/// # Errors
/// [`PathError::EmptyCwd`].
pub fn project_key_units(units: impl IntoIterator<Item = u16>) -> Result<String, PathError> {
    let mut key = String::new();
    let mut in_separators = false;
    let mut empty = true;
    for unit in units {
        empty = false;
        let separator = [b'/', b'\\', b':'].map(u16::from).contains(&unit);
        if !separator {
            push_unit(&mut key, unit);
        } else if !in_separators {
            key.push('-');
        }
        in_separators = separator;
    }
    if empty {
        return Err(PathError::EmptyCwd);
    }
    let key = match key.trim_start_matches('-') {
        "" => "root",
        key => key,
    };
    // All ASCII: a cut at any byte is a cut between characters (it may fall inside an escape, as in the reference).
    Ok(format!("--{}--", key.get(..MAX_KEY_CHARS).unwrap_or(key)))
}

fn push_unit(name: &mut String, unit: u16) {
    match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) => name.push(char::from(byte)),
        _ => name.push_str(&format!("~{unit:04X}")),
    }
}
