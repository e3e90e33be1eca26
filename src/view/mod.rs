//! What a log means: folds that advance by event and can be rebuilt from its start.

mod message_id;
mod shape;

pub use message_id::{IdGap, MINTED_PREFIX, message_id_missing, minted_id, same_data};
pub use shape::{MessageAt, ShapeError, check_append, check_shape};
