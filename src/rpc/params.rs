//! The params of every method (PROTOCOL 3). Members are optional where the type is an `Option`;
//! `null` is absence but for `surfaceOp` and `sourceEventSeqs`.
//!
//! Methods of our own refuse members that they do not know; ACP's ignore them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::raw::{RawJson, given};
use super::results::EventSchema;

/// Defines a params type: camelCase members, `_meta` allowed and ignored.
macro_rules! params {
    ($(#[doc = $doc:literal])* strict $name:ident { $($body:tt)* }) => {
        params!(@ [deny_unknown_fields] $(#[doc = $doc])* $name { $($body)* });
    };
    ($(#[doc = $doc:literal])* open $name:ident { $($body:tt)* }) => {
        params!(@ [] $(#[doc = $doc])* $name { $($body)* });
    };
    (@ [$($strict:ident)?] $(#[doc = $doc:literal])* $name:ident
        { $($(#[$attr:meta])* $field:ident : $type:ty,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase" $(, $strict)?)]
        #[allow(missing_docs)]
        pub struct $name {
            $($(#[$attr])* pub $field: $type,)*
            #[doc = "Ignored unless a member of it is named by the protocol."]
            #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
            pub ext: Option<RawJson>,
        }
    };
}

/// Whether appends must keep the turn/step/tool relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum InvariantsMode {
    Enforce,
    Off,
}

/// What to do with a boundary inside an open turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum OpenTurnPolicy {
    Reject,
    Clip,
}

/// Whether a load streams the history first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ReplayMode {
    Updates,
    None,
}

params! {
    /// `initialize`
    open InitializeParams {
        /// ACP's version, an integer; 1 is answered to any.
        #[schemars(with = "i64")]
        protocol_version: RawJson,
        client_capabilities: Option<RawJson>,
        client_info: Option<RawJson>,
    }
}

/// What a new session's header is to say, and of its seed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct NewMeta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// How many of the seed's events come from the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation_depth: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_preset: Option<String>,
}

params! {
    /// `session/new`
    open NewParams {
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// Whole events, numbered from 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Vec<EventSchema>>")]
        seed: Option<RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<NewMeta>")]
        meta: Option<RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        invariants: Option<InvariantsMode>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ephemeral: Option<bool>,
    }
}

params! {
    /// `session/append`
    strict AppendParams {
        session_id: String,
        #[serde(rename = "type")]
        #[schemars(with = "String")]
        kind: RawJson,
        data: RawJson,
        #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
        surface_op: Option<RawJson>,
        #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
        source_event_seqs: Option<RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<bool>")]
        ignorable: Option<RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        expected_seq: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        instance_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        durable: Option<bool>,
    }
}

/// One event of a batch.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct BatchEvent {
    #[serde(rename = "type")]
    #[schemars(with = "String")]
    pub kind: RawJson,
    pub data: RawJson,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub surface_op: Option<RawJson>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub source_event_seqs: Option<RawJson>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<bool>")]
    pub ignorable: Option<RawJson>,
}

params! {
    /// `session/append_batch`
    strict AppendBatchParams {
        session_id: String,
        events: Vec<BatchEvent>,
        #[serde(skip_serializing_if = "Option::is_none")]
        expected_seq: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        instance_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        durable: Option<bool>,
    }
}

params! {
    /// `session/interrupt`
    strict InterruptParams {
        session_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        instance_id: Option<String>,
    }
}

params! {
    /// `session/snapshot`
    strict SnapshotParams {
        session_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        instance_id: Option<String>,
        /// An inclusive event seq.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<u64>")]
        boundary: Option<RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        on_open_turn: Option<OpenTurnPolicy>,
    }
}

params! {
    /// `session/fork`
    open ForkParams {
        session_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        instance_id: Option<String>,
        /// An inclusive event seq.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<u64>")]
        boundary: Option<RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        child_session_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        on_open_turn: Option<OpenTurnPolicy>,
        #[serde(skip_serializing_if = "Option::is_none")]
        invariants: Option<InvariantsMode>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ephemeral: Option<bool>,
    }
}

params! {
    /// `session/events`
    strict EventsParams {
        session_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        from_seq: Option<u64>,
        /// Exclusive.
        #[serde(skip_serializing_if = "Option::is_none")]
        to_seq: Option<u64>,
        /// Only events after the inherited prefix.
        #[serde(skip_serializing_if = "Option::is_none")]
        own: Option<bool>,
        /// Only events of these types.
        #[serde(skip_serializing_if = "Option::is_none")]
        types: Option<Vec<String>>,
        /// From the end to the start.
        #[serde(skip_serializing_if = "Option::is_none")]
        reverse: Option<bool>,
        /// Most events in the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
        /// Most bytes of events in the answer; at least one event is given.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_bytes: Option<u64>,
    }
}

/// Where a reader of messages stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Since {
    /// The generation that the reader's list belongs to.
    pub replace_generation: u64,
    /// Messages that the reader holds.
    pub count: u64,
}

params! {
    /// `session/messages`
    strict MessagesParams {
        session_id: String,
        /// The state after that event.
        #[serde(skip_serializing_if = "Option::is_none")]
        through_seq: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Since>,
        /// Most bytes of messages in the answer; at least one message is given.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_bytes: Option<u64>,
    }
}

params! {
    /// `session/surface` and `session/request`
    strict ThroughParams {
        session_id: String,
        /// The state after that event.
        #[serde(skip_serializing_if = "Option::is_none")]
        through_seq: Option<u64>,
    }
}

params! {
    /// `session/info` and `session/flush`
    strict SessionParams {
        session_id: String,
    }
}

params! {
    /// `session/list`
    open ListParams {
        /// Only sessions of that working directory.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
        /// Only live sessions, in creation order, unpaged.
        #[serde(skip_serializing_if = "Option::is_none")]
        live: Option<bool>,
        /// Sessions without events too.
        #[serde(skip_serializing_if = "Option::is_none")]
        include_empty: Option<bool>,
    }
}

params! {
    /// `session/load`
    open LoadParams {
        session_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        replay: Option<ReplayMode>,
        #[serde(skip_serializing_if = "Option::is_none")]
        invariants: Option<InvariantsMode>,
    }
}

params! {
    /// `session/resume`
    open ResumeParams {
        session_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        invariants: Option<InvariantsMode>,
    }
}

params! {
    /// `session/inspect`
    strict InspectParams {
        session_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        from_seq: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_bytes: Option<u64>,
    }
}

params! {
    /// `session/close` and `session/delete`
    open EndParams {
        session_id: String,
    }
}
