//! What this executable does as a child of itself: the floors.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use memchr::{memchr_iter, memrchr};
use sessiond::json::Scratch;

const ROLE: &str = "SESSIOND_BENCH_ROLE";
const FILE: &str = "SESSIOND_BENCH_FILE";
const ANSWER: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"seq\":1,\"time\":1}}\n";

pub fn command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role);
    command
}

pub fn on_file(role: &str, file: &Path) -> Command {
    let mut command = command(role);
    command.env(FILE, file);
    command
}

/// Plays the role that the environment asks for, until stdin ends. False if it asks for none.
pub fn play() -> bool {
    let Some(role) = std::env::var_os(ROLE) else { return false };
    let file = std::env::var_os(FILE).unwrap_or_default();
    match role.to_str() {
        Some("floor") => echo(),
        Some("cat") => cat(Path::new(&file)),
        Some("scan") => scan(Path::new(&file)),
        _ => panic!("no such role: {}", role.display()),
    }
    true
}

/// Writes two lines for each line, with one read and one write per chunk.
fn echo() {
    let mut buffer = vec![0; 1 << 18];
    let (mut rest, mut out) = (Vec::new(), Vec::new());
    each_chunk(&mut buffer, |chunk, output| {
        let Some(end) = memrchr(b'\n', chunk) else {
            rest.extend_from_slice(chunk);
            return;
        };
        out.clear();
        out.append(&mut rest);
        let mut begin = 0;
        for at in memchr_iter(b'\n', &chunk[..=end]) {
            out.extend_from_slice(&chunk[begin..=at]);
            out.extend_from_slice(ANSWER);
            begin = at + 1;
        }
        rest.extend_from_slice(&chunk[end + 1..]);
        output.write_all(&out).unwrap();
    });
}

/// Writes the file's bytes for each line, in pieces as `cat` does.
fn cat(path: &Path) {
    let mut piece = vec![0; 128 << 10];
    each_request(|output| {
        let mut file = File::open(path).unwrap();
        loop {
            match file.read(&mut piece).unwrap() {
                0 => break,
                read => output.write_all(&piece[..read]).unwrap(),
            }
        }
    });
}

/// Scans a log that it has in memory for each line, and answers with one line.
fn scan(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let mut scratch = Scratch::default();
    each_request(|output| {
        for line in text.lines() {
            let (_, checks) = scratch.scan(line).unwrap();
            assert!(checks.fault.is_none());
        }
        output.write_all(ANSWER).unwrap();
    });
}

fn each_request(mut work: impl FnMut(&mut File)) {
    each_chunk(&mut vec![0; 1 << 12], |chunk, output| {
        for _ in memchr_iter(b'\n', chunk) {
            work(output);
        }
    });
}

fn each_chunk(buffer: &mut [u8], mut work: impl FnMut(&[u8], &mut File)) {
    // Not `std::io::stdout()`: its line buffer would cost a search for each write.
    let mut output = File::options().write(true).open("/proc/self/fd/1").unwrap();
    let mut input = std::io::stdin().lock();
    loop {
        match input.read(buffer).unwrap() {
            0 => return,
            read => work(&buffer[..read], &mut output),
        }
    }
}
