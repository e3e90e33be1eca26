//! Every session of a store, of a directory, or one file: read and told, one after the other. Nothing is written.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use super::beside::{is_log, leftovers, without_log};
use super::examine::{Status, examine};
use super::progress::{Progress, Watched};
use super::report::{Owner, SessionReport};
use crate::disk::catalog::find::OddPlace;
use crate::disk::catalog::lineage::lineage_loops;
use crate::disk::catalog::list::{Artifact, Skipped, Status as Found, Walk, walk};
use crate::disk::fs::os::OsFs;
use crate::disk::fs::{FileKind, FileSystem, read_full};
use crate::disk::live::lock::Lock;
use crate::disk::paths::{Encoding, LogPath, generation_of};
use crate::log::Header;
use crate::session::Rules;

/// What is told while a survey goes on.
pub(crate) enum News {
    Session(Box<SessionReport>),
    /// A place that could not be looked into.
    Skipped(Skipped),
}

/// How a survey is made.
pub(crate) struct Surveyor<'s> {
    pub(crate) rules: Rules<'s>,
    pub(crate) progress: &'s Progress,
    pub(crate) tell: &'s mut dyn FnMut(News) -> io::Result<()>,
}

const LOGS: [Encoding; 2] = [Encoding::Plain, Encoding::Zstd];

impl Surveyor<'_> {
    /// Surveys what lies at `path`: a store, one of its directories, a session's directory or a log.
    pub(crate) fn path(&mut self, path: &Path) -> io::Result<()> {
        let path = std::fs::canonicalize(path)?;
        if !path.is_dir() {
            let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            return self.alone(&OsFs::new(dir), Path::new(name), &path);
        }
        if holds_log(&path) {
            return self.session_dir(&path);
        }
        let mut dirs = dirs_in(&path)?;
        let below = |dir: &PathBuf| dirs_in(dir).is_ok_and(|dirs| dirs.iter().any(|dir| holds_log(dir)));
        if dirs.iter().any(below) {
            return self.store(&path);
        }
        dirs.retain(|dir| holds_log(dir));
        if dirs.is_empty() {
            return self.store(&path);
        }
        dirs.iter().try_for_each(|dir| self.session_dir(dir))
    }

    /// Surveys a store; one that is not there has no sessions.
    pub(crate) fn store(&mut self, root: &Path) -> io::Result<()> {
        let fs = OsFs::new(root);
        self.progress.begin(format!("reading headers in {}", root.display()), 0);
        let found = walk(&fs)?;
        let known: HashSet<PathBuf> = found.artifacts.iter().filter_map(dir_of).collect();
        let count = found.artifacts.len();
        let loops = loops_in(&found.artifacts);
        for (index, artifact) in found.artifacts.into_iter().enumerate() {
            self.artifact(&fs, artifact, &loops, &format!("{} of {count}", index + 1))?;
        }
        self.skipped(found.skipped)?;
        self.without_log(&fs, &known)
    }

    /// Surveys what a store holds of one session, wherever it lies.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when that is nothing.
    pub(crate) fn session(&mut self, root: &Path, id: &str) -> io::Result<()> {
        let fs = OsFs::new(root);
        self.progress.begin(format!("reading headers in {}", root.display()), 0);
        let Walk { artifacts: mut found, skipped } = walk(&fs)?;
        let loops = loops_in(&found);
        found.retain(|artifact| artifact.id == id);
        if found.is_empty() && !skipped.iter().any(|skipped| skipped.may_hold) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if found.is_empty() {
            // It may be there.
            return self.skipped(skipped);
        }
        let count = found.len();
        for (index, artifact) in found.into_iter().enumerate() {
            self.artifact(&fs, artifact, &loops, &format!("{} of {count}", index + 1))?;
        }
        Ok(())
    }

    fn skipped(&mut self, skipped: Vec<Skipped>) -> io::Result<()> {
        skipped.into_iter().try_for_each(|skipped| (self.tell)(News::Skipped(skipped)))
    }

    fn artifact(
        &mut self,
        fs: &OsFs,
        artifact: Artifact,
        loops: &HashMap<String, String>,
        at: &str,
    ) -> io::Result<()> {
        let path = artifact.path.display().to_string();
        let mut report = SessionReport::new(artifact.id.clone(), path, Status::Ok);
        if let Some(log) = &artifact.log {
            match self.read(fs, &log.log(), log.encoding(), &mut report, at) {
                // Deleted since the walk.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => report.unreadable(&error),
                Ok(_) => {}
            }
            report.notes.extend(leftovers(fs, &log.session_dir()));
        }
        if let Some(looped) = parent_of(&artifact).and_then(|(id, _)| loops.get(id)) {
            report.descends_from_itself(looped.clone());
        }
        if let Some(reason) = artifact.reason {
            report.walked(artifact.status, artifact.class, reason);
        }
        (self.tell)(News::Session(Box::new(report)))
    }

    /// Reads one log into its report; gives its header.
    fn read(
        &mut self,
        fs: &OsFs,
        path: &Path,
        encoding: Encoding,
        report: &mut SessionReport,
        at: &str,
    ) -> io::Result<Option<Header>> {
        let file = fs.open_read(path)?;
        let len = file.metadata()?.len;
        self.progress.begin(format!("{at}: {}", report.session), len);
        let source = Watched { source: file.as_ref(), progress: self.progress };
        let examined = examine(&source, len, encoding, self.rules);
        let header = examined.log.as_ref().map(|log| log.scan.header.clone());
        report.bytes = len;
        report.add(examined);
        if report.status != Status::Ok {
            // Asked of what has something to say only: it takes the lock for a moment.
            if let Ok(Some(holder)) = Lock::holder(fs, path) {
                let (pid, since) = (holder.map(|holder| holder.pid), holder.map(|holder| holder.since_ms));
                report.locked_by = Some(Owner { pid, since });
            }
        }
        Ok(header)
    }

    fn session_dir(&mut self, dir: &Path) -> io::Result<()> {
        let fs = OsFs::new(dir);
        let logs: Vec<Encoding> =
            LOGS.into_iter().filter(|log| is_there(&dir.join(log.file_name()))).collect();
        if logs.len() > 1 {
            let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let mut report = SessionReport::new(name.clone(), name.clone(), Status::Ok);
            let odd = OddPlace::BothEncodings(PathBuf::from(name));
            report.misplaced(odd.class(), odd.to_string());
            (self.tell)(News::Session(Box::new(report)))?;
        }
        let logs = logs.into_iter().map(|log| PathBuf::from(log.file_name())).chain(later_logs(dir));
        logs.into_iter().try_for_each(|name| self.alone(&fs, &name, &dir.join(&name)))
    }

    /// Surveys one log by itself, wherever it lies.
    fn alone(&mut self, fs: &OsFs, name: &Path, full: &Path) -> io::Result<()> {
        let shown = name.display().to_string();
        let encoding =
            if shown.ends_with(".zstd") || is_zstd(fs, name) { Encoding::Zstd } else { Encoding::Plain };
        let mut report = SessionReport::new(shown, full.display().to_string(), Status::Ok);
        match self.read(fs, name, encoding, &mut report, "1 of 1") {
            Ok(None) => {}
            Ok(Some(header)) => {
                report.session = header.id.as_str().to_owned();
                let own = header.parent_session.as_deref().map(|parent| (header.id.as_str(), parent));
                for looped in lineage_loops(own).into_values() {
                    report.descends_from_itself(looped);
                }
                let belongs = LogPath::new(header.cwd.as_deref(), header.id.as_str(), encoding);
                let belongs = belongs.map(|path| path.log()).ok().filter(|log| !full.ends_with(log));
                if let Some(belongs) = belongs {
                    report.notes.push(format!("a store finds it at {} only", belongs.display()));
                }
            }
            // A link, a pipe, or nothing that may be read.
            Err(error) => report.unreadable(&error),
        }
        if Encoding::of_file_name(name.as_os_str()).is_some() {
            report.notes.extend(leftovers(fs, Path::new("")));
        }
        (self.tell)(News::Session(Box::new(report)))
    }

    /// Tells of session directories in which there is no log.
    fn without_log(&mut self, fs: &OsFs, known: &HashSet<PathBuf>) -> io::Result<()> {
        let Ok(root) = fs.list_dir(Path::new("")) else { return Ok(()) };
        for project in root.iter().filter(|entry| entry.kind == FileKind::Dir) {
            let project = Path::new(&project.name);
            for entry in fs.list_dir(project).unwrap_or_default() {
                let dir = project.join(&entry.name);
                if entry.kind != FileKind::Dir || known.contains(&dir) || entry.name.to_str().is_none() {
                    continue;
                }
                // The walk has told of one that cannot be read; it, or its log, may have come or gone since.
                let Ok(entries) = fs.list_dir(&dir) else { continue };
                if entries.iter().any(|entry| is_log(&entry.name)) {
                    continue;
                }
                let name = entry.name.to_string_lossy().into_owned();
                let mut report = SessionReport::new(name, dir.display().to_string(), Status::Empty);
                report.notes = without_log(&dir, &entries);
                (self.tell)(News::Session(Box::new(report)))?;
            }
        }
        Ok(())
    }
}

/// A session that is where its header belongs, and the parent that it names.
fn parent_of(artifact: &Artifact) -> Option<(&str, &str)> {
    let header = artifact.header.as_ref()?;
    let is_there = matches!(artifact.status, Found::Ok | Found::Superseded);
    is_there.then_some((artifact.id.as_str(), header.parent_session.as_deref()?))
}

/// What is said of each session that is its own ancestor, by ids.
fn loops_in(artifacts: &[Artifact]) -> HashMap<String, String> {
    let loops = lineage_loops(artifacts.iter().filter_map(parent_of));
    loops.into_iter().map(|(id, looped)| (id.to_owned(), looped)).collect()
}

fn holds_log(dir: &Path) -> bool {
    LOGS.iter().any(|log| is_there(&dir.join(log.file_name()))) || !later_logs(dir).is_empty()
}

/// The names of a directory's logs of later generations, in byte order.
fn later_logs(dir: &Path) -> Vec<PathBuf> {
    let names =
        std::fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut logs: Vec<PathBuf> =
        names.filter(|name| generation_of(name).is_some()).map(PathBuf::from).collect();
    logs.sort();
    logs
}

/// Whether something has that name, be it a link that leads nowhere.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn is_zstd(fs: &OsFs, name: &Path) -> bool {
    let mut magic = [0; 4];
    let read = fs.open_read(name).and_then(|file| read_full(file.as_ref(), 0, &mut magic));
    read.is_ok() && magic == [0x28, 0xB5, 0x2F, 0xFD]
}

/// The directories in a directory, in byte order.
fn dirs_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut dirs: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    dirs.sort();
    Ok(dirs)
}

fn dir_of(artifact: &Artifact) -> Option<PathBuf> {
    artifact.path.parent().map(Path::to_path_buf)
}
