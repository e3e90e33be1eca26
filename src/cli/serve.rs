//! `sessiond serve`: flags in, a daemon on the standard streams, exit code out.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::between;
use super::exit_code::{COULD_NOT_START, could_not_start};
use crate::daemon::{End, background, canonical_path, serve};
use crate::replay::{Recorder, Recording};
use crate::server::{Clock, IdSource, Settings, WireLimits};
use crate::session::{Limits, Validation};
use crate::stdio::{StderrLog, Stdio, Waker, take_stdio};
use crate::store::storage::Storage;
use crate::store::{CanonicalPath, DaemonId, JsonlOptions, JsonlStorage, MemoryStorage, Root, StoreChoice};

/// Exit code of a daemon whose end could not store all that was answered.
const UNSAVED: u8 = 1;
/// Exit code of flags that do not fit together, as of those that do not parse.
const WRONG_USAGE: u8 = 2;
/// Log text that may wait for a slow stderr, in bytes.
const LOG_CAPACITY: usize = 1 << 20;

/// What a person is told who starts this by hand: it would look as if it hung.
const ON_A_TERMINAL: &str = "\
sessiond keeps agent sessions and speaks JSON-RPC over stdin and stdout. A client
starts it: an editor, an agent's front-end. `sessiond --help` says with which
flags. By hand: one JSON message a line, Ctrl-D ends it. For example:
{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\"}";

#[derive(Args)]
pub(super) struct ServeArgs {
    /// Where sessions are kept: memory: or jsonl:DIR.
    ///
    /// By default $SESSIOND_STORE unless it is empty, else files in the user's state directory.
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Write the conversation to FILE as a transcript.
    ///
    /// FILE must not be there yet.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Where times come from: system, or fixed:MS+STEP, which is MS at first and STEP more at each later look.
    #[arg(long, hide_short_help = true, value_name = "SPEC", default_value = "system")]
    clock: Clock,
    /// Where ids come from: random, or sequential: counted, for transcripts.
    #[arg(long, hide_short_help = true, value_name = "SPEC", default_value = "random")]
    ids: IdSource,
    /// Whether appends must keep the turn/step/tool relations, where a client does not say.
    #[arg(long, hide_short_help = true, value_enum, default_value = "enforce")]
    invariants: InvariantsArg,
    /// Milliseconds that written events wait for others before all are made durable together; 0 to 60,000.
    #[arg(long, hide_short_help = true, value_name = "MS", default_value_t = 200, value_parser = between::<u64, 0, 60_000>)]
    sync_window: u64,
    /// Faults that storage is to meet, for tests.
    #[arg(long, value_name = "FILE", hide = true)]
    fault_file: Option<PathBuf>,
    /// The least level that is logged to stderr.
    ///
    /// off, error, warn, info, debug or trace, which tells of each request too: method, id, session, microseconds.
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: LevelFilter,
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum InvariantsArg {
    Enforce,
    Off,
}

#[derive(Args)]
struct LimitArgs {
    /// Bytes of a line, in or out; 64 KiB to 1 GiB.
    #[arg(long, hide_short_help = true, value_name = "BYTES", default_value_t = 32 << 20, value_parser = between::<usize, { 64 << 10 }, { 1 << 30 }>)]
    max_message_bytes: usize,
    /// Bytes of one encoded event; 4 KiB to 16 KiB less than a line; by default 16 MiB, or what fits into a line.
    #[arg(long, hide_short_help = true, value_name = "BYTES", value_parser = between::<usize, { 4 << 10 }, { 1 << 30 }>)]
    max_event_bytes: Option<usize>,
    /// Nesting in an event's data; 8, which messages need, to 10,000.
    #[arg(long, hide_short_help = true, value_name = "LEVELS", default_value_t = 1_000, value_parser = between::<usize, 8, 10_000>)]
    max_depth: usize,
    /// Bytes of unread output before input is no longer read; 4 KiB to 1 TiB.
    #[arg(long, hide_short_help = true, value_name = "BYTES", default_value_t = 64 << 20, value_parser = between::<usize, { 4 << 10 }, { 1 << 40 }>)]
    max_queued_bytes: usize,
    /// Events of one batch; 1 to 2^30.
    #[arg(long, hide_short_help = true, value_name = "EVENTS", default_value_t = 10_000, value_parser = between::<usize, 1, { 1 << 30 }>)]
    max_batch_events: usize,
    /// Sessions live at once; 1 to 2^30.
    #[arg(long, hide_short_help = true, value_name = "SESSIONS", default_value_t = 10_000, value_parser = between::<usize, 1, { 1 << 30 }>)]
    max_live_sessions: usize,
}

pub(super) fn run_serve(args: ServeArgs) -> ExitCode {
    let settings = match settings(&args) {
        Ok(settings) => settings,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    let store = match StoreChoice::resolve(args.store.as_deref()) {
        Ok(store) => store,
        Err(error) if error.is_usage() => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            return ExitCode::from(WRONG_USAGE);
        }
        Err(error) => return could_not_start(&error),
    };
    let root = match &store {
        StoreChoice::Memory => None,
        StoreChoice::Jsonl(root) => match Root::examine(root) {
            Ok(found) => Some((root.clone(), found)),
            Err(error) => return could_not_start(&error),
        },
    };
    if std::io::stdin().is_terminal() {
        let _ = writeln!(std::io::stderr(), "{ON_A_TERMINAL}");
    }
    let stdio = match take_stdio() {
        Ok(stdio) => stdio,
        Err(error) => return could_not_start(&error),
    };
    let log = StderrLog::new(LOG_CAPACITY);
    // Only what this program logs itself: a library's line about a request may quote it.
    let ours = Targets::new().with_target("sessiond", args.log);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(log.clone());
    tracing_subscriber::registry().with(lines.with_filter(ours)).init();
    std::panic::set_hook(Box::new(|panic| {
        // Where, never with what: a panic's text may hold a payload.
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(%place, "panicked at");
    }));
    if let Some((root, Root::ReadOnly(error))) = root {
        let (store, why) = (root.display(), error);
        tracing::warn!(%store, %why, "the store is read-only: sessions are listed and inspected, nothing is written");
    }
    let code = match start(args, store, settings, stdio) {
        Ok(End::Whole) => ExitCode::SUCCESS,
        Ok(End::Unsaved) => ExitCode::from(UNSAVED),
        Err(error) => {
            tracing::error!(%error, "sessiond could not start or go on");
            ExitCode::from(COULD_NOT_START)
        }
    };
    log.flush(Duration::from_secs(1));
    code
}

fn start(
    args: ServeArgs,
    store: StoreChoice,
    settings: Settings,
    stdio: Stdio,
) -> Result<End, Box<dyn std::error::Error>> {
    let recorder = args.record.as_deref().map(record_to).transpose()?;
    match store {
        StoreChoice::Memory => Ok(serve(stdio, settings, |_| Box::new(MemoryStorage::default()), recorder)?),
        StoreChoice::Jsonl(root) => {
            let (fixed, max_event_bytes) = (settings.clock.is_fixed(), settings.limits.max_event_bytes);
            let options = JsonlOptions {
                root,
                // A fixed clock stands still while storage works: nothing is gained by waiting.
                sync_window: if fixed { Duration::ZERO } else { Duration::from_millis(args.sync_window) },
                max_event_bytes,
                me: this_daemon(fixed),
                fault_file: args.fault_file,
            };
            let background = background()?;
            let threads = background.handle().clone();
            let storage = |waker: Waker| -> Box<dyn Storage + Send> {
                Box::new(JsonlStorage::new(options, threads, waker.into_fn()))
            };
            let served = serve(stdio, settings, storage, recorder);
            background.shutdown_background();
            Ok(served?)
        }
    }
}

/// What other processes are told of us when they find a session locked.
fn this_daemon(fixed: bool) -> DaemonId {
    if fixed {
        return DaemonId::process(1, 0);
    }
    DaemonId::process(std::process::id(), Clock::System.now().unsigned_abs())
}

fn record_to(file: &Path) -> Result<Recorder, Box<dyn std::error::Error>> {
    // What a replay gives to its own daemon: not the command, nor the recording, nor this store.
    let mut args = Vec::new();
    let mut given = std::env::args().skip(1).filter(|arg| arg != "serve");
    while let Some(arg) = given.next() {
        if arg == "--record" || arg == "--fault-file" {
            given.next();
        } else if arg.starts_with("jsonl:") || arg.starts_with("--store=jsonl:") {
            args.push(arg.split("jsonl:").next().unwrap_or_default().to_owned() + "jsonl:$STORE");
        } else if !arg.starts_with("--record=") && !arg.starts_with("--fault-file=") {
            args.push(arg);
        }
    }
    let owned = args;
    Ok(Recorder::create(file, &Recording { title: "Recorded from a live client", args: &owned })?)
}

fn settings(args: &ServeArgs) -> Result<Settings, String> {
    let limits = &args.limits;
    // An event must fit into the line that announces it.
    let room = limits.max_message_bytes.saturating_sub(WireLimits::ROOM);
    let max_event_bytes = limits.max_event_bytes.unwrap_or((16 << 20).min(room));
    if max_event_bytes > room {
        return Err(format!(
            "--max-event-bytes {max_event_bytes} does not fit into a line of --max-message-bytes {}, which needs \
             {} bytes around it: give at most {room}, or a larger --max-message-bytes",
            limits.max_message_bytes,
            WireLimits::ROOM
        ));
    }
    Ok(Settings {
        invariants: match args.invariants {
            InvariantsArg::Enforce => Validation::Enforce,
            InvariantsArg::Off => Validation::Note,
        },
        limits: Limits {
            max_event_bytes,
            max_depth: u32::try_from(limits.max_depth).unwrap_or(u32::MAX),
            max_batch_events: limits.max_batch_events,
            max_live_sessions: limits.max_live_sessions,
        },
        wire: WireLimits {
            max_message_bytes: limits.max_message_bytes,
            max_queued_bytes: limits.max_queued_bytes,
            ..WireLimits::default()
        },
        clock: args.clock.clone(),
        ids: args.ids.clone(),
        canonical: CanonicalPath(canonical_path),
    })
}
