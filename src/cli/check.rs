//! `sessiond verify` and `sessiond repair`: flags in, exit code out.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::between;
use super::exit_code::{COULD_NOT_START, FOUND_SOMETHING, USAGE};
use crate::disk::catalog::find::{FindError, find};
use crate::disk::catalog::list::Skipped;
use crate::disk::fs::os::OsFs;
use crate::disk::live::lock::Holder;
use crate::log::SessionId;
use crate::server::Clock;
use crate::session::{Limits, Rules, Vocabulary};
use crate::store::check::mending::{Repair, RepairError};
use crate::store::check::progress::Progress;
use crate::store::check::report::{Summary, shown};
use crate::store::check::survey::{News, Surveyor};
use crate::store::{Root, RootError, StoreChoice};

/// The flags of `sessiond verify`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Statuses, exit codes and limits: sessiond verify --help",
    after_long_help = "\
Every log is read as a load reads it; nothing is written, and sessions that are open elsewhere are read too.

Each record is judged, the first hundred problems of a log are named. Each session has a status:
  ok           it loads as it is
  repairable   it loads, and its first write mends what a crash or a running writer has left: a torn last
               record, a missing line end, an open turn
  damaged      it loads, but would lose whole events, or records that no crash explains (they are kept beside the
               log)
  corrupt      it is refused: damage, a broken rule, an odd place, an id that is stored twice
  unsupported  it is refused: another format version, or event types that are not known (see --event-type)
  superseded   it is refused: a log of a later generation of the format beside it continues it
  limit        it is refused: over a limit (see --max-event-bytes and --max-depth)
  unreadable   the disk does not give it
  empty        a session directory without a log

With --json one object per line and session: {session, path, status, bytes, events, problems: [{line?, byte?,
class, message}], moreProblems?, tornTail?: {offset, bytes, events}, missingNewline?, closers?, stranded?,
lockedBy?: {pid?, since?}, notes?}; {skipped, reason} for places that could not be looked into; and at the end {summary:
{sessions, ok, repairable, …}}. Lines count from 1, the header; bytes from 0.

A session whose parents lead back to itself loads, and is told as a problem of the class LINEAGE_LOOP.

Exit code: 0 when every session is ok, repairable or empty, and none is its own ancestor; 1 when something else was
found; 2 usage; 3 when the store, or all that was asked for, could not be read: not there, or unreadable."
)]
pub struct VerifyArgs {
    /// A store, a session's directory, a log or an id.
    ///
    /// The id is of a session in the store; by default it is the store that `serve` would open. Of a path and an id
    /// of one name the path is read, with --store the id: ./NAME is a path always.
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shared: SharedArgs,
}

/// The flags of `sessiond repair`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What is kept, exit codes and limits: sessiond repair --help",
    after_long_help = "\
A session that loads is mended as the first write after a load would: a torn end is kept beside the log and cut
off, a missing line end added, an open turn closed. Of a session that a load refuses as corrupt the longest valid
prefix is kept, an open turn in it closed; the whole log as it was stays beside it as <log>.backup-<n>.
Not repaired: other format versions, unknown event types, what is over a limit, logs without a header, odd places.

Exit code: 0 when it is repaired (or would be) or there is nothing to do; 1 when it is not repaired, or not there;
2 usage; 3 when the store, or the session's log, could not be read."
)]
pub struct RepairArgs {
    /// The session, by its id; never a path.
    #[arg(value_name = "ID")]
    id: String,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    shared: SharedArgs,
}

#[derive(Debug, clap::Args)]
struct SharedArgs {
    /// Where sessions are kept: jsonl:DIR.
    ///
    /// By default $SESSIOND_STORE, else the user's state directory.
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// An event type of yours; may be repeated.
    ///
    /// Sessions may hold it beyond the known ones, as where a client declares it.
    #[arg(long = "event-type", value_name = "TYPE")]
    event_types: Vec<String>,
    /// Bytes of one encoded event, as for serve: a log with larger ones is refused; 4 KiB to 1 GiB.
    #[arg(long, hide_short_help = true, value_name = "BYTES", default_value_t = 16 << 20, value_parser = between::<u64, { 4 << 10 }, { 1 << 30 }>)]
    max_event_bytes: u64,
    /// Nesting in an event's data, as for serve; 8 to 10,000.
    #[arg(long, hide_short_help = true, value_name = "LEVELS", default_value_t = 1_000, value_parser = between::<u32, 8, 10_000>)]
    max_depth: u32,
}

impl SharedArgs {
    /// The store's directory, which is there if somebody names it, or what is wrong with the one that is asked for and the exit code for that.
    fn root(&self) -> Result<PathBuf, (String, u8)> {
        match StoreChoice::resolve(self.store.as_deref()) {
            Ok(StoreChoice::Jsonl(root)) => match Root::existing(&root) {
                Ok(_) => Ok(root),
                Err(RootError::NotThere(_)) if !StoreChoice::is_named(self.store.as_deref()) => Ok(root),
                Err(error) => Err((error.to_string(), COULD_NOT_START)),
            },
            Ok(StoreChoice::Memory) => {
                Err(("a memory: store keeps nothing; give --store jsonl:DIR".to_owned(), USAGE))
            }
            Err(error) => Err((error.to_string(), if error.is_usage() { USAGE } else { COULD_NOT_START })),
        }
    }

    fn limits(&self) -> Limits {
        let max_event_bytes = usize::try_from(self.max_event_bytes).unwrap_or(usize::MAX);
        Limits { max_event_bytes, max_depth: self.max_depth, ..Limits::default() }
    }

    fn vocabulary(&self) -> Vocabulary {
        let mut vocabulary = Vocabulary::default();
        for name in &self.event_types {
            vocabulary.declare(name, true);
        }
        vocabulary
    }
}

/// What is to be verified.
enum Target {
    /// What lies there.
    Path(PathBuf),
    /// The logs of one session; where none is stored, what lies at the path.
    Session { root: PathBuf, id: SessionId, path: Option<PathBuf> },
    /// All sessions.
    Store(PathBuf),
}

impl Target {
    /// Of a path and an id of one name the path is meant, but where a store is named and the path could be an id only.
    fn of(args: &VerifyArgs) -> Result<Self, (String, u8)> {
        let Some(path) = &args.path else { return args.shared.root().map(Self::Store) };
        // A link that leads nowhere is there too.
        let is_there = path.symlink_metadata().is_ok();
        let id_first = args.shared.store.is_some() && !path.as_os_str().as_encoded_bytes().contains(&b'/');
        match id_of(path).filter(|_| !is_there || id_first) {
            None => Ok(Self::Path(path.clone())),
            Some(id) => match args.shared.root() {
                Ok(root) => Ok(Self::Session { root, id, path: is_there.then(|| path.clone()) }),
                Err((problem, code)) if is_there => Err((problem, code)),
                Err((problem, code)) => {
                    Err((format!("{:?} is not there as a path; {problem}", id.as_str()), code))
                }
            },
        }
    }

    fn survey(&self, surveyor: &mut Surveyor<'_>) -> io::Result<()> {
        match self {
            Self::Path(path) => surveyor.path(path),
            Self::Session { root, id, path } => match (surveyor.session(root, id.as_str()), path) {
                (Err(error), Some(path)) if error.kind() == io::ErrorKind::NotFound => surveyor.path(path),
                (surveyed, _) => surveyed,
            },
            Self::Store(root) => surveyor.store(root),
        }
    }

    /// Which of a path and an id of one name is read.
    fn choice(&self, shared: &SharedArgs) -> Option<String> {
        match self {
            Self::Store(_) | Self::Session { path: None, .. } => None,
            Self::Session { root, id, path: Some(path) } => {
                let (name, root) = (id.as_str(), root.display());
                Some(match is_stored(&self.root(shared)?, id) {
                    true => format!(
                        "the session {name:?} of {root} is read, which is also a path here: write ./{name} for that"
                    ),
                    false => format!(
                        "no session {name:?} is stored in {root}: what lies at the path {} is read",
                        path.display()
                    ),
                })
            }
            Self::Path(path) => {
                let (id, root) = (id_of(path)?, self.root(shared)?);
                let is_stored = is_stored(&root, &id);
                is_stored.then(|| {
                    let (path, root) = (path.display(), root.display());
                    format!("what lies at the path {path} is read; a session of that id is in {root}, too: name the store with --store for that")
                })
            }
        }
    }

    fn root(&self, shared: &SharedArgs) -> Option<PathBuf> {
        match self {
            Self::Session { root, .. } => Some(root.clone()),
            _ => shared.root().ok(),
        }
    }

    fn unreadable(&self, error: &io::Error) -> String {
        match self {
            Self::Session { root, id, path: None } if error.kind() == io::ErrorKind::NotFound => {
                format!(
                    "{:?} is not there as a path, and no session of that id is stored in {}",
                    id.as_str(),
                    root.display()
                )
            }
            Self::Session { root: place, .. } | Self::Path(place) | Self::Store(place) => {
                format!("{} cannot be read: {error}", place.display())
            }
        }
    }
}

/// The id that is spelt like a path.
fn id_of(path: &Path) -> Option<SessionId> {
    SessionId::new(path.to_str()?).ok()
}

/// Whether a store that can be searched holds something of a session.
fn is_stored(root: &Path, id: &SessionId) -> bool {
    !matches!(find(&OsFs::new(root), id), Ok(None) | Err(FindError::Io(_)))
}

/// Runs `sessiond verify`: what was found goes to `out`, what ends the run to `err`, how far it is to `terminal`.
pub fn main_verify(
    args: VerifyArgs,
    out: &mut dyn Write,
    err: &mut dyn Write,
    terminal: Option<Box<dyn Write + Send>>,
) -> ExitCode {
    let target = match Target::of(&args) {
        Ok(target) => target,
        Err((problem, code)) => return end(err, "verify", &problem, code),
    };
    if let Some(choice) = target.choice(&args.shared) {
        let _ = writeln!(err, "sessiond verify: {choice}");
    }
    let (vocabulary, limits, progress) =
        (args.shared.vocabulary(), args.shared.limits(), Progress::new(terminal));
    let mut summary = Summary::default();
    let mut unwritten = None;
    let mut tell = |news: News| {
        progress.clear();
        let told = tell(&news, args.json, out, &mut summary);
        told.inspect_err(|error| unwritten = Some(error.kind()))
    };
    let rules = Rules { vocabulary: &vocabulary, limits: &limits };
    let mut surveyor = Surveyor { rules, progress: &progress, tell: &mut tell };
    let surveyed = target.survey(&mut surveyor);
    progress.clear();
    let answer = match surveyed {
        Ok(()) if args.json => summary.write_json(out),
        Ok(()) => summary.write_text(out),
        Err(error) if unwritten.is_some() => Err(error),
        Err(error) => {
            let _ = out.flush();
            return end(err, "verify", &target.unreadable(&error), COULD_NOT_START);
        }
    };
    match answer.and_then(|()| out.flush()) {
        // A reader that has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            end(err, "verify", &format!("the report cannot be written: {error}"), COULD_NOT_START)
        }
        _ if summary.has_read_nothing() => ExitCode::from(COULD_NOT_START),
        _ if summary.is_bad() => ExitCode::from(FOUND_SOMETHING),
        _ => ExitCode::SUCCESS,
    }
}

fn tell(news: &News, json: bool, out: &mut dyn Write, summary: &mut Summary) -> io::Result<()> {
    match news {
        News::Session(report) => {
            summary.count(report);
            if json { report.write_json(out) } else { report.write_text(out) }
        }
        News::Skipped(Skipped { path, why: reason, may_hold }) => {
            summary.skip(*may_hold);
            let place = path.display().to_string();
            if json {
                writeln!(out, "{}", serde_json::json!({ "skipped": place, "reason": reason }))
            } else {
                writeln!(out, "not looked into: {}: {}", shown(&place), shown(reason))
            }
        }
    }
}

/// Runs `sessiond repair`: what was done goes to `out`, why nothing was done to `err`.
pub fn main_repair(
    args: RepairArgs,
    out: &mut dyn Write,
    err: &mut dyn Write,
    terminal: Option<Box<dyn Write + Send>>,
) -> ExitCode {
    let root = match args.shared.root() {
        Ok(root) => root,
        Err((problem, code)) => return end(err, "repair", &problem, code),
    };
    let id = match SessionId::new(&args.id) {
        Ok(id) => id,
        Err(problem) => return end(err, "repair", &problem.to_string(), USAGE),
    };
    let (vocabulary, limits, progress) =
        (args.shared.vocabulary(), args.shared.limits(), Progress::new(terminal));
    let repair = Repair {
        fs: Arc::new(OsFs::new(root)),
        me: Holder { pid: std::process::id(), since_ms: Clock::System.now().unsigned_abs() },
        rules: Rules { vocabulary: &vocabulary, limits: &limits },
        dry_run: args.dry_run,
        progress: &progress,
    };
    let done = repair.run(&id);
    progress.clear();
    match done {
        Ok(lines) => {
            for line in lines {
                let _ = writeln!(out, "{line}");
            }
            let _ = out.flush();
            ExitCode::SUCCESS
        }
        Err(error) => {
            let code = if error.could_not_start() { COULD_NOT_START } else { FOUND_SOMETHING };
            let is_path = matches!(error, RepairError::NotFound(_)) && Path::new(&args.id).exists();
            let hint = if is_path {
                "; repair takes an id, not a path: `sessiond verify PATH` tells it"
            } else {
                ""
            };
            end(err, "repair", &format!("{error}{hint}"), code)
        }
    }
}

fn end(err: &mut dyn Write, command: &str, why: &str, code: u8) -> ExitCode {
    let _ = writeln!(err, "sessiond {command}: {why}");
    ExitCode::from(code)
}
