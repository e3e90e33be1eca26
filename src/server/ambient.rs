//! Time and ids: what the outside world gives, or what flags have fixed for transcripts.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::session::Ids;
use crate::view::MINTED_PREFIX;

/// Where times come from, in milliseconds since the Unix epoch.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system's wall clock; it may step back.
    #[default]
    System,
    /// `fixed:MS+STEP`: MS at the first look, STEP more at each later one.
    Fixed {
        /// What the next look shows.
        next: i64,
        /// What is added by a look.
        step: i64,
    },
}

impl Clock {
    /// The time now.
    pub fn now(&mut self) -> i64 {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }
            Self::Fixed { next, step } => {
                let now = *next;
                *next = now.saturating_add(*step);
                now
            }
        }
    }

    /// A time that no later look shows again, as long as the clock does not step back; no look itself.
    pub(super) fn gone(&self) -> i64 {
        match self {
            Self::System => Self::System.now() - 1,
            Self::Fixed { next, .. } => next.saturating_sub(1),
        }
    }

    /// Waits until no later look shows this time, if it is that of the system's clock: for less than a millisecond.
    pub(super) fn outlast(&self, time: i64) {
        while matches!(self, Self::System) && Self::System.now() == time {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Takes a look back: what it was for did not happen.
    pub(super) fn unread(&mut self) {
        if let Self::Fixed { next, step } = self {
            *next -= *step;
        }
    }

    /// Whether every line is to be carried out whole before the next is read (PROTOCOL 7).
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed { .. })
    }
}

impl FromStr for Clock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SAFE: i64 = 1 << 53;
        if text == "system" {
            return Ok(Self::System);
        }
        let parsed = text.strip_prefix("fixed:").and_then(|spec| {
            let (start, step) = spec.split_once('+').unwrap_or((spec, "0"));
            Some((start.parse::<i64>().ok()?, step.parse::<i64>().ok()?))
        });
        match parsed {
            Some((next, step)) if next.abs() < SAFE && (0..SAFE).contains(&step) => {
                Ok(Self::Fixed { next, step })
            }
            _ => Err(format!("{text:?} is no clock; write system, or fixed:MS+STEP in milliseconds")),
        }
    }
}

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
