//! Ids: of chance, or counted for transcripts.

use std::str::FromStr;

use uuid::Uuid;

use crate::session::Ids;
use crate::view::MINTED_PREFIX;

/// Where ids come from.
#[derive(Clone, Debug, Default)]
pub enum IdSource {
    /// UUIDs: version 7 for sessions and messages, version 4 for instances.
    #[default]
    Random,
    /// `session-1`, `instance-1`, `msg-1`, …
    Sequential {
        /// The last number given, for each kind.
        last: [u64; 3],
    },
}

impl IdSource {
    fn next(&mut self, kind: usize, prefix: &str, random: fn() -> Uuid) -> String {
        match self {
            Self::Random => format!("{prefix}{}", random()),
            Self::Sequential { last } => {
                let number = last.get_mut(kind).map_or(0, |last| {
                    *last += 1;
                    *last
                });
                let prefix = if prefix.is_empty() { "instance-" } else { prefix };
                format!("{prefix}{number}")
            }
        }
    }

    /// Whether the process's own facts (its pid) are to be fixed too.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Sequential { .. })
    }
}

impl Ids for IdSource {
    fn session_id(&mut self) -> String {
        self.next(0, "session-", Uuid::now_v7)
    }

    fn instance_id(&mut self) -> String {
        self.next(1, "", Uuid::new_v4)
    }

    fn message_id(&mut self) -> String {
        self.next(2, MINTED_PREFIX, Uuid::now_v7)
    }

    fn seen(&mut self, message_ids: &mut dyn Iterator<Item = &str>) {
        const SAFE: u64 = 1 << 53;
        if let Self::Sequential { last: [_, _, last] } = self {
            let numbers = message_ids.filter_map(|id| id.strip_prefix(MINTED_PREFIX)?.parse().ok());
            *last = numbers.filter(|number| *number < SAFE).fold(*last, u64::max);
        }
    }
}

impl FromStr for IdSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "random" => Ok(Self::Random),
            "sequential" => Ok(Self::Sequential { last: [0; 3] }),
            _ => Err(format!("{text:?} is no source of ids; write random or sequential")),
        }
    }
}
