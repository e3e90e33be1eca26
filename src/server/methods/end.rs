//! `session/flush`, `session/close`, `session/delete`, `session/inspect`.

use crate::log::{Offset, Seq, SessionId};
use crate::protocol::RawJson;
use crate::protocol::params::{EndParams, InspectParams, SessionParams};
use crate::protocol::results::{EmptyResult, Face, FlushResult, InspectResult};
use crate::server::call::{AfterCall, Answer, CallError, Held};
use crate::server::errors::not_stored;
use crate::server::service::{Service, header_result};
use crate::server::splice::Place;
use crate::session::{Refusal, Session};
use crate::store::StorageError;
use crate::store::storage::{Append, Inspected, Lease, ListFacts, LoadRules, Publication, Released, Request};

use super::append::seq_number;

impl Service {
    pub(super) fn flush(&mut self, params: SessionParams) -> Answer<FlushResult> {
        let session = self.check_live(&params.session_id, None)?;
        if session.is_ephemeral() || !self.durable_store {
            return Ok(FlushResult { durable_seq: None });
        }
        let id = session.id().clone();
        let summary = ListFacts::of(session.history());
        self.make_durable(id, Some(summary), |_, durable| {
            Ok(FlushResult { durable_seq: seq_number(durable?) })
        })
    }

    /// Makes all of a live session durable, which mends its file, to go on with the last durable event. A summary of it
    /// is left beside the log.
    fn make_durable<T: 'static>(
        &mut self,
        id: SessionId,
        summary: Option<ListFacts>,
        then: impl FnOnce(&mut Self, Result<Option<Seq>, StorageError>) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let session = self.store.session_mut(id.as_str())?;
        let (end, summary) = (session.next_seq(), summary.map(Box::new));
        match session.epoch() {
            None if end > Offset::ZERO => {
                let publication = Box::new(Publication { summary, ..session.into() });
                let session = id.clone();
                let create = |reply| Request::Create { id: session, publication, reply };
                return Err(CallError::need(create, move |service, created| {
                    let durable = created.map(|created| {
                        service.owns(&id, created);
                        created.durable
                    });
                    then(service, durable)
                }));
            }
            None => {}
            Some(epoch) => {
                let (session, mut log) = session.outgoing();
                // What its load left to be mended is mended, and the flush waits for that.
                let append = self.storage.append(Lease { session, epoch }, &mut log, end, end);
                if let Append::Refused(error) = append {
                    return then(self, Err(error));
                }
            }
        }
        Err(CallError::need(|reply| Request::Sync { id, facts: summary, reply }, then))
    }

    /// A session that cannot be made durable stays live, so that closing it again promises what it says: only its
    /// memory has what a failed sync may have lost, or what another program took from the log. One that was deleted is
    /// closed all the same.
    pub(super) fn close(&mut self, params: EndParams) -> Answer<Face<EmptyResult>> {
        let session = self.store.session(&params.session_id).ok();
        match session.filter(|session| !session.is_ephemeral() && self.durable_store) {
            None => self.close_settled(&params.session_id),
            Some(session) => {
                let id = session.id().clone();
                self.make_durable(id, None, move |service, durable| match durable {
                    Err(error) if !error.lets_close() => Err(error.into()),
                    _ => service.close_settled(&params.session_id),
                })
            }
        }
    }

    fn close_settled(&mut self, id: &str) -> Answer<Face<EmptyResult>> {
        if let Ok(session) = self.dispose(id)
            && !session.is_ephemeral()
        {
            let release = |reply| Request::Release { session, reply };
            self.call.next = AfterCall::Hold(Held::new(release, |_, released| match released {
                Released::Whole => Ok(()),
                Released::Short { error, .. } => Err(error),
            }));
        }
        Ok(self.empty())
    }

    pub(super) fn delete(&mut self, params: EndParams) -> Answer<Face<EmptyResult>> {
        let Ok(id) = SessionId::new(&params.session_id) else { return Ok(self.empty()) };
        let delete = |reply| Request::Delete { id, reply };
        Err(CallError::need(delete, move |service, deleted| {
            deleted?;
            let _ = service.dispose(&params.session_id); // it need not have been live
            Ok(service.empty())
        }))
    }

    fn empty(&self) -> Face<EmptyResult> {
        match self.face(EmptyResult {}, |_| Vec::new()) {
            Face::Acp(root, _) => Face::Acp(root, None), // there is nothing native to say
            native => native,
        }
    }

    /// Takes a live session out of the store and says so.
    pub(in crate::server) fn dispose(&mut self, id: &str) -> Result<Box<Session>, Refusal> {
        let session = self.evict(id)?;
        self.announce_disposed(&session);
        Ok(session)
    }

    /// Takes a live session out of the store that nobody was told of.
    pub(in crate::server) fn evict(&mut self, id: &str) -> Result<Box<Session>, Refusal> {
        let session = self.store.close(id)?;
        self.followers.remove(session.id());
        Ok(Box::new(session))
    }

    pub(super) fn inspect(&mut self, params: InspectParams) -> Answer<InspectResult> {
        let id = SessionId::new(&params.session_id).map_err(|_| not_stored(&params.session_id))?;
        let Ok(session) = self.store.session_mut(id.as_str()) else {
            let rules = self.load_rules();
            let inspect = |reply| Request::Inspect { id, rules, reply };
            return Err(CallError::need(inspect, move |service, inspected| {
                service.inspected(&params, *inspected?)
            }));
        };
        let inspected = Inspected {
            problems: [session.warnings(), self.storage.warnings(session.id())].concat(),
            header: session.header().clone(),
            inherited: session.inherited_event_count(),
            closers: session.history().closer_lines(),
            log: session.share_log(),
            torn_tail: None,
            locked_by: None,
        };
        self.inspected(&params, inspected)
    }

    fn inspected(&mut self, params: &InspectParams, inspected: Inspected) -> Answer<InspectResult> {
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

    /// What a stored log must keep to be read here.
    pub(super) fn load_rules(&self) -> LoadRules {
        LoadRules { vocabulary: self.store.vocabulary().clone(), limits: *self.store.limits() }
    }
}
