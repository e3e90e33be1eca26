//! The real file system: everything happens relative to a descriptor of the root, links are never followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::os_file::OsFile;
use super::{DirEntry, File, FileKind, FileSystem, HeldLock, Metadata, check_relative, errno_error};

const DIR: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);
/// Owner only (FORMAT 13).
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIR_MODE: Mode = Mode::RWXU;

/// A directory of the operating system as a store's root.
///
/// The store is the directory at the root's path. It is opened at its first use and held; each use asks whether the path
/// still leads there, and opens what it leads to where another program moved, removed or replaced the directory: a log
/// that went with it is not at its place any more. The path may go through links (it is the user's to choose); nothing
/// below it may.
pub struct OsFs {
    root: PathBuf,
    fd: Mutex<Option<Arc<OwnedFd>>>,
    /// Set once this instance has made the root, whose name its parent then has to sync.
    created: Mutex<Vec<PathBuf>>,
    /// Cleared at the first `ENOSYS`, so that an old kernel is asked only once.
    has_openat2: AtomicBool,
}

impl OsFs {
    /// A store rooted at `root`, which need not exist: reading finds nothing, `create_dir("")` makes it.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let created = Mutex::new(Vec::new());
        Self { root: root.into(), fd: Mutex::new(None), created, has_openat2: AtomicBool::new(true) }
    }

    /// As [`new`](Self::new), walking directory by directory as on a kernel without `openat2`.
    #[doc(hidden)]
    #[must_use]
    pub fn without_openat2(root: impl Into<PathBuf>) -> Self {
        let os = Self::new(root);
        os.has_openat2.store(false, Ordering::Relaxed);
        os
    }

    /// The root's path as given.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn root_fd(&self) -> io::Result<Arc<OwnedFd>> {
        let mut held = self.fd.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fd) = held.as_ref() {
            let ours = metadata_of(&rustix::fs::fstat(fd)?);
            match rustix::fs::stat(&self.root) {
                Ok(named) if !metadata_of(&named).is_same_file(&ours) => {}
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                // What may not be looked at has not been seen to move.
                _ => return Ok(Arc::clone(fd)),
            }
            tracing::warn!(
                "another program moved, removed or replaced the store's directory: what its path leads to is the store"
            );
            *held = None;
        }
        let fd = Arc::new(rustix::fs::open(&self.root, DIR | OFlags::CLOEXEC, Mode::empty())?);
        Ok(Arc::clone(held.insert(fd)))
    }

    /// Opens something that exists, or creates a file in an existing directory, without following any link.
    fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        check_relative(path)?;
        let root = self.root_fd()?;
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = flags | OFlags::CLOEXEC;
        #[cfg(target_os = "linux")]
        if self.has_openat2.load(Ordering::Relaxed) {
            use rustix::fs::ResolveFlags;
            let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&root, path, flags, mode, inside) {
                // Sandboxes answer EPERM to calls that they do not know; a real EPERM comes back from the walk.
                Err(Errno::NOSYS | Errno::PERM) => self.has_openat2.store(false, Ordering::Relaxed),
                // A rename elsewhere was seen during the lookup; the walk cannot be confused by it.
                Err(Errno::AGAIN) => {}
                answer => return Ok(answer?),
            }
        }
        self.walk(root.as_fd(), path, flags, mode)
    }

    fn walk(&self, root: BorrowedFd<'_>, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let mut dir: Option<OwnedFd> = None;
        let mut names = path.iter().peekable();
        while let Some(name) = names.next() {
            let at = dir.as_ref().map_or(root, AsFd::as_fd);
            let last = names.peek().is_none();
            let step = OFlags::NOFOLLOW | if last { flags } else { DIR | OFlags::CLOEXEC };
            match rustix::fs::openat(at, name, step, mode) {
                Ok(fd) if last => return Ok(fd),
                Ok(fd) => dir = Some(fd),
                // O_DIRECTORY answers "not a directory" for a link; say what it is, as openat2 does.
                Err(Errno::NOTDIR) if is_symlink(at, name) => return Err(errno_error(Errno::LOOP)),
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(errno_error(Errno::NOENT))
    }

    /// The directory that holds `path`, and the name in it.
    fn parent<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
        check_relative(path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(errno_error(Errno::INVAL));
        };
        Ok((self.open(parent, DIR, Mode::empty())?, name))
    }

    fn open_regular(&self, path: &Path, flags: OFlags) -> io::Result<Arc<dyn File>> {
        // O_NONBLOCK: a pipe put in place of a log must not hang the daemon. Regular files ignore it.
        let fd = self.open(path, flags | OFlags::NONBLOCK, Mode::empty())?;
        let file = OsFile::new(fd);
        match file.metadata()?.kind {
            FileKind::File => Ok(Arc::new(file)),
            _ => Err(errno_error(Errno::INVAL)),
        }
    }

    fn create_root(&self) -> io::Result<()> {
        if self.root_fd().is_ok() {
            return Err(errno_error(Errno::EXIST));
        }
        let missing = self.root.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
        let mut missing: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
        missing.reverse();
        for dir in &missing {
            match make_dir(rustix::fs::CWD, dir.as_os_str()) {
                Ok(()) => self.created.lock().unwrap_or_else(PoisonError::into_inner).push(dir.clone()),
                // Another process makes the same root at this moment; what counts is that it is there.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        self.root_fd().map(|_| ())
    }

    /// Makes the names of directories that this instance made above and at the root durable.
    fn sync_created(&self) -> io::Result<()> {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(dir) = created.last() {
            let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
            let fd =
                rustix::fs::open(parent.unwrap_or(Path::new(".")), DIR | OFlags::CLOEXEC, Mode::empty())?;
            rustix::fs::fsync(fd)?;
            created.pop();
        }
        Ok(())
    }
}

impl FileSystem for OsFs {
    fn held_locks(&self) -> Option<Vec<HeldLock>> {
        Some(std::fs::read_to_string("/proc/locks").ok()?.lines().filter_map(held_lock).collect())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() {
            return self.create_root();
        }
        let (parent, name) = self.parent(path)?;
        make_dir(parent.as_fd(), name)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let fd = self.open(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND, FILE_MODE)?;
        rustix::fs::fchmod(&fd, FILE_MODE)?;
        Ok(Arc::new(OsFile::new(fd)))
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open_regular(path, OFlags::RDWR | OFlags::APPEND)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open_regular(path, OFlags::RDONLY)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.parent(from)?, self.parent(to)?);
        Ok(rustix::fs::linkat(from_dir, from, to_dir, to, AtFlags::empty())?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.parent(from)?, self.parent(to)?);
        Ok(rustix::fs::renameat(from_dir, from, to_dir, to)?)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        rustix::fs::fsync(self.open(path, DIR, Mode::empty())?)?;
        if path.as_os_str().is_empty() { self.sync_created() } else { Ok(()) }
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let dir = self.open(path, DIR, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                rustix::fs::FileType::Unknown => {
                    match rustix::fs::statat(&dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => kind_of(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
                        Err(Errno::NOENT) => continue,
                        Err(errno) => return Err(errno.into()),
                    }
                }
                known => kind_of(known),
            };
            entries.push(DirEntry { name: std::ffi::OsString::from_vec(name.to_vec()), kind });
        }
        entries.sort_unstable_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        Ok(entries)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        if path.as_os_str().is_empty() {
            return Ok(metadata_of(&rustix::fs::fstat(self.root_fd()?)?));
        }
        let (dir, name) = self.parent(path)?;
        Ok(metadata_of(&rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }
}

/// A line of Linux's `/proc/locks` that tells of a `flock` held exclusively: `1: FLOCK  ADVISORY  WRITE 12 fe:00:345 0 EOF`.
fn held_lock(line: &str) -> Option<HeldLock> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (kind, _, mode) = (words.next()?, words.next()?, words.next()?);
    let (pid, file) = (words.next()?.parse().ok()?, words.next()?);
    let (device, ino) = file.rsplit_once(':')?;
    let (major, minor) = device.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let device = (number(major)?, number(minor)?);
    (kind == "FLOCK" && mode == "WRITE").then_some(HeldLock { pid, device, ino: ino.parse().ok()? })
}

fn make_dir(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    rustix::fs::mkdirat(parent, name, DIR_MODE)?;
    // The umask may have taken bits away: set the mode again, on the very directory.
    let fd = rustix::fs::openat(parent, name, DIR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    match fd.and_then(|fd| rustix::fs::fchmod(fd, DIR_MODE)) {
        // A umask that denies its owner reading leaves a directory that cannot be opened: set it by name.
        Err(Errno::ACCESS) => Ok(rustix::fs::chmodat(parent, name, DIR_MODE, AtFlags::empty())?),
        answer => Ok(answer?),
    }
}

fn is_symlink(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink())
}

fn kind_of(kind: rustix::fs::FileType) -> FileKind {
    match kind {
        rustix::fs::FileType::RegularFile => FileKind::File,
        rustix::fs::FileType::Directory => FileKind::Dir,
        rustix::fs::FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

// The widths of stat's members differ between platforms; all of them fit.
#[allow(clippy::useless_conversion, clippy::unnecessary_cast, clippy::cast_sign_loss)]
fn metadata_of(stat: &rustix::fs::Stat) -> Metadata {
    let ns = |seconds: i64, ns: u64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
    Metadata {
        kind: kind_of(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        len: stat.st_size as u64,
        dev: stat.st_dev as u64,
        ino: stat.st_ino as u64,
        links: stat.st_nlink as u64,
        mode: (stat.st_mode as u32) & 0o7777,
        mtime_ns: ns(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        ctime_ns: ns(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
    }
}
