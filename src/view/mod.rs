//! What a log means: folds that advance by event and can be rebuilt from its start.

mod calls;
mod fact;
mod message_id;
mod relations;
mod request;
mod shape;

pub use calls::{OddCall, OpenCall};
pub use fact::{Fact, Mark};
pub use message_id::{IdGap, MINTED_PREFIX, message_id_missing, minted_id, same_data};
pub use relations::{Broken, Open, RelationError, Relations};
pub use request::{
    Reason, RequestState, canonical, context_text, equal_headers, header_reason, header_text, next_reason,
};
pub use shape::{MessageAt, ShapeError, check_append, check_shape};
