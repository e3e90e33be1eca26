//! A private directory for one run: the store and the fault files, removed afterwards.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The directory; dropping it removes it.
#[derive(Debug)]
pub(super) struct Scratch {
    root: PathBuf,
}

impl Scratch {
    /// Creates an empty directory that only this user can read, with an empty store in it.
    pub(super) fn create() -> io::Result<Self> {
        let parent = std::env::temp_dir().canonicalize()?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let root = parent.join(format!("sessiond-replay-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&root) {
                Ok(()) => {
                    let scratch = Self { root };
                    DirBuilder::new().mode(0o700).create(scratch.store())?;
                    return Ok(scratch);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The store's root.
    pub(super) fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// The fault file of the daemon with this number.
    pub(super) fn faults(&self, number: usize) -> PathBuf {
        self.root.join(format!("faults-{number}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing more can be done about a directory that cannot be removed.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Copies what is in one directory into another, over what is there; links stay links.
pub(super) fn copy_tree(from: &Path, into: &Path) -> io::Result<()> {
    let mut todo = vec![(from.to_owned(), into.to_owned())];
    while let Some((from, into)) = todo.pop() {
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let (source, target) = (entry.path(), into.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !target.is_dir() {
                    fs::create_dir(&target)?;
                }
                todo.push((source, target));
            } else if kind.is_symlink() {
                symlink(fs::read_link(&source)?, &target)?;
            } else {
                fs::copy(&source, &target)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_scratch_directory_is_private_and_goes_away() {
        let (one, two) = (Scratch::create().unwrap(), Scratch::create().unwrap());
        assert_ne!(one.store(), two.store());
        assert_eq!(fs::metadata(&one.root).unwrap().permissions().mode() & 0o777, 0o700);
        let root = one.root.clone();
        drop(one);
        assert!(!root.exists() && two.store().is_dir());
    }

    #[test]
    fn trees_are_copied_over_what_is_there() {
        let scratches = (Scratch::create().unwrap(), Scratch::create().unwrap());
        let (from, into) = (scratches.0.store(), scratches.1.store());
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::create_dir_all(into.join("a/c")).unwrap();
        fs::write(from.join("a/b/f"), "new").unwrap();
        symlink("b", from.join("a/link")).unwrap();
        copy_tree(&from, &into).unwrap();
        assert_eq!(fs::read_to_string(into.join("a/link/f")).unwrap(), "new");
        assert!(into.join("a/c").is_dir() && into.join("a/link").is_symlink());
        fs::write(from.join("a/b/f"), "newer").unwrap();
        fs::remove_file(from.join("a/link")).unwrap();
        copy_tree(&from, &into).unwrap();
        assert_eq!(fs::read_to_string(into.join("a/b/f")).unwrap(), "newer");
    }
}
