//! A server in this process over a file system that fails or remembers, step by step: each request is carried out
//! whole, syncs included, before the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sessiond::disk::fs::FileSystem;
use sessiond::server::{Server, Settings};
use sessiond::session::Limits;
use sessiond::stdio::{WakeFd, wait, wake_pair};
use sessiond::store::{DaemonId, JsonlOptions, JsonlStorage};
use tokio::runtime::{Builder, Runtime};

use super::process::{Answer, pages};
use super::readable;

pub struct Local {
    server: Server,
    wake: WakeFd,
    /// After the server: jobs end before their threads.
    _runtime: Arc<Runtime>,
    next: u64,
    /// A line that follows the next turn's requests.
    behind: Option<String>,
    /// Notifications, in order.
    pub notices: Vec<Value>,
}

pub fn runtime() -> Arc<Runtime> {
    Arc::new(
        Builder::new_multi_thread().worker_threads(1).max_blocking_threads(2).enable_all().build().unwrap(),
    )
}

impl Local {
    pub fn new(fs: Arc<dyn FileSystem>, runtime: &Arc<Runtime>) -> Self {
        Self::limited(fs, runtime, Limits::default())
    }

    pub fn limited(fs: Arc<dyn FileSystem>, runtime: &Arc<Runtime>, limits: Limits) -> Self {
        let settings = Settings {
            clock: "fixed:1700000000000+1".parse().unwrap(),
            ids: "sequential".parse().unwrap(),
            limits,
            ..Settings::default()
        };
        Self::with(fs, runtime, settings)
    }

    pub fn with(fs: Arc<dyn FileSystem>, runtime: &Arc<Runtime>, settings: Settings) -> Self {
        let (waker, wake) = wake_pair().unwrap();
        let options = JsonlOptions {
            root: "/store".into(),
            sync_window: Duration::ZERO,
            max_event_bytes: settings.limits.max_event_bytes,
            me: DaemonId::process(1, 0),
            fault_file: None,
        };
        let storage = JsonlStorage::over(fs, options, runtime.handle().clone(), waker.into_fn());
        let server = Server::new(settings, Box::new(storage));
        Self { server, wake, _runtime: Arc::clone(runtime), next: 1, behind: None, notices: Vec::new() }
    }

    /// Several requests in one turn; their answers in order.
    pub fn turn(&mut self, requests: &[(&str, Value)]) -> Vec<Answer> {
        let first = self.next;
        for (method, params) in requests {
            let line = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
            self.server.receive(line.to_string().as_bytes());
            self.next += 1;
        }
        if let Some(line) = self.behind.take() {
            self.server.receive(line.as_bytes());
        }
        self.server.settle();
        self.run_dry();
        let mut answers: Vec<Option<Answer>> = vec![None; requests.len()];
        for line in std::mem::take(self.server.output().unwrap()).lines() {
            let mut line = readable(line);
            let Some(id) = line["id"].as_u64() else {
                self.notices.push(line);
                continue;
            };
            let answer = match line.get("error") {
                Some(_) => Err(line["error"].take()),
                None => Ok(line["result"].take()),
            };
            let slot = &mut answers[usize::try_from(id - first).unwrap()];
            assert!(slot.replace(answer).is_none(), "answered twice: {id}");
        }
        answers.into_iter().map(|answer| answer.expect("every request is answered")).collect()
    }

    fn run_dry(&mut self) {
        let watchdog = Instant::now();
        loop {
            self.server.advance();
            if self.server.is_idle() {
                return;
            }
            if !self.server.has_more() {
                let _ = wait(None, &self.wake, None, Some(Duration::from_millis(100)));
            }
            assert!(watchdog.elapsed() < Duration::from_secs(60), "something waits for ever");
        }
    }

    pub fn call(&mut self, method: &str, params: Value) -> Answer {
        self.turn(&[(method, params)]).remove(0)
    }

    /// The same for a request that is cancelled as soon as it was sent.
    pub fn call_and_cancel(&mut self, method: &str, params: Value) -> Answer {
        let cancel =
            json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": self.next}});
        self.behind = Some(cancel.to_string());
        self.call(method, params)
    }

    pub fn ok(&mut self, method: &str, params: Value) -> Value {
        self.call(method, params.clone()).unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    pub fn events(&mut self, session: &str) -> Vec<Value> {
        pages(|from| self.ok("session/events", json!({"sessionId": session, "fromSeq": from})))
    }

    /// The events of a session that need not be live.
    pub fn inspect(&mut self, session: &str) -> Vec<Value> {
        pages(|from| self.ok("session/inspect", json!({"sessionId": session, "fromSeq": from})))
    }

    /// The end of the input; whether all that was answered is stored.
    pub fn end(mut self) -> bool {
        self.server.shut_down();
        self.run_dry();
        !self.server.is_unsaved()
    }
}
