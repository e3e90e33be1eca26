//! Keeping what is cut off a log, or the whole of one: nothing that was stored is thrown away (PROTOCOL 3, Load). What is
//! kept has its name when it is whole and synced, so that nobody takes what a killed process has left for all there was.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::fs::{File, FileSystem};
use crate::disk::live::lock::LockError;
use crate::disk::live::publish::PublishError;
use crate::disk::live::temporary::Temporary;
use crate::disk::paths::CUT;

/// Copies the bytes of `log` from `from` up to `len` to a new file beside it, `<log>.cut-<from>`, and makes them
/// durable. To be called, under the log's lock, before the log is cut there. Returns the file's path.
///
/// A cut at the same place that was saved before stays; the new one gets `.1`, `.2` and so on.
///
/// # Errors
/// The errno of the step that failed; the log is as it was, and so should stay.
pub fn save_cut(
    fs: &Arc<dyn FileSystem>,
    path: &Path,
    log: &dyn File,
    from: u64,
    len: u64,
) -> io::Result<PathBuf> {
    let name = |attempt| if attempt == 0 { format!("{CUT}{from}") } else { format!("{CUT}{from}.{attempt}") };
    save(fs, path, log, from, len, &name)
}

/// Copies the first `len` bytes of `log` to a new file beside it, `<log>.backup-<n>` with the first `n` that is free,
/// and makes them durable. To be called, under the log's lock, before the log is replaced. Returns the file's path.
///
/// # Errors
/// The errno of the step that failed; the log is as it was, and so should stay.
pub fn save_whole(fs: &Arc<dyn FileSystem>, path: &Path, log: &dyn File, len: u64) -> io::Result<PathBuf> {
    save(fs, path, log, 0, len, &|attempt| format!(".backup-{}", attempt + 1))
}

/// Names the files that hold what was cut off a log: eight at most, and how many more there are. `None` without files.
pub(crate) fn told(cuts: &[String]) -> Option<String> {
    const MOST: usize = 8;
    let (named, more) = cuts.split_at_checked(MOST).unwrap_or((cuts, &[]));
    let names = named.join(", ");
    let more = if more.is_empty() { String::new() } else { format!(" and {} more files", more.len()) };
    (!cuts.is_empty()).then(|| format!("what was cut off the log is kept beside it in {names}{more}"))
}

fn save(
    fs: &Arc<dyn FileSystem>,
    path: &Path,
    log: &dyn File,
    from: u64,
    len: u64,
    suffix: &dyn Fn(u64) -> String,
) -> io::Result<PathBuf> {
    let temp = Temporary::create(fs, path).map_err(why)?;
    copy(temp.file().as_ref(), log, from, len)?;
    temp.file().sync_data()?;
    let saved = give_name(fs.as_ref(), temp.path(), path, suffix)?;
    drop(temp);
    if let Err(error) = fs.sync_dir(path.parent().unwrap_or(Path::new(""))) {
        let _ = fs.unlink(&saved);
        return Err(error);
    }
    Ok(saved)
}

/// Gives it the first name that nothing has.
fn give_name(
    fs: &dyn FileSystem,
    temp: &Path,
    path: &Path,
    suffix: &dyn Fn(u64) -> String,
) -> io::Result<PathBuf> {
    let mut attempt = 0;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix(attempt));
        let saved = PathBuf::from(name);
        match fs.hard_link(temp, &saved) {
            Ok(()) => return Ok(saved),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The I/O error behind a file that could not be made.
fn why(error: PublishError) -> io::Error {
    match error {
        PublishError::Io { source, .. }
        | PublishError::Lock(LockError::Io(source) | LockError::Unsupported(source)) => source,
        error => io::Error::other(error),
    }
}

fn copy(to: &dyn File, log: &dyn File, from: u64, len: u64) -> io::Result<()> {
    let mut at = from;
    while at < len {
        match to.copy_from(log, at, len - at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => at += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_cuts_stays_short() {
        let cuts: Vec<String> = (0..11).map(|n| format!("l.cut-{n}")).collect();
        assert_eq!(told(&[]), None);
        let one = "what was cut off the log is kept beside it in l.cut-0";
        assert_eq!(told(cuts.get(..1).unwrap_or_default()).as_deref(), Some(one));
        let many = told(&cuts).unwrap_or_default();
        assert!(many.ends_with("l.cut-6, l.cut-7 and 3 more files"), "{many}");
    }
}
