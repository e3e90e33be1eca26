//! A long log whose reading and whose taking are of any pace: memory is made ready for the next texts by whoever would
//! wait, and nothing else comes of it. The log is the same in its segments and in what it claims, what is claimed is
//! read into, and beside the log there are three batches.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod load_support;

use std::alloc::System;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use load_support::{Loader, check};
use sessiond::disk::fs::ReadAt;
use sessiond::disk::paths::Encoding;
use sessiond::disk::read::damage::Refused;
use sessiond::disk::read::reader::{ReadLimits, Scan, Sink, StoredEvent, read_log};
use sessiond::log::{Event, Log, Offset, Seq};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const HEADER: &str =
    "{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":1,\"delegationDepth\":0}\n";
const BATCH: usize = 512 << 10;
/// What the reading holds at most, with some for tapes, forms and folds.
const BESIDE: usize = 3 * BATCH + BATCH / 2;

/// Who is waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slow {
    Neither,
    Reading,
    Taking,
}

fn pause(slow: bool) {
    if slow {
        sleep(Duration::from_millis(2));
    }
}

/// A log of which less may be there than its length said.
struct Source<'b> {
    bytes: &'b [u8],
    len: u64,
    slow: bool,
    kept: bool,
}

impl ReadAt for Source<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.bytes.read_at(offset, buf)
    }

    fn read_behind(&self, offset: u64, out: &mut Vec<u8>) -> io::Result<usize> {
        pause(self.slow);
        let room = (out.capacity() - out.len()) as u64;
        assert!(!self.kept || offset + room <= self.len, "{room} bytes claimed at {offset} of {}", self.len);
        self.bytes.read_behind(offset, out)
    }
}

/// Loads, and looks at the memory in use at each event.
struct Watched {
    loader: Loader,
    slow: bool,
    before: usize,
    /// The most that was in use beside the log.
    beside: usize,
}

fn in_use() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

impl Sink for Watched {
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        let known = self.before + self.loader.history.log().footprint();
        self.beside = self.beside.max(in_use().saturating_sub(known));
        pause(self.slow && event.seq.get().is_multiple_of(60));
        self.loader.event(event)
    }

    fn event_at(&self, seq: Seq) -> Option<Event<'_>> {
        self.loader.event_at(seq)
    }

    fn retract(&mut self, to: Offset) {
        self.loader.retract(to);
    }
}

/// About so many bytes of a log whose rows have about 9,000 bytes: its tapes are small beside its text.
fn log_of(bytes: usize) -> Vec<u8> {
    let mut log = HEADER.as_bytes().to_vec();
    for seq in 0.. {
        let text = "wörd ".repeat(1_500 + seq % 97);
        let row = format!(
            "{{\"type\":\"session/title\",\"seq\":{seq},\"time\":{seq},\"data\":{{\"title\":\"{text}\"}}}}\n"
        );
        if log.len() + row.len() > bytes {
            break;
        }
        log.extend_from_slice(row.as_bytes());
    }
    log
}

/// Reads a log of which that is there, and says how much was in use beside what is kept.
fn read(bytes: &[u8], len: usize, slow: Slow, copies: bool) -> (Scan, Loader, usize) {
    let len = len as u64;
    let whole = len == bytes.len() as u64;
    let source = Source { bytes, len, slow: slow == Slow::Reading, kept: whole && !copies };
    let mut loader = Loader::default();
    loader.copies = copies;
    let mut sink = Watched { loader, slow: slow == Slow::Taking, before: in_use(), beside: 0 };
    let scan = read_log(&source, len, Encoding::Plain, ReadLimits::default(), &mut sink).unwrap();
    check(&scan, bytes.len() as u64);
    (scan, sink.loader, sink.beside)
}

/// The lines of each segment.
fn segments(log: &Log) -> Vec<&str> {
    log.lines(Offset::ZERO, log.len()).collect()
}

/// One test, as all threads of the process allocate.
#[test]
fn whoever_waits_for_the_other_the_log_and_its_memory_are_the_same() {
    let whole = log_of(12 << 20);
    // Ends within the batches that are under way when the last one is claimed, and about the ends of batches; cut short.
    let ends = (0..8).map(|part| (12 << 20) - part * BATCH / 4).map(|end| (log_of(end), None));
    let cut = [5 << 20, (6 << 20) + 100_000].map(|end| (whole[..end].to_vec(), Some(whole.len())));
    for (bytes, said) in ends.chain(cut) {
        let len = said.unwrap_or(bytes.len());
        let (plain_scan, plain, _) = read(&bytes, len, Slow::Neither, false);
        let plain_log = plain.history.log();
        assert!(plain_log.len().get() > 500);
        for (slow, copies) in [(Slow::Reading, false), (Slow::Taking, false), (Slow::Reading, true)] {
            let (scan, loader, beside) = read(&bytes, len, slow, copies);
            assert_eq!(format!("{scan:?}"), format!("{plain_scan:?}"));
            let log = loader.history.log();
            assert!(beside <= BESIDE, "{beside} bytes beside the log, {slow:?}, copies {copies}");
            if copies {
                assert_eq!(segments(log).concat(), segments(plain_log).concat());
            } else {
                assert_eq!(segments(log), segments(plain_log));
                assert_eq!(log.footprint(), plain_log.footprint());
            }
        }
    }
}
