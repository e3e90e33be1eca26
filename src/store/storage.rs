//! What the methods need of storage. The daemon wires it to a memory map or to the disk.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::log::{ForeignTypes, Header, Offset, Seq, SessionId, active_at};
use crate::session::{History, Limits, Mended, Session, Vocabulary};

use super::SamePlace;
pub use super::{DaemonId, Detail, Loss, Outcome, StorageError, StoreInfo};
pub use crate::disk::catalog::list::Status;

/// Names one job; given by the caller.
pub type Ticket = u64;

/// Tells the caller of a store that [`Storage::finished`] may have something; called on any thread.
pub type Wake = std::sync::Arc<dyn Fn() + Send + Sync>;

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

/// Where sessions are kept when they are not live. What has no stable storage has nothing to say of it, as the methods
/// do by themselves.
pub trait Storage {
    /// What it is.
    fn info(&self) -> StoreInfo;

    /// Begins a job; [`Self::finished`] gives its result. Jobs that need no waiting finish at once.
    fn start(&mut self, ticket: Ticket, job: Job);

    /// A finished job, if there is one.
    fn finished(&mut self) -> Option<(Ticket, JobResult)>;

    /// Hands the unwritten events of a live session to the operating system.
    fn write(&mut self, session: &Session) -> Written {
        let _ = session;
        Written::Done
    }

    /// A session whose durable watermark has moved, and how far; each move is told once.
    fn durable_moved(&mut self) -> Option<(SessionId, Seq)> {
        None
    }

    /// Whether the log of a live session is as this process left it, as far as can be told without waiting: what an
    /// answer of events that had been there before promises.
    fn check(&self, id: &SessionId) -> Result<(), StorageError> {
        let _ = id;
        Ok(())
    }

    /// Whether [`Self::finished`] or [`Self::durable_moved`] may have something to say. What others have told since the
    /// last look is heard: this must be asked again and again, or nothing goes on.
    fn has_news(&mut self) -> bool;

    /// Whether nothing is under way, group commits included.
    fn is_quiet(&self) -> bool {
        true
    }

    /// The last event of a live session that is on stable storage.
    fn durable(&self, id: &SessionId) -> Option<Seq> {
        let _ = id;
        None
    }

    /// What storage has to say about a live session: saved cuts, failures.
    fn warnings(&self, id: &SessionId) -> Vec<String> {
        let _ = id;
        Vec::new()
    }
}

/// What became of a write.
#[derive(Debug)]
pub enum Written {
    /// The operating system has it.
    Done,
    /// The session's file is being published: the answers wait for that job.
    Publish,
    /// Nothing of it was kept.
    Failed(StorageError),
}

/// Work that may wait for the disk.
#[derive(Debug)]
pub enum Job {
    /// Is a session of that id stored? With true: what is known of it, too, which may cost a reading.
    Find(SessionId, bool),
    /// Read a session to make it live; this process owns it from then on.
    Load {
        /// The session.
        id: SessionId,
        /// The types it may hold.
        vocabulary: Vocabulary,
        /// The limits its events must keep.
        limits: Limits,
    },
    /// Read a session as it lies there.
    Inspect {
        /// The session.
        id: SessionId,
        /// The types it may hold.
        vocabulary: Vocabulary,
        /// The limits its events must keep.
        limits: Limits,
    },
    /// All stored sessions; those that hold other types than these are unsupported. With a place: which of their
    /// working directories are that one, too.
    List {
        /// The types that this process knows.
        vocabulary: Vocabulary,
        /// The place that is asked for.
        place: Option<Box<SamePlace>>,
        /// What is asked for: what is certainly not on that page is left out.
        page: ListPage,
    },
    /// Which of the directories that were asked for are that place.
    LookUp(Box<SamePlace>),
    /// Make the file of a session that has events before its first write, or at its first write.
    Publish(SessionId, Box<Publication>),
    /// Make everything written durable. With facts of all that is written: leave them beside the log for cheap lists,
    /// once it is durable.
    Sync(SessionId, Option<Box<ListFacts>>),
    /// Let a session go that is no longer live: flushed, unlocked.
    Release(Box<Session>),
    /// Store a session anew with all that it holds, if its file is not what this process left there: under its own id,
    /// or if that is taken under the other one; without another one that is [`StorageError::Exists`].
    Rescue(Box<Publication>, Option<SessionId>),
    /// Remove a session, live here or not.
    Delete(SessionId),
    /// Let a loaded session go that did not become live.
    Abandon(SessionId),
}

impl Job {
    /// The session that the job makes or changes.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Publish(id, _) | Self::Sync(id, _) | Self::Delete(id) | Self::Abandon(id) => Some(id),
            Self::Release(session) => Some(session.id()),
            Self::Rescue(publication, _) => Some(&publication.header.id),
            Self::Find(..)
            | Self::Load { .. }
            | Self::Inspect { .. }
            | Self::List { .. }
            | Self::LookUp(_) => None,
        }
    }

    /// Whether its end changes which sessions there are: a request that has begun it can no longer be cancelled.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Rescue(..) | Self::Delete(_))
    }
}

/// What a new file begins with.
#[derive(Debug)]
pub struct Publication {
    /// The header.
    pub header: Header,
    /// Events that came from the parent.
    pub inherited: Offset,
    /// The parent whose file may hold the inherited bytes.
    pub parent: Option<SessionId>,
    /// A log that shares the session's events so far.
    pub log: crate::log::Log,
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

/// What came of a job.
#[derive(Debug)]
pub enum JobResult {
    /// [`Job::Find`].
    Found(Result<Option<StoredSummary>, StorageError>),
    /// [`Job::Load`].
    Loaded(Result<Box<Loaded>, StorageError>),
    /// [`Job::Inspect`].
    Inspected(Result<Box<Inspected>, StorageError>),
    /// [`Job::List`].
    Listed(Result<Listed, StorageError>),
    /// [`Job::LookUp`].
    LookedUp(Box<SamePlace>),
    /// [`Job::Publish`], [`Job::Sync`]: the last durable event.
    Kept(Result<Option<Seq>, StorageError>),
    /// [`Job::Release`].
    Released(Result<(), Box<Unreleased>>),
    /// [`Job::Rescue`].
    Rescued(Result<Rescued, StorageError>),
    /// [`Job::Delete`].
    Deleted(Result<(), StorageError>),
}

/// A session that could not be let go of with all that it holds stored. Its file is let go of all the same.
#[derive(Debug)]
pub struct Unreleased {
    /// The session, unless a bug has cost it.
    pub session: Option<Box<Session>>,
    /// Why.
    pub error: StorageError,
}

/// How a live session is stored after [`Job::Rescue`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rescued {
    /// As before: nothing was wrong with its file.
    Sound,
    /// Anew, under its own id.
    Anew,
    /// Anew, under the other id.
    Renamed(SessionId),
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
}

/// A stored session as it lies there.
#[derive(Debug)]
pub struct Inspected {
    /// Its header.
    pub header: Header,
    /// Events that came from the parent.
    pub inherited: Offset,
    /// The readable events, without closers.
    pub log: crate::log::Log,
    /// The events with which a load would close an open turn, as lines.
    pub closers: Vec<String>,
    /// What a load would cut.
    pub torn_tail: Option<TornTail>,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// Its owner, when that is another process.
    pub locked_by: Option<DaemonId>,
}

/// The row behind which a page of a list begins.
#[derive(Clone, Debug)]
pub struct Behind {
    /// The time that sorts it, in milliseconds.
    pub time: i64,
    /// Its session.
    pub id: String,
    /// Its [`StoredInfo::place`].
    pub place: String,
    /// When the list began, in milliseconds: what has happened since moves no session on its pages.
    pub moment: i64,
}

impl Behind {
    /// What sorts a list: of rows with one time and id, the session of that id comes first.
    pub fn key(&self) -> RowKey<'_> {
        (self.time, &self.id, Reverse(&self.place))
    }
}

/// Time, id, and place of a row; rows go from the greatest to the least.
pub type RowKey<'a> = (i64, &'a str, Reverse<&'a str>);

/// A page of the list of all sessions.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// Where it begins; none for the first.
    pub behind: Option<Behind>,
    /// Rows that are needed at most.
    pub most: usize,
    /// With sessions that hold no event.
    pub with_empty: bool,
    /// The time, in milliseconds.
    pub now: i64,
    /// Of the live sessions with an activity behind the list's moment: the time of the last one before.
    pub moved: HashMap<String, Option<i64>>,
}

impl ListPage {
    /// Whether a session of that creation is newer than the list. One dated ahead of the clock is not known to be.
    pub fn is_new(&self, created_at: u64) -> bool {
        let created_at = i64::try_from(created_at).unwrap_or(i64::MAX);
        self.behind.as_ref().is_some_and(|behind| behind.moment < created_at && created_at <= self.now)
    }

    /// The moment of the list, where an activity at that time is behind it.
    pub fn moment_before(&self, time: Option<i64>) -> Option<i64> {
        let moment = self.behind.as_ref()?.moment;
        time.is_some_and(|time| time > moment).then_some(moment)
    }

    /// The indexes of those that may be on the page, in its order.
    fn pick(&self, sessions: &[StoredInfo], place: Option<&SamePlace>) -> Vec<usize> {
        let is_shown = |info: &StoredInfo| {
            let header = info.header.as_ref();
            let is_there = |place: &SamePlace| {
                header.and_then(|header| header.cwd.as_deref()).is_some_and(|cwd| place.is(cwd))
            };
            (self.with_empty || !info.is_empty())
                && place.is_none_or(is_there)
                && !header.is_some_and(|header| self.is_new(header.created_at))
                && self.behind.as_ref().is_none_or(|behind| info.key() < behind.key())
        };
        // One for each id and place: the last of those that are stored more than once stands for all.
        let mut picked: HashMap<(&str, &str), usize> = HashMap::new();
        for (index, info) in sessions.iter().enumerate().filter(|(_, info)| is_shown(info)) {
            picked.insert((&info.id, &info.place), index);
        }
        let mut picked: Vec<usize> = picked.into_values().collect();
        let key = |index: &usize| sessions.get(*index).map(StoredInfo::key);
        picked.sort_by(|a, b| key(b).cmp(&key(a)));
        picked.truncate(self.most);
        picked
    }
}

/// What a list is made from.
#[derive(Debug)]
pub struct Listed {
    /// The stored sessions that may be on the page, in its order.
    pub sessions: Vec<StoredInfo>,
    /// The place that was asked for, with their working directories looked up.
    pub place: Option<Box<SamePlace>>,
}

impl Listed {
    /// A page of these sessions; looks their working directories up, which may wait for the file system. `owner` is asked
    /// who owns those on the page, by their indexes.
    pub fn new(
        sessions: Vec<StoredInfo>,
        mut place: Option<Box<SamePlace>>,
        page: &ListPage,
        mut owner: impl FnMut(usize) -> Option<DaemonId>,
    ) -> Self {
        if let Some(place) = &mut place {
            let cwd = |info: &StoredInfo| info.header.as_ref().and_then(|header| header.cwd.clone());
            sessions.iter().filter_map(cwd).for_each(|cwd| place.ask(&cwd));
            place.look_up();
        }
        let picked = page.pick(&sessions, place.as_deref());
        let mut sessions: Vec<_> = sessions.into_iter().map(Some).collect();
        let sessions = picked.into_iter().filter_map(|index| {
            let info = sessions.get_mut(index)?.take()?;
            Some(StoredInfo { locked_by: owner(index), ..info })
        });
        Self { sessions: sessions.collect(), place }
    }
}

/// A stored session in a list.
#[derive(Clone, Debug)]
pub struct StoredInfo {
    /// Its id; what stands for none shows one that may be another's.
    pub id: String,
    /// Where it lies, if its id does not lead there; else empty. No two of a list have both in common.
    pub place: String,
    /// Its header, where that is readable.
    pub header: Option<Header>,
    /// Facts of its log, where that is readable.
    pub facts: ListFacts,
    /// The time of its last activity that is not behind the list's moment.
    pub active: Option<i64>,
    /// Whether it can be opened.
    pub status: Status,
    /// Why not.
    pub reason: Option<String>,
    /// Its owner, when that is another process; known of those on the page.
    pub locked_by: Option<DaemonId>,
}

impl StoredInfo {
    /// Whether a list leaves it out, unless asked not to. What is damaged may hold what is not seen, and never is.
    pub fn is_empty(&self) -> bool {
        self.header.is_some() && self.facts.length == Offset::ZERO && self.status == Status::Ok
    }

    /// The time that sorts it.
    pub fn time(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| active_at(header, self.active))
    }

    fn key(&self) -> RowKey<'_> {
        (self.time(), &self.id, Reverse(&self.place))
    }
}

/// What a list shows of a log.
#[derive(Clone, Debug, Default)]
pub struct ListFacts {
    /// Events held.
    pub length: Offset,
    /// Time of the last event that counts as activity ([`crate::log::LastActive`]).
    pub last_time: Option<i64>,
    /// The title: the last one by a person, else the last one.
    pub title: Option<String>,
    /// Types that must be declared where the log is to be loaded.
    pub foreign: ForeignTypes,
    /// Bytes of the longest event.
    pub longest: u64,
}

impl ListFacts {
    /// The facts of a log in memory. Its folds have them: nothing is read.
    pub fn of(history: &History) -> Self {
        let (log, activity) = (history.log(), &history.view().activity);
        Self {
            length: log.len(),
            last_time: activity.last_time(log),
            title: activity.title(log).map(|title| title.lossy().into_owned()),
            foreign: activity.foreign().clone(),
            longest: activity.longest() as u64,
        }
    }
}
