//! All projections of one log, side by side.

use super::{Activity, Effect, Reading, Relations, RequestState, Surface, TurnFact};
use crate::log::Event;

/// All projections of one log. Cloning shares what is large.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The ordered view of the message-producing events.
    pub surface: Surface,
    /// Turns, steps and tool calls.
    pub relations: Relations,
    /// The latest request header and context.
    pub request: RequestState,
    /// What a list shows.
    pub activity: Activity,
}

impl View {
    /// Follows a committed event whose effect and fact are known.
    pub fn apply(&mut self, event: Event<'_>, effect: Effect, fact: &TurnFact<'_>) {
        self.surface.apply(event.seq(), effect);
        self.relations.apply(event.seq(), fact);
        self.request.apply(event.seq(), event.kind());
        self.activity.apply(event);
    }

    /// Follows a committed event.
    pub fn follow(&mut self, event: Event<'_>) {
        let reading = Reading::of_event(event);
        self.apply(event, self.surface.effect_of(event, &reading), &reading.fact);
    }
}
