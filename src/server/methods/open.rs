//! How sessions become live: `session/new`, `session/fork`, `session/load`, `session/resume`.

use std::collections::HashSet;

use crate::json::{Json, Type, quote};
use crate::log::{HeaderError, HeaderMeta, Seq, SessionId};
use crate::protocol::Dialect;
use crate::protocol::RawJson;
use crate::protocol::params::{ForkParams, InvariantsMode, LoadParams, NewParams, ReplayMode, ResumeParams};
use crate::protocol::results::{Face, Forked, Opened};
use crate::protocol::{Code, WireError};
use crate::server::call::{AfterCall, Answer, CallError, Held};
use crate::server::errors::not_stored;
use crate::server::params_error::unknown_param;
use crate::server::service::{Service, bad_param, session_id};
use crate::session::{Boundary, Context, Fork, New, Refusal, Restore, Seed, SnapshotOf};
use crate::store::StorageError;
use crate::store::storage::{Loaded, Publication, Request};

use super::read::policy;

/// A fork that was asked for, and where it is cut.
struct Cut {
    params: ForkParams,
    /// The seq of the message that was named, as text.
    of_message: Option<String>,
}

impl Cut {
    fn snapshot(&self) -> SnapshotOf<'_> {
        let given = self.params.boundary.as_ref().map(|raw| raw.verified().0);
        let seq = self.of_message.as_deref().map(Json::from_verified).or(given);
        SnapshotOf {
            session: &self.params.session_id,
            instance: self.params.instance_id.as_deref(),
            boundary: Boundary { seq, on_open_turn: policy(self.params.on_open_turn) },
        }
    }
}

impl Service {
    pub(super) fn new_session(&mut self, params: NewParams) -> Answer<Face<Opened>> {
        let meta = read_meta(params.meta.as_ref())?;
        let cwd = merge_cwd(params.cwd.as_deref(), meta.cwd.as_deref())?;
        self.require_cwd(cwd.as_deref())?;
        let meta = HeaderMeta { cwd, ..meta };
        check_header_texts(&meta)?;
        let id = params.session_id.as_deref().map(|id| session_id("sessionId", id)).transpose()?;
        let make = move |service: &mut Self, id| service.new_as(id, meta, &params);
        match id {
            None => self.mint(Box::new(make)),
            Some(id) => {
                self.store.check_free(&id)?;
                self.unless_stored(id, make)
            }
        }
    }

    fn new_as(&mut self, id: SessionId, meta: HeaderMeta, params: &NewParams) -> Answer<Face<Opened>> {
        if let Some(parent) = &meta.parent_session {
            self.check_lineage("meta.parentSession", &id, parent)?;
        }
        let context = &mut Context::at(self.settings.clock.now(), &mut self.settings.ids);
        let seed_length = meta.seed_length;
        let header = meta.into_header(id, context.created_at(), false);
        let seed = params.seed.as_ref().map(|raw| Seed { events: raw.verified().0 });
        let seeded = seed.is_some();
        let invariants = match params.invariants {
            Some(InvariantsMode::Off) => crate::session::Validation::Note,
            Some(InvariantsMode::Enforce) => crate::session::Validation::Enforce,
            None => self.settings.invariants,
        };
        let ephemeral = params.ephemeral == Some(true);
        let id = self.store.create(New { header, seed, seed_length, invariants, ephemeral }, context)?;
        self.publish_if(seeded, &id, None);
        let opened = self.opened(self.store.session(id.as_str())?);
        self.created(&opened);
        Ok(self.face(opened, |opened| vec![("sessionId", text(&opened.session_id))]))
    }

    pub(super) fn fork(&mut self, params: ForkParams) -> Answer<Face<Forked>> {
        self.require_cwd(params.cwd.as_deref())?;
        check_header_texts(&HeaderMeta { cwd: params.cwd.clone(), ..HeaderMeta::default() })?;
        if params.boundary.is_some() && params.message_id.is_some() {
            let message = "boundary and messageId each say where to cut; give one of them";
            return Err(bad_param("messageId", message).into());
        }
        let child =
            params.child_session_id.as_deref().map(|id| session_id("childSessionId", id)).transpose()?;
        match child {
            None => self.fork_of(params, None),
            Some(child) => {
                self.store.check_free(&child)?;
                self.unless_stored(child, |service, child| service.fork_of(params, Some(child)))
            }
        }
    }

    fn fork_of(&mut self, params: ForkParams, child: Option<SessionId>) -> Answer<Face<Forked>> {
        self.check_live(&params.session_id, params.instance_id.as_deref())?;
        if let Some(child) = &child {
            self.check_lineage("childSessionId", child, &params.session_id)?;
        }
        let of_message = params.message_id.as_deref().map(|id| self.boundary_of(&params.session_id, id));
        let cut = Cut { of_message: of_message.transpose()?.map(|seq| seq.to_string()), params };
        match child {
            // One that will be refused takes no number.
            None if self.settings.ids.is_fixed() && self.store.snapshot(cut.snapshot()).is_ok() => {
                self.mint(Box::new(move |service, child| service.fork_as(&cut, Some(child))))
            }
            child => self.fork_as(&cut, child),
        }
    }

    fn fork_as(&mut self, cut: &Cut, child: Option<SessionId>) -> Answer<Face<Forked>> {
        let Cut { params, .. } = cut;
        let invariants = params.invariants.map(|mode| self.invariants(Some(mode)));
        let ephemeral = params.ephemeral == Some(true);
        let fork = Fork { of: cut.snapshot(), child, cwd: params.cwd.clone(), invariants, ephemeral };
        let context = &mut Context::at(self.settings.clock.now(), &mut self.settings.ids);
        let (id, shared) = self.store.fork(fork, context)?;
        let parent = SessionId::new(&params.session_id).ok();
        self.publish_if(true, &id, parent);
        let opened = self.opened(self.store.session(id.as_str())?);
        self.created(&opened);
        let forked = Forked::of(opened, shared.last().map(Seq::get));
        Ok(self.face(forked, |forked| vec![("sessionId", text(&forked.session_id))]))
    }

    pub(super) fn load(&mut self, params: LoadParams) -> Answer<Face<Opened>> {
        self.require_cwd(params.cwd.as_deref())?;
        let default = match self.connection.dialect {
            Dialect::Native => ReplayMode::None,
            Dialect::Acp => ReplayMode::Updates,
        };
        let replays = params.replay.unwrap_or(default) == ReplayMode::Updates;
        let was_live = self.store.session(&params.session_id).is_ok();
        self.make_live(&params.session_id, params.invariants, move |service, opened| {
            if replays {
                let id = session_id("sessionId", &opened.session_id)?;
                service.call.next = AfterCall::Replay { id, opened: !was_live };
            }
            Ok(service.face(opened, |_| Vec::new()))
        })
    }

    pub(super) fn resume(&mut self, params: ResumeParams) -> Answer<Face<Opened>> {
        self.require_cwd(params.cwd.as_deref())?;
        let face = |service: &mut Self, opened| Ok(service.face(opened, |_| Vec::new()));
        self.make_live(&params.session_id, params.invariants, face)
    }

    /// *Opened* of a session that is live, or becomes it now, to go on with.
    fn make_live<T: 'static>(
        &mut self,
        id: &str,
        invariants: Option<InvariantsMode>,
        then: impl FnOnce(&mut Self, Opened) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        if let Ok(session) = self.store.session(id) {
            let opened = self.opened(session);
            return then(self, opened);
        }
        let id = SessionId::new(id).map_err(|_| not_stored(id))?;
        let rules = self.load_rules();
        Err(CallError::need(
            |reply| Request::Load { id, rules, reply },
            move |service, loaded| {
                let opened = service.restore(*loaded?, invariants)?;
                then(service, opened)
            },
        ))
    }

    /// Makes a session live that was loaded.
    fn restore(&mut self, loaded: Loaded, invariants: Option<InvariantsMode>) -> Result<Opened, Refusal> {
        let (id, epoch) = (loaded.header.id.clone(), loaded.epoch);
        let restore = Restore {
            header: loaded.header,
            inherited: loaded.inherited,
            history: loaded.history,
            invariants: self.invariants(invariants),
            mended: loaded.mended,
        };
        let context = &mut Context::at(0, &mut self.settings.ids);
        match self.store.restore(restore, context) {
            Ok(id) => {
                self.store.session_mut(id.as_str())?.set_epoch(epoch);
                let opened = self.opened(self.store.session(id.as_str())?);
                self.created(&opened);
                Ok(opened)
            }
            Err(refusal) => {
                self.storage.discard(&id);
                Err(refusal)
            }
        }
    }

    /// Where a fork from a message is cut.
    fn boundary_of(&self, session: &str, message: &str) -> Result<Seq, WireError> {
        let session = self.store.session(session)?;
        session.boundary_of(message).ok_or_else(|| {
            let id: String = message.chars().take(100).collect();
            let last = session.next_seq().last().map_or_else(|| "null".to_owned(), |seq| seq.to_string());
            let text =
                format!("no event holds the message {id:?}; session/messages lists those of the surface");
            WireError::new(Code::InvalidBoundary, text).text("messageId", &id).fact("lastSeq", last)
        })
    }

    /// A new session is not its own ancestor, as far as the live sessions tell (PROTOCOL 9.11).
    fn check_lineage(&self, field: &str, id: &SessionId, parent: &str) -> Result<(), WireError> {
        /// So many ancestors are looked at.
        const MOST: usize = 1_000;
        let parent_of = |name: &&str| self.store.session(name).ok()?.header().parent_session.as_deref();
        let mut ancestors = std::iter::successors(Some(parent), parent_of).take(MOST);
        if !ancestors.any(|name| name == id.as_str()) {
            return Ok(());
        }
        let message = format!("{field}: session {id} would be its own ancestor; choose another id or parent");
        Err(bad_param(field, message))
    }

    /// Goes on with an id that is neither live nor stored.
    pub(super) fn unless_stored<T: 'static>(
        &self,
        id: SessionId,
        then: impl FnOnce(&mut Self, SessionId) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        self.store.check_unknown(&id)?;
        Self::find_stored(id.clone(), true, move |service, found| match found {
            None => then(service, id),
            Some(summary) => Err(StorageError::Exists { id, summary }.into()),
        })
    }

    /// A session that begins with events is stored before it is answered for; in a shared store any is.
    fn publish_if(&mut self, seeded: bool, id: &SessionId, parent: Option<SessionId>) {
        let stored = self.store.session(id.as_str()).is_ok_and(|session| !session.is_ephemeral());
        let is_made = seeded || self.shared_store;
        if let (true, true, Some(publication)) = (is_made, stored, self.publication(id, parent)) {
            let held = Held::create(id.clone(), publication);
            self.call.next = AfterCall::Hold(Held { undo: Some(id.clone()), ..held });
        }
    }

    /// What a live session's log begins with: all that it holds.
    pub(in crate::server) fn publication(
        &mut self,
        id: &SessionId,
        parent: Option<SessionId>,
    ) -> Option<Publication> {
        let session = self.store.session_mut(id.as_str()).ok()?;
        Some(Publication { parent, ..session.into() })
    }

    /// ACP requires `cwd` and wants it absolute; so do we wherever it is given.
    fn require_cwd(&self, cwd: Option<&str>) -> Result<(), WireError> {
        match cwd {
            Some(cwd) if !cwd.starts_with('/') => {
                Err(bad_param("cwd", "cwd must be an absolute path; write it from / on"))
            }
            None if self.connection.dialect == Dialect::Acp => {
                Err(bad_param("cwd", "cwd is missing; ACP requires the session's absolute working directory"))
            }
            _ => Ok(()),
        }
    }
}

fn read_meta(meta: Option<&RawJson>) -> Result<HeaderMeta, WireError> {
    let Some(raw) = meta else { return Ok(HeaderMeta::default()) };
    let (json, _) = raw.verified();
    let mut names = HashSet::new();
    if json.kind() != Type::Object || !json.members().all(|(key, _)| names.insert(key.wtf8())) {
        return Err(bad_param("meta", "meta must be an object without duplicate members"));
    }
    HeaderMeta::parse(json).map_err(|error| {
        let field = format!("meta.{}", error.member());
        let message = match &error {
            HeaderError::UnknownMember(name) => return unknown_param("meta.", name, &HeaderMeta::MEMBERS),
            error => format!("meta.{error}"),
        };
        bad_param(&field, message)
    })
}

/// A header stands in every line that names its session, so its texts must not fill one.
fn check_header_texts(meta: &HeaderMeta) -> Result<(), WireError> {
    const MAX: usize = 4096;
    let texts = [
        ("cwd", meta.cwd.as_deref()),
        ("meta.parentSession", meta.parent_session.as_deref()),
        ("meta.agentPreset", meta.agent_preset.as_deref()),
    ];
    let is_long = |text: &str| text.len() > MAX || quote(text).len() > MAX + 2;
    match texts.into_iter().find(|(_, text)| text.is_some_and(is_long)) {
        Some((field, _)) => Err(bad_param(
            field,
            format!("{field} may have {MAX} bytes at most, escapes counted; shorten it"),
        )),
        None => Ok(()),
    }
}

fn merge_cwd(cwd: Option<&str>, meta: Option<&str>) -> Result<Option<String>, WireError> {
    match (cwd, meta) {
        (Some(a), Some(b)) if a != b => Err(bad_param("cwd", "cwd and meta.cwd differ; give one of them")),
        (a, b) => Ok(a.or(b).map(str::to_owned)),
    }
}

fn text(value: &str) -> RawJson {
    RawJson::from_text(quote(value))
}
