//! Why a call has no result.

use jsonrpsee::core::client::Error;

use crate::protocol::{Code, RawJson};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The daemon refused it and said why (PROTOCOL 5).
    #[error("{message} ({code})")]
    Refused {
        /// The JSON-RPC code.
        code: i32,
        /// What was wrong and what to do.
        message: String,
        /// The facts: `code` is the error's stable name.
        data: RawJson,
    },
    /// The daemon has ended, or its pipes broke: no call will be answered any more.
    #[error("the daemon has ended: {0}")]
    Ended(String),
    /// The daemon could not be started or waited for.
    #[error(transparent)]
    Process(#[from] std::io::Error),
    /// A response was not what the method gives.
    #[error("the answer does not fit the method: {0}")]
    Misfit(String),
}

impl ClientError {
    /// The stable name of the daemon's error, where this client knows it.
    pub fn code(&self) -> Option<Code> {
        let name = self.name()?;
        Code::ALL.iter().copied().find(|code| code.name() == name)
    }

    /// The stable name of the daemon's error, such as `SESSION_NOT_FOUND`.
    pub fn name(&self) -> Option<String> {
        let Self::Refused { data, .. } = self else { return None };
        let (data, _) = data.verified();
        data.get("code").and_then(|code| code.as_str()).and_then(|code| code.decode()).map(String::from)
    }
}

impl From<Error> for ClientError {
    fn from(error: Error) -> Self {
        match error {
            Error::Call(refusal) => Self::Refused {
                code: refusal.code(),
                message: refusal.message().to_owned(),
                data: refusal
                    .data()
                    .map_or_else(RawJson::default, |data| RawJson::from_text(data.get().to_owned())),
            },
            Error::ParseError(error) => Self::Misfit(error.to_string()),
            other => Self::Ended(other.to_string()),
        }
    }
}
