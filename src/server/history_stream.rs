//! Histories on their way to the client: what a `session/load` streams before its response.

use std::collections::BTreeMap;

use super::connection::Connection;
use crate::acp::{Options, Replay};
use crate::json::quote_into;
use crate::log::{Log, SessionId};
use crate::protocol::UPDATE;
use crate::store::storage::Ticket;

/// Bytes of updates made at a time; between two times the owner looks at its input.
const PORTION: usize = 1 << 20;

/// One history that is being streamed.
#[derive(Debug)]
pub(super) struct Streaming {
    pub(super) session: SessionId,
    /// The text of the request's id.
    pub(super) id: Box<str>,
    /// The load made the session live: a cancelled one takes that back.
    pub(super) opened: bool,
    /// The response and what follows it.
    pub(super) lines: String,
    log: Log,
    replay: Replay,
}

impl Streaming {
    pub(super) fn new(
        session: SessionId,
        log: Log,
        options: Options,
        (id, opened): (Box<str>, bool),
        lines: String,
    ) -> Self {
        let replay = Replay::new(&log, options);
        Self { session, id, opened, lines, log, replay }
    }

    /// Adds a portion of updates; true when the history is told whole.
    fn portion(&mut self, out: &mut String) -> bool {
        let until = out.len() + PORTION;
        while out.len() < until {
            let start = out.len();
            begin_update(out, &self.session);
            if !self.replay.next_into(&self.log, out) {
                out.truncate(start);
                return true;
            }
            out.push_str("}}\n");
        }
        false
    }
}

/// Histories in the order in which they were asked for, by the tickets that keep later requests of their sessions
/// waiting; one is streamed at a time.
#[derive(Debug, Default)]
pub(super) struct Streams(BTreeMap<Ticket, Streaming>);

impl Streams {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, ticket: Ticket, streaming: Streaming) {
        self.0.insert(ticket, streaming);
    }

    /// Streams a portion of the first history; gives it back when it is told whole.
    pub(super) fn portion(&mut self, out: &mut String) -> Option<(Ticket, Streaming)> {
        let mut first = self.0.first_entry()?;
        first.get_mut().portion(out).then(|| first.remove_entry())
    }

    /// Gives the first one up.
    pub(super) fn give_up_first(&mut self) -> Option<(Ticket, Streaming)> {
        self.0.pop_first()
    }

    /// Gives all of them up; the tickets of what waits for them.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Ticket> + use<> {
        std::mem::take(&mut self.0).into_keys()
    }

    /// Takes one back.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<Streaming> {
        self.0.remove(&ticket)
    }
}

/// Begins the line of an ACP update; the update and `}}` follow.
pub(super) fn begin_update(out: &mut String, session: &SessionId) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"");
    out.push_str(UPDATE);
    out.push_str("\",\"params\":{\"sessionId\":");
    quote_into(session.as_str(), out);
    out.push_str(",\"update\":");
}

impl Connection {
    /// What the projector is told of this client.
    pub(super) fn acp_options(&self, max_message_bytes: usize) -> Options {
        /// Room in a line for what stands around an update.
        const AROUND: usize = 4 << 10;
        let max_update_bytes = max_message_bytes.saturating_sub(AROUND).min(31 << 20);
        Options {
            compaction: self.compaction,
            notices: self.notices,
            live: self.live_updates,
            max_text_bytes: Options::default().max_text_bytes.min(max_update_bytes / 2),
            max_update_bytes,
        }
    }
}
