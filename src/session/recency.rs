//! Sessions by their latest activity, so that a page of a list costs what is on it.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::log::SessionId;

/// The ids of sessions by the time of their latest activity, in milliseconds, and then by themselves: what sorts a
/// list (PROTOCOL 3, Listing).
#[derive(Debug, Default)]
pub struct Recency(BTreeSet<(i64, Box<str>)>);

impl Recency {
    /// Adds a session.
    pub fn insert(&mut self, time: i64, id: &SessionId) {
        self.0.insert((time, id.as_str().into()));
    }

    /// Takes a session out; `time` must be what it was added with.
    pub fn remove(&mut self, time: i64, id: &SessionId) {
        self.0.remove(&(time, id.as_str().into()));
    }

    /// The ids, latest first; with `key` those that a list shows behind that time and id.
    pub fn behind(&self, key: Option<(i64, &str)>) -> impl Iterator<Item = &str> {
        let end = key.map_or(Bound::Unbounded, |(time, id)| Bound::Excluded((time, id.into())));
        self.0.range((Bound::Unbounded, end)).rev().map(|(_, id)| &**id)
    }
}
