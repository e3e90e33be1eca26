//! Params, results and notices as types, for clients: the daemon passes events and messages through as text.
//!
//! What reads them fails where the text does not fit its type: the daemon of another version may know more.

use serde_json::Error;

use super::RawJson;
use super::params::*;
use super::results::{
    EventNotice, EventsResult, InspectResult, MessagesResult, RequestResult, SnapshotResult,
};
use super::shapes::{Event, Message, RequestHeader, SurfaceOp};
use crate::json::quote;

impl BatchEvent {
    /// An event of the log alone.
    pub fn new(kind: &str, data: impl Into<RawJson>) -> Self {
        Self { kind: RawJson::from_text(quote(kind)), data: data.into(), ..Self::default() }
    }

    /// The same, as a message that joins the surface.
    pub fn on_surface(self, op: SurfaceOp) -> Self {
        Self { surface_op: Some(op.into()), ..self }
    }
}

impl AppendParams {
    /// Appends an event to a session, whatever stands there.
    pub fn new(session_id: impl Into<String>, event: BatchEvent) -> Self {
        let BatchEvent { kind, data, surface_op, source_event_seqs, ignorable, ext } = event;
        let session_id = session_id.into();
        Self { session_id, kind, data, surface_op, source_event_seqs, ignorable, ext, ..Self::default() }
    }
}

impl AppendBatchParams {
    /// Appends events to a session, all or none, whatever stands there.
    pub fn new(session_id: impl Into<String>, events: Vec<BatchEvent>) -> Self {
        Self { session_id: session_id.into(), events, ..Self::default() }
    }
}

/// Params that name a session and may leave out the rest.
macro_rules! of_a_session {
    ($($params:ident)*) => {
        $(impl $params {
            /// Of that session, with nothing else said.
            pub fn of(session_id: impl Into<String>) -> Self {
                Self { session_id: session_id.into(), ..Self::default() }
            }
        })*
    };
}
of_a_session! {
    InterruptParams SnapshotParams ForkParams EventsParams MessagesParams ThroughParams RequestParams SessionParams
    LoadParams ResumeParams InspectParams RescueParams EndParams
}

impl EventsResult {
    /// The events of the page.
    ///
    /// # Errors
    /// An event that is none.
    pub fn read_events(&self) -> Result<Vec<Event>, Error> {
        self.events.read()
    }
}

impl InspectResult {
    /// The events of the page.
    ///
    /// # Errors
    /// An event that is none.
    pub fn read_events(&self) -> Result<Vec<Event>, Error> {
        self.events.read()
    }
}

impl SnapshotResult {
    /// The events up to the cut.
    ///
    /// # Errors
    /// An event that is none.
    pub fn read_seed(&self) -> Result<Vec<Event>, Error> {
        self.seed.read()
    }
}

impl MessagesResult {
    /// The messages of the page.
    ///
    /// # Errors
    /// A message that is none.
    pub fn read_messages(&self) -> Result<Vec<Message>, Error> {
        self.messages.read()
    }
}

impl RequestResult {
    /// The messages.
    ///
    /// # Errors
    /// A message that is none.
    pub fn read_messages(&self) -> Result<Vec<Message>, Error> {
        self.messages.read()
    }

    /// The request header; none before the first.
    ///
    /// # Errors
    /// A header that is none.
    pub fn read_header(&self) -> Result<Option<RequestHeader>, Error> {
        self.header.as_ref().map(RawJson::read).transpose()
    }
}

impl EventNotice {
    /// The event.
    ///
    /// # Errors
    /// An event that is none.
    pub fn read_event(&self) -> Result<Event, Error> {
        self.event.read()
    }
}
