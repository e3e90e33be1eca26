//! A bug in one request is that request's alone (PROTOCOL 5, `INTERNAL`).
//!
//! One guard stands around each thing that the server carries out: a line, the result of a job, a portion of a
//! history, the letting go of a session at the end. What unwinds to it loses its lines and is answered `INTERNAL`; what
//! it had committed or opened is taken back, as nobody was told of it; and the sessions that it names are folded anew
//! from their logs. Between requests [`survives`] stands around the steps that end a turn: a session whose log may differ from memory is let go of.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::envelope::Incoming;
use super::pending::Waiting;
use super::server::{Server, named_sessions};
use super::service::Service;
use super::write_set::{Settling, Touched, WriteOutcome, refuse_lines};
use crate::json::Scratch;
use crate::log::SessionId;
use crate::protocol::{Code, WireError};
use crate::session::RolledBack;
use crate::store::storage::Request;

pub(super) fn bug() -> WireError {
    tracing::error!("a request met a bug and was answered INTERNAL");
    WireError::new(Code::Internal, "a bug in sessiond; the session was folded anew, report this")
}

/// Carries out what no single request is guarded for; none when it met a bug.
pub(super) fn survives<T>(act: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(act)).ok()
}

impl Server {
    /// Carries something out; false when it met a bug: its lines are no longer in the output.
    pub(super) fn guarded(&mut self, act: impl FnOnce(&mut Self)) -> bool {
        self.mark();
        if catch_unwind(AssertUnwindSafe(|| act(self))).is_ok() {
            return true;
        }
        if self.service.is_none() {
            self.service = self.slot.take(); // the methods had it
        }
        if let Some(ticket) = self.starting.take() {
            self.queue.done(ticket);
        }
        if let Some(service) = self.service.as_mut() {
            if std::mem::take(&mut service.call).sent {
                service.out.push('\n'); // what has left cannot be taken back: no line of ours is lost behind it
            } else {
                service.out.truncate(self.mark);
                service.write_set.cut(self.mark);
            }
        }
        false
    }

    /// What comes into the output from here on goes with what is being carried out.
    pub(super) fn mark(&mut self) {
        if let Some(service) = self.service.as_mut() {
            self.mark = service.out.len();
            service.call.sent = false;
        }
    }

    /// Lets something wait for the store and begins that.
    pub(super) fn start(&mut self, waiting: Waiting, request: Request) {
        let ticket = self.queue.wait(waiting);
        if let Some(service) = self.service.as_mut() {
            self.starting = Some(ticket);
            service.storage.start(ticket, request);
            self.starting = None;
        }
    }

    /// A line met a bug.
    pub(super) fn line_broke(&mut self, line: &str) {
        // Reading the line may have been the bug: then nobody knows whose it is.
        let (id, names) = survives(|| whose(line)).unwrap_or_else(|| (Some("null".to_owned()), Vec::new()));
        self.broke(id.as_deref(), &names, None);
    }

    /// A call that has waited met a bug; `opens` is the session that was opened for it.
    pub(super) fn call_broke(&mut self, id: &str, names: &[String], opens: Option<SessionId>) {
        self.broke(Some(id), names, opens);
    }

    fn broke(&mut self, id: Option<&str>, names: &[String], opens: Option<SessionId>) {
        let Some(service) = self.service.as_mut() else { return };
        survives(|| service.rollback());
        if let Some(id) = opens.filter(|id| service.store.session(id.as_str()).is_err()) {
            survives(|| service.storage.discard(&id));
        }
        for name in names {
            survives(|| service.refold(name));
        }
        let error = bug();
        if let Some(id) = id {
            self.refuse(id, &error);
        }
    }

    /// Letting these lines out met a bug.
    pub(super) fn answers_broke(&mut self, lines: &str) {
        let error = bug();
        if let Some(out) = self.output() {
            refuse_lines(lines, &error, out);
        }
    }

    /// Telling what became of a turn met a bug, after its logs were written: what it would have told is refused, and as
    /// their logs hold what nobody is told of, its sessions are let go of.
    pub(super) fn telling_broke(&mut self, touched: &[Touched], settling: &Settling) {
        let Some(service) = self.service.as_mut() else { return };
        let outcomes: Vec<WriteOutcome> = touched.iter().map(|_| WriteOutcome::Failed(bug())).collect();
        if survives(|| settling.settle(&outcomes, &mut service.out)).is_none() {
            service.out.clear(); // better no answer than a false one
        }
        touched.iter().for_each(|touched| service.lose(&touched.id));
    }

    /// Giving storage the job that lines wait for met a bug; `untaken` are those lines if they do not wait yet.
    pub(super) fn beginning_broke(&mut self, id: &SessionId, untaken: &str) {
        match self.starting.take().and_then(|ticket| self.queue.done(ticket)) {
            Some(Waiting::Hold { lines, .. }) => self.answers_broke(&lines.text),
            _ => self.answers_broke(untaken),
        }
        if let Some(service) = self.service.as_mut() {
            service.lose(id);
        }
    }

    /// Telling the first history met a bug. As when it is cancelled, a load takes back that it made a session live.
    pub(super) fn stream_broke(&mut self) {
        let error = bug();
        let Some((ticket, streaming)) = self.streams.give_up_first() else { return };
        self.queue.done(ticket);
        if streaming.opened {
            self.close_unasked(&streaming.session, false);
        }
        self.refuse(&streaming.id, &error);
    }
}

/// The id of a line, none when it wants no answer, and the sessions that it names.
fn whose(line: &str) -> (Option<String>, Vec<String>) {
    match Incoming::read(line, &mut Scratch::default()) {
        Ok(Incoming::Request(request)) => {
            (Some(request.id.to_owned()), named_sessions(&request, request.params))
        }
        Ok(Incoming::Notification(_) | Incoming::Response) => (None, Vec::new()),
        Err(fault) => (Some(fault.id().to_owned()), Vec::new()),
    }
}

impl Service {
    /// Takes back what a request that met a bug has changed.
    fn rollback(&mut self) {
        match self.store.rollback() {
            Some(RolledBack::Events(id, from)) => {
                self.followers.remove(&id);
                self.write_set.untouch(&id, from);
            }
            Some(RolledBack::Session(session)) => {
                self.followers.remove(session.id());
                self.storage.discard(session.id());
            }
            None => {}
        }
    }

    /// Lets go of a live session whose log and memory may differ. What its log holds can be loaded.
    pub(super) fn lose(&mut self, id: &SessionId) {
        survives(|| drop(self.dispose(id.as_str())));
        survives(|| self.storage.discard(id));
    }

    fn refold(&mut self, id: &str) {
        if let Ok(session) = self.store.session_mut(id) {
            session.refold();
            let id = session.id().clone();
            self.followers.remove(&id);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::json::{Checks, Json, JsonStr};
    use crate::server::Settings;
    use crate::session::{Append, Candidate, Context, Expect};
    use crate::store::storage::{Event, Storage, StoreInfo, Ticket};

    /// A store that is written to and knows nothing.
    struct Nowhere;

    impl Storage for Nowhere {
        fn info(&self) -> StoreInfo {
            StoreInfo { kind: "jsonl", location: Some("nowhere".to_owned()), durable: true, shared: false }
        }
        fn start(&mut self, _: Ticket, _: Request) {}
        fn poll(&mut self) -> Option<Event> {
            None
        }
        fn has_events(&mut self) -> bool {
            false
        }
        fn discard(&mut self, _: &SessionId) {}
    }

    /// A server with a session `s`, whose making waits for no storage.
    fn server() -> Server {
        let mut server = Server::new(Settings::default(), Box::new(Nowhere));
        let service = server.service.as_mut().unwrap();
        let header = crate::log::HeaderMeta::default().into_header(SessionId::new("s").unwrap(), 1, false);
        let new = crate::session::New {
            header,
            seed: None,
            seed_length: None,
            invariants: crate::session::Validation::Enforce,
            ephemeral: false,
        };
        let context = &mut Context::at(1, &mut service.settings.ids);
        service.store.create(new, context).unwrap();
        service.store.session_mut("s").unwrap().set_epoch(0);
        server
    }

    const APPEND: &str = r#"{"jsonrpc":"2.0","id":7,"method":"session/append","params":{"sessionId":"s","type":"session/title","data":{}}}"#;

    fn commit(server: &mut Server, announced: bool) {
        let service = server.service.as_mut().unwrap();
        let (data, checks) = Json::parse("{}").unwrap();
        let name = JsonStr::from_verified("\"session/title\"");
        let candidate = Candidate::new(name, data, Checks { depth: 1, ..checks });
        let place = Append { session: "s", instance: None, expect: Expect::default() };
        let context = &mut Context::at(2, &mut service.settings.ids);
        let (appended, _) = service.store.append(place, &candidate, context).unwrap();
        if announced {
            service.committed("s", appended.seq.before(), appended.seq.after());
        }
    }

    /// A line that commits and then meets a bug.
    fn breaks(server: &mut Server, announced: bool) {
        server.service.as_mut().unwrap().store.begin();
        let whole = server.guarded(|server| {
            commit(server, announced);
            panic!("a bug");
        });
        assert!(!whole);
        server.line_broke(APPEND);
    }

    #[test]
    fn what_a_bug_leaves_unannounced_is_taken_back() {
        for (before, announced) in [(0, false), (0, true), (1, false), (2, true)] {
            let mut server = server();
            (0..before).for_each(|_| server.receive(APPEND.as_bytes()));
            let told = server.output().unwrap().len();
            breaks(&mut server, announced);
            let out = server.output().unwrap().split_off(told);
            assert!(out.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"#), "{out}");
            assert_eq!(out.lines().count(), 1, "{out}");
            let service = server.service.as_mut().unwrap();
            assert_eq!(service.store.session("s").unwrap().next_seq().get(), before);
            assert_eq!(
                service.write_set.is_empty(),
                before == 0,
                "a session that got nothing is not written"
            );
            // The next event takes its place, and is told with what was told before, each once.
            server.receive(APPEND.as_bytes());
            server.settle();
            let out = std::mem::take(server.output().unwrap());
            let seqs: Vec<_> = out.lines().filter_map(|line| line.split_once("\"seq\":")).collect();
            assert_eq!(seqs.len() as u64, 2 * (before + 1), "{out}");
            assert!(seqs.last().unwrap().1.starts_with(&before.to_string()), "{out}");
        }
    }

    #[test]
    fn a_history_whose_telling_meets_a_bug_ends_in_an_error() {
        let mut server = server();
        commit(&mut server, false);
        let load = r#"{"jsonrpc":"2.0","id":8,"method":"session/load","params":{"sessionId":"s","replay":"updates"}}"#;
        server.receive(load.as_bytes());
        assert!(server.has_more());
        let whole = server.guarded(|server| {
            server.output().unwrap().push_str("half a line");
            panic!("a bug");
        });
        assert!(!whole);
        server.stream_broke();
        let out = std::mem::take(server.output().unwrap());
        assert!(out.starts_with(r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32603,"#), "{out}");
        assert!(!server.has_more() && server.is_idle(), "the session is free again");
        server.receive(APPEND.as_bytes());
        assert!(server.output().unwrap().contains("\"result\":{\"seq\":1,"));
    }

    #[test]
    fn answers_whose_letting_out_meets_a_bug_become_errors() {
        let mut server = server();
        server
            .answers_broke("{\"jsonrpc\":\"2.0\",\"method\":\"session/event\",\"params\":{}}\n{\"id\":9}\n");
        let out = std::mem::take(server.output().unwrap());
        assert!(out.starts_with(r#"{"jsonrpc":"2.0","id":9,"error":"#) && out.lines().count() == 1, "{out}");
    }
}
