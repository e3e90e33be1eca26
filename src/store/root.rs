//! What can be done with a store's directory, seen before anything is begun, so that a wrong one is told at the start and
//! with its path (PROTOCOL 8, exit code 3).

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::disk::catalog::find;
use crate::disk::fs::what_helps;

/// A store's directory that can be used.
#[derive(Debug)]
pub enum Root {
    /// It is there, to be read and written.
    Writable,
    /// It is there, to be read only.
    ReadOnly(io::Error),
    /// It is not there; it can be made.
    Missing,
}

/// Why a store's directory is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// A file, or a link to one, has its name.
    #[error("the store {} is not a directory; give a directory: --store jsonl:DIR", .0.display())]
    NotADirectory(PathBuf),
    /// It is there and cannot be looked into.
    #[error("the store {} cannot be read: {error}; {helps}", .root.display(), helps = what_helps(.error))]
    Unreadable {
        /// The directory.
        root: PathBuf,
        /// The errno of the attempt.
        error: io::Error,
    },
    /// It is not there and cannot be made.
    #[error(
        "the store {} is not there and cannot be made in {}: {error}; make it, or give another directory: --store jsonl:DIR",
        .root.display(),
        .parent.display()
    )]
    NotMade {
        /// The directory.
        root: PathBuf,
        /// What is there of its path.
        parent: PathBuf,
        /// Why that takes no directory.
        error: io::Error,
    },
    /// It is not there, and was to be read.
    #[error("the store {} is not there; give the directory of a store: --store jsonl:DIR", .0.display())]
    NotThere(PathBuf),
}

impl Root {
    /// Looks at a store's directory, or at where it would be made. Nothing is written.
    ///
    /// # Errors
    /// [`RootError`], but not that it is not there.
    pub fn examine(root: &Path) -> Result<Self, RootError> {
        if is_absent(root) {
            return Self::can_be_made(root);
        }
        // Names in it are looked up, too: a directory that only gives its list is of no use.
        let readable = std::fs::read_dir(root).and_then(|_| allows(root, Access::EXEC_OK));
        match readable {
            Ok(()) => Ok(allows(root, Access::WRITE_OK).map_or_else(Self::ReadOnly, |()| Self::Writable)),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory && root.exists() => {
                Err(RootError::NotADirectory(root.to_owned()))
            }
            Err(error) => Err(RootError::Unreadable { root: root.to_owned(), error }),
        }
    }

    /// The same of one that is to be there.
    ///
    /// # Errors
    /// [`RootError`].
    pub fn existing(root: &Path) -> Result<Self, RootError> {
        match Self::examine(root) {
            Ok(Self::Missing) | Err(RootError::NotMade { .. }) => Err(RootError::NotThere(root.to_owned())),
            found => found,
        }
    }

    fn can_be_made(root: &Path) -> Result<Self, RootError> {
        let parents = root.ancestors().skip(1);
        let named = parents.map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
        let parent = named.into_iter().find(|dir| !is_absent(dir)).unwrap_or(Path::new("."));
        let takes = match parent.is_dir() {
            true => {
                allows(parent, Access::WRITE_OK | Access::EXEC_OK).and_then(|()| takes_names(root, parent))
            }
            false => Err(io::ErrorKind::NotADirectory.into()),
        };
        let not_made = |error| RootError::NotMade { root: root.to_owned(), parent: parent.to_owned(), error };
        takes.map(|()| Self::Missing).map_err(not_made)
    }
}

/// Nothing has that name, nor a link.
fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| find::is_absent(&error))
}

/// Whether a directory can take others, whatever its mode says of those who may.
fn takes_names(root: &Path, parent: &Path) -> io::Result<()> {
    if std::fs::metadata(parent)?.nlink() == 0 {
        return Err(io::Error::other("it was removed"));
    }
    #[cfg(target_os = "linux")]
    {
        /// Of `/sys`, as statfs(2) has it.
        const SYSFS_MAGIC: rustix::fs::FsWord = 0x6265_6572;
        let kind = rustix::fs::statfs(parent)?.f_type;
        if kind == rustix::fs::PROC_SUPER_MAGIC || kind == SYSFS_MAGIC {
            return Err(io::Error::other("it shows the state of the kernel and takes no files"));
        }
    }
    match root.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => Err(error),
        _ => Ok(()),
    }
}

fn allows(dir: &Path, access: Access) -> io::Result<()> {
    Ok(rustix::fs::access(dir, access)?)
}
