//! `pairing` of `session/request`: what is asked for, and what is told of it (PROTOCOL 3, Warnings).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RawJson;

/// The messages of a request as the log has them (`as_is`), or as model providers take them (`repair`): behind each message
/// with tool calls one result for each of them, no other results, no id twice, and no message without content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Pairing {
    AsIs,
    Repair,
}

/// What was done to a message of a request so that model providers take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestRepairKind {
    /// An error result was put in for a call without one.
    MissingResult,
    /// A result without a call was made text.
    OrphanResult,
    /// An id of a call or message that was used before, or is empty, was made another.
    DuplicateId,
    /// A message that stood between a call and its result now stands behind the results, or a result of several in one
    /// message has become one of its own.
    Moved,
    /// A call outside of an assistant's message, a result outside of one of the user's role, either of them inside a
    /// result, or a message without content was left out.
    LeftOut,
}

/// One change.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RequestRepair {
    /// What was done.
    pub kind: RequestRepairKind,
    /// The message, by its index in `messages`; where a message was left out, the index that it would have.
    pub index: u64,
    /// The message's id where it was moved; else that of the call or message, as `messages` has it.
    #[schemars(with = "String")]
    pub id: RawJson,
}

#[cfg(feature = "daemon")]
impl From<crate::view::Repair> for RequestRepair {
    fn from(repair: crate::view::Repair) -> Self {
        use crate::view::RepairKind;
        let kind = match repair.kind {
            RepairKind::MissingResult => RequestRepairKind::MissingResult,
            RepairKind::OrphanResult => RequestRepairKind::OrphanResult,
            RepairKind::DuplicateId => RequestRepairKind::DuplicateId,
            RepairKind::Moved => RequestRepairKind::Moved,
            RepairKind::LeftOut => RequestRepairKind::LeftOut,
        };
        Self { kind, index: repair.index as u64, id: RawJson::from_text(repair.id) }
    }
}
