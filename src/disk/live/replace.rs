//! Putting a repaired log in the place of a damaged one: at every moment the name stands for one of them, whole.

use std::io;
use std::sync::Arc;

use super::lock::{Lock, contained};
use super::publish::{Piece, PublishError, copy_all, step, write_all};
use super::temporary::Temporary;
use crate::disk::fs::{File, FileSystem};
use crate::disk::paths::{LogPath, SUMMARY_FILE};

/// A repaired log under a temporary name, synced and locked; gone when dropped without [`commit`](Self::commit).
pub struct Replacement {
    fs: Arc<dyn FileSystem>,
    path: LogPath,
    temp: Temporary,
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
        let temp = Temporary::create(fs, &path.log())?;
        let mut this = Self { fs: Arc::clone(fs), path: path.clone(), temp, len: 0 };
        for piece in content {
            this.len += match *piece {
                Piece::Bytes(bytes) => write_all(this.file(), bytes)?,
                Piece::Range { file, from, to } => copy_all(this.file(), file, from, to)?,
            };
        }
        this.file().sync_data().map_err(step("sync the file"))?;
        Ok(this) // locked: whoever opens the log after the rename finds it so until this ends
    }

    /// The new content, for a last look at it.
    #[must_use]
    pub fn file(&self) -> &dyn File {
        self.temp.file().as_ref()
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
    pub fn commit(self, old: &Lock, expected: u64) -> Result<(), PublishError> {
        let actual = old.file().metadata().map_err(step("examine the log"))?;
        if actual.len != expected || actual.links == 0 {
            return Err(PublishError::SourceTooShort { missing: expected.saturating_sub(actual.len) });
        }
        self.fs.rename(self.temp.path(), &self.path.log()).map_err(step("name the file"))?;
        let dir = self.path.session_dir();
        // What a list was told of the old log; should it stay, its size decides.
        let _ = self.fs.unlink(&dir.join(SUMMARY_FILE));
        self.fs.sync_dir(&dir).map_err(|source: io::Error| PublishError::Unsettled { source })
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        contained(|| drop(self.file().unlock()));
    }
}
