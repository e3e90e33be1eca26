//! Logs made without the daemon, in the layout of its store.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use sessiond::disk::paths::NO_CWD;

/// Where the log of a session without a working directory lies.
pub fn log_path(store: &Path, session: &str) -> PathBuf {
    store.join(NO_CWD).join(session).join("session.jsonl")
}

/// Writes a log of at least `bytes` with turns like real ones, one event a line. Gives its path, bytes and events.
pub fn conversation(store: &Path, session: &str, bytes: usize) -> (PathBuf, usize, usize) {
    let mut log = Log::create(store, session, 1_700_000_000_000);
    let mut turn = 1;
    while log.bytes < bytes {
        log.turn(turn);
        turn += 1;
    }
    let (bytes, events) = (log.bytes, log.events);
    (log.finish(), bytes, events)
}

/// Writes a log with one short turn.
pub fn short(store: &Path, session: &str, created: usize) -> PathBuf {
    let mut log = Log::create(store, session, created);
    log.event("turn/start", r#"{"turn":1}"#, false);
    log.event("user/message", &crate::script::message(1), true);
    log.event("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#, false);
    log.finish()
}

struct Log {
    path: PathBuf,
    file: BufWriter<File>,
    time: usize,
    bytes: usize,
    events: usize,
}

impl Log {
    fn create(store: &Path, session: &str, created: usize) -> Self {
        let path = log_path(store, session);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = BufWriter::with_capacity(1 << 20, File::create(&path).unwrap());
        let mut log = Self { path, file, time: created, bytes: 0, events: 0 };
        log.line(&format!(
            r#"{{"type":"session","version":0,"id":"{session}","createdAt":{created},"delegationDepth":0}}"#
        ));
        log
    }

    fn line(&mut self, line: &str) {
        self.file.write_all(line.as_bytes()).unwrap();
        self.file.write_all(b"\n").unwrap();
        self.bytes += line.len() + 1;
    }

    fn event(&mut self, kind: &str, data: &str, is_surface: bool) {
        let (seq, time) = (self.events, self.time + 13 * self.events);
        let op = if is_surface { r#","surfaceOp":"append""# } else { "" };
        self.line(&format!(r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{data}{op}}}"#));
        self.events += 1;
    }

    /// Mostly deltas of text, then the messages, a call and its result.
    fn turn(&mut self, turn: usize) {
        const WORDS: [&str; 7] = [
            "alpha",
            " beta",
            " \\\"gamma\\\"",
            " δέλτα",
            " the quick brown fox jumps",
            "\\n",
            "().unwrap()",
        ];
        let text = |text: String| format!(r#"[{{"type":"text","text":"{text}"}}]"#);
        let step = format!(r#""turn":{turn},"step":1"#);
        let message = |id: &str, role: &str, content: &str, source: &str| {
            format!(r#"{{"id":"{id}{turn}","role":"{role}","content":{content},"source":{source}}}"#)
        };
        self.event("turn/start", &format!(r#"{{"turn":{turn}}}"#), false);
        let prompt = message("u", "user", &text(WORDS[4].repeat(20)), r#"{"kind":"user"}"#);
        self.event("user/message", &prompt, true);
        self.event("step/start", &format!("{{{step}}}"), false);
        for at in 0..60 {
            let delta = WORDS[at % WORDS.len()];
            let data = format!(r#"{{{step},"chunk":{{"type":"text-delta","index":0,"text":"{delta}"}}}}"#);
            self.event("assistant/chunk", &data, false);
        }
        let source = r#"{"kind":"model","provider":"p","model":"m"}"#;
        let answer = message("a", "assistant", &text(WORDS.concat().repeat(10)), source);
        self.event("assistant/message", &format!(r#"{{{step},"message":{answer}}}"#), true);
        let call = format!(r#"{{{step},"callId":"c{turn}","name":"bash","arguments":"{{}}"}}"#);
        self.event("tool/call", &call, false);
        let block = format!(
            r#"[{{"type":"tool-result","toolCallId":"c{turn}","content":{}}}]"#,
            text(WORDS.concat().repeat(30))
        );
        let result = message("r", "user", &block, &format!(r#"{{"kind":"tool","callId":"c{turn}"}}"#));
        self.event("tool/result", &format!(r#"{{{step},"message":{result}}}"#), true);
        self.event("step/end", &format!("{{{step}}}"), false);
        self.event("turn/end", &format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#), false);
    }

    fn finish(mut self) -> PathBuf {
        self.file.flush().unwrap();
        self.path
    }
}
