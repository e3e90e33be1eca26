//! The live sessions: by id, in the order of creation, and by their latest activity.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::RandomState;
use slab::Slab;

use super::recency::Recency;
use super::refusal::Refusal;
use super::session::Session;
use crate::log::SessionId;

#[derive(Debug)]
struct Entry {
    /// Counted in the order of creation.
    place: u64,
    session: Session,
    /// The time under which it stands in [`LiveSessions::recency`]; none while it is among the moved.
    listed: Option<i64>,
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
        if let Some(time) = listed.take() {
            self.recency.remove(time, session.id());
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
        if let Some(time) = listed {
            self.recency.remove(time, session.id());
        }
        Ok(session)
    }

    /// In the order of creation.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.order.values().filter_map(|at| self.session(*at))
    }

    /// Latest activity first; with `key` those behind that time and id.
    pub(super) fn recent(&mut self, key: Option<(i64, &str)>) -> impl Iterator<Item = &Session> {
        for place in std::mem::take(&mut self.moved) {
            let entry = self.order.get(&place).and_then(|at| self.entries.get_mut(*at));
            if let Some(Entry { session, listed, .. }) = entry {
                let time = session.active_at();
                self.recency.insert(time, session.id());
                *listed = Some(time);
            }
        }
        self.recency.behind(key).filter_map(|id| self.get(id))
    }
}

#[cold]
pub(super) fn not_found(id: &str) -> Refusal {
    Refusal::NotFound(id.chars().take(300).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::log::{Header, Offset};
    use crate::session::session::{InstanceId, Invariants, Opened};

    fn session(id: &str) -> Session {
        let header = Header {
            id: SessionId::new(id).unwrap(),
            created_at: 0,
            cwd: None,
            parent_session: None,
            is_seeded: false,
            subagent: false,
            delegation_depth: None,
            agent_preset: None,
        };
        let (inherited, first_live) = (Offset::ZERO, Offset::ZERO);
        let (invariants, history) = (Invariants::Enforce, Default::default());
        let opened = Opened { header, inherited, first_live, invariants, ephemeral: false, history };
        Session::open(opened, InstanceId("an instance".into()))
    }

    #[test]
    fn a_session_is_found_by_its_id_whichever_was_changed_last() {
        let mut live = LiveSessions::default();
        for id in ["a", "b", "c"] {
            live.insert(session(id));
        }
        let found = |live: &mut LiveSessions, id: &str| {
            live.get_mut(id, None).ok().map(|(place, session)| (place, session.id().as_str().to_owned()))
        };
        for (id, place) in [("b", 1), ("b", 1), ("a", 0), ("c", 2), ("b", 1)] {
            assert_eq!(found(&mut live, id), Some((place, id.to_owned())));
        }
        // Its room is another's now.
        live.remove("b").unwrap();
        assert_eq!(found(&mut live, "b"), None);
        live.insert(session("d"));
        assert_eq!((found(&mut live, "b"), live.len()), (None, 3));
        assert_eq!(found(&mut live, "d"), Some((3, "d".to_owned())));
        let order: Vec<_> = live.iter().map(|session| session.id().as_str()).collect();
        assert_eq!(order, ["a", "c", "d"]);
        for id in order.into_iter().map(str::to_owned).collect::<Vec<_>>() {
            live.remove(&id).unwrap();
            assert_eq!(found(&mut live, &id), None);
        }
        assert!(live.is_empty());
    }
}
