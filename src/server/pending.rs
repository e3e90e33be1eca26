//! What cannot be answered yet: it waits for the store, or for another request of its session.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;

use super::call::{Settle, Then};
use super::order::{Order, Place};
use super::server::Server;
use crate::json::Json;
use crate::log::{Offset, Seq, SessionId};
use crate::protocol::{Code, Method, WireError};
use crate::session::Session;
use crate::store::storage::{Released, Reply, Rescued, Ticket};

/// A request's id, the same for every spelling of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestId(Box<[u8]>);

impl RequestId {
    /// A string's contents behind a quote, or the text of anything else.
    pub(super) fn of(id: Json<'_>) -> Self {
        Self(match id.as_str() {
            Some(text) => [b"\"", &*text.wtf8()].concat().into(),
            None => id.text().as_bytes().into(),
        })
    }
}

/// What a failed request takes back.
#[derive(Debug)]
pub(super) enum Undo {
    /// Nothing: what was committed stays so.
    Nothing,
    /// The session never became live.
    Close(SessionId),
    /// The events from there on were never committed.
    Retract(SessionId, Offset),
}

/// Lines that wait for a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    pub(super) text: String,
    /// Where the answers lie that promise stable storage.
    pub(super) durable: Vec<Range<usize>>,
}

impl Lines {
    /// Gives its parts in order, and of each whether it is an answer that promises stable storage.
    pub(super) fn split(&self, mut part: impl FnMut(&str, bool)) {
        let mut at = 0;
        for answer in &self.durable {
            part(self.text.get(at..answer.start).unwrap_or(""), false);
            part(self.text.get(answer.clone()).unwrap_or(""), true);
            at = answer.end;
        }
        part(self.text.get(at..).unwrap_or(""), false);
    }
}

impl From<String> for Lines {
    fn from(text: String) -> Self {
        Self { text, durable: Vec::new() }
    }
}

/// Whose call it is.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The text of its id.
    pub(super) id: Box<str>,
    /// Its method.
    pub(super) method: &'static Method,
    /// The session ids that it names.
    pub(super) names: Vec<String>,
}

impl Caller {
    fn request_id(&self) -> RequestId {
        RequestId::of(Json::from_verified(&self.id))
    }
}

/// What waits for a request to the store.
pub(super) enum Waiting {
    /// A call, which goes on with the answer.
    Call {
        /// Whose.
        caller: Caller,
        /// How.
        then: Then<String>,
        /// The session that the request opens, and nobody else closes.
        opens: Option<SessionId>,
        /// The request takes effect whatever becomes of the call, which is not to be cancelled.
        is_final: bool,
    },
    /// Its response is ready and goes out when the request is done.
    Hold {
        /// The response and what goes out with it; a failure puts an error in the response's place.
        lines: Lines,
        /// The session ids that it names.
        names: Vec<String>,
        /// Whether the request has succeeded.
        settle: Settle,
        /// What is taken back when it has not.
        undo: Undo,
    },
    /// The history that it asked for is being told.
    Told {
        /// Its id, by which it can be cancelled.
        id: RequestId,
        /// The session ids that it names.
        names: Vec<String>,
    },
    /// A session is given up that nobody asked to close.
    Release {
        /// Its id.
        names: Vec<String>,
        /// How.
        reply: Reply<Released>,
    },
    /// The end of the daemon: a session whose log another program took is stored anew.
    Rescue(Box<Session>, Reply<Rescued>),
    /// It was cancelled: nobody wants the answer.
    Nobody {
        /// The session ids that it named.
        names: Vec<String>,
        /// The session that its request opens.
        opens: Option<SessionId>,
    },
}

/// A request that waits for a busy session.
#[derive(Debug)]
struct Behind {
    line: Box<str>,
    id: RequestId,
}

/// Where a request is that can be cancelled; of several with one id the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    /// Its history is being told.
    Told(Ticket),
    /// It waits for a busy session.
    Behind(Place),
    /// It waits for the store.
    Call(Ticket),
}

/// A request that was taken back.
#[derive(Debug)]
pub(super) enum Cancelled {
    /// It has done nothing; the text of its id.
    Undone(Box<str>),
    /// Its history is to be told no further.
    Told(Ticket),
}

/// A session that no line may name yet: its making, or its last events, are not told.
#[derive(Debug, Default)]
struct Untold {
    /// Requests that wait to tell of it.
    holds: usize,
    /// Its durable watermarks meanwhile.
    durable: Vec<Seq>,
}

/// A session's answers that wait for its appends.
#[derive(Debug, Default)]
pub(super) struct Flight(VecDeque<(Offset, Lines)>);

/// How much waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// Requests to the store that calls or answers wait for.
    pub(super) jobs: u64,
    /// Requests behind busy sessions.
    pub(super) requests: u64,
    /// Bytes of their lines.
    pub(super) bytes: u64,
}

/// What waits, and for what. A step costs what it concerns, however much waits beside it.
#[derive(Default)]
pub(super) struct Queue {
    last: Ticket,
    jobs: HashMap<Ticket, Waiting>,
    /// Requests that wait for busy sessions.
    behind: Order<Behind>,
    /// Bytes of their lines.
    bytes: usize,
    /// The requests that can be cancelled.
    ids: HashMap<RequestId, BTreeSet<Spot>>,
    untold: HashMap<SessionId, Untold>,
    /// Answers that wait for appends in flight.
    flights: HashMap<SessionId, Flight>,
    /// Durable watermarks that may be told.
    durable: VecDeque<(SessionId, Seq)>,
}

impl Queue {
    /// Whether anything waits.
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.behind.is_empty() && self.flights.is_empty()
    }

    /// Whether nothing waits for that session, nor a request for it behind another one.
    pub(super) fn is_free(&self, id: &str) -> bool {
        self.behind.is_free(id)
    }

    /// Whether a request that names these sessions must wait: for one of them, or for an older one
    /// that does. An empty name stands for the list of all sessions.
    pub(super) fn is_busy(&self, names: &[String]) -> bool {
        self.behind.is_busy(names)
    }

    /// Whether an append to a session may pass, as only others of its appends are in flight, if anything is.
    pub(super) fn lets_append(&self, id: &str) -> bool {
        self.behind.lets_append(id)
    }

    /// Whether appends of a session are in flight.
    pub(super) fn is_in_flight(&self, id: &str) -> bool {
        self.behind.is_in_flight(id)
    }

    /// Lets lines wait for a session's appends to be stored up to there.
    pub(super) fn take_off(&mut self, id: &SessionId, through: Offset, lines: Lines) {
        self.behind.take_off(id.as_str());
        self.flights.entry(id.clone()).or_default().0.push_back((through, lines));
    }

    /// The lines that wait for no more than that, in order; with none for an end, all of them.
    pub(super) fn land(&mut self, id: &SessionId, through: Option<Offset>) -> Vec<Lines> {
        let Some(Flight(waiting)) = self.flights.get_mut(id) else { return Vec::new() };
        let landed =
            waiting.iter().take_while(|(needed, _)| through.is_none_or(|through| *needed <= through));
        let landed = landed.count();
        let lines = waiting.drain(..landed).map(|(_, lines)| lines).collect();
        if waiting.is_empty() {
            self.flights.remove(id);
            self.behind.land(id.as_str());
        }
        lines
    }

    /// Whether one that has waited must go on waiting.
    pub(super) fn is_held(&self, names: &[String]) -> bool {
        self.behind.is_held(names)
    }

    /// What waits, as a status tells it.
    pub(super) fn waits(&self) -> Waits {
        let (jobs, requests) = ((self.jobs.len() + self.flights.len()) as u64, self.behind.len() as u64);
        Waits { jobs, requests, bytes: self.bytes as u64 }
    }

    /// Bytes of the requests that wait behind busy sessions.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts a request behind the busy sessions.
    pub(super) fn push_behind(&mut self, line: Box<str>, id: RequestId, names: Vec<String>) {
        self.bytes += line.len();
        let place = self.behind.push_back(Behind { line, id: id.clone() }, names);
        self.ids.entry(id).or_default().insert(Spot::Behind(place));
    }

    /// Puts one that has waited in front of all others again.
    pub(super) fn push_ahead(&mut self, line: Box<str>, id: RequestId, names: Vec<String>) {
        self.bytes += line.len();
        let place = self.behind.push_front(Behind { line, id: id.clone() }, names);
        self.ids.entry(id).or_default().insert(Spot::Behind(place));
    }

    /// A request there waits no more.
    fn left(&mut self, place: Place, request: Behind) -> Box<str> {
        self.bytes = self.bytes.saturating_sub(request.line.len());
        self.forget(&request.id, Spot::Behind(place));
        request.line
    }

    fn forget(&mut self, id: &RequestId, spot: Spot) {
        if let Some(spots) = self.ids.get_mut(id) {
            spots.remove(&spot);
            if spots.is_empty() {
                self.ids.remove(id);
            }
        }
    }

    /// Lets something wait for the store.
    pub(super) fn wait(&mut self, waiting: Waiting) -> Ticket {
        self.last += 1;
        self.behind.begin(waiting.names());
        if let Some((id, spot)) = waiting.cancelled_by(self.last) {
            self.ids.entry(id).or_default().insert(spot);
        }
        if let Some(id) = waiting.untold() {
            self.untold.entry(id.clone()).or_default().holds += 1;
        }
        self.jobs.insert(self.last, waiting);
        self.last
    }

    /// What waited for the store; its sessions are free again, and may be named.
    pub(super) fn done(&mut self, ticket: Ticket) -> Option<Waiting> {
        let waiting = self.jobs.remove(&ticket)?;
        self.behind.end(waiting.names());
        if let Some((id, spot)) = waiting.cancelled_by(ticket) {
            self.forget(&id, spot);
        }
        if let Some(id) = waiting.untold()
            && let Some(untold) = self.untold.get_mut(id)
        {
            untold.holds -= 1;
            if untold.holds == 0 {
                let durable = std::mem::take(&mut untold.durable);
                self.durable.extend(durable.into_iter().map(|seq| (id.clone(), seq)));
                self.untold.remove(id);
            }
        }
        Some(waiting)
    }

    /// A session is durable so far: that is told, of one that no line may name yet after what makes it known.
    pub(super) fn note_durable(&mut self, id: SessionId, seq: Seq) {
        match self.untold.get_mut(&id) {
            Some(untold) => untold.durable.push(seq),
            None => self.durable.push_back((id, seq)),
        }
    }

    /// The next watermark to be told.
    pub(super) fn next_durable(&mut self) -> Option<(SessionId, Seq)> {
        self.durable.pop_front()
    }

    /// Whether there is none.
    pub(super) fn is_told(&self) -> bool {
        self.durable.is_empty()
    }

    /// Whether [`Self::next_free`] has not yet looked at all that waits.
    pub(super) fn may_be_free(&self) -> bool {
        self.behind.may_be_free()
    }

    /// The first request that waits behind no busy session any more.
    pub(super) fn next_free(&mut self) -> Option<Box<str>> {
        let (place, request) = self.behind.next_free()?;
        Some(self.left(place, request))
    }

    /// Takes the request of that id back; none if no such request waits that can be taken back. One whose effect is
    /// done is not.
    pub(super) fn cancel(&mut self, id: &RequestId) -> Option<Cancelled> {
        match *self.ids.get(id)?.first()? {
            Spot::Told(ticket) => {
                self.done(ticket)?;
                Some(Cancelled::Told(ticket))
            }
            Spot::Behind(place) => {
                let request = self.behind.remove(place)?;
                let line = self.left(place, request);
                let (request, _) = Json::parse(&line).ok()?;
                Some(Cancelled::Undone(request.get("id")?.text().into()))
            }
            spot @ Spot::Call(ticket) => {
                self.forget(id, spot);
                let waiting = self.jobs.get_mut(&ticket)?;
                let Waiting::Call { caller, opens, .. } = waiting else { return None };
                let own = std::mem::take(&mut caller.id);
                let (names, opens) = (std::mem::take(&mut caller.names), opens.take());
                *waiting = Waiting::Nobody { names, opens };
                Some(Cancelled::Undone(own))
            }
        }
    }
}

impl Waiting {
    /// The session ids that it names.
    fn names(&self) -> &[String] {
        match self {
            Self::Call { caller: Caller { names, .. }, .. }
            | Self::Hold { names, .. }
            | Self::Told { names, .. }
            | Self::Release { names, .. }
            | Self::Nobody { names, .. } => names,
            Self::Rescue(..) => &[], // no request comes any more
        }
    }

    /// The id that can cancel it, and where it is then.
    fn cancelled_by(&self, ticket: Ticket) -> Option<(RequestId, Spot)> {
        match self {
            Self::Call { caller, is_final: false, .. } => Some((caller.request_id(), Spot::Call(ticket))),
            Self::Told { id, .. } => Some((id.clone(), Spot::Told(ticket))),
            _ => None,
        }
    }

    /// The session that no line may name before it.
    fn untold(&self) -> Option<&SessionId> {
        match self {
            Self::Hold { undo: Undo::Close(id) | Undo::Retract(id, _), .. } => Some(id),
            _ => None,
        }
    }
}

impl Server {
    /// Takes the request of that id back, if it waits and has done nothing.
    pub(super) fn cancel(&mut self, id: Json<'_>) {
        // Its id as it came: another spelling of it may have cancelled it.
        let own: Box<str> = match self.queue.cancel(&RequestId::of(id)) {
            Some(Cancelled::Told(ticket)) => {
                let Some(streaming) = self.streams.cancel(ticket) else { return };
                if streaming.opened {
                    self.close_unasked(&streaming.session, false);
                }
                streaming.id
            }
            Some(Cancelled::Undone(own)) => own,
            None => return,
        };
        let cancelled = WireError::new(Code::RequestCancelled, "cancelled by the client");
        self.refuse(&own, &cancelled);
    }
}
