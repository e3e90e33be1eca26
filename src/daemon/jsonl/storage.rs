//! The storage's owner side: open files, jobs on other threads, and what comes back of them.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::runtime::Handle;

use super::{keep, read};

use crate::disk::fault::FaultFs;
use crate::disk::fs::{FileSystem, errno_name};
use crate::disk::lock::Holder;
use crate::disk::os::OsFs;
use crate::disk::publish::Publisher;
use crate::disk::session_file::{FileError, SessionFile};
use crate::disk::write::{SyncDone, SyncError, SyncJob, WriteError};
use crate::log::{Offset, Seq, SessionId};
use crate::rpc::storage::{Job, JobResult, Storage, StorageError, StoreDescription, Ticket, Written};
use crate::session::Session;
use crate::stdio::Waker;

/// How a store on disk works.
#[derive(Clone, Debug)]
pub struct JsonlOptions {
    /// The root directory.
    pub root: std::path::PathBuf,
    /// How long a written event waits for others before all are made durable together.
    pub sync_window: Duration,
    /// Who we are, for other processes that find a session locked.
    pub me: Holder,
    /// A file with faults to meet, for tests.
    pub fault_file: Option<std::path::PathBuf>,
}

/// What the threads share.
pub(super) struct Shared {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) publisher: Publisher,
    pub(super) me: Holder,
    pub(super) seen: read::Seen,
}

/// News from another thread.
enum Message {
    /// A job is done, and with it nothing of a live session's file changed.
    Done(Ticket, JobResult),
    /// A file that was away is back: published, mended or loaded. With it a job is done.
    Back(Ticket, SessionId, Option<Box<SessionFile>>, JobResult),
    /// A sync has ended.
    Synced(SessionId, SyncDone),
    /// Group commit: the window of a session is over.
    Window(SessionId),
}

/// The file of a live session.
enum Live {
    /// On another thread.
    Away,
    /// Here.
    Here(Box<Here>),
}

struct Here {
    file: SessionFile,
    /// Syncs that are waited for: until so many events are durable.
    waiters: Vec<(Ticket, Offset)>,
    /// A group commit is due.
    windowed: bool,
    /// What the file goes for once its sync has ended and nobody waits for another.
    leaving: Option<Leaving>,
}

enum Leaving {
    /// The session is no longer live.
    Release(Ticket, Box<Session>),
    /// It is to be removed.
    Delete(Ticket),
}

/// Sessions on disk.
pub struct JsonlStorage {
    shared: Arc<Shared>,
    root: String,
    window: Duration,
    live: HashMap<SessionId, Live>,
    runtime: Handle,
    waker: Waker,
    sender: Sender<Message>,
    messages: Receiver<Message>,
    finished: VecDeque<(Ticket, JobResult)>,
    moved: VecDeque<(SessionId, Seq)>,
    /// Messages that are still to come, those of windows aside.
    under_way: usize,
}

impl JsonlStorage {
    /// A store below a root directory, which is made with the first session.
    pub fn new(options: JsonlOptions, runtime: Handle, waker: Waker) -> Self {
        let os: Arc<dyn FileSystem> = Arc::new(OsFs::new(&options.root));
        let fs: Arc<dyn FileSystem> = match &options.fault_file {
            Some(file) => Arc::new(FaultFs::with_file(os, file.clone())),
            None => os,
        };
        Self::over(fs, options, runtime, waker)
    }

    /// The same over another file system: one that fails or remembers, for tests.
    pub fn over(fs: Arc<dyn FileSystem>, options: JsonlOptions, runtime: Handle, waker: Waker) -> Self {
        let (sender, messages) = channel();
        let shared = Shared {
            publisher: Publisher::new(Arc::clone(&fs)),
            fs,
            me: options.me,
            seen: read::Seen::default(),
        };
        Self {
            shared: Arc::new(shared),
            root: Path::display(&options.root).to_string(),
            window: options.sync_window,
            live: HashMap::new(),
            runtime,
            waker,
            sender,
            messages,
            finished: VecDeque::new(),
            moved: VecDeque::new(),
            under_way: 0,
        }
    }

    /// Runs work on another thread; its message comes back, or `broken` when the work meets a bug: a file that it had
    /// is let go of, and whoever waits is told.
    fn away(&mut self, broken: Message, work: impl FnOnce(&Shared) -> Message + Send + 'static) {
        let (shared, sender, waker) = (Arc::clone(&self.shared), self.sender.clone(), self.waker.clone());
        self.under_way += 1;
        self.runtime.spawn_blocking(move || {
            let message = catch_unwind(AssertUnwindSafe(|| work(&shared))).unwrap_or_else(|_| {
                tracing::error!("a job of the store met a bug");
                broken
            });
            let _ = sender.send(message); // the owner is gone only when the process ends
            waker.wake();
        });
    }

    fn here(&mut self, id: &SessionId) -> Option<&mut Here> {
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
            Message::Synced(id, done) => self.synced(&id, done),
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
        let here = Here { file, waiters: Vec::new(), windowed: false, leaving: None };
        self.live.insert(id, Live::Here(Box::new(here)));
    }

    /// Begins to make a session durable, unless that is under way.
    fn sync(&mut self, id: &SessionId) {
        let Some(here) = self.here(id) else { return };
        let Some((job, tail)) = here.file.start_sync() else { return };
        let (id, lost) = (id.clone(), Message::Synced(id.clone(), SyncJob::lost()));
        self.away(lost, move |_| Message::Synced(id, job.run(&mut tail.as_slice())));
    }

    fn synced(&mut self, id: &SessionId, done: SyncDone) {
        let Some(here) = self.here(id) else { return };
        let result = here.file.finish_sync(done);
        let durable = here.file.durable();
        let mut told = Vec::new();
        match &result {
            Ok(_) => here.waiters.retain(|(ticket, until)| {
                let done = *until <= durable;
                if done {
                    told.push((*ticket, JobResult::Kept(Ok(durable.last()))));
                }
                !done
            }),
            Err(error) => {
                let failed = sync_failed(error);
                let waiters = std::mem::take(&mut here.waiters);
                told.extend(
                    waiters.into_iter().map(|(ticket, _)| (ticket, JobResult::Kept(Err(failed.clone())))),
                );
            }
        }
        let more = !here.waiters.is_empty();
        // Whoever waits is answered before the file goes.
        let leaving = if more { None } else { here.leaving.take() };
        if let (Ok(_), Some(seq)) = (&result, durable.last()) {
            self.moved.push_back((id.clone(), seq));
        }
        self.finished.extend(told);
        match leaving {
            Some(Leaving::Release(ticket, session)) => self.release(ticket, session),
            Some(Leaving::Delete(ticket)) => self.delete(ticket, id.clone()),
            None if more => self.sync(id),
            None => {} // after a failure the next write, flush or close tries again
        }
    }

    /// Removes a session, live here or not.
    fn delete(&mut self, ticket: Ticket, id: SessionId) {
        if let Some(here) = self.here(&id).filter(|here| here.file.is_syncing()) {
            here.leaving = Some(Leaving::Delete(ticket));
            return;
        }
        let here = self.take(&id);
        let broken = Message::Back(ticket, id.clone(), None, JobResult::Deleted(Err(StorageError::Bug)));
        self.away(broken, move |shared| match keep::delete(shared, &id, here.map(|here| here.file)) {
            Ok(()) => Message::Back(ticket, id, None, JobResult::Deleted(Ok(()))),
            Err((file, error)) => Message::Back(ticket, id, file, JobResult::Deleted(Err(error))),
        });
    }

    /// Lets written events wait for others of the session before they are made durable together.
    fn sync_later(&mut self, id: &SessionId) {
        if self.window.is_zero() {
            return self.sync(id);
        }
        let Some(here) = self.here(id).filter(|here| !here.windowed) else { return };
        here.windowed = true;
        let (id, window) = (id.clone(), self.window);
        let (sender, waker) = (self.sender.clone(), self.waker.clone());
        self.runtime.spawn(async move {
            tokio::time::sleep(window).await;
            let _ = sender.send(Message::Window(id));
            waker.wake();
        });
    }

    /// A session is no longer live: its file is made durable and let go.
    fn release(&mut self, ticket: Ticket, session: Box<Session>) {
        let id = session.id().clone();
        match self.here(&id) {
            None => return self.finish(ticket, JobResult::Kept(Ok(None))), // it never had an event
            Some(here) if here.file.is_syncing() => {
                here.leaving = Some(Leaving::Release(ticket, session));
                return;
            }
            Some(_) => {}
        }
        let Some(here) = self.take(&id) else { return };
        let broken = Message::Back(ticket, id.clone(), None, JobResult::Kept(Err(StorageError::Bug)));
        self.away(broken, move |shared| {
            let result = keep::let_go(shared, here.file, &session);
            Message::Back(ticket, id, None, JobResult::Kept(result))
        });
    }
}

impl Storage for JsonlStorage {
    fn describe(&self) -> StoreDescription {
        StoreDescription { kind: "jsonl", root: Some(self.root.clone()) }
    }

    fn start(&mut self, ticket: Ticket, job: Job) {
        match job {
            Job::Find(id, facts) => {
                let broken = Message::Done(ticket, JobResult::Found(Err(StorageError::Bug)));
                self.away(broken, move |shared| {
                    Message::Done(ticket, JobResult::Found(read::find(shared, &id, facts)))
                });
            }
            Job::List(vocabulary) => {
                let broken = Message::Done(ticket, JobResult::Listed(Err(StorageError::Bug)));
                self.away(broken, move |shared| {
                    Message::Done(ticket, JobResult::Listed(read::list(shared, &vocabulary)))
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
                let broken = Message::Back(ticket, id.clone(), None, JobResult::Kept(Err(StorageError::Bug)));
                self.away(broken, move |shared| {
                    let (file, result) =
                        keep::publish(shared, here.map(|here| here.file), &publication, parent);
                    Message::Back(ticket, id, file.map(Box::new), JobResult::Kept(result))
                });
            }
            Job::Sync(id) => match self.here(&id) {
                None => self.finish(ticket, JobResult::Kept(Ok(None))),
                Some(here) => {
                    here.waiters.push((ticket, here.file.written()));
                    if here.file.durable() >= here.file.written() {
                        let durable = here.file.durable().last();
                        here.waiters.pop();
                        self.finish(ticket, JobResult::Kept(Ok(durable)));
                    } else {
                        self.sync(&id);
                    }
                }
            },
            Job::Release(session) => self.release(ticket, session),
            Job::Delete(id) => self.delete(ticket, id),
            Job::Abandon(id) => drop(self.live.remove(&id)),
        }
    }

    fn finished(&mut self) -> Option<(Ticket, JobResult)> {
        while let Ok(message) = self.messages.try_recv() {
            self.receive(message);
        }
        self.finished.pop_front()
    }

    fn write(&mut self, session: &Session) -> Written {
        let id = session.id();
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

    fn durable_moved(&mut self) -> Option<(SessionId, Seq)> {
        self.moved.pop_front()
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
            _ => Vec::new(),
        }
    }
}

/// An I/O error as the protocol tells it.
pub(super) fn failed(doing: &str, error: &std::io::Error, committed: bool) -> StorageError {
    let errno = errno_name(error).unwrap_or("EIO").to_owned();
    StorageError::Failed { errno, doing: doing.to_owned(), committed, reason: None }
}

fn changed_outside(doing: &str, committed: bool) -> StorageError {
    StorageError::Failed {
        errno: "ESTALE".to_owned(),
        doing: doing.to_owned(),
        committed,
        reason: Some("changed_outside"),
    }
}

/// A failed write: nothing of it was kept, unless only its sync failed.
pub(super) fn write_failed(error: &FileError) -> StorageError {
    const DOING: &str = "writing the session's log";
    match error {
        FileError::Write(WriteError::Failed(error) | WriteError::Examine(error)) => {
            failed(DOING, error, false)
        }
        FileError::Write(WriteError::NotRolledBack { write, .. }) => failed(DOING, write, false),
        FileError::Write(WriteError::ChangedOutside { .. } | WriteError::Removed) => {
            changed_outside(DOING, false)
        }
        FileError::Save(error) => failed("saving the log's torn end", error, false),
        FileError::Write(WriteError::Syncing) | FileError::Frame(_) => {
            failed(DOING, &std::io::Error::other("sync"), false)
        }
        FileError::Sync(error) => not_synced(error, false),
        FileError::Unsynced(error) => sync_failed(error),
    }
}

/// A failed sync: the events are kept, though not durable.
fn sync_failed(error: &SyncError) -> StorageError {
    not_synced(error, true)
}

fn not_synced(error: &SyncError, committed: bool) -> StorageError {
    const DOING: &str = "making the session's log durable";
    match error {
        SyncError::Failed(error) | SyncError::Rewrite(error) => failed(DOING, error, committed),
        SyncError::ChangedOutside { .. } => changed_outside(DOING, committed),
        SyncError::TailTooShort { .. } | SyncError::Lost => {
            failed(DOING, &std::io::Error::other("lost"), committed)
        }
    }
}
