//! A list of sessions with the facts that it shows, read once and remembered (PROTOCOL 3, Listing).

use std::collections::HashMap;
use std::io;

use super::find::is_absent;
use super::list::{Artifact, Skipped, Status, Walk, walk};
use super::summary::{Facts, FactsSink, UntilSink, read_summary};
use crate::disk::fs::{FileSystem, Metadata};
use crate::disk::read::damage::{ReadError, TooLow, Verdict};
use crate::disk::read::reader::{ReadLimits, read_log};

/// What a file was when it was read. Compared for equality only (FORMAT 13.5).
type Revision = (u64, u64, u64, i128, i128);

fn revision(meta: &Metadata) -> Revision {
    (meta.dev, meta.ino, meta.len, meta.mtime_ns, meta.ctime_ns)
}

/// Why a load refuses a log: what that means, FORMAT's class, and what is wrong.
pub type Failure = (Verdict, &'static str, String);

/// What reading a log has shown.
#[derive(Clone, Debug)]
struct Read {
    facts: Facts,
    failure: Option<Failure>,
    /// What a load would lose, as [`Scan::loss`](crate::disk::read::reader::Scan::loss) says.
    loss: Option<String>,
}

/// Lists a store's sessions. It keeps in memory what it had to read a whole log for; it never writes.
pub struct Catalogue {
    limits: ReadLimits,
    /// A log with a longer event is over a limit.
    max_event_bytes: u64,
    known: HashMap<Revision, Read>,
    /// Logs that others have read since the last list, and refused, or found to have lost something.
    refused: HashMap<Revision, Option<Failure>>,
    /// What [`Self::active_until`] has found, and for which moment.
    until: HashMap<Revision, (i64, Option<i64>)>,
}

/// One stored session and what a list shows of it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What it is and whether it can be opened.
    pub artifact: Artifact,
    /// The facts of its log; those of the sound part, when it is damaged.
    pub facts: Facts,
}

/// A list, and what it cannot show.
#[derive(Debug, Default)]
pub struct Listing {
    /// The sessions, in byte order of their places.
    pub sessions: Vec<Listed>,
    /// See [`Walk::skipped`].
    pub skipped: Vec<Skipped>,
}

impl Default for Catalogue {
    /// One that holds events to no limit.
    fn default() -> Self {
        Self {
            limits: ReadLimits::default(),
            max_event_bytes: u64::MAX,
            known: HashMap::new(),
            refused: HashMap::new(),
            until: HashMap::new(),
        }
    }
}

impl Catalogue {
    /// A catalogue of logs whose events may have so many bytes.
    #[must_use]
    pub fn for_events(max_event_bytes: usize) -> Self {
        let limits = ReadLimits::for_events(max_event_bytes);
        Self { limits, max_event_bytes: max_event_bytes as u64, ..Self::default() }
    }

    /// Notes that the whole log of these facts was read and refused, or, without a failure, found damaged: until it changes
    /// no summary says otherwise.
    pub fn refuse(&mut self, meta: &Metadata, failure: Option<Failure>) {
        let revision = revision(meta);
        match self.known.get_mut(&revision) {
            Some(read) => read.failure = read.failure.take().or(failure),
            None => drop(self.refused.insert(revision, failure)),
        }
    }

    /// Lists the sessions of a store.
    ///
    /// A log whose summary fits is not read beyond its header; another is read once, until it changes.
    ///
    /// # Errors
    /// The errno of reading the root.
    pub fn list(&mut self, fs: &dyn FileSystem) -> io::Result<Listing> {
        let Walk { artifacts, skipped } = walk(fs)?;
        let mut known = std::mem::take(&mut self.known);
        let mut sessions = Vec::with_capacity(artifacts.len());
        for mut artifact in artifacts {
            if let Some(facts) = self.facts(fs, &mut artifact, &mut known) {
                self.judge(&mut artifact, facts.longest);
                sessions.push(Listed { artifact, facts });
            }
        }
        self.refused.clear(); // those that are there are known by now
        Ok(Listing { sessions, skipped })
    }

    /// The time of a log's last activity that is not behind `moment`: what a list that began then goes by. The log is read
    /// for it, once for a moment. None where there is no such event, or where the log does not read.
    pub fn active_until(&mut self, fs: &dyn FileSystem, artifact: &Artifact, moment: i64) -> Option<i64> {
        /// More than are active while one list is paged.
        const MOST: usize = 10_000;
        let (log, meta) = (artifact.log.as_ref()?, artifact.meta.as_ref()?);
        let revision = revision(meta);
        if let Some((_, found)) = self.until.get(&revision).filter(|(of, _)| *of == moment) {
            return *found;
        }
        let mut sink = UntilSink::new(moment);
        let file = fs.open_read(&log.log()).ok()?;
        read_log(file.as_ref(), meta.len, log.encoding(), self.limits, &mut sink).ok()?;
        if self.until.len() >= MOST {
            self.until.clear();
        }
        self.until.insert(revision, (moment, sink.found()));
        sink.found()
    }

    /// Says what a load will say of a log with events over the limit.
    fn judge(&self, artifact: &mut Artifact, longest: u64) {
        let max = self.max_event_bytes;
        if matches!(artifact.status, Status::Ok | Status::Damaged) && longest > max {
            let verdict = Verdict::Limit(TooLow { limit: "maxEventBytes", max });
            let reason = format!(
                "it holds an event of {longest} bytes, more than {max}: start the daemon with a larger --max-event-bytes"
            );
            artifact.judged(verdict, "", reason);
        }
    }

    /// The facts of one log, and what is wrong with it; none when it was removed since it was walked past. What
    /// `known` said of logs that are gone is forgotten.
    fn facts(
        &mut self,
        fs: &dyn FileSystem,
        artifact: &mut Artifact,
        known: &mut HashMap<Revision, Read>,
    ) -> Option<Facts> {
        let (Some(log), Some(meta), Some(_)) = (&artifact.log, &artifact.meta, &artifact.header) else {
            return Some(Facts::default());
        };
        let revision = revision(meta);
        if let Some(read) = known.remove(&revision) {
            let facts = read.show(artifact);
            self.known.insert(revision, read);
            return Some(facts);
        }
        let refused = self.refused.remove(&revision);
        let tail = artifact.tail.filter(|_| refused.is_none());
        if let Some(facts) =
            tail.and_then(|tail| read_summary(fs, log, &artifact.header_line, meta.len, tail))
        {
            return Some(facts);
        }
        let mut sink = FactsSink::default();
        let read = match fs.open_read(&log.log()) {
            Err(error) if is_absent(&error) => return None,
            read => read.map_err(ReadError::Io),
        };
        let len = meta.len;
        let facts = match read
            .and_then(|file| read_log(file.as_ref(), len, log.encoding(), self.limits, &mut sink))
        {
            Ok(scan) => {
                let failure = scan
                    .failure()
                    .map(|problem| (problem.damage.verdict(), problem.class(), problem.to_string()))
                    .or(refused.flatten());
                let read = Read { facts: sink.facts(), failure, loss: scan.loss() };
                let facts = read.show(artifact);
                self.known.insert(revision, read);
                facts
            }
            Err(error) => {
                if artifact.status == Status::Ok {
                    artifact.fails(&error);
                }
                Facts::default()
            }
        };
        Some(facts)
    }
}

impl Read {
    fn show(&self, artifact: &mut Artifact) -> Facts {
        if artifact.status == Status::Ok {
            match (&self.failure, &self.loss) {
                (Some((verdict, class, reason)), _) => artifact.judged(*verdict, class, reason.clone()),
                (None, Some(loss)) => artifact.is(Status::Damaged, "", loss.clone()),
                (None, None) => {}
            }
        }
        self.facts.clone()
    }
}
