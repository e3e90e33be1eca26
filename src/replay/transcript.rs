//! The text form of a transcript: strict parsing, and printing that gives the same text back.
//!
//! Every item is exactly one line of the file, so the item at index `n` stands on line `n + 1`. Each line has one
//! spelling only: what can be written as text is written as text, everything else as base64. Hence
//! `parse(print(t)) == t` and `print(parse(s)) == s`.

use std::path::{Component, Path};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::faults::{FAULT_ERRNOS, FAULT_OPS};
use super::flags::Flags;

/// What starts the comment that holds the daemon's flags.
pub(super) const ARGS: &str = "args:";

/// A parsed transcript, line by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transcript {
    /// The lines of the file, in order.
    pub(super) items: Vec<Item>,
    /// The daemon's flags.
    pub(super) flags: Flags,
}

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// `# text`
    Comment(String),
    /// An empty line.
    Blank,
    /// `> text`: a line sent. Without its newline (`>- text`) it can only be the last thing that a daemon gets.
    Send {
        /// The bytes, without the newline.
        line: Vec<u8>,
        /// Whether a newline follows.
        ended: bool,
    },
    /// `< text`: a line that must come back (its bytes, without the newline).
    Expect(Vec<u8>),
    /// `! step`
    Step(Step),
}

/// Something done to the daemon or to its store, other than sending a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Copies a fixture, a directory below the transcript's own, into the store's root.
    Copy(String),
    /// Makes the next storage operation of that name fail.
    Fault {
        /// The operation, as the daemon names it.
        op: &'static str,
        /// The name of the error, such as `ENOSPC`.
        errno: &'static str,
    },
    /// Closes the daemon's stdin; it has to leave with exit code 0.
    Eof,
    /// Kills the daemon without warning.
    Kill,
    /// Starts a fresh daemon with the same flags over the same store (after `! eof`, if one still runs).
    Restart,
}

/// What is wrong with one line of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file is not text.
    #[error("the file is not UTF-8; write lines that are not text as `>b BASE64` or `<b BASE64`")]
    NotUtf8,
    /// The file does not begin with a title.
    #[error("a transcript starts with its title, `# …`")]
    NoTitle,
    /// No known marker at the start of the line.
    #[error("a line starts with `# `, `> `, `>b `, `>- `, `>b- `, `< `, `<b ` or `! `, or is empty")]
    UnknownLine,
    /// Nothing after the marker.
    #[error("nothing follows the marker; an empty line on the wire is `>b` or `<b` alone")]
    Empty,
    /// Text that editors, or readers of lines, would change.
    #[error(
        "control characters, line separators, byte order marks and trailing white space are written as `>b BASE64` or `<b BASE64`, and not at all in comments and steps"
    )]
    NotPlain,
    /// Not base64.
    #[error("not padded standard base64 ({0})")]
    Base64(String),
    /// Base64 for what can be read as text.
    #[error("this line can be written as text: leave the `b` out and write {0:?}")]
    NeedlessBase64(String),
    /// A line end inside a line.
    #[error("a line holds no line end: write one transcript line for each")]
    LineEnd,
    /// No such step, or not with these words.
    #[error("the steps are `! copy DIR`, `! fault OP ERRNO`, `! eof`, `! kill -9` and `! restart`")]
    UnknownStep,
    /// The flags cannot be split into words.
    #[error("the flags after `# args:` end inside a quote or after a backslash")]
    OpenQuote,
    /// A store that is not of the run.
    #[error(
        "a transcript uses no store but that of its run: write `--store memory:` or `--store jsonl:$STORE`, not {0:?}"
    )]
    ForeignStore(String),
    /// A flag that names a file.
    #[error("a transcript names no files: leave `{0}` out (faults are `! fault OP ERRNO`)")]
    FileFlag(&'static str),
    /// A fixture that is not named by a way down from the transcript's directory.
    #[error(
        "`! copy` takes a directory below the transcript's own, as in `! copy fixtures/store`: {0:?} leads out of that"
    )]
    OutsideCopy(String),
    /// An operation that no daemon has.
    #[error("no operation of storage is called {0:?}; there are {ops}", ops = FAULT_OPS.join(", "))]
    UnknownOperation(String),
    /// An error that no operation gives.
    #[error("no error is called {0:?}; there are {errnos}", errnos = FAULT_ERRNOS.join(", "))]
    UnknownErrno(String),
    /// A second `# args:`, or one after the first step.
    #[error("`# args:` stands once, before the first line that is sent and the first step")]
    LateArgs,
    /// An expected line that nothing can have caused.
    #[error("nothing that was done here is answered: `<` lines follow `>` lines, `! eof` or `! restart`")]
    NothingSent,
    /// A line or step for a daemon that has ended.
    #[error("no daemon runs here; write `! restart` first")]
    NotRunning,
    /// A line without its newline, and more to come.
    #[error("after a line without its newline (`>-`) only `! eof` or `! kill -9` can come")]
    Unended,
    /// `! copy` or `! fault` for a store that has no directory.
    #[error("`! copy` and `! fault` need a store directory: write `--store jsonl:$STORE` in `# args:`")]
    NoStore,
}

impl Transcript {
    /// Parses the bytes of a transcript file; the error says on which line.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, (usize, Problem)> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            (1 + before.iter().filter(|byte| **byte == b'\n').count(), Problem::NotUtf8)
        })?;
        let mut items = Vec::new();
        for (index, line) in text.strip_suffix('\n').unwrap_or(text).split('\n').enumerate() {
            items.push(Item::parse(line).map_err(|problem| (index + 1, problem))?);
        }
        match items.first() {
            Some(Item::Comment(title)) if !title.is_empty() && !title.starts_with(ARGS) => {}
            _ => return Err((1, Problem::NoTitle)),
        }
        let flags = flags_of(&items)?;
        Ok(Self { items, flags })
    }

    /// The text of the file.
    pub(super) fn print(&self) -> String {
        let mut text = String::new();
        for item in &self.items {
            text.push_str(&item.print());
            text.push('\n');
        }
        text
    }
}

/// The flags that the items say, added to the defaults.
fn flags_of(items: &[Item]) -> Result<Flags, (usize, Problem)> {
    let mut flags = None;
    let mut late = false;
    for (index, item) in items.iter().enumerate() {
        match item.args() {
            Some(_) if late => return Err((index + 1, Problem::LateArgs)),
            Some(args) => {
                flags = Some(Flags::parse(args).map_err(|problem| (index + 1, problem))?);
                late = true;
            }
            None => late |= !matches!(item, Item::Comment(_) | Item::Blank),
        }
    }
    Ok(flags.unwrap_or_default())
}

impl Item {
    /// The item that stands for these bytes on the wire, going to the daemon.
    pub(super) fn send(line: &[u8], ended: bool) -> Self {
        Self::Send { line: line.to_vec(), ended }
    }

    /// The text of this line, without its line end.
    pub(super) fn print(&self) -> String {
        match self {
            Self::Comment(text) if text.is_empty() => "#".to_owned(),
            Self::Comment(text) => format!("# {text}"),
            Self::Blank => String::new(),
            Self::Send { line, ended: true } => print_line(">", "", line),
            Self::Send { line, ended: false } => print_line(">", "-", line),
            Self::Expect(line) => print_line("<", "", line),
            Self::Step(Step::Copy(directory)) => format!("! copy {directory}"),
            Self::Step(Step::Fault { op, errno }) => format!("! fault {op} {errno}"),
            Self::Step(Step::Eof) => "! eof".to_owned(),
            Self::Step(Step::Kill) => "! kill -9".to_owned(),
            Self::Step(Step::Restart) => "! restart".to_owned(),
        }
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        if text.is_empty() {
            return Ok(Self::Blank);
        }
        if !is_plain(text) {
            return Err(Problem::NotPlain);
        }
        let (marker, rest) = text.split_once(' ').map_or((text, None), |(marker, rest)| (marker, Some(rest)));
        Ok(match marker {
            "#" => Self::Comment(rest.unwrap_or_default().to_owned()),
            ">" => Self::send(rest.ok_or(Problem::Empty)?.as_bytes(), true),
            ">-" => Self::send(rest.ok_or(Problem::Empty)?.as_bytes(), false),
            "<" => Self::Expect(rest.ok_or(Problem::Empty)?.as_bytes().to_vec()),
            ">b" => Self::Send { line: decode(rest)?, ended: true },
            ">b-" => Self::Send { line: decode(rest)?, ended: false },
            "<b" => Self::Expect(decode(rest)?),
            "!" => Self::Step(Step::parse(rest.unwrap_or_default())?),
            _ => return Err(Problem::UnknownLine),
        })
    }

    fn args(&self) -> Option<&str> {
        match self {
            Self::Comment(text) => text.strip_prefix(ARGS),
            _ => None,
        }
    }
}

impl Step {
    fn parse(text: &str) -> Result<Self, Problem> {
        Ok(match text {
            "eof" => Self::Eof,
            "kill -9" => Self::Kill,
            "restart" => Self::Restart,
            _ => {
                if let Some(directory) = text.strip_prefix("copy ").filter(|rest| rest.trim() == *rest) {
                    let leads_down = |part| matches!(part, Component::Normal(_) | Component::CurDir);
                    if !Path::new(directory).components().all(leads_down) {
                        return Err(Problem::OutsideCopy(directory.to_owned()));
                    }
                    return Ok(Self::Copy(directory.to_owned()));
                }
                let words = text.strip_prefix("fault ").and_then(|rest| rest.split_once(' '));
                let (op, errno) = words.ok_or(Problem::UnknownStep)?;
                let known =
                    |names: &[&'static str], name| names.iter().find(|known| **known == name).copied();
                Self::Fault {
                    op: known(&FAULT_OPS, op).ok_or_else(|| Problem::UnknownOperation(op.to_owned()))?,
                    errno: known(&FAULT_ERRNOS, errno)
                        .ok_or_else(|| Problem::UnknownErrno(errno.to_owned()))?,
                }
            }
        })
    }
}

/// Whether a line of text survives editors and line readers, and is seen as it is.
pub(super) fn is_plain(text: &str) -> bool {
    let odd = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    !text.is_empty() && text.trim_end() == text && !text.contains(odd)
}

fn print_line(direction: &str, ending: &str, line: &[u8]) -> String {
    match std::str::from_utf8(line) {
        Ok(text) if is_plain(text) => format!("{direction}{ending} {text}"),
        _ if line.is_empty() => format!("{direction}b{ending}"),
        _ => format!("{direction}b{ending} {}", STANDARD.encode(line)),
    }
}

fn decode(text: Option<&str>) -> Result<Vec<u8>, Problem> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let bytes = STANDARD.decode(text).map_err(|error| Problem::Base64(error.to_string()))?;
    match std::str::from_utf8(&bytes) {
        _ if bytes.is_empty() => Err(Problem::Empty),
        _ if bytes.contains(&b'\n') => Err(Problem::LineEnd),
        Ok(text) if is_plain(text) => Err(Problem::NeedlessBase64(text.chars().take(60).collect())),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wire_line() -> impl Strategy<Value = Vec<u8>> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..12);
        prop_oneof![
            bytes,
            "\\PC{0,12}".prop_map(String::into_bytes),
            "[ \\ta-c\u{2028}\r]{0,4}".prop_map(String::into_bytes)
        ]
        .prop_map(|line| line.into_iter().filter(|byte| *byte != b'\n').collect())
    }

    fn words() -> impl Strategy<Value = String> {
        "[a-zA-Z/é'\\\\][a-zA-Z/é'\\\\ ]{0,8}[a-z]"
            .prop_filter("args are checked apart", |text| !text.starts_with(ARGS))
    }

    fn item() -> impl Strategy<Value = Item> {
        prop_oneof![
            prop_oneof![words(), Just(String::new())].prop_map(Item::Comment),
            Just(Item::Blank),
            (wire_line(), any::<bool>()).prop_map(|(line, ended)| Item::Send { line, ended }),
            wire_line().prop_map(Item::Expect),
            words().prop_map(|directory| Item::Step(Step::Copy(directory.replace('/', "d")))),
            (proptest::sample::select(&FAULT_OPS[..]), proptest::sample::select(&FAULT_ERRNOS[..]))
                .prop_map(|(op, errno)| Item::Step(Step::Fault { op, errno })),
            Just(Item::Step(Step::Eof)),
            Just(Item::Step(Step::Kill)),
            Just(Item::Step(Step::Restart)),
        ]
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(items in proptest::collection::vec(item(), 0..12)) {
            let mut all = vec![Item::Comment("title".to_owned())];
            all.extend(items);
            let transcript = Transcript { items: all, flags: Flags::default() };
            let text = transcript.print();
            prop_assert_eq!(Transcript::parse(text.as_bytes()).unwrap(), transcript);
        }
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let cases: &[(&[u8], usize, &str)] = &[
            (b"", 1, "starts with its title"),
            (b"# args: --x\n", 1, "starts with its title"),
            (b"# t\n>{}\n", 2, "a line starts with"),
            (b"# t\n\n> \n", 3, "trailing white space"),
            (b"# t\n>\n", 2, "`>b` or `<b` alone"),
            (b"# t\n> {}\r\n", 2, "`>b BASE64`"),
            (b"# t\n>b e30=\n", 2, "leave the `b` out and write \"{}\""),
            (b"# t\n>b e3\n", 2, "base64"),
            (b"# t\n>b YQpi\n", 2, "no line end"),
            (b"# t\n! kill\n", 2, "the steps are"),
            (b"# t\n! fault write\n", 2, "the steps are"),
            (b"# t\n! fault write enospc\n", 2, "ENOSPC"),
            (b"# t\n! fault nosuch EIO\n", 2, "no operation of storage is called \"nosuch\""),
            (b"# t\n! copy /etc\n", 2, "below the transcript's own"),
            (b"# t\n# args: --store jsonl:/srv\n", 2, "not \"jsonl:/srv\""),
            (b"# t\n\n# args: --record=x\n", 3, "leave `--record` out"),
            (b"# t\n> {}\n# args: --x\n", 3, "stands once"),
            (b"# t\n# args: 'a\n", 2, "inside a quote"),
            (b"# t\n> \xff\n", 2, "not UTF-8"),
        ];
        for (bytes, line, part) in cases {
            let (at, problem) = Transcript::parse(bytes).unwrap_err();
            assert_eq!(at, *line, "{problem}");
            assert!(problem.to_string().contains(part), "{problem}");
        }
    }
}
