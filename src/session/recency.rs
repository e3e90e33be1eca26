//! Sessions by their latest activity, so that a page of a list costs what is on it.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::log::SessionId;

/// What places a session in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The time of its latest activity, in milliseconds.
    pub time: i64,
    /// It has no event: most lists leave it out, however many there are.
    pub is_empty: bool,
}

/// The ids of sessions by the time of their latest activity, in milliseconds, and then by themselves: what sorts a
/// list (PROTOCOL 3, Listing).
#[derive(Debug, Default)]
pub struct Recency {
    begun: BTreeSet<(i64, Box<str>)>,
    empty: BTreeSet<(i64, Box<str>)>,
}

impl Recency {
    fn those(&mut self, is_empty: bool) -> &mut BTreeSet<(i64, Box<str>)> {
        if is_empty { &mut self.empty } else { &mut self.begun }
    }

    /// Adds a session.
    pub fn insert(&mut self, Standing { time, is_empty }: Standing, id: &SessionId) {
        self.those(is_empty).insert((time, id.as_str().into()));
    }

    /// Takes a session out, which must stand as it was added.
    pub fn remove(&mut self, Standing { time, is_empty }: Standing, id: &SessionId) {
        self.those(is_empty).remove(&(time, id.as_str().into()));
    }

    /// The ids of those with an event whose latest activity is later than `moment`.
    pub fn after(&self, moment: i64) -> impl Iterator<Item = &str> {
        let from = Bound::Included((moment.saturating_add(1), "".into()));
        self.begun.range((from, Bound::Unbounded)).map(|(_, id)| &**id)
    }

    /// The ids, latest first; with `key` those that a list shows behind that time and id.
    pub fn behind(&self, key: Option<(i64, &str)>, with_empty: bool) -> impl Iterator<Item = &str> {
        let end = key.map_or(Bound::Unbounded, |(time, id)| Bound::Excluded((time, id.into())));
        let mut begun = self.begun.range((Bound::Unbounded, end.clone())).rev().peekable();
        let mut empty = self.empty.range((Bound::Unbounded, end)).rev().peekable();
        std::iter::from_fn(move || {
            let is_begun = !with_empty || begun.peek() > empty.peek();
            let next = if is_begun { begun.next() } else { empty.next() };
            next.map(|(_, id)| &**id)
        })
    }
}
