//! Keeping what is cut off a log, or the whole of one: nothing that was stored is thrown away (PROTOCOL 3, Load).

use std::io;
use std::path::{Path, PathBuf};

use super::fs::{File, FileSystem};

/// Copies the bytes of `log` from `from` up to `len` to a new file beside it, `<log>.cut-<from>`, and makes them
/// durable. To be called, under the log's lock, before the log is cut there. Returns the file's path.
///
/// A cut at the same place that was saved before stays; the new one gets `.1`, `.2` and so on.
///
/// # Errors
/// The errno of the step that failed; the log is as it was, and so should stay.
pub fn save_cut(
    fs: &dyn FileSystem,
    path: &Path,
    log: &dyn File,
    from: u64,
    len: u64,
) -> io::Result<PathBuf> {
    let name = |attempt| if attempt == 0 { format!(".cut-{from}") } else { format!(".cut-{from}.{attempt}") };
    save(fs, path, log, from, len, &name)
}

/// Copies the first `len` bytes of `log` to a new file beside it, `<log>.backup-<n>` with the first `n` that is free,
/// and makes them durable. To be called, under the log's lock, before the log is replaced. Returns the file's path.
///
/// # Errors
/// The errno of the step that failed; the log is as it was, and so should stay.
pub fn save_whole(fs: &dyn FileSystem, path: &Path, log: &dyn File, len: u64) -> io::Result<PathBuf> {
    save(fs, path, log, 0, len, &|attempt| format!(".backup-{}", attempt + 1))
}

fn save(
    fs: &dyn FileSystem,
    path: &Path,
    log: &dyn File,
    from: u64,
    len: u64,
    suffix: &dyn Fn(u32) -> String,
) -> io::Result<PathBuf> {
    let (saved, file) = create(fs, path, suffix)?;
    let copied = copy(file.as_ref(), log, from, len).and_then(|()| file.sync_data());
    let kept = copied.and_then(|()| fs.sync_dir(path.parent().unwrap_or(Path::new(""))));
    if let Err(error) = kept {
        let _ = fs.unlink(&saved);
        return Err(error);
    }
    Ok(saved)
}

fn create(
    fs: &dyn FileSystem,
    path: &Path,
    suffix: &dyn Fn(u32) -> String,
) -> io::Result<(PathBuf, std::sync::Arc<dyn File>)> {
    let mut attempt = 0u32;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix(attempt));
        let saved = PathBuf::from(name);
        match fs.create_new(&saved) {
            Ok(file) => return Ok((saved, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => attempt += 1,
            Err(error) => return Err(error),
        }
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
