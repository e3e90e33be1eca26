//! What a plain reader of a session keeps: its surface as a list, and its messages as a client that polls has them.

use serde_json::Value;

use super::bench::{Bench, Seen, messages};

/// The surface as a plain list, read from the events as any JSON reader would.
#[derive(Clone, Default)]
pub struct Plain {
    events: Vec<Value>,
    nodes: Vec<usize>,
    generation: u64,
}

impl Plain {
    pub fn push(&mut self, line: &str) {
        let event: Value = serde_json::from_str(line).unwrap();
        let seq = self.events.len();
        assert_eq!(event["seq"], seq);
        match &event["surfaceOp"] {
            Value::Null => {}
            Value::String(_) => self.nodes.push(seq),
            op => {
                let index = |name: &str| self.nodes.iter().position(|node| op[name] == *node).unwrap();
                let (first, last) = (index("start"), index("end"));
                self.nodes.splice(first..=last, [seq]);
                self.generation += 1;
            }
        }
        self.events.push(event);
    }

    pub fn messages(&self) -> Vec<&Value> {
        let message = |node: &usize| {
            let event = &self.events[*node];
            let message =
                if event["type"] == "user/message" { &event["data"] } else { &event["data"]["message"] };
            let empty =
                event["type"] == "assistant/message" && message["content"] == Value::Array(Vec::new());
            (!empty).then_some(message)
        };
        self.nodes.iter().filter_map(message).collect()
    }

    pub fn assert_is(&self, seen: &Seen) {
        assert_eq!(seen.nodes.iter().map(|node| *node as usize).collect::<Vec<_>>(), self.nodes);
        assert_eq!(seen.generation, self.generation);
        let messages: Vec<Value> =
            seen.messages.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        assert_eq!(messages.iter().collect::<Vec<_>>(), self.messages());
    }
}

/// A client that keeps the messages with `since` (PROTOCOL 3, Reads).
#[derive(Default)]
pub struct Client {
    generation: u64,
    pub messages: Vec<String>,
}

impl Client {
    pub fn poll(&mut self, bench: &Bench, id: &str) {
        let session = bench.session(id);
        let (log, view) = (session.history().log(), session.view());
        let generation = view.surface.replace_generation();
        let from = if generation == self.generation { self.messages.len() } else { 0 };
        self.messages.truncate(from);
        self.messages.extend(messages(log, view, from));
        self.generation = generation;
    }
}
