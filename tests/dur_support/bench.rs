//! A server in this process over a store in memory whose operations fail on demand.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use sessiond::disk::fs::fault::{Effect, FaultFs, Op};
use sessiond::disk::fs::record::RecordingFs;
use tokio::runtime::Runtime;

use super::local::Local;
use super::process::Answer;
use super::{Said, append, note, said};

pub fn refusal(answer: Answer) -> Value {
    let error = answer.expect_err("a refusal");
    assert_eq!(
        (&error["code"], &error["data"]["code"]),
        (&json!(-31023), &json!("STORAGE_FAILED")),
        "{error}"
    );
    error["data"].clone()
}

/// A planned bug says nothing on stderr; another one does.
pub fn expect_bugs() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.payload().downcast_ref::<String>().is_some_and(|text| text.starts_with("a planned bug"))
            {
                usual(panic);
            }
        }));
    });
}

/// A store whose operations can fail, and a server on it.
pub struct Bench {
    pub disk: RecordingFs,
    pub faults: Arc<FaultFs>,
    pub local: Local,
    runtime: Arc<Runtime>,
}

impl Bench {
    pub fn new(runtime: &Arc<Runtime>) -> Self {
        Self::on(RecordingFs::new(), runtime)
    }

    pub fn on(disk: RecordingFs, runtime: &Arc<Runtime>) -> Self {
        let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
        let local = Local::new(faults.clone(), runtime);
        Self { disk, faults, local, runtime: Arc::clone(runtime) }
    }

    /// A session `s` in whose second event, or behind it, a process was killed within a turn.
    /// A log that ends with a torn record, and in an open turn.
    pub fn torn(runtime: &Arc<Runtime>, tail: &[u8], missing_newline: bool) -> Self {
        let mut bench = Self::new(runtime);
        bench.local.ok("session/new", json!({"sessionId": "s"}));
        bench.local.ok("session/append", append("s", &("turn/start".to_owned(), json!({"turn": 1}))));
        bench.local.ok("session/append", append("s", &note(1)));
        bench = bench.restart(true);
        let path = bench.disk.paths().into_iter().find(|path| path.ends_with("s/session.jsonl")).unwrap();
        let file = sessiond::disk::fs::FileSystem::open_append(&bench.disk, &path).unwrap();
        if missing_newline {
            file.set_len(bench.disk.content(&path).unwrap().len() as u64 - 1).unwrap();
        }
        sessiond::disk::fs::File::append(file.as_ref(), tail).unwrap();
        bench
    }

    /// A server that starts anew, the old one having ended or been killed.
    pub fn restart(self, killed: bool) -> Self {
        let Self { disk, faults, local, runtime } = self;
        faults.clear();
        if killed {
            drop(local)
        } else {
            local.end();
        }
        Self::on(disk, &runtime)
    }

    pub fn log(&self, session: &str) -> Option<Vec<u8>> {
        let paths = self.disk.paths();
        let is_log = |path: &&PathBuf| path.ends_with(format!("{session}/session.jsonl"));
        paths.iter().find(is_log).map(|path| self.disk.content(path).unwrap())
    }

    /// The events in a session's file.
    pub fn stored(&self, session: &str) -> Vec<Said> {
        let log = self.log(session).unwrap_or_default();
        let lines = std::str::from_utf8(&log).unwrap().lines().skip(1);
        lines.map(|line| said(&serde_json::from_str(line).unwrap())).collect()
    }

    pub fn fail(&self, op: Op, errno: &'static str) {
        self.faults.fail(Some(op), 0, Effect::Errno(errno));
    }

    pub fn notices_of(&mut self, method: &str) -> Vec<Value> {
        let all = std::mem::take(&mut self.local.notices);
        all.into_iter().filter(|notice| notice["method"] == method).collect()
    }
}
