//! The storage's owner side: open files, jobs on other threads, and what comes back of them.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::runtime::Handle;

use super::failures::write_failed;
use super::heap;
use super::keep::Summary;
use super::live::{Here, Leaving, Live};
use super::{keep, read};
use crate::disk::fs::FileSystem;
use crate::disk::fs::fault::FaultFs;
use crate::disk::fs::os::OsFs;
use crate::disk::live::lock::Holder;
use crate::disk::live::publish::Publisher;
use crate::disk::live::session_file::{FileError, SessionFile};
use crate::disk::live::write::SyncDone;
use crate::disk::read::reader::ReadLimits;
use crate::log::{Seq, SessionId};
use crate::session::Session;
use crate::store::StorageError;
use crate::store::storage::Wake;
use crate::store::storage::{
    DaemonId, Job, JobResult, Publication, Rescued, Storage, StoreInfo, Ticket, Unreleased, Written,
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

/// News from another thread.
pub(super) enum Message {
    /// A job is done, and with it nothing of a live session's file changed.
    Done(Ticket, JobResult),
    /// A file that was away is back: published, mended or loaded. With it a job is done.
    Back(Ticket, SessionId, Option<Box<SessionFile>>, JobResult),
    /// A job of a live session met a bug that its file was let go of for.
    Lost(Ticket, SessionId, JobResult),
    /// A sync has ended.
    Synced(SessionId, SyncDone),
    /// The file of a live session was looked at, and stored anew if need be.
    Rescued(Ticket, SessionId, Option<Box<SessionFile>>, Result<Rescued, StorageError>),
    /// Group commit: the window of a session is over.
    Window(SessionId),
}

/// Sessions on disk.
pub struct JsonlStorage {
    shared: Arc<Shared>,
    root: String,
    pub(super) window: Duration,
    live: HashMap<SessionId, Live>,
    pub(super) runtime: Handle,
    pub(super) wake: Wake,
    pub(super) sender: Sender<Message>,
    messages: Receiver<Message>,
    pub(super) finished: VecDeque<(Ticket, JobResult)>,
    pub(super) moved: VecDeque<(SessionId, Seq)>,
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
            finished: VecDeque::new(),
            moved: VecDeque::new(),
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

    pub(super) fn here(&mut self, id: &SessionId) -> Option<&mut Here> {
        match self.live.get_mut(id) {
            Some(Live::Here(here)) => Some(here),
            _ => None,
        }
    }

    fn finish(&mut self, ticket: Ticket, result: JobResult) {
        self.finished.push_back((ticket, result));
    }

    /// Takes a file that is here away to another thread.
    fn take(&mut self, id: &SessionId) -> Option<Box<Here>> {
        let live = self.live.get_mut(id)?;
        match std::mem::replace(live, Live::Away) {
            Live::Here(here) => Some(here),
            Live::Away => None,
            Live::Lost => {
                *live = Live::Lost;
                None
            }
        }
    }

    fn is_lost(&self, id: &SessionId) -> bool {
        matches!(self.live.get(id), Some(Live::Lost))
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
            Message::Done(ticket, result) => self.finish(ticket, result),
            Message::Back(ticket, id, file, result) => {
                match file {
                    Some(file) => self.back(id, *file, matches!(result, JobResult::Kept(Ok(_)))),
                    None => drop(self.live.remove(&id)),
                }
                self.finish(ticket, result);
            }
            Message::Lost(ticket, id, result) => {
                self.live.insert(id, Live::Lost);
                self.finish(ticket, result);
            }
            Message::Synced(id, done) => self.synced(&id, done),
            Message::Rescued(ticket, id, file, result) => {
                let live = file.map_or(Live::Lost, |file| {
                    if let (Ok(Rescued::Anew), Some(seq)) = (&result, file.durable().last()) {
                        self.moved.push_back((id.clone(), seq));
                    }
                    Live::Here(Here::new(*file))
                });
                self.live.remove(&id);
                self.live
                    .insert(if let Ok(Rescued::Renamed(other)) = &result { other.clone() } else { id }, live);
                self.finish(ticket, JobResult::Rescued(result));
            }
            Message::Window(id) => {
                if let Some(here) = self.here(&id) {
                    here.windowed = false;
                    self.sync(&id);
                }
            }
        }
    }

    /// A file is here again, or for the first time; with `moved`, more of it is durable than was.
    fn back(&mut self, id: SessionId, file: SessionFile, moved: bool) {
        if let Some(seq) = file.durable().last().filter(|_| moved) {
            self.moved.push_back((id.clone(), seq));
        }
        self.live.insert(id, Live::Here(Here::new(file)));
    }

    /// Removes a session, live here or not.
    pub(super) fn delete(&mut self, ticket: Ticket, id: SessionId) {
        if let Some(here) = self.here(&id).filter(|here| here.file.is_syncing()) {
            here.leaving = Some(Leaving::Delete(ticket));
            return;
        }
        let here = self.take(&id);
        let lost = here.is_some() || self.is_lost(&id); // should it not be deleted, it is live and has no file
        let bug = JobResult::Deleted(Err(StorageError::Bug));
        let broken = match lost {
            true => Message::Lost(ticket, id.clone(), bug),
            false => Message::Back(ticket, id.clone(), None, bug),
        };
        self.away(broken, move |shared| match keep::delete(shared, &id, here.map(|here| here.file)) {
            Ok(()) => Message::Back(ticket, id, None, JobResult::Deleted(Ok(()))),
            Err((None, error)) if lost => Message::Lost(ticket, id, JobResult::Deleted(Err(error))),
            Err((file, error)) => Message::Back(ticket, id, file, JobResult::Deleted(Err(error))),
        });
    }

    /// A session is no longer live: its file is made durable and let go.
    pub(super) fn release(&mut self, ticket: Ticket, session: Box<Session>) {
        let id = session.id().clone();
        match self.here(&id) {
            None => {
                let released = match self.live.remove(&id) {
                    // Nobody knows what of it is durable.
                    Some(Live::Lost) => Err(Unreleased { session: Some(session), error: StorageError::Bug }),
                    _ => Ok(()), // it never had an event
                };
                return self.finish(ticket, JobResult::Released(released.map_err(Box::new)));
            }
            Some(here) if here.file.is_syncing() => {
                here.leaving = Some(Leaving::Release(ticket, session));
                return;
            }
            Some(_) => {}
        }
        let Some(here) = self.take(&id) else { return };
        let bug = Unreleased { session: None, error: StorageError::Bug };
        let broken = Message::Back(ticket, id.clone(), None, JobResult::Released(Err(Box::new(bug))));
        self.away(broken, move |shared| {
            let released = match keep::let_go(shared, here.file, &session) {
                Ok(()) => {
                    let large = session.history().log().footprint() >= heap::WORTH_A_TRIM;
                    drop(session);
                    if large {
                        heap::give_back();
                    }
                    Ok(())
                }
                Err(error) => Err(Box::new(Unreleased { session: Some(session), error })),
            };
            Message::Back(ticket, id, None, JobResult::Released(released))
        });
    }

    /// Stores a session anew whose file is not what it should be, under its own id or, if that is taken, under `other`.
    pub(super) fn rescue(&mut self, ticket: Ticket, publication: Box<Publication>, other: Option<SessionId>) {
        let id = publication.header.id.clone();
        if let Some(here) = self.here(&id).filter(|here| here.file.is_syncing()) {
            here.leaving = Some(Leaving::Rescue(ticket, publication, other));
            return;
        }
        let here = self.take(&id);
        if here.is_none() && !self.live.contains_key(&id) && publication.log.is_empty() {
            return self.finish(ticket, JobResult::Rescued(Ok(Rescued::Sound))); // nothing is stored of it yet
        }
        self.live.insert(id.clone(), Live::Away);
        let broken = Message::Rescued(ticket, id.clone(), None, Err(StorageError::Bug));
        self.away(broken, move |shared| {
            let (file, result) = keep::rescue(shared, here.map(|here| here.file), *publication, other);
            Message::Rescued(ticket, id, file.map(Box::new), result)
        });
    }
}

impl Storage for JsonlStorage {
    fn info(&self) -> StoreInfo {
        StoreInfo { kind: "jsonl", location: Some(self.root.clone()), durable: true, shared: false }
    }

    fn start(&mut self, ticket: Ticket, job: Job) {
        match job {
            Job::Find(id, facts) => {
                let broken = Message::Done(ticket, JobResult::Found(Err(StorageError::Bug)));
                self.away(broken, move |shared| {
                    Message::Done(ticket, JobResult::Found(read::find(shared, &id, facts)))
                });
            }
            Job::List { vocabulary, place, page } => {
                let broken = Message::Done(ticket, JobResult::Listed(Err(StorageError::Bug)));
                self.away(broken, move |shared| {
                    let listed = read::list(shared, &vocabulary, place, &page);
                    Message::Done(ticket, JobResult::Listed(listed))
                });
            }
            Job::LookUp(mut place) => {
                let broken = Message::Done(ticket, JobResult::Listed(Err(StorageError::Bug)));
                self.away(broken, move |_| {
                    place.look_up();
                    Message::Done(ticket, JobResult::LookedUp(place))
                });
            }
            Job::Inspect { id, vocabulary, limits } => {
                let broken = Message::Done(ticket, JobResult::Inspected(Err(StorageError::Bug)));
                self.away(broken, move |shared| {
                    let inspected = read::inspect(shared, &id, &vocabulary, &limits);
                    Message::Done(ticket, JobResult::Inspected(inspected))
                });
            }
            Job::Load { id, vocabulary, limits } => {
                self.live.insert(id.clone(), Live::Away);
                let broken =
                    Message::Back(ticket, id.clone(), None, JobResult::Loaded(Err(StorageError::Bug)));
                self.away(broken, move |shared| match read::load(shared, &id, &vocabulary, &limits) {
                    Ok((loaded, file)) => Message::Back(
                        ticket,
                        id,
                        Some(Box::new(file)),
                        JobResult::Loaded(Ok(Box::new(loaded))),
                    ),
                    Err(error) => Message::Back(ticket, id, None, JobResult::Loaded(Err(error))),
                });
            }
            Job::Publish(id, publication) => {
                let here = self.take(&id);
                let parent = publication.parent.as_ref().and_then(|parent| {
                    let parent = self.here(parent)?;
                    parent.file.prefix(&publication.log, publication.inherited)
                });
                self.live.insert(id.clone(), Live::Away);
                let broken = Message::Lost(ticket, id.clone(), JobResult::Kept(Err(StorageError::Bug)));
                self.away(broken, move |shared| {
                    let (file, result) =
                        keep::publish(shared, here.map(|here| here.file), &publication, parent);
                    Message::Back(ticket, id, file.map(Box::new), JobResult::Kept(result))
                });
            }
            Job::Sync(id, _) if self.is_lost(&id) => {
                self.finish(ticket, JobResult::Kept(Err(StorageError::Bug)));
            }
            Job::Sync(id, facts) => match self.here(&id) {
                None => self.finish(ticket, JobResult::Kept(Ok(None))),
                Some(here) if here.file.is_deleted() => {
                    let lost = write_failed(&FileError::Deleted);
                    self.finish(ticket, JobResult::Kept(Err(lost)));
                }
                Some(here) => {
                    let summed = here.summed;
                    let summary = facts.and_then(|facts| Summary::of(&here.file, *facts));
                    let summary = summary.filter(|summary| summary.size() != summed);
                    here.summary = summary.or(here.summary.take());
                    here.waiters.push(ticket);
                    self.sync(&id);
                }
            },
            Job::Release(session) => self.release(ticket, session),
            Job::Rescue(publication, other) => self.rescue(ticket, publication, other),
            Job::Delete(id) => self.delete(ticket, id),
            Job::Abandon(id) => drop(self.live.remove(&id)),
        }
    }

    fn finished(&mut self) -> Option<(Ticket, JobResult)> {
        self.listen();
        self.finished.pop_front()
    }

    fn write(&mut self, session: &Session) -> Written {
        let id = session.id();
        if self.is_lost(id) {
            return Written::Failed(StorageError::Bug);
        }
        let Some(here) = self.here(id).filter(|here| !here.file.needs_mending()) else {
            return Written::Publish;
        };
        match here.file.write(session.history().log()) {
            Ok(()) => {
                let id = id.clone();
                self.sync_later(&id);
                Written::Done
            }
            Err(error) => Written::Failed(write_failed(&error)),
        }
    }

    fn check(&self, id: &SessionId) -> Result<(), StorageError> {
        match self.live.get(id) {
            Some(Live::Here(here)) => here.file.check().map_err(|error| write_failed(&error)),
            Some(Live::Lost) => Err(StorageError::Bug),
            Some(Live::Away) | None => Ok(()), // whoever names it waits for it, or it has no event
        }
    }

    fn durable_moved(&mut self) -> Option<(SessionId, Seq)> {
        self.moved.pop_front()
    }

    fn has_news(&mut self) -> bool {
        self.listen();
        !(self.finished.is_empty() && self.moved.is_empty())
    }

    fn is_quiet(&self) -> bool {
        self.under_way == 0 && self.finished.is_empty() && self.moved.is_empty()
    }

    fn durable(&self, id: &SessionId) -> Option<Seq> {
        match self.live.get(id) {
            Some(Live::Here(here)) => here.file.durable().last(),
            _ => None,
        }
    }

    fn warnings(&self, id: &SessionId) -> Vec<String> {
        match self.live.get(id) {
            Some(Live::Here(here)) => here.file.notes().to_vec(),
            Some(Live::Lost) => {
                vec!["a bug has let go of the session's log: close the session and load it".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}
