//! `sessiond/status`: how the daemon stands, at any time.

use crate::protocol::initialize::{Index, IndexState, Queues, StatusResult};
use crate::protocol::params::StatusParams;
use crate::server::call::Answer;
use crate::server::service::Service;

use crate::protocol::PROTOCOL;

impl Service {
    pub(super) fn status(&mut self, _: StatusParams) -> Answer<StatusResult> {
        let waiting = self.call.waiting;
        let list = if self.durable_store { Index::Summaries } else { Index::Memory };
        Ok(StatusResult {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            format_version: 0,
            store: self.store_info(),
            limits: self.limits_info(),
            live_sessions: self.store.len() as u64,
            held_bytes: self.store.held_bytes() as u64,
            queues: Queues {
                jobs: waiting.jobs,
                requests: waiting.requests,
                request_bytes: waiting.bytes,
                output_bytes: self.unread.as_ref().map_or(0, |unread| unread()) as u64,
            },
            index: IndexState { list, search: Index::None },
        })
    }
}
