//! The state behind the methods, and how one call runs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jsonrpsee::types::ErrorObjectOwned;
use serde::Serialize;

use super::call::{AfterCall, Answer, Call, CallError};
use super::clock::Clock;
use super::connection::Connection;
use super::history_stream::begin_update;
use super::id_source::IdSource;
use super::splice::StreamSink;
use super::write_set::WriteSet;
use crate::acp::{Follower, Options, Replay, Updates};
use crate::json::{escape_separators, quote};
use crate::log::{Event, Header, Offset, SessionId};
use crate::protocol::RawJson;
use crate::protocol::params::InvariantsMode;
use crate::protocol::results::{Face, HeaderResult, Opened, Repaired};
use crate::protocol::{Code, WireError};
use crate::protocol::{Dialect, Notice};
use crate::session::{Context, Limits, Mended, Session, Store, Validation};
use crate::store::CanonicalPath;
use crate::store::StorageError;
use crate::store::storage::{Created, Request, Storage, StoredSummary};

/// Bounds of the wire (PROTOCOL 6).
#[derive(Clone, Copy, Debug)]
pub struct WireLimits {
    /// A line in or out, in bytes without its end.
    pub max_message_bytes: usize,
    /// Unread output, in bytes, before the input is no longer read.
    pub max_queued_bytes: usize,
    /// Entries of a page when no limit is given.
    pub page_entries: u64,
    /// Bytes of a page when no limit is given.
    pub page_bytes: u64,
}

impl WireLimits {
    /// Bytes of a line for what may stand around an event: names, a header with its longest texts, the other members.
    pub const ROOM: usize = 16 << 10;
}

impl Default for WireLimits {
    fn default() -> Self {
        Self {
            max_message_bytes: 32 << 20,
            max_queued_bytes: 64 << 20,
            page_entries: 1_000,
            page_bytes: 1 << 20,
        }
    }
}

/// What the flags say.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The relations' mode where a client names none.
    pub invariants: Validation,
    /// What events and sessions may be.
    pub limits: Limits,
    /// What lines and pages may be.
    pub wire: WireLimits,
    /// Where times come from.
    pub clock: Clock,
    /// Where ids come from.
    pub ids: IdSource,
    /// What a path is without symlinks.
    pub canonical: CanonicalPath,
}

/// Goes on with an id that is free.
pub(super) type WithId<T> = Box<dyn FnOnce(&mut Service, SessionId) -> Answer<T> + Send>;

/// Everything that the methods work on.
pub(super) struct Service {
    pub(super) store: Store,
    pub(super) storage: Box<dyn Storage + Send>,
    pub(super) connection: Connection,
    pub(super) settings: Settings,
    pub(super) call: Call,
    /// [`crate::store::StoreInfo::durable`] of the storage: committed events are written before they are announced.
    pub(super) durable_store: bool,
    /// [`crate::store::StoreInfo::shared`] of it.
    pub(super) shared_store: bool,
    /// Lines that are ready for the client, each with its end.
    pub(super) out: String,
    /// Where the beginning of a long line may go before its end is made.
    pub(super) outlet: Option<StreamSink>,
    /// Bytes of output that the client has not made room for.
    pub(super) unread: Option<Box<dyn Fn() -> usize + Send>>,
    /// Who follows the sessions with ACP updates (`liveUpdates`).
    pub(super) followers: Followers,
    /// What of this turn is not yet handed to the operating system.
    pub(super) write_set: WriteSet,
    /// Sessions that another daemon has taken over, until they are live again, with the error that says so.
    pub(super) lost: HashMap<String, StorageError>,
    /// The time of this turn's appends, once one has looked at the system's clock.
    time: Option<i64>,
}

impl Service {
    /// A service with no session and no client yet.
    pub(super) fn new(settings: Settings, storage: Box<dyn Storage + Send>) -> Self {
        Self {
            store: Store::new(settings.limits),
            durable_store: storage.info().durable,
            shared_store: storage.info().shared,
            storage,
            connection: Connection::default(),
            settings,
            call: Call::default(),
            out: String::new(),
            outlet: None,
            unread: None,
            followers: Followers::default(),
            write_set: WriteSet::default(),
            lost: HashMap::new(),
            time: None,
        }
    }

    /// Whether a session of that id is stored, to go on with.
    pub(super) fn find_stored<T>(
        id: SessionId,
        facts: bool,
        then: impl FnOnce(&mut Self, Option<StoredSummary>) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let ask = |reply| Request::Find { id, facts, reply };
        Err(CallError::need(ask, |service, found| then(service, found?)))
    }

    /// An id for a new session that no other has, to go on with. Counted ones begin anew with each daemon, so storage is
    /// asked for them; random ones are unique by themselves.
    pub(super) fn mint<T: 'static>(&mut self, then: WithId<T>) -> Answer<T> {
        let id = self.store.mint(&mut Context::at(0, &mut self.settings.ids))?;
        if !self.settings.ids.is_fixed() {
            return then(self, id);
        }
        Self::find_stored(id.clone(), false, move |service, found| {
            // Meanwhile another request may have taken it.
            match found.is_none() && service.store.session(id.as_str()).is_err() {
                true => then(service, id),
                false => service.mint(then),
            }
        })
    }

    /// The mode that was asked for, or the daemon's own.
    pub(super) fn invariants(&self, asked: Option<InvariantsMode>) -> Validation {
        match asked {
            Some(InvariantsMode::Enforce) => Validation::Enforce,
            Some(InvariantsMode::Off) => Validation::Note,
            None => self.settings.invariants,
        }
    }

    /// A result in the connection's dialect; `root` names ACP's members.
    pub(super) fn face<T>(&self, value: T, root: impl FnOnce(&T) -> Vec<(&'static str, RawJson)>) -> Face<T> {
        match self.connection.dialect {
            Dialect::Native => Face::Native(value),
            Dialect::Acp => Face::Acp(root(&value), Some(value)),
        }
    }

    /// The time of an append. The appends of one turn share a look at the system's clock, which takes 2 % of an append's
    /// time: a turn is over before the next wait, and what takes long on the way forgets the time.
    pub(super) fn append_time(&mut self) -> i64 {
        let clock = &mut self.settings.clock;
        if clock.is_fixed() { clock.now() } else { *self.time.get_or_insert_with(|| clock.now()) }
    }

    /// The next append looks at the clock again.
    pub(super) fn forget_time(&mut self) {
        self.time = None;
    }

    /// Announces committed events `from..to` of a session. Of a stored one the slot of this turn is
    /// given, with which the announcements stand or fall.
    pub(super) fn committed(&mut self, id: &str, from: Offset, to: Offset) -> Option<usize> {
        if from >= to {
            return None;
        }
        let session = self.store.session(id).ok()?;
        let slot =
            (self.durable_store && !session.is_ephemeral()).then(|| self.write_set.touch(session.id(), from));
        let start = self.out.len();
        if self.connection.wants(Notice::Event) {
            for event in session.history().log().range(from, to) {
                announce(&mut self.out, self.connection.prefix, session, event);
            }
        }
        self.followers.told(&self.connection, &self.settings.wire, session, from, &mut self.out);
        if let Some(slot) = slot {
            self.write_set.answered(slot, start, self.out.len(), false);
        }
        slot
    }

    /// Takes events back that were never written.
    pub(super) fn retract(&mut self, id: &SessionId, from: Offset) {
        self.followers.remove(id);
        if let Ok(session) = self.store.session_mut(id.as_str()) {
            session.retract(from);
        }
    }

    /// A live session is stored, and this daemon owns it.
    pub(super) fn owns(&mut self, id: &SessionId, created: Created) {
        if let Ok(session) = self.store.session_mut(id.as_str()) {
            session.set_epoch(created.epoch);
        }
    }

    /// Appends to a session are in flight: what is said of it from here on stands or falls with this slot, from there on
    /// in the output.
    pub(super) fn behind_flight(&mut self, id: &str) -> Option<(usize, usize)> {
        let session = self.store.session(id).ok()?;
        Some((self.write_set.touch(session.id(), session.next_seq()), self.out.len()))
    }

    /// What was said since then waits with its slot.
    pub(super) fn end_flight(&mut self, flight: Option<(usize, usize)>) {
        if let Some((slot, start)) = flight {
            self.write_set.cover(slot, start, self.out.len());
        }
    }

    /// *Opened* of a live session.
    pub(super) fn opened(&self, session: &Session) -> Opened {
        Opened {
            session_id: session.id().as_str().to_owned(),
            instance_id: session.instance().to_string(),
            header: header_result(session.header()),
            inherited_event_count: session.inherited_event_count().get(),
            first_live_seq: session.first_live_seq().get(),
            next_seq: session.next_seq().get(),
            invariants: match session.invariants() {
                Validation::Enforce => InvariantsMode::Enforce,
                Validation::Note => InvariantsMode::Off,
            },
            repaired: session.mended().map(|Mended { closers, cut_bytes, cut_events, .. }| Repaired {
                closers,
                cut_bytes,
                cut_events,
            }),
        }
    }

    /// Says after the response that a session became live.
    pub(super) fn created(&mut self, opened: &Opened) {
        self.lost.remove(&opened.session_id);
        if self.connection.wants(Notice::Created) {
            let params = serde_json::to_string(opened).unwrap_or_default();
            notify(&mut self.call.after, self.connection.prefix, Notice::Created.method(), &params);
        }
    }

    /// Says that a session is no longer live.
    pub(super) fn announce_disposed(&mut self, session: &Session) {
        if self.connection.wants(Notice::Disposed) {
            let (id, instance) = (quote(session.id().as_str()), quote(&session.instance().0));
            let params = format!("{{\"sessionId\":{id},\"instanceId\":{instance}}}");
            notify(&mut self.out, self.connection.prefix, Notice::Disposed.method(), &params);
        }
    }
}

/// Who follows sessions with ACP updates.
#[derive(Default)]
pub(super) struct Followers {
    by_session: HashMap<SessionId, Follower>,
    updates: Updates,
}

impl Followers {
    /// Where a connection wants it, adds the ACP updates of what was committed to a session from `from` on.
    #[inline]
    pub(super) fn told(
        &mut self,
        connection: &Connection,
        wire: &WireLimits,
        session: &Session,
        from: Offset,
        out: &mut String,
    ) {
        if connection.live_updates {
            self.follow(connection.acp_options(wire.max_message_bytes), session, from, out);
        }
    }

    fn follow(&mut self, options: Options, session: &Session, from: Offset, out: &mut String) {
        let log = session.history().log();
        let new = || Replay::until(from, options).into_follower(log);
        let follower = self.by_session.entry(session.id().clone()).or_insert_with(new);
        self.updates.clear();
        follower.advance(log, &mut self.updates);
        for update in self.updates.iter() {
            begin_update(out, session.id());
            out.push_str(update);
            out.push_str("}}\n");
        }
    }

    /// A session is no longer followed; it is told anew from where it goes on.
    pub(super) fn remove(&mut self, id: &SessionId) {
        self.by_session.remove(id);
    }
}

/// Appends a notification line.
pub(super) fn notify(out: &mut String, prefix: &str, method: &str, params: &str) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"");
    out.push_str(prefix);
    out.push_str(method);
    out.push_str("\",\"params\":");
    escape_separators(params, out);
    out.push_str("}\n");
}

/// Appends the notification of one committed event: its very line.
#[inline]
pub(super) fn announce(out: &mut String, prefix: &str, session: &Session, event: Event<'_>) {
    out.push_str("{\"jsonrpc\":\"2.0\",\"method\":\"");
    if !prefix.is_empty() {
        out.push_str(prefix);
    }
    out.push_str("session/event\",\"params\":{\"sessionId\":");
    out.push_str(session.id_text());
    out.push_str(",\"event\":");
    out.push_str(event.line());
    out.push_str("}}\n");
}

/// A header as results show it.
pub(super) fn header_result(header: &Header) -> HeaderResult {
    HeaderResult {
        version: 0,
        id: header.id.as_str().to_owned(),
        created_at: header.created_at,
        cwd: header.cwd.clone(),
        parent_session: header.parent_session.clone(),
        is_seeded: header.is_seeded,
        origin: header.subagent.then(|| "subagent".to_owned()),
        delegation_depth: header.delegation_depth,
        agent_preset: header.agent_preset.clone(),
    }
}

/// Params that do not fit, naming the member.
pub(super) fn bad_param(field: &str, message: impl Into<String>) -> WireError {
    WireError::new(Code::InvalidParams, message).text("field", field)
}

/// A session id from a param.
pub(super) fn session_id(field: &str, text: &str) -> Result<SessionId, WireError> {
    SessionId::new(text).map_err(|error| bad_param(field, error.to_string()))
}

/// Where the method table finds the service while it answers a call.
#[derive(Default)]
pub(super) struct ServiceCell(Mutex<Option<Box<Service>>>);

impl ServiceCell {
    /// Lends the service to the methods.
    pub(super) fn put(&self, service: Box<Service>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(service);
    }

    /// Takes the service back, also after a method has panicked.
    pub(super) fn take(&self) -> Option<Box<Service>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs a method's body.
    pub(super) fn run<T: Serialize + 'static>(
        &self,
        body: impl FnOnce(&mut Service) -> Answer<T>,
    ) -> Result<T, ErrorObjectOwned> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(service) = guard.as_mut() else {
            return Err(WireError::new(Code::Internal, "the service is not there; report this").into());
        };
        service.call.entered = true;
        body(service).map_err(|error| match error.into_text() {
            CallError::Error(error) => error.into(),
            CallError::Need(need) => {
                service.call.next = AfterCall::Need(*need);
                WireError::new(Code::Internal, "waiting").into() // nobody is told: the call goes on later
            }
        })
    }
}
