//! Which lines belong to which group: an answer to the group that asked, whenever it comes, all else to the last one.

use serde::de::IgnoredAny;
use serde_json::Value;

use super::walk::{Kind, key_text, walk};

/// The lines that came, by group, and the answers that are still to come.
#[derive(Debug, Default)]
pub(super) struct Books {
    groups: Vec<Vec<Vec<u8>>>,
    /// The ids of requests that were not answered yet, with the group that sent them.
    owed: Vec<(usize, Value)>,
    /// How many answers of the last group name no request: each may stand for one that is owed.
    nameless: usize,
}

impl Books {
    /// Begins the next group. What the last one is owed was answered, if by answers that name no request.
    pub(super) fn begin(&mut self) {
        if self.is_whole(0) {
            let last = self.groups.len();
            self.owed.retain(|(group, _)| *group != last);
        }
        self.groups.push(Vec::new());
        self.nameless = 0;
    }

    /// Notes a line that was sent, in the last group.
    pub(super) fn sent(&mut self, line: &[u8]) {
        let group = self.groups.len();
        self.owed.extend(request_id(line).map(|id| (group, id)));
    }

    /// Notes a line that came.
    pub(super) fn came(&mut self, line: Vec<u8>) {
        let mut group = self.groups.len();
        match answered_id(&line) {
            Some(Value::Null) => self.nameless += 1,
            Some(id) => {
                if let Some(at) = self.owed.iter().position(|(_, owed)| same_id(owed, &id)) {
                    group = self.owed.remove(at).0;
                }
            }
            None => {}
        }
        if let Some(lines) = group.checked_sub(1).and_then(|index| self.groups.get_mut(index)) {
            lines.push(line);
        }
    }

    /// Whether the last group has its answers, and as many lines as are expected.
    pub(super) fn is_whole(&self, expected: usize) -> bool {
        let owed = self.owed.iter().filter(|(group, _)| *group == self.groups.len()).count();
        owed <= self.nameless && self.groups.last().is_none_or(|lines| lines.len() >= expected)
    }

    /// Nothing is owed by a daemon that has ended.
    pub(super) fn forget_owed(&mut self) {
        self.owed.clear();
    }

    /// The lines of every group.
    pub(super) fn close(self) -> Vec<Vec<Vec<u8>>> {
        self.groups
    }
}

/// What a line of JSON-RPC says of itself. A line is read leniently: half a character in a payload hides no answer.
#[derive(Default)]
struct Head {
    /// An id that can be given back: a short text, a number or null.
    id: Option<Value>,
    is_request: bool,
    is_answer: bool,
    odd: bool,
}

impl Head {
    fn of(line: &[u8]) -> Self {
        let mut head = Self::default();
        let walked = walk(line, |frames, kind, token| {
            let [frame] = frames else { return };
            let (Some(key), text) = (key_text(line, frame), line.get(token).unwrap_or_default()) else {
                return;
            };
            match (key.as_str(), kind, text) {
                (_, Kind::Key, _) | (_, _, b":" | b"," | b"}" | b"]") => {}
                ("id", Kind::Scalar, _) => head.id = serde_json::from_slice(text).ok().filter(is_id),
                ("jsonrpc", _, _) => head.odd |= text != b"\"2.0\"",
                ("params", _, _) => head.odd |= text != b"{" && text != b"null",
                ("method", _, _) => head.is_request = text.starts_with(b"\""),
                ("result" | "error", _, _) => head.is_answer = true,
                _ => {}
            }
        });
        if walked.is_ok() { head } else { Self::default() }
    }
}

fn is_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= 100,
        Value::Number(_) | Value::Null => true,
        _ => false,
    }
}

/// The id of a well-formed request, which every daemon answers under it.
fn request_id(line: &[u8]) -> Option<Value> {
    let head = Head::of(line);
    let is_json = || serde_json::from_slice::<IgnoredAny>(line).is_ok();
    head.id.filter(|_| head.is_request && !head.odd && is_json())
}

/// The id that an answer names.
fn answered_id(line: &[u8]) -> Option<Value> {
    let head = Head::of(line);
    head.id.filter(|_| head.is_answer && !head.is_request)
}

fn same_id(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().is_some_and(|number| Some(number) == b.as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: &str) -> Vec<u8> {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#).into_bytes()
    }

    fn answer(id: &str) -> Vec<u8> {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).into_bytes()
    }

    #[test]
    fn a_late_answer_is_its_requests() {
        let note = br#"{"jsonrpc":"2.0","method":"note","params":{"id":1}}"#.to_vec();
        let mut books = Books::default();
        books.begin();
        books.sent(&request("1"));
        books.sent(&request("\"a\""));
        books.sent(&note);
        assert!(!books.is_whole(0));
        books.came(answer("\"a\""));
        assert!(!books.is_whole(1));
        books.begin();
        books.sent(&request("2"));
        books.came(note.clone());
        books.came(answer("1.0"));
        books.came(answer("1"));
        books.came(answer("2"));
        assert!(books.is_whole(3) && !books.is_whole(4));
        assert_eq!(
            books.close(),
            [vec![answer("\"a\""), answer("1.0")], vec![note, answer("1"), answer("2")]]
        );
    }

    #[test]
    fn what_a_line_is_does_not_depend_on_its_payload() {
        let payload = r#"{"id":2,"method":"x","error":["\ud800",{"result":0}],"a":"}"}"#;
        let asked = format!(r#"{{"method":"m","params":{payload},"id":1,"jsonrpc":"2.0"}}"#);
        let told = format!(r#"{{"jsonrpc":"2.0","result":{payload},"id":1}}"#);
        let note = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{payload}}}"#);
        assert_eq!(request_id(asked.as_bytes()), Some(Value::from(1)));
        assert_eq!(answered_id(told.as_bytes()), Some(Value::from(1)));
        for line in [&told, &note] {
            assert_eq!(request_id(line.as_bytes()), None, "{line}");
        }
        for line in [&asked, &note] {
            assert_eq!(answered_id(line.as_bytes()), None, "{line}");
        }
        for odd in [
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[{}]}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m""#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m"} more"#,
            "",
        ] {
            assert_eq!(request_id(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn an_answer_that_names_nobody_may_be_the_one_that_is_owed() {
        let mut books = Books::default();
        books.begin();
        books.sent(&request("7"));
        books.came(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600}}"#.to_vec());
        assert!(books.is_whole(1));
        books.begin();
        books.sent(b"garbage");
        assert!(books.is_whole(0));
        books.sent(&request("7"));
        assert!(!books.is_whole(0));
        books.came(answer("7"));
        assert!(books.is_whole(1));
        books.sent(&request("8"));
        assert!(!books.is_whole(0));
        books.forget_owed();
        assert!(books.is_whole(0));
    }
}
