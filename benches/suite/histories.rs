//! Sessions of a given length.

use crate::process::Process;
use crate::script::{append, new};

/// Appends are sent in portions of this many.
const PORTION: usize = 20_000;

/// Makes a session of `events` short messages.
pub fn messages(process: &mut Process, session: &str, events: usize) {
    process.call(&new(session));
    let line = |n: usize| {
        let data = format!(
            r#"{{"id":"m{n}","role":"user","content":[{{"type":"text","text":"yes"}}],"source":{{"kind":"user"}}}}"#
        );
        append(n, session, "user/message", &data, true)
    };
    process.call(&line(0));
    fill(process, 1..events, line);
}

/// Appends what `line` makes of each number.
pub fn fill(process: &mut Process, numbers: std::ops::Range<usize>, line: impl Fn(usize) -> String) {
    let mut at = numbers.start;
    while at < numbers.end {
        let until = (at + PORTION).min(numbers.end);
        let mut input = String::new();
        for n in at..until {
            input.push_str(&line(n));
            input.push('\n');
        }
        process.flood(input.as_bytes(), 2 * (until - at));
        at = until;
    }
}
