//! The results of every method and the params of every notification (PROTOCOL 3 and 4).

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::RawJson;
use super::pairing::RequestRepair;
use super::params::{InvariantsMode, Since};
use super::shapes::{Event, Message, RequestHeader, SessionUpdate};

/// Defines a result type: camelCase members, absent where there is nothing to say.
macro_rules! result {
    ($(#[$meta:meta])* $name:ident { $($(#[$attr:meta])* $field:ident : $type:ty,)* }) => {
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        $(#[$meta])*
        #[allow(missing_docs)]
        pub struct $name { $($(#[$attr])* pub $field: $type,)* }
    };
}

/// Defines *Opened* and the results that are *Opened* and more (flattening would cost the raw texts).
macro_rules! opened {
    (@of $name:ident { }) => {};
    (@of $name:ident { $($field:ident : $type:ty,)+ }) => {
        impl $name {
            /// *Opened* and what is said beyond it.
            pub fn of(opened: Opened, $($field: $type),+) -> Self {
                Self {
                    session_id: opened.session_id,
                    instance_id: opened.instance_id,
                    header: opened.header,
                    inherited_event_count: opened.inherited_event_count,
                    first_live_seq: opened.first_live_seq,
                    next_seq: opened.next_seq,
                    invariants: opened.invariants,
                    repaired: opened.repaired,
                    $($field,)+
                }
            }
        }
    };
    ($(#[$meta:meta])* $name:ident { $($(#[$attr:meta])* $field:ident : $type:ty,)* }) => {
        result! {
            $(#[$meta])*
            $name {
                /// The session.
                session_id: String,
                /// This life of the session: anew each time that it becomes live.
                instance_id: String,
                /// What was fixed when the session was made.
                header: HeaderResult,
                /// How many of the first events come from the parent.
                inherited_event_count: u64,
                /// The log's length when the session became live.
                first_live_seq: u64,
                /// The log's length: the seq that the next event gets. When a session becomes live, `session/event` tells
                /// of events from there on; those before it are to be read.
                next_seq: u64,
                /// Whether appends must keep the turn/step/tool relations.
                invariants: InvariantsMode,
                /// What the load that made the session live had to mend; absent when nothing.
                #[serde(skip_serializing_if = "Option::is_none")]
                repaired: Option<Repaired>,
                $($(#[$attr])* $field: $type,)*
            }
        }
        opened!(@of $name { $($field: $type,)* });
    };
}

result! {
    /// A session's header.
    #[schemars(rename = "SessionHeader")]
    HeaderResult {
        /// The format version of the log.
        #[schemars(extend("const" = 0))]
        version: u32,
        /// The session's id.
        id: String,
        /// Milliseconds since the Unix epoch.
        created_at: u64,
        /// The working directory: absolute, not normalised.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// The session that it was forked from.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_session: Option<String>,
        /// Whether it began with events of a parent.
        is_seeded: bool,
        /// `subagent`, or absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("const" = "subagent"))]
        origin: Option<String>,
        /// How deep in delegation; a log says 0 where nothing was said, and so does a session that is loaded from one.
        #[serde(skip_serializing_if = "Option::is_none")]
        delegation_depth: Option<u64>,
        /// A front-end's own name of the agent's set-up.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_preset: Option<String>,
    }
}

result! {
    /// What a load had to mend; it is written by the first append, flush or close, or at the daemon's end.
    Repaired {
        /// Events that closed an open turn, whether a crash had left it or a close: in the log at once, announced by no
        /// `session/event`.
        closers: u64,
        /// Bytes of the log's end that the first write will save beside the log and cut off.
        cut_bytes: u64,
        /// Events in whole records among these bytes: they stand behind damage.
        cut_events: u64,
    }
}

opened! {
    /// *Opened*: how a session became, or is, live.
    Opened {}
}

opened! {
    /// The result of `session/fork`.
    Forked {
        /// The seq cut at; null for an empty prefix.
        boundary: Option<u64>,
    }
}

result! {
    /// The result of `session/append`.
    Appended {
        /// Where the event stands.
        seq: u64,
        /// Milliseconds since the Unix epoch, as the event says.
        time: i64,
        /// The id minted for a message that came without one.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The log held exactly this event there already; nothing was committed.
        #[serde(skip_serializing_if = "is_false", default)]
        #[schemars(extend("const" = true))]
        duplicate: bool,
    }
}

result! {
    /// The result of `session/append_batch`.
    AppendedBatch {
        /// Where the first event stands.
        first_seq: u64,
        /// How many events.
        count: u64,
        /// Milliseconds since the Unix epoch, as the first event says.
        time: i64,
        /// The log held exactly these events there already; nothing was committed.
        #[serde(skip_serializing_if = "is_false", default)]
        #[schemars(extend("const" = true))]
        duplicate: bool,
    }
}

result! {
    /// The result of `session/interrupt`.
    Interrupted {
        /// Where the first closer stands.
        first_seq: u64,
        /// How many closers; 0 when no turn was open.
        count: u64,
    }
}

result! {
    /// One session at one moment of its life.
    SourceResult {
        /// The session.
        session_id: String,
        /// This life of the session: anew each time that it becomes live.
        instance_id: String,
    }
}

result! {
    /// What a snapshot says of its seed.
    SnapshotMeta {
        /// The session that the seed was cut from.
        parent_session: String,
        /// How many events the seed holds.
        seed_length: u64,
        /// The session's working directory.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    }
}

result! {
    /// The result of `session/snapshot`.
    SnapshotResult {
        /// What was cut.
        source: SourceResult,
        /// The events up to the cut: `seed` of `session/new`.
        #[schemars(with = "Vec<Event>")]
        seed: RawJson,
        /// The `meta` that goes with it.
        meta: SnapshotMeta,
    }
}

result! {
    /// The result of `session/events`.
    EventsResult {
        /// Events, each as it was committed.
        #[schemars(with = "Vec<Event>")]
        events: RawJson,
        /// The log's length: the seq that the next event gets.
        next_seq: u64,
        /// The `fromSeq` (`toSeq` when reverse) to go on with.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
    }
}

result! {
    /// The result of `session/messages`.
    MessagesResult {
        /// The derived messages, in order.
        #[schemars(with = "Vec<Message>")]
        messages: RawJson,
        /// The seq of the event of each of them, where asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seqs: Option<Vec<u64>>,
        /// The index of the first message given.
        from_index: u64,
        /// How many messages there are.
        total: u64,
        /// Grows with each replacement on the surface.
        replace_generation: u64,
        /// The log's length: the seq that the next event gets.
        next_seq: u64,
        /// The `since` to go on with.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<Since>,
    }
}

result! {
    /// The result of `session/surface`.
    SurfaceResult {
        /// The seqs of the nodes, in order.
        nodes: Vec<u64>,
        /// Grows with each replacement on the surface.
        replace_generation: u64,
        /// The log's length: the seq that the next event gets.
        next_seq: u64,
    }
}

result! {
    /// The result of `session/request`.
    RequestResult {
        /// The canonical request header; null before the first.
        #[schemars(with = "Option<RequestHeader>")]
        header: Option<RawJson>,
        /// The header's event; null before the first.
        header_seq: Option<u64>,
        /// Why the header was written, as its event says; null before the first.
        reason: Option<RawJson>,
        /// The latest `request/context`; null before the first.
        context: Option<RawJson>,
        /// The derived messages, in order.
        #[schemars(with = "Vec<Message>")]
        messages: RawJson,
        /// The log's length: the seq that the next event gets.
        next_seq: u64,
        /// What was changed in the messages, where `pairing` asked for it; nothing stored is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repairs: Option<Vec<RequestRepair>>,
    }
}

opened! {
    /// The result of `session/info`.
    InfoResult {
        /// The number of the open turn.
        #[schemars(with = "Option<f64>")]
        open_turn: Option<RawJson>,
        /// The number of the open step.
        #[schemars(with = "Option<f64>")]
        open_step: Option<RawJson>,
        /// Grows with each replacement on the surface.
        replace_generation: u64,
        /// Nodes on the surface.
        surface_length: u64,
        /// The last event on stable storage.
        durable_seq: Option<u64>,
        /// What is not as a writer should have left it, and what a model provider would refuse.
        warnings: Vec<String>,
    }
}

/// Whether a listed session can be opened, as far as a list looks: a log of the size that its summary was made for is not
/// read. A load reads all of it. A `damaged` one opens, but without what stands behind the damage: `reason` says how much.
/// A `superseded` one is continued by a log of a later generation of the format beside it: it can be inspected, and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Status {
    Ok,
    Damaged,
    Corrupt,
    Unsupported,
    Superseded,
}

result! {
    /// A listed session. In the acp dialect ACP's members stand at its root and the others under
    /// `_meta.sessiond`.
    SessionInfo {
        /// The session.
        session_id: String,
        /// The working directory; in acp `/` stands for none.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// The last title by a person, else the last one.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// ISO 8601, UTC: the time of the last event that is no title and no `session/end-seed`, else of the creation.
        #[serde(skip_serializing_if = "Option::is_none")]
        updated_at: Option<String>,
        /// Milliseconds since the Unix epoch.
        created_at: u64,
        /// The session that it was forked from.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_session: Option<String>,
        /// Whether it began with events of a parent.
        is_seeded: bool,
        /// `subagent`, or absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("const" = "subagent"))]
        origin: Option<String>,
        /// Whether it is live in this daemon.
        live: bool,
        /// Its owner, when that is another process.
        #[serde(skip_serializing_if = "Option::is_none")]
        locked_by: Option<LockedBy>,
        /// Whether it can be opened, as far as a list looks.
        status: Status,
        /// Why not.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
}

result! {
    /// The result of `session/list`.
    ListResult {
        /// Newest last event first.
        sessions: Vec<SessionInfo>,
        /// The `cursor` to go on with; absent at the end.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<String>,
    }
}

result! {
    /// The result of `session/inspect`: of a session whose header reads and which is stored once.
    InspectResult {
        /// What was fixed when the session was made.
        header: HeaderResult,
        /// How many of the first events come from the parent.
        inherited_event_count: u64,
        /// The log's length: the seq that the next event gets.
        next_seq: u64,
        /// Events, each as it was committed.
        #[schemars(with = "Vec<Event>")]
        events: RawJson,
        /// The `fromSeq` to go on with.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
        /// The events with which a load would close an open turn.
        #[schemars(with = "Vec<Event>")]
        closers: RawJson,
        /// What a load would cut; null when the log ends well.
        torn_tail: Option<TornTail>,
        /// What is wrong with the session, and what a model provider would refuse of its messages.
        problems: Vec<String>,
        /// Its owner, when that is another process.
        #[serde(skip_serializing_if = "Option::is_none")]
        locked_by: Option<LockedBy>,
    }
}

result! {
    /// The end of a log, from its first record on that is damaged or torn.
    TornTail {
        /// Where it begins, in bytes.
        offset: u64,
        /// How long it is.
        bytes: u64,
        /// Events in its whole records.
        events: u64,
    }
}

result! {
    /// The process that owns a session.
    LockedBy {
        /// The process.
        pid: u32,
        /// Milliseconds since the Unix epoch.
        since: u64,
    }
}

result! {
    /// The result of `session/flush`.
    FlushResult {
        /// The last event on stable storage; null when there is none.
        durable_seq: Option<u64>,
    }
}

result! {
    /// The result of `session/close` and `session/delete`.
    EmptyResult {}
}

result! {
    /// The params of the `session/event` notification. None is sent of what a log holds when its session becomes live: a
    /// seed, a fork's `session/end-seed`, a load's closers.
    EventNotice {
        /// The session.
        session_id: String,
        /// The event, with the very bytes of the log.
        #[schemars(with = "Event")]
        event: RawJson,
    }
}

result! {
    /// The params of the `session/durable` notification.
    DurableNotice {
        /// The session.
        session_id: String,
        /// The last event on stable storage.
        durable_seq: u64,
    }
}

result! {
    /// The params of the `session/disposed` notification.
    DisposedNotice {
        /// The session.
        session_id: String,
        /// This life of the session: anew each time that it becomes live.
        instance_id: String,
    }
}

result! {
    /// The params of the `session/update` notification: ACP's.
    UpdateNotice {
        /// The session.
        session_id: String,
        /// What is to be shown.
        #[schemars(with = "SessionUpdate")]
        update: RawJson,
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

impl<T> From<T> for Face<T> {
    fn from(native: T) -> Self {
        Self::Native(native)
    }
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
