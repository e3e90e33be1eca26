//! Where sessions are kept: what `--store` says, and what goes without it (PROTOCOL 8).

use std::path::PathBuf;

use etcetera::BaseStrategy;

/// A store that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// `memory:`.
    Memory,
    /// `jsonl:DIR`.
    Jsonl(PathBuf),
}

impl StoreChoice {
    /// The store that a flag or `SESSIOND_STORE` asks for; without them the one in the user's state directory.
    ///
    /// # Errors
    /// What is wrong with the text, or with the user's directories.
    pub fn resolve(asked: Option<&str>) -> Result<Self, String> {
        match asked {
            Some("memory:") => Ok(Self::Memory),
            Some(spec) => match spec.strip_prefix("jsonl:") {
                Some(dir) if !dir.is_empty() => Ok(Self::Jsonl(PathBuf::from(dir))),
                _ => Err(format!("{spec:?} is no store; write memory: or jsonl:DIR")),
            },
            None => {
                let dirs = etcetera::choose_base_strategy().map_err(|error| {
                    format!("cannot find the user's state directory ({error}); give --store")
                })?;
                let state = dirs.state_dir().unwrap_or_else(|| dirs.data_dir());
                Ok(Self::Jsonl(state.join("sessiond").join("sessions")))
            }
        }
    }
}
