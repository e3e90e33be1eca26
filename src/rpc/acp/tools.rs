//! Tool names as ACP kinds, and arguments as raw input.

use crate::json::{Json, JsonStr, write_compact};

/// Deepest value that is shown as JSON. Common readers give up on a whole message at 128 levels
/// (serde_json), four of which are the message's own.
const MAX_DEPTH: u32 = 100;

/// ACP's ToolKind of a tool, told from its name as common agents spell it; case, `_` and `-` aside.
pub(super) fn kind(name: JsonStr<'_>) -> &'static str {
    const LONGEST: usize = 40;
    if name.text().len() > LONGEST {
        return "other";
    }
    let plain: String =
        name.lossy().chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect();
    match &*plain {
        "read" | "readfile" | "readimage" | "readmanyfiles" | "view" | "viewimage" | "cat" | "ls"
        | "list" | "listdir" | "listdirectory" | "notebookread" => "read",
        "edit" | "editfile" | "multiedit" | "write" | "writefile" | "createfile" | "applypatch" | "patch"
        | "strreplace" | "replace" | "notebookedit" => "edit",
        "delete" | "deletefile" | "remove" | "removefile" | "rm" => "delete",
        "move" | "movefile" | "rename" | "renamefile" | "mv" => "move",
        "search" | "searchfiles" | "searchfilecontent" | "grep" | "glob" | "find" | "lsp" => "search",
        "bash" | "sh" | "shell" | "pwsh" | "powershell" | "exec" | "execcommand" | "execute" | "run"
        | "runcode" | "runcommand" | "runshellcommand" | "python" | "terminal" => "execute",
        "think" => "think",
        "fetch" | "webfetch" | "websearch" | "download" => "fetch",
        "enterplanmode" | "exitplanmode" | "switchmode" => "switch_mode",
        _ if plain.starts_with("terminal") => "execute",
        _ => "other",
    }
}

/// A call's `arguments` (FORMAT 3: a string of JSON text) as `rawInput`: the JSON that the string
/// spells, else the string as it stands (ACP 13).
pub(super) fn raw_input(arguments: Json<'_>) -> Option<String> {
    let Some(text) = arguments.as_str() else { return raw(arguments) };
    let spelled = text.decode().and_then(|text| compact(&text));
    Some(spelled.unwrap_or_else(|| text.text().to_owned()))
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

    fn input(text: &str) -> String {
        let (value, _) = Json::parse(text).unwrap_or_else(|error| panic!("{error}"));
        raw_input(value).unwrap_or_default()
    }

    #[test]
    fn arguments_that_spell_json_become_it() {
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
    fn kinds_follow_names() {
        let of = |name| kind(JsonStr::from_verified(name));
        assert_eq!(of("\"WebFetch\""), "fetch");
        assert_eq!(of("\"read_file\""), "read");
        assert_eq!(of("\"b\\u0061sh\""), "execute");
        assert_eq!(of("\"terminal_send\""), "execute");
        assert_eq!(of("\"\""), "other");
    }
}
