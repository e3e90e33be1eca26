//! `initialize`: ACP's handshake, with what this daemon is under `_meta.sessiond` (PROTOCOL 6).

use crate::json::Type;
use crate::protocol::initialize::{
    About, AgentCapabilities, AgentExtension, AgentInfo, EventType, InitializeResult, LimitsInfo,
    SessionCapabilities, StoreInfo,
};
use crate::protocol::params::InitializeParams;
use crate::protocol::{Code, WireError};
use crate::protocol::{METHODS, Notice, PROTOCOL, UPDATE};
use crate::server::call::Answer;
use crate::server::connection::Connection;
use crate::server::service::{Service, bad_param};

impl Service {
    pub(super) fn initialize(&mut self, params: InitializeParams) -> Answer<InitializeResult> {
        if self.connection.fixed {
            let message = "initialize must come before the first request that is answered with a result; go on without it";
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
        Ok(self.greeting())
    }

    fn greeting(&self) -> InitializeResult {
        let notices = Notice::ALL.into_iter().filter(|notice| self.connection.wants(*notice));
        let mut notifications: Vec<String> =
            notices.map(|notice| format!("{}{}", self.connection.prefix, notice.method())).collect();
        notifications.push(UPDATE.to_owned());
        let mut types: Vec<_> = self.store.vocabulary().declared().collect();
        types.sort_unstable();
        let about = About {
            protocol: PROTOCOL,
            format_version: 0,
            dialect: self.connection.dialect,
            store: self.store_info(),
            methods: METHODS.iter().map(|method| method.name.to_owned()).collect(),
            notifications,
            event_types: types
                .into_iter()
                .map(|(name, required)| EventType { name: name.to_owned(), required, ext: None })
                .collect(),
            limits: self.limits_info(),
            prompt: false,
        };
        InitializeResult {
            protocol_version: 1,
            agent_info: AgentInfo {
                name: "sessiond".to_owned(),
                title: "sessiond".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            auth_methods: Vec::new(),
            agent_capabilities: AgentCapabilities {
                load_session: true,
                session_capabilities: SessionCapabilities::default(),
                ext: AgentExtension { sessiond: about },
            },
        }
    }

    pub(super) fn store_info(&self) -> StoreInfo {
        let store = self.storage.info();
        StoreInfo { kind: store.kind.to_owned(), root: store.location }
    }

    pub(super) fn limits_info(&self) -> LimitsInfo {
        let (limits, wire) = (&self.settings.limits, &self.settings.wire);
        LimitsInfo {
            max_message_bytes: wire.max_message_bytes as u64,
            max_event_bytes: limits.max_event_bytes as u64,
            max_depth: limits.max_depth,
            max_queued_bytes: wire.max_queued_bytes as u64,
            max_batch_events: limits.max_batch_events as u64,
            max_live_sessions: limits.max_live_sessions as u64,
            limit: wire.page_entries,
            max_bytes: wire.page_bytes,
        }
    }
}
