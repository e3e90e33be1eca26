//! Time: what the system gives, or what a flag has fixed for transcripts.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
