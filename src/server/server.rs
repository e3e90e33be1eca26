//! One client's lines in, lines out.

use std::sync::Arc;

use jsonrpsee::Extensions;
use jsonrpsee::core::server::{MethodCallback, Methods};
use jsonrpsee::types::{Id, Params};

use super::append_reader::AppendReader;
use super::connection::unknown_greeting;
use super::envelope::{Incoming, Request};
use super::history_stream::{Streaming, Streams};
use super::methods::{METHODS, append_direct, append_usual, is_status};
use super::order::everything;
use super::params_error::{list_for_object, misfit};
use super::pending::{Queue, RequestId, Undo, Waiting, Waits};
use super::response::{RESULT, begin_response, write_error, write_response};
use super::service::{Apart, Call, Found, Next, Outlet, Service, Settings, Slot, WayOut};
use super::too_large::too_long;
use crate::json::{Json, Scratch};
use crate::log::{SessionId, did_you_mean, nearest};
use crate::protocol::SessionApiServer;
use crate::protocol::{Code, WireError};
use crate::store::storage::{JobResult, Storage, Ticket};

/// A line beyond this may have grown the scan's buffers a lot.
const LONG: usize = 1 << 16;

/// What a request that waited goes on with: the job's result, and what it had learned before.
pub(super) type Resumed = (JobResult, Vec<Found>);

/// Where a line comes from.
pub(super) enum From {
    /// The client.
    Client,
    /// It has waited behind busy sessions, and they are free.
    Behind,
    /// It has waited for a job. The result is large, and this is moved with every line.
    Job(Box<Resumed>),
}

impl From {
    /// The session whose file a load has opened for it.
    fn loading(&self) -> Option<SessionId> {
        match self {
            Self::Job(resumed) => match &resumed.0 {
                JobResult::Loaded(Ok(loaded)) => Some(loaded.header.id.clone()),
                _ => None,
            },
            Self::Client | Self::Behind => None,
        }
    }
}

/// The protocol for one client.
pub struct Server {
    methods: Methods,
    pub(super) slot: Arc<Slot>,
    /// Here but for the moments in which a method runs.
    pub(super) service: Option<Box<Service>>,
    pub(super) queue: Queue,
    pub(super) streams: Streams,
    /// Where the output of what is being carried out begins.
    pub(super) mark: usize,
    /// A job that is being given to storage.
    pub(super) starting: Option<Ticket>,
    /// Here but while a line is carried out.
    scratch: Option<Box<Scratch>>,
    append_reader: AppendReader,
    /// Whether appends may go past the method table.
    direct: bool,
    /// Requests that have waited go on waiting.
    pub(super) held: bool,
    /// What was carried out last is not answered: it waits, and is carried out again.
    pub(super) parked: bool,
    /// The last act has begun.
    pub(super) ending: bool,
    /// In it a session could not be stored whole.
    pub(super) unsaved: bool,
}

impl Server {
    /// A server with no session and no client yet.
    pub fn new(settings: Settings, storage: Box<dyn Storage + Send>) -> Self {
        let slot = Arc::new(Slot::default());
        let methods = Arc::clone(&slot).into_rpc().into();
        let service = Some(Box::new(Service::new(settings, storage)));
        Self {
            methods,
            slot,
            service,
            queue: Queue::default(),
            streams: Streams::default(),
            mark: 0,
            starting: None,
            scratch: None,
            append_reader: AppendReader::default(),
            direct: true,
            held: false,
            parked: false,
            ending: false,
            unsaved: false,
        }
    }

    /// The same with long pages leaving as they are made.
    pub fn with_outlet(mut self, outlet: Outlet) -> Self {
        if let Some(service) = self.service.as_mut() {
            service.outlet = Some(WayOut::new(outlet));
        }
        self
    }

    /// The same with a gauge of the output, in bytes, that the client has not made room for.
    pub fn with_unread(mut self, unread: impl Fn() -> usize + Send + 'static) -> Self {
        if let Some(service) = self.service.as_mut() {
            service.unread = Some(Box::new(unread));
        }
        self
    }

    /// The same with every request going through the method table: what the direct path of appends is
    /// held to.
    #[doc(hidden)]
    pub fn through_table(mut self) -> Self {
        self.direct = false;
        self
    }

    /// Bytes of requests that wait for others.
    pub fn waiting_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Lines that are ready for the client, each with its end. The caller takes them.
    pub fn output(&mut self) -> Option<&mut String> {
        self.service.as_mut().map(|service| &mut service.out)
    }

    /// Whether every request has been answered and storage has nothing under way.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.streams.is_empty()
            && self.service.as_ref().is_none_or(|service| service.storage.is_quiet())
    }

    /// Takes one line, without its end. What it has committed is written, and may be shown, only after
    /// [`Self::settle`].
    pub fn receive(&mut self, line: &[u8]) {
        let Ok(text) = simdutf8::basic::from_utf8(line) else {
            self.refuse(
                "null",
                &WireError::new(Code::ParseError, "not UTF-8; send one JSON-RPC message per line"),
            );
            return;
        };
        if text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            return;
        }
        self.take(text, From::Client);
        if !self.queue.is_empty() {
            self.work(); // jobs that need no waiting are done by now
        }
    }

    /// A line was longer than `maxMessageBytes`; its bytes were not kept.
    pub fn receive_too_large(&mut self) {
        let max = self.service.as_ref().map_or(0, |service| service.settings.wire.max_message_bytes);
        let error = WireError::new(
            Code::MessageTooLarge,
            format!(
                "a line may hold {max} bytes; send less at once, or start the daemon with a larger --max-message-bytes"
            ),
        );
        self.refuse("null", &error.text("limit", "maxMessageBytes").fact("max", max));
    }

    /// Goes on with what has waited for finished jobs, and with a portion of a history.
    pub fn advance(&mut self) {
        self.stream();
        self.settle();
    }

    /// Whether [`Self::advance`] has something to do that nothing will wake the caller for.
    pub fn has_more(&self) -> bool {
        !self.streams.is_empty() || (!self.held && self.queue.may_be_free())
    }

    /// Requests that have waited for others are not carried out while `held`: more output waits for the client than its
    /// bound.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Long pages no longer leave as they are made.
    pub fn close_outlet(&mut self) {
        if let Some(service) = self.service.as_mut() {
            service.outlet = None;
        }
    }

    /// Carries out a line; a bug on the way is that line's alone.
    pub(super) fn take(&mut self, text: &str, from: From) {
        let traced = self.begin_trace();
        let loading = from.loading();
        if let Some(service) = self.service.as_mut() {
            service.store.begin();
        }
        if !self.guarded(|server| server.take_line(text, from)) {
            self.line_broke(text, loading);
        }
        if let Some(begun) = traced {
            self.trace(text, begun);
        }
    }

    fn take_line(&mut self, text: &str, from: From) {
        let mut scratch = self.scratch.take().unwrap_or_default();
        if !(matches!(from, From::Client) && self.append_as_before(text, &mut scratch)) {
            self.read_line(text, &mut scratch, from);
        }
        if text.len() > LONG {
            scratch.trim();
            self.forget_time();
        }
        self.scratch = Some(scratch);
    }

    fn read_line(&mut self, text: &str, scratch: &mut Scratch, from: From) {
        match Incoming::read(text, scratch) {
            Ok(Incoming::Request(request)) => self.request(&request, text, from),
            Ok(Incoming::Notification(notification)) => self.notification(&notification),
            Ok(Incoming::Response) => {}
            Err(fault) => self.refuse(fault.id(), &fault.into()),
        }
    }

    /// What was done has taken long, or will: the next append looks at the clock again.
    pub(super) fn forget_time(&mut self) {
        if let Some(service) = self.service.as_mut() {
            service.forget_time();
        }
    }

    /// Carries out an append that is spelt as an earlier one; false: the line is to be read as any other.
    fn append_as_before(&mut self, line: &str, scratch: &mut Scratch) -> bool {
        let Self { service, queue, append_reader, direct: true, .. } = self else { return false };
        let Some(service) = service.as_mut() else { return false };
        let done = append_reader.read(line, scratch, |id, place, candidate| {
            if !queue.is_empty() && !queue.is_free(place.session) {
                return false;
            }
            append_usual(service, id, place, candidate)
        });
        done.unwrap_or(false)
    }

    fn request(&mut self, request: &Request<'_>, line: &str, from: From) {
        let Some(service) = self.service.as_mut() else { return };
        let free = || self.queue.is_empty() || appended_to(request).is_some_and(|id| self.queue.is_free(id));
        if self.direct
            && matches!(from, From::Client)
            && is_direct(request)
            && free()
            && append_direct(service, request)
        {
            if is_append(request) {
                self.append_reader.learn(line);
            }
            return;
        }
        let params = match service.connection.native_params(request) {
            Ok(params) => params,
            Err(error) => return self.refuse(request.id, &error),
        };
        let params = params.as_deref().map_or(request.params, Json::from_verified);
        let names = named_sessions(request, params);
        if is_status(request) {
            return self.call(request, params, line, names, None);
        }
        if self.must_wait(&from, request, line, &names) {
            return;
        }
        if !is_append(request) {
            self.forget_time();
            self.write_turn(); // a read shows, and a fork shares, only what is written
            self.mark();
            if self.must_wait(&from, request, line, &names) {
                return;
            }
        }
        let resumed = match from {
            From::Job(resumed) => Some(*resumed),
            From::Client | From::Behind => None,
        };
        self.call(request, params, line, names, resumed);
    }

    /// Puts a request behind the sessions that it names if they are busy.
    fn must_wait(&mut self, from: &From, request: &Request<'_>, line: &str, names: &[String]) -> bool {
        let put = match from {
            From::Client if self.queue.is_busy(names) => Queue::push_behind,
            From::Behind if self.queue.is_held(names) => Queue::push_ahead,
            _ => return false,
        };
        put(&mut self.queue, line.into(), id_of(request), names.to_vec());
        self.parked = true;
        true
    }

    /// Runs a method of the table and does with its response what it asks for.
    fn call(
        &mut self,
        request: &Request<'_>,
        params: Json<'_>,
        line: &str,
        names: Vec<String>,
        resumed: Option<Resumed>,
    ) {
        let method = request.method.lossy();
        let Some(MethodCallback::Sync(callback)) = self.methods.method(&method) else {
            return self.refuse(request.id, &unknown_method(&method));
        };
        let odd = list_for_object(&method, params).or_else(|| unknown_greeting(&method, params));
        if let Some(error) = odd {
            return self.refuse(request.id, &error);
        }
        let waiting = if is_status(request) { self.queue.waits() } else { Waits::default() };
        let Some(mut service) = self.service.take() else { return };
        let max = service.settings.wire.max_message_bytes;
        let (resumed, found) = resumed.map_or((None, Vec::new()), |(result, found)| (Some(result), found));
        let mut head = String::with_capacity(64);
        begin_response(&mut head, request.id);
        head.push_str(RESULT);
        service.call = Call { resumed, found, head, waiting, ..Call::default() };
        self.slot.put(service);
        // The one params object goes as the only element of a positional list.
        let list = format!("[{}]", params.text());
        let response = callback(Id::Number(0), Params::new(Some(&list)), usize::MAX, Extensions::new());
        self.service = self.slot.take();
        let Some(service) = self.service.as_mut() else { return };
        let Call { entered, next, after, found, slot, apart, sent, .. } = std::mem::take(&mut service.call);
        service.call.sent = sent; // the guard must know
        if let Next::Rerun(job) = next {
            self.parked = true;
            let (id, final_job) = (id_of(request), job.is_final());
            return self.start(Waiting::Rerun { line: line.into(), id, names, found, final_job }, job);
        }
        let out = &mut service.out;
        let start = match apart {
            Some(Apart::Begun(_)) => self.mark.min(out.len()),
            _ => out.len(),
        };
        let body = response.as_json().get();
        if !entered && response.is_error() {
            write_error(out, request.id, &misfit(&reason_of(body), params, ""));
        } else {
            let apart = apart.filter(|_| !response.is_error());
            write_response(out, request.id, body, apart);
        }
        let fits = sent || out.len() - start <= max + 1;
        if !fits {
            out.truncate(start);
            write_error(out, request.id, &too_long(&method, max));
        }
        let has_result = fits && !response.is_error();
        if has_result && matches!(next, Next::Respond) && !is_status(request) {
            service.connection.fixed = true; // what waits for its answer does it then
        }
        out.push_str(&after);
        match next {
            Next::Hold(job, undo) => {
                let lines = out.split_off(start);
                let undo = undo.map_or(Undo::Nothing, Undo::Close);
                let mut names = names;
                names.extend(job.session().map(|id| id.as_str().to_owned()));
                self.start(Waiting::Hold { lines: lines.into(), names, undo }, job);
            }
            Next::Durable => {
                let id = names.first().and_then(|id| service.store.session(id).ok());
                let slot =
                    slot.or_else(|| id.map(|session| service.turn.touch(session.id(), session.next_seq())));
                if let Some(slot) = slot {
                    service.turn.answered(slot, start, service.out.len(), true);
                }
            }
            Next::Replay { id, opened } => {
                let lines = out.split_off(start);
                let options = service.connection.acp_options(max);
                let Ok(session) = service.store.session_mut(id.as_str()) else { return };
                let log = session.share_log();
                let ticket = self.queue.wait(Waiting::Told { id: id_of(request), names });
                let asked = (request.id.into(), opened);
                self.streams.push(ticket, Streaming::new(id, log, options, asked, lines));
            }
            Next::Respond | Next::Rerun(_) => {
                if let Some(slot) = slot {
                    service.turn.answered(slot, start, service.out.len(), false);
                }
            }
        }
    }

    fn notification(&mut self, notification: &Request<'_>) {
        let method = notification.method.lossy();
        if method == "$/cancel_request" {
            let Some(id) = notification.params.get("requestId") else { return };
            self.cancel(id);
        } else if METHODS.contains(&method.trim_start_matches('_')) {
            tracing::warn!(method = %method, "not run: a request needs an id");
        }
    }

    pub(super) fn refuse(&mut self, id: &str, error: &WireError) {
        if let Some(out) = self.output() {
            write_error(out, id, error);
        }
    }
}

fn is_append(request: &Request<'_>) -> bool {
    matches!(request.method.plain(), Some("session/append" | "_session/append"))
}

/// Whether a request may go past the method table.
fn is_direct(request: &Request<'_>) -> bool {
    is_append(request)
        || matches!(request.method.plain(), Some("session/append_batch" | "_session/append_batch"))
}

/// The session that an append names, where its id is written plainly.
fn appended_to<'a>(request: &Request<'a>) -> Option<&'a str> {
    request.params.get("sessionId")?.as_str()?.plain()
}

/// The sessions that a request names; an empty name for the list of all.
pub(super) fn named_sessions(request: &Request<'_>, params: Json<'_>) -> Vec<String> {
    let name = |(key, value): (crate::json::JsonStr<'_>, Json<'_>)| {
        let names = key.is("sessionId") || key.is("childSessionId");
        names.then(|| value.as_str().and_then(|id| id.decode()).map(|id| id.into_owned())).flatten()
    };
    let mut names: Vec<String> = params.members().filter_map(name).filter(|name| !name.is_empty()).collect();
    let method = request.method.lossy();
    if method == "initialize" {
        return everything();
    }
    if matches!(method.trim_start_matches('_'), "session/list" | "session/delete") {
        names.push(String::new());
    }
    names
}

fn id_of(request: &Request<'_>) -> RequestId {
    RequestId::of(Json::from_verified(request.id))
}

/// What the method table says of params that it could not read.
fn reason_of(body: &str) -> String {
    let reason = Json::parse(body).ok().and_then(|(body, _)| body.at(&["error", "data"])?.as_str());
    reason.map(|reason| reason.lossy().into_owned()).unwrap_or_default()
}

fn unknown_method(method: &str) -> WireError {
    let name: String = method.chars().take(100).collect();
    let of_agents = matches!(
        method,
        "session/prompt"
            | "session/set_mode"
            | "session/set_config_option"
            | "session/set_model"
            | "authenticate"
            | "logout"
    );
    if of_agents {
        let message = format!("{name} is not served: this daemon stores sessions and runs no model");
        return WireError::new(Code::MethodNotFound, message)
            .text("method", &name)
            .text("reason", "no_model");
    }
    let near = nearest(method, METHODS);
    let offer = did_you_mean(&near).unwrap_or_else(|| "initialize lists the methods".to_owned());
    let message = format!("there is no method {name:?}; {offer}");
    WireError::new(Code::MethodNotFound, message).text("method", &name).names("nearest", &near)
}
