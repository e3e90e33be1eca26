//! Sessions of a given size in a server in this process, and requests whose work is counted.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing)]

pub mod crowd;
pub mod probes;

use std::collections::BTreeMap;

use sessiond::server::{Server, Settings};
use sessiond::session::Limits;
use sessiond::store::MemoryStorage;

/// Counts what a request costs.
pub trait Meter {
    fn count(&mut self, name: &str, run: &mut dyn FnMut());
}

/// Sessions take more room than events.
const MOST_SESSIONS: u64 = 100_000;

pub struct Bench {
    server: Server,
    id: u64,
    /// The length of each log.
    pub next: BTreeMap<String, u64>,
    /// So many events, sessions or members.
    pub size: u64,
}

fn note() -> &'static str {
    r#"{"type":"x/note","data":{"n":1},"ignorable":true}"#
}

pub fn message(seq: u64) -> String {
    format!(
        r#"{{"type":"user/message","data":{{"id":"m{seq}","role":"user","content":[{{"type":"text","text":"hello"}}],"source":{{"kind":"user"}}}},"surfaceOp":"append"}}"#
    )
}

fn calling(id: &str, seq: u64) -> String {
    format!(
        r#"{{"type":"assistant/message","data":{{"turn":1,"step":1,"message":{{"id":"a{seq}","role":"assistant","content":[{{"type":"tool-call","id":"{id}","name":"n","arguments":"{{}}"}}],"source":{{"kind":"model","provider":"p","model":"m"}}}}}},"surfaceOp":"append"}}"#
    )
}

pub fn result(id: &str, text: &str, op: &str) -> String {
    format!(
        r#"{{"type":"tool/result","data":{{"turn":1,"step":1,"message":{{"id":"r{id}","role":"user","source":{{"kind":"tool","callId":"{id}"}},"content":[{{"type":"tool-result","toolCallId":"{id}","content":[{{"type":"text","text":"{text}"}}]}}]}}}},{op}}}"#
    )
}

impl Bench {
    pub fn new(size: u64) -> Self {
        let settings = Settings {
            clock: "fixed:1700000000000+1".parse().unwrap(),
            // Counted ids are counted on behind those of a log that becomes live, which reads it.
            ids: "random".parse().unwrap(),
            limits: Limits { max_live_sessions: 2_000_000, ..Limits::default() },
            ..Settings::default()
        };
        let server = Server::new(settings, Box::new(MemoryStorage::default()));
        Self { server, id: 0, next: BTreeMap::new(), size }
    }

    pub fn line(&mut self, method: &str, params: &str) -> String {
        self.id += 1;
        format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{params}}}"#, self.id)
    }

    /// Carries a line out, and gives what came back.
    pub fn carry_out(&mut self, line: &str) -> String {
        self.server.receive(line.as_bytes());
        self.server.settle();
        while self.server.has_more() || !self.server.is_idle() {
            self.server.advance();
        }
        std::mem::take(self.server.output().unwrap())
    }

    pub fn ask(&mut self, method: &str, params: &str) -> String {
        let line = self.line(method, params);
        let said = self.carry_out(&line);
        assert!(!said.contains("\"error\":"), "{method} {}: {said}", &params[..params.len().min(300)]);
        said
    }

    pub fn open(&mut self, session: &str) {
        self.ask("session/new", &format!(r#"{{"sessionId":"{session}","invariants":"off"}}"#));
        self.next.insert(session.to_owned(), 0);
    }

    /// Appends events, each made from its seq.
    pub fn fill(&mut self, session: &str, count: u64, event: impl Fn(u64) -> String) {
        let mut done = 0;
        while done < count {
            let some = (count - done).min(1_000);
            let from = self.next[session];
            let events: Vec<String> = (from..from + some).map(&event).collect();
            let params = format!(r#"{{"sessionId":"{session}","events":[{}]}}"#, events.join(","));
            self.ask("session/append_batch", &params);
            *self.next.get_mut(session).unwrap() += some;
            done += some;
        }
    }

    /// A number of a session's `session/info`.
    pub fn info(&mut self, session: &str, member: &str) -> u64 {
        let said = self.ask("session/info", &format!(r#"{{"sessionId":"{session}"}}"#));
        let (_, rest) = said.split_once(&format!("\"{member}\":")).unwrap();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    }

    /// The sessions that the probes ask.
    pub fn set_up(&mut self) {
        let size = self.size;
        self.open("log");
        self.fill("log", size, message);
        self.open("few");
        self.fill("few", 3, message);
        self.fill("few", 1, |_| r#"{"type":"x/y","data":{},"ignorable":true}"#.to_owned());
        self.fill("few", size, |_| note().to_owned());
        self.open("turn");
        self.fill("turn", 1, |_| r#"{"type":"turn/start","data":{"turn":1}}"#.to_owned());
        self.fill("turn", size, |_| note().to_owned());
        let step = |seq| match seq {
            0 => r#"{"type":"turn/start","data":{"turn":1}}"#.to_owned(),
            _ => r#"{"type":"step/start","data":{"turn":1,"step":1}}"#.to_owned(),
        };
        self.open("calls");
        self.fill("calls", 2, step);
        self.fill("calls", size, |seq| calling(&format!("c{seq}"), seq));
        self.open("odd");
        self.fill("odd", 2, step);
        self.fill("odd", size, |seq| calling(if seq % 2 == 0 { "same" } else { "" }, seq));
        self.open("results");
        self.fill("results", 2, step);
        self.fill("results", size, |seq| match seq % 2 {
            0 => calling(&format!("c{seq}"), seq),
            _ => result(&format!("c{}", seq - 1), "done", r#""surfaceOp":"append""#),
        });
        self.open("replaced");
        self.fill("replaced", 1, message);
        self.fill("replaced", size, |seq| {
            let op = format!(
                r#""surfaceOp":{{"op":"replace","start":{0},"end":{0}}},"sourceEventSeqs":[{0}]"#,
                seq - 1
            );
            message(seq).replace(r#""surfaceOp":"append""#, &op)
        });
        for n in 0..size.min(MOST_SESSIONS) {
            self.ask("session/new", &format!(r#"{{"sessionId":"s{n}","invariants":"off"}}"#));
            let params = format!(r#"{{"sessionId":"s{n}",{}"#, &note()[1..]);
            self.ask("session/append", &params);
            if n % 2 == 1 {
                self.ask("session/close", &format!(r#"{{"sessionId":"s{n}"}}"#));
            }
        }
    }
}
