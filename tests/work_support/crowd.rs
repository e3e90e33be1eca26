//! Many sessions whose requests wait for a slow store, all at once: what each of them costs must not follow how many
//! others wait or are live.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sessiond::log::{Offset, Seq, SessionId};
use sessiond::server::{Server, Settings};
use sessiond::session::{Limits, Outgoing};
use sessiond::store::MemoryStorage;
use sessiond::store::storage::{Append, Event, Lease, Request, Storage, StoreInfo, Ticket};

use super::Meter;
use crate::storage_support::{Differs, Double};

/// A store that promises what it keeps. Its jobs wait until they are let go.
#[derive(Default)]
struct Slow {
    waiting: VecDeque<(Ticket, Request)>,
    open: Arc<AtomicUsize>,
    events: VecDeque<Event>,
    length: Arc<Mutex<BTreeMap<SessionId, Seq>>>,
}

impl Differs for Slow {
    fn info(&self, _: &MemoryStorage) -> StoreInfo {
        StoreInfo { kind: "jsonl", location: Some("nowhere".to_owned()), durable: true, shared: false }
    }

    fn start(&mut self, _: &mut MemoryStorage, ticket: Ticket, request: Request) {
        self.waiting.push_back((ticket, request));
    }

    fn poll(&mut self, inner: &mut MemoryStorage) -> Option<Event> {
        if self.open.load(Ordering::Relaxed) > 0
            && let Some((ticket, request)) = self.waiting.pop_front()
        {
            self.open.fetch_sub(1, Ordering::Relaxed);
            let durable = match &request {
                Request::Create { id, publication, .. } => {
                    let through = publication.log.len().last();
                    self.length.lock().unwrap().extend(through.map(|through| (id.clone(), through)));
                    through.map(|through| (id, through))
                }
                Request::Sync { id, .. } => {
                    let length = self.length.lock().unwrap();
                    length.get(id).map(|through| (id, *through))
                }
                _ => None,
            };
            let event = |(id, through): (&SessionId, Seq)| Event::Durable { session: id.clone(), through };
            self.events.extend(durable.map(event));
            inner.start(ticket, request);
        }
        self.events.pop_front().or_else(|| inner.poll())
    }

    fn append(
        &mut self,
        _: &mut MemoryStorage,
        lease: Lease<'_>,
        _: &mut Outgoing<'_>,
        _: Offset,
        to: Offset,
    ) -> Append {
        if let Some(seq) = to.last() {
            self.length.lock().unwrap().insert(lease.session.clone(), seq);
        }
        Append::Written
    }

    fn has_events(&mut self, inner: &mut MemoryStorage) -> bool {
        let goes_on = self.open.load(Ordering::Relaxed) > 0 && !self.waiting.is_empty();
        goes_on || inner.has_events() || !self.events.is_empty()
    }
}

/// So many sessions in a server over such a store.
pub struct Crowd {
    server: Server,
    open: Arc<AtomicUsize>,
    size: u64,
    id: u64,
}

/// How jobs are let go.
#[derive(Clone, Copy)]
enum Pace {
    OneByOne,
    AllAtOnce,
}

impl Crowd {
    pub fn new(size: u64) -> Self {
        let settings = Settings {
            clock: "fixed:1700000000000+1".parse().unwrap(),
            limits: Limits { max_live_sessions: 2_000_000, ..Limits::default() },
            ..Settings::default()
        };
        let slow = Slow::default();
        let open = Arc::clone(&slow.open);
        Self { server: Server::new(settings, Box::new(Double::new(slow))), open, size, id: 0 }
    }

    fn lines(&mut self, requests: &[(&str, &str)]) -> Vec<String> {
        let mut lines = Vec::new();
        for (method, params) in requests {
            for n in 0..self.size {
                self.id += 1;
                let params = params.replace('$', &n.to_string());
                let id = self.id;
                lines.push(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
            }
        }
        lines
    }

    fn settle(&mut self) -> String {
        let mut said = String::new();
        loop {
            self.server.advance();
            said += &std::mem::take(self.server.output().unwrap());
            if !self.server.has_more() {
                return said;
            }
        }
    }

    /// Carries lines out with all of them in flight before any job is done; gives what came back.
    fn carry_out(&mut self, lines: &[String], pace: Pace) -> String {
        for line in lines {
            self.server.receive(line.as_bytes());
        }
        let mut said = self.settle();
        while !self.server.is_idle() {
            let jobs = match pace {
                Pace::OneByOne => 1,
                Pace::AllAtOnce => usize::MAX,
            };
            self.open.store(jobs, Ordering::Relaxed);
            said += &self.settle();
            self.open.store(0, Ordering::Relaxed);
        }
        said
    }

    /// Every session makes these requests, all sessions the first before any makes the second; each is answered, and
    /// so many of each session's are refused.
    fn probe(
        &mut self,
        meter: &mut dyn Meter,
        (name, refused): (&str, u64),
        requests: &[(&str, &str)],
        pace: Pace,
    ) {
        let first = self.id + 1;
        let lines = self.lines(requests);
        let mut said = String::new();
        meter.count(name, &mut || said = self.carry_out(&lines, pace));
        let (mut answered, mut errors) = (Vec::new(), 0);
        for line in said.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            answered.extend(line["id"].as_u64());
            errors += u64::from(line.get("error").is_some());
        }
        answered.sort_unstable();
        let asked: Vec<u64> = (first..=self.id).collect();
        assert!(answered == asked, "{name}: each request is answered once");
        assert_eq!(errors, refused * self.size, "{name}");
    }

    pub fn ask_everything(&mut self, meter: &mut dyn Meter) {
        use Pace::{AllAtOnce, OneByOne};
        const ONE: &str = r#"{"sessionId":"s$"}"#;
        const NOTE: &str = r#"{"sessionId":"s$","type":"x/note","data":{"n":1},"ignorable":true}"#;
        const DURABLE: &str =
            r#"{"sessionId":"s$","type":"x/note","data":1,"ignorable":true,"durable":true}"#;
        let (new, load, flush) = (("session/new", ONE), ("session/load", ONE), ("session/flush", ONE));
        let (append, durable) = (("session/append", NOTE), ("session/append", DURABLE));
        let (close, list) = (("session/close", ONE), ("session/list", r#"{"limit":1}"#));
        self.probe(meter, ("new, each in flight", 0), &[new], OneByOne);
        self.probe(meter, ("list, each beside empty sessions", 0), &[list], OneByOne);
        self.probe(meter, ("first append, each in flight", 0), &[append], OneByOne);
        self.probe(meter, ("append, each in flight", 0), &[append], OneByOne);
        self.probe(meter, ("durable append, each in flight", 0), &[durable], OneByOne);
        self.probe(meter, ("flush, each in flight", 0), &[append, flush], OneByOne);
        self.probe(meter, ("close, each with what comes behind it", 1), &[close, append], OneByOne);
        self.probe(meter, ("load, each with what comes behind it", 0), &[load, append, append], OneByOne);
        self.probe(meter, ("list, each in flight", 0), &[list], OneByOne);
        let all = [append, durable, flush, close, load, append, close];
        self.probe(meter, ("life, each beside the others", 0), &all, AllAtOnce);
        let params = r#"{"sessionId":"t$"}"#;
        let (new, first) = (("session/new", params), NOTE.replace("s$", "t$"));
        self.probe(
            meter,
            ("new and first append, each in flight", 0),
            &[new, ("session/append", &first)],
            AllAtOnce,
        );
        self.cancels(meter);
        self.end(meter);
    }

    /// Loads with what comes behind them, all cancelled, the last first.
    fn cancels(&mut self, meter: &mut dyn Meter) {
        const REPLAY: &str = r#"{"sessionId":"s$","replay":"updates"}"#;
        let behind = self.lines(&[("session/load", REPLAY), ("session/info", r#"{"sessionId":"s$"}"#)]);
        let (until, first) = (self.id, self.id + 1 - behind.len() as u64);
        let cancel =
            |id| format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#);
        let cancels: Vec<String> = (first..=until).rev().map(cancel).collect();
        let mut said = String::new();
        meter.count("cancel, each of what waits", &mut || {
            said = self.carry_out(&[&behind[..], &cancels[..]].concat(), Pace::OneByOne);
        });
        assert_eq!(
            said.matches("REQUEST_CANCELLED").count(),
            behind.len(),
            "{}",
            &said[..said.len().min(400)]
        );
        // Histories that are being told: each but the one whose turn it is.
        let loads = self.lines(&[("session/load", REPLAY)]);
        let first = self.id + 1 - loads.len() as u64;
        for line in &loads {
            self.server.receive(line.as_bytes());
        }
        self.open.store(usize::MAX, Ordering::Relaxed);
        self.server.settle();
        let cancels: Vec<String> = (first..=self.id).rev().map(cancel).collect();
        meter.count("cancel, each of the histories", &mut || said = self.carry_out(&cancels, Pace::OneByOne));
        assert_eq!(said.matches("REQUEST_CANCELLED").count(), loads.len());
    }

    /// The end of the daemon with all of them live.
    fn end(&mut self, meter: &mut dyn Meter) {
        let opened = self.lines(&[("session/new", r#"{"sessionId":"u$"}"#)]);
        self.carry_out(&opened, Pace::AllAtOnce);
        meter.count("end, each live session", &mut || {
            self.server.shut_down();
            self.carry_out(&[], Pace::OneByOne);
        });
    }
}
