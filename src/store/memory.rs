//! `memory:`: closed sessions are kept until the daemon ends.

use std::collections::{HashMap, VecDeque};

use super::StorageError;
use super::storage::Status;
use super::storage::{
    Created, Event, Inspected, ListFacts, ListQuery, Loaded, Released, Request, Rescued, Storage, StoreInfo,
    StoredInfo, StoredSummary, Ticket,
};
use crate::log::{Header, Offset, SessionId, active_at, active_until};
use crate::session::{History, Mended, Recency, Rules, Standing};

struct Kept {
    header: Header,
    inherited: Offset,
    history: History,
}

impl Kept {
    fn standing(&self) -> Standing {
        let log = self.history.log();
        let time = active_at(&self.header, self.history.view().activity.last_time(log));
        Standing { time, is_empty: log.is_empty() }
    }
}

/// Sessions that were closed, in memory.
#[derive(Default)]
pub struct MemoryStorage {
    kept: HashMap<SessionId, Kept>,
    /// Those of them that are not live again.
    resting: Recency,
    events: VecDeque<Event>,
}

impl MemoryStorage {
    fn load(&mut self, id: SessionId, rules: Rules<'_>) -> Result<Box<Loaded>, StorageError> {
        let Some(kept) = self.kept.get_mut(&id) else { return Err(StorageError::NotFound(id)) };
        let length = kept.history.log().len();
        let mut history = kept.history.fork(length);
        let closers = history.close_turn(None, rules).map_err(|refusal| StorageError::Corrupt {
            id: id.clone(),
            reason: refusal.to_string(),
            line: length.get() + 1,
            offset: 0,
            rule: "",
            remedy: Some("see session/inspect"),
        })?;
        self.resting.remove(kept.standing(), &id);
        let mended = (closers > 0).then_some(Mended { closers, cut_bytes: 0, cut_events: 0, is_loss: false });
        Ok(Box::new(Loaded {
            header: kept.header.clone(),
            inherited: kept.inherited,
            history,
            mended,
            epoch: 0,
        }))
    }

    fn inspect(&mut self, id: SessionId) -> Result<Box<Inspected>, StorageError> {
        let Some(kept) = self.kept.get_mut(&id) else { return Err(StorageError::NotFound(id)) };
        Ok(Box::new(Inspected {
            header: kept.header.clone(),
            inherited: kept.inherited,
            closers: kept.history.closer_lines(),
            problems: kept.history.warnings(),
            log: kept.history.share_log(),
            torn_tail: None,
            locked_by: None,
        }))
    }

    fn list(&self, query: &ListQuery) -> Vec<StoredInfo> {
        let info = |kept: &Kept| {
            let facts = ListFacts::of(&kept.history);
            StoredInfo {
                id: kept.header.id.as_str().to_owned(),
                place: String::new(),
                header: Some(kept.header.clone()),
                active: match query.moment_before(facts.last_time) {
                    Some(moment) => active_until(kept.history.log(), moment),
                    None => facts.last_time,
                },
                facts,
                status: Status::Ok,
                reason: None,
                locked_by: None,
            }
        };
        let is_old = |kept: &&Kept| !query.is_new(kept.header.created_at);
        let kept = |id: &str| self.kept.get(id);
        let behind = query.behind.as_ref().map(|behind| (behind.time, &*behind.id));
        let resting = self.resting.behind(behind, query.with_empty).filter_map(kept).filter(is_old);
        let resting = resting.take(if query.place.is_some() { usize::MAX } else { query.most });
        let moved = query.behind.iter().flat_map(|behind| self.resting.after(behind.moment));
        resting.chain(moved.filter_map(kept).filter(is_old)).map(info).collect()
    }

    fn find(&self, id: &SessionId) -> Option<StoredSummary> {
        self.kept.get(id).map(|kept| StoredSummary {
            parent_session: kept.header.parent_session.clone(),
            inherited: kept.inherited,
            next_seq: kept.history.log().len(),
        })
    }
}

impl Storage for MemoryStorage {
    fn info(&self) -> StoreInfo {
        StoreInfo { kind: "memory", location: None, durable: false, shared: false }
    }

    fn start(&mut self, ticket: Ticket, request: Request) {
        match request {
            Request::Find { id, reply, .. } => reply.keep(Ok(self.find(&id))),
            Request::Load { id, rules, reply } => {
                let rules = Rules { vocabulary: &rules.vocabulary, limits: &rules.limits };
                reply.keep(self.load(id, rules));
            }
            Request::Inspect { id, reply, .. } => reply.keep(self.inspect(id)),
            Request::List { query, reply } => {
                let sessions = self.list(&query);
                reply.keep(Ok(query.page(sessions, |_| None)));
            }
            Request::LookUp { mut place, reply } => {
                place.look_up();
                reply.keep(Ok(place));
            }
            Request::Create { reply, .. } => reply.keep(Ok(Created { epoch: 0, durable: None })),
            Request::Sync { reply, .. } => reply.keep(Ok(None)),
            Request::Release { session, reply } => {
                let (header, inherited, history) = session.into_parts();
                let (id, kept) = (header.id.clone(), Kept { header, inherited, history });
                self.resting.insert(kept.standing(), &id);
                self.kept.insert(id, kept);
                reply.keep(Ok(Released::Whole));
            }
            Request::Rescue { reply, .. } => reply.keep(Ok(Rescued::Sound)),
            Request::Delete { id, reply } => {
                if let Some(kept) = self.kept.remove(&id) {
                    self.resting.remove(kept.standing(), &id);
                }
                reply.keep(Ok(()));
            }
        }
        self.events.push_back(Event::Done(ticket));
    }

    fn discard(&mut self, id: &SessionId) {
        if let Some(kept) = self.kept.get(id) {
            self.resting.insert(kept.standing(), id);
        }
    }

    fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn has_events(&mut self) -> bool {
        !self.events.is_empty()
    }
}
