//! Appends through one pipe, beside a floor that echoes two lines per line, in one interleaved run.
//!
//! `cargo bench --bench pipe [-- --appends N --rounds R]`. Prints rate, ratio to the floor and processor
//! time per append; instructions per append where `valgrind` is installed. Nothing is asserted but that
//! the answers come in order: figures of one machine at one moment compare only with each other.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::print_stdout)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const DAEMON: &str = env!("CARGO_BIN_EXE_sessiond");
/// Set for the child that is the floor.
const FLOOR: &str = "SESSIOND_BENCH_FLOOR";

fn main() {
    if std::env::var_os(FLOOR).is_some() {
        return floor();
    }
    let (mut appends, mut rounds) = (1_000_000, 3);
    let args: Vec<String> = std::env::args().collect();
    for pair in args.windows(2) {
        match pair[0].as_str() {
            "--appends" => appends = pair[1].parse().expect("a number of appends"),
            "--rounds" => rounds = pair[1].parse().expect("a number of rounds"),
            _ => {}
        }
    }
    let requests = requests(appends);
    let scratch = std::env::temp_dir().join(format!("sessiond-bench-{}", std::process::id()));
    let mut rows: Vec<(&str, Vec<Run>)> =
        ["floor", "memory:", "jsonl:"].map(|name| (name, Vec::new())).into();
    for _ in 0..rounds {
        for (name, runs) in &mut rows {
            let dir = scratch.join("store");
            let _ = fs::remove_dir_all(&dir);
            runs.push(run(&mut command(name, &dir), &requests, appends, *name == "floor"));
        }
    }
    let floor = median(&rows[0].1, |run| run.rate);
    println!("{appends} appends of {} B, medians of {rounds} rounds", requests.len() / appends);
    println!("{:<10}{:>14}{:>10}{:>12}{:>15}", "", "appends/s", "ratio", "CPU us", "instructions");
    for (name, runs) in &rows {
        let rate = median(runs, |run| run.rate);
        let cpu = median(runs, |run| run.cpu * 1e6 / appends as f64);
        let counted = instructions(name, &scratch.join("counted"));
        let counted = counted.map_or("not counted".to_owned(), |count| count.to_string());
        println!("{name:<10}{rate:>14.0}{:>10.2}{cpu:>12.2}{counted:>15}", rate / floor);
    }
    let _ = fs::remove_dir_all(&scratch);
}

/// Writes two lines for each line, with one read and one write per chunk: what no daemon can beat.
fn floor() {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let (mut buffer, mut rest, mut out) = (vec![0; 1 << 18], Vec::new(), Vec::new());
    loop {
        let read = input.read(&mut buffer).unwrap();
        if read == 0 {
            return;
        }
        rest.extend_from_slice(&buffer[..read]);
        let whole = rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        out.clear();
        for line in rest[..whole].split_inclusive(|&byte| byte == b'\n') {
            out.extend_from_slice(line);
            out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"seq\":1,\"time\":1}}\n");
        }
        output.write_all(&out).unwrap();
        output.flush().unwrap();
        rest.drain(..whole);
    }
}

fn command(name: &str, dir: &std::path::Path) -> Command {
    if name == "floor" {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(FLOOR, "1");
        return command;
    }
    let store = if name == "jsonl:" { format!("jsonl:{}", dir.display()) } else { name.to_owned() };
    let mut command = Command::new(DAEMON);
    command.args(["serve", "--ids", "sequential", "--store", &store]);
    command
}

/// A session and so many appends to it, about 300 bytes each.
fn requests(appends: usize) -> String {
    let mut lines = String::with_capacity(appends * 300);
    lines.push_str("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"session/new\",\"params\":{}}\n");
    for n in 1..=appends {
        lines.push_str(&format!(
            concat!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"session/append\",\"params\":{{\"sessionId\":\"session-1\",",
                "\"type\":\"user/message\",\"data\":{{\"id\":\"m{n}\",\"role\":\"user\",\"content\":[{{\"type\":\"text\",",
                "\"text\":\"A line of text that a person may have typed, long enough for a request of 300 bytes.\"}}],",
                "\"source\":{{\"kind\":\"user\"}}}},\"surfaceOp\":\"append\"}}}}\n"
            ),
            n = n
        ));
    }
    lines
}

struct Run {
    rate: f64,
    cpu: f64,
}

fn run(command: &mut Command, requests: &str, appends: usize, is_floor: bool) -> Run {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let begun = Instant::now();
    let reader = std::thread::spawn(move || {
        let (mut reader, mut line, mut answers) = (BufReader::with_capacity(1 << 20, stdout), Vec::new(), 0);
        while answers <= appends {
            line.clear();
            if reader.read_until(b'\n', &mut line).unwrap() == 0 {
                break;
            }
            if is_floor {
                answers += usize::from(line.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\""));
            } else if let Some(rest) = line.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":") {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let id: usize = std::str::from_utf8(&rest[..digits]).unwrap().parse().unwrap();
                assert_eq!(id, answers, "answers come in order");
                answers += 1;
            }
        }
        (answers, reader)
    });
    stdin.write_all(requests.as_bytes()).unwrap();
    let (answers, _open) = reader.join().unwrap();
    let rate = appends as f64 / begun.elapsed().as_secs_f64();
    assert_eq!(answers, appends + 1);
    let cpu = cpu_seconds(&child);
    drop(stdin);
    assert!(child.wait().unwrap().success());
    Run { rate, cpu }
}

/// Processor time of a child so far, from `/proc` (ticks of 10 ms).
fn cpu_seconds(child: &Child) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Instructions per append: the difference of two counted runs, so that the start falls out.
fn instructions(name: &str, dir: &std::path::Path) -> Option<u64> {
    const FEW: usize = 1_000;
    const MANY: usize = 21_000;
    let count = |appends: usize| {
        let _ = fs::remove_dir_all(dir);
        let plain = command(name, dir);
        let mut counted = Command::new("valgrind");
        counted.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(plain.get_program());
        counted.args(plain.get_args()).envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        counted.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = counted.spawn().ok()?;
        let mut stdin = child.stdin.take()?;
        let input = requests(appends);
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().ok()?;
        writer.join().ok()?.ok()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let refs = text.lines().find(|line| line.contains("refs:"))?.rsplit(':').next()?;
        refs.trim().replace(',', "").parse::<u64>().ok()
    };
    Some((count(MANY)? - count(FEW)?) / (MANY - FEW) as u64)
}

fn median(runs: &[Run], figure: impl Fn(&Run) -> f64) -> f64 {
    let mut figures: Vec<f64> = runs.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
