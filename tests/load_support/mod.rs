//! Loading as the daemon does it: the reader's events go through the one validator, then the closers.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

pub mod store;

use sessiond::disk::paths::Encoding;
use sessiond::disk::read::damage::{Refused, TooLow, Verdict};
use sessiond::disk::read::reader::{ReadLimits, Scan, Sink, StoredEvent, read_log};
use sessiond::log::{Draft, Event, Header, Log, Offset, Seq};
use sessiond::session::{Candidate, History, Limits, Refusal, Rules, Vocabulary};

/// Keeps what a log holds, validated.
#[derive(Default)]
pub struct Loader {
    pub history: History,
    /// Copies every line, instead of keeping the texts that were read.
    pub copies: bool,
    vocabulary: Vocabulary,
    limits: Limits,
}

pub fn refused(refusal: &Refusal) -> Refused {
    let (verdict, class) = match refusal {
        Refusal::UnknownType(_) => (Verdict::Unsupported, "EVENT_TYPE_UNKNOWN"),
        Refusal::Limit { limit, max } => (Verdict::Limit(TooLow { limit, max: *max }), ""),
        Refusal::Shape(error) => (Verdict::Corrupt, error.class()),
        Refusal::Surface(error) => (Verdict::Corrupt, error.rule()),
        _ => (Verdict::Corrupt, ""),
    };
    Refused { verdict, class, reason: refusal.to_string() }
}

impl Sink for Loader {
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        let line = event.draft.line.filter(|_| !self.copies);
        let candidate = Candidate::stored(Draft { line, ..*event.draft }, event.row, event.checks);
        let rules = Rules { vocabulary: &self.vocabulary, limits: &self.limits };
        let seq =
            self.history.admit_stored(&candidate, event.time, rules).map_err(|error| refused(&error))?;
        assert_eq!(seq, event.seq);
        Ok(())
    }

    fn event_at(&self, seq: Seq) -> Option<Event<'_>> {
        self.history.log().get(seq)
    }

    fn retract(&mut self, to: Offset) {
        self.history.retract(to);
    }
}

/// Keeps what a log holds, unchecked.
#[derive(Default)]
pub struct Keeper {
    pub log: Log,
}

impl Sink for Keeper {
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        assert_eq!(self.log.push(event.draft, event.time).0, event.seq);
        Ok(())
    }

    fn event_at(&self, seq: Seq) -> Option<Event<'_>> {
        self.log.get(seq)
    }

    fn retract(&mut self, to: Offset) {
        self.log.truncate(to);
    }
}

/// What a load answers.
pub struct Loaded {
    pub header: Header,
    pub inherited: u64,
    pub history: History,
    pub closers: u64,
    pub scan: Scan,
}

impl Loaded {
    pub fn lines(&self) -> Vec<&str> {
        self.history.log().iter().map(|event| event.line()).collect()
    }
}

/// Loads a log, or gives the class and the message of what refuses it.
pub fn load(bytes: &[u8], encoding: Encoding) -> Result<Loaded, (String, String)> {
    let mut loader = Loader::default();
    let scan = read_log(&bytes, bytes.len() as u64, encoding, ReadLimits::default(), &mut loader)
        .map_err(|error| (error.class().to_owned(), error.to_string()))?;
    assert_eq!(scan.events, loader.history.log().len());
    check(&scan, bytes.len() as u64);
    if let Some(problem) = scan.failure() {
        return Err((problem.class().to_owned(), problem.to_string()));
    }
    let Loader { mut history, vocabulary, limits, .. } = loader;
    let closers = history
        .close_turn(None, Rules { vocabulary: &vocabulary, limits: &limits })
        .map_err(|refusal| (String::new(), refusal.to_string()))?;
    let (header, inherited) = (scan.header.clone(), scan.inherited.get());
    Ok(Loaded { header, inherited, history, closers, scan })
}

/// What holds for every scan.
pub fn check(scan: &Scan, len: u64) {
    assert!(scan.header_bytes <= scan.committed && scan.committed <= len);
    assert!(scan.recovered_from <= scan.events);
    match scan.torn {
        Some(torn) => assert_eq!((torn.offset, torn.offset + torn.bytes), (scan.committed, len)),
        None => assert_eq!(scan.committed, len),
    }
    assert!(scan.problems.len() as u64 <= scan.problem_count);
    for problem in &scan.problems {
        assert!(problem.place.offset <= len);
        assert!(!problem.to_string().is_empty());
    }
}

/// The file after a load has repaired it, for a plain log: what is cut is cut, what is missing is added.
pub fn repaired(bytes: &[u8], loaded: &Loaded) -> Vec<u8> {
    let scan = &loaded.scan;
    let mut out = bytes[..usize::try_from(scan.committed).unwrap()].to_vec();
    let log = loaded.history.log();
    if scan.missing_newline {
        out.push(b'\n');
    }
    for lines in log.lines(scan.recovered_from, log.len()) {
        out.extend_from_slice(lines.as_bytes());
    }
    out
}
