//! Lines from the daemon's stdout: responses for the caller, notifications for who reads them.

use std::io;

use jsonrpsee::core::client::{ReceivedMessage, TransportReceiverT};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::mpsc;

use super::notification::Notification;
use super::outgoing::Unanswered;
use crate::json::Json;

/// The daemon's stdout.
pub(super) struct Incoming {
    pub(super) pipe: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    pub(super) line: Vec<u8>,
    pub(super) notifications: mpsc::Sender<Notification>,
    pub(super) unanswered: Unanswered,
}

/// What a line is.
enum Line {
    Response(u64),
    Notification(Box<Notification>),
    /// Nothing that this client waits for.
    Stray,
}

impl TransportReceiverT for Incoming {
    type Error = io::Error;

    /// The next response to a request of ours. Anything else would end the connection there.
    async fn receive(&mut self) -> io::Result<ReceivedMessage> {
        loop {
            self.line.clear();
            self.line.shrink_to(1 << 20);
            if self.pipe.read_until(b'\n', &mut self.line).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its output has ended"));
            }
            let Ok(text) = std::str::from_utf8(&self.line) else {
                tracing::warn!("the daemon wrote a line that is not UTF-8");
                continue;
            };
            let text = text.trim_end();
            match read(text) {
                // Waits while the reader's line is full; if nobody reads any more, it is forgotten.
                Line::Notification(notification) => drop(self.notifications.send(*notification).await),
                Line::Response(id) if self.unanswered.remove(id) => {
                    return Ok(ReceivedMessage::Text(text.to_owned()));
                }
                Line::Response(_) | Line::Stray if text.is_empty() => {}
                Line::Response(_) | Line::Stray => {
                    tracing::warn!("the daemon wrote a line that answers no request");
                }
            }
        }
    }
}

fn read(text: &str) -> Line {
    let Ok((message, _)) = Json::parse(text) else { return Line::Stray };
    match (message.get("id"), message.get("method").and_then(Json::as_str)) {
        (None, Some(method)) => {
            let params = message.get("params").unwrap_or(Json::NULL);
            Line::Notification(Box::new(Notification::read(&method.lossy(), params)))
        }
        (Some(id), None) => id.as_safe_uint().map_or(Line::Stray, Line::Response),
        _ => Line::Stray,
    }
}
