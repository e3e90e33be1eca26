//! The relations between turns, steps, calls and results (FORMAT 10).
//!
//! [`Relations`] judges a [`TurnFact`] before the commit and moves on with it after. A log that breaks the
//! relations is followed all the same: its first break is kept and markers then count as crash repair
//! counts them (FORMAT 12).

use std::sync::Arc;

use super::calls::Calls;
use super::reading::{TurnFact, TurnNumber};
use crate::log::{Kind, Offset, Seq};

/// Why an event does not fit what is open (FORMAT 10; INV_SEQ cannot happen here).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelationError {
    /// INV_TURN_ALREADY_OPEN
    #[error("turn/start while turn {0} is open; append its turn/end first")]
    TurnAlreadyOpen(TurnNumber),
    /// INV_TURN_NUMBER
    #[error("turn/start must name turn {expected}{}", instead(*.got))]
    #[allow(missing_docs)]
    TurnNumber { expected: f64, got: TurnNumber },
    /// INV_TURN_END_MISMATCH
    #[error("turn/end names turn {got}, but the open turn is {open}")]
    #[allow(missing_docs)]
    TurnEndMismatch { open: TurnNumber, got: TurnNumber },
    /// INV_TURN_END_STEP_OPEN
    #[error("turn/end while step {0} is open; append its step/end first")]
    TurnEndStepOpen(TurnNumber),
    /// INV_STEP_WRONG_TURN
    #[error("step/start names {}, but the open turn is {open}", named("turn", *.got))]
    #[allow(missing_docs)]
    StepWrongTurn { open: TurnNumber, got: TurnNumber },
    /// INV_STEP_ALREADY_OPEN
    #[error("step/start while step {0} is open; append its step/end first")]
    StepAlreadyOpen(TurnNumber),
    /// INV_STEP_NUMBER
    #[error("step/start must name step {expected}{}", instead(*.got))]
    #[allow(missing_docs)]
    StepNumber { expected: f64, got: TurnNumber },
    /// INV_NOT_IN_OPEN_STEP
    #[error("{what} names {}, {}, but open are turn {open_turn}, step {open_step}", named("turn", *.turn), named("step", *.step))]
    #[allow(missing_docs)]
    NotInOpenStep {
        what: &'static str,
        turn: TurnNumber,
        step: TurnNumber,
        open_turn: TurnNumber,
        open_step: TurnNumber,
    },
    /// INV_RESULT_WITHOUT_CALL
    #[error("tool/result for the call {0:?}, which this step has not started; append its tool/call first")]
    ResultWithoutCall(String),
    /// INV_REWRITE_OUTSIDE_TURN
    #[error("a tool/result may be replaced only inside a turn; append a turn/start first")]
    RewriteOutsideTurn,
    /// INV_OUTSIDE_TURN
    #[error("{0} outside a turn; append a turn/start first")]
    OutsideTurn(&'static str),
}

/// What was given instead of a number that is due.
fn instead(got: TurnNumber) -> String {
    match got {
        TurnNumber::Number(_) | TurnNumber::Null => format!(", not {got}"),
        TurnNumber::Missing => ", and names none".to_owned(),
        TurnNumber::Other(_) => format!(" as a number, not as {}", got.as_given()),
    }
}

/// What was given of a turn or step.
fn named(what: &str, got: TurnNumber) -> String {
    match got {
        TurnNumber::Number(_) | TurnNumber::Null => format!("{what} {got}"),
        TurnNumber::Missing => format!("no {what}"),
        TurnNumber::Other(_) => format!("a {what} that is {}", got.as_given()),
    }
}

impl RelationError {
    /// The name of the broken rule (FORMAT 10).
    pub fn rule(&self) -> &'static str {
        match self {
            Self::TurnAlreadyOpen(_) => "INV_TURN_ALREADY_OPEN",
            Self::TurnNumber { .. } => "INV_TURN_NUMBER",
            Self::TurnEndMismatch { .. } => "INV_TURN_END_MISMATCH",
            Self::TurnEndStepOpen(_) => "INV_TURN_END_STEP_OPEN",
            Self::StepWrongTurn { .. } => "INV_STEP_WRONG_TURN",
            Self::StepAlreadyOpen(_) => "INV_STEP_ALREADY_OPEN",
            Self::StepNumber { .. } => "INV_STEP_NUMBER",
            Self::NotInOpenStep { .. } => "INV_NOT_IN_OPEN_STEP",
            Self::ResultWithoutCall(_) => "INV_RESULT_WITHOUT_CALL",
            Self::RewriteOutsideTurn => "INV_REWRITE_OUTSIDE_TURN",
            Self::OutsideTurn(_) => "INV_OUTSIDE_TURN",
        }
    }
}

/// A turn or step that is open.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Its start event.
    pub seq: Seq,
    /// Its number; prints as JSON text. A turn has one that its `turn/end` may name, whatever its start says.
    pub number: TurnNumber,
}

/// The first event of a log that broke a relation.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The event.
    pub seq: Seq,
    /// What was wrong with it.
    pub error: RelationError,
}

/// The state of one log's relations, advanced event by event. Clones share what is large.
#[derive(Clone, Debug)]
pub struct Relations {
    open_turn: TurnNumber,
    open_step: TurnNumber,
    next_turn: f64,
    next_step: f64,
    /// The latest turn marker, if it is a `turn/start`.
    turn_start: Option<Open>,
    step_start: Seq,
    last_turn_end: Option<Seq>,
    calls: Calls,
    broken: Option<Arc<Broken>>,
}

impl Default for Relations {
    fn default() -> Self {
        Self {
            open_turn: TurnNumber::Null,
            open_step: TurnNumber::Null,
            next_turn: 1.0,
            next_step: 1.0,
            turn_start: None,
            step_start: Seq::ZERO,
            last_turn_end: None,
            calls: Calls::default(),
            broken: None,
        }
    }
}

impl Relations {
    /// The state of an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether an event may come next (FORMAT 10).
    pub fn check(&self, fact: &TurnFact<'_>) -> Result<(), RelationError> {
        let TurnFact { turn, step, .. } = *fact;
        let (open_turn, open_step) = (self.open_turn, self.open_step);
        let in_step = |what| {
            if turn.is(open_turn) && step.is(open_step) {
                return Ok(());
            }
            Err(RelationError::NotInOpenStep { what, turn, step, open_turn, open_step })
        };
        let in_turn = |error| if open_turn.is_open() { Ok(()) } else { Err(error) };
        match fact.kind {
            Kind::TurnStart if open_turn.is_open() => Err(RelationError::TurnAlreadyOpen(open_turn)),
            Kind::TurnStart if !turn.is(TurnNumber::Number(self.next_turn)) => {
                Err(RelationError::TurnNumber { expected: self.next_turn, got: turn })
            }
            Kind::TurnEnd if !turn.is(open_turn) => {
                Err(RelationError::TurnEndMismatch { open: open_turn, got: turn })
            }
            Kind::TurnEnd if open_step.is_open() => Err(RelationError::TurnEndStepOpen(open_step)),
            Kind::StepStart if !turn.is(open_turn) => {
                Err(RelationError::StepWrongTurn { open: open_turn, got: turn })
            }
            Kind::StepStart if open_step.is_open() => Err(RelationError::StepAlreadyOpen(open_step)),
            Kind::StepStart if !step.is(TurnNumber::Number(self.next_step)) => {
                Err(RelationError::StepNumber { expected: self.next_step, got: step })
            }
            Kind::StepEnd => in_step("step/end"),
            Kind::AssistantChunk => in_step("assistant/chunk"),
            Kind::AssistantMessage => in_step("assistant/message"),
            Kind::ToolCall => in_step("tool/call"),
            Kind::ToolResult if fact.replaces => in_turn(RelationError::RewriteOutsideTurn),
            Kind::ToolResult => {
                in_step("tool/result")?;
                if self.calls.waits(fact.call) || fact.not_started { Ok(()) } else { Err(without_call(fact)) }
            }
            Kind::TodoWrite => in_turn(RelationError::OutsideTurn("todo/write")),
            Kind::RequestHeader => in_turn(RelationError::OutsideTurn("request/header")),
            Kind::RequestContext => in_turn(RelationError::OutsideTurn("request/context")),
            _ => Ok(()),
        }
    }

    /// Moves on with a committed event, whether or not it fits; the first that does not is kept.
    pub fn apply(&mut self, seq: Seq, fact: &TurnFact<'_>) {
        if self.broken.is_none()
            && let Err(error) = self.check(fact)
        {
            self.broken = Some(Arc::new(Broken { seq, error }));
        }
        match fact.kind {
            Kind::TurnStart => {
                let number = fact.turn.turn_number(self.next_turn - 1.0);
                self.turn_start = Some(Open { seq, number });
                self.open_turn = fact.turn;
                self.next_step = 1.0;
                self.drop_step_if_broken();
            }
            Kind::TurnEnd => {
                self.turn_start = None;
                self.last_turn_end = Some(seq);
                self.open_turn = TurnNumber::Null;
                self.next_turn += 1.0;
                self.drop_step_if_broken();
            }
            Kind::StepStart => {
                self.step_start = seq;
                self.open_step = fact.step;
            }
            Kind::StepEnd => {
                self.open_step = TurnNumber::Null;
                self.next_step += 1.0;
                self.calls.end_step();
            }
            Kind::ToolCall => self.calls.start(fact.call),
            Kind::ToolResult if !fact.replaces => self.calls.answer(fact.call),
            _ => {}
        }
    }

    fn drop_step_if_broken(&mut self) {
        if self.broken.is_some() {
            self.open_step = TurnNumber::Null;
        }
    }

    /// The open turn: the latest turn marker is this `turn/start`, whatever it says (FORMAT 9.4). A fork, a clip, an
    /// interrupt and a load's closers go by this alone.
    pub fn open_turn(&self) -> Option<Open> {
        self.turn_start
    }

    /// The open step.
    pub fn open_step(&self) -> Option<Open> {
        let open = Open { seq: self.step_start, number: self.open_step };
        self.open_step.is_open().then_some(open)
    }

    /// The end of the last turn that was completed, whatever its reason.
    pub fn last_turn_end(&self) -> Option<Seq> {
        self.last_turn_end
    }

    /// The longest prefix of a log of `length` events, which this is the state of, that `onOpenTurn:
    /// "clip"` may cut at: all of it outside a turn, else up to the last completed turn's end (PROTOCOL 3).
    pub fn clip(&self, length: Offset) -> Offset {
        match self.turn_start {
            None => length,
            Some(_) => self.last_turn_end.map_or(Offset::ZERO, Seq::after),
        }
    }

    /// The first break of a relation in this log.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_deref()
    }

    /// The ids, in WTF-8, of the calls that were started in this step and have no result.
    pub fn waiting_calls(&self) -> impl Iterator<Item = &[u8]> {
        self.calls.waiting()
    }
}

/// Told apart so that only a refusal allocates; messages hold little of a payload (PROTOCOL 5).
fn without_call(fact: &TurnFact<'_>) -> RelationError {
    let id = fact.call.map(|id| id.lossy().chars().take(60).collect());
    RelationError::ResultWithoutCall(id.unwrap_or_default())
}
