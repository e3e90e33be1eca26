//! What a log means: folds that advance by event and can be rebuilt from its start.
//!
//! None rejects what the log already holds; the checks that a *candidate* must pass stand beside the
//! state that they need.

mod activity;
mod calls;
mod edits;
mod mended;
mod message_id;
mod nodes;
mod pairing;
mod reading;
mod relations;
mod repair;
mod request;
mod shape;
mod surface;
#[allow(clippy::module_inception)]
mod view;
mod warnings;

pub use activity::Activity;
pub use mended::{Mended, Repair, RepairKind, mend_messages};
pub use message_id::{
    IdGap, MINTED_PREFIX, holds_message, message_id, message_id_missing, minted_id, same_data,
};
pub use reading::{Reading, TurnFact, TurnNumber, message_of};
pub use relations::{Broken, Open, RelationError, Relations};
pub use repair::{Closer, Closers, closers, open_turn};
pub use request::{
    Reason, RequestState, canonical, context_text, equal_headers, header_reason, header_text, next_reason,
};
pub use shape::{MessageAt, RETIRED, ShapeError};
pub use surface::{Effect, Surface, SurfaceError, check_marker};
pub use view::View;
pub use warnings::Watch;
