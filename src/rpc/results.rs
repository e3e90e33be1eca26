//! The results of every method and the params of every notification (PROTOCOL 3 and 4).

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::params::InvariantsMode;
use super::raw::RawJson;

/// Defines a result type: camelCase members, absent where there is nothing to say.
macro_rules! result {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[$attr:meta])* $field:ident : $type:ty,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        #[allow(missing_docs)]
        pub struct $name { $($(#[$attr])* pub $field: $type,)* }
    };
}

/// Defines *Opened* and the results that are *Opened* and more (flattening would cost the raw texts).
macro_rules! opened {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[$attr:meta])* $field:ident : $type:ty,)* }) => {
        result! {
            $(#[doc = $doc])*
            $name {
                session_id: String,
                instance_id: String,
                header: HeaderResult,
                inherited_event_count: u64,
                first_live_seq: u64,
                next_seq: u64,
                invariants: InvariantsMode,
                #[serde(skip_serializing_if = "Option::is_none")]
                repaired: Option<Repaired>,
                $($(#[$attr])* $field: $type,)*
            }
        }
    };
}

result! {
    /// A session's header.
    HeaderResult {
        version: u32,
        id: String,
        created_at: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_session: Option<String>,
        is_seeded: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        delegation_depth: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_preset: Option<String>,
    }
}

result! {
    /// What a load had to mend.
    Repaired {
        /// Events that closed an open turn.
        closers: u64,
        /// Bytes of a torn tail that the first write will cut.
        cut_bytes: u64,
    }
}

opened! {
    /// *Opened*: how a session became, or is, live.
    Opened {}
}

opened! {
    /// `session/fork`
    Forked {
        /// The seq cut at; null for an empty prefix.
        boundary: Option<u64>,
    }
}

result! {
    /// `session/append`
    Appended {
        seq: u64,
        time: i64,
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        #[serde(skip_serializing_if = "is_false", default)]
        duplicate: bool,
    }
}

result! {
    /// `session/append_batch`
    AppendedBatch {
        first_seq: u64,
        count: u64,
        time: i64,
        #[serde(skip_serializing_if = "is_false", default)]
        duplicate: bool,
    }
}

result! {
    /// `session/interrupt`
    Interrupted {
        first_seq: u64,
        count: u64,
    }
}

result! {
    /// One session at one moment of its life.
    SourceResult {
        session_id: String,
        instance_id: String,
    }
}

result! {
    /// What a snapshot says of its seed.
    SnapshotMeta {
        parent_session: String,
        seed_length: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    }
}

result! {
    /// `session/snapshot`
    SnapshotResult {
        source: SourceResult,
        #[schemars(with = "Vec<EventSchema>")]
        seed: RawJson,
        meta: SnapshotMeta,
    }
}

result! {
    /// `session/events`
    EventsResult {
        #[schemars(with = "Vec<EventSchema>")]
        events: RawJson,
        next_seq: u64,
        /// The `fromSeq` (`toSeq` when reverse) to go on with.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
    }
}

result! {
    /// `session/messages`
    MessagesResult {
        #[schemars(with = "Vec<MessageSchema>")]
        messages: RawJson,
        from_index: u64,
        total: u64,
        replace_generation: u64,
        next_seq: u64,
        /// The `since` to go on with.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<super::params::Since>,
    }
}

result! {
    /// `session/surface`
    SurfaceResult {
        nodes: Vec<u64>,
        replace_generation: u64,
        next_seq: u64,
    }
}

result! {
    /// `session/request`
    RequestResult {
        /// The canonical request header; null before the first.
        header: Option<RawJson>,
        header_seq: Option<u64>,
        reason: Option<RawJson>,
        context: Option<RawJson>,
        #[schemars(with = "Vec<MessageSchema>")]
        messages: RawJson,
        next_seq: u64,
    }
}

opened! {
    /// `session/info`
    InfoResult {
        /// The number of the open turn.
        open_turn: Option<RawJson>,
        /// The number of the open step.
        open_step: Option<RawJson>,
        replace_generation: u64,
        surface_length: u64,
        /// The last event on stable storage.
        durable_seq: Option<u64>,
        warnings: Vec<String>,
    }
}

/// Whether a listed session can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Status {
    Ok,
    Corrupt,
    Unsupported,
}

result! {
    /// A listed session. In the acp dialect ACP's members stand at its root and the others under
    /// `_meta.sessiond`.
    SessionInfo {
        session_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// ISO 8601, UTC: the time of the last event that is no title.
        #[serde(skip_serializing_if = "Option::is_none")]
        updated_at: Option<String>,
        created_at: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_session: Option<String>,
        is_seeded: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
        live: bool,
        status: Status,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
}

result! {
    /// `session/list`
    ListResult {
        sessions: Vec<SessionInfo>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<String>,
    }
}

result! {
    /// `session/inspect`
    InspectResult {
        header: HeaderResult,
        inherited_event_count: u64,
        next_seq: u64,
        #[schemars(with = "Vec<EventSchema>")]
        events: RawJson,
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
        /// The events with which a load would close an open turn.
        #[schemars(with = "Vec<EventSchema>")]
        closers: RawJson,
        /// What a load would cut; null when the log ends well.
        torn_tail: Option<TornTail>,
        problems: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        locked_by: Option<LockedBy>,
    }
}

result! {
    /// The end of a log that holds no whole record.
    TornTail {
        offset: u64,
        bytes: u64,
    }
}

result! {
    /// The process that owns a session.
    LockedBy {
        pid: u32,
        since: u64,
    }
}

result! {
    /// `session/flush`
    FlushResult {
        durable_seq: Option<u64>,
    }
}

result! {
    /// `session/close` and `session/delete`
    EmptyResult {}
}

result! {
    /// The `session/event` notification.
    EventNotice {
        session_id: String,
        #[schemars(with = "EventSchema")]
        event: RawJson,
    }
}

result! {
    /// The `session/durable` notification.
    DurableNotice {
        session_id: String,
        durable_seq: u64,
    }
}

result! {
    /// The `session/disposed` notification.
    DisposedNotice {
        session_id: String,
        instance_id: String,
    }
}

result! {
    /// The `session/update` notification: ACP's.
    UpdateNotice {
        session_id: String,
        update: RawJson,
    }
}

result! {
    /// A committed event.
    EventSchema {
        #[serde(rename = "type")]
        kind: String,
        seq: u64,
        time: i64,
        data: RawJson,
        #[serde(skip_serializing_if = "Option::is_none")]
        source_event_seqs: Option<Vec<u64>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        surface_op: Option<RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ignorable: Option<bool>,
    }
}

result! {
    /// A derived message.
    MessageSchema {
        id: String,
        role: String,
        content: Vec<RawJson>,
        source: RawJson,
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}

/// A result in one of the two dialects (PROTOCOL 2): native members at the root, or ACP's at the root
/// and the native ones under `_meta.sessiond`.
#[derive(Clone, Debug)]
pub enum Face<T> {
    /// Native members at the root.
    Native(T),
    /// ACP's members, then the native ones.
    Acp(Vec<(&'static str, RawJson)>, Option<T>),
}

impl<T: Serialize> Serialize for Face<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Native(value) => value.serialize(serializer),
            Self::Acp(root, own) => {
                #[derive(Serialize)]
                struct Meta<'a, T> {
                    sessiond: &'a T,
                }
                let mut map = serializer.serialize_map(None)?;
                for (name, value) in root {
                    map.serialize_entry(name, value)?;
                }
                if let Some(own) = own {
                    map.serialize_entry("_meta", &Meta { sessiond: own })?;
                }
                map.end()
            }
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Face<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::Native)
    }
}
