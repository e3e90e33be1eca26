//! What a log means: folds that advance by event and can be rebuilt from its start.
//!
//! None rejects what the log already holds; the checks that a *candidate* must pass stand beside the
//! state that they need.

mod activity;
mod calls;
mod fact;
mod message_id;
mod nodes;
mod relations;
mod repair;
mod request;
mod shape;
mod surface;

pub use activity::Activity;
pub use calls::{OddCall, OpenCall};
pub use fact::{Fact, Mark};
pub use message_id::{IdGap, MINTED_PREFIX, message_id_missing, minted_id, same_data};
pub use relations::{Broken, Open, RelationError, Relations};
pub use repair::{Closer, Closers, closers, open_turn};
pub use request::{
    Reason, RequestState, canonical, context_text, equal_headers, header_reason, header_text, next_reason,
};
pub use shape::{MessageAt, ShapeError, check_append, check_shape};
pub use surface::{Effect, Surface, SurfaceError, message_of};

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
    pub fn apply(&mut self, event: Event<'_>, effect: Effect, fact: &Fact<'_>) {
        self.surface.apply(event, effect);
        self.relations.apply(event.seq(), fact);
        self.request.apply(event.seq(), event.kind());
        self.activity.apply(event);
    }

    /// Follows a committed event.
    pub fn follow(&mut self, event: Event<'_>) {
        self.apply(event, self.surface.effect_of(event), &Fact::of_event(event));
    }
}
