//! `session/rescue` (PROTOCOL 3.1, Rescue).

use crate::log::{Header, SessionId};
use crate::protocol::params::RescueParams;
use crate::protocol::results::Opened;
use crate::server::call::{Answer, CallError};
use crate::server::service::{Service, session_id};
use crate::session::{Context, Restore};
use crate::store::StorageError;
use crate::store::storage::{Request, Rescued};

impl Service {
    /// *Opened* of the session as it goes on: under its own id, or under another one where its own is another log's. One
    /// whose file is sound, or that is never stored, is left as it is.
    pub(super) fn rescue(&mut self, params: RescueParams) -> Answer<Opened> {
        let child = params.child_session_id.as_deref();
        let child = child.map(|id| session_id("childSessionId", id)).transpose()?;
        match child {
            None => self.rescue_as(&params.session_id, None),
            Some(child) => self.unless_stored(child, move |service, child| {
                service.rescue_as(&params.session_id, Some(child))
            }),
        }
    }

    fn rescue_as(&mut self, id: &str, child: Option<SessionId>) -> Answer<Opened> {
        let session = self.check_live(id, None)?;
        if session.is_ephemeral() || !self.durable_store {
            return Ok(self.opened(session));
        }
        let id = session.id().clone();
        let mints = child.is_none();
        self.store_anew(id, child, mints)
    }

    /// Stores a session anew if need be, under the other id if its own is taken; `mints` says that another one may be
    /// minted for that.
    fn store_anew(&mut self, id: SessionId, other: Option<SessionId>, mints: bool) -> Answer<Opened> {
        let publication = Box::new(self.store.session_mut(id.as_str())?.into());
        let rescue = |reply| Request::Rescue { publication, other, reply };
        Err(CallError::need(rescue, move |service, rescued| match rescued {
            Ok(Rescued::Sound | Rescued::Anew) => Ok(service.opened(service.store.session(id.as_str())?)),
            Ok(Rescued::Renamed(other, epoch)) => service.rename(&id, other, epoch),
            // Its own, or a counted one.
            Err(StorageError::Exists { .. }) if mints => {
                let context = &mut Context::at(0, &mut service.settings.ids);
                let other = service.store.mint(context)?;
                service.store_anew(id, Some(other), mints)
            }
            Err(error) => Err(error.into()),
        }))
    }

    /// A live session goes on under another id, under which it is stored: its old life ends, and a new one begins.
    fn rename(&mut self, id: &SessionId, other: SessionId, epoch: u64) -> Answer<Opened> {
        let session = self.dispose(id.as_str())?;
        let invariants = session.invariants();
        let (header, inherited, history) = session.into_parts();
        let restore =
            Restore { header: Header { id: other, ..header }, inherited, history, invariants, mended: None };
        let context = &mut Context::at(0, &mut self.settings.ids);
        let id = self.store.restore(restore, context)?;
        self.store.session_mut(id.as_str())?.set_epoch(epoch);
        let opened = self.opened(self.store.session(id.as_str())?);
        self.created(&opened);
        Ok(opened)
    }
}
