//! Instructions by callgrind, switched on for the operations alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::Suite;

/// The files that one child under callgrind leaves.
pub struct Counter {
    out: PathBuf,
    dumps: u32,
    keep: Option<PathBuf>,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Counter {
    /// The command under callgrind; `None` where that is not installed or not wanted.
    pub fn wrap(suite: &Suite, plain: &Command) -> Option<(Self, Command)> {
        if !suite.options.counts() || !is_installed() {
            return None;
        }
        let out = suite.scratch.path().join(format!("callgrind-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--instr-atstart=no"]);
        command.arg(format!("--callgrind-out-file={}", out.display()));
        command.arg(plain.get_program()).args(plain.get_args());
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        Some((Self { out, dumps: 0, keep: suite.options.profiles.clone() }, command))
    }

    /// Starts counting; waits for a child that is not yet there.
    pub fn begin(&mut self, id: u32) -> Option<()> {
        const TRIES: usize = 100;
        let mut begun = control(id, &["-i", "on"]);
        for _ in 0..TRIES {
            if begun.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            begun = control(id, &["-i", "on"]);
        }
        begun
    }

    /// Stops counting and gives what was counted since [`begin`](Self::begin).
    pub fn end(&mut self, id: u32, name: &str) -> Option<u64> {
        control(id, &["-i", "off"])?;
        control(id, &["-d"])?;
        self.dumps += 1;
        let dump = PathBuf::from(format!("{}.{}", self.out.display(), self.dumps));
        let count = total(&dump);
        if let Some(dir) = &self.keep {
            let _ = fs::create_dir_all(dir)
                .and_then(|()| fs::copy(&dump, dir.join(format!("callgrind.out.{name}"))));
        }
        let _ = fs::remove_file(dump);
        count
    }
}

pub fn is_installed() -> bool {
    let runs = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    runs("valgrind") && runs("callgrind_control")
}

fn control(id: u32, args: &[&str]) -> Option<()> {
    let output = Command::new("callgrind_control").args(args).arg(id.to_string()).output().ok()?;
    (output.status.success() && String::from_utf8_lossy(&output.stdout).contains("OK")).then_some(())
}

/// The sum at the end of a file of callgrind. The summary at its beginning counts from the start of the process.
fn total(dump: &Path) -> Option<u64> {
    let text = fs::read_to_string(dump).ok()?;
    let line = text.lines().rev().find_map(|line| line.strip_prefix("totals:"))?;
    line.trim().parse().ok().filter(|&count| count > 0)
}
