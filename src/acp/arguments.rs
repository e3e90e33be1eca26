//! What a call was given, and what that tells of it: what it is about, and which files.

use super::fields::{filled, is_absolute, one_line};
use super::tools::plain;
use crate::json::{Json, JsonStr, Type, quote, write_compact};

/// Deepest value that is shown as JSON. Common readers give up on a whole message at 128 levels
/// (serde_json), a few of which are the message's own.
const MAX_DEPTH: u32 = 100;

/// What a member of the arguments is about, told from its name as common agents spell it ([`plain`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Command,
    Path,
    /// A new content for what the path names.
    Content,
    Query,
    Url,
    /// What a person would be told.
    Words,
    Line,
}

/// The members of one sort that come first are the better subjects.
const NAMES: [(About, &[&str]); 7] = [
    (About::Command, &["command", "cmd"]),
    (
        About::Path,
        &[
            "filepath",
            "path",
            "absolutepath",
            "abspath",
            "targetfile",
            "notebookpath",
            "filename",
            "file",
            "paths",
            "filepaths",
            "files",
            "dirpath",
            "directory",
            "sourcepath",
            "oldpath",
            "source",
            "destinationpath",
            "newpath",
            "destination",
        ],
    ),
    (
        About::Content,
        &[
            "content",
            "contents",
            "newcontent",
            "newtext",
            "newstring",
            "newstr",
            "filetext",
            "edits",
            "patch",
            "diff",
        ],
    ),
    (About::Query, &["pattern", "query", "regex", "globpattern", "glob", "searchterm", "q"]),
    (About::Url, &["url", "uri", "urls"]),
    (
        About::Words,
        &[
            "description",
            "objective",
            "title",
            "name",
            "task",
            "prompt",
            "thought",
            "message",
            "skill",
            "text",
        ],
    ),
    (About::Line, &["line", "startline", "linenumber", "linestart", "viewrange"]),
];

/// A call's `arguments`, as the JSON text that is shown as `rawInput`.
#[derive(Debug)]
pub(super) struct Arguments(String);

impl Arguments {
    /// From `arguments` (FORMAT 3: a string of JSON text): the JSON that the string spells, else the string as it
    /// stands (ACP 13). None if it is no string and too deep.
    pub(super) fn of(arguments: Json<'_>) -> Option<Self> {
        let Some(text) = arguments.as_str() else { return raw(arguments).map(Self) };
        let spelled = text.decode().and_then(|text| compact(&text));
        Some(Self(spelled.unwrap_or_else(|| text.text().to_owned())))
    }

    pub(super) fn raw_input(&self) -> &str {
        &self.0
    }

    /// The members that tell something.
    pub(super) fn known(&self) -> Known<'_> {
        let mut found = Vec::new();
        for (name, value) in Json::from_verified(&self.0).members() {
            let name = plain(name);
            for (about, names) in &NAMES {
                if let Some(rank) = names.iter().position(|known| *known == name) {
                    found.push((*about, rank, value));
                }
            }
        }
        found.sort_by_key(|(_, rank, _)| *rank);
        Known(found)
    }
}

/// Members of the arguments with what they are about; of each sort the best first.
#[derive(Debug, Default)]
pub(super) struct Known<'a>(Vec<(About, usize, Json<'a>)>);

impl<'a> Known<'a> {
    fn all(&self, about: About) -> impl Iterator<Item = Json<'a>> {
        self.0.iter().filter(move |(one, ..)| *one == about).map(|(_, _, value)| *value)
    }

    /// Whether there is a member of that sort that holds something; a content may be empty.
    pub(super) fn has(&self, about: About) -> bool {
        self.all(about).any(|value| match value.kind() {
            Type::Null | Type::Bool | Type::Number => false,
            Type::String => about == About::Content || filled(Some(value)).is_some(),
            Type::Array | Type::Object => value.elements().next().or(value.get("path")).is_some(),
        })
    }

    /// What the call is about, on one short line: of the first of these sorts that there is. An array of strings, as some
    /// agents spell a command, is read as its words, else as its first.
    pub(super) fn subject(&self, sorts: &[About]) -> Option<String> {
        const LONGEST: usize = 200;
        let line = |value: Json<'_>, about: About| {
            if value.kind() != Type::Array {
                return value.as_str().map(|text| one_line(text, LONGEST));
            }
            let most = if about == About::Command { 50 } else { 1 };
            let words: Vec<_> = value.elements().take(most).map(Json::as_str).collect::<Option<_>>()?;
            let words: Vec<_> = words.into_iter().map(|word| one_line(word, LONGEST)).collect();
            Some(one_line(JsonStr::from_verified(&quote(&words.join(" "))), LONGEST))
        };
        let of = |about: &About| {
            self.all(*about).filter_map(|value| line(value, *about)).find(|line| !line.is_empty())
        };
        sorts.iter().find_map(of)
    }

    /// ACP's `locations`, as JSON text: the files that are named by an absolute path. What is relative is so to a
    /// directory that the log does not tell.
    pub(super) fn locations(&self) -> Option<String> {
        const MOST: usize = 16;
        const LONGEST: usize = 4096;
        let mut paths: Vec<JsonStr<'_>> = Vec::new();
        for value in self.all(About::Path) {
            let one = value.as_str().into_iter();
            let each = value.elements().filter_map(|each| each.as_str().or_else(|| filled(each.get("path"))));
            for path in one.chain(each) {
                let is_path = path.text().len() <= LONGEST && is_absolute(path) && path.decode().is_some();
                if is_path && paths.len() < MOST && !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        let line = self.line().filter(|_| paths.len() == 1);
        let line = line.map_or(String::new(), |line| format!(",\"line\":{line}"));
        let places: Vec<_> = paths.iter().map(|path| format!("{{\"path\":{}{line}}}", path.text())).collect();
        (!places.is_empty()).then(|| format!("[{}]", places.join(",")))
    }

    /// The line that is named, counted from 1. An `offset` is none: agents count it from 0, from 1 and in bytes.
    fn line(&self) -> Option<u32> {
        let number = |value: Json<'_>| {
            let first = value.elements().next().unwrap_or(value);
            first.as_safe_uint().and_then(|line| u32::try_from(line).ok())
        };
        self.all(About::Line).find_map(number).filter(|line| *line > 0)
    }

    /// Whether the command is that word: editors that are one tool have it name what they do.
    pub(super) fn commands(&self, word: &str) -> bool {
        self.all(About::Command).any(|command| command.is_str(word))
    }
}

/// Any value of the log for a member that takes any JSON; none when it is too deep.
pub(super) fn raw(value: Json<'_>) -> Option<String> {
    compact(value.text())
}

/// The compact form of a text that every reader of a message can take: JSON that is lossless (FORMAT 1)
/// and not too deep.
fn compact(text: &str) -> Option<String> {
    let (value, checks) = Json::parse(text).ok()?;
    if checks.depth > MAX_DEPTH || checks.fault.is_some() {
        return None;
    }
    let mut out = String::with_capacity(value.text().len());
    write_compact(value.text(), &mut out);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Option<Arguments> {
        let (value, _) = Json::parse(text).unwrap_or_else(|error| panic!("{error}"));
        Arguments::of(value)
    }

    #[test]
    fn arguments_that_spell_json_become_it() {
        let input = |text: &str| arguments(text).map_or(String::new(), |given| given.raw_input().to_owned());
        assert_eq!(input(r#""{\"a\": [1.0, \"\\ud800\"]}""#), r#"{"a":[1.0,"\ud800"]}"#);
        assert_eq!(input(r#""\"\u2028\"""#), r#""\u2028""#);
        assert_eq!(input(r#""{\"a\": ""#), r#""{\"a\": ""#);
        assert_eq!(input(r#""""#), r#""""#);
        assert_eq!(input(r#""\"\ud800\"""#), r#""\"\ud800\"""#, "half a pair: kept as the string");
        assert_eq!(input(r#""{\"a\":1,\"a\":2}""#), r#""{\"a\":1,\"a\":2}""#, "nothing is lost");
        assert_eq!(input(r#""1e400""#), r#""1e400""#);
        assert_eq!(input("[1, 2]"), "[1,2]");
        let deep = "[".repeat(101) + &"]".repeat(101);
        assert_eq!(input(&format!("\"{deep}\"")), format!("\"{deep}\""));
        assert_eq!(input(&deep), "");
    }

    #[test]
    fn subjects_are_the_first_that_say_something() {
        let of = |text: &str, sorts: &[About]| {
            arguments(text).map_or(String::new(), |given| given.known().subject(sorts).unwrap_or_default())
        };
        use About::{Command, Path, Words};
        assert_eq!(of(r#"{"cmd":"","command":"ls\n -l"}"#, &[Command]), "ls -l");
        assert_eq!(of(r#"{"command":["bash","-lc","ls  a"]}"#, &[Command]), "bash -lc ls  a");
        assert_eq!(of(r#"{"command":["ls",1]}"#, &[Command]), "");
        assert_eq!(of(r#"{"path":"b","file_path":"a","name":"n"}"#, &[Command, Path, Words]), "a");
        assert_eq!(of(r#"{"filePaths":["x","y"],"name":"n"}"#, &[Path]), "x");
        assert_eq!(of(r#"{"path":7,"description":" \n","NAME":"n"}"#, &[Path, Words]), "n");
        assert_eq!(of("\"ls\"", &[Command]), "");
        assert_eq!(of(&format!(r#"{{"cmd":"{}"}}"#, "x".repeat(500)), &[Command]).chars().count(), 201);
    }

    #[test]
    fn locations_are_absolute_paths() {
        let of = |text: &str| arguments(text).and_then(|given| given.known().locations()).unwrap_or_default();
        assert_eq!(of(r#"{"file_path":"/a","startLine":3}"#), r#"[{"path":"/a","line":3}]"#);
        assert_eq!(of(r#"{"path":"/a","view_range":[10,20]}"#), r#"[{"path":"/a","line":10}]"#);
        assert_eq!(of(r#"{"path":"/a","line":0,"offset":4}"#), r#"[{"path":"/a"}]"#);
        assert_eq!(of(r#"{"path":"/a","line":4294967296}"#), r#"[{"path":"/a"}]"#);
        assert_eq!(of(r#"{"source":"/a","destination":"/b","line":1}"#), r#"[{"path":"/a"},{"path":"/b"}]"#);
        assert_eq!(
            of(r#"{"paths":["/a","b","/a"],"files":[{"path":"/c"}]}"#),
            r#"[{"path":"/a"},{"path":"/c"}]"#
        );
        assert_eq!(of(r#"{"path":"a","file":"file:///a","directory":"/\ud800"}"#), "");
    }
}
