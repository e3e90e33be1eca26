//! The params of every method (PROTOCOL 3). Members are optional where the type is an `Option`;
//! `null` is absence but for `surfaceOp` and `sourceEventSeqs`.
//!
//! Members that a method does not know are refused; those that ACP has and we do not keep are known where ACP defines
//! the method (`star`). `initialize` and notifications are open: `connection` judges the one, nobody answers the other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::initialize::ClientCapabilities;
use super::pairing::Pairing;
use super::shapes::{AnyObject, Event, RequestId, SurfaceOp};
use super::{RawJson, given};

/// Defines a params type: camelCase members, `_meta` allowed and ignored.
macro_rules! params {
    ($(#[doc = $doc:literal])* strict $name:ident { $($body:tt)* }) => {
        params!(@ [deny_unknown_fields] $(#[doc = $doc])* $name { $($body)* });
    };
    ($(#[doc = $doc:literal])* star $name:ident { $($body:tt)* }) => {
        params!(@ [deny_unknown_fields] $(#[doc = $doc])* $name {
            $($body)*
            /// ACP's; not looked at and not kept.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(with = "RawJson")]
            mcp_servers: Option<RawJson>,
            /// ACP's; not looked at and not kept.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(with = "RawJson")]
            additional_directories: Option<RawJson>,
        });
    };
    ($(#[doc = $doc:literal])* open $name:ident { $($body:tt)* }) => {
        params!(@ [] $(#[doc = $doc])* $name { $($body)* });
    };
    (@ [$($strict:ident)?] $(#[doc = $doc:literal])* $name:ident
        { $($(#[$attr:meta])* $field:ident : $type:ty,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase" $(, $strict)?)]
        #[allow(missing_docs)]
        pub struct $name {
            $($(#[$attr])* pub $field: $type,)*
            #[doc = "Ignored unless a member of it is named by the protocol."]
            #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Option<AnyObject>")]
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

/// What to do with a boundary inside an open turn: refuse it (`reject`), or cut at the end of the last completed turn
/// instead (`clip`; nothing is left if there is none).
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
    /// The params of `initialize`.
    open InitializeParams {
        /// ACP's version, an integer; 1 is answered to any.
        #[schemars(with = "i64")]
        protocol_version: RawJson,
        /// What the client can show, and under `_meta.sessiond` what it asks of this daemon.
        #[schemars(with = "Option<ClientCapabilities>")]
        client_capabilities: Option<RawJson>,
        /// Name and version of the client; not read.
        #[schemars(with = "Option<AnyObject>")]
        client_info: Option<RawJson>,
    }
}

/// What a new session's header is to say, and of its seed. For the schema and for clients: the daemon reads it as a
/// `log::HeaderMeta`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct NewMeta {
    /// The session that the seed was cut from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// How many of the seed's events come from the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_length: Option<u64>,
    /// The working directory; equal to the param `cwd` when both are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Milliseconds since the Unix epoch; now when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<u64>,
    /// Only `subagent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("const" = "subagent"))]
    pub origin: Option<String>,
    /// How deep in delegation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation_depth: Option<u64>,
    /// A front-end's own name of the agent's set-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_preset: Option<String>,
    /// Ignored.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    pub ext: Option<RawJson>,
}

params! {
    /// The params of `session/new`.
    star NewParams {
        /// The id of the new session; minted when left out. The store has it from the first event on.
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        /// The working directory: an absolute path. ACP requires it.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// Whole events, numbered from 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Vec<Event>>")]
        seed: Option<RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        /// What the header is to say, and which part of the seed is the parent's.
        #[schemars(with = "Option<NewMeta>")]
        meta: Option<RawJson>,
        /// Whether appends must keep the turn/step/tool relations.
        #[serde(skip_serializing_if = "Option::is_none")]
        invariants: Option<InvariantsMode>,
        /// Never stored, gone after close.
        #[serde(skip_serializing_if = "Option::is_none")]
        ephemeral: Option<bool>,
    }
}

params! {
    /// The params of `session/append`.
    strict AppendParams {
        /// The session.
        session_id: String,
        /// A known event type, a declared one, or any with `ignorable`.
        #[serde(rename = "type")]
        #[schemars(with = "String")]
        kind: RawJson,
        /// The payload: any JSON value without -0, numbers beyond a double, or duplicate keys.
        data: RawJson,
        /// How a message joins the surface; null is not absence.
        #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
        #[schemars(with = "SurfaceOp")]
        surface_op: Option<RawJson>,
        /// The earlier events that a message was made from; null is not absence.
        #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Vec<u64>", extend("uniqueItems" = true))]
        source_event_seqs: Option<RawJson>,
        /// Readers that do not know the type may pass the event over: true or absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<bool>", extend("enum" = [true, null]))]
        ignorable: Option<RawJson>,
        /// Appends only if this is the log's length: repeated, it never commits twice. Behind a crash in an open turn
        /// the closers stand there: `SEQ_CONFLICT`.
        #[serde(skip_serializing_if = "Option::is_none")]
        expected_seq: Option<u64>,
        /// The instance that the caller means; another one is `SESSION_NOT_LIVE`.
        #[serde(skip_serializing_if = "Option::is_none")]
        instance_id: Option<String>,
        /// Answers only once the events are on stable storage.
        #[serde(skip_serializing_if = "Option::is_none")]
        durable: Option<bool>,
    }
}

/// One event of a batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct BatchEvent {
    /// A known event type, a declared one, or any with `ignorable`.
    #[serde(rename = "type")]
    #[schemars(with = "String")]
    pub kind: RawJson,
    /// The payload: any JSON value without -0, numbers beyond a double, or duplicate keys.
    pub data: RawJson,
    /// How a message joins the surface; null is not absence.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SurfaceOp")]
    pub surface_op: Option<RawJson>,
    /// The earlier events that a message was made from; null is not absence.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<u64>", extend("uniqueItems" = true))]
    pub source_event_seqs: Option<RawJson>,
    /// Readers that do not know the type may pass the event over: true or absent.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool", extend("const" = true))]
    pub ignorable: Option<RawJson>,
    /// Ignored.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    pub ext: Option<RawJson>,
}

params! {
    /// The params of `session/append_batch`.
    strict AppendBatchParams {
        /// The session.
        session_id: String,
        /// In the order in which they are appended.
        events: Vec<BatchEvent>,
        /// Appends only if this is the log's length, or lacks the rest of these events: repeated, it never commits
        /// twice. Behind a crash in an open turn the closers stand there: `SEQ_CONFLICT`.
        #[serde(skip_serializing_if = "Option::is_none")]
        expected_seq: Option<u64>,
        /// The instance that the caller means; another one is `SESSION_NOT_LIVE`.
        #[serde(skip_serializing_if = "Option::is_none")]
        instance_id: Option<String>,
        /// Answers only once the events are on stable storage.
        #[serde(skip_serializing_if = "Option::is_none")]
        durable: Option<bool>,
    }
}

params! {
    /// The params of `session/interrupt`.
    strict InterruptParams {
        /// The session.
        session_id: String,
        /// The instance that the caller means; another one is `SESSION_NOT_LIVE`.
        #[serde(skip_serializing_if = "Option::is_none")]
        instance_id: Option<String>,
    }
}

params! {
    /// The params of `session/snapshot`.
    strict SnapshotParams {
        /// The session.
        session_id: String,
        /// The instance that the caller means; another one is `SESSION_NOT_LIVE`.
        #[serde(skip_serializing_if = "Option::is_none")]
        instance_id: Option<String>,
        /// An inclusive event seq.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<u64>")]
        boundary: Option<RawJson>,
        /// What to do with a boundary inside an open turn; reject when left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        on_open_turn: Option<OpenTurnPolicy>,
    }
}

params! {
    /// The params of `session/fork`.
    star ForkParams {
        /// The session.
        session_id: String,
        /// The child's working directory, an absolute path; the source's when left out. ACP requires it.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// The instance that the caller means; another one is `SESSION_NOT_LIVE`.
        #[serde(skip_serializing_if = "Option::is_none")]
        instance_id: Option<String>,
        /// An inclusive event seq.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<u64>")]
        boundary: Option<RawJson>,
        /// A message instead of a boundary: the first event that holds it. The cut is the end of its turn, or that event
        /// where it stands in no turn.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The id of the child; minted when left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        child_session_id: Option<String>,
        /// What to do with a boundary inside an open turn; reject when left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        on_open_turn: Option<OpenTurnPolicy>,
        /// Whether appends must keep the turn/step/tool relations.
        #[serde(skip_serializing_if = "Option::is_none")]
        invariants: Option<InvariantsMode>,
        /// Never stored, gone after close; a fork of an ephemeral session is so whatever is said here.
        #[serde(skip_serializing_if = "Option::is_none")]
        ephemeral: Option<bool>,
    }
}

params! {
    /// The params of `session/events`.
    strict EventsParams {
        /// The session.
        session_id: String,
        /// The first event.
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
        #[schemars(range(min = 1))]
        limit: Option<u64>,
        /// Most bytes of events in the answer; at least one event is given.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        max_bytes: Option<u64>,
    }
}

/// Where a reader of messages stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Since {
    /// The generation that the reader's list belongs to.
    pub replace_generation: u64,
    /// Messages that the reader holds; beyond `total` the whole list is given.
    pub count: u64,
    /// Ignored.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    pub ext: Option<RawJson>,
}

params! {
    /// The params of `session/messages`.
    strict MessagesParams {
        /// The session.
        session_id: String,
        /// The state after that event.
        #[serde(skip_serializing_if = "Option::is_none")]
        through_seq: Option<u64>,
        /// Only messages that a reader who stands there lacks.
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Since>,
        /// Most bytes of messages, and of the seqs that are asked for, in the answer; at least one message is given.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        max_bytes: Option<u64>,
        /// With the seq of each message's event.
        #[serde(skip_serializing_if = "Option::is_none")]
        with_seqs: Option<bool>,
    }
}

params! {
    /// The params of `session/surface`.
    strict ThroughParams {
        /// The session.
        session_id: String,
        /// The state after that event.
        #[serde(skip_serializing_if = "Option::is_none")]
        through_seq: Option<u64>,
    }
}

params! {
    /// The params of `session/request`.
    strict RequestParams {
        /// The session.
        session_id: String,
        /// The state after that event.
        #[serde(skip_serializing_if = "Option::is_none")]
        through_seq: Option<u64>,
        /// Whether the messages are as the log has them, which is so when left out, or as model providers take them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pairing: Option<Pairing>,
    }
}

params! {
    /// The params of `session/info` and `session/flush`.
    strict SessionParams {
        /// The session.
        session_id: String,
    }
}

params! {
    /// The params of `session/list`.
    star ListParams {
        /// Only sessions of that working directory.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// The `nextCursor` of the page before.
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
        /// Most sessions in the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
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
    /// The params of `session/load`.
    star LoadParams {
        /// The session.
        session_id: String,
        /// Checked to be absolute, and not used: the stored one stays. ACP requires it.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// Whether the history is streamed first; updates when left out in acp, none in native.
        #[serde(skip_serializing_if = "Option::is_none")]
        replay: Option<ReplayMode>,
        /// Whether appends must keep the turn/step/tool relations.
        #[serde(skip_serializing_if = "Option::is_none")]
        invariants: Option<InvariantsMode>,
    }
}

params! {
    /// The params of `session/resume`.
    star ResumeParams {
        /// The session.
        session_id: String,
        /// Checked to be absolute, and not used: the stored one stays. ACP requires it.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// Whether appends must keep the turn/step/tool relations.
        #[serde(skip_serializing_if = "Option::is_none")]
        invariants: Option<InvariantsMode>,
    }
}

params! {
    /// The params of `session/inspect`.
    strict InspectParams {
        /// The session.
        session_id: String,
        /// The first event.
        #[serde(skip_serializing_if = "Option::is_none")]
        from_seq: Option<u64>,
        /// Most events in the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        limit: Option<u64>,
        /// Most bytes of events in the answer; at least one event is given.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        max_bytes: Option<u64>,
    }
}

params! {
    /// The params of `session/rescue`.
    strict RescueParams {
        /// The session; it must be live.
        session_id: String,
        /// The id under which it goes on if its own is another log's; minted when left out. It must be free in any case.
        #[serde(skip_serializing_if = "Option::is_none")]
        child_session_id: Option<String>,
    }
}

params! {
    /// The params of `sessiond/status`.
    strict StatusParams {}
}

params! {
    /// The params of `session/close` and `session/delete`.
    star EndParams {
        /// The session.
        session_id: String,
    }
}

params! {
    /// The params of the `$/cancel_request` notification.
    open CancelParams {
        /// The id of the request that is to end.
        #[schemars(with = "RequestId")]
        request_id: RawJson,
    }
}
