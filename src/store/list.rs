//! What a list is asked for, and a page of it.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::storage::Status;
use super::{DaemonId, SamePlace};
use crate::log::{ForeignTypes, Header, Offset, active_at};
use crate::session::{History, Vocabulary};

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

/// Which page of the list of all sessions is asked for. An engine makes the page itself: one with an index reads no more
/// than what is on it.
#[derive(Debug)]
pub struct ListQuery {
    /// The types that this process knows: sessions that hold others are unsupported.
    pub vocabulary: Vocabulary,
    /// The working directory that is asked for, if one is; other spellings of it count, too.
    pub place: Option<Box<SamePlace>>,
    /// Where the page begins; none for the first.
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

impl ListQuery {
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

    /// A page of these sessions; looks their working directories up, which may wait for the file system. `owner` is asked
    /// who owns those on the page, by their indexes.
    pub fn page(
        mut self: Box<Self>,
        sessions: Vec<StoredInfo>,
        mut owner: impl FnMut(usize) -> Option<DaemonId>,
    ) -> ListPage {
        if let Some(place) = &mut self.place {
            let cwd = |info: &StoredInfo| info.header.as_ref().and_then(|header| header.cwd.clone());
            sessions.iter().filter_map(cwd).for_each(|cwd| place.ask(&cwd));
            place.look_up();
        }
        let picked = self.pick(&sessions);
        let mut sessions: Vec<_> = sessions.into_iter().map(Some).collect();
        let sessions = picked.into_iter().filter_map(|index| {
            let info = sessions.get_mut(index)?.take()?;
            Some(StoredInfo { locked_by: owner(index), ..info })
        });
        ListPage { sessions: sessions.collect(), query: self }
    }

    /// The indexes of those that may be on the page, in its order.
    fn pick(&self, sessions: &[StoredInfo]) -> Vec<usize> {
        let is_shown = |info: &StoredInfo| {
            let header = info.header.as_ref();
            let is_there = |place: &SamePlace| {
                header.and_then(|header| header.cwd.as_deref()).is_some_and(|cwd| place.is(cwd))
            };
            (self.with_empty || !info.is_empty())
                && self.place.as_deref().is_none_or(is_there)
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

/// A page of the stored sessions.
#[derive(Debug)]
pub struct ListPage {
    /// Those that may be on the page, in its order.
    pub sessions: Vec<StoredInfo>,
    /// What was asked for, its place looked up.
    pub query: Box<ListQuery>,
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
