//! `session/flush`, `session/close`, `session/delete`, `session/inspect`.

use crate::log::{Offset, Seq, SessionId};
use crate::protocol::RawJson;
use crate::protocol::params::{EndParams, InspectParams, SessionParams};
use crate::protocol::results::{EmptyResult, Face, FlushResult, InspectResult};
use crate::protocol::{Code, WireError};
use crate::server::errors::not_stored;
use crate::server::service::{Answer, Next, Place, Service, Stop, header_result};
use crate::session::Session;
use crate::store::StorageError;
use crate::store::storage::{Inspected, Job, JobResult, ListFacts, Publication, Written};

use super::append::seq_number;

impl Service {
    pub(super) fn flush(&mut self, params: SessionParams) -> Answer<FlushResult> {
        let session = match self.store.session(&params.session_id) {
            Ok(session) => session,
            Err(refusal) => return Err(self.refused(refusal)),
        };
        if session.is_ephemeral() || !self.durable_store {
            return Ok(FlushResult { durable_seq: None });
        }
        let id = session.id().clone();
        let summary = ListFacts::of(session.history());
        Ok(FlushResult { durable_seq: seq_number(self.make_durable(&id, Some(summary))??) })
    }

    /// Makes all of a live session durable, which mends its file; the last durable event. A summary of it is left
    /// beside the log.
    fn make_durable(
        &mut self,
        id: &SessionId,
        summary: Option<ListFacts>,
    ) -> Answer<Result<Option<Seq>, StorageError>> {
        let mut job = Job::Sync(id.clone(), None);
        if self.call.resumed.is_none() {
            let session = self.store.session(id.as_str())?;
            let has_events = session.next_seq() > Offset::ZERO;
            let written = self.storage.write(session);
            let summary = summary.map(Box::new);
            match written {
                Written::Failed(error) => return Ok(Err(error)),
                // Its file is to be mended first; that makes it durable, too.
                Written::Publish if has_events => {
                    if let Some(Job::Publish(id, publication)) = self.publication(id, None) {
                        job = Job::Publish(id, Box::new(Publication { summary, ..*publication }));
                    }
                }
                Written::Publish | Written::Done => job = Job::Sync(id.clone(), summary),
            }
        }
        match self.wait_for(|| job)? {
            JobResult::Kept(kept) => Ok(kept),
            _ => Err(odd_result()),
        }
    }

    /// A session that cannot be made durable stays live, so that closing it again promises what it says: only its
    /// memory has what a failed sync may have lost, or what another program took from the log. One that was deleted is let
    /// go of all the same.
    pub(super) fn close(&mut self, params: EndParams) -> Answer<Face<EmptyResult>> {
        if let Ok(session) = self.store.session(&params.session_id)
            && !session.is_ephemeral()
            && self.durable_store
        {
            let id = session.id().clone();
            if let Err(error) = self.make_durable(&id, None)?
                && !error.lets_close()
            {
                return Err(error.into());
            }
        }
        if let Some(session) = self.end(&params.session_id).filter(|session| !session.is_ephemeral()) {
            self.call.next = Next::Hold(Job::Release(session), None);
        }
        Ok(self.empty())
    }

    pub(super) fn delete(&mut self, params: EndParams) -> Answer<Face<EmptyResult>> {
        let Ok(id) = SessionId::new(&params.session_id) else { return Ok(self.empty()) };
        match self.wait_for(|| Job::Delete(id))? {
            JobResult::Deleted(deleted) => deleted?,
            _ => return Err(odd_result()),
        }
        self.end(&params.session_id);
        Ok(self.empty())
    }

    fn empty(&self) -> Face<EmptyResult> {
        match self.face(EmptyResult {}, |_| Vec::new()) {
            Face::Acp(root, _) => Face::Acp(root, None), // there is nothing native to say
            native => native,
        }
    }

    /// Takes a live session out of the store and says so.
    pub(in crate::server) fn end(&mut self, id: &str) -> Option<Box<Session>> {
        let session = self.forget(id)?;
        self.disposed(&session);
        Some(session)
    }

    /// Takes a live session out of the store that nobody was told of.
    pub(in crate::server) fn forget(&mut self, id: &str) -> Option<Box<Session>> {
        let session = self.store.close(id).ok()?;
        self.followers.remove(session.id());
        Some(Box::new(session))
    }

    pub(super) fn inspect(&mut self, params: InspectParams) -> Answer<InspectResult> {
        let id = SessionId::new(&params.session_id).map_err(|_| not_stored(&params.session_id))?;
        let inspected = match self.store.session_mut(id.as_str()) {
            Ok(session) => Inspected {
                problems: session.warnings(),
                header: session.header().clone(),
                inherited: session.inherited_event_count(),
                closers: session.history().closer_lines(),
                log: session.share_log(),
                torn_tail: None,
                locked_by: None,
            },
            Err(_) => {
                let (vocabulary, limits) = (self.store.vocabulary().clone(), *self.store.limits());
                match self.wait_for(|| Job::Inspect { id, vocabulary, limits })? {
                    JobResult::Inspected(inspected) => *inspected?,
                    _ => return Err(odd_result()),
                }
            }
        };
        let (events, next) =
            self.event_page(&inspected.log, params.from_seq, params.limit, params.max_bytes)?;
        let events = self.call.keep_apart("events", Place::First, events);
        Ok(InspectResult {
            header: header_result(&inspected.header),
            inherited_event_count: inspected.inherited.get(),
            next_seq: inspected.log.len().get(),
            events,
            next,
            closers: RawJson::from_text(format!("[{}]", inspected.closers.join(","))),
            torn_tail: inspected.torn_tail.map(Into::into),
            problems: inspected.problems,
            locked_by: inspected.locked_by.map(Into::into),
        })
    }
}

pub(super) fn odd_result() -> Stop {
    WireError::new(Code::Internal, "storage gave another result than was asked for; report this").into()
}
