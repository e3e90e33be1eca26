//! What the methods need of storage. The daemon wires it to a memory map or to the disk.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::log::{ForeignTypes, Header, Offset, Seq, SessionId, active_at};
use crate::session::{History, Outgoing};

use super::SamePlace;
pub use super::request::{
    Created, Inspected, LoadRules, Loaded, Promise, Publication, Released, Reply, Request, Rescued,
    StoredSummary, TornTail, promise,
};
pub use super::{DaemonId, Detail, Lease, Loss, Outcome, StorageError, StoreInfo};
pub use crate::disk::catalog::list::Status;

/// Names one request; given by the caller, never 0.
pub type Ticket = u64;

/// Tells the caller of a store that [`Storage::poll`] may have something; called on any thread.
pub type Wake = std::sync::Arc<dyn Fn() + Send + Sync>;

/// What a store has to say.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request is done: its [`Reply`] can be taken.
    Done(Ticket),
    /// Queued events of a session are stored: all before that offset.
    Acknowledged {
        /// The session.
        session: SessionId,
        /// Where what is stored ends.
        through: Offset,
    },
    /// Queued events of a session were not stored, from that offset on.
    AppendFailed {
        /// The session.
        session: SessionId,
        /// Where what was not stored begins.
        from: Offset,
        /// Why, and what became of them.
        error: StorageError,
    },
    /// More of a session is on stable storage: all up to that event.
    Durable {
        /// The session.
        session: SessionId,
        /// Its last durable event.
        through: Seq,
    },
    /// This daemon owns a session no longer: nothing of it that is queued will be stored.
    LeaseLost {
        /// The session.
        session: SessionId,
        /// Its owner now, where that is known.
        by: Option<DaemonId>,
    },
    /// The way to the store was lost, or is there again.
    Connection(Connection),
}

/// The way to a store that is remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Nothing comes through. Requests and appends wait, or fail with what became of them.
    Lost,
    /// It is there again.
    Restored,
}

/// What became of an append.
#[derive(Debug)]
pub enum Append {
    /// Everything before its end is stored.
    Written,
    /// It is on its way: [`Event::Acknowledged`], [`Event::AppendFailed`] or [`Event::LeaseLost`] says what became of it.
    Queued,
    /// Nothing of it was kept.
    Refused(StorageError),
}

/// An engine: where sessions are kept when they are not live, and, if it is durable, what live ones have appended.
///
/// The laws, which one test holds every engine to (`tests/store/engine_laws.rs`; `docs/storage-engines.md` tells them at length):
/// no method waits; every request that was started is done once; of a session, appends are acknowledged in order,
/// each once; what follows a failed one fails with it, until the failure was polled; a release, a flush or a delete
/// takes effect behind the appends before it.
pub trait Storage {
    /// What it is.
    fn info(&self) -> StoreInfo;

    /// Begins a request; an [`Event::Done`] says when it is answered. What needs no waiting is done at once.
    fn start(&mut self, ticket: Ticket, request: Request);

    /// The next event, if there is one. What others have told since the last look is heard: this must be asked again and
    /// again, or nothing goes on.
    fn poll(&mut self) -> Option<Event>;

    /// Whether [`Self::poll`] has something to say; it is heard as there.
    fn has_events(&mut self) -> bool;

    /// Whether nothing is under way, group commits included.
    fn is_quiet(&self) -> bool {
        true
    }

    /// Stores the events `from..to` of a live session, and whatever a load has added to its log before them. With no such
    /// events: what a load left to be mended is mended. An engine that needs no waiting writes them at once.
    fn append(&mut self, lease: Lease<'_>, log: &mut Outgoing<'_>, from: Offset, to: Offset) -> Append {
        let _ = (lease, log, from, to);
        Append::Written
    }

    /// Gives up a session that was opened and did not become live, or whose log and memory may differ.
    fn discard(&mut self, id: &SessionId);

    /// Whether the log of a live session is as this process left it, as far as can be told without waiting: what an
    /// answer of events that had been there before promises.
    fn check(&self, id: &SessionId) -> Result<(), StorageError> {
        let _ = id;
        Ok(())
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
