//! How fast (in processor time) does a log load, beside reading its bytes and beside the strict scan alone?
//!
//! `cargo test --release --test disk_load_speed -- --ignored --nocapture`; `LOAD_MB` sets the size (default 128).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod load_support;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use load_support::{Keeper, Loader};
use sessiond::disk::damage::Refused;
use sessiond::disk::fs::FileSystem;
use sessiond::disk::os::OsFs;
use sessiond::disk::paths::Encoding;
use sessiond::disk::read::{ReadLimits, Sink, StoredEvent, read_log};
use sessiond::disk::summary::FactsSink;
use sessiond::disk::zstd::FrameEncoder;
use sessiond::json::{Json, Scratch};
use sessiond::log::pack_rows;

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
    let mut files = ["plain", "packed", "zstd"].map(|name| std::fs::File::create(dir.join(name)).unwrap());
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

fn megabytes(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64()
}

/// Time on a processor: the machine may be shared.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

/// Peak memory of this process so far, in MB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn measure(name: &str, dir: &Path, file: &str, encoding: Encoding, text_bytes: u64, sink: &mut dyn Sink) {
    let fs = OsFs::new(dir);
    reset_peak();
    let before = peak();
    let log = fs.open_read(Path::new(file)).unwrap();
    let len = log.metadata().unwrap().len;
    let start = cpu();
    let scan = read_log(log.as_ref(), len, encoding, ReadLimits::default(), sink).unwrap();
    let took = cpu() - start;
    assert!(scan.failure().is_none() && scan.problem_count == 0, "{:?}", scan.problems.first());
    eprintln!(
        "{name:<34} {:>7.0} MB/s of text  {:>6.0} MB/s of file  {:>6.0} ms  {} events  +{} MB",
        megabytes(text_bytes, took),
        megabytes(len, took),
        took.as_secs_f64() * 1e3,
        scan.events,
        peak() - before
    );
}

fn scan_alone(dir: &Path, bytes: u64) {
    let text = std::fs::read_to_string(dir.join("plain")).unwrap();
    let (mut scratch, start) = (Scratch::default(), cpu());
    for line in text.lines() {
        let (_, checks) = scratch.scan(line).unwrap();
        assert!(checks.fault.is_none());
    }
    eprintln!("{:<34} {:>7.0} MB/s", "strict scan alone, in memory", megabytes(bytes, cpu() - start));
}

#[test]
#[ignore = "a measurement"]
fn loading() {
    let size = std::env::var("LOAD_MB").ok().and_then(|mb| mb.parse::<u64>().ok()).unwrap_or(128) << 20;
    let dir = tempfile::tempdir().unwrap();
    let bytes = write_logs(dir.path(), size);

    let fs = OsFs::new(dir.path());
    for round in 0..3 {
        eprintln!("round {round}");
        let file = fs.open_read(Path::new("plain")).unwrap();
        let (mut buf, mut at, start) = (vec![0; 128 << 10], 0, cpu());
        while let Ok(read @ 1..) = file.read_at(at, &mut buf) {
            at += read as u64;
        }
        eprintln!("{:<34} {:>7.0} MB/s", "plain read", megabytes(bytes, cpu() - start));
        if round > 0 {
            scan_alone(dir.path(), bytes);
        }
        let dir = dir.path();
        measure("trivial visitor", dir, "plain", Encoding::Plain, bytes, &mut Trivial::default());
        measure("list facts", dir, "plain", Encoding::Plain, bytes, &mut FactsSink::default());
        measure("log kept", dir, "plain", Encoding::Plain, bytes, &mut Keeper::default());
        measure("validated history", dir, "plain", Encoding::Plain, bytes, &mut Loader::default());
        measure("packed, trivial visitor", dir, "packed", Encoding::Plain, bytes, &mut Trivial::default());
        measure("packed, validated history", dir, "packed", Encoding::Plain, bytes, &mut Loader::default());
        measure("zstd, trivial visitor", dir, "zstd", Encoding::Zstd, bytes, &mut Trivial::default());
        measure("zstd, validated history", dir, "zstd", Encoding::Zstd, bytes, &mut Loader::default());
    }
}
