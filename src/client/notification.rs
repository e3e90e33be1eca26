//! What the daemon says without being asked.

use tokio::sync::mpsc;

use crate::json::Json;
use crate::protocol::RawJson;
use crate::protocol::results::{DisposedNotice, DurableNotice, EventNotice, Opened, UpdateNotice};

/// So many notifications are held for a reader; then the daemon's output is no longer read.
pub const NOTIFICATIONS_HELD: usize = 1_024;

/// What the daemon says without being asked (PROTOCOL 4).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notification {
    /// A session became live.
    Created(Box<Opened>),
    /// An event was committed.
    Event(EventNotice),
    /// The durable watermark moved.
    Durable(DurableNotice),
    /// A session stopped being live.
    Disposed(DisposedNotice),
    /// ACP's view of a history that a load replays, or of what was appended.
    Update(UpdateNotice),
    /// One that this client does not know.
    Other {
        /// Its method.
        method: String,
        /// Its params.
        params: RawJson,
    },
}

impl Notification {
    /// Reads one; `line` has a `method` and no `id`.
    pub(super) fn read(method: &str, params: Json<'_>) -> Self {
        let text = params.text();
        let known = match method {
            "session/created" => serde_json::from_str(text).map(Box::new).map(Self::Created),
            "session/event" => serde_json::from_str(text).map(Self::Event),
            "session/durable" => serde_json::from_str(text).map(Self::Durable),
            "session/disposed" => serde_json::from_str(text).map(Self::Disposed),
            "session/update" => serde_json::from_str(text).map(Self::Update),
            _ => return Self::other(method, text),
        };
        known.unwrap_or_else(|_| Self::other(method, text))
    }

    fn other(method: &str, params: &str) -> Self {
        Self::Other { method: method.to_owned(), params: RawJson::from_text(params.to_owned()) }
    }

    /// The session that it is about.
    pub fn session_id(&self) -> Option<&str> {
        match self {
            Self::Created(opened) => Some(&opened.session_id),
            Self::Event(notice) => Some(&notice.session_id),
            Self::Durable(notice) => Some(&notice.session_id),
            Self::Disposed(notice) => Some(&notice.session_id),
            Self::Update(notice) => Some(&notice.session_id),
            Self::Other { .. } => None,
        }
    }
}

/// The notifications in the order in which they came.
#[derive(Debug)]
pub struct Notifications(pub(super) mpsc::Receiver<Notification>);

impl Notifications {
    /// The next one; none once the daemon has ended and all were given. While nobody asks, up to
    /// [`NOTIFICATIONS_HELD`] are held, and then the daemon waits.
    pub async fn next(&mut self) -> Option<Notification> {
        self.0.recv().await
    }

    /// The next one if it is here already.
    pub fn try_next(&mut self) -> Option<Notification> {
        self.0.try_recv().ok()
    }
}
