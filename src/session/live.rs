//! The live sessions: by id, in the order of creation, and by their latest activity.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::RandomState;
use slab::Slab;

use super::recency::{Recency, Standing};
use super::refusal::Refusal;
use super::session::Session;
use crate::log::SessionId;

#[derive(Debug)]
struct Entry {
    /// Counted in the order of creation.
    place: u64,
    session: Session,
    /// How it stands in [`LiveSessions::recency`]; none while it is among the moved.
    listed: Option<Standing>,
}

/// The live sessions of a store.
#[derive(Debug, Default)]
pub(super) struct LiveSessions {
    entries: Slab<Entry>,
    by_id: HashMap<SessionId, usize, RandomState>,
    order: BTreeMap<u64, usize>,
    /// The one that was changed last, if it is still there: mostly the next one to be changed is the same.
    last: usize,
    opened: u64,
    /// What a list shows, but for those that have changed since the last one: appends pay nothing for it.
    recency: Recency,
    moved: BTreeSet<u64>,
}

impl LiveSessions {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Session> {
        self.by_id.get(id).and_then(|at| self.session(*at))
    }

    fn session(&self, at: usize) -> Option<&Session> {
        self.entries.get(at).map(|entry| &entry.session)
    }

    /// The session of that id and instance, to be changed, and its place.
    #[inline]
    pub(super) fn get_mut(
        &mut self,
        id: &str,
        instance: Option<&str>,
    ) -> Result<(u64, &mut Session), Refusal> {
        if self.session(self.last).is_none_or(|session| session.id().as_str() != id) {
            self.last = *self.by_id.get(id).ok_or_else(|| not_found(id))?;
        }
        let Entry { place, session, listed } =
            self.entries.get_mut(self.last).ok_or_else(|| not_found(id))?;
        session.check_instance(instance)?;
        if let Some(standing) = listed.take() {
            self.recency.remove(standing, session.id());
            self.moved.insert(*place);
        }
        Ok((*place, session))
    }

    /// The session of that place.
    pub(super) fn at(&self, place: u64) -> Option<&Session> {
        self.session(*self.order.get(&place)?)
    }

    /// The place that the next one gets.
    pub(super) fn next_place(&self) -> u64 {
        self.opened
    }

    pub(super) fn insert(&mut self, session: Session) {
        let (id, place) = (session.id().clone(), self.opened);
        self.opened += 1;
        let at = self.entries.insert(Entry { place, session, listed: None });
        self.order.insert(place, at);
        self.moved.insert(place);
        self.by_id.insert(id, at);
    }

    pub(super) fn remove(&mut self, id: &str) -> Result<Session, Refusal> {
        let at = self.by_id.remove(id).ok_or_else(|| not_found(id))?;
        let Entry { place, session, listed } = self.entries.try_remove(at).ok_or_else(|| not_found(id))?;
        self.order.remove(&place);
        self.moved.remove(&place);
        if let Some(standing) = listed {
            self.recency.remove(standing, session.id());
        }
        Ok(session)
    }

    /// In the order of creation.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.order.values().filter_map(|at| self.session(*at))
    }

    /// Sorts in what has changed.
    fn sort(&mut self) {
        for place in std::mem::take(&mut self.moved) {
            let entry = self.order.get(&place).and_then(|at| self.entries.get_mut(*at));
            if let Some(Entry { session, listed, .. }) = entry {
                let is_empty = session.history().log().is_empty();
                let standing = Standing { time: session.active_at(), is_empty };
                self.recency.insert(standing, session.id());
                *listed = Some(standing);
            }
        }
    }

    /// Latest activity first; with `key` those behind that time and id.
    pub(super) fn recent(
        &mut self,
        key: Option<(i64, &str)>,
        with_empty: bool,
    ) -> impl Iterator<Item = &Session> {
        self.sort();
        self.recency.behind(key, with_empty).filter_map(|id| self.get(id))
    }

    /// Those whose latest activity is later than `moment`.
    pub(super) fn active_after(&mut self, moment: i64) -> impl Iterator<Item = &Session> {
        self.sort();
        self.recency.after(moment).filter_map(|id| self.get(id))
    }
}

#[cold]
pub(super) fn not_found(id: &str) -> Refusal {
    Refusal::NotFound(id.chars().take(300).collect())
}
