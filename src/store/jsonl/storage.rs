//! The storage's owner side: open files, jobs on other threads, and what comes back of them.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::runtime::Handle;

use super::append::Mended;
use super::failures::write_failed;
use super::heap;
use super::keep::Summary;
use super::live::{Live, Open, PendingClose};
use super::{keep, read};
use crate::disk::fs::FileSystem;
use crate::disk::fs::fault::FaultFs;
use crate::disk::fs::os::OsFs;
use crate::disk::live::lock::Holder;
use crate::disk::live::publish::Publisher;
use crate::disk::live::session_file::{FileError, SessionFile};
use crate::disk::live::write::SyncDone;
use crate::disk::read::reader::ReadLimits;
use crate::log::{Offset, Seq, SessionId};
use crate::session::{Outgoing, Session};
use crate::store::StorageError;
use crate::store::storage::{
    Append, Created, DaemonId, Event, Lease, ListFacts, LoadRules, Loaded, Promise, Publication, Released,
    Request, Rescued, Storage, StoreInfo, Ticket, Wake,
};

/// How a store on disk works.
#[derive(Clone, Debug)]
pub struct JsonlOptions {
    /// The root directory.
    pub root: std::path::PathBuf,
    /// How long a written event waits for others before all are made durable together.
    pub sync_window: Duration,
    /// Bytes of one event that appends may write: a log with such events is read.
    pub max_event_bytes: usize,
    /// Who we are, for other processes that find a session locked.
    pub me: DaemonId,
    /// A file with faults to meet, for tests.
    pub fault_file: Option<std::path::PathBuf>,
}

/// What the threads share.
pub(super) struct Shared {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) publisher: Publisher,
    pub(super) me: Holder,
    pub(super) limits: ReadLimits,
    pub(super) seen: read::Seen,
}

/// What the hint beside a log says of a daemon.
fn holder(me: &DaemonId) -> Holder {
    Holder { pid: me.pid, since_ms: me.since }
}

impl Shared {
    pub(super) fn new(fs: Arc<dyn FileSystem>, me: Holder, max_event_bytes: usize) -> Self {
        let limits = ReadLimits::for_events(max_event_bytes);
        Self {
            publisher: Publisher::new(Arc::clone(&fs)),
            fs,
            me,
            limits,
            seen: read::Seen::new(max_event_bytes),
        }
    }
}

/// News from another thread. A request that it ends is answered by then.
pub(super) enum Message {
    /// A request is done, and with it nothing of a live session's file changed.
    Done(Ticket),
    /// A file that was away is back: made, mended or loaded. With it a request is done; whether more of it is durable
    /// than was.
    Back(Ticket, SessionId, Option<Box<SessionFile>>, bool),
    /// A request of a live session met a bug that its file was given up for.
    Poisoned(Ticket, SessionId),
    /// A sync has ended.
    Synced(SessionId, SyncDone),
    /// The file of a live session was looked at, and stored anew if need be; how, if it did not fail.
    Rescued(Ticket, SessionId, Option<Box<SessionFile>>, Option<Rescued>),
    /// A file was mended.
    Mended(Box<Mended>),
    /// Group commit: the window of a session is over.
    Window(SessionId),
}

/// Sessions on disk.
pub struct JsonlStorage {
    shared: Arc<Shared>,
    root: String,
    pub(super) window: Duration,
    pub(super) live: HashMap<SessionId, Live>,
    pub(super) runtime: Handle,
    pub(super) wake: Wake,
    pub(super) sender: Sender<Message>,
    messages: Receiver<Message>,
    pub(super) events: VecDeque<Event>,
    /// Messages that are still to come, those of windows aside.
    under_way: usize,
}

impl JsonlStorage {
    /// A store below a root directory, which is made with the first session.
    pub fn new(options: JsonlOptions, runtime: Handle, wake: Wake) -> Self {
        let os: Arc<dyn FileSystem> = Arc::new(OsFs::new(&options.root));
        let fs: Arc<dyn FileSystem> = match &options.fault_file {
            Some(file) => Arc::new(FaultFs::with_file(os, file.clone())),
            None => os,
        };
        Self::over(fs, options, runtime, wake)
    }

    /// The same over another file system: one that fails or remembers, for tests.
    pub fn over(fs: Arc<dyn FileSystem>, options: JsonlOptions, runtime: Handle, wake: Wake) -> Self {
        let (sender, messages) = channel();
        let shared = Shared::new(fs, holder(&options.me), options.max_event_bytes);
        Self {
            shared: Arc::new(shared),
            root: Path::display(&options.root).to_string(),
            window: options.sync_window,
            live: HashMap::new(),
            runtime,
            wake,
            sender,
            messages,
            events: VecDeque::new(),
            under_way: 0,
        }
    }

    /// Runs work on another thread; its message comes back, or `broken` when the work meets a bug: a file that it had
    /// is let go of, and whoever waits is told.
    pub(super) fn away(&mut self, broken: Message, work: impl FnOnce(&Shared) -> Message + Send + 'static) {
        let (shared, sender, wake) = (Arc::clone(&self.shared), self.sender.clone(), Arc::clone(&self.wake));
        self.under_way += 1;
        self.runtime.spawn_blocking(move || {
            let message = catch_unwind(AssertUnwindSafe(|| work(&shared))).unwrap_or_else(|_| {
                tracing::error!("a job of the store met a bug");
                broken
            });
            let _ = sender.send(message); // the owner is gone only when the process ends
            wake();
        });
    }

    pub(super) fn open(&mut self, id: &SessionId) -> Option<&mut Open> {
        match self.live.get_mut(id) {
            Some(Live::Open(open)) => Some(open),
            _ => None,
        }
    }

    pub(super) fn done(&mut self, ticket: Ticket) {
        self.events.push_back(Event::Done(ticket));
    }

    pub(super) fn moved(&mut self, session: &SessionId, durable: Option<Seq>) {
        self.events.extend(durable.map(|through| Event::Durable { session: session.clone(), through }));
    }

    /// Answers a request on another thread.
    fn answer<T: Send + 'static>(
        &mut self,
        ticket: Ticket,
        reply: Promise<T>,
        work: impl FnOnce(&Shared) -> Result<T, StorageError> + Send + 'static,
    ) {
        self.away(Message::Done(ticket), move |shared| {
            reply.keep(work(shared));
            Message::Done(ticket)
        });
    }

    /// Takes an open file away to another thread; that much is known of it meanwhile.
    pub(super) fn take(&mut self, id: &SessionId, meanwhile: Live) -> Option<Box<Open>> {
        let live = self.live.get_mut(id).filter(|live| matches!(live, Live::Open(_)))?;
        match std::mem::replace(live, meanwhile) {
            Live::Open(open) => Some(open),
            _ => None,
        }
    }

    fn is_poisoned(&self, id: &SessionId) -> bool {
        matches!(self.live.get(id), Some(Live::Poisoned))
    }

    /// Hears what threads and timers have told.
    fn listen(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.receive(message);
        }
    }

    fn receive(&mut self, message: Message) {
        // A window is nothing that an end waits for: what it would make durable, letting go of the session does.
        if !matches!(message, Message::Window(_)) {
            self.under_way -= 1;
        }
        match message {
            Message::Done(ticket) => self.done(ticket),
            Message::Back(ticket, id, file, moved) => {
                match file {
                    Some(file) => self.back(id, *file, moved),
                    None => drop(self.live.remove(&id)),
                }
                self.done(ticket);
            }
            Message::Poisoned(ticket, id) => {
                self.live.insert(id, Live::Poisoned);
                self.done(ticket);
            }
            Message::Synced(id, done) => self.synced(&id, done),
            Message::Mended(mended) => self.mended(*mended),
            Message::Rescued(ticket, id, file, how) => {
                let live = file.map_or(Live::Poisoned, |file| {
                    if how == Some(Rescued::Anew) {
                        self.moved(&id, file.durable().last());
                    }
                    Live::Open(Open::new(*file))
                });
                self.live.remove(&id);
                self.live.insert(if let Some(Rescued::Renamed(other, _)) = how { other } else { id }, live);
                self.done(ticket);
            }
            Message::Window(id) => {
                if let Some(open) = self.open(&id) {
                    open.windowed = false;
                    self.sync(&id);
                }
            }
        }
    }

    /// A file is here again, or for the first time; with `moved`, more of it is durable than was.
    fn back(&mut self, id: SessionId, file: SessionFile, moved: bool) {
        self.moved(&id, file.durable().last().filter(|_| moved));
        self.live.insert(id, Live::Open(Open::new(file)));
    }

    /// Removes a session, live here or not.
    pub(super) fn delete(&mut self, ticket: Ticket, id: SessionId, reply: Promise<()>) {
        if let Some(waits) = self.waits_to_close(&id) {
            *waits = Some(PendingClose::Delete(ticket, reply));
            return;
        }
        let open = self.take(&id, Live::Busy);
        let poisoned = open.is_some() || self.is_poisoned(&id); // should it not be deleted, it is live and has no file
        let broken = match poisoned {
            true => Message::Poisoned(ticket, id.clone()),
            false => Message::Back(ticket, id.clone(), None, false),
        };
        self.away(broken, move |shared| match keep::delete(shared, &id, open.map(|open| open.file)) {
            Ok(()) => {
                reply.keep(Ok(()));
                Message::Back(ticket, id, None, false)
            }
            Err((file, error)) => {
                reply.keep(Err(error));
                match file {
                    None if poisoned => Message::Poisoned(ticket, id),
                    file => Message::Back(ticket, id, file, false),
                }
            }
        });
    }

    /// A session is no longer live: its file is made durable and closed.
    pub(super) fn release(&mut self, ticket: Ticket, session: Box<Session>, reply: Promise<Released>) {
        let id = session.id().clone();
        if let Some(waits) = self.waits_to_close(&id) {
            *waits = Some(PendingClose::Release(ticket, session, reply));
            return;
        }
        let Some(open) = self.take(&id, Live::Busy) else {
            reply.keep(Ok(match self.live.remove(&id) {
                // Nobody knows what of it is durable.
                Some(Live::Poisoned) => Released::Short { session, error: StorageError::Bug },
                _ => Released::Whole, // it never had an event
            }));
            return self.done(ticket);
        };
        let back = move || Message::Back(ticket, id, None, false);
        self.away(back.clone()(), move |shared| {
            reply.keep(Ok(match keep::close(shared, open.file, &session) {
                Ok(()) => {
                    let large = session.history().log().footprint() >= heap::WORTH_A_TRIM;
                    drop(session);
                    if large {
                        heap::give_back();
                    }
                    Released::Whole
                }
                Err(error) => Released::Short { session, error },
            }));
            back()
        });
    }

    /// Stores a session anew whose file is not what it should be, under its own id or, if that is taken, under `other`.
    pub(super) fn rescue(
        &mut self,
        ticket: Ticket,
        publication: Box<Publication>,
        other: Option<SessionId>,
        reply: Promise<Rescued>,
    ) {
        let id = publication.header.id.clone();
        if let Some(waits) = self.waits_to_close(&id) {
            *waits = Some(PendingClose::Rescue(ticket, publication, other, reply));
            return;
        }
        let open = self.take(&id, Live::Busy);
        if open.is_none() && !self.live.contains_key(&id) && publication.log.is_empty() {
            reply.keep(Ok(Rescued::Sound)); // nothing is stored of it yet
            return self.done(ticket);
        }
        self.live.insert(id.clone(), Live::Busy);
        self.away(Message::Rescued(ticket, id.clone(), None, None), move |shared| {
            let (file, result) = keep::rescue(shared, open.map(|open| open.file), *publication, other);
            let how = result.as_ref().ok().cloned();
            reply.keep(result);
            Message::Rescued(ticket, id, file.map(Box::new), how)
        });
    }

    fn load(&mut self, ticket: Ticket, id: SessionId, rules: LoadRules, reply: Promise<Box<Loaded>>) {
        self.live.insert(id.clone(), Live::Busy);
        let broken = Message::Back(ticket, id.clone(), None, false);
        self.away(broken, move |shared| {
            let (file, loaded) = match read::load(shared, &id, &rules.vocabulary, &rules.limits) {
                Ok((loaded, file)) => (Some(Box::new(file)), Ok(Box::new(loaded))),
                Err(error) => (None, Err(error)),
            };
            reply.keep(loaded);
            Message::Back(ticket, id, file, false)
        });
    }

    fn create(
        &mut self,
        ticket: Ticket,
        id: SessionId,
        publication: Box<Publication>,
        reply: Promise<Created>,
    ) {
        if self.is_poisoned(&id) {
            reply.keep(Err(StorageError::Bug));
            return self.done(ticket);
        }
        let open = self.take(&id, Live::Busy);
        let parent = publication.parent.as_ref().and_then(|parent| {
            let parent = self.open(parent)?;
            parent.file.prefix(&publication.log, publication.inherited)
        });
        self.live.insert(id.clone(), Live::Busy);
        self.away(Message::Poisoned(ticket, id.clone()), move |shared| {
            let (file, result) = keep::publish(shared, open.map(|open| open.file), &publication, parent);
            let moved = result.is_ok();
            reply.keep(result);
            Message::Back(ticket, id, file.map(Box::new), moved)
        });
    }

    pub(super) fn flush(
        &mut self,
        ticket: Ticket,
        id: &SessionId,
        facts: Option<Box<ListFacts>>,
        reply: Promise<Option<Seq>>,
    ) {
        let answer = match self.live.get_mut(id) {
            Some(Live::Poisoned) => Err(StorageError::Bug),
            Some(Live::Open(open)) if open.file.is_deleted() => Err(write_failed(&FileError::Deleted)),
            Some(Live::Open(open)) => {
                let summed = open.summed;
                let summary = facts.and_then(|facts| Summary::of(&open.file, *facts));
                let summary = summary.filter(|summary| summary.size() != summed);
                open.summary = summary.or(open.summary.take());
                open.waiters.push((ticket, reply));
                return self.sync(id);
            }
            Some(Live::Mending(behind)) => return behind.flushes.push((ticket, facts, reply)),
            Some(Live::Busy) | None => Ok(None),
        };
        reply.keep(answer);
        self.done(ticket);
    }
}

impl Storage for JsonlStorage {
    fn info(&self) -> StoreInfo {
        StoreInfo { kind: "jsonl", location: Some(self.root.clone()), durable: true, shared: false }
    }

    fn start(&mut self, ticket: Ticket, request: Request) {
        match request {
            Request::Find { id, facts, reply } => {
                self.answer(ticket, reply, move |shared| read::find(shared, &id, facts));
            }
            Request::List { query, reply } => {
                self.answer(ticket, reply, move |shared| read::list(shared, query));
            }
            Request::LookUp { mut place, reply } => self.answer(ticket, reply, move |_| {
                place.look_up();
                Ok(place)
            }),
            Request::Inspect { id, rules: LoadRules { vocabulary, limits }, reply } => {
                self.answer(ticket, reply, move |shared| read::inspect(shared, &id, &vocabulary, &limits));
            }
            Request::Load { id, rules, reply } => self.load(ticket, id, rules, reply),
            Request::Create { id, publication, reply } => self.create(ticket, id, publication, reply),
            Request::Sync { id, facts, reply } => self.flush(ticket, &id, facts, reply),
            Request::Release { session, reply } => self.release(ticket, session, reply),
            Request::Rescue { publication, other, reply } => self.rescue(ticket, publication, other, reply),
            Request::Delete { id, reply } => self.delete(ticket, id, reply),
        }
    }

    fn poll(&mut self) -> Option<Event> {
        self.listen();
        self.next_event()
    }

    fn discard(&mut self, id: &SessionId) {
        self.live.remove(id);
    }

    fn append(&mut self, lease: Lease<'_>, log: &mut Outgoing<'_>, from: Offset, _: Offset) -> Append {
        self.append_to(lease, log, from)
    }

    fn check(&self, id: &SessionId) -> Result<(), StorageError> {
        match self.live.get(id) {
            Some(Live::Open(open)) => open.file.check().map_err(|error| write_failed(&error)),
            Some(Live::Poisoned) => Err(StorageError::Bug),
            Some(Live::Busy | Live::Mending(_)) | None => Ok(()), // whoever names it waits for it, or it has no event
        }
    }

    fn has_events(&mut self) -> bool {
        self.listen();
        !self.events.is_empty()
    }

    fn is_quiet(&self) -> bool {
        self.under_way == 0 && self.events.is_empty()
    }

    fn durable(&self, id: &SessionId) -> Option<Seq> {
        match self.live.get(id) {
            Some(Live::Open(open)) => open.file.durable().last(),
            _ => None,
        }
    }

    fn warnings(&self, id: &SessionId) -> Vec<String> {
        match self.live.get(id) {
            Some(Live::Open(open)) => open.file.notes().to_vec(),
            Some(Live::Poisoned) => {
                vec!["a bug has let go of the session's log: close the session and load it".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}
