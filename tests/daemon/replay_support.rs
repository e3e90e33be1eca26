//! A double of the daemon, and transcripts that are replayed against it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing)]

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write};
use std::path::PathBuf;

use serde_json::{Value, json};
use sessiond::replay::{Options, run};

/// Serves stdin as the flags in `args` say, and ends the process.
pub fn be_the_double(args: &str) -> ! {
    let args: Vec<&str> = args.split('\u{1f}').collect();
    let after = |flag: &str| args.iter().skip_while(|arg| **arg != flag).nth(1).map(|arg| (*arg).to_owned());
    let store = after("--store").unwrap_or_default().trim_start_matches("jsonl:").to_owned();
    let mut fake = Fake {
        store,
        flags: args.iter().map(|arg| (*arg).to_owned()).collect(),
        faults: after("--fault-file"),
        faults_read: 0,
        dialect: None,
        requests: 0,
        behind: Vec::new(),
        held: Vec::new(),
        exit: i32::from(args.contains(&"--exit-badly")),
        hangs: args.contains(&"--hangs"),
        out: fs::OpenOptions::new().write(true).open("/dev/fd/3").unwrap(),
    };
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    let mut byte = [0];
    while input.read(&mut byte).unwrap() == 1 {
        if byte == *b"\n" {
            fake.handle(&std::mem::take(&mut line));
        } else {
            line.extend(byte);
        }
    }
    if !line.is_empty() {
        fake.say(&json!({"unended": String::from_utf8_lossy(&line)}));
    }
    if args.contains(&"--says-bye") {
        fake.say(&json!("bye"));
    }
    std::process::exit(fake.exit);
}

struct Fake {
    store: String,
    flags: Vec<String>,
    faults: Option<String>,
    faults_read: usize,
    dialect: Option<&'static str>,
    requests: u64,
    /// What is said behind the answer to the next request.
    behind: Vec<Value>,
    /// What is said before the answer to `release`.
    held: Vec<Value>,
    exit: i32,
    hangs: bool,
    out: fs::File,
}

impl Fake {
    pub fn say(&mut self, value: &Value) {
        writeln!(self.out, "{value}").unwrap();
    }

    pub fn handle(&mut self, line: &[u8]) {
        if line.is_empty() || self.hangs {
            return;
        }
        let Ok(request) = serde_json::from_slice::<Value>(line) else {
            return self.say(&json!({"id": null, "error": {"code": -32700}}));
        };
        let params = request["params"].clone();
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        if request.get("id").is_none() {
            return;
        }
        let fixed = self.dialect.is_some();
        if method != "initialize" {
            self.dialect.get_or_insert("native");
        }
        let answer = match method.as_str() {
            "initialize" if fixed => Err(-32600),
            "initialize" if params["protocolVersion"].is_null() => Err(-32602),
            "initialize" => {
                self.dialect = Some("acp");
                Ok(json!("acp"))
            }
            "flags" => Ok(json!(self.flags)),
            "later" => return self.behind.push(json!({"id": request["id"], "result": "late"})),
            "note_later" => {
                self.behind.push(json!({"method": "note"}));
                Ok(json!({}))
            }
            "hold" => return self.held.push(json!({"id": request["id"], "result": "held"})),
            "release" => {
                std::mem::take(&mut self.held).iter().for_each(|held| self.say(held));
                Ok(json!({}))
            }
            "dialect" => Ok(json!(self.dialect)),
            "echo" => Ok(params),
            "count" => {
                self.requests += 1;
                Ok(json!(self.requests))
            }
            "store" => Ok(json!({"store": self.store, "twice": format!("{0}/a:{0}", self.store)})),
            "notify" => {
                self.say(&json!({"method": "note", "params": params}));
                self.say(&json!({"method": "note", "params": params}));
                Ok(json!({}))
            }
            "raw" => {
                self.out.write_all(b"\xff\x01 \n\n").unwrap();
                Ok(json!({}))
            }
            "write" => self.storage("write", |store| {
                fs::write(format!("{store}/{}", params["name"].as_str().unwrap()), "x").unwrap();
                json!({})
            }),
            "list" => self.storage("list", |store| {
                let mut names: Vec<String> = fs::read_dir(store)
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                    .collect();
                names.sort();
                json!(names)
            }),
            "torn" => {
                write!(self.out, "half a li").unwrap();
                std::process::exit(0);
            }
            "die" => {
                eprintln!("the double gives up");
                std::process::exit(7);
            }
            _ => Err(-32601),
        };
        match answer {
            Ok(result) => self.say(&json!({"id": request["id"], "result": result})),
            Err(error) => self.say(&json!({"id": request["id"], "error": error})),
        }
        if method != "note_later" {
            std::mem::take(&mut self.behind).iter().for_each(|behind| self.say(behind));
        }
    }

    pub fn storage<T>(&mut self, op: &str, act: impl Fn(&str) -> T) -> Result<T, i64> {
        let text = self.faults.as_ref().map(|path| fs::read_to_string(path).unwrap()).unwrap_or_default();
        let armed = text.lines().skip(self.faults_read).any(|line| line.starts_with(&format!("{op} ")));
        if armed {
            self.faults_read = text.lines().count();
            return Err(-31023);
        }
        Ok(act(&self.store))
    }
}

const SCRIPT: &str = r#"exe=$1; shift; FAKE_ARGS=$(printf '%s\037' "$@") exec "$exe" --exact replay_tool::fake_daemon --nocapture --test-threads=1 3>&1 >/dev/null"#;

pub fn fake() -> Vec<OsString> {
    let exe = std::env::current_exe().unwrap();
    ["sh".into(), "-c".into(), SCRIPT.into(), "sh".into(), exe.into()].into()
}

pub struct Case {
    pub directory: tempfile::TempDir,
    pub options: Options,
}

impl Case {
    pub fn new() -> Self {
        let options = Options { command: Some(fake()), ..Options::default() };
        Self { directory: tempfile::tempdir().unwrap(), options }
    }

    pub fn file(&self, text: &str) -> PathBuf {
        let path = self.directory.path().join("t.txt");
        fs::write(&path, text).unwrap();
        path
    }

    /// The report on a transcript, with the directory left out, and whether it failed.
    pub fn report(&self, text: &str) -> (String, bool) {
        let mut out = Vec::new();
        let summary = run(&[self.file(text)], &self.options, &mut out).unwrap();
        let directory = format!("{}/", self.directory.path().display());
        (String::from_utf8(out).unwrap().replace(&directory, ""), summary.failed == 1)
    }

    #[track_caller]
    pub fn matches(&self, text: &str) {
        assert_eq!(self.report(text), (String::new(), false));
    }

    #[track_caller]
    pub fn differs(&self, text: &str, parts: &[&str]) {
        let (report, failed) = self.report(text);
        assert!(failed, "no difference was seen");
        for part in parts {
            assert!(report.contains(part), "{part:?} is missing in:\n{report}");
        }
    }

    /// What `--update` makes of a transcript.
    pub fn updated(&mut self, text: &str) -> String {
        self.options.update = true;
        let path = self.file(text);
        let summary = run(std::slice::from_ref(&path), &self.options, &mut Vec::new()).unwrap();
        assert_eq!(summary.failed, 0);
        self.options.update = false;
        let updated = fs::read_to_string(path).unwrap();
        assert_eq!(summary.updated == 1, updated != text);
        updated
    }
}

pub fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

pub fn result(id: u64, result: &str) -> String {
    format!(r#"{{"id":{id},"result":{result}}}"#)
}
