//! Calls of the method table: their beginning, their going on, and their responses.

use jsonrpsee::Extensions;
use jsonrpsee::core::server::MethodCallback;
use jsonrpsee::types::{Id, Params};

use super::call::{AfterCall, Call, CallError, Held, Need, Then};
use super::connection::unknown_greeting;
use super::envelope::Request;
use super::history_stream::Streaming;
use super::params_error::{list_for_object, misfit};
use super::pending::{Caller, RequestId, Undo, Waiting, Waits};
use super::response::{as_table, write_error, write_response};
use super::server::Server;
use super::splice::Splice;
use super::too_large::too_long;
use crate::json::Json;
use crate::log::{SessionId, did_you_mean, nearest};
use crate::protocol::{Code, METHODS, Method, Scope, WireError};

/// What a call has said.
enum Said<'r> {
    /// A result, in a response as the method table writes it.
    Result(&'r str),
    /// An error, written likewise.
    Error(&'r str),
    /// An error that is to be written.
    Refusal(WireError),
}

impl Server {
    /// Runs a method of the table and does with its response what it asks for.
    pub(super) fn call(&mut self, request: &Request<'_>, params: Json<'_>, names: Vec<String>) {
        let name = request.method.lossy();
        let method = Method::named(&name);
        let callback = method.and_then(|method| self.methods.method(method.name));
        let (Some(method), Some(MethodCallback::Sync(callback))) = (method, callback) else {
            return self.refuse(request.id, &unknown_method(&name));
        };
        let odd = list_for_object(method.name, params).or_else(|| unknown_greeting(method.name, params));
        if let Some(error) = odd {
            return self.refuse(request.id, &error);
        }
        let waiting = if method.scope == Scope::Nothing { self.queue.waits() } else { Waits::default() };
        let Some(mut service) = self.service.take() else { return };
        service.call = Call { waiting, ..Call::new(request.id) };
        self.slot.put(service);
        let given = Params::new(Some(params.text()));
        let response = callback(Id::Number(0), given, usize::MAX, Extensions::new());
        self.service = self.slot.take();
        let Some(service) = self.service.as_mut() else { return };
        let call = std::mem::take(&mut service.call);
        service.call.sent = call.sent; // the guard must know
        let caller = Caller { id: request.id.into(), method, names };
        let call = match call.next {
            AfterCall::Need(need) => return self.suspend(caller, need),
            next => Call { next, ..call },
        };
        let body = response.as_json().get();
        let said = match response.is_error() {
            false => Said::Result(body),
            true if call.entered => Said::Error(body),
            true => Said::Refusal(misfit(&reason_of(body), params, "")),
        };
        self.respond(&caller, &said, call);
    }

    /// Lets a call wait for the store.
    fn suspend(&mut self, caller: Caller, Need { request, then }: Need<String>) {
        self.parked = true;
        let (opens, is_final) = (request.opens().cloned(), request.is_final());
        self.start(Waiting::Call { caller, then, opens, is_final }, request);
    }

    /// Goes on with a call whose request is answered; a bug on the way is that call's alone.
    pub(super) fn go_on(&mut self, caller: &Caller, then: Then<String>, opens: Option<SessionId>) {
        let traced = self.begin_trace();
        if let Some(service) = self.service.as_mut() {
            service.store.begin();
        }
        if !self.guarded(|server| server.run_on(caller, then)) {
            self.call_broke(&caller.id, &caller.names, opens);
        }
        if let Some(begun) = traced {
            self.trace_call(caller, begun);
        }
    }

    fn run_on(&mut self, caller: &Caller, then: Then<String>) {
        self.forget_time();
        self.write_out(); // a read shows, and a fork shares, only what is written
        self.mark();
        let Some(service) = self.service.as_mut() else { return };
        service.call = Call { entered: true, ..Call::new(&caller.id) };
        let result = then(service);
        let call = std::mem::take(&mut service.call);
        service.call.sent = call.sent; // the guard must know
        match result {
            Ok(result) => self.respond(caller, &Said::Result(&as_table(&result)), call),
            Err(CallError::Error(error)) => self.respond(caller, &Said::Refusal(error), call),
            Err(CallError::Need(need)) => self.suspend(caller.clone(), *need),
        }
    }

    /// Writes a response, and does what is to follow.
    fn respond(&mut self, caller: &Caller, said: &Said<'_>, call: Call) {
        let Call { next, after, slot, splice, sent, .. } = call;
        let Some(service) = self.service.as_mut() else { return };
        let max = service.settings.wire.max_message_bytes;
        let out = &mut service.out;
        let start = match splice {
            Some(Splice::Begun(_)) => self.mark.min(out.len()),
            _ => out.len(),
        };
        match said {
            Said::Result(body) => write_response(out, &caller.id, body, splice),
            Said::Error(body) => write_response(out, &caller.id, body, None),
            Said::Refusal(error) => write_error(out, &caller.id, error),
        }
        let fits = sent || out.len() - start <= max + 1;
        if !fits {
            out.truncate(start);
            write_error(out, &caller.id, &too_long(caller.method.name, max));
        }
        let has_result = fits && matches!(said, Said::Result(_));
        if has_result && matches!(next, AfterCall::Respond) && caller.method.scope != Scope::Nothing {
            service.connection.fixed = true; // what waits for its answer does it then
        }
        out.push_str(&after);
        match next {
            AfterCall::Hold(Held { request, settle, undo }) => {
                let lines = out.split_off(start).into();
                let undo = undo.map_or(Undo::Nothing, Undo::Close);
                let mut names = caller.names.clone();
                names.extend(request.session().map(|id| id.as_str().to_owned()));
                self.start(Waiting::Hold { lines, names, settle, undo }, request);
            }
            AfterCall::Durable => {
                let id = caller.names.first().and_then(|id| service.store.session(id).ok());
                let slot = slot
                    .or_else(|| id.map(|session| service.write_set.touch(session.id(), session.next_seq())));
                if let Some(slot) = slot {
                    service.write_set.answered(slot, start, service.out.len(), true);
                }
            }
            AfterCall::Replay { id, opened } => {
                let lines = out.split_off(start);
                let options = service.connection.acp_options(max);
                let Ok(session) = service.store.session_mut(id.as_str()) else { return };
                let log = session.share_log();
                let told = RequestId::of(Json::from_verified(&caller.id));
                let ticket = self.queue.wait(Waiting::Told { id: told, names: caller.names.clone() });
                let asked = (caller.id.clone(), opened);
                self.streams.push(ticket, Streaming::new(id, log, options, asked, lines));
            }
            AfterCall::Respond | AfterCall::Need(_) => {
                if let Some(slot) = slot {
                    service.write_set.answered(slot, start, service.out.len(), false);
                }
            }
        }
    }
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
    let near = nearest(method, METHODS.iter().map(|method| method.name));
    let offer = did_you_mean(&near).unwrap_or_else(|| "initialize lists the methods".to_owned());
    let message = format!("there is no method {name:?}; {offer}");
    WireError::new(Code::MethodNotFound, message).text("method", &name).names("nearest", &near)
}
