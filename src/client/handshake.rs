//! What a client asks of its daemon before anything else.

use crate::protocol::initialize::{ClientCapabilities, ClientExtension, ClientWishes, EventType};
use crate::protocol::params::InitializeParams;
use crate::protocol::{Dialect, Notice, RawJson};

/// What a client asks of its daemon with [`Client::initialize`](super::Client::initialize), in the native dialect; by
/// default all notifications, and no more. Without a handshake it is the same.
#[derive(Clone, Debug, Default)]
pub struct Handshake(ClientWishes);

impl Handshake {
    /// Only these notifications; `session/update` needs no asking for.
    pub fn notifications(mut self, wanted: impl IntoIterator<Item = Notice>) -> Self {
        let names = wanted.into_iter().map(|notice| notice.method().to_owned());
        self.0.notifications = Some(names.collect());
        self
    }

    /// A `session/update` for appended messages, too.
    pub fn live_updates(mut self) -> Self {
        self.0.live_updates = Some(true);
        self
    }

    /// One more event type of the client's own: log-only. Logs that hold a `required` one load only where it is declared.
    pub fn event_type(mut self, name: impl Into<String>, required: bool) -> Self {
        let declared = EventType { name: name.into(), required, ext: None };
        self.0.event_types.get_or_insert_default().push(declared);
        self
    }
}

impl From<Handshake> for InitializeParams {
    fn from(Handshake(wishes): Handshake) -> Self {
        let wishes = ClientWishes { dialect: Some(Dialect::Native), ..wishes };
        let ext = Some(ClientExtension { sessiond: Some(wishes) });
        let capabilities = ClientCapabilities { ext, ..ClientCapabilities::default() };
        Self {
            protocol_version: RawJson::from_text("1".to_owned()),
            client_capabilities: serde_json::to_string(&capabilities).ok().map(RawJson::from_text),
            ..Self::default()
        }
    }
}
