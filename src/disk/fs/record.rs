//! A file system in memory that remembers every change, so that a test can pull the plug at each of them.
//!
//! What power loss may do is modelled in [`crash`](crate::disk::fs::crash); here is only the file system itself.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::crash::{Change, CrashStates, Ino, ROOT, Tree};
use super::os_file::copy_through_memory;
use super::{DirEntry, File, FileKind, FileSystem, HeldLock, Metadata, ReadAt, check_relative, errno_error};

#[derive(Default)]
struct State {
    tree: Tree,
    next: Ino,
    base: Tree,
    log: Vec<Change>,
    /// Which handle holds the lock of a file.
    locks: HashMap<Ino, u64>,
    handles: u64,
    failing_syncs: u32,
}

impl State {
    fn change(&mut self, change: Change) {
        self.tree.apply(&change);
        self.log.push(change);
    }

    fn dir(&self, path: &Path) -> io::Result<Ino> {
        check_relative(path)?;
        path.iter().try_fold(ROOT, |dir, name| {
            let found = self.tree.dirs.get(&dir).and_then(|names| names.get(name));
            let ino = *found.ok_or_else(|| errno_error(Errno::NOENT))?;
            self.tree.dirs.contains_key(&ino).then_some(ino).ok_or_else(|| errno_error(Errno::NOTDIR))
        })
    }

    /// The directory and name of a path, and what is there now.
    fn name(&self, path: &Path) -> io::Result<(Ino, OsString, Option<Ino>)> {
        check_relative(path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(errno_error(Errno::INVAL));
        };
        let dir = self.dir(parent)?;
        let target = self.tree.dirs.get(&dir).and_then(|names| names.get(name)).copied();
        Ok((dir, name.to_owned(), target))
    }

    fn free_name(&self, path: &Path) -> io::Result<(Ino, OsString)> {
        match self.name(path)? {
            (dir, name, None) => Ok((dir, name)),
            _ => Err(errno_error(Errno::EXIST)),
        }
    }

    fn taken_name(&self, path: &Path) -> io::Result<(Ino, OsString, Ino)> {
        let (dir, name, target) = self.name(path)?;
        target.map(|ino| (dir, name, ino)).ok_or_else(|| errno_error(Errno::NOENT))
    }

    fn make(&mut self) -> Ino {
        self.next += 1;
        self.next
    }

    fn metadata(&self, ino: Ino) -> Metadata {
        let file = self.tree.files.get(&ino);
        let (kind, mode) = if file.is_some() { (FileKind::File, 0o600) } else { (FileKind::Dir, 0o700) };
        let len = file.map_or(0, |bytes| bytes.len() as u64);
        Metadata { kind, len, dev: 0, ino, links: self.tree.links(ino), mode, mtime_ns: 0, ctime_ns: 0 }
    }
}

/// A [`FileSystem`] in memory with a log of its changes.
#[derive(Clone)]
pub struct RecordingFs {
    state: Arc<Mutex<State>>,
}

impl Default for RecordingFs {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordingFs {
    /// An empty root.
    #[must_use]
    pub fn new() -> Self {
        let dirs = BTreeMap::from([(ROOT, BTreeMap::new())]);
        Self::on_disk(Tree { files: BTreeMap::new(), dirs })
    }

    /// What was on the disk when the power came back.
    pub(crate) fn on_disk(tree: Tree) -> Self {
        let next = tree.files.keys().chain(tree.dirs.keys()).max().copied().unwrap_or(ROOT);
        let state = State { base: tree.clone(), tree, next, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many changes and syncs have happened: the moment "now" for [`CrashState::changes`](crate::disk::fs::crash::CrashState).
    #[must_use]
    pub fn changes(&self) -> usize {
        self.state().log.len()
    }

    /// Every state in which power loss at any moment up to now may leave the disk: all of them where that is at most
    /// `bound` per moment, else both extremes and a sample drawn from `seed`.
    #[must_use]
    pub fn crash_states(&self, seed: u64, bound: usize) -> CrashStates {
        let state = self.state();
        let dirs = state.tree.dirs.keys().copied().collect();
        CrashStates::new(state.base.clone(), state.log.clone(), dirs, seed, bound)
    }

    /// Lets the next `count` calls of `sync_data` fail with `EIO`, and no later sync make up for what they lost: only
    /// what is written after them becomes durable.
    pub fn fail_syncs(&self, count: u32) {
        self.state().failing_syncs = count;
    }

    /// A file's content as programs see it now.
    #[must_use]
    pub fn content(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.state();
        let (_, _, ino) = state.taken_name(path.as_ref()).ok()?;
        state.tree.files.get(&ino).cloned()
    }

    /// The paths of all files, in byte order.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        let state = self.state();
        let mut found = Vec::new();
        let mut todo = vec![(ROOT, PathBuf::new())];
        while let Some((dir, path)) = todo.pop() {
            for (name, ino) in state.tree.dirs.get(&dir).into_iter().flatten() {
                if state.tree.dirs.contains_key(ino) {
                    todo.push((*ino, path.join(name)));
                } else {
                    found.push(path.join(name));
                }
            }
        }
        found.sort();
        found
    }

    fn handle(&self, state: &mut State, ino: Ino, writable: bool) -> Arc<dyn File> {
        state.handles += 1;
        Arc::new(MemFile { fs: self.clone(), ino, handle: state.handles, writable })
    }

    fn open(&self, path: &Path, writable: bool) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let (_, _, ino) = state.taken_name(path)?;
        if !state.tree.files.contains_key(&ino) {
            return Err(errno_error(Errno::INVAL));
        }
        Ok(self.handle(&mut state, ino, writable))
    }
}

impl FileSystem for RecordingFs {
    fn held_locks(&self) -> Option<Vec<HeldLock>> {
        let held = |ino: &u64| HeldLock { pid: 0, device: (0, 0), ino: *ino };
        Some(self.state().locks.keys().map(held).collect())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if path.as_os_str().is_empty() {
            return Err(errno_error(Errno::EXIST));
        }
        let (dir, name) = state.free_name(path)?;
        let ino = state.make();
        state.tree.dirs.insert(ino, BTreeMap::new());
        state.change(Change::Names(vec![(dir, name, Some(ino))]));
        Ok(())
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let (dir, name) = state.free_name(path)?;
        let ino = state.make();
        state.tree.files.insert(ino, Vec::new());
        state.change(Change::Names(vec![(dir, name, Some(ino))]));
        Ok(self.handle(&mut state, ino, true))
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path, true)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path, false)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let (_, _, ino) = state.taken_name(from)?;
        let (dir, name) = state.free_name(to)?;
        state.change(Change::Names(vec![(dir, name, Some(ino))]));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let (from_dir, from_name, ino) = state.taken_name(from)?;
        let (to_dir, to_name, old) = state.name(to)?;
        if old.is_some_and(|old| state.tree.dirs.contains_key(&old)) {
            return Err(errno_error(Errno::EXIST));
        }
        state.change(Change::Names(vec![(from_dir, from_name, None), (to_dir, to_name, Some(ino))]));
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let (dir, name, ino) = state.taken_name(path)?;
        if state.tree.dirs.contains_key(&ino) {
            return Err(errno_error(Errno::ISDIR));
        }
        state.change(Change::Names(vec![(dir, name, None)]));
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let (dir, name, ino) = state.taken_name(path)?;
        match state.tree.dirs.get(&ino) {
            None => Err(errno_error(Errno::NOTDIR)),
            Some(names) if !names.is_empty() => Err(errno_error(Errno::NOTEMPTY)),
            Some(_) => {
                state.change(Change::Names(vec![(dir, name, None)]));
                Ok(())
            }
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let dir = state.dir(path)?;
        state.change(Change::SyncDir(dir));
        Ok(())
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.state();
        let dir = state.dir(path)?;
        let names = state.tree.dirs.get(&dir).into_iter().flatten();
        Ok(names
            .map(|(name, ino)| DirEntry { name: name.clone(), kind: state.metadata(*ino).kind })
            .collect())
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let state = self.state();
        let ino = if path.as_os_str().is_empty() { ROOT } else { state.taken_name(path)?.2 };
        Ok(state.metadata(ino))
    }
}

struct MemFile {
    fs: RecordingFs,
    ino: Ino,
    handle: u64,
    writable: bool,
}

impl MemFile {
    fn change(&self, change: Change) -> io::Result<()> {
        if !self.writable {
            return Err(errno_error(Errno::BADF));
        }
        self.fs.state().change(change);
        Ok(())
    }

    fn len(&self) -> u64 {
        self.fs.state().metadata(self.ino).len
    }
}

impl ReadAt for MemFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let state = self.fs.state();
        state.tree.files.get(&self.ino).map_or(Ok(0), |bytes| bytes.as_slice().read_at(offset, buf))
    }
}

impl File for MemFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write_at(self.len(), bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.change(Change::Write { ino: self.ino, offset, bytes: bytes.to_vec() })?;
        Ok(bytes.len())
    }

    fn copy_from(&self, source: &dyn File, offset: u64, len: u64) -> io::Result<u64> {
        copy_through_memory(self, source, offset, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::SetLen { ino: self.ino, len })
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.fs.state();
        if state.failing_syncs == 0 {
            state.change(Change::SyncData(self.ino));
            return Ok(());
        }
        state.failing_syncs -= 1;
        state.change(Change::SyncFailed(self.ino));
        Err(errno_error(Errno::IO))
    }

    fn metadata(&self) -> io::Result<Metadata> {
        Ok(self.fs.state().metadata(self.ino))
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.fs.state();
        Ok(*state.locks.entry(self.ino).or_insert(self.handle) == self.handle)
    }

    fn unlock(&self) -> io::Result<()> {
        let mut state = self.fs.state();
        if state.locks.get(&self.ino) == Some(&self.handle) {
            state.locks.remove(&self.ino);
        }
        Ok(())
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}
