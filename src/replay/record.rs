//! Writing a transcript while a live client talks to the daemon.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::blank::blanked;
use super::flags;
use super::transcript::{ARGS, Item, Step, is_plain};

/// What a recording says about itself.
#[derive(Debug, Clone)]
pub struct Recording<'a> {
    /// The transcript's title.
    pub title: &'a str,
    /// The flags with which a replay starts its daemons, word by word.
    pub args: &'a [String],
}

/// Writes the lines of a conversation to a transcript file that only this user can read, without the secrets of MCP
/// servers. A failure is returned once; after it the recorder does nothing any more.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    /// None after a failure.
    file: Option<BufWriter<File>>,
    answered: bool,
    ended: bool,
}

/// Why there is no recording, or no more of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file exists.
    #[error("{0} exists already; choose another name for the recording, or remove it")]
    Exists(PathBuf),
    /// The file cannot be created.
    #[error("cannot create the recording {path}: {source}")]
    Create {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Title or flags do not fit on a line.
    #[error("title and flags of a recording are text without control characters: {0:?}")]
    NotPlain(String),
    /// Writing failed.
    #[error("cannot write to the recording {path}: {source}; what follows is not recorded")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Recorder {
    /// Creates the file, which must not exist, with mode 0600.
    pub fn create(path: &Path, recording: &Recording<'_>) -> Result<Self, RecordError> {
        let title = Item::Comment(recording.title.to_owned()).print();
        let args = Item::Comment(format!("{ARGS}{}", flags::print(recording.args))).print();
        for (text, given) in [(&title, recording.title), (&args, args.as_str())] {
            if !is_plain(text) || given.is_empty() || recording.title.starts_with(ARGS) {
                return Err(RecordError::NotPlain(given.to_owned()));
            }
        }
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists(path.to_owned()),
            _ => RecordError::Create { path: path.to_owned(), source },
        })?;
        let file = Some(BufWriter::with_capacity(1 << 16, file));
        let mut recorder = Self { path: path.to_owned(), file, answered: true, ended: false };
        recorder.write(format!("{title}\n{args}\n").as_bytes())?;
        Ok(recorder)
    }

    /// Notes a line from the client, without its newline; to be called before the lines that it causes are noted.
    pub fn received(&mut self, line: &[u8]) -> Result<(), RecordError> {
        self.receive(line, true)
    }

    /// Notes the bytes after the last newline, at the end of the client's input.
    pub fn received_unended(&mut self, line: &[u8]) -> Result<(), RecordError> {
        self.receive(line, false)
    }

    /// Notes a line that was skipped because of its length; as many bytes, all the same, stand for it.
    pub fn received_oversized(&mut self, length: u64) -> Result<(), RecordError> {
        self.separate()?;
        self.write(b"> ")?;
        let mut left = length.max(1);
        while left > 0 {
            let part = [b'x'; 4096];
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(part.len());
            self.write(part.get(..count).unwrap_or_default())?;
            left -= count as u64;
        }
        self.write(b"\n")
    }

    /// Notes a line that went to the client, without its newline.
    pub fn sent(&mut self, line: &[u8]) -> Result<(), RecordError> {
        self.answered = true;
        self.write_item(&Item::Expect(line.to_vec()))
    }

    /// Notes that the client has closed the daemon's stdin; lines may still be sent.
    pub fn end_of_input(&mut self) -> Result<(), RecordError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        self.separate()?;
        self.write_item(&Item::Step(Step::Eof))
    }

    /// Writes what is still buffered.
    pub fn finish(mut self) -> Result<(), RecordError> {
        self.attempt(|file| file.flush())
    }

    fn receive(&mut self, line: &[u8], ended: bool) -> Result<(), RecordError> {
        self.separate()?;
        self.write_item(&Item::send(&blanked(line), ended))
    }

    /// An empty line before what follows an answer.
    fn separate(&mut self) -> Result<(), RecordError> {
        if std::mem::replace(&mut self.answered, false) { self.write(b"\n") } else { Ok(()) }
    }

    fn write_item(&mut self, item: &Item) -> Result<(), RecordError> {
        let mut text = item.print();
        text.push('\n');
        self.write(text.as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        self.attempt(|file| file.write_all(bytes))
    }

    fn attempt(
        &mut self,
        act: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), RecordError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        act(file).map_err(|source| {
            // Taken apart, so that dropping it does not try to write once more.
            if let Some(file) = self.file.take() {
                let _ = file.into_parts();
            }
            RecordError::Write { path: self.path.clone(), source }
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_and_stops_nothing() {
        let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else { return };
        let file = Some(BufWriter::with_capacity(16, full));
        let mut recorder = Recorder { path: "/dev/full".into(), file, answered: true, ended: false };
        let line = [b'x'; 100];
        let error = recorder.received(&line).unwrap_err().to_string();
        assert!(error.contains("/dev/full") && error.contains("what follows is not recorded"), "{error}");
        recorder.sent(&line).unwrap();
        recorder.end_of_input().unwrap();
        recorder.finish().unwrap();
    }
}
