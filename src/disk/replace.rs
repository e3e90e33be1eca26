//! Putting a repaired log in the place of a damaged one: at every moment the name stands for one of them, whole.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::fs::{File, FileSystem};
use super::lock::{Lock, contained};
use super::paths::LogPath;
use super::publish::{Piece, PublishError, copy_all, step, temp_name, write_all};
use super::summary::SUMMARY_FILE;

/// A repaired log under a temporary name, synced and locked; gone when dropped without [`commit`](Self::commit).
pub struct Replacement {
    fs: Arc<dyn FileSystem>,
    path: LogPath,
    temp: Option<PathBuf>,
    file: Arc<dyn File>,
    len: u64,
}

impl Replacement {
    /// Writes what is to replace the log at `path`.
    ///
    /// # Errors
    /// [`PublishError`]; nothing was changed.
    pub fn prepare(
        fs: &Arc<dyn FileSystem>,
        path: &LogPath,
        content: &[Piece<'_>],
    ) -> Result<Self, PublishError> {
        let temp = temp_name(&path.log());
        let file = fs.create_new(&temp).map_err(step("create the file"))?;
        let mut this = Self { fs: Arc::clone(fs), path: path.clone(), temp: Some(temp), file, len: 0 };
        for piece in content {
            this.len += match *piece {
                Piece::Bytes(bytes) => write_all(this.file.as_ref(), bytes)?,
                Piece::Range { file, from, to } => copy_all(this.file.as_ref(), file, from, to)?,
            };
        }
        this.file.sync_data().map_err(step("sync the file"))?;
        // Whoever opens the log after the rename finds it locked until this ends.
        Lock::lock_unpublished(this.file.as_ref())?;
        Ok(this)
    }

    /// The new content, for a last look at it.
    #[must_use]
    pub fn file(&self) -> &dyn File {
        self.file.as_ref()
    }

    /// Its size.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.len
    }

    /// Gives it the log's name. `old` owns the log, which had `expected` bytes when it was read.
    ///
    /// # Errors
    /// [`PublishError::SourceTooShort`] when another program changed the log meanwhile, [`PublishError::Io`]: the log
    /// is as it was; [`PublishError::Unsettled`]: it is replaced, but power loss may bring the old one back.
    pub fn commit(mut self, old: &Lock, expected: u64) -> Result<(), PublishError> {
        let actual = old.file().metadata().map_err(step("examine the log"))?;
        if actual.len != expected || actual.links == 0 {
            return Err(PublishError::SourceTooShort { missing: expected.saturating_sub(actual.len) });
        }
        let Some(temp) = self.temp.take() else { return Ok(()) };
        if let Err(source) = self.fs.rename(&temp, &self.path.log()) {
            self.temp = Some(temp);
            return Err(PublishError::Io { step: "name the file", source });
        }
        let dir = self.path.session_dir();
        // What a list was told of the old log; should it stay, its size decides.
        let _ = self.fs.unlink(&dir.join(SUMMARY_FILE));
        self.fs.sync_dir(&dir).map_err(|source: io::Error| PublishError::Unsettled { source })
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(temp) = self.temp.take() {
            contained(|| drop(self.fs.unlink(&temp)));
        }
        contained(|| drop(self.file.unlock()));
    }
}
