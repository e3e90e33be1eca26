//! The protocol's pipes opened once more, as open files of our own.
//!
//! `O_NONBLOCK` belongs to the open file, which the client may share. A pipe can be opened again by its place in `/proc`,
//! and that open file is nobody else's: it has the flag, so that a plain read or write of it never waits, and costs
//! less than one with the per-call flag. What was given stays open beside it, to be waited for, and to be read and
//! written with a wait; both are closed together, so that the other end's hang-up comes when it came before.

use std::os::fd::{BorrowedFd, OwnedFd};

/// A pipe's reading end for reads that never wait; none where there is none to be had: another system, no `/proc`, no pipe
/// or one of another user.
pub(super) fn reader(pipe: BorrowedFd<'_>) -> Option<OwnedFd> {
    again::open(pipe, again::READ)
}

/// The same for writes; none, too, for a named pipe that nobody reads any more.
pub(super) fn writer(pipe: BorrowedFd<'_>) -> Option<OwnedFd> {
    again::open(pipe, again::WRITE)
}

#[cfg(target_os = "linux")]
mod again {
    use std::os::fd::AsRawFd;

    use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fstat};

    use super::*;

    pub(super) const READ: OFlags = OFlags::RDONLY;
    pub(super) const WRITE: OFlags = OFlags::WRONLY;

    pub(super) fn open(pipe: BorrowedFd<'_>, access: OFlags) -> Option<OwnedFd> {
        let given = fstat(pipe).ok()?;
        // The other end must stay the client's alone; and `O_DIRECT`, by which each write is a packet, is the open file's.
        let flags = fcntl_getfl(pipe).ok()?;
        let is_end = [access, OFlags::RDWR].contains(&(flags & OFlags::RWMODE));
        if FileType::from_raw_mode(given.st_mode) != FileType::Fifo
            || !is_end
            || flags.contains(OFlags::DIRECT)
        {
            return None; // to open a device may have effects
        }
        let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
        let own = rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let opened = fstat(&own).ok()?;
        ((opened.st_dev, opened.st_ino) == (given.st_dev, given.st_ino)).then_some(own)
    }
}

#[cfg(not(target_os = "linux"))]
mod again {
    use super::*;

    pub(super) const READ: () = ();
    pub(super) const WRITE: () = ();

    pub(super) fn open(_: BorrowedFd<'_>, _: ()) -> Option<OwnedFd> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{Read, Write, pipe};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    use rustix::io::{Errno, fcntl_getfd};

    use super::*;
    use crate::stdio::fd;

    #[test]
    fn they_never_wait_and_what_was_given_still_does() {
        let (mut given_in, mut given_out) = pipe().unwrap();
        let flags = (fcntl_getfl(&given_in).unwrap(), fcntl_getfl(&given_out).unwrap());
        let (input, output) = (reader(given_in.as_fd()).unwrap(), writer(given_out.as_fd()).unwrap());
        assert!(fcntl_getfd(&input).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        assert!(fcntl_getfd(&output).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        assert_eq!((fcntl_getfl(&given_in).unwrap(), fcntl_getfl(&given_out).unwrap()), flags);

        assert_eq!(fd::read(input.as_fd(), &mut [0; 8]), Err(Errno::AGAIN));
        given_out.write_all(b"by what was given").unwrap();
        assert_eq!(fd::read(input.as_fd(), &mut [0; 99]), Ok(17));
        let mut sent = 0;
        let full = loop {
            match fd::write(output.as_fd(), &[b'x'; 1000]) {
                Ok(n) => sent += n,
                Err(errno) => break errno,
            }
        };
        assert_eq!(full, Errno::AGAIN);
        let mut text = vec![0; sent];
        given_in.read_exact(&mut text).unwrap();
        assert!(text.iter().all(|byte| *byte == b'x'));
    }

    #[test]
    fn they_see_the_end_of_the_other_end_and_are_none_themselves() {
        let (given_in, given_out) = pipe().unwrap();
        let input = reader(given_in.as_fd()).unwrap();
        drop(given_out);
        assert_eq!(fd::read(input.as_fd(), &mut [0; 8]), Ok(0));
        assert!(fd::hung_up(given_in.as_fd()));

        let (given_in, given_out) = pipe().unwrap();
        let (input, output) = (reader(given_in.as_fd()).unwrap(), writer(given_out.as_fd()).unwrap());
        drop(given_in);
        assert!(!fd::hung_up(given_out.as_fd()), "there is a reader yet");
        drop(input);
        assert!(fd::hung_up(given_out.as_fd()));
        assert_eq!(fd::write(output.as_fd(), b"x"), Err(Errno::PIPE));
        // One whose other end was gone before.
        let output = writer(given_out.as_fd());
        assert_eq!(output.map(|output| fd::write(output.as_fd(), b"x")), Some(Err(Errno::PIPE)));
    }

    #[test]
    fn there_is_none_of_what_is_no_pipe_or_its_other_end() {
        let (given_in, given_out) = pipe().unwrap();
        assert!(reader(given_out.as_fd()).is_none() && writer(given_in.as_fd()).is_none());
        fcntl_setfl(&given_out, OFlags::DIRECT).unwrap();
        assert!(writer(given_out.as_fd()).is_none(), "a pipe of packets");

        let (socket, _other) = UnixStream::pair().unwrap();
        let (null, file) = (File::open("/dev/null").unwrap(), tempfile::tempfile().unwrap());
        for fd in [socket.as_fd(), null.as_fd(), file.as_fd()] {
            assert!(reader(fd).is_none() && writer(fd).is_none());
        }
    }

    #[test]
    fn a_named_pipe_that_the_client_opened_for_both_is_never_at_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        let both = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let (input, output) = (reader(both.as_fd()).unwrap(), writer(both.as_fd()).unwrap());
        assert_eq!(fd::write(output.as_fd(), b"a line"), Ok(6));
        drop(output);
        assert_eq!(fd::read(input.as_fd(), &mut [0; 99]), Ok(6));
        assert_eq!(fd::read(input.as_fd(), &mut [0; 99]), Err(Errno::AGAIN), "as long as it is open");

        // Nobody reads it but whoever asks.
        let only_out = OpenOptions::new().write(true).open(&path).unwrap();
        drop((both, input));
        assert!(writer(only_out.as_fd()).is_none());
    }
}
