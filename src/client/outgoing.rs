//! Requests on their way to the daemon's stdin.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use jsonrpsee::core::client::TransportSenderT;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::json::Json;

/// The ids of requests that have no response yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Unanswered(Arc<Mutex<HashSet<u64>>>);

impl Unanswered {
    fn insert(&self, id: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// Whether a request of that id was waiting; it no longer is.
    pub(super) fn remove(&self, id: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }
}

/// The daemon's stdin.
pub(super) struct Outgoing {
    pub(super) pipe: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub(super) unanswered: Unanswered,
}

impl TransportSenderT for Outgoing {
    type Error = io::Error;

    async fn send(&mut self, message: String) -> io::Result<()> {
        let (line, id) = line_of(&message);
        if let Some(id) = id {
            self.unanswered.insert(id);
        }
        let Some(pipe) = self.pipe.as_mut() else {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "stdin is closed"));
        };
        pipe.write_all(line.as_bytes()).await?;
        pipe.flush().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.pipe = None;
        Ok(())
    }
}

/// A message as the daemon's line, and its id. A line break can only stand between tokens: it becomes a space.
fn line_of(message: &str) -> (String, Option<u64>) {
    let mut line = message.replace(['\n', '\r'], " ");
    let id = Json::parse(&line).ok().and_then(|(request, _)| request.get("id")?.as_safe_uint());
    line.push('\n');
    (line, id)
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn a_message_becomes_one_line() {
        let (line, id) = line_of("{\"id\":7,\"params\":{\"b\":\n1,\"c\":\"\\n\"},\"z\":\r\n0}");
        assert_eq!(line, "{\"id\":7,\"params\":{\"b\": 1,\"c\":\"\\n\"},\"z\":  0}\n");
        assert_eq!((id, line_of("{}").1), (Some(7), None));
    }
}
