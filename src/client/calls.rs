//! The client: a daemon's process and its methods.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use jsonrpsee::core::client::{Client as Rpc, ClientBuilder, ClientT};
use jsonrpsee::core::traits::ToRpcParams;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::error::ClientError;
use super::incoming::Incoming;
use super::notification::{NOTIFICATIONS_HELD, Notifications};
use super::outgoing::{Outgoing, Unanswered};
use crate::protocol::initialize::{InitializeResult, StatusResult};
use crate::protocol::methods;
use crate::protocol::params::*;
use crate::protocol::results::*;

/// A call waits as long as its storage does: no answer is late.
const PATIENCE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Requests that may be under way at once; later ones wait to be sent.
const UNDER_WAY: usize = 4_096;

/// A daemon of one's own and its methods (PROTOCOL 3). Calls may run side by side; the daemon takes
/// them in the order in which they were sent.
#[derive(Debug)]
pub struct Client {
    rpc: Rpc,
    /// None where others have started it.
    child: Option<Child>,
}

macro_rules! calls {
    ($($(#[doc = $doc:literal])+ fn $method:ident($params:ty) -> $result:ty
        { name: $name:literal, $($more:tt)+ })+) => {
        /// The methods of the table.
        impl Client {
            $(
                #[doc = concat!("`", $name, "`:")]
                $(#[doc = $doc])+
                pub async fn $method(&self, params: impl Into<$params>) -> Result<$result, ClientError> {
                    Ok(self.rpc.request($name, Object(params.into())).await?)
                }
            )+
        }
    };
}
methods!(calls);

/// A method's one object of params.
struct Object<P>(P);

impl<P: Serialize> ToRpcParams for Object<P> {
    fn to_rpc_params(self) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        to_raw_value(&self.0).map(Some)
    }
}

impl Client {
    /// Starts a daemon. Its stdin and stdout are the client's; what else the command says is kept. To be
    /// called within a tokio runtime. The daemon ends when the client is dropped or shut down.
    pub fn spawn(mut command: Command) -> Result<(Self, Notifications), ClientError> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let unpiped = || std::io::Error::other("the daemon has no pipes");
        let (input, output) =
            (child.stdin.take().ok_or_else(unpiped)?, child.stdout.take().ok_or_else(unpiped)?);
        let (client, notifications) = Self::connect(input, output);
        Ok((Self { child: Some(child), ..client }, notifications))
    }

    /// Speaks to a daemon that others have started: `input` leads to its stdin, `output` comes from its stdout. To be
    /// called within a tokio runtime.
    pub fn connect(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) -> (Self, Notifications) {
        let unanswered = Unanswered::default();
        let (notifications, reader) = mpsc::channel(NOTIFICATIONS_HELD);
        let incoming = Incoming {
            pipe: BufReader::with_capacity(64 << 10, Box::new(output)),
            line: Vec::new(),
            notifications,
            unanswered: unanswered.clone(),
        };
        let outgoing = Outgoing { pipe: Some(Box::new(input)), unanswered };
        let rpc = ClientBuilder::new()
            .request_timeout(PATIENCE)
            .max_concurrent_requests(UNDER_WAY)
            .build_with_tokio(outgoing, incoming);
        (Self { rpc, child: None }, Notifications(reader))
    }

    /// The process id of a daemon that was spawned, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// Ends the daemon: what it has accepted is flushed. To be called when every call is answered. The status of one that
    /// was spawned; of another only its stdin is closed.
    pub async fn shut_down(self) -> Result<Option<ExitStatus>, ClientError> {
        let Self { rpc, child } = self;
        drop(rpc); // closes its stdin
        match child {
            Some(mut child) => Ok(Some(child.wait().await?)),
            None => Ok(None),
        }
    }
}
