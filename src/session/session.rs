//! One live session.

use std::fmt;

use super::append::{Candidate, Rules};
use super::boundary::Boundary;
use super::history::{History, Validation};
use super::refusal::Refusal;
use super::seed::ends_in_marker;
use crate::json::{Checks, Json, JsonStr, MAX_SAFE_INTEGER, quote};
use crate::log::{Header, Log, Offset, Seq, SessionId, active_at};
use crate::view::View;

/// What the outside world gives to a command: the time, and fresh ids.
pub struct Context<'m> {
    now: i64,
    /// Where ids come from.
    pub ids: &'m mut dyn Ids,
}

impl<'m> Context<'m> {
    /// The moment of a clock that shows `now`, in milliseconds since the Unix epoch. A time that no log can hold is the
    /// nearest one that it can: an event's time is a safe integer (FORMAT 2).
    #[inline]
    pub fn at(now: i64, ids: &'m mut dyn Ids) -> Self {
        const MOST: i64 = MAX_SAFE_INTEGER as i64;
        Self { now: now.clamp(-MOST, MOST), ids }
    }

    /// The time of what is committed now, in milliseconds since the Unix epoch: a safe integer.
    #[inline]
    pub fn now(&self) -> i64 {
        self.now
    }

    /// The same as a header's `createdAt`, which is not negative (FORMAT 8).
    pub fn created_at(&self) -> u64 {
        u64::try_from(self.now).unwrap_or(0)
    }
}

/// A source of fresh ids.
pub trait Ids {
    /// `session-…`.
    fn session_id(&mut self) -> String;
    /// An instance's id.
    fn instance_id(&mut self) -> String;
    /// `msg-…`.
    fn message_id(&mut self) -> String;
    /// These message ids stand in a log that becomes live: none of them may come again.
    fn seen(&mut self, message_ids: &mut dyn Iterator<Item = &str>) {
        let _ = message_ids; // unique by themselves
    }
}

/// Stands for one life of a session: fresh each time it becomes live.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InstanceId(pub Box<str>);

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a load had to mend of a stored log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mended {
    /// Events that closed an open turn.
    pub closers: u64,
    /// Bytes of the end that the first write cuts off.
    pub cut_bytes: u64,
    /// Events in whole records among them.
    pub cut_events: u64,
    /// The cut is no mere trace of a crash.
    pub is_loss: bool,
}

/// A live session: a fixed header and a growing log.
#[derive(Debug)]
pub struct Session {
    header: Header,
    /// The id as JSON text, for every line that names it.
    id_text: Box<str>,
    instance: InstanceId,
    inherited: Offset,
    first_live: Offset,
    invariants: Validation,
    ephemeral: bool,
    mended: Option<Mended>,
    epoch: Option<u64>,
    pub(super) history: History,
}

/// A live session's log on its way to where it is kept: to be read, and shared.
#[derive(Debug)]
pub struct Outgoing<'s>(&'s mut History);

impl Outgoing<'_> {
    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        self.0.log()
    }

    /// A log that shares the events so far, for another thread.
    #[must_use]
    pub fn share(&mut self) -> Log {
        self.0.share_log()
    }
}

/// What a session begins its life with.
#[derive(Debug)]
pub struct Opened {
    /// Its header.
    pub header: Header,
    /// Events that came from its parent.
    pub inherited: Offset,
    /// Seed or stored events: those after are of this life.
    pub first_live: Offset,
    /// The relations' mode that was asked for.
    pub invariants: Validation,
    /// Never stored.
    pub ephemeral: bool,
    /// What had to be mended of a stored one.
    pub mended: Option<Mended>,
    /// Its events so far.
    pub history: History,
}

/// A prefix of a session, as a seed for another one.
#[derive(Debug)]
pub struct Snapshot {
    /// The source.
    pub source: SessionId,
    /// The source's instance.
    pub instance: InstanceId,
    /// Length of the prefix.
    pub length: Offset,
    /// The source's working directory.
    pub cwd: Option<String>,
}

impl Session {
    pub(super) fn open(opened: Opened, instance: InstanceId) -> Self {
        let Opened { header, inherited, first_live, mut invariants, ephemeral, mended, history } = opened;
        if history.view().relations.broken().is_some() {
            invariants = Validation::Note; // what the log holds is not rejected
        }
        let id_text = quote(header.id.as_str()).into();
        let epoch = None;
        Self {
            header,
            id_text,
            instance,
            inherited,
            first_live,
            invariants,
            ephemeral,
            mended,
            epoch,
            history,
        }
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.header.id
    }

    /// Its id as JSON text, with quotes.
    pub fn id_text(&self) -> &str {
        &self.id_text
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// This life of it.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Its events and what is folded from them.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The projections of the whole log.
    pub fn view(&self) -> &View {
        self.history.view()
    }

    /// The time that sorts it in a list, in milliseconds.
    pub fn active_at(&self) -> i64 {
        active_at(&self.header, self.view().activity.last_time(self.history.log()))
    }

    /// Its length: the seq that the next event gets.
    pub fn next_seq(&self) -> Offset {
        self.history.log().len()
    }

    /// Events that came from its parent.
    pub fn inherited_event_count(&self) -> Offset {
        self.inherited
    }

    /// Length of the seed or of the stored log that this life began with.
    pub fn first_live_seq(&self) -> Offset {
        self.first_live
    }

    /// Whether an existing event is the session's own, not its parent's.
    pub fn is_own_seq(&self, seq: Seq) -> bool {
        self.inherited <= seq.before() && seq.before() < self.next_seq()
    }

    /// Whether the relations are enforced.
    pub fn invariants(&self) -> Validation {
        self.invariants
    }

    /// Whether it is never stored.
    pub fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }

    /// Which ownership of what is stored of it this is, as its store counts them; none before it is stored.
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// Its store owns it for this daemon from now on.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = Some(epoch);
    }

    /// Its id, and its log on its way to where it is kept.
    pub fn outgoing(&mut self) -> (&SessionId, Outgoing<'_>) {
        (&self.header.id, Outgoing(&mut self.history))
    }

    /// What its load had to mend.
    pub fn mended(&self) -> Option<Mended> {
        self.mended
    }

    pub(super) fn check_instance(&self, instance: Option<&str>) -> Result<(), Refusal> {
        match instance {
            Some(asked) if *asked != *self.instance.0 => {
                Err(Refusal::NotLive { id: self.id().clone(), instance: asked.chars().take(100).collect() })
            }
            _ => Ok(()),
        }
    }

    /// A stable prefix of it, for another session's seed.
    pub(super) fn snapshot(&self, boundary: Boundary<'_>) -> Result<Snapshot, Refusal> {
        let length = self.cut(boundary)?;
        let (source, instance) = (self.id().clone(), self.instance.clone());
        Ok(Snapshot { source, instance, length, cwd: self.header.cwd.clone() })
    }

    /// Takes the unwritten events from `at` on back: they were never part of the session.
    pub fn retract(&mut self, at: Offset) {
        self.history.retract(at);
    }

    /// Folds the projections again from the log, after a fault left them in doubt.
    pub fn refold(&mut self) {
        self.history.refold();
    }

    /// See [`History::warnings`].
    pub fn warnings(&mut self) -> Vec<String> {
        self.history.warnings()
    }

    /// A log that shares the session's events so far.
    pub fn share_log(&mut self) -> Log {
        self.history.share_log()
    }

    /// Gives its parts back, for a store that keeps closed sessions in memory.
    pub fn into_parts(self) -> (Header, Offset, History) {
        (self.header, self.inherited, self.history)
    }
}

/// Ends a seed with `session/end-seed`, unless it does already.
pub(super) fn close_seed(history: &mut History, now: i64, rules: Rules<'_>) -> Result<(), Refusal> {
    if ends_in_marker(history) {
        return Ok(());
    }
    let (data, marker) = (Json::EMPTY_OBJECT, JsonStr::from_verified("\"session/end-seed\""));
    let candidate = Candidate::new(marker, data, Checks { depth: 1, ..Checks::default() });
    history.admit(&candidate, now, Validation::Note, rules, None).map(|_| ())
}
