//! A store with one session, the commands `verify` and `repair` on it, and what a daemon says of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

pub fn header(id: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":0,\"id\":\"{id}\",\"createdAt\":5,\"cwd\":\"/w\",\"delegationDepth\":0}}\n"
    )
}

/// `count` events in turns of three; each turn has its number in a message.
pub fn rows(count: usize) -> Vec<String> {
    let row = |seq: usize| {
        let turn = seq / 3 + 1;
        let (kind, data, more) = match seq % 3 {
            0 => ("turn/start", format!("{{\"turn\":{turn}}}"), ""),
            1 => {
                let text = format!("[{{\"type\":\"text\",\"text\":\"turn {turn}\"}}]");
                let data = format!(
                    "{{\"id\":\"m{seq}\",\"role\":\"user\",\"content\":{text},\"source\":{{\"kind\":\"user\"}}}}"
                );
                ("user/message", data, ",\"surfaceOp\":\"append\"")
            }
            _ => ("turn/end", format!("{{\"turn\":{turn},\"reason\":{{\"kind\":\"completed\"}}}}"), ""),
        };
        format!("{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":{},\"data\":{data}{more}}}\n", 1000 + seq)
    };
    (0..count).map(row).collect()
}

/// A store with one session `s`.
pub struct Store {
    pub dir: tempfile::TempDir,
}

impl Store {
    pub fn with(log: &[u8]) -> Self {
        let store = Self { dir: tempfile::tempdir().unwrap() };
        store.put("--w--/s/session.jsonl", log);
        store
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.path().join("--w--/s").join(name)).unwrap()
    }

    pub fn log(&self) -> String {
        String::from_utf8(self.read("session.jsonl")).unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("--w--/s")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn spec(&self) -> String {
        format!("jsonl:{}", self.dir.path().display())
    }

    pub fn verify(&self) -> (i32, Vec<Value>, Value) {
        let before = tree(self.dir.path());
        let output = run(&["verify", "--json", "--store", &self.spec()]);
        assert_eq!(tree(self.dir.path()), before, "verify wrote");
        parse(&output)
    }

    pub fn repair(&self, more: &[&str]) -> (i32, String) {
        let store = self.spec();
        let output = run(&[&["repair", "s", "--store", store.as_str()], more].concat());
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    }

    /// What a daemon answers to a load, and the events that it has then.
    pub fn load(&self) -> Result<Vec<Value>, Value> {
        load(self.dir.path(), "s")
    }
}

pub fn sessiond(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    command.args(args).env_remove("SESSIOND_STORE");
    command
}

pub fn run(args: &[&str]) -> Output {
    sessiond(args).output().unwrap()
}

pub fn parse(output: &Output) -> (i32, Vec<Value>, Value) {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().expect("a summary")["summary"].clone();
    assert!(output.stderr.is_empty(), "nothing is shown where stderr is no terminal");
    (output.status.code().unwrap(), lines, summary)
}

pub fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
    }
    found
}

pub fn daemon(root: &Path) -> Child {
    let store = format!("jsonl:{}", root.display());
    let mut command = sessiond(&["serve", "--store", &store]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// A daemon's answers to requests for one session.
pub fn ask(root: &Path, id: &str, methods: &[&str]) -> Vec<Value> {
    let params = json!({ "sessionId": id });
    let requests: Vec<_> = methods.iter().map(|method| (*method, params.clone())).collect();
    ask_each(root, &requests)
}

/// A daemon's answers to requests.
pub fn ask_each(root: &Path, requests: &[(&str, Value)]) -> Vec<Value> {
    let mut child = daemon(root);
    let mut stdin = child.stdin.take().unwrap();
    for (number, (method, params)) in requests.iter().enumerate() {
        let line = json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params });
        writeln!(stdin, "{line}").unwrap();
    }
    drop(stdin);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    // Lone surrogates are fine in a log, though not for this reader.
    let text = text.replace("\\ud", "\\u0");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer = |id: usize| lines.iter().find(|line| line["id"] == id).unwrap().clone();
    (0..requests.len()).map(answer).collect()
}

pub fn load(root: &Path, id: &str) -> Result<Vec<Value>, Value> {
    let answers = ask(root, id, &["session/load", "session/events"]);
    match answers[0].get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(answers[1]["result"]["events"].as_array().unwrap().clone()),
    }
}
