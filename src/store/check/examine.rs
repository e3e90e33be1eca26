//! One log, read as a load reads it, and what a load would make of it.

use super::progress::Watched;
use crate::disk::fs::ReadAt;
use crate::disk::paths::Encoding;
use crate::disk::read::damage::{Damage, Problem, ReadError, Verdict};
use crate::disk::read::reader::{ReadLimits, Scan, read_log};
use crate::log::Offset;
use crate::session::{History, Rules};
use crate::store::loader::LogLoader;

/// What a load makes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It loads as it is.
    Ok,
    /// It loads, and its first write mends what a crash or a running writer has left.
    Repairable,
    /// It loads, but what is cut off by that is no mere trace of a crash.
    Damaged,
    /// It is refused.
    Corrupt,
    /// It may be sound for another program, or where its types are declared.
    Unsupported,
    /// A later generation of the format beside it continues it.
    Superseded,
    /// It is larger than the limits here.
    Limit,
    /// The disk does not give it.
    Unreadable,
    /// There is no log.
    Empty,
}

impl Status {
    /// Whether verify is to answer 1 for it.
    pub(crate) fn is_bad(self) -> bool {
        !matches!(self, Self::Ok | Self::Repairable | Self::Empty)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Repairable => "repairable",
            Self::Damaged => "damaged",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Superseded => "superseded",
            Self::Limit => "limit",
            Self::Unreadable => "unreadable",
            Self::Empty => "empty",
        }
    }

    fn of(verdict: Option<Verdict>) -> Self {
        match verdict {
            Some(Verdict::Corrupt) => Self::Corrupt,
            Some(Verdict::Unsupported) => Self::Unsupported,
            Some(Verdict::Limit(_)) => Self::Limit,
            None => Self::Unreadable,
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Finding {
    /// Where, as an editor counts; 1 is the header. None when it concerns no line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    /// The line's first byte in the file; in a compressed log the first one of its frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) byte: Option<u64>,
    /// FORMAT's class of what the log is refused for, [`Damage::torn_class`] of what a load cuts off, or the empty text.
    pub(crate) class: &'static str,
    /// What is wrong.
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn whole(class: &'static str, message: String) -> Self {
        Self { line: None, byte: None, class, message }
    }

    fn of(problem: &Problem) -> Self {
        let message = problem.damage.to_string();
        match problem.damage {
            Damage::InheritedExceeds { .. } => Self::whole(problem.class(), message),
            _ => Self {
                line: Some(problem.place.line()),
                byte: Some(problem.place.offset),
                class: problem.class(),
                message,
            },
        }
    }
}

/// What reading a log has shown.
pub(crate) struct Examined {
    pub(crate) status: Status,
    pub(crate) findings: Vec<Finding>,
    /// Findings beyond those.
    pub(crate) more: u64,
    /// The log itself; none when its header does not read.
    pub(crate) log: Option<Sound>,
}

/// A log whose header reads.
pub(crate) struct Sound {
    pub(crate) scan: Scan,
    /// Events in whole records that are no part of that prefix.
    pub(crate) beyond: u64,
    /// The longest valid prefix, with the closers of an open turn.
    pub(crate) history: History,
    /// How many closers that are; none when an open turn cannot be closed.
    pub(crate) closers: Option<u64>,
}

/// Reads the first `len` bytes of a log.
pub(crate) fn examine(source: &Watched<'_>, len: u64, encoding: Encoding, rules: Rules<'_>) -> Examined {
    let mut loader = LogLoader::strict(rules);
    let scan = match read_log(source, len, encoding, limits_of(rules), &mut loader) {
        Ok(scan) => scan,
        Err(error) => return Examined::headless(&error),
    };
    let loss = scan.loss();
    let (mut findings, more, whole) = match scan.failure().is_some() || loss.is_some() {
        true => judge_all(source, len, encoding, rules, &scan),
        false => None,
    }
    .unwrap_or_else(|| told(&loader, &scan, &scan));
    let mut history = loader.into_history();
    let (mut status, mut closers) = (status_of(&scan), None);
    match history.close_turn(None, rules) {
        Ok(count) => closers = Some(count),
        Err(refusal) => {
            let message = format!("the open turn cannot be closed: {refusal}");
            findings.push(Finding::whole("", message));
            if !status.is_bad() || status == Status::Damaged {
                status = Status::Corrupt;
            }
        }
    }
    if status == Status::Ok && closers != Some(0) {
        status = Status::Repairable;
    }
    let beyond = whole.saturating_sub(scan.events.get());
    Examined { status, findings, more, log: Some(Sound { scan, beyond, history, closers }) }
}

fn limits_of(rules: Rules<'_>) -> ReadLimits {
    ReadLimits::for_events(rules.limits.max_event_bytes)
}

fn status_of(scan: &Scan) -> Status {
    if let Some(problem) = scan.failure() {
        return Status::of(Some(problem.damage.verdict()));
    }
    match (scan.loss(), scan.torn, scan.missing_newline) {
        (Some(_), ..) => Status::Damaged,
        (None, None, false) => Status::Ok,
        (None, ..) => Status::Repairable,
    }
}

/// What is wrong with a log, how many things more, and how many events its whole records hold.
type Told = (Vec<Finding>, u64, u64);

/// The reading of a load ends where it knows enough; this one judges every record.
fn judge_all(
    source: &dyn ReadAt,
    len: u64,
    encoding: Encoding,
    rules: Rules<'_>,
    load: &Scan,
) -> Option<Told> {
    let mut loader = LogLoader::lenient(rules);
    let scan = read_log(source, len, encoding, limits_of(rules), &mut loader).ok()?;
    Some(told(&loader, &scan, load))
}

fn told(loader: &LogLoader<'_>, scan: &Scan, load: &Scan) -> Told {
    let (problems, more) = loader.problems(scan);
    let is_refused = load.failure().is_some();
    let finding = |problem: &Problem| {
        let class = if is_refused { problem.class() } else { problem.damage.torn_class() };
        Finding { class, ..Finding::of(problem) }
    };
    (problems.into_iter().map(finding).collect(), more, scan.events.get() + scan.counts.stranded)
}

impl Examined {
    fn headless(error: &ReadError) -> Self {
        let (line, byte) = match error {
            ReadError::Io(_) => (None, None),
            _ => (Some(1), Some(0)),
        };
        let finding = Finding { line, byte, class: error.class(), message: error.to_string() };
        let status = Status::of(error.verdict());
        Self { status, findings: vec![finding], more: 0, log: None }
    }
}

impl Sound {
    /// The first line that is no part of the valid prefix; none when all are.
    pub(crate) fn first_bad_line(&self) -> Option<u64> {
        let mut problems = self.scan.problems.iter();
        let first = problems.find(|problem| !matches!(problem.damage, Damage::InheritedExceeds { .. }));
        first.map(|problem| problem.place.line())
    }

    /// What the first write of a load writes after the cut, closers not among it: a missing line end, and events whose
    /// frame is cut.
    pub(crate) fn first_write(&self, to: Offset) -> Vec<u8> {
        let mut first = Vec::new();
        if self.scan.missing_newline {
            first.push(b'\n');
        }
        for lines in self.history.log().lines(self.scan.recovered_from, to) {
            first.extend_from_slice(lines.as_bytes());
        }
        first
    }
}
