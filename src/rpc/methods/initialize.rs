//! `initialize`: ACP's handshake, with what this daemon is under `_meta.sessiond` (PROTOCOL 6).

use crate::json::{Type, quote};
use crate::rpc::connection::{Connection, Notice, UPDATE};
use crate::rpc::error::{Code, WireError};
use crate::rpc::params::InitializeParams;
use crate::rpc::raw::RawJson;
use crate::rpc::service::{Answer, Service, bad_param};

/// The wire protocol of this package; raised with changes that a client must know of.
const PROTOCOL: u32 = 1;

/// Every request method, in the order of PROTOCOL 3.
pub(in crate::rpc) const METHODS: [&str; 19] = [
    "initialize",
    "session/new",
    "session/append",
    "session/append_batch",
    "session/interrupt",
    "session/snapshot",
    "session/fork",
    "session/events",
    "session/messages",
    "session/surface",
    "session/request",
    "session/info",
    "session/list",
    "session/load",
    "session/resume",
    "session/inspect",
    "session/flush",
    "session/close",
    "session/delete",
];

impl Service {
    pub(super) fn initialize(&mut self, params: InitializeParams) -> Answer<RawJson> {
        if self.connection.fixed {
            let message = "initialize must be the first request of a connection; go on without it";
            return Err(WireError::new(Code::InvalidRequest, message).into());
        }
        if params.protocol_version.verified().0.kind() != Type::Number {
            return Err(
                bad_param("protocolVersion", "protocolVersion must be a number; 1 is spoken here").into()
            );
        }
        let capabilities = params.client_capabilities.as_ref().map(|raw| raw.verified().0);
        let (connection, types) = Connection::negotiate(capabilities)?;
        for declared in types {
            self.store.vocabulary_mut().declare(&declared.name, declared.required);
        }
        self.connection = connection;
        Ok(RawJson::from_text(self.greeting()))
    }

    fn greeting(&self) -> String {
        let list = |names: &mut dyn Iterator<Item = &str>| names.map(quote).collect::<Vec<_>>().join(",");
        let store = self.storage.describe();
        let root = store.root.map_or_else(String::new, |root| format!(",\"root\":{}", quote(&root)));
        let notices = Notice::ALL.into_iter().filter(|notice| self.connection.wants(*notice));
        let mut notices: Vec<String> =
            notices.map(|notice| format!("{}{}", self.connection.prefix, notice.method())).collect();
        notices.push(UPDATE.to_owned());
        let mut types: Vec<_> = self.store.vocabulary().declared().collect();
        types.sort_unstable();
        let types: Vec<_> = types
            .iter()
            .map(|(name, required)| format!("{{\"type\":{},\"required\":{required}}}", quote(name)))
            .collect();
        let (limits, wire) = (&self.settings.limits, &self.settings.wire);
        format!(
            concat!(
                r#"{{"protocolVersion":1,"agentInfo":{{"name":"sessiond","title":"sessiond","version":{version}}},"#,
                r#""authMethods":[],"agentCapabilities":{{"loadSession":true,"#,
                r#""sessionCapabilities":{{"list":{{}},"resume":{{}},"close":{{}},"delete":{{}},"fork":{{}}}},"#,
                r#""_meta":{{"sessiond":{{"protocol":{protocol},"formatVersion":0,"dialect":"{dialect}","#,
                r#""store":{{"kind":"{kind}"{root}}},"methods":[{methods}],"notifications":[{notices}],"#,
                r#""eventTypes":[{types}],"limits":{{"maxMessageBytes":{message},"maxEventBytes":{event},"#,
                r#""maxDepth":{depth},"maxQueuedBytes":{queued},"maxBatchEvents":{batch},"#,
                r#""maxLiveSessions":{live},"limit":{entries},"maxBytes":{bytes}}},"prompt":false}}}}}}}}"#
            ),
            version = quote(env!("CARGO_PKG_VERSION")),
            protocol = PROTOCOL,
            dialect = self.connection.dialect.name(),
            kind = store.kind,
            root = root,
            methods = list(&mut METHODS.into_iter()),
            notices = list(&mut notices.iter().map(String::as_str)),
            types = types.join(","),
            message = wire.max_message_bytes,
            event = limits.max_event_bytes,
            depth = limits.max_depth,
            queued = wire.max_queued_bytes,
            batch = limits.max_batch_events,
            live = limits.max_live_sessions,
            entries = wire.page_entries,
            bytes = wire.page_bytes,
        )
    }
}
