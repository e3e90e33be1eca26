//! What a tool does, as ACP's ToolKind, and how a call of it is called: told from its name as common agents spell it and
//! from what it was given. Both are guesses for people; what nothing speaks for is `other`, and has its name alone.

use super::arguments::{About, Known};
use super::fields::one_line;
use crate::json::JsonStr;

/// Names (see [`plain`]) by kind, of the agents that write such logs or whose histories become such logs.
const KINDS: [(&str, &[&str]); 8] = [
    (
        "read",
        &[
            "read",
            "readfile",
            "readfiles",
            "readimage",
            "readmanyfiles",
            "readmediafile",
            "view",
            "viewfile",
            "viewimage",
            "openfile",
            "cat",
            "ls",
            "list",
            "listdir",
            "listdirectory",
            "listfiles",
            "notebookread",
        ],
    ),
    (
        "edit",
        &[
            "edit",
            "editfile",
            "multiedit",
            "write",
            "writefile",
            "writetofile",
            "createfile",
            "applypatch",
            "applydiff",
            "patch",
            "strreplace",
            "strreplaceeditor",
            "strreplacebasededittool",
            "texteditor",
            "replace",
            "replaceinfile",
            "searchreplace",
            "insert",
            "notebookedit",
        ],
    ),
    ("delete", &["delete", "deletefile", "deletepath", "remove", "removefile", "rm"]),
    ("move", &["move", "movefile", "movepath", "rename", "renamefile", "mv"]),
    (
        "search",
        &[
            "search",
            "searchfiles",
            "searchfilecontent",
            "grep",
            "grepsearch",
            "ripgrep",
            "rg",
            "glob",
            "find",
            "findpath",
            "findfiles",
            "filesearch",
            "codebasesearch",
            "lsp",
        ],
    ),
    (
        "execute",
        &[
            "bash",
            "sh",
            "shell",
            "localshell",
            "pwsh",
            "powershell",
            "exec",
            "execcommand",
            "execute",
            "executecommand",
            "run",
            "runcode",
            "runcommand",
            "runshellcommand",
            "runterminalcmd",
            "runinterminal",
            "writestdin",
            "python",
            "terminal",
            "bashoutput",
            "killbash",
            "killshell",
        ],
    ),
    ("fetch", &["fetch", "webfetch", "fetchurl", "websearch", "googlewebsearch", "download"]),
    ("think", &["think", "thinking", "sequentialthinking", "task", "agent", "subagent", "spawnagent"]),
];

/// Switches of an agent's mode.
const MODES: [&str; 3] = ["enterplanmode", "exitplanmode", "switchmode"];

/// First words that say what a tool does, whatever follows.
const VERBS: [(&str, &str); 11] = [
    ("read", "read"),
    ("edit", "edit"),
    ("delete", "delete"),
    ("search", "search"),
    ("find", "search"),
    ("grep", "search"),
    ("run", "execute"),
    ("execute", "execute"),
    ("terminal", "execute"),
    ("fetch", "fetch"),
    ("subagent", "think"),
];

/// A name in small letters without `_` and `-`; empty if it is too long to be a known one.
pub(super) fn plain(name: JsonStr<'_>) -> String {
    const LONGEST: usize = 100;
    if name.text().len() > LONGEST {
        return String::new();
    }
    let letters = name.lossy();
    let letters = letters.chars().filter(|c| !matches!(c, '_' | '-'));
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// ACP's ToolKind of a call: by the tool's name, else by the shape of its arguments.
pub(super) fn kind(name: Option<JsonStr<'_>>, given: &Known<'_>) -> &'static str {
    let kind = name.and_then(kind_of_name).unwrap_or_else(|| kind_of_shape(given));
    // An editor that is one tool.
    if kind == "edit" && given.commands("view") { "read" } else { kind }
}

fn kind_of_name(name: JsonStr<'_>) -> Option<&'static str> {
    // A tool of a server is named behind the server: `mcp__files__read_file`, `files/read_file`, `files.read_file`.
    let whole = name.lossy();
    let own = whole.rsplit(['/', '.', ':']).next().unwrap_or_default();
    let own = own.rsplit("__").next().unwrap_or_default();
    let quoted = crate::json::quote(own);
    let plain = plain(JsonStr::from_verified(&quoted));
    if MODES.contains(&&*plain) {
        return Some("switch_mode");
    }
    let known = KINDS.iter().find(|(_, names)| names.contains(&&*plain)).map(|(kind, _)| *kind);
    let verb = || {
        let verb = first_word(own);
        VERBS.iter().find(|(word, _)| verb.eq_ignore_ascii_case(word)).map(|(_, kind)| *kind)
    };
    known.or_else(verb)
}

/// The first word of a name in snake, kebab or camel case.
fn first_word(name: &str) -> &str {
    let end = name.char_indices().skip(1).find(|(_, c)| matches!(c, '_' | '-') || c.is_uppercase());
    end.and_then(|(end, _)| name.get(..end)).unwrap_or(name)
}

fn kind_of_shape(given: &Known<'_>) -> &'static str {
    if given.has(About::Command) {
        "execute"
    } else if given.has(About::Path) && given.has(About::Content) {
        "edit"
    } else if given.has(About::Url) {
        "fetch"
    } else if given.has(About::Query) {
        "search"
    } else {
        "other"
    }
}

/// The title of a call, for one line: a command as it is, else the tool's name and what the call is about. None if
/// neither says anything.
pub(super) fn title(name: Option<JsonStr<'_>>, kind: &str, given: &Known<'_>) -> Option<String> {
    use About::{Command, Path, Query, Url, Words};
    let name = name.map(|name| one_line(name, 100)).filter(|name| !name.is_empty());
    let (command, sorts): (_, &[About]) = match kind {
        "execute" => (given.subject(&[Command]), &[Words]),
        "search" => (None, &[Query, Path, Url, Words]),
        "fetch" => (None, &[Url, Query, Path, Words]),
        "think" => (None, &[Words, Query, Path, Url]),
        _ => (None, &[Path, Query, Url, Words]),
    };
    if command.is_some() {
        return command;
    }
    match (name, given.subject(sorts)) {
        (Some(name), Some(subject)) => Some(format!("{name} {subject}")),
        (name, subject) => name.or(subject),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::arguments::Arguments;
    use crate::json::Json;

    /// The kind and the title of a call.
    fn call(name: &str, arguments: &str) -> String {
        let (value, _) = Json::parse(arguments).unwrap_or_else(|error| panic!("{error}"));
        let arguments = Arguments::of(value);
        let known = arguments.as_ref().map(Arguments::known).unwrap_or_default();
        let name = crate::json::quote(name);
        let name = Some(JsonStr::from_verified(&name));
        let kind = kind(name, &known);
        format!("{kind}: {}", title(name, kind, &known).unwrap_or_default())
    }

    #[test]
    fn common_tools_have_a_kind_and_a_title() {
        for (name, arguments, expected) in [
            ("Bash", r#"{"command":"ls -l","description":"List"}"#, "execute: ls -l"),
            ("exec_command", r#"{"cmd":"ls","workdir":"/w"}"#, "execute: ls"),
            ("run_shell_command", r#"{"command":"a\nb"}"#, "execute: a b"),
            ("run_code", r#"{"code":"x\ny","description":"Count"}"#, "execute: run_code Count"),
            ("terminal_send", r#"{"sessionId":"s","text":"q"}"#, "execute: terminal_send q"),
            ("Read", r#"{"file_path":"/w/a"}"#, "read: Read /w/a"),
            ("ReadManyFiles", r#"{"paths":["a","b"]}"#, "read: ReadManyFiles a"),
            ("write", r#"{"filePath":"a","content":"c"}"#, "edit: write a"),
            ("developer__text_editor", r#"{"command":"view","path":"a"}"#, "read: developer__text_editor a"),
            ("str_replace_editor", r#"{"command":"create","path":"a"}"#, "edit: str_replace_editor a"),
            ("apply_patch", r#""*** Begin Patch""#, "edit: apply_patch"),
            ("move_file", r#"{"source":"a","destination":"b"}"#, "move: move_file a"),
            ("Grep", r#"{"pattern":"x","path":"/w"}"#, "search: Grep x"),
            ("searchCode", r#"{"query":"x"}"#, "search: searchCode x"),
            ("WebFetch", r#"{"url":"http://a","prompt":"p"}"#, "fetch: WebFetch http://a"),
            ("Task", r#"{"description":"d","prompt":"p"}"#, "think: Task d"),
            ("subagent_codex", r#"{"description":"d"}"#, "think: subagent_codex d"),
            ("mcp__files__read_file", r#"{"path":"a"}"#, "read: mcp__files__read_file a"),
            ("ExitPlanMode", "{}", "switch_mode: ExitPlanMode"),
            ("todo_write", r#"{"todos":[]}"#, "other: todo_write"),
        ] {
            assert_eq!(call(name, arguments), expected);
        }
    }

    #[test]
    fn shapes_speak_for_unknown_tools_and_nothing_is_made_up() {
        for (arguments, expected) in [
            (r#"{"command":["ls","-l"]}"#, "execute: ls -l"),
            (r#"{"path":"/w/a","newText":"t"}"#, "edit: x /w/a"),
            (r#"{"path":"/w/a","edits":[{"oldText":"a"}]}"#, "edit: x /w/a"),
            (r#"{"uri":"http://a"}"#, "fetch: x http://a"),
            (r#"{"query":"q"}"#, "search: x q"),
            (r#"{"path":"/w/a"}"#, "other: x /w/a"),
            (r#"{"content":"c","command":7}"#, "other: x"),
            ("\"ls\"", "other: x"),
            ("{}", "other: x"),
            ("null", "other: x"),
        ] {
            assert_eq!(call("x", arguments), expected, "{arguments}");
        }
        assert_eq!(call("", r#"{"command":"ls"}"#), "execute: ls");
        assert_eq!(call("", "{}"), "other: ");
        assert_eq!(call(&"n".repeat(200), "{}").chars().count(), "other: ".len() + 101);
    }
}
