//! `session/rescue` (PROTOCOL 3.1, Rescue).

use crate::log::{Header, SessionId};
use crate::protocol::params::RescueParams;
use crate::protocol::results::Opened;
use crate::server::service::{Answer, Next, Service, Stop, session_id};
use crate::session::{Moment, Restore};
use crate::store::StorageError;
use crate::store::storage::{Job, JobResult, Rescued};

use super::end::odd_result;

impl Service {
    /// *Opened* of the session as it goes on: under its own id, or under another one where its own is another log's. One
    /// whose file is sound, or that is never stored, is left as it is.
    pub(super) fn rescue(&mut self, params: RescueParams) -> Answer<Opened> {
        let child = params.child_session_id.as_deref();
        let child = child.map(|id| session_id("childSessionId", id)).transpose()?;
        if let Some(child) = &child {
            self.check_unknown(child)?;
        }
        let session = match self.store.session(&params.session_id) {
            Ok(session) => session,
            Err(refusal) => return Err(self.refused(refusal)),
        };
        if session.is_ephemeral() || !self.durable_store {
            return Ok(self.opened(session));
        }
        let id = session.id().clone();
        match self.call.resumed.take() {
            None => self.begin_rescue(&id, child),
            Some(JobResult::Rescued(Ok(Rescued::Sound | Rescued::Anew))) => {
                Ok(self.opened(self.store.session(id.as_str())?))
            }
            Some(JobResult::Rescued(Ok(Rescued::Renamed(other)))) => self.rename(&id, other),
            // Its own, or a counted one.
            Some(JobResult::Rescued(Err(StorageError::Exists { .. }))) if child.is_none() => {
                let moment = &mut Moment::at(0, &mut self.settings.ids);
                let other = self.store.mint(moment)?;
                self.begin_rescue(&id, Some(other))
            }
            Some(JobResult::Rescued(Err(error))) => Err(error.into()),
            Some(_) => Err(odd_result()),
        }
    }

    fn begin_rescue(&mut self, id: &SessionId, other: Option<SessionId>) -> Answer<Opened> {
        let publication = self.store.session_mut(id.as_str())?.into();
        self.call.next = Next::Rerun(Job::Rescue(Box::new(publication), other));
        Err(Stop::Wait)
    }

    /// A live session goes on under another id, under which it is stored: its old life ends, and a new one begins.
    fn rename(&mut self, id: &SessionId, other: SessionId) -> Answer<Opened> {
        let Some(session) = self.end(id.as_str()) else { return Err(odd_result()) };
        let invariants = session.invariants();
        let (header, inherited, history) = session.into_parts();
        let restore =
            Restore { header: Header { id: other, ..header }, inherited, history, invariants, mended: None };
        let moment = &mut Moment::at(0, &mut self.settings.ids);
        let id = self.store.restore(restore, moment)?;
        let opened = self.opened(self.store.session(id.as_str())?);
        self.created(&opened);
        Ok(opened)
    }
}
