//! The live sessions, and all that changes them.

use std::collections::HashSet;

use super::append::{AppendBatch, Appended, Candidate, Expect, Rules};
use super::boundary::Boundary;
use super::history::{History, Limits, Validation, Vocabulary};
use super::live::{LiveSessions, not_found};
use super::refusal::Refusal;
use super::seed::{Seed, SeedMeta, from_seed};
use super::session::{Context, InstanceId, Mended, Opened, Session, Snapshot, close_seed};
use crate::log::{Header, Offset, SessionId};
use crate::view::message_id;

/// Makes a session, empty or from a seed.
#[derive(Debug)]
pub struct New<'a> {
    /// Its header; `is_seeded` is set from the seed.
    pub header: Header,
    /// The events to begin with.
    pub seed: Option<Seed<'a>>,
    /// How many of them come from the parent.
    pub seed_length: Option<Offset>,
    /// The relations' mode.
    pub invariants: Validation,
    /// Never stored.
    pub ephemeral: bool,
}

/// Appends one event, or a batch that is all or nothing.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// The session.
    pub session: &'a str,
    /// Its instance, if only that one will do.
    pub instance: Option<&'a str>,
    /// The condition.
    pub expect: Expect,
}

/// Closes an open turn with the closers of FORMAT 12, as ordinary appends.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt<'a> {
    /// The session.
    pub session: &'a str,
    /// Its instance, if only that one will do.
    pub instance: Option<&'a str>,
}

/// Asks for a prefix of a session.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotOf<'a> {
    /// The session.
    pub session: &'a str,
    /// Its instance, if only that one will do.
    pub instance: Option<&'a str>,
    /// Where to cut.
    pub boundary: Boundary<'a>,
}

/// Makes a child from a prefix of a session, sharing its log.
#[derive(Debug)]
pub struct Fork<'a> {
    /// The prefix.
    pub of: SnapshotOf<'a>,
    /// The child's id; minted when absent.
    pub child: Option<SessionId>,
    /// The child's working directory; the parent's when absent.
    pub cwd: Option<String>,
    /// The relations' mode; the parent's when absent.
    pub invariants: Option<Validation>,
    /// Never stored; a child of an ephemeral session is ephemeral.
    pub ephemeral: bool,
}

/// Makes a stored session live.
#[derive(Debug)]
pub struct Restore {
    /// Its header.
    pub header: Header,
    /// Events that came from its parent.
    pub inherited: Offset,
    /// Its events, repaired.
    pub history: History,
    /// The relations' mode.
    pub invariants: Validation,
    /// What had to be mended of its log.
    pub mended: Option<Mended>,
}

/// The closers of an interrupt: events `first..first + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The first closer.
    pub first: Offset,
    /// How many; none where no turn was open.
    pub count: u64,
}

/// What the last change began to change; what one that met a bug has left is taken back by it.
#[derive(Clone, Copy, Debug)]
enum Begun {
    /// It appends to the session of that place among the live ones, from there on.
    Append(u64, Offset),
    /// It made the session of that place live.
    Open(u64),
}

/// What was taken back of a change that met a bug.
#[derive(Debug)]
pub enum RolledBack {
    /// A session's events from there on.
    Events(SessionId, Offset),
    /// A session that had become live.
    Session(Box<Session>),
}

/// The live sessions.
#[derive(Debug, Default)]
pub struct Store {
    live: LiveSessions,
    begun: Option<Begun>,
    vocabulary: Vocabulary,
    limits: Limits,
}

impl Store {
    /// An empty store.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The event types beyond the known ones.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Declares event types.
    pub fn vocabulary_mut(&mut self) -> &mut Vocabulary {
        &mut self.vocabulary
    }

    /// The live session of that id.
    pub fn session(&self, id: &str) -> Result<&Session, Refusal> {
        self.live.get(id).ok_or_else(|| not_found(id))
    }

    /// The live session of that id, for what storage decides: retracting unwritten events.
    pub fn session_mut(&mut self, id: &str) -> Result<&mut Session, Refusal> {
        self.live.get_mut(id, None).map(|(_, session)| session)
    }

    /// The live session of that id and instance.
    pub fn instance(&self, id: &str, instance: Option<&str>) -> Result<&Session, Refusal> {
        let session = self.session(id)?;
        session.check_instance(instance)?;
        Ok(session)
    }

    /// The live sessions in creation order.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.live.iter()
    }

    /// The live sessions as a list shows them, latest activity first; with `key` those behind that time, in
    /// milliseconds, and id; those without an event only `with_empty`. The cost follows what is taken and the sessions that changed since the last call.
    pub fn recent(&mut self, key: Option<(i64, &str)>, with_empty: bool) -> impl Iterator<Item = &Session> {
        self.live.recent(key, with_empty)
    }

    /// The live sessions with an event whose latest activity is later than `moment`, in milliseconds.
    pub fn active_after(&mut self, moment: i64) -> impl Iterator<Item = &Session> {
        self.live.active_after(moment)
    }

    /// Sessions live now.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether no session is live.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Bytes of the events that live sessions hold in memory; what forks share is counted once. The cost follows the
    /// sessions and the segments of their logs.
    pub fn held_bytes(&self) -> usize {
        let mut seen = HashSet::new();
        self.sessions().map(|session| session.history().log().held_bytes(&mut seen)).sum()
    }

    /// What was changed so far stays: [`Self::rollback`] is for what comes.
    pub fn begin(&mut self) {
        self.begun = None;
    }

    /// Takes back what the last change since [`Self::begin`] has committed or opened, whole or not. The log is cut
    /// and folded anew: its projections are in doubt.
    pub fn rollback(&mut self) -> Option<RolledBack> {
        match self.begun.take()? {
            Begun::Append(place, from) => {
                let id = self.live.at(place)?.id().clone();
                let (_, session) = self.live.get_mut(id.as_str(), None).ok()?;
                session.history.cut_and_refold(from);
                Some(RolledBack::Events(id, from))
            }
            Begun::Open(place) => {
                let id = self.live.at(place)?.id().clone();
                self.close(id.as_str()).ok().map(|session| RolledBack::Session(Box::new(session)))
            }
        }
    }

    /// Makes a session live, empty or with a seed; its id.
    pub fn create(&mut self, new: New<'_>, context: &mut Context<'_>) -> Result<SessionId, Refusal> {
        self.check_free(&new.header.id)?;
        let rules = Rules { vocabulary: &self.vocabulary, limits: &self.limits };
        let mut history = match new.seed {
            Some(seed) => from_seed(seed, new.invariants, rules)?,
            None => History::default(),
        };
        let length = history.log().len();
        let lineage =
            SeedMeta { seed_length: new.seed_length, has_parent: new.header.parent_session.is_some() };
        let (inherited, is_seeded) = lineage.inherited(new.seed.map(|_| length))?;
        if new.seed.is_some() {
            close_seed(&mut history, context.now(), rules)?;
        }
        reserve_ids(&history, context);
        self.open(
            Opened {
                header: Header { is_seeded, ..new.header },
                inherited,
                first_live: length,
                invariants: new.invariants,
                ephemeral: new.ephemeral,
                mended: None,
                history,
            },
            context,
        )
    }

    /// Appends one event. The session is given too, so that nobody looks for it again.
    pub fn append(
        &mut self,
        place: Append<'_>,
        candidate: &Candidate<'_>,
        context: &mut Context<'_>,
    ) -> Result<(Appended, &Session), Refusal> {
        let rules = Rules { vocabulary: &self.vocabulary, limits: &self.limits };
        let (at, session) = self.live.get_mut(place.session, place.instance)?;
        self.begun = Some(Begun::Append(at, session.next_seq()));
        Ok((session.append(candidate, place.expect, context, rules)?, session))
    }

    /// Appends a batch, all of it or nothing.
    pub fn append_batch(
        &mut self,
        place: Append<'_>,
        batch: &[Candidate<'_>],
        context: &mut Context<'_>,
    ) -> Result<AppendBatch, Refusal> {
        let rules = Rules { vocabulary: &self.vocabulary, limits: &self.limits };
        let (at, session) = self.live.get_mut(place.session, place.instance)?;
        if batch.len() > self.limits.max_batch_events {
            return Err(Refusal::limit("maxBatchEvents", self.limits.max_batch_events as u64));
        }
        self.begun = Some(Begun::Append(at, session.next_seq()));
        session.append_batch(batch, place.expect, context, rules)
    }

    /// Closes an open turn.
    pub fn interrupt(
        &mut self,
        interrupt: Interrupt<'_>,
        context: &mut Context<'_>,
    ) -> Result<Interrupted, Refusal> {
        let rules = Rules { vocabulary: &self.vocabulary, limits: &self.limits };
        let (at, session) = self.live.get_mut(interrupt.session, interrupt.instance)?;
        let first = session.next_seq();
        self.begun = Some(Begun::Append(at, first));
        let count = session.history.close_turn(Some(context.now()), rules)?;
        Ok(Interrupted { first, count })
    }

    /// Makes a child live; its id, and how many events it shares with its parent.
    pub fn fork(
        &mut self,
        fork: Fork<'_>,
        context: &mut Context<'_>,
    ) -> Result<(SessionId, Offset), Refusal> {
        if let Some(child) = &fork.child {
            self.check_free(child)?;
        }
        let Snapshot { source, length, cwd, .. } = self.snapshot(fork.of)?;
        let child = match fork.child {
            Some(id) => id,
            None => self.mint(context)?,
        };
        self.check_free(&child)?;
        let rules = Rules { vocabulary: &self.vocabulary, limits: &self.limits };
        let (_, parent) = self.live.get_mut(fork.of.session, fork.of.instance)?;
        let mut history = parent.history.fork(length);
        close_seed(&mut history, context.now(), rules)?;
        let header = Header {
            id: child,
            created_at: context.created_at(),
            cwd: fork.cwd.or(cwd),
            parent_session: Some(source.as_str().to_owned()),
            is_seeded: true,
            subagent: false,
            delegation_depth: None,
            agent_preset: None,
        };
        let opened = Opened {
            header,
            inherited: length,
            first_live: length,
            invariants: fork.invariants.unwrap_or(parent.invariants()),
            ephemeral: fork.ephemeral || parent.is_ephemeral(),
            mended: None,
            history,
        };
        Ok((self.open(opened, context)?, length))
    }

    /// A stable prefix of a live session.
    pub fn snapshot(&self, of: SnapshotOf<'_>) -> Result<Snapshot, Refusal> {
        self.instance(of.session, of.instance)?.snapshot(of.boundary)
    }

    /// Makes a stored session live; its id.
    pub fn restore(&mut self, restore: Restore, context: &mut Context<'_>) -> Result<SessionId, Refusal> {
        self.check_free(&restore.header.id)?;
        let first_live = restore.history.log().len();
        let Restore { header, inherited, history, invariants, mended } = restore;
        reserve_ids(&history, context);
        let ephemeral = false;
        self.open(Opened { header, inherited, first_live, invariants, ephemeral, mended, history }, context)
    }

    /// An id that no live session has.
    pub fn mint(&self, context: &mut Context<'_>) -> Result<SessionId, Refusal> {
        loop {
            let id = SessionId::new(&context.ids.session_id())
                .map_err(|error| Refusal::Invalid(error.to_string()))?;
            if self.live.get(id.as_str()).is_none() {
                return Ok(id);
            }
        }
    }

    /// Whether an id may be given to a new session, and one more may be live.
    pub fn check_free(&self, id: &SessionId) -> Result<(), Refusal> {
        self.check_unknown(id)?;
        if self.live.len() >= self.limits.max_live_sessions {
            return Err(Refusal::limit("maxLiveSessions", self.limits.max_live_sessions as u64));
        }
        Ok(())
    }

    /// Whether no live session has an id.
    pub fn check_unknown(&self, id: &SessionId) -> Result<(), Refusal> {
        if let Some(session) = self.live.get(id.as_str()) {
            return Err(Refusal::AlreadyExists {
                id: id.clone(),
                live: true,
                parent_session: session.header().parent_session.clone(),
                inherited: session.inherited_event_count(),
                next_seq: session.next_seq(),
            });
        }
        Ok(())
    }

    fn open(&mut self, opened: Opened, context: &mut Context<'_>) -> Result<SessionId, Refusal> {
        let id = opened.header.id.clone();
        let instance = InstanceId(context.ids.instance_id().into());
        self.begun = Some(Begun::Open(self.live.next_place()));
        self.live.insert(Session::open(opened, instance));
        Ok(id)
    }

    /// Takes a session out of the store.
    pub fn close(&mut self, id: &str) -> Result<Session, Refusal> {
        self.live.remove(id)
    }
}

/// Shows the message ids of a log to the source of ids. A fork's are its parent's.
fn reserve_ids(history: &History, context: &mut Context<'_>) {
    context.ids.seen(&mut history.log().iter().filter_map(|event| message_id(event.kind(), event.data())));
}
