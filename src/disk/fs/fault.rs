//! A file system that fails on demand, for tests and for the daemon's hidden `--fault-file`.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{DirEntry, File, FileSystem, HeldLock, Metadata, ReadAt, errno_from_name, errno_name};

/// The operations of the seam, under the names that fault plans use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Op {
    CreateDir,
    CreateNew,
    Open,
    Link,
    Rename,
    Unlink,
    RemoveDir,
    SyncDir,
    ListDir,
    Stat,
    Write,
    WriteAt,
    Copy,
    SetLen,
    Sync,
    Read,
    Lock,
    Unlock,
}

impl Op {
    /// Every operation with its name in a plan.
    pub const ALL: [(Self, &'static str); 18] = [
        (Self::CreateDir, "create_dir"),
        (Self::CreateNew, "create_new"),
        (Self::Open, "open"),
        (Self::Link, "link"),
        (Self::Rename, "rename"),
        (Self::Unlink, "unlink"),
        (Self::RemoveDir, "remove_dir"),
        (Self::SyncDir, "sync_dir"),
        (Self::ListDir, "list_dir"),
        (Self::Stat, "stat"),
        (Self::Write, "write"),
        (Self::WriteAt, "write_at"),
        (Self::Copy, "copy"),
        (Self::SetLen, "set_len"),
        (Self::Sync, "sync"),
        (Self::Read, "read"),
        (Self::Lock, "lock"),
        (Self::Unlock, "unlock"),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(op, _)| *op)
    }
}

/// What happens instead of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It fails with this errno and does nothing.
    Errno(&'static str),
    /// A write or copy takes only this many bytes; other operations are not affected.
    Short(usize),
    /// It panics: what a bug anywhere below the server looks like.
    Panic,
}

/// One planned fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The operation that it hits; `None` = any.
    pub op: Option<Op>,
    /// How many such operations go through first.
    pub skip: u64,
    /// What happens then.
    pub effect: Effect,
    /// Whether it goes on happening until the plan is cleared.
    pub sticky: bool,
}

/// A line of a fault plan that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("fault plan: {line:?} is not `OP [+SKIP] ERRNO|short:N|panic [*]`, `clear` or a comment")]
pub struct BadPlan {
    /// The line.
    pub line: String,
}

/// Parses a plan, one fault a line: `write ENOSPC`, `sync +2 EIO` (the third one), `write short:5`, `read panic`,
/// `any EIO *` (until cleared), `clear`. `None` stands for `clear`.
///
/// # Errors
/// [`BadPlan`] with the first line that is none of these.
pub fn parse_plan(text: &str) -> Result<Vec<Option<Fault>>, BadPlan> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse_line(line).ok_or_else(|| BadPlan { line: line.to_owned() })).collect()
}

fn parse_line(line: &str) -> Option<Option<Fault>> {
    if line == "clear" {
        return Some(None);
    }
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let sticky = words.last() == Some(&"*");
    if sticky {
        words.pop();
    }
    let (op, skip, effect) = match words.as_slice() {
        [op, effect] => (op, 0, effect),
        [op, skip, effect] => (op, skip.strip_prefix('+')?.parse().ok()?, effect),
        _ => return None,
    };
    let op = if *op == "any" { None } else { Some(Op::from_name(op)?) };
    let effect = match effect.strip_prefix("short:") {
        Some(bytes) => Effect::Short(bytes.parse().ok()?),
        None if *effect == "panic" => Effect::Panic,
        None => Effect::Errno(errno_from_name(effect).as_ref().and_then(errno_name)?),
    };
    Some(Some(Fault { op, skip, effect, sticky }))
}

#[derive(Default)]
struct Plan {
    faults: Vec<Fault>,
    /// Places at and below which no name can be used, and why.
    denied: Vec<(PathBuf, &'static str)>,
    done: Vec<Op>,
    file: Option<PlanFile>,
}

/// A plan that another process goes on writing.
struct PlanFile {
    path: PathBuf,
    /// How many bytes of it have been taken.
    taken: usize,
}

impl Plan {
    /// What hits this operation, if anything. Each operation uses up at most one fault.
    fn meet(&mut self, op: Op) -> Option<Effect> {
        match &mut self.file {
            Some(_) => self.read_file(),
            None => self.done.push(op), // nobody can ask a daemon
        }
        let mut hit = None;
        for (index, fault) in self.faults.iter_mut().enumerate() {
            let fits = fault.op.is_none_or(|wanted| wanted == op);
            if fits && fault.skip > 0 {
                fault.skip -= 1;
            } else if fits {
                hit = Some((index, *fault));
                break;
            }
        }
        let (index, fault) = hit?;
        if !fault.sticky {
            self.faults.remove(index);
        }
        Some(fault.effect)
    }

    /// Takes the lines that were added to the plan's file since the last look.
    fn read_file(&mut self) {
        let Some(file) = &mut self.file else { return };
        let Ok(bytes) = std::fs::read(&file.path) else { return };
        let added = bytes.get(file.taken..).unwrap_or_default();
        // A line without its end is still being written.
        let Some(end) = memchr::memrchr(b'\n', added) else { return };
        file.taken += end + 1;
        let text = String::from_utf8_lossy(added.get(..end).unwrap_or_default()).into_owned();
        for line in text.lines() {
            match parse_plan(line) {
                Ok(faults) => faults.into_iter().for_each(|fault| match fault {
                    Some(fault) => self.faults.push(fault),
                    None => self.faults.clear(),
                }),
                // Loudly: a test whose fault never happens proves nothing.
                Err(error) => tracing::error!(%error, "a fault was left out"),
            }
        }
    }
}

fn planned(errno: &'static str) -> io::Error {
    errno_from_name(errno).unwrap_or_else(|| io::Error::other(errno))
}

#[derive(Clone, Default)]
struct Switch(Arc<Mutex<Plan>>);

impl Switch {
    fn with<T>(&self, act: impl FnOnce(&mut Plan) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fails if the plan or the place wants it.
    fn pass_at(&self, op: Op, path: &Path) -> io::Result<()> {
        self.pass(op)?;
        let why = self.with(|plan| {
            plan.denied.iter().find(|(place, _)| path.starts_with(place)).map(|(_, errno)| *errno)
        });
        why.map_or(Ok(()), |errno| Err(planned(errno)))
    }

    /// Fails, or says how many bytes a write may take.
    fn pass(&self, op: Op) -> io::Result<usize> {
        match self.with(|plan| plan.meet(op)) {
            Some(Effect::Errno(name)) => Err(planned(name)),
            Some(Effect::Short(bytes)) => Ok(bytes),
            Some(Effect::Panic) => panic!("a planned bug in {op:?}"),
            None => Ok(usize::MAX),
        }
    }
}

/// A [`FileSystem`] around another one that fails as planned.
pub struct FaultFs {
    inner: Arc<dyn FileSystem>,
    switch: Switch,
}

impl FaultFs {
    /// Nothing fails until told.
    #[must_use]
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        Self { inner, switch: Switch::default() }
    }

    /// Faults come from a file to which another process appends lines, looked at before every operation. A line
    /// that is no fault is left out, with a word on stderr.
    #[must_use]
    pub fn with_file(inner: Arc<dyn FileSystem>, path: PathBuf) -> Self {
        let fs = Self::new(inner);
        fs.switch.with(|plan| plan.file = Some(PlanFile { path, taken: 0 }));
        fs
    }

    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        self.switch.with(|plan| plan.faults.push(fault));
    }

    /// Fails one operation, after `skip` of its kind (`None`: of any kind) have gone through.
    pub fn fail(&self, op: Option<Op>, skip: u64, effect: Effect) {
        self.add(Fault { op, skip, effect, sticky: false });
    }

    /// Lets every operation by a name at or below `place` fail with that errno, as where a directory may no longer be
    /// read; files that are open go on. `""` is the root.
    pub fn deny(&self, place: impl Into<PathBuf>, errno: &'static str) {
        let place = place.into();
        self.switch.with(|plan| plan.denied.push((place, errno)));
    }

    /// Forgets all faults.
    pub fn clear(&self) {
        self.switch.with(|plan| {
            plan.faults.clear();
            plan.denied.clear();
        });
    }

    /// The operations since the start or the last call, failed ones included.
    #[must_use]
    pub fn take_done(&self) -> Vec<Op> {
        self.switch.with(|plan| std::mem::take(&mut plan.done))
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultFile { inner: file, switch: self.switch.clone() })
    }
}

impl FileSystem for FaultFs {
    fn held_locks(&self) -> Option<Vec<HeldLock>> {
        self.inner.held_locks()
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.switch.pass_at(Op::CreateDir, path)?;
        self.inner.create_dir(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.switch.pass_at(Op::CreateNew, path)?;
        self.inner.create_new(path).map(|file| self.wrap(file))
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.switch.pass_at(Op::Open, path)?;
        self.inner.open_append(path).map(|file| self.wrap(file))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.switch.pass_at(Op::Open, path)?;
        self.inner.open_read(path).map(|file| self.wrap(file))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.switch.pass_at(Op::Link, to)?;
        self.inner.hard_link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.switch.pass_at(Op::Rename, to)?;
        self.inner.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.switch.pass_at(Op::Unlink, path)?;
        self.inner.unlink(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.switch.pass_at(Op::RemoveDir, path)?;
        self.inner.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.switch.pass_at(Op::SyncDir, path)?;
        self.inner.sync_dir(path)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.switch.pass_at(Op::ListDir, path)?;
        self.inner.list_dir(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.switch.pass_at(Op::Stat, path)?;
        self.inner.metadata(path)
    }
}

struct FaultFile {
    inner: Arc<dyn File>,
    switch: Switch,
}

impl ReadAt for FaultFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let most = self.switch.pass(Op::Read)?.min(buf.len());
        self.inner.read_at(offset, buf.get_mut(..most).unwrap_or_default())
    }
}

impl File for FaultFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let most = self.switch.pass(Op::Write)?.min(bytes.len());
        self.inner.append(bytes.get(..most).unwrap_or_default())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let most = self.switch.pass(Op::WriteAt)?.min(bytes.len());
        self.inner.write_at(offset, bytes.get(..most).unwrap_or_default())
    }

    fn copy_from(&self, source: &dyn File, offset: u64, len: u64) -> io::Result<u64> {
        let most = self.switch.pass(Op::Copy)? as u64;
        self.inner.copy_from(source, offset, len.min(most))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.switch.pass(Op::SetLen)?;
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.switch.pass(Op::Sync)?;
        self.inner.sync_data()
    }

    fn metadata(&self) -> io::Result<Metadata> {
        self.switch.pass(Op::Stat)?;
        self.inner.metadata()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.switch.pass(Op::Lock) {
            // As the system says it of a lock that another process holds.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            passed => passed.map(|_| ())?,
        }
        self.inner.try_lock()
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        self.switch.pass(Op::Lock)?;
        self.inner.try_lock_shared()
    }

    fn unlock(&self) -> io::Result<()> {
        self.switch.pass(Op::Unlock)?;
        self.inner.unlock()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}
