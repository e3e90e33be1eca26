//! One client's lines in, lines out.

use std::sync::Arc;

use jsonrpsee::core::server::Methods;

use super::append_reader::AppendReader;
use super::envelope::{Incoming, Request};
use super::history_stream::Streams;
use super::methods::{append_direct, append_usual, method_table};
use super::order::everything;
use super::pending::{Queue, RequestId};
use super::response::write_error;
use super::service::{Service, ServiceCell, Settings};
use super::splice::{Outlet, StreamSink};
use crate::json::{Json, Scratch};
use crate::protocol::{Code, Method, Scope, WireError};
use crate::store::storage::{Storage, Ticket};

/// A line beyond this may have grown the scan's buffers a lot.
const LONG: usize = 1 << 16;

/// Where a line comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The client.
    Client,
    /// It has waited behind busy sessions, and they are free.
    Behind,
}

/// The protocol for one client.
pub struct Server {
    pub(super) methods: Methods,
    pub(super) slot: Arc<ServiceCell>,
    /// Here but for the moments in which a method runs.
    pub(super) service: Option<Box<Service>>,
    pub(super) queue: Queue,
    pub(super) streams: Streams,
    /// Where the output of what is being carried out begins.
    pub(super) mark: usize,
    /// A request that is being given to storage.
    pub(super) starting: Option<Ticket>,
    /// Here but while a line is carried out.
    scratch: Option<Box<Scratch>>,
    append_reader: AppendReader,
    /// Whether appends may go past the method table.
    direct: bool,
    /// Requests that have waited go on waiting.
    pub(super) held: bool,
    /// What was carried out last is not answered: it waits.
    pub(super) parked: bool,
    /// The last act has begun.
    pub(super) ending: bool,
    /// In it a session could not be stored whole.
    pub(super) unsaved: bool,
}

impl Server {
    /// A server with no session and no client yet.
    pub fn new(settings: Settings, storage: Box<dyn Storage + Send>) -> Self {
        let slot = Arc::new(ServiceCell::default());
        let methods = method_table(Arc::clone(&slot));
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
            service.outlet = Some(StreamSink::new(outlet));
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
        self.take(text, Origin::Client);
        if !self.queue.is_empty() {
            self.work(); // what needs no waiting is answered by now
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
    pub(super) fn take(&mut self, text: &str, from: Origin) {
        let traced = self.begin_trace();
        if let Some(service) = self.service.as_mut() {
            service.store.begin();
        }
        if !self.guarded(|server| server.take_line(text, from)) {
            self.line_broke(text);
        }
        if let Some(begun) = traced {
            self.trace_line(text, begun);
        }
    }

    fn take_line(&mut self, text: &str, from: Origin) {
        let mut scratch = self.scratch.take().unwrap_or_default();
        if !(from == Origin::Client && self.append_as_before(text, &mut scratch)) {
            self.read_line(text, &mut scratch, from);
        }
        if text.len() > LONG {
            scratch.trim();
            self.forget_time();
        }
        self.scratch = Some(scratch);
    }

    fn read_line(&mut self, text: &str, scratch: &mut Scratch, from: Origin) {
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

    fn request(&mut self, request: &Request<'_>, line: &str, from: Origin) {
        let Some(service) = self.service.as_mut() else { return };
        let busy = if self.queue.is_empty() { None } else { Some(appended_to(request)) };
        let passes = || busy.is_none_or(|id| id.is_some_and(|id| self.queue.lets_append(id)));
        if self.direct && from == Origin::Client && is_direct(request) && passes() {
            let id = busy.flatten().filter(|id| self.queue.is_in_flight(id));
            let flight = id.and_then(|id| service.behind_flight(id));
            let done = append_direct(service, request);
            service.end_flight(flight);
            if done {
                if is_append(request) {
                    self.append_reader.learn(line);
                }
                return;
            }
        }
        let params = match service.connection.native_params(request) {
            Ok(params) => params,
            Err(error) => return self.refuse(request.id, &error),
        };
        let params = params.as_deref().map_or(request.params, Json::from_verified);
        let names = named_sessions(request, params);
        if scope_of(request) == Some(Scope::Nothing) {
            return self.call(request, params, names);
        }
        if self.must_wait(from, request, line, &names) {
            return;
        }
        if !is_append(request) {
            self.forget_time();
            self.write_out(); // a read shows, and a fork shares, only what is written
            self.mark();
            if self.must_wait(from, request, line, &names) {
                return;
            }
        }
        let id = names.first().filter(|id| is_direct(request) && self.queue.is_in_flight(id));
        let flight = id.zip(self.service.as_mut()).and_then(|(id, service)| service.behind_flight(id));
        self.call(request, params, names);
        if let Some(service) = self.service.as_mut() {
            service.end_flight(flight);
        }
    }

    /// Puts a request behind the sessions that it names if they are busy. Appends pass others that are in flight.
    fn must_wait(&mut self, from: Origin, request: &Request<'_>, line: &str, names: &[String]) -> bool {
        let put = match from {
            Origin::Client if is_direct(request) && names.iter().all(|id| self.queue.lets_append(id)) => {
                return false;
            }
            Origin::Client if self.queue.is_busy(names) => Queue::push_behind,
            Origin::Behind if self.queue.is_held(names) => Queue::push_ahead,
            _ => return false,
        };
        put(&mut self.queue, line.into(), id_of(request), names.to_vec());
        self.parked = true;
        true
    }

    fn notification(&mut self, notification: &Request<'_>) {
        let method = notification.method.lossy();
        if method == "$/cancel_request" {
            let Some(id) = notification.params.get("requestId") else { return };
            self.cancel(id);
        } else if Method::named(&method).is_some() {
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
    match scope_of(request) {
        Some(Scope::All) => return everything(),
        Some(Scope::List) => names.push(String::new()),
        Some(Scope::Sessions | Scope::Nothing) | None => {}
    }
    names
}

fn scope_of(request: &Request<'_>) -> Option<Scope> {
    Method::named(&request.method.lossy()).map(|method| method.scope)
}

pub(super) fn id_of(request: &Request<'_>) -> RequestId {
    RequestId::of(Json::from_verified(request.id))
}
