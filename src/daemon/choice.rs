//! Where sessions are kept: what `--store` says, and what goes without it (PROTOCOL 8).

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
pub enum StoreChoiceError {
    /// A text of no known form, from the flag or from `SESSIOND_STORE`.
    #[error("{given_by}: {text:?} is no store; write memory: or jsonl:DIR")]
    NoStore {
        /// `--store` or `SESSIOND_STORE`.
        given_by: &'static str,
        /// The text.
        text: String,
    },
    /// `SESSIOND_STORE` is no text.
    #[error("SESSIOND_STORE is not UTF-8; write memory: or jsonl:DIR")]
    NotUtf8,
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
        match std::env::var_os(VARIABLE) {
            Some(spec) if !spec.is_empty() => {
                Self::parse(VARIABLE, spec.to_str().ok_or(StoreChoiceError::NotUtf8)?)
            }
            _ => {
                let dirs = etcetera::choose_base_strategy()?;
                let state = dirs.state_dir().unwrap_or_else(|| dirs.data_dir());
                Ok(Self::Jsonl(state.join("sessiond").join("sessions")))
            }
        }
    }

    fn parse(given_by: &'static str, spec: &str) -> Result<Self, StoreChoiceError> {
        match spec.strip_prefix("jsonl:") {
            Some(dir) if !dir.is_empty() => Ok(Self::Jsonl(PathBuf::from(dir))),
            _ if spec == "memory:" => Ok(Self::Memory),
            _ => Err(StoreChoiceError::NoStore { given_by, text: spec.to_owned() }),
        }
    }
}
