//! What the durability tests share: daemon processes, a server in this process over any file system, and events.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing)]

pub mod bench;
pub mod local;
pub mod process;

use serde_json::{Value, json};

/// An event's type and data: what a client has chosen of it.
pub type Said = (String, Value);

/// The type and data of an event as it is read back.
pub fn said(event: &Value) -> Said {
    (event["type"].as_str().unwrap().to_owned(), event["data"].clone())
}

/// A note that loads everywhere.
pub fn note(text: impl Into<Value>) -> Said {
    ("x/note".to_owned(), json!({ "n": text.into() }))
}

/// The members of an append of that event.
pub fn append(session: &str, event: &Said) -> Value {
    let mut params = json!({"sessionId": session, "type": event.0, "data": event.1});
    if event.0.starts_with("x/") {
        params["ignorable"] = json!(true);
    }
    params
}

/// An entry of a batch.
pub fn entry(event: &Said) -> Value {
    let mut entry = append("", event);
    entry.as_object_mut().unwrap().remove("sessionId");
    entry
}

/// Small numbers without a pattern, the same for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A number from the environment, for longer runs.
pub fn from_env(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// Whether every line of a log is a whole JSON value.
pub fn is_whole(log: &[u8]) -> bool {
    log.ends_with(b"\n")
        && log
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .all(|line| serde_json::from_slice::<Value>(line).is_ok())
}

/// A JSON text that may hold escapes of lone surrogates, which serde_json does not take: they become `?`.
pub fn readable(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find("\\u") {
            let (before, escape) = rest.split_at(at);
            out += before;
            let digits = escape.get(2..6).unwrap_or("");
            let surrogate =
                u16::from_str_radix(digits, 16).is_ok_and(|unit| (0xd800..0xe000).contains(&unit));
            let (kept, len) = if surrogate { ("?", 6) } else { ("\\u", 2) };
            out += kept;
            rest = &escape[len..];
        }
        serde_json::from_str(&(out + rest)).unwrap()
    })
}
