//! `memory:`: closed sessions are kept until the daemon ends.

use std::collections::{HashMap, VecDeque};

use crate::log::{Header, Offset, SessionId};
use crate::rpc::results::Status;
use crate::rpc::storage::{
    Inspected, Job, JobResult, ListFacts, Listed, Loaded, Storage, StorageError, StoreDescription,
    StoredInfo, StoredSummary, Ticket,
};
use crate::session::{History, Rules};

struct Kept {
    header: Header,
    inherited: Offset,
    history: History,
}

/// Sessions that were closed, in memory.
#[derive(Default)]
pub struct MemoryStorage {
    kept: HashMap<SessionId, Kept>,
    finished: VecDeque<(Ticket, JobResult)>,
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
        })?;
        let repaired = (closers > 0).then_some((closers, 0));
        Ok(Box::new(Loaded { header: kept.header.clone(), inherited: kept.inherited, history, repaired }))
    }

    fn inspect(&mut self, id: SessionId) -> Result<Box<Inspected>, StorageError> {
        let Some(kept) = self.kept.get_mut(&id) else { return Err(StorageError::NotFound(id)) };
        Ok(Box::new(Inspected {
            header: kept.header.clone(),
            inherited: kept.inherited,
            closers: kept.history.closer_lines(),
            log: kept.history.share_log(),
            torn_tail: None,
            problems: Vec::new(),
            locked_by: None,
        }))
    }

    fn list(&self) -> Vec<StoredInfo> {
        let info = |kept: &Kept| StoredInfo {
            id: kept.header.id.as_str().to_owned(),
            place: String::new(),
            header: Some(kept.header.clone()),
            facts: ListFacts::of(&kept.history),
            status: Status::Ok,
            reason: None,
        };
        self.kept.values().map(info).collect()
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
    fn describe(&self) -> StoreDescription {
        StoreDescription { kind: "memory", root: None }
    }

    fn start(&mut self, ticket: Ticket, job: Job) {
        let result = match job {
            Job::Find(id, _) => JobResult::Found(Ok(self.find(&id))),
            Job::Load { id, vocabulary, limits } => {
                JobResult::Loaded(self.load(id, Rules { vocabulary: &vocabulary, limits: &limits }))
            }
            Job::Inspect { id, .. } => JobResult::Inspected(self.inspect(id)),
            Job::List(_, place) => JobResult::Listed(Ok(Listed::new(self.list(), place))),
            Job::LookUp(mut place) => {
                place.look_up();
                JobResult::LookedUp(place)
            }
            Job::Publish(..) | Job::Sync(..) | Job::Abandon(_) => JobResult::Kept(Ok(None)),
            Job::Release(session) => {
                let (header, inherited, history) = session.into_parts();
                self.kept.insert(header.id.clone(), Kept { header, inherited, history });
                JobResult::Kept(Ok(None))
            }
            Job::Delete(id) => {
                self.kept.remove(&id);
                JobResult::Deleted(Ok(()))
            }
        };
        self.finished.push_back((ticket, result));
    }

    fn finished(&mut self) -> Option<(Ticket, JobResult)> {
        self.finished.pop_front()
    }
}
