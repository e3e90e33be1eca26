//! Where a snapshot or fork may be cut (PROTOCOL 3, Boundary; FORMAT 9).

use super::refusal::Refusal;
use super::session::Session;
use crate::json::Json;
use crate::log::{Offset, Seq};

/// What to do with a boundary inside an open turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOpenTurn {
    /// Refuse it.
    #[default]
    Reject,
    /// Cut at the end of the last completed turn before it instead.
    Clip,
}

/// A boundary as it was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Boundary<'a> {
    /// An inclusive event seq as JSON; absent: the last event.
    pub seq: Option<Json<'a>>,
    /// The policy for open turns.
    pub on_open_turn: OnOpenTurn,
}

impl Session {
    /// The length of the prefix that a boundary stands for. The prefix ends outside an open turn.
    pub fn cut(&self, boundary: Boundary<'_>) -> Result<Offset, Refusal> {
        let log = self.history.log();
        let invalid = |text: &str| Refusal::InvalidBoundary {
            boundary: text.chars().take(40).collect(),
            last: log.len().last(),
        };
        let end = match boundary.seq {
            None => log.len(),
            Some(json) => {
                let seq = json.as_safe_uint().and_then(Seq::new).ok_or_else(|| invalid(json.text()))?;
                if seq.after() > log.len() {
                    return Err(invalid(json.text()));
                }
                seq.after()
            }
        };
        let view = self.history.view_at(end);
        match (view.relations.open_turn(), boundary.on_open_turn) {
            (None, _) => Ok(end),
            (Some(turn), OnOpenTurn::Reject) => {
                let boundary = end.last().unwrap_or(Seq::ZERO);
                Err(Refusal::OpenTurn { boundary, turn: turn.number.to_string() })
            }
            (Some(_), OnOpenTurn::Clip) => Ok(view.relations.clip(end)),
        }
    }
}
