//! What a store is asked, each question with the place for its own answer.

use std::sync::{Arc, Mutex, PoisonError};

use super::list::{ListFacts, ListPage, ListQuery};
use super::{DaemonId, SamePlace, StorageError};
use crate::log::{Header, Log, Offset, Seq, SessionId};
use crate::session::{History, Limits, Mended, Session, Vocabulary};

/// The engine's end of an answer. One that is dropped unkept, by a bug, is answered with [`StorageError::Bug`].
#[derive(Debug)]
pub struct Promise<T>(Arc<Mutex<Option<Result<T, StorageError>>>>);

/// The asker's end of an answer, to be taken when the store says that the request is done.
#[derive(Debug)]
pub struct Reply<T>(Arc<Mutex<Option<Result<T, StorageError>>>>);

/// The two ends of an answer.
#[must_use]
pub fn promise<T>() -> (Promise<T>, Reply<T>) {
    let place = Arc::new(Mutex::new(None));
    (Promise(Arc::clone(&place)), Reply(place))
}

impl<T> Promise<T> {
    /// Gives the answer.
    pub fn keep(self, answer: Result<T, StorageError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }
}

impl<T> Reply<T> {
    /// Takes the answer.
    ///
    /// # Errors
    /// Why the store failed; [`StorageError::Bug`] where it gave no answer.
    pub fn take(self) -> Result<T, StorageError> {
        let answer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        answer.unwrap_or(Err(StorageError::Bug))
    }
}

/// Work that may wait for the store.
#[derive(Debug)]
#[allow(missing_docs, reason = "`id` is the session, `reply` the answer")]
pub enum Request {
    /// Is a session of that id stored? With `facts`: what is known of it, too, which may cost a reading.
    Find { id: SessionId, facts: bool, reply: Promise<Option<StoredSummary>> },
    /// Reads a session to make it live; this daemon owns it from then on.
    Load { id: SessionId, rules: LoadRules, reply: Promise<Box<Loaded>> },
    /// Reads a session as it lies there.
    Inspect { id: SessionId, rules: LoadRules, reply: Promise<Box<Inspected>> },
    /// A page of the stored sessions.
    List { query: Box<ListQuery>, reply: Promise<ListPage> },
    /// Which of the directories that were asked for are that place.
    LookUp { place: Box<SamePlace>, reply: Promise<Box<SamePlace>> },
    /// Stores a session for the first time, with the events that it has; this daemon owns it from then on. Of one that
    /// was created all the same when that had failed: stores what is missing.
    Create { id: SessionId, publication: Box<Publication>, reply: Promise<Created> },
    /// Makes everything written durable; the last durable event. With facts of all that is written: leaves them beside
    /// the log for cheap lists, once it is durable.
    Sync { id: SessionId, facts: Option<Box<ListFacts>>, reply: Promise<Option<Seq>> },
    /// Gives up a session that is no longer live, stored whole.
    Release { session: Box<Session>, reply: Promise<Released> },
    /// Stores a session anew with all that it holds, if what is stored is not what this daemon left there: under its own
    /// id, or if that is taken under the other one; without another one that is [`StorageError::Exists`].
    Rescue { publication: Box<Publication>, other: Option<SessionId>, reply: Promise<Rescued> },
    /// Removes a session, live here or not.
    Delete { id: SessionId, reply: Promise<()> },
}

impl Request {
    /// The session that it makes or changes.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Create { id, .. } | Self::Sync { id, .. } | Self::Delete { id, .. } => Some(id),
            Self::Release { session, .. } => Some(session.id()),
            Self::Rescue { publication, .. } => Some(&publication.header.id),
            Self::Find { .. }
            | Self::Load { .. }
            | Self::Inspect { .. }
            | Self::List { .. }
            | Self::LookUp { .. } => None,
        }
    }

    /// The session that it opens, to be discarded where nobody wants it any more.
    #[must_use]
    pub fn opens(&self) -> Option<&SessionId> {
        match self {
            Self::Load { id, .. } => Some(id),
            _ => None,
        }
    }

    /// Whether its end changes which sessions there are: a request that has begun it can no longer be cancelled.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Rescue { .. } | Self::Delete { .. })
    }
}

/// What a log that is read must keep.
#[derive(Clone, Debug)]
pub struct LoadRules {
    /// The types that it may hold.
    pub vocabulary: Vocabulary,
    /// The limits of its events.
    pub limits: Limits,
}

/// What a new log begins with.
#[derive(Debug)]
pub struct Publication {
    /// The header.
    pub header: Header,
    /// Events that came from the parent.
    pub inherited: Offset,
    /// The parent whose stored log may hold the inherited bytes.
    pub parent: Option<SessionId>,
    /// A log that shares the session's events so far.
    pub log: Log,
    /// To be left beside the log for cheap lists: what this log's facts are.
    pub summary: Option<Box<ListFacts>>,
}

impl From<&mut Session> for Publication {
    /// All that a session holds.
    fn from(session: &mut Session) -> Self {
        Self {
            header: session.header().clone(),
            inherited: session.inherited_event_count(),
            parent: None,
            log: session.share_log(),
            summary: None,
        }
    }
}

/// A session that is stored for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// Of this ownership.
    pub epoch: u64,
    /// The last durable event.
    pub durable: Option<Seq>,
}

/// How a session was given up.
#[derive(Debug)]
pub enum Released {
    /// All that it holds is stored.
    Whole,
    /// It could not be stored with all that it holds; what is stored of it is given up all the same.
    Short {
        /// The session: only it has what is missing.
        session: Box<Session>,
        /// Why.
        error: StorageError,
    },
}

/// How a live session is stored after [`Request::Rescue`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rescued {
    /// As before: nothing was wrong with its log.
    Sound,
    /// Anew, under its own id.
    Anew,
    /// Anew, under the other id, in an ownership of that epoch.
    Renamed(SessionId, u64),
}

/// What is known of a stored session at a glance.
#[derive(Clone, Debug, Default)]
pub struct StoredSummary {
    /// Its parent.
    pub parent_session: Option<String>,
    /// Events that came from the parent.
    pub inherited: Offset,
    /// Its length, where known without reading the log.
    pub next_seq: Offset,
}

/// A stored session, read and repaired in memory.
#[derive(Debug)]
pub struct Loaded {
    /// Its header.
    pub header: Header,
    /// Events that came from the parent.
    pub inherited: Offset,
    /// Its events, closers included.
    pub history: History,
    /// What had to be mended, if anything had.
    pub mended: Option<Mended>,
    /// Of this ownership.
    pub epoch: u64,
}

/// The end of a log, from its first record on that is damaged or torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub bytes: u64,
    /// Events in its whole records.
    pub events: u64,
}

/// A stored session as it lies there.
#[derive(Debug)]
pub struct Inspected {
    /// Its header.
    pub header: Header,
    /// Events that came from the parent.
    pub inherited: Offset,
    /// The readable events, without closers.
    pub log: Log,
    /// The events with which a load would close an open turn, as lines.
    pub closers: Vec<String>,
    /// What a load would cut.
    pub torn_tail: Option<TornTail>,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// Its owner, when that is another process.
    pub locked_by: Option<DaemonId>,
}
