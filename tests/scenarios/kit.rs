//! What the scenarios share: events as clients write them, a store on disk, and the command line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::dur_support::process::{Daemon, log_of, tree};

/// An event of a batch that no reader needs to know.
pub fn note(n: impl Into<Value>) -> Value {
    json!({"type": "x/note", "data": {"n": n.into()}, "ignorable": true})
}

pub fn turn_start(turn: u64) -> Value {
    json!({"type": "turn/start", "data": {"turn": turn}})
}

pub fn turn_end(turn: u64) -> Value {
    json!({"type": "turn/end", "data": {"turn": turn, "reason": {"kind": "completed"}}})
}

pub fn step_start(turn: u64, step: u64) -> Value {
    json!({"type": "step/start", "data": {"turn": turn, "step": step}})
}

pub fn step_end(turn: u64, step: u64) -> Value {
    json!({"type": "step/end", "data": {"turn": turn, "step": step}})
}

pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub fn tool_call(id: &str) -> Value {
    json!({"type": "tool-call", "id": id, "name": "read", "arguments": "{}"})
}

pub fn user(id: &str, said: &str) -> Value {
    let data = json!({"id": id, "role": "user", "content": [text(said)], "source": {"kind": "user"}});
    json!({"type": "user/message", "data": data, "surfaceOp": "append"})
}

pub fn assistant(turn: u64, step: u64, id: &str, content: &[Value]) -> Value {
    let source = json!({"kind": "model", "provider": "p", "model": "m"});
    let message = json!({"id": id, "role": "assistant", "content": content, "source": source});
    let data = json!({"turn": turn, "step": step, "message": message});
    json!({"type": "assistant/message", "data": data, "surfaceOp": "append"})
}

pub fn called(turn: u64, step: u64, call: &str) -> Value {
    let data = json!({"turn": turn, "step": step, "callId": call, "name": "read", "arguments": "{}"});
    json!({"type": "tool/call", "data": data})
}

pub fn tool_result(turn: u64, step: u64, call: &str) -> Value {
    let block = json!({"type": "tool-result", "toolCallId": call, "content": [text(call)]});
    let message = json!({"id": format!("r-{call}"), "role": "user", "content": [block],
        "source": {"kind": "tool", "callId": call}});
    json!({"type": "tool/result", "data": {"turn": turn, "step": step, "message": message}, "surfaceOp": "append"})
}

/// The same event in the place of surface nodes.
pub fn replacing(mut event: Value, start: u64, end: u64, cited: &[u64]) -> Value {
    event["surfaceOp"] = json!({"op": "replace", "start": start, "end": end});
    event["sourceEventSeqs"] = json!(cited);
    event
}

/// A whole turn: a question, one step with these calls and their results, an answer.
pub fn turn(number: u64, calls: &[&str]) -> Vec<Value> {
    let blocks: Vec<Value> = calls.iter().map(|call| tool_call(call)).collect();
    let mut events = vec![turn_start(number), user(&format!("u{number}"), "question"), step_start(number, 1)];
    events.push(assistant(number, 1, &format!("a{number}"), &blocks));
    for call in calls {
        events.extend([called(number, 1, call), tool_result(number, 1, call)]);
    }
    events.extend([step_end(number, 1), turn_end(number)]);
    events
}

/// The params of an append of that event.
pub fn to(session: &str, event: &Value) -> Value {
    let mut params = event.clone();
    params["sessionId"] = json!(session);
    params
}

/// What tests say to daemons, whatever the daemon.
pub trait Says {
    fn put(&mut self, session: &str, events: &[Value]) -> Value;
    fn new_with(&mut self, session: &str, events: &[Value]);
    fn refused(&mut self, session: &str, event: &Value) -> Value;
    fn messages(&mut self, session: &str) -> Vec<Value>;
    fn kinds(&mut self, session: &str) -> Vec<String>;
    fn rows(&mut self, params: Value) -> Vec<Value>;
    fn row(&mut self, session: &str) -> Value;
}

impl Says for Daemon {
    /// Appends events as one batch.
    fn put(&mut self, session: &str, events: &[Value]) -> Value {
        self.ok("session/append_batch", json!({"sessionId": session, "events": events}))
    }

    /// Makes a session in `/w` with these events.
    fn new_with(&mut self, session: &str, events: &[Value]) {
        self.ok("session/new", json!({"sessionId": session, "cwd": "/w"}));
        if !events.is_empty() {
            self.put(session, events);
        }
    }

    /// The error that an append of that event is refused with.
    fn refused(&mut self, session: &str, event: &Value) -> Value {
        self.call("session/append", to(session, event)).expect_err("a refusal")
    }

    /// The derived messages, all pages of them.
    fn messages(&mut self, session: &str) -> Vec<Value> {
        let (mut messages, mut since) = (Vec::new(), Value::Null);
        loop {
            let mut page = self.ok("session/messages", json!({"sessionId": session, "since": since}));
            messages.append(page["messages"].as_array_mut().unwrap());
            since = page["next"].take();
            if since.is_null() {
                assert_eq!(page["total"], messages.len());
                return messages;
            }
        }
    }

    /// The types of all events.
    fn kinds(&mut self, session: &str) -> Vec<String> {
        self.events(session).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    /// All rows of a list, page by page.
    fn rows(&mut self, mut params: Value) -> Vec<Value> {
        let mut rows = Vec::new();
        loop {
            let mut page = self.ok("session/list", params.clone());
            rows.append(page["sessions"].as_array_mut().unwrap());
            match page["nextCursor"].take() {
                Value::Null => return rows,
                cursor => params["cursor"] = cursor,
            }
        }
    }

    /// The row of that session; there is exactly one.
    fn row(&mut self, session: &str) -> Value {
        let mut rows = self.rows(json!({"includeEmpty": true}));
        rows.retain(|row| row["sessionId"] == session);
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }
}

/// A store on disk.
pub struct Store {
    dir: tempfile::TempDir,
}

impl Store {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// One with a session `s` in `/w` that holds these bytes.
    pub fn with(log: impl AsRef<[u8]>) -> Self {
        let store = Self::new();
        store.put("--w--/s/session.jsonl", log);
        store
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn daemon(&self) -> Daemon {
        Daemon::start(self.root())
    }

    pub fn daemon_with(&self, flags: &[&str]) -> Daemon {
        Daemon::with(self.root(), flags)
    }

    pub fn log(&self, session: &str) -> PathBuf {
        log_of(self.root(), session)
    }

    pub fn bytes(&self, session: &str) -> Vec<u8> {
        fs::read(self.log(session)).unwrap()
    }

    pub fn files(&self) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
        tree(self.root())
    }

    /// Runs a command on this store.
    pub fn run(&self, args: &[&str]) -> Output {
        let store = format!("jsonl:{}", self.root().display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
        command.args(args).args(["--store", &store]).stdin(Stdio::null()).output().unwrap()
    }
}

/// The first line of a log of the session `s` in `/w`.
pub fn header(id: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":0,\"id\":\"{id}\",\"createdAt\":5,\"cwd\":\"/w\",\"delegationDepth\":0}}\n"
    )
}

/// Stored lines of these events, from seq 0 on.
pub fn lines(events: &[Value]) -> Vec<String> {
    let line = |(seq, event): (usize, &Value)| {
        let mut rest = String::new();
        for key in ["sourceEventSeqs", "surfaceOp", "ignorable"] {
            if let Some(value) = event.get(key) {
                rest += &format!(",\"{key}\":{value}");
            }
        }
        format!(
            "{{\"type\":{},\"seq\":{seq},\"time\":{},\"data\":{}{rest}}}\n",
            event["type"],
            1000 + seq,
            event["data"]
        )
    };
    events.iter().enumerate().map(line).collect()
}

/// A log of `s` with these events.
pub fn log(events: &[Value]) -> Vec<u8> {
    (header("s") + &lines(events).concat()).into_bytes()
}

/// The resident memory of a process in KiB; one that is ending has none.
#[cfg(target_os = "linux")]
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let Some(line) = status.lines().find(|line| line.starts_with("VmRSS:")) else { return 0 };
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// How many descriptors a process has open.
#[cfg(target_os = "linux")]
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}
