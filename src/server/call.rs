//! One call of a method: how it ends, and what happens after it.
//!
//! A method that needs the store's answer ends with [`CallError::Need`]: the request, and what is to be done with its
//! reply. Its line is read once, whatever it waits for.

use serde::Serialize;

use super::pending::Waits;
use super::response::{RESULT, begin_response};
use super::service::Service;
use super::splice::Splice;
use crate::log::{Seq, SessionId};
use crate::protocol::{Code, WireError};
use crate::session::Refusal;
use crate::store::StorageError;
use crate::store::storage::{Promise, Publication, Request, promise};

/// A method's result.
pub(super) type Answer<T> = Result<T, CallError<T>>;

/// Why a method has no result, or none yet.
pub(super) enum CallError<T> {
    /// It never will.
    Error(WireError),
    /// The store is to be asked first.
    Need(Box<Need<T>>),
}

/// What a call asks of the store, and how it goes on.
pub(super) struct Need<T> {
    pub(super) request: Request,
    pub(super) then: Then<T>,
}

/// Goes on with a call once its request is answered.
pub(super) type Then<T> = Box<dyn FnOnce(&mut Service) -> Answer<T> + Send>;

impl<T> CallError<T> {
    /// Asks the store, and goes on with what it answers.
    pub(super) fn need<U: Send + 'static>(
        ask: impl FnOnce(Promise<U>) -> Request,
        then: impl FnOnce(&mut Service, Result<U, StorageError>) -> Answer<T> + Send + 'static,
    ) -> Self {
        let (promise, reply) = promise();
        let then = Box::new(|service: &mut Service| then(service, reply.take()));
        Self::Need(Box::new(Need { request: ask(promise), then }))
    }
}

impl<T: Serialize + 'static> CallError<T> {
    /// The same, its result as JSON text.
    pub(super) fn into_text(self) -> CallError<String> {
        match self {
            Self::Error(error) => CallError::Error(error),
            Self::Need(need) => {
                let Need { request, then } = *need;
                let then: Then<String> = Box::new(|service| match then(service) {
                    Ok(result) => Ok(serde_json::to_string(&result).unwrap_or_else(|_| "null".to_owned())),
                    Err(error) => Err(error.into_text()),
                });
                CallError::Need(Box::new(Need { request, then }))
            }
        }
    }
}

impl<T, E: Into<WireError>> From<E> for CallError<T> {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl<T> From<&Refusal> for CallError<T> {
    fn from(refusal: &Refusal) -> Self {
        Self::Error(refusal.clone().into())
    }
}

/// A session that is not live where that is needed.
pub(super) enum Absent {
    /// The store is asked whether it is stored, and the refusal says so.
    Refused(Refusal),
    /// Another daemon has taken it over.
    Lost(StorageError),
}

impl<T> From<Absent> for CallError<T> {
    fn from(absent: Absent) -> Self {
        let refusal = match absent {
            Absent::Refused(refusal) => refusal,
            Absent::Lost(error) => return error.into(),
        };
        let Refusal::NotFound(id) = &refusal else { return refusal.into() };
        let Ok(id) = SessionId::new(id) else { return not_live(id, false).into() };
        let wanted = id.clone();
        Self::need(
            |reply| Request::Find { id, facts: false, reply },
            move |_, found| Err(not_live(wanted.as_str(), found?.is_some()).into()),
        )
    }
}

/// A session that is not live, where that is needed, and what to do with it.
fn not_live(id: &str, stored: bool) -> WireError {
    let message = match stored {
        true => format!("session {id:?} is stored and not live; open it with session/load or session/resume"),
        false => format!("session {id:?} is neither live nor stored; create it with session/new"),
    };
    WireError::new(Code::SessionNotFound, message).text("sessionId", id).fact("stored", stored)
}

/// What happens after a method has run.
#[derive(Default)]
pub(super) enum AfterCall {
    /// Its response goes out.
    #[default]
    Respond,
    /// It goes on when the store has answered.
    Need(Need<String>),
    /// Its response goes out when a request is answered.
    Hold(Held),
    /// Its response goes out when what it has committed is on stable storage.
    Durable,
    /// Its response goes out after the session's history; whether the call made the session live.
    Replay {
        /// The session.
        id: SessionId,
        /// It became live by this call.
        opened: bool,
    },
}

/// A request whose success lines wait for.
pub(super) struct Held {
    pub(super) request: Request,
    pub(super) settle: Settle,
    /// A session that is closed again should it fail.
    pub(super) undo: Option<SessionId>,
}

/// Says whether a request that lines waited for has succeeded.
pub(super) type Settle = Box<dyn FnOnce(&mut Service) -> Result<(), StorageError> + Send>;

impl Held {
    /// A request, and what its answer means.
    pub(super) fn new<U: Send + 'static>(
        ask: impl FnOnce(Promise<U>) -> Request,
        judge: impl FnOnce(&mut Service, U) -> Result<(), StorageError> + Send + 'static,
    ) -> Self {
        let (promise, reply) = promise();
        let settle: Settle = Box::new(|service| judge(service, reply.take()?));
        Self { request: ask(promise), settle, undo: None }
    }

    /// Stores a session that is not stored yet.
    pub(super) fn create(id: SessionId, publication: Publication) -> Self {
        let publication = Box::new(publication);
        let session = id.clone();
        Self::new(
            |reply| Request::Create { id, publication, reply },
            move |service, created| {
                service.owns(&session, created);
                Ok(())
            },
        )
    }

    /// Makes all that is written of a session durable.
    pub(super) fn sync(id: SessionId) -> Self {
        Self::new(|reply| Request::Sync { id, facts: None, reply }, |_, _: Option<Seq>| Ok(()))
    }
}

/// One run of one request.
#[derive(Default)]
pub(super) struct Call {
    /// The method's body was reached: its params fit.
    pub(super) entered: bool,
    /// What comes next.
    pub(super) next: AfterCall,
    /// The slot of this turn with which the response stands or falls.
    pub(super) slot: Option<usize>,
    /// Lines that follow the response.
    pub(super) after: String,
    /// A member of the result that the response is to hold in the place of a `null`.
    pub(super) splice: Option<Splice>,
    /// What a response to this request begins with, up to its first member.
    pub(super) head: String,
    /// A part of the response has left by the outlet already.
    pub(super) sent: bool,
    /// What waited when `sessiond/status` came.
    pub(super) waiting: Waits,
}

impl Call {
    /// A run for the request of that id, a JSON text.
    pub(super) fn new(id: &str) -> Self {
        let mut head = String::with_capacity(64);
        begin_response(&mut head, id);
        head.push_str(RESULT);
        Self { head, ..Self::default() }
    }
}
