//! A private directory for one run: the store and the fault files, removed afterwards.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;

/// Bytes of a fixture.
const MAX_COPIED: u64 = 1 << 30;

/// The directory; dropping it removes it.
#[derive(Debug)]
pub(super) struct Scratch {
    root: TempDir,
}

impl Scratch {
    /// Creates an empty directory that only this user can read, with an empty store in it.
    pub(super) fn create() -> io::Result<Self> {
        let private = Permissions::from_mode(0o700);
        let parent = std::env::temp_dir().canonicalize()?;
        let root =
            tempfile::Builder::new().prefix("sessiond-replay-").permissions(private).tempdir_in(parent)?;
        let scratch = Self { root };
        DirBuilder::new().mode(0o700).create(scratch.store())?;
        Ok(scratch)
    }

    /// The store's root.
    pub(super) fn store(&self) -> PathBuf {
        self.root.path().join("store")
    }

    /// The fault file of the daemon with this number.
    pub(super) fn faults(&self, number: usize) -> PathBuf {
        self.root.path().join(format!("faults-{number}"))
    }
}

/// Copies what is in a directory below `base` into another, as [`copy_tree`] does. No link on the way there may lead out of
/// `base`: a transcript may come from anywhere, and reaches nothing but what came with it.
pub(super) fn copy_below(base: &Path, name: &Path, into: &Path) -> io::Result<()> {
    let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    let (base, from) = (base.canonicalize()?, base.join(name).canonicalize()?);
    if !from.starts_with(&base) {
        return Err(io::Error::other("a link leads out of the transcript's directory"));
    }
    copy_tree(&from, into)
}

/// Copies what is in one directory into another, over what is there, and follows no link. Links stay links, and may
/// not lead out of the copy: what is copied later, or a daemon, might follow them.
fn copy_tree(from: &Path, into: &Path) -> io::Result<()> {
    let mut todo = vec![(from.to_owned(), into.to_owned(), 0)];
    let mut room = MAX_COPIED;
    while let Some((from, into, depth)) = todo.pop() {
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let (source, target) = (entry.path(), into.join(entry.file_name()));
            let refuse = |why: &str| io::Error::other(format!("{} {why}", source.display()));
            let kind = entry.file_type()?;
            let there = fs::symlink_metadata(&target).ok().map(|there| there.file_type());
            if there.is_some_and(|there| there.is_symlink()) {
                fs::remove_file(&target)?;
            }
            if kind.is_dir() {
                if !there.is_some_and(|there| there.is_dir()) {
                    fs::create_dir(&target)?;
                }
                todo.push((source, target, depth + 1));
            } else if kind.is_symlink() {
                let link = fs::read_link(&source)?;
                if !stays_below(&link, depth) {
                    return Err(refuse("is a link that leads out of the fixture"));
                }
                symlink(link, &target)?;
            } else if kind.is_file() {
                let len = entry.metadata()?.len();
                room = room.checked_sub(len).ok_or_else(|| refuse("makes the fixture too large"))?;
                fs::copy(&source, &target)?;
            } else {
                return Err(refuse("is neither a file nor a directory nor a link"));
            }
        }
    }
    Ok(())
}

/// Whether a link in a directory so deep below a root leads to something below that root, as all links there do.
fn stays_below(link: &Path, depth: usize) -> bool {
    let up = link.components().take_while(|part| matches!(part, Component::ParentDir)).count();
    up <= depth && link.components().skip(up).all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_is_private_and_goes_away() {
        let (one, two) = (Scratch::create().unwrap(), Scratch::create().unwrap());
        assert_ne!(one.store(), two.store());
        assert_eq!(fs::metadata(one.root.path()).unwrap().permissions().mode() & 0o777, 0o700);
        let root = one.root.path().to_owned();
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

    #[test]
    fn nothing_outside_is_copied() {
        let (outside, base, into) =
            (Scratch::create().unwrap(), Scratch::create().unwrap(), Scratch::create().unwrap());
        fs::create_dir_all(base.store().join("fixture/deep")).unwrap();
        fs::write(base.store().join("fixture/deep/f"), "x").unwrap();
        fs::write(outside.store().join("secret"), "x").unwrap();
        symlink(outside.store(), base.store().join("out")).unwrap();
        symlink("..", base.store().join("up")).unwrap();
        symlink("fixture", base.store().join("same")).unwrap();
        fs::create_dir(outside.store().join("below")).unwrap();
        for name in ["out", "out/below", "up", "up/store/../store/out"] {
            let error = copy_below(&base.store(), Path::new(name), &into.store()).unwrap_err().to_string();
            assert!(error.contains("leads out of the transcript's directory"), "{name}: {error}");
        }
        assert_eq!(fs::read_dir(into.store()).unwrap().count(), 0);
        for name in ["fixture", "same", "./same", "up/store/fixture"] {
            copy_below(&base.store(), Path::new(name), &into.store()).unwrap();
            assert!(into.store().join("deep/f").is_file(), "{name}");
            fs::remove_dir_all(into.store().join("deep")).unwrap();
        }
    }

    #[test]
    fn no_link_leads_a_copy_out() {
        let (outside, store, first, second) = (
            Scratch::create().unwrap(),
            Scratch::create().unwrap(),
            Scratch::create().unwrap(),
            Scratch::create().unwrap(),
        );
        let (outside, store) = (outside.store(), store.store());
        for link in [outside.as_path(), Path::new(".."), Path::new("x/../.."), Path::new("/")] {
            symlink(link, first.store().join("link")).unwrap();
            let error = copy_tree(&first.store(), &store).unwrap_err().to_string();
            assert!(error.contains("leads out of the fixture"), "{error}");
            fs::remove_file(first.store().join("link")).unwrap();
        }
        // A link that something else left there is replaced and not followed.
        symlink(&outside, store.join("dir")).unwrap();
        symlink(outside.join("f"), store.join("file")).unwrap();
        fs::create_dir(second.store().join("dir")).unwrap();
        fs::write(second.store().join("dir/f"), "x").unwrap();
        fs::write(second.store().join("file"), "x").unwrap();
        copy_tree(&second.store(), &store).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(
            store.join("dir/f").is_file()
                && !store.join("dir").is_symlink()
                && !store.join("file").is_symlink()
        );
    }
}
