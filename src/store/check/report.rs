//! What verify tells: a block of text or a line of JSON for each session, and a count.

use std::io::{self, Write};

use serde::Serialize;

use super::examine::{Examined, Finding, Status};
use crate::disk::catalog::find::Later;
use crate::disk::catalog::list::Status as WalkStatus;
use crate::disk::read::reader::counted;

/// What is told of one session; with `--json` this very object, a line each.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionReport {
    /// Its id; of a damaged or odd one the id that its place stands for.
    pub(crate) session: String,
    /// The log, or its directory when there is none, below the store.
    pub(crate) path: String,
    pub(crate) status: Status,
    /// Bytes of the log.
    pub(crate) bytes: u64,
    /// Events of the longest valid prefix.
    pub(crate) events: u64,
    pub(crate) problems: Vec<Finding>,
    /// Problems beyond those.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) more_problems: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) torn_tail: Option<Torn>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) missing_newline: bool,
    /// Events with which a load closes an open turn.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) closers: u64,
    /// Events in records that are whole, from the first damage on.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) stranded: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) locked_by: Option<Owner>,
    /// What is told and is not wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// It is its own ancestor.
    #[serde(skip)]
    pub(crate) is_looped: bool,
    /// `sessiond repair` can do something for it.
    #[serde(skip)]
    pub(crate) repair: bool,
}

/// The end that the first write after a load cuts off.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Torn {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Events in its whole records.
    pub(crate) events: u64,
}

/// The process that has a session open; nothing is known of one whose hint does not read.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Owner {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl SessionReport {
    pub(crate) fn new(session: String, path: String, status: Status) -> Self {
        Self {
            session,
            path,
            status,
            bytes: 0,
            events: 0,
            problems: Vec::new(),
            more_problems: 0,
            torn_tail: None,
            missing_newline: false,
            closers: 0,
            stranded: 0,
            locked_by: None,
            notes: Vec::new(),
            is_looped: false,
            repair: false,
        }
    }

    /// Adds what reading the log has shown.
    pub(crate) fn add(&mut self, examined: Examined) {
        self.status = examined.status;
        self.problems = examined.findings;
        self.more_problems = examined.more;
        self.repair = matches!(self.status, Status::Repairable | Status::Damaged);
        let Some(mut log) = examined.log else { return };
        self.repair |= self.status == Status::Corrupt && log.closers.is_some();
        self.events = log.scan.events.get();
        self.torn_tail = log.scan.torn.filter(|_| log.scan.failure().is_none()).map(|torn| Torn {
            offset: torn.offset,
            bytes: torn.bytes,
            events: torn.events,
        });
        self.missing_newline = log.scan.missing_newline;
        self.closers = log.closers.unwrap_or(0);
        self.stranded = log.beyond;
        if let Some(witness) = log.scan.witness {
            self.notes.push(format!(
                "line {} ends a turn behind the damage, so a load refuses the log",
                witness.line()
            ));
        }
        self.notes.extend(log.history.warnings());
    }

    /// Adds what the walk through the store has found: what is wrong with the place, or another generation of the format.
    pub(crate) fn walked(&mut self, status: WalkStatus, class: &'static str, message: String) {
        let other = match status {
            WalkStatus::Superseded => Status::Superseded,
            WalkStatus::Unreadable => Status::Unreadable,
            WalkStatus::Unsupported if class == Later::CLASS => Status::Unsupported,
            _ => return self.misplaced(class, message),
        };
        self.misplaced(class, message);
        if self.status == Status::Corrupt {
            self.status = other;
        }
    }

    /// Adds what is wrong with the place, unless reading has said it.
    pub(crate) fn misplaced(&mut self, class: &'static str, message: String) {
        let said = |finding: &Finding| finding.message == message || message.ends_with(&finding.message);
        if self.problems.iter().any(said) {
            return;
        }
        self.problems.insert(0, Finding::whole(class, message));
        if !self.status.is_bad() || self.status == Status::Damaged {
            self.status = Status::Corrupt;
        }
        self.repair = false;
    }

    /// Adds that the parents lead back to the session. It loads, with a warning (PROTOCOL 9.11).
    pub(crate) fn descends_from_itself(&mut self, message: String) {
        self.problems.push(Finding::whole("LINEAGE_LOOP", message));
        self.is_looped = true;
    }

    /// The log could not be opened.
    pub(crate) fn unreadable(&mut self, error: &io::Error) {
        self.status = Status::Unreadable;
        self.problems.push(Finding::whole("", format!("the log cannot be read: {error}")));
    }

    fn says_something(&self) -> bool {
        self.status != Status::Ok || !self.problems.is_empty() || !self.notes.is_empty()
    }

    /// Writes the session's block, or nothing when all is well.
    pub(crate) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.says_something() {
            return Ok(());
        }
        writeln!(out, "{}: {} ({})", self.status.word(), shown(&self.session), shown(&self.path))?;
        for problem in &self.problems {
            let class =
                if problem.class.is_empty() { String::new() } else { format!(" [{}]", problem.class) };
            match (problem.line, problem.byte) {
                (Some(line), Some(byte)) => {
                    writeln!(out, "  line {line} (byte {byte}): {}{class}", shown(&problem.message))?;
                }
                _ => writeln!(out, "  {}{class}", shown(&problem.message))?,
            }
        }
        if self.more_problems > 0 {
            writeln!(out, "  and {} more", counted(self.more_problems, "problem"))?;
        }
        let live = self.locked_by.is_some();
        if let Some(owner) = self.locked_by {
            let who = owner.pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
            writeln!(out, "  it is open in {who}")?;
        }
        if let Some(Torn { offset, bytes, events }) = self.torn_tail {
            let whole = match events {
                0 => String::new(),
                count => format!(", {} among them", counted(count, "whole event")),
            };
            let end = if live {
                "may be a write under way"
            } else {
                "the first write after a load keeps them beside the log and cuts them off"
            };
            writeln!(out, "  {} from byte {offset} on{whole}: {end}", counted(bytes, "byte"))?;
        } else if self.stranded > 0 {
            writeln!(out, "  {} behind the damage", counted(self.stranded, "whole event"))?;
        }
        if self.missing_newline && !live {
            writeln!(out, "  the last line has no line end: the first write after a load adds it")?;
        }
        let loads = matches!(self.status, Status::Repairable | Status::Damaged);
        if self.closers > 0 && loads && !live {
            let closers = counted(self.closers, "event");
            writeln!(
                out,
                "  a turn is open: a load closes it with {closers}, stored by the first write after it"
            )?;
        }
        for note in &self.notes {
            writeln!(out, "  {}", shown(note))?;
        }
        if self.repair && self.status.is_bad() {
            let kept = match self.events {
                0 => "header".to_owned(),
                1 => "first event".to_owned(),
                count => format!("first {count} events"),
            };
            writeln!(out, "  `sessiond repair` keeps the {kept}; see what it would do with --dry-run")?;
        }
        Ok(())
    }

    /// Writes the session's line of JSON.
    pub(crate) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

/// A text from a log or a file name, fit for a terminal.
pub(crate) fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// How many sessions there were of each status.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    sessions: u64,
    ok: u64,
    repairable: u64,
    damaged: u64,
    corrupt: u64,
    unsupported: u64,
    superseded: u64,
    limit: u64,
    unreadable: u64,
    empty: u64,
    /// Places that could not be looked into.
    skipped: u64,
    /// Those of them in which sessions may lie.
    #[serde(skip)]
    hidden: u64,
    /// Sessions that are their own ancestors.
    #[serde(skip)]
    looped: u64,
}

#[derive(Serialize)]
struct LastLine<'s> {
    summary: &'s Summary,
}

impl Summary {
    pub(crate) fn count(&mut self, report: &SessionReport) {
        let status = report.status;
        self.looped += u64::from(report.is_looped);
        self.sessions += u64::from(status != Status::Empty);
        *match status {
            Status::Ok => &mut self.ok,
            Status::Repairable => &mut self.repairable,
            Status::Damaged => &mut self.damaged,
            Status::Corrupt => &mut self.corrupt,
            Status::Unsupported => &mut self.unsupported,
            Status::Superseded => &mut self.superseded,
            Status::Limit => &mut self.limit,
            Status::Unreadable => &mut self.unreadable,
            Status::Empty => &mut self.empty,
        } += 1;
    }

    pub(crate) fn skip(&mut self, may_hold: bool) {
        self.skipped += 1;
        self.hidden += u64::from(may_hold);
    }

    /// Whether something was found that a load refuses, or would not mend without a loss, or a loop of parents.
    pub(crate) fn is_bad(&self) -> bool {
        let refused = self.corrupt + self.unsupported + self.superseded + self.limit + self.unreadable;
        self.damaged + refused + self.skipped + self.looped > 0
    }

    /// Whether something is there and nothing of it could be read.
    pub(crate) fn has_read_nothing(&self) -> bool {
        self.sessions == self.unreadable && self.unreadable + self.hidden > 0
    }

    pub(crate) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let counts = [
            (self.ok, "ok"),
            (self.repairable, "repairable"),
            (self.damaged, "damaged"),
            (self.corrupt, "corrupt"),
            (self.unsupported, "unsupported"),
            (self.superseded, "superseded"),
            (self.limit, "over a limit"),
            (self.unreadable, "unreadable"),
        ];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let mut line = counted(self.sessions, "session");
        if !counts.is_empty() {
            line.push_str(&format!(": {}", counts.join(", ")));
        }
        if self.empty > 0 {
            line.push_str(&format!(
                "; {} without a log",
                counted(self.empty, "directory").replace("ys", "ies")
            ));
        }
        if self.skipped > 0 {
            line.push_str(&format!("; {} not looked into", counted(self.skipped, "place")));
        }
        writeln!(out, "{line}")
    }

    pub(crate) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &LastLine { summary: self })?;
        out.write_all(b"\n")
    }
}
