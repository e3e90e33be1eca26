//! An engine as a remote one is: what it is asked is done later, its connection comes and goes, and other daemons take
//! its sessions over.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use sessiond::json::Json;
use sessiond::log::{Header, Log, Offset, Seq, SessionId, read_event};
use sessiond::session::{Candidate, History, Outgoing, Rules};
use sessiond::store::storage::{
    Append, Connection, Created, DaemonId, Detail, Event, Inspected, Lease, ListFacts, LoadRules, Loaded,
    Outcome, Released, Request, Rescued, Status, Storage, StorageError, StoreInfo, StoredInfo, StoredSummary,
    Ticket,
};

/// What is stored of a session.
struct Kept {
    header: Header,
    inherited: Offset,
    lines: Vec<String>,
    epoch: u64,
}

enum Work {
    Asked(Ticket, Request),
    Append { id: SessionId, epoch: u64, from: usize, lines: Vec<String> },
}

/// The server's side, and the wire to it.
#[derive(Default)]
struct World {
    kept: HashMap<SessionId, Kept>,
    way: VecDeque<Work>,
    events: VecDeque<Event>,
    /// Each look carries that much out by itself.
    pace: usize,
    /// Where the next append of a session begins that lives here.
    sent: HashMap<SessionId, usize>,
    /// Sessions whose failed appends were not polled yet.
    failed: HashMap<SessionId, StorageError>,
    epochs: u64,
}

/// The engine.
pub(crate) struct Remote(Arc<Mutex<World>>);

/// The hands that move what it does.
#[derive(Clone)]
pub(crate) struct Hands(Arc<Mutex<World>>);

impl Remote {
    /// One that carries so much out at each look.
    pub(crate) fn new(pace: usize) -> (Self, Hands) {
        let world = Arc::new(Mutex::new(World { pace, ..World::default() }));
        (Self(Arc::clone(&world)), Hands(world))
    }
}

pub(crate) fn another() -> DaemonId {
    DaemonId { id: Some("d2".into()), host: Some("elsewhere".into()), pid: 7, since: 8 }
}

fn cut_off(outcome: Outcome) -> StorageError {
    let detail = Detail::Sql("08006".to_owned());
    StorageError::Failed { detail, doing: "reaching the store".to_owned(), outcome, remedy: None }
}

impl Hands {
    /// Carries so much out.
    pub(crate) fn step(&self, most: usize) {
        let mut world = self.0.lock().unwrap();
        for _ in 0..most {
            world.step();
        }
    }

    /// The connection is lost: of the appends on their way so many were stored, which nobody has said; `outcome` is
    /// what the engine knows of the first that was not acknowledged.
    pub(crate) fn cut(&self, stored: usize, outcome: Outcome) {
        let mut world = self.0.lock().unwrap();
        world.events.push_back(Event::Connection(Connection::Lost));
        for done in 0.. {
            match world.way.pop_front() {
                None => break,
                Some(Work::Asked(ticket, request)) => {
                    drop_unanswered(request, outcome);
                    world.events.push_back(Event::Done(ticket));
                }
                Some(Work::Append { id, epoch, from, lines }) => {
                    if done < stored {
                        world.store(&id, epoch, from, lines).unwrap();
                    }
                    world.fail(&id, from, cut_off(outcome));
                }
            }
        }
    }

    pub(crate) fn restore(&self) {
        self.0.lock().unwrap().events.push_back(Event::Connection(Connection::Restored));
    }

    /// The next append that is on its way is refused by the server.
    pub(crate) fn refuse(&self) {
        let mut world = self.0.lock().unwrap();
        let Some(Work::Append { id, from, .. }) = world.way.pop_front() else {
            panic!("no append is on its way")
        };
        world.fail(&id, from, cut_off(Outcome::NotCommitted));
    }

    /// Another daemon takes a session over, which this one is told of at once, or only by its next append.
    pub(crate) fn take_over(&self, id: &str, told: bool) {
        let mut world = self.0.lock().unwrap();
        let id = SessionId::new(id).unwrap();
        let epoch = world.next_epoch();
        world.kept.get_mut(&id).unwrap().epoch = epoch;
        if told {
            world.events.push_back(Event::LeaseLost { session: id, by: Some(another()) });
        }
    }

    /// What is stored of a session.
    pub(crate) fn stored(&self, id: &str) -> usize {
        self.0.lock().unwrap().kept.get(&SessionId::new(id).unwrap()).map_or(0, |kept| kept.lines.len())
    }
}

/// Answers a request that got no answer.
fn drop_unanswered(request: Request, outcome: Outcome) {
    let error = cut_off(outcome);
    match request {
        Request::Find { reply, .. } => reply.keep(Err(error)),
        Request::Load { reply, .. } => reply.keep(Err(error)),
        Request::Inspect { reply, .. } => reply.keep(Err(error)),
        Request::List { reply, .. } => reply.keep(Err(error)),
        Request::LookUp { reply, .. } => reply.keep(Err(error)),
        Request::Create { reply, .. } => reply.keep(Err(error)),
        Request::Sync { reply, .. } => reply.keep(Err(error)),
        Request::Release { session, reply } => reply.keep(Ok(Released::Short { session, error })),
        Request::Rescue { reply, .. } => reply.keep(Err(error)),
        Request::Delete { reply, .. } => reply.keep(Err(error)),
    }
}

fn lines_of(log: &Log, from: usize) -> Vec<String> {
    log.iter().skip(from).map(|event| event.line().to_owned()).collect()
}

impl World {
    fn next_epoch(&mut self) -> u64 {
        self.epochs += 1;
        self.epochs
    }

    fn fail(&mut self, id: &SessionId, from: usize, error: StorageError) {
        if self.failed.contains_key(id) {
            return; // one failure tells of all behind it
        }
        self.failed.insert(id.clone(), error.clone());
        self.way.retain(|work| !matches!(work, Work::Append { id: of, .. } if of == id));
        let from = Offset::new(from as u64).unwrap();
        self.events.push_back(Event::AppendFailed { session: id.clone(), from, error });
    }

    /// The compare-and-set by which alone an append is stored.
    fn store(&mut self, id: &SessionId, epoch: u64, from: usize, lines: Vec<String>) -> Result<usize, ()> {
        let kept = self.kept.get_mut(id).filter(|kept| (kept.epoch, kept.lines.len()) == (epoch, from));
        let kept = kept.ok_or(())?;
        kept.lines.extend(lines);
        Ok(kept.lines.len())
    }

    fn step(&mut self) {
        match self.way.pop_front() {
            None => {}
            Some(Work::Append { id, epoch, from, lines }) => match self.store(&id, epoch, from, lines) {
                Ok(end) => {
                    let through = Offset::new(end as u64).unwrap();
                    self.events.push_back(Event::Acknowledged { session: id.clone(), through });
                    let durable = through.last();
                    self.events.extend(durable.map(|through| Event::Durable { session: id, through }));
                }
                Err(()) => {
                    self.way.retain(|work| !matches!(work, Work::Append { id: of, .. } if *of == id));
                    self.events.push_back(Event::LeaseLost { session: id.clone(), by: Some(another()) });
                    self.failed.insert(id.clone(), StorageError::LeaseLost { id, by: Some(another()) });
                }
            },
            Some(Work::Asked(ticket, request)) => {
                self.answer(request);
                self.events.push_back(Event::Done(ticket));
            }
        }
    }

    fn last(&self, id: &SessionId) -> Option<Seq> {
        let length = self.kept.get(id)?.lines.len() as u64;
        Offset::new(length)?.last()
    }

    fn history(&self, id: &SessionId, rules: &LoadRules) -> Result<(&Kept, History), StorageError> {
        let kept = self.kept.get(id).ok_or_else(|| StorageError::NotFound(id.clone()))?;
        let mut history = History::default();
        let rules = Rules { vocabulary: &rules.vocabulary, limits: &rules.limits };
        for line in &kept.lines {
            let (value, checks) = Json::parse(line).unwrap();
            let (_, time, draft) = read_event(value, checks.needs_compaction).unwrap();
            history.admit_stored(&Candidate::stored(draft, value, checks), time, rules).unwrap();
        }
        Ok((kept, history))
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Find { id, reply, .. } => reply.keep(Ok(self.kept.get(&id).map(|kept| StoredSummary {
                parent_session: kept.header.parent_session.clone(),
                inherited: kept.inherited,
                next_seq: Offset::new(kept.lines.len() as u64).unwrap(),
            }))),
            Request::Load { id, rules, reply } => {
                let epoch = self.next_epoch();
                let loaded = self.history(&id, &rules).map(|(kept, mut history)| {
                    let (header, inherited) = (kept.header.clone(), kept.inherited);
                    let rules = Rules { vocabulary: &rules.vocabulary, limits: &rules.limits };
                    history.close_turn(None, rules).unwrap();
                    Box::new(Loaded { header, inherited, history, mended: None, epoch })
                });
                if let (Ok(_), Some(kept)) = (&loaded, self.kept.get_mut(&id)) {
                    kept.epoch = epoch;
                    self.sent.insert(id.clone(), kept.lines.len());
                    self.failed.remove(&id);
                }
                reply.keep(loaded);
            }
            Request::Inspect { id, rules, reply } => {
                reply.keep(self.history(&id, &rules).map(|(kept, mut history)| {
                    let (log, closers) = (history.share_log(), history.closer_lines());
                    Box::new(Inspected {
                        header: kept.header.clone(),
                        inherited: kept.inherited,
                        log,
                        closers,
                        torn_tail: None,
                        problems: Vec::new(),
                        locked_by: None,
                    })
                }));
            }
            Request::List { query, reply } => {
                let vocabulary = query.vocabulary.clone();
                let rules = LoadRules { vocabulary, limits: sessiond::session::Limits::default() };
                let info = |id: &SessionId| {
                    let (kept, history) = self.history(id, &rules).unwrap();
                    let facts = ListFacts::of(&history);
                    StoredInfo {
                        id: id.as_str().to_owned(),
                        place: String::new(),
                        header: Some(kept.header.clone()),
                        active: facts.last_time,
                        facts,
                        status: Status::Ok,
                        reason: None,
                        locked_by: None,
                    }
                };
                let infos = self.kept.keys().map(info).collect();
                reply.keep(Ok(query.page(infos, |_| None)));
            }
            Request::LookUp { mut place, reply } => {
                place.look_up();
                reply.keep(Ok(place));
            }
            Request::Create { id, publication, reply } => {
                if self.kept.contains_key(&id) {
                    let summary = StoredSummary::default();
                    return reply.keep(Err(StorageError::Exists { id, summary }));
                }
                let (epoch, lines) = (self.next_epoch(), lines_of(&publication.log, 0));
                self.sent.insert(id.clone(), lines.len());
                let (header, inherited) = (publication.header, publication.inherited);
                self.kept.insert(id.clone(), Kept { header, inherited, lines, epoch });
                reply.keep(Ok(Created { epoch, durable: self.last(&id) }));
            }
            Request::Sync { id, reply, .. } => reply.keep(Ok(self.last(&id))),
            Request::Release { session, reply } => {
                self.sent.remove(session.id());
                reply.keep(Ok(Released::Whole));
            }
            Request::Rescue { reply, .. } => reply.keep(Ok(Rescued::Sound)),
            Request::Delete { id, reply } => {
                self.kept.remove(&id);
                reply.keep(Ok(()));
            }
        }
    }
}

impl Storage for Remote {
    fn info(&self) -> StoreInfo {
        let location = Some("db.example/sessions".to_owned());
        StoreInfo { kind: "remote", location, durable: true, shared: true }
    }

    fn start(&mut self, ticket: Ticket, request: Request) {
        self.0.lock().unwrap().way.push_back(Work::Asked(ticket, request));
    }

    fn append(&mut self, lease: Lease<'_>, log: &mut Outgoing<'_>, from: Offset, to: Offset) -> Append {
        let mut world = self.0.lock().unwrap();
        if let Some(error) = world.failed.get(lease.session) {
            return Append::Refused(error.clone());
        }
        let (id, epoch) = (lease.session.clone(), lease.epoch);
        let sent = *world.sent.get(&id).expect("a session that was created or loaded");
        // A load's closers stand before what is appended; of a failed append the log was cut.
        let sent = sent.min(from.get() as usize);
        let lines = lines_of(log.log(), sent);
        if lines.is_empty() && world.way.is_empty() {
            return Append::Written;
        }
        world.sent.insert(id.clone(), to.get() as usize);
        world.way.push_back(Work::Append { id, epoch, from: sent, lines });
        Append::Queued
    }

    fn poll(&mut self) -> Option<Event> {
        let mut world = self.0.lock().unwrap();
        for _ in 0..world.pace {
            world.step();
        }
        let event = world.events.pop_front()?;
        match &event {
            Event::AppendFailed { session, from, .. } => {
                world.failed.remove(session);
                world.sent.insert(session.clone(), from.get() as usize);
            }
            Event::LeaseLost { session, .. } => drop(world.failed.remove(session)),
            _ => {}
        }
        Some(event)
    }

    fn has_events(&mut self) -> bool {
        let mut world = self.0.lock().unwrap();
        for _ in 0..world.pace {
            world.step();
        }
        !world.events.is_empty()
    }

    fn is_quiet(&self) -> bool {
        let world = self.0.lock().unwrap();
        world.way.is_empty() && world.events.is_empty()
    }

    fn discard(&mut self, id: &SessionId) {
        self.0.lock().unwrap().sent.remove(id);
    }

    fn durable(&self, id: &SessionId) -> Option<Seq> {
        self.0.lock().unwrap().last(id)
    }
}
