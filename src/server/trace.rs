//! One line of the log a request, at the level `trace`: whose it was and how long it took, nothing of what it held.

use std::time::Instant;

use tracing::level_filters::LevelFilter;

use super::pending::Caller;
use super::server::Server;
use crate::json::Json;

/// Most characters of a text of the client in the log.
const TEXT: usize = 100;

impl Server {
    /// When the line that is carried out next was begun, if anybody is to know.
    #[inline]
    pub(super) fn begin_trace(&mut self) -> Option<Instant> {
        if LevelFilter::current() < LevelFilter::TRACE {
            return None;
        }
        self.parked = false;
        Some(Instant::now())
    }

    /// Tells of a request that was carried out to its end; one that waits is told of when it no longer does. The time is
    /// that of its last run, in microseconds.
    #[cold]
    pub(super) fn trace_line(&self, line: &str, begun: Instant) {
        let Some((request, _)) = Json::parse(line).ok().filter(|_| !self.parked) else { return };
        let (Some(id), Some(method)) = (request.get("id"), request.get("method")) else { return };
        let session = request.get("params").and_then(|params| {
            params.get("sessionId").or_else(|| params.at(&["_meta", "sessiond", "sessionId"]))
        });
        let session = session.map_or_else(|| "-".to_owned(), shown);
        tell(&shown(method), &shown(id), &session, begun);
    }

    /// The same of one that has waited for the store.
    #[cold]
    pub(super) fn trace_call(&self, caller: &Caller, begun: Instant) {
        if self.parked {
            return;
        }
        let session = caller.names.iter().find(|name| !name.is_empty());
        let session = session.map_or_else(|| "-".to_owned(), |name| shown_text(name));
        tell(&shown_text(caller.method.name), &shown(Json::from_verified(&caller.id)), &session, begun);
    }
}

fn tell(method: &str, id: &str, session: &str, begun: Instant) {
    let us = begun.elapsed().as_micros();
    tracing::trace!(%method, %id, %session, us, "request");
}

fn shown_text(text: &str) -> String {
    format!("{:?}", text.chars().take(TEXT).collect::<String>())
}

/// A value as the log shows it: the beginning of a text, quoted, or a number.
fn shown(value: Json<'_>) -> String {
    match value.as_str() {
        Some(text) => shown_text(&text.lossy()),
        None => value.text().chars().take(TEXT).collect(),
    }
}
