//! `initialize`: its params and its result, the same in both dialects (PROTOCOL 2 and 6), and the result of
//! `sessiond/status`, which tells how the daemon stands.
//!
//! The params' types only describe: `connection` reads the text, so that a wrong member of ACP's is
//! passed over while a wrong one of ours is refused by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Dialect;
use super::RawJson;
use super::shapes::AnyObject;

/// What the client can show; ACP's other members are passed over.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCapabilities {
    /// Parts of a session that the client shows.
    pub session: Option<ClientSession>,
    /// Ours under `sessiond`; without it the connection speaks the acp dialect.
    #[serde(rename = "_meta")]
    pub ext: Option<ClientExtension>,
}

/// Parts of a session that the client shows.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientSession {
    /// An object: compactions are told as updates.
    #[schemars(with = "Option<AnyObject>")]
    pub compaction: Option<()>,
    /// An object: notices are told as updates.
    #[schemars(with = "Option<AnyObject>")]
    pub notices: Option<()>,
}

/// The client's `_meta`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientExtension {
    /// What the client asks of this daemon.
    pub sessiond: Option<ClientWishes>,
}

/// What a client asks of this daemon. Null is absence.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientWishes {
    /// How params and results are spelled; native when left out.
    pub dialect: Option<Dialect>,
    /// The notifications wanted, by their exact names without a prefix; left out: all in native, none in acp.
    pub notifications: Option<Vec<String>>,
    /// Written before the names of native notifications, for SDKs that deliver only underscore names.
    #[schemars(extend("enum" = ["_", "", null]))]
    pub prefix: Option<String>,
    /// ACP's `session/update` for appended messages too.
    pub live_updates: Option<bool>,
    /// Log-only event types of this client's own vocabulary.
    pub event_types: Option<Vec<EventType>>,
    /// Ignored.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    pub ext: Option<RawJson>,
}

/// An event type that a client owns.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventType {
    /// The type: not empty, known, retired or a storage row's tag.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub name: String,
    /// Logs that hold the type load only where it is declared; else its events are written `ignorable`.
    #[serde(default)]
    pub required: bool,
    /// Ignored.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyObject>")]
    pub ext: Option<RawJson>,
}

/// Defines a part of the result: camelCase members in wire order.
macro_rules! part {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[$attr:meta])* $field:ident : $type:ty,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $($(#[$attr])* pub $field: $type,)* }
    };
}

part! {
    /// What this daemon is and can do: ACP v1's result, with ours under `agentCapabilities._meta.sessiond`.
    InitializeResult {
        /// ACP's version.
        #[schemars(extend("const" = 1))]
        protocol_version: u32,
        /// Name and version of this program.
        agent_info: AgentInfo,
        /// None: nobody has to log in.
        #[schemars(extend("maxItems" = 0))]
        auth_methods: Vec<()>,
        /// What this daemon can do.
        agent_capabilities: AgentCapabilities,
    }
}

part! {
    /// Name and version of this program.
    AgentInfo {
        /// The program.
        name: String,
        /// Its name for people.
        title: String,
        /// Its version.
        version: String,
    }
}

part! {
    /// What this daemon can do, as ACP says it.
    AgentCapabilities {
        /// `session/load` is served.
        load_session: bool,
        /// Session methods that are served, each with an empty object.
        session_capabilities: SessionCapabilities,
        /// What ACP has no words for.
        #[serde(rename = "_meta")]
        ext: AgentExtension,
    }
}

/// `{}`: served.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Served {}

/// Session methods that are served.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SessionCapabilities {
    /// `session/list`
    pub list: Served,
    /// `session/resume`
    pub resume: Served,
    /// `session/close`
    pub close: Served,
    /// `session/delete`
    pub delete: Served,
    /// `session/fork`
    pub fork: Served,
}

part! {
    /// The daemon's `_meta`.
    AgentExtension {
        /// This daemon in its own words.
        sessiond: About,
    }
}

part! {
    /// This daemon in its own words.
    About {
        /// The wire protocol; raised with changes that a client must know of.
        protocol: u32,
        /// The format version of the logs.
        format_version: u32,
        /// The dialect that the connection speaks from now on.
        dialect: Dialect,
        /// Where sessions are kept.
        store: StoreInfo,
        /// Every method; each also answers with an underscore before its name.
        methods: Vec<String>,
        /// The notifications that will be sent, as they will be spelled.
        notifications: Vec<String>,
        /// The event types declared so far.
        event_types: Vec<EventType>,
        /// What lines, events, sessions and pages may be.
        limits: LimitsInfo,
        /// False: `session/prompt` is not served, as no model runs here.
        prompt: bool,
    }
}

part! {
    /// Where sessions are kept.
    StoreInfo {
        /// `memory` or `jsonl`.
        kind: String,
        /// The root directory, when there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        root: Option<String>,
    }
}

part! {
    /// What lines, events, sessions and pages may be.
    LimitsInfo {
        /// Bytes of a line, in or out.
        max_message_bytes: u64,
        /// Bytes of one encoded event.
        max_event_bytes: u64,
        /// Nesting in an event's data.
        max_depth: u32,
        /// Bytes of unread output before input is no longer read.
        max_queued_bytes: u64,
        /// Events of one batch.
        max_batch_events: u64,
        /// Sessions live at once.
        max_live_sessions: u64,
        /// Entries of a page that names no `limit`.
        limit: u64,
        /// Bytes of a page that names no `maxBytes`.
        max_bytes: u64,
    }
}

/// How something is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Index {
    /// Not at all: there is no such method.
    None,
    /// In memory.
    Memory,
    /// By the summaries beside the logs; a log without one is read.
    Summaries,
}

part! {
    /// What the daemon finds sessions by.
    IndexState {
        /// For `session/list`.
        list: Index,
        /// For a search of what was said.
        search: Index,
    }
}

part! {
    /// What waits at this moment. With a fixed clock nothing ever does.
    Queues {
        /// Work of storage, and histories on their way to the client, that requests or answers wait for.
        jobs: u64,
        /// Requests behind these that have not begun.
        requests: u64,
        /// Bytes of their lines.
        request_bytes: u64,
        /// Bytes of output that the client has not made room for.
        output_bytes: u64,
    }
}

part! {
    /// The result of `sessiond/status`.
    StatusResult {
        /// This program's version.
        version: String,
        /// The wire protocol; raised with changes that a client must know of.
        protocol: u32,
        /// The format version of the logs.
        format_version: u32,
        /// Where sessions are kept.
        store: StoreInfo,
        /// What lines, events, sessions and pages may be.
        limits: LimitsInfo,
        /// Sessions live now.
        live_sessions: u64,
        /// Bytes of the events that they hold in memory; what forks share is counted once.
        held_bytes: u64,
        /// What waits.
        queues: Queues,
        /// What the daemon finds sessions by.
        index: IndexState,
    }
}
