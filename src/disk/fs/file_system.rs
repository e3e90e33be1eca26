//! The file-system seam: exactly the operations that an append-only store needs, and nothing else.
//!
//! Paths are relative to the store's root (`""` is the root itself) and consist of plain names only. No
//! implementation follows a symbolic link below the root, so nothing that lies in a store can lead out of it.
//! Directories are created 0700 and files 0600 whatever the umask (FORMAT 13).
//!
//! Errors are [`io::Error`], whose `raw_os_error` is the errno that PROTOCOL 5 reports (see [`errno_name`]).

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Component, Path};
use std::sync::Arc;

use rustix::io::Errno;

/// What a name in a directory stands for; a symbolic link is never resolved to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A pipe, socket or device.
    Other,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name's bytes, which need not be UTF-8 when another program made it.
    pub name: OsString,
    /// What the name stands for.
    pub kind: FileKind,
}

/// The facts about a file; together they are the revision of FORMAT 13.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// Size in bytes.
    pub len: u64,
    /// Device number.
    pub dev: u64,
    /// Inode number; with `dev` it identifies the file whatever its name.
    pub ino: u64,
    /// How many names the file has; 0 means that it was removed while open.
    pub links: u64,
    /// Permission bits, such as `0o600`.
    pub mode: u32,
    /// Time of the last content change in nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Time of the last change of content or metadata in nanoseconds since 1970.
    pub ctime_ns: i128,
}

impl Metadata {
    /// Whether both describe the same file (not: the same content).
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.dev == other.dev && self.ino == other.ino
    }
}

/// A lock that a process holds for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The process.
    pub pid: u32,
    /// The major and minor number of the file's device; some file systems give another one to who asks for the file's
    /// facts.
    pub device: (u32, u32),
    /// The file's inode number.
    pub ino: u64,
}

/// Anything that can be read at an offset: an open file, or bytes in memory. A long log is read by another thread than
/// the one that takes its events.
pub trait ReadAt: Sync {
    /// Reads up to `buf.len()` bytes from `offset`; 0 means the end. Interrupted calls are retried inside.
    ///
    /// # Errors
    /// The errno of the read.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// The same behind what `out` holds, up to its capacity, which a file need not clear first.
    ///
    /// # Errors
    /// The errno of the read.
    fn read_behind(&self, offset: u64, out: &mut Vec<u8>) -> io::Result<usize> {
        let have = out.len();
        out.resize(out.capacity(), 0);
        let read = self.read_at(offset, out.get_mut(have..).unwrap_or_default());
        out.truncate(have + read.as_ref().map_or(0, |read| *read));
        read
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut rest = self.get(from..).unwrap_or(&[]);
        io::Read::read(&mut rest, buf)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buf)
    }

    fn read_behind(&self, offset: u64, out: &mut Vec<u8>) -> io::Result<usize> {
        (**self).read_behind(offset, out)
    }
}

/// An open regular file. All operations take `&self`, so that a sync can run on another thread while its owner
/// appends; callers keep appends to one file in one place.
pub trait File: ReadAt + Send + Sync {
    /// Adds bytes at the end in one call to the system and returns how many it took, which may be fewer than given.
    ///
    /// # Errors
    /// The errno of the write; nothing was written then.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Overwrites bytes at `offset`; returns how many were taken, as [`append`](Self::append) does.
    ///
    /// # Errors
    /// The errno of the write.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Adds up to `len` bytes of `source` from `offset` at the end of this file, inside the kernel where that works,
    /// and returns how many; 0 means that the source ends there.
    ///
    /// # Errors
    /// The errno of the copy.
    fn copy_from(&self, source: &dyn File, offset: u64, len: u64) -> io::Result<u64>;

    /// Cuts or extends (with NULs) the file to `len` bytes.
    ///
    /// # Errors
    /// The errno of the truncation.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Puts content and size on stable storage. After a failure the content must be written again before another
    /// success means anything: the kernel may have dropped the pages and marked them clean.
    ///
    /// # Errors
    /// The errno of the sync.
    fn sync_data(&self) -> io::Result<()>;

    /// Size, identity and times now.
    ///
    /// # Errors
    /// The errno of the stat.
    fn metadata(&self) -> io::Result<Metadata>;

    /// Takes the exclusive kernel lock of this file without waiting; false means that another open handle holds it.
    /// It ends with the last clone of this handle, at the latest with the process.
    ///
    /// # Errors
    /// The errno of the lock; `ENOLCK`, `EOPNOTSUPP` and `ENOSYS` say that the file system has no locks.
    fn try_lock(&self) -> io::Result<bool>;

    /// Takes the lock shared with others who do, without waiting; false means that another open handle holds it for
    /// itself.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    fn try_lock_shared(&self) -> io::Result<bool> {
        self.try_lock()
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// The errno of the unlock.
    fn unlock(&self) -> io::Result<()>;

    /// The descriptor behind this handle, where there is one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A store's root and what can be done below it.
pub trait FileSystem: Send + Sync {
    /// Makes one directory with mode 0700; its parent must exist, and is to be synced by the caller. `""` makes the
    /// root and what is missing above it.
    ///
    /// # Errors
    /// `EEXIST` when the name is taken, else the errno.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes a new file with mode 0600, open for reading and appending.
    ///
    /// # Errors
    /// `EEXIST` when the name is taken (by a dangling link too), else the errno.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens an existing regular file for reading and appending.
    ///
    /// # Errors
    /// `ELOOP` for a symbolic link on the way, `EINVAL` for anything but a regular file, else the errno.
    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens an existing regular file for reading only.
    ///
    /// # Errors
    /// As [`open_append`](Self::open_append).
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Gives the file at `from` a second name, never replacing what is at `to`.
    ///
    /// # Errors
    /// `EEXIST` when `to` is taken, else the errno.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves a file, replacing what is at `to`.
    ///
    /// # Errors
    /// The errno of the rename.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name of a file (of a link itself, not of its target).
    ///
    /// # Errors
    /// The errno of the removal.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The errno of the removal.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Puts the names in a directory on stable storage. `""` also makes the root's own name durable when this
    /// instance created it.
    ///
    /// # Errors
    /// The errno of the sync.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in byte order, without `.` and `..`.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ELOOP` (a link on the way) or another errno.
    fn list_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// The locks of files that processes hold for themselves, of this store and of others; none where the system does not
    /// tell.
    fn held_locks(&self) -> Option<Vec<HeldLock>> {
        None
    }

    /// The facts about a name, of a link itself rather than of its target.
    ///
    /// # Errors
    /// The errno of the stat.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;
}

/// Reads until `buf` is full or the source ends; returns how much was read.
///
/// # Errors
/// The errno of the first failed read.
pub fn read_full(source: &(impl ReadAt + ?Sized), offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match source.read_at(offset + done as u64, rest) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Refuses a path that could leave the root by its spelling: absolute, `..`, or a NUL byte.
///
/// # Errors
/// `InvalidInput`, naming the path.
pub(crate) fn check_relative(path: &Path) -> io::Result<()> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && !path.as_os_str().as_encoded_bytes().contains(&0) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{} is not a plain path below the store", path.display()),
    ))
}

/// The symbolic name of the errno in `error` (`"ENOSPC"`), for the `data.errno` of PROTOCOL 5; `None` when the error
/// did not come from the system or its number has no name here.
#[must_use]
pub fn errno_name(error: &io::Error) -> Option<&'static str> {
    let number = error.raw_os_error()?;
    ERRNOS.iter().find(|(errno, ..)| errno.raw_os_error() == number).map(|(_, name, _)| *name)
}

/// The error for an errno's symbolic name, for fault plans; `None` for a name not known here.
#[must_use]
pub fn errno_from_name(name: &str) -> Option<io::Error> {
    ERRNOS.iter().find(|(_, known, _)| *known == name).map(|(errno, ..)| errno_error(*errno))
}

/// What to do about an error before the same is tried again, as a lower-case fragment; none where trying again is all
/// there is. The one place that says so.
#[must_use]
pub fn remedy(error: &io::Error) -> Option<&'static str> {
    let number = error.raw_os_error()?;
    let known = ERRNOS.iter().find(|(errno, ..)| errno.raw_os_error() == number);
    known.map(|(.., remedy)| *remedy).filter(|remedy| !remedy.is_empty())
}

/// The same with the trying: `make room on the store's disk, then try again`.
#[must_use]
pub fn what_helps(error: &io::Error) -> String {
    remedy(error).map_or_else(|| "try again".to_owned(), |remedy| format!("{remedy}, then try again"))
}

pub(crate) fn errno_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw_os_error())
}

/// Number, name, and what to do about it.
const ERRNOS: &[(Errno, &str, &str)] = &[
    (Errno::ACCESS, "EACCES", USABLE),
    (Errno::AGAIN, "EAGAIN", ""),
    (Errno::BADF, "EBADF", ""),
    (Errno::BUSY, "EBUSY", ""),
    (Errno::DQUOT, "EDQUOT", "make room within the disk quota"),
    (Errno::EXIST, "EEXIST", ""),
    (Errno::FBIG, "EFBIG", "raise the limit of file sizes (ulimit -f), or go on in another session"),
    (Errno::INTR, "EINTR", ""),
    (Errno::INVAL, "EINVAL", ""),
    (Errno::IO, "EIO", "check the store's disk"),
    (Errno::ISDIR, "EISDIR", "move away the directory that stands in the place of a file"),
    (Errno::LOOP, "ELOOP", "put the directory or the file itself in the place of the link"),
    (Errno::MFILE, "EMFILE", "close sessions, or raise the limit of open files (ulimit -n)"),
    (Errno::MLINK, "EMLINK", "give another --store, as the directory takes no more names"),
    (Errno::NAMETOOLONG, "ENAMETOOLONG", "use a shorter session id, or a --store of a shorter path"),
    (Errno::NFILE, "ENFILE", "close programs, or raise the system's limit of open files"),
    (Errno::NODEV, "ENODEV", "mount the store's file system again"),
    (Errno::NOENT, "ENOENT", ""),
    (Errno::NOLCK, "ENOLCK", LOCAL),
    (Errno::NOMEM, "ENOMEM", "close sessions, as memory is short"),
    (Errno::NOSPC, "ENOSPC", "make room on the store's disk"),
    (Errno::NOSYS, "ENOSYS", LOCAL),
    (Errno::NOTDIR, "ENOTDIR", "move away the file that stands in the place of a directory"),
    (Errno::NOTEMPTY, "ENOTEMPTY", ""),
    (Errno::NXIO, "ENXIO", "mount the store's file system again"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP", LOCAL),
    (Errno::PERM, "EPERM", USABLE),
    (Errno::ROFS, "EROFS", "mount the store's file system writable, or give another --store"),
    (Errno::STALE, "ESTALE", "mount the store's file system again"),
    (Errno::TIMEDOUT, "ETIMEDOUT", ""),
    (Errno::XDEV, "EXDEV", "keep all of the store on one file system"),
];

const USABLE: &str = "let the user of sessiond read and write the store's directories and files";
const LOCAL: &str = "keep the store on a local disk that has file locks";
