//! What a recording does not hold: the secrets that clients hand to MCP servers.
//!
//! Below `params.mcpServers[*]`, whatever the method is called and whatever their shape: the values of `env` and
//! `headers`, of members with the name of a secret, and in all other texts (`args`, `url`, `command`) what such a name
//! introduces and the user of a URL. A name is all there is to go by: it blanks too much rather than too little.

use std::ops::Range;

use memchr::memmem;
use serde::de::IgnoredAny;

use super::walk::{Frame, Kind, key_text, walk};

/// What stands for a value that is not written.
const BLANKED: &str = "***";
/// Skipped by the daemon at the very start of its input.
const BOM: &[u8] = "\u{feff}".as_bytes();
/// Parts of names of secrets, in lower case.
const SECRETS: [&str; 7] = ["token", "key", "secret", "passw", "authorization", "credential", "bearer"];

/// The line without its secrets. A line that is not JSON is cut off where it speaks of `mcpServers`: nothing tells where
/// its values are, and it is refused as before.
pub(super) fn blanked(line: &[u8]) -> Vec<u8> {
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    let mut before: Option<Before> = None;
    // The walk ends early only where the text is not JSON.
    let _ = walk(line, |frames, kind, token| {
        if kind == Kind::Scalar
            && let Some(inner) = below_a_server(line, frames)
        {
            let introduced = before.take().is_some_and(|before| before.introduces(frames));
            let text = line.get(token.clone()).unwrap_or_default();
            let (new, introduces) = match serde_json::from_slice::<String>(text) {
                _ if introduced || is_named_as_secret(line, inner) => (Some(BLANKED.to_owned()), false),
                Ok(text) => (without_secrets(&text), introduces(&text)),
                // Half a character, which does not hide a name: or no text at all.
                Err(_) => (text.starts_with(b"\"").then(|| BLANKED.to_owned()), false),
            };
            before = introduces.then(|| Before::at(frames)).flatten();
            changes.extend(new.map(|new| (token, serde_json::Value::from(new).to_string())));
        }
    });
    let mut end = line.len();
    let text = line.strip_prefix(BOM).unwrap_or(line);
    if serde_json::from_slice::<IgnoredAny>(text).is_err()
        && let Some(at) = memmem::find(line, b"mcpServers")
    {
        end = at;
        changes.clear();
    }
    let mut result = Vec::with_capacity(line.len());
    let mut from = 0;
    for (token, new) in changes {
        result.extend_from_slice(line.get(from..token.start).unwrap_or_default());
        result.extend_from_slice(new.as_bytes());
        from = token.end;
    }
    result.extend_from_slice(line.get(from..end).unwrap_or_default());
    if end < line.len() {
        result.extend_from_slice(BLANKED.as_bytes());
    }
    result
}

/// The frames below one MCP server, if a value is of one.
fn below_a_server<'f>(line: &[u8], frames: &'f [Frame]) -> Option<&'f [Frame]> {
    // In a batch the requests lie one level deeper.
    let frames = match frames.split_first() {
        Some((Frame::Array(_), inner)) => inner,
        _ => frames,
    };
    let [params, servers, _, inner @ ..] = frames else { return None };
    let is = |frame, name: &str| key_text(line, frame).is_some_and(|key| key == name);
    (is(params, "params") && is(servers, "mcpServers")).then_some(inner)
}

/// Whether a value is one of `env` or `headers` (`name` beside a `value` is none), or has the name of a secret.
fn is_named_as_secret(line: &[u8], frames: &[Frame]) -> bool {
    let keys: Vec<_> = frames.iter().map(|frame| key_text(line, frame)).collect();
    let listed = |key: &Option<String>| matches!(key.as_deref(), Some("env" | "headers"));
    match keys.iter().position(listed).and_then(|at| keys.get(at + 1..)) {
        Some([None, Some(name)]) if name == "name" => false,
        Some(_) => true,
        None => keys.iter().flatten().any(|key| is_secret(key)),
    }
}

/// The place of a text that introduces the next one, as `--token` does.
struct Before {
    depth: usize,
    index: usize,
}

impl Before {
    fn at(frames: &[Frame]) -> Option<Self> {
        match frames.last() {
            Some(Frame::Array(index)) => Some(Self { depth: frames.len(), index: *index }),
            _ => None,
        }
    }

    fn introduces(&self, frames: &[Frame]) -> bool {
        frames.len() == self.depth && frames.last() == Some(&Frame::Array(self.index + 1))
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Whether a text is a flag or a header that has its secret behind it: `--token`, `Authorization:`.
fn introduces(text: &str) -> bool {
    let name = text.trim_end().trim_end_matches([':', '=']);
    let is_flag = name.starts_with('-') && !name.contains(['=', ':', ' ']);
    (is_flag || name.len() < text.len())
        && is_secret(name.rsplit(|c| !is_of_a_name(c)).next().unwrap_or(name))
}

/// A text without the user of its URLs and what the name of a secret introduces; none where nothing is taken out.
fn without_secrets(text: &str) -> Option<String> {
    let mut new = without_users(text);
    let mut from = 0;
    while let Some(value) = next_secret(&new, from) {
        from = value.start + BLANKED.len();
        new.replace_range(value, BLANKED);
    }
    (new != text).then_some(new)
}

/// `scheme://user:password@host` without what stands before the `@`.
fn without_users(text: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("://") {
        let authority = behind.find(['/', '?', '#', ' ', '"', '\'']).unwrap_or(behind.len());
        let at = behind.get(..authority).and_then(|authority| authority.rfind('@'));
        new.push_str(before);
        new.push_str("://");
        if at.is_some() {
            new.push_str(BLANKED);
        }
        rest = behind.get(at.unwrap_or(0)..).unwrap_or_default();
    }
    new + rest
}

/// The next value behind the name of a secret and a `=`, a `:` or, if the name is a flag, a space. In the query of a
/// URL a value ends before the next one, else with the text.
fn next_secret(text: &str, from: usize) -> Option<Range<usize>> {
    let mut start = from;
    loop {
        let rest = text.get(start..)?;
        let sign = start + rest.find(['=', ':', ' '])?;
        let behind = text.get(sign..)?.trim_start_matches(['=', ':', ' ', '"', '\'']);
        let value = text.len() - behind.len();
        let before = text.get(..sign)?.trim_end_matches(['"', '\'']);
        let name = before.rsplit(|c| !is_of_a_name(c)).next().unwrap_or(before);
        let is_host = before.strip_suffix(name).is_some_and(|before| before.ends_with("://"));
        let introduces = match text.get(sign..=sign) {
            Some(" ") => name.starts_with('-'),
            _ => !is_host,
        };
        if introduces && is_secret(name) && value < text.len() && !behind.starts_with(BLANKED) {
            let in_query = before.contains("://") && before.contains(['?', '#']);
            let length = behind.find(|c| in_query && matches!(c, '&' | '#')).unwrap_or(behind.len());
            return Some(value..value + length);
        }
        start = sign + 1;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blank(text: &str) -> String {
        String::from_utf8(blanked(text.as_bytes())).unwrap()
    }

    fn server(member: &str) -> String {
        format!(r#"{{"params":{{"mcpServers":[{{"name":"a-key: x",{member}}}]}}}}"#)
    }

    #[test]
    fn values_of_env_and_headers_are_blanked_and_nothing_else_changes() {
        let line = |env: &str, headers: &str| {
            format!(
                r#"{{"id":1, "params":{{"cwd":"/s","mcpServers":[{{"name":"a","command":"c","env":[{env}]}},{{"url":"u","headers":[{headers}]}}]}},"method":"_session/new","env":[{{"value":"kept"}}]}}"#
            )
        };
        let (env, headers) =
            (r#"{"name":"K","value":"s1\"}]"},{"value":7}"#, r#"{"\u0076alue":"s2","name":"n"}"#);
        let (no_env, no_headers) =
            (r#"{"name":"K","value":"***"},{"value":"***"}"#, r#"{"\u0076alue":"***","name":"n"}"#);
        assert_eq!(blank(&line(env, headers)), line(no_env, no_headers));
    }

    #[test]
    fn other_shapes_hide_their_values_too() {
        for (given, shown) in [
            (
                r#"{"params":{"mcpServers":[{"\u0065nv":{"K":"s","name":"t"}}]}}"#,
                r#"{"params":{"mcpServers":[{"\u0065nv":{"K":"***","name":"***"}}]}}"#,
            ),
            (
                r#"{"params":{"mcpServers":{"x":{"env":"K=s"}}}}"#,
                r#"{"params":{"mcpServers":{"x":{"env":"***"}}}}"#,
            ),
            (
                r#"[{"params":{"mcpServers":[{"env":[["K",1]]}]}}]"#,
                r#"[{"params":{"mcpServers":[{"env":[["***","***"]]}]}}]"#,
            ),
            (r#"{"params":{"mcpServers":[{"env":[{"value":"s"}]}]}} x"#, r#"{"params":{"***"#),
            (r#"{"params":{"mcpServers":[{"env":[{"value":"s"},{"value":"sec"#, r#"{"params":{"***"#),
            (
                "\u{feff}{\"params\":{\"mcpServers\":[{\"env\":[7]}]}}",
                "\u{feff}{\"params\":{\"mcpServers\":[{\"env\":[\"***\"]}]}}",
            ),
            (
                r#"{"params":{"mcpServers":[{"env":[{"value":"\ud800"}]}]}}"#,
                r#"{"params":{"mcpServers":[{"env":[{"value":"***"}]}]}}"#,
            ),
            (r#"{"params":{"env":[{"value":"s"}]}}"#, r#"{"params":{"env":[{"value":"s"}]}}"#),
            ("not \"json", "not \"json"),
        ] {
            assert_eq!(blank(given), shown);
        }
    }

    #[test]
    fn what_the_name_of_a_secret_introduces_is_blanked() {
        for (given, shown) in [
            (r#""args":["--token=s","-v"]"#, r#""args":["--token=***","-v"]"#),
            (r#""args":["--api-key","s","--port","80"]"#, r#""args":["--api-key","***","--port","80"]"#),
            (r#""args":["--password", "a b & c","x"]"#, r#""args":["--password", "***","x"]"#),
            (r#""args":["-e","GITHUB_TOKEN=s s&s"]"#, r#""args":["-e","GITHUB_TOKEN=***"]"#),
            (r#""args":["-H","Authorization: Bearer s"]"#, r#""args":["-H","Authorization: ***"]"#),
            (r#""args":["-H","X-Api-Key:","s"]"#, r#""args":["-H","X-Api-Key:","***"]"#),
            (r#""args":["{\"secret\": \"s\"}"]"#, r#""args":["{\"secret\": \"***"]"#),
            (r#""args":["-c","run --secret s --more"]"#, r#""args":["-c","run --secret ***"]"#),
            (
                r#""args":["--TOKEN",7,"--token"],"url":"u""#,
                r#""args":["--TOKEN","***","--token"],"url":"u""#,
            ),
            (r#""args":["\u002d-token","s"]"#, r#""args":["\u002d-token","***"]"#),
            (r#""args":["--token=\ud800"]"#, r#""args":["***"]"#),
            (r#""url":"https://u:p@h:1/x?a=1""#, r#""url":"https://***@h:1/x?a=1""#),
            (
                r#""url":"https://h/x?a=1&access_token=s&b=2""#,
                r#""url":"https://h/x?a=1&access_token=***&b=2""#,
            ),
            (r#""url":"https://h/#key=s""#, r#""url":"https://h/#key=***""#),
            (
                r#""args":["mcp","http://p@h http://q:r@i/y"]"#,
                r#""args":["mcp","http://***@h http://***@i/y"]"#,
            ),
            (r#""command":"TOKEN=s run""#, r#""command":"TOKEN=***""#),
            (
                r#""transport":{"apiKey":"s","oauth":{"clientSecret":["s"]}}"#,
                r#""transport":{"apiKey":"***","oauth":{"clientSecret":["***"]}}"#,
            ),
        ] {
            assert_eq!(blank(&server(given)), server(shown).replace("a-key: x", "a-key: ***"));
        }
    }

    #[test]
    fn what_has_no_secret_stays_as_it_is() {
        for member in [
            r#""command":"/usr/bin/keytool","args":["-v","--port","80","a b","k=v","x:y"]"#,
            r#""url":"http:\/\/keycloak:8080/mcp?q=a:b@c""#,
            r#""args":["--x=\ud83d\ude00"],"url":"https://h/@scope/key""#,
        ] {
            let line = format!(r#"{{"params":{{"mcpServers":[{{{member}}}]}},"token":"kept"}}"#);
            assert_eq!(blank(&line), line);
        }
    }

    proptest! {
        #[test]
        fn a_secret_is_never_left_behind_its_name(
            name in "(api[-_]?)?(token|key|secret|PASSWORD|Authorization)",
            before in "[a-z /?&:='\"-]{0,12}",
            sign in "[=:] ?",
        ) {
            let text = format!("{before}{name}{sign}S3CRET");
            let kept = without_secrets(&text).unwrap_or(text.clone());
            let is_host = before.trim_end_matches(is_of_a_name).ends_with("://");
            prop_assert!(is_host || !kept.contains("S3CRET"), "{text} {kept}");
        }
    }
}
