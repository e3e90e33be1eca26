//! An open file of the operating system.

use std::fs::TryLockError;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Mutex, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{File, FileKind, Metadata, ReadAt};

/// A regular file, or whatever else was opened in its place.
pub(in crate::disk) struct OsFile {
    file: std::fs::File,
    /// Held by every write. `O_APPEND` protects other writers' bytes from ours, but the kernel then ignores offsets
    /// and refuses `copy_file_range`, so that these two take the flag off for the length of their call.
    writing: Mutex<()>,
}

impl OsFile {
    pub(in crate::disk) fn new(fd: OwnedFd) -> Self {
        Self { file: std::fs::File::from(fd), writing: Mutex::new(()) }
    }

    fn at_offsets<T>(&self, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let _guard = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = rustix::fs::fcntl_getfl(&self.file)?;
        rustix::fs::fcntl_setfl(&self.file, flags - OFlags::APPEND)?;
        let answer = write();
        rustix::fs::fcntl_setfl(&self.file, flags)?;
        answer
    }

    #[cfg(target_os = "linux")]
    fn copy_in_kernel(&self, source: &dyn File, offset: u64, len: u64) -> io::Result<Option<u64>> {
        let Some(from) = source.descriptor() else { return Ok(None) };
        self.at_offsets(|| {
            let (mut from_offset, mut to_offset) = (offset, self.file.metadata()?.len());
            // 1 GiB at a time keeps the length within what 32-bit and 64-bit kernels take.
            let len = usize::try_from(len.min(1 << 30)).unwrap_or(1 << 30);
            match rustix::fs::copy_file_range(
                from,
                Some(&mut from_offset),
                &self.file,
                Some(&mut to_offset),
                len,
            ) {
                // Some file systems answer 0 to what they cannot copy: let the read decide whether this is the end.
                Ok(0) => Ok(None),
                Ok(n) => Ok(Some(n as u64)),
                Err(
                    Errno::NOSYS | Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM | Errno::BADF,
                ) => Ok(None),
                Err(errno) => Err(errno.into()),
            }
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn copy_in_kernel(&self, _: &dyn File, _: u64, _: u64) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

impl ReadAt for OsFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answer => return answer,
            }
        }
    }

    fn read_behind(&self, offset: u64, out: &mut Vec<u8>) -> io::Result<usize> {
        if out.len() == out.capacity() {
            return Ok(0);
        }
        loop {
            match rustix::io::pread(&self.file, spare_capacity(out), offset) {
                Err(Errno::INTR) => {}
                answer => return Ok(answer?),
            }
        }
    }
}

impl File for OsFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let _guard = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        io::Write::write(&mut &self.file, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.at_offsets(|| self.file.write_at(bytes, offset))
    }

    fn copy_from(&self, source: &dyn File, offset: u64, len: u64) -> io::Result<u64> {
        match self.copy_in_kernel(source, offset, len)? {
            Some(n) => Ok(n),
            None => copy_through_memory(self, source, offset, len),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn metadata(&self) -> io::Result<Metadata> {
        let meta = self.file.metadata()?;
        let kind = if meta.is_file() {
            FileKind::File
        } else if meta.is_dir() {
            FileKind::Dir
        } else {
            FileKind::Other
        };
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Ok(Metadata {
            kind,
            len: meta.len(),
            dev: meta.dev(),
            ino: meta.ino(),
            links: meta.nlink(),
            mode: meta.mode() & 0o7777,
            mtime_ns: ns(meta.mtime(), meta.mtime_nsec()),
            ctime_ns: ns(meta.ctime(), meta.ctime_nsec()),
        })
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        match self.file.try_lock_shared() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// One piece of a copy through a buffer: up to 1 MiB.
pub(crate) fn copy_through_memory(
    to: &dyn File,
    source: &dyn File,
    offset: u64,
    len: u64,
) -> io::Result<u64> {
    let mut buf = vec![0; usize::try_from(len.min(1 << 20)).unwrap_or(1 << 20)];
    let read = source.read_at(offset, &mut buf)?;
    buf.truncate(read);
    if read == 0 { Ok(0) } else { to.append(&buf).map(|n| n as u64) }
}
