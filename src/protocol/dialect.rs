//! The spellings of params and results, and the notifications (PROTOCOL 2 and 4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The spelling of params and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Native members at the root.
    #[default]
    Native,
    /// ACP's members at the root, native ones under `_meta.sessiond`.
    Acp,
}

/// The notifications that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Notice {
    Created,
    Event,
    Durable,
    Disposed,
}

impl Notice {
    /// All of them.
    pub const ALL: [Notice; 4] = [Self::Created, Self::Event, Self::Durable, Self::Disposed];

    /// The method on the wire.
    pub fn method(self) -> &'static str {
        match self {
            Self::Created => "session/created",
            Self::Event => "session/event",
            Self::Durable => "session/durable",
            Self::Disposed => "session/disposed",
        }
    }
}

/// ACP's own notification, which needs no asking for.
pub const UPDATE: &str = "session/update";

/// The wire protocol of this package; raised with changes that a client must know of.
pub const PROTOCOL: u32 = 1;
