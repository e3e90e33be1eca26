//! What several test files share: vector files, a bench with a store on it, and comparisons.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod bench;
pub mod client;
pub mod daemon;
pub mod plain;
pub mod traffic;

use std::path::{Path, PathBuf};

use serde_json::Value;
use sessiond::json::{Json, equal};

/// One case of a vector file.
pub struct Case {
    /// `rule#number`.
    pub id: String,
    /// The turn/step/tool relations are enforced throughout.
    pub invariants: bool,
    /// The operations, in order.
    pub ops: Vec<Op>,
}

/// One operation: its inputs, and what the reference (or the contract) answers.
pub struct Op(pub Value);

impl Op {
    /// The operation's name.
    pub fn name(&self) -> &str {
        self.text("op")
    }

    /// A text input, `""` when it is not there.
    pub fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or("")
    }

    /// An input that is an array of texts.
    pub fn texts(&self, key: &str) -> Vec<&str> {
        texts(&self.0[key])
    }

    /// A text input, if it is there.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0[key].as_str()
    }

    /// Whether upstream's behaviour is recorded here but is no contract.
    pub fn is_informative(&self) -> bool {
        self.0["informative"] == true
    }

    /// The expected answer, if the operation is to be accepted.
    pub fn ok(&self) -> Option<&Value> {
        self.0["expect"].get("ok")
    }

    /// The error class that is expected, and classes that are as good; empty if it is to be accepted.
    pub fn classes(&self) -> Vec<&str> {
        let Some(error) = self.0["expect"].get("err") else { return Vec::new() };
        let mut all = vec![error["class"].as_str().unwrap()];
        all.extend(texts(&error["alt"]));
        all
    }
}

/// The texts of an array of strings.
pub fn texts(value: &Value) -> Vec<&str> {
    value.as_array().map_or(Vec::new(), |items| items.iter().map(|item| item.as_str().unwrap()).collect())
}

/// What lies in `../shared`, beside the project.
fn beside(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").join(path)
}

/// What a test reads that can do without: where it lies beside the project, if it does.
pub fn shared(path: &str) -> Option<PathBuf> {
    Some(beside(path)).filter(|full| full.exists())
}

/// What a test cannot do without. Such a test is marked `#[ignore = "needs ../shared/…"]`: `.ci/run shared` finds it by
/// that, and `cargo test` says that it was not run.
pub fn needed(path: &str) -> PathBuf {
    let full = beside(path);
    assert!(full.exists(), "this test needs ../shared/{path} beside the project, and it is not there");
    full
}

/// The few cases that are kept with the project, so that a machine without the shared set tests too.
fn own_vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vectors")
}

/// The names of the vector files whose names begin so, in order.
pub fn vector_files(prefixes: &[&str]) -> Vec<String> {
    let dir = shared("vectors").unwrap_or_else(own_vectors);
    let names =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let wanted = |name: &String| {
        let numbered = name.starts_with(|first: char| first.is_ascii_digit()) && name.ends_with(".json");
        numbered && prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    let mut names: Vec<_> = names.filter(wanted).collect();
    names.sort();
    names
}

/// The cases of a vector file as they stand there: the full file when it is there, else the few cases
/// kept in `tests/fixtures/vectors`.
pub fn vector_cases(file: &str) -> Vec<Value> {
    let path = shared(&format!("vectors/{file}")).unwrap_or_else(|| {
        eprintln!("../shared/vectors/{file} is not there: only the subset in tests/fixtures is tested");
        own_vectors().join(file)
    });
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut file: Value = serde_json::from_str(&text).unwrap();
    match file["cases"].take() {
        Value::Array(cases) => cases,
        other => panic!("{}: cases are {other}", path.display()),
    }
}

/// The same, read.
pub fn cases(file: &str) -> Vec<Case> {
    let cases = vector_cases(file);
    let case = |case: &Value| Case {
        id: case["id"].as_str().unwrap().to_owned(),
        invariants: case["invariants"] == true,
        ops: case["ops"].as_array().unwrap().iter().cloned().map(Op).collect(),
    };
    cases.iter().map(case).collect()
}

/// Runs `check` on every operation of that name and says how many there were; none is a mistake.
pub fn each_op(file: &str, name: &str, mut check: impl FnMut(&str, &Op)) {
    let mut count = 0;
    for case in cases(file) {
        for op in case.ops.iter().filter(|op| op.name() == name) {
            check(&case.id, op);
            count += 1;
        }
    }
    assert!(count > 0, "{file} has no operation {name}");
    eprintln!("{file}: {count} x {name}");
}

/// Whether two texts are the same JSON value: member order does not matter, numbers compare as doubles.
///
/// serde_json judges where it can read both; lone surrogates, great depth and numbers beyond a double
/// are left to the crate's own comparison.
pub fn same_json(a: &str, b: &str) -> bool {
    match (serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)) {
        (Ok(a), Ok(b)) => same_value(&a, &b),
        _ => equal(Json::parse(a).unwrap().0, Json::parse(b).unwrap().0),
    }
}

/// [`same_json`] on what serde_json has read.
pub fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same_value(value, other)))
        }
        _ => a == b,
    }
}
