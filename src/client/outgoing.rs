//! Requests on their way to the daemon's stdin.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use jsonrpsee::core::client::TransportSenderT;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;

use crate::json::{Json, Type};

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
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) pipe: Option<ChildStdin>,
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

/// A message as the daemon's line, and its id. The method table passes params as a list of one; on the
/// wire they are that one object. A line break can only stand between tokens: it becomes a space.
fn line_of(message: &str) -> (String, Option<u64>) {
    let mut line = message.replace(['\n', '\r'], " ");
    let mut id = None;
    if let Ok((request, _)) = Json::parse(message) {
        id = request.get("id").and_then(Json::as_safe_uint);
        let only = request.get("params").filter(|params| params.kind() == Type::Array).and_then(|params| {
            let mut elements = params.elements();
            elements.next().filter(|_| elements.next().is_none()).map(|only| (params, only))
        });
        if let Some((params, only)) = only {
            let start = (params.text().as_ptr() as usize).saturating_sub(message.as_ptr() as usize);
            // Line breaks are as long as what stands for them: places are the same in both.
            if let Some(head) = line.get(..start) {
                let tail = line.get(start + params.text().len()..).unwrap_or("");
                line = format!("{head}{}{tail}", only.text().replace(['\n', '\r'], " "));
            }
        }
    }
    line.push('\n');
    (line, id)
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn a_list_of_one_becomes_the_params() {
        let sent = |message: &str| line_of(message);
        let (line, id) = sent(r#"{"jsonrpc":"2.0","id":7,"method":"a","params":[{"b":[1]}]}"#);
        assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"a\",\"params\":{\"b\":[1]}}\n");
        assert_eq!(id, Some(7));
        let (line, id) = sent("{\"method\":\"a\",\"params\":[ {\"b\":\n1,\"c\":\"\\n\"} ],\"z\":\r\n0}");
        assert_eq!(line, "{\"method\":\"a\",\"params\":{\"b\": 1,\"c\":\"\\n\"},\"z\":  0}\n");
        assert_eq!(id, None);
        assert_eq!(sent(r#"{"params":{"a":1}}"#).0, "{\"params\":{\"a\":1}}\n");
        assert_eq!(sent(r#"{"params":[1,2]}"#).0, "{\"params\":[1,2]}\n");
    }
}
