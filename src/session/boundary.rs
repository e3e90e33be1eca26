//! Where a snapshot or fork may be cut (PROTOCOL 3, Boundary; FORMAT 9).

use super::refusal::Refusal;
use super::session::Session;
use crate::json::Json;
use crate::log::{Event, Kind, Offset, Seq, TypeSet};
use crate::view::holds_message;

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
    /// Where a fork from a message is cut: at the first event that holds it, or, where that stands in a turn, at the
    /// turn's end; of an open turn that event, which is no boundary. The cost follows the log.
    pub fn boundary_of(&self, message: &str) -> Option<Seq> {
        let log = self.history.log();
        let first = |types: &TypeSet<'_>, from: Offset, is_it: &dyn Fn(&Event<'_>) -> bool| {
            let mut runs = log.runs(from, log.len()).filter(|run| run.may_have(types));
            runs.find_map(|mut run| run.find(is_it)).map(Event::seq)
        };
        let messages = TypeSet::new(["user/message", "assistant/message", "tool/result"]);
        let holds = |event: &Event<'_>| holds_message(event.kind(), event.data(), message);
        let seq = first(&messages, Offset::ZERO, &holds)?;
        if self.history.view_at(seq.after()).relations.open_turn().is_none() {
            return Some(seq);
        }
        let end = first(&TypeSet::new(["turn/end"]), seq.after(), &|event| event.kind() == Kind::TurnEnd);
        Some(end.unwrap_or(seq))
    }

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
