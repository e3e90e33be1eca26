//! Where sessions are kept: what `--store` says, and what goes without it (PROTOCOL 8).

use std::ffi::OsString;
use std::path::PathBuf;

use etcetera::BaseStrategy;

/// The variable that stands for a `--store` that is not given.
const VARIABLE: &str = "SESSIOND_STORE";

/// A store that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// `memory:`.
    Memory,
    /// `jsonl:DIR`.
    Jsonl(PathBuf),
}

/// Why it cannot be told which store is meant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreChoiceError {
    /// A text of no known form, from the flag or from `SESSIOND_STORE`.
    #[error("{given_by}: {text:?} does not name a store; write {}", meant(.text))]
    NoStore {
        /// `--store` or `SESSIOND_STORE`.
        given_by: &'static str,
        /// The text.
        text: String,
    },
    /// `SESSIOND_STORE` is no text.
    #[error("SESSIOND_STORE is not UTF-8; write memory: or jsonl:DIR")]
    NotUtf8,
    /// `~` stands for a home directory that is not known.
    #[error("{given_by}: the home directory is not known ({error}); set HOME, or write the whole path")]
    NoHome {
        /// `--store` or `SESSIOND_STORE`.
        given_by: &'static str,
        /// Why.
        error: etcetera::HomeDirError,
    },
    /// The path begins with what a shell would expand, and none has seen it.
    #[error(
        "{given_by}: \"jsonl:{dir}\" begins with {name:?}, which only a shell expands; write the whole path, jsonl:~/DIR for your own home directory, or jsonl:./{dir} for a directory of that name"
    )]
    NotExpanded {
        /// `--store` or `SESSIOND_STORE`.
        given_by: &'static str,
        /// The first name in the path.
        name: String,
        /// The path.
        dir: String,
    },
    /// The user has no directories to fall back on.
    #[error("cannot find the user's state directory ({0}); give --store")]
    NoStateDirectory(#[from] etcetera::HomeDirError),
}

impl StoreChoiceError {
    /// Whether it is asked for wrongly, as opposed to: there is none.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::NoStateDirectory(_))
    }
}

impl StoreChoice {
    /// The store that the flag asks for, else `SESSIOND_STORE` unless it is empty; without them the one in the user's
    /// state directory.
    ///
    /// # Errors
    /// What is wrong with the text, or with the user's directories.
    pub fn resolve(flag: Option<&str>) -> Result<Self, StoreChoiceError> {
        if let Some(spec) = flag {
            return Self::parse("--store", spec);
        }
        match variable() {
            Some(spec) => Self::parse(VARIABLE, spec.to_str().ok_or(StoreChoiceError::NotUtf8)?),
            None => {
                let dirs = etcetera::choose_base_strategy()?;
                let state = dirs.state_dir().unwrap_or_else(|| dirs.data_dir());
                Ok(Self::Jsonl(state.join("sessiond").join("sessions")))
            }
        }
    }

    /// Whether somebody names the store: else it is the user's own, which may not be there yet.
    pub fn is_named(flag: Option<&str>) -> bool {
        flag.is_some() || variable().is_some()
    }

    fn parse(given_by: &'static str, spec: &str) -> Result<Self, StoreChoiceError> {
        match spec.strip_prefix("jsonl:") {
            Some(dir) if !dir.is_empty() => directory(given_by, dir).map(Self::Jsonl),
            _ if spec == "memory:" => Ok(Self::Memory),
            _ => Err(StoreChoiceError::NoStore { given_by, text: spec.to_owned() }),
        }
    }
}

/// What the variable says, unless it is empty.
fn variable() -> Option<OsString> {
    std::env::var_os(VARIABLE).filter(|spec| !spec.is_empty())
}

/// A directory as it was given. No shell has seen a `~` behind `jsonl:`, alone or before a slash: it is the home directory.
/// Another's home (`~name`) and variables (`$HOME`) are refused: a directory would be made that is called so.
fn directory(given_by: &'static str, dir: &str) -> Result<PathBuf, StoreChoiceError> {
    match dir.strip_prefix('~').map(|rest| (rest, rest.trim_start_matches('/'))) {
        Some((rest, below)) if rest.is_empty() || rest.len() > below.len() => {
            let home = etcetera::home_dir().map_err(|error| StoreChoiceError::NoHome { given_by, error })?;
            Ok(if below.is_empty() { home } else { home.join(below) })
        }
        _ if dir.starts_with(['~', '$']) => {
            let name = dir.split('/').next().unwrap_or_default().to_owned();
            Err(StoreChoiceError::NotExpanded { given_by, name, dir: dir.to_owned() })
        }
        _ => Ok(PathBuf::from(dir)),
    }
}

/// What was meant by a text that names no store, as far as can be told.
fn meant(text: &str) -> String {
    match text {
        "memory" => "memory: with the colon".to_owned(),
        "jsonl" | "jsonl:" => "jsonl:DIR with the directory".to_owned(),
        "" => "memory: or jsonl:DIR".to_owned(),
        // Another kind, as far as it looks like one.
        text if text.split('/').next().is_some_and(|first| first.contains(':')) => {
            "memory: or jsonl:DIR".to_owned()
        }
        dir => format!("jsonl:{dir} for that directory, or memory:"),
    }
}
