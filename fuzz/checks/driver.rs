//! A mutational driver for where the coverage-guided one is not to be had: the kept corpus, and inputs
//! made from it by a fixed seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::Check;

/// Longest input that is made.
const MAX_LEN: usize = 16 << 10;

/// Numbers that look random and are the same every time (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Below `end`, and rather small.
    fn small(&mut self, end: usize) -> usize {
        let end = 1 + self.below(end);
        self.below(end)
    }
}

/// The kept inputs of one target, and the words that mutations put in.
pub struct Corpus {
    check: Check,
    inputs: Vec<(PathBuf, Vec<u8>)>,
    words: Vec<Vec<u8>>,
}

fn fuzz_dir() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    if own.ends_with("fuzz") { own.to_owned() } else { own.join("fuzz") }
}

impl Corpus {
    /// Reads `fuzz/corpus/TARGET`, in the order of names.
    pub fn of(check: Check) -> Self {
        let dir = fuzz_dir().join("corpus").join(check.0);
        let entries = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let inputs: Vec<_> = paths
            .into_iter()
            .map(|path| {
                let bytes = std::fs::read(&path).unwrap();
                (path, bytes)
            })
            .collect();
        assert!(!inputs.is_empty(), "{} is empty", dir.display());
        let words = std::fs::read_to_string(fuzz_dir().join("words.dict")).unwrap();
        Self { check, inputs, words: words.lines().filter_map(word).collect() }
    }

    /// Inputs kept.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Checks every kept input, each by itself.
    pub fn replay(&self) {
        for (path, bytes) in &self.inputs {
            self.run(bytes, || path.clone());
        }
    }

    /// Checks inputs made from the kept ones while `more` says so of how many were tried, and gives that.
    pub fn mutate(&self, seed: u64, mut more: impl FnMut(u64) -> bool) -> u64 {
        let mut random = Random(seed);
        let mut tried = 0;
        while more(tried) {
            let bytes = self.mutant(&mut random);
            self.run(&bytes, || {
                let name = format!(
                    "crash-{:016x}",
                    bytes
                        .iter()
                        .fold(seed, |hash, byte| { (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3) })
                );
                let dir = fuzz_dir().join("artifacts").join(self.check.0);
                std::fs::create_dir_all(&dir).unwrap();
                std::fs::write(dir.join(&name), &bytes).unwrap();
                dir.join(name)
            });
            tried += 1;
        }
        tried
    }

    /// Runs the check; a panic goes on after the input was named.
    fn run(&self, bytes: &[u8], name: impl FnOnce() -> PathBuf) {
        let (target, check) = self.check;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(bytes))) {
            eprintln!("{target}: fails on {}", name().display());
            std::panic::resume_unwind(panic);
        }
    }

    fn mutant(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.pick(random).to_vec();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len() + 1);
            let end = (at + random.small(64)).min(bytes.len());
            match random.below(9) {
                0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                1 if at < bytes.len() => bytes[at] = random.next() as u8,
                2 => drop(bytes.drain(at..end)),
                3 => {
                    let copy = bytes[at..end].to_vec();
                    let to = random.below(bytes.len() + 1);
                    bytes.splice(to..to, copy);
                }
                4 => {
                    let other = self.pick(random);
                    let from = random.below(other.len() + 1);
                    let to = (from + random.small(256)).min(other.len());
                    bytes.splice(at..end, other[from..to].iter().copied());
                }
                5 | 6 if !self.words.is_empty() => {
                    let word = &self.words[random.below(self.words.len())];
                    bytes.splice(at..if random.below(2) == 0 { at } else { end }, word.iter().copied());
                }
                7 => bytes.truncate(at),
                _ => bytes.insert(at, random.next() as u8),
            }
        }
        bytes.truncate(MAX_LEN);
        bytes
    }

    fn pick(&self, random: &mut Random) -> &[u8] {
        &self.inputs[random.below(self.inputs.len())].1
    }
}

/// The word of a line of a libFuzzer dictionary: `"…"` with `\\`, `\"` and `\xHH`.
fn word(line: &str) -> Option<Vec<u8>> {
    let inner = line.strip_prefix('"')?.strip_suffix('"')?;
    let (mut out, mut rest) = (Vec::new(), inner.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, rest) {
            (b'\\', [b'x', hex @ ..]) if hex.len() >= 2 => {
                out.push(u8::from_str_radix(std::str::from_utf8(&hex[..2]).ok()?, 16).ok()?);
                rest = &hex[2..];
            }
            (b'\\', [escaped, after @ ..]) => {
                out.push(*escaped);
                rest = after;
            }
            _ => out.push(first),
        }
    }
    Some(out)
}
