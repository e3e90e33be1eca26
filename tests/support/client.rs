//! A client of the protocol without a process: lines in, lines out, over a memory store.

use sessiond::json::{Json, JsonText, quote};
use sessiond::server::{Server, Settings};
use sessiond::store::MemoryStorage;

/// A connection to a server of its own.
pub struct Client {
    server: Server,
    requests: u64,
}

impl Client {
    /// A client that has asked for no notifications.
    pub fn quiet() -> Self {
        let server = Server::new(Settings::default(), Box::new(MemoryStorage::default()));
        let mut client = Self { server, requests: 0 };
        let meta = r#"{"sessiond":{"notifications":[]}}"#;
        let params = format!(r#"{{"protocolVersion":1,"clientCapabilities":{{"_meta":{meta}}}}}"#);
        client.call("initialize", &params).unwrap();
        client
    }

    /// The result of a request, or its error, as JSON text.
    pub fn call(&mut self, method: &str, params: &str) -> Result<JsonText, JsonText> {
        self.requests += 1;
        let id = self.requests;
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        assert!(!line.contains('\n'));
        self.server.receive(line.as_bytes());
        let output = std::mem::take(self.server.output().unwrap());
        assert!(self.server.is_idle());
        let answer = output.strip_suffix('\n').unwrap();
        assert!(!answer.contains(['\n', '\u{2028}', '\u{2029}', '\u{85}']), "{answer}");
        let (answer, _) = Json::parse(answer).unwrap();
        assert_eq!(answer.get("id").unwrap().as_safe_uint(), Some(id));
        match answer.get("result") {
            Some(result) => Ok(JsonText::compact(result)),
            None => Err(JsonText::compact(answer.get("error").unwrap())),
        }
    }

    /// The events of a session, page by page.
    pub fn events(&mut self, session: &str) -> Vec<String> {
        let (mut events, mut from) = (Vec::new(), 0);
        loop {
            let params = format!(r#"{{"sessionId":{},"fromSeq":{from}}}"#, quote(session));
            let page = self.call("session/events", &params).unwrap();
            let page = page.json();
            events.extend(page.get("events").unwrap().elements().map(|event| event.text().to_owned()));
            match page.get("next") {
                Some(next) => from = next.as_safe_uint().unwrap(),
                None => return events,
            }
        }
    }

    /// The derived messages of a session, in pages of about so many bytes.
    pub fn messages(&mut self, session: &str, max_bytes: u64) -> Vec<String> {
        let mut messages = Vec::new();
        let mut since = String::new();
        loop {
            let params = format!(r#"{{"sessionId":{},"maxBytes":{max_bytes}{since}}}"#, quote(session));
            let page = self.call("session/messages", &params).unwrap();
            let page = page.json();
            assert_eq!(page.get("fromIndex").unwrap().as_safe_uint(), Some(messages.len() as u64));
            messages.extend(page.get("messages").unwrap().elements().map(|text| text.text().to_owned()));
            match page.get("next") {
                Some(next) => since = format!(",\"since\":{}", next.text()),
                None => {
                    assert_eq!(page.get("total").unwrap().as_safe_uint(), Some(messages.len() as u64));
                    return messages;
                }
            }
        }
    }
}
