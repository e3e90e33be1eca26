//! The client: a daemon's process and its methods.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use jsonrpsee::core::client::{Client as Rpc, ClientBuilder};
use tokio::io::BufReader;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::error::ClientError;
use super::incoming::Incoming;
use super::notification::{NOTIFICATIONS_HELD, Notifications, wishes};
use super::outgoing::{Outgoing, Unanswered};
use crate::protocol::initialize::{InitializeResult, StatusResult};
use crate::protocol::params::*;
use crate::protocol::results::*;
use crate::protocol::{RawJson, SessionApiClient};

/// A call waits as long as its storage does: no answer is late.
const PATIENCE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Requests that may be under way at once; later ones wait to be sent.
const UNDER_WAY: usize = 4_096;

/// A daemon of one's own and its methods (PROTOCOL 3). Calls may run side by side; the daemon takes
/// them in the order in which they were sent.
#[derive(Debug)]
pub struct Client {
    rpc: Rpc,
    child: Child,
}

/// A method of the table as one of the client: its result in the native dialect.
macro_rules! call {
    ($(#[doc = $doc:literal])* $name:ident($params:ty) -> $result:ty) => {
        $(#[doc = $doc])*
        pub async fn $name(&self, params: $params) -> Result<$result, ClientError> {
            Ok(SessionApiClient::$name(&self.rpc, params).await?)
        }
    };
    ($(#[doc = $doc:literal])* face $name:ident($params:ty) -> $result:ty) => {
        $(#[doc = $doc])*
        pub async fn $name(&self, params: $params) -> Result<$result, ClientError> {
            match SessionApiClient::$name(&self.rpc, params).await? {
                Face::Native(result) | Face::Acp(_, Some(result)) => Ok(result),
                Face::Acp(_, None) => Err(ClientError::Misfit("no native members".to_owned())),
            }
        }
    };
}

impl Client {
    /// Starts a daemon. Its stdin and stdout are the client's; what else the command says is kept. To be
    /// called within a tokio runtime. The daemon ends when the client is dropped or shut down.
    pub fn spawn(mut command: Command) -> Result<(Self, Notifications), ClientError> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let unpiped = || std::io::Error::other("the daemon has no pipes");
        let (input, output) =
            (child.stdin.take().ok_or_else(unpiped)?, child.stdout.take().ok_or_else(unpiped)?);
        let unanswered = Unanswered::default();
        let (notifications, reader) = mpsc::channel(NOTIFICATIONS_HELD);
        let incoming = Incoming {
            pipe: BufReader::with_capacity(64 << 10, output),
            line: Vec::new(),
            notifications,
            unanswered: unanswered.clone(),
        };
        let outgoing = Outgoing { pipe: Some(input), unanswered };
        let rpc = ClientBuilder::new()
            .request_timeout(PATIENCE)
            .max_concurrent_requests(UNDER_WAY)
            .build_with_tokio(outgoing, incoming);
        Ok((Self { rpc, child }, Notifications(reader)))
    }

    /// The handshake, asking for these notifications only (PROTOCOL 2). Without a handshake all come.
    pub async fn initialize(&self, notifications: &[&str]) -> Result<InitializeResult, ClientError> {
        let own = wishes(notifications);
        let params = InitializeParams {
            protocol_version: RawJson::from_text("1".to_owned()),
            client_capabilities: Some(RawJson::from_text(format!("{{\"_meta\":{own}}}"))),
            ..InitializeParams::default()
        };
        Ok(SessionApiClient::initialize(&self.rpc, params).await?)
    }

    call! {
        /// `session/new`: makes a session.
        face new_session(NewParams) -> Opened
    }
    call! {
        /// `session/append`: appends one event.
        append(AppendParams) -> Appended
    }
    call! {
        /// `session/append_batch`: appends events, all or none.
        append_batch(AppendBatchParams) -> AppendedBatch
    }
    call! {
        /// `session/interrupt`: closes an open turn.
        interrupt(InterruptParams) -> Interrupted
    }
    call! {
        /// `session/snapshot`: a stable prefix as a seed.
        snapshot(SnapshotParams) -> SnapshotResult
    }
    call! {
        /// `session/fork`: a child from a stable prefix.
        face fork(ForkParams) -> Forked
    }
    call! {
        /// `session/events`: a page of events.
        events(EventsParams) -> EventsResult
    }
    call! {
        /// `session/messages`: a page of derived messages.
        messages(MessagesParams) -> MessagesResult
    }
    call! {
        /// `session/surface`: the surface's nodes.
        surface(ThroughParams) -> SurfaceResult
    }
    call! {
        /// `session/request`: the model request as the log reconstructs it.
        model_request(RequestParams) -> RequestResult
    }
    call! {
        /// `session/info`: a live session's state.
        info(SessionParams) -> InfoResult
    }
    call! {
        /// `session/list`: a page of sessions.
        face list(ListParams) -> ListResult
    }
    call! {
        /// `session/load`: opens a stored session. With `replay: updates` its history comes before the
        /// answer, as notifications: read them meanwhile.
        face load(LoadParams) -> Opened
    }
    call! {
        /// `session/resume`: opens a stored session.
        face resume(ResumeParams) -> Opened
    }
    call! {
        /// `session/inspect`: a session as it lies in storage.
        inspect(InspectParams) -> InspectResult
    }
    call! {
        /// `sessiond/status`: how the daemon stands.
        status(StatusParams) -> StatusResult
    }
    call! {
        /// `session/flush`: waits until all committed events are durable.
        flush(SessionParams) -> FlushResult
    }
    call! {
        /// `session/rescue`: stores a live session anew whose file another program changed or removed.
        rescue(RescueParams) -> Opened
    }
    call! {
        /// `session/close`: ends a session's life here.
        face close(EndParams) -> EmptyResult
    }
    call! {
        /// `session/delete`: removes a session.
        face delete(EndParams) -> EmptyResult
    }

    /// The daemon's process id, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends the daemon: what it has accepted is flushed. To be called when every call is answered.
    pub async fn shut_down(self) -> Result<ExitStatus, ClientError> {
        let Self { rpc, mut child } = self;
        drop(rpc); // closes its stdin
        Ok(child.wait().await?)
    }
}
