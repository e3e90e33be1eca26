//! A log that is long enough to be read ahead by a second thread (from 1 MiB on): the same events, the same damage at
//! the same place, the same early end as a short one, and no thread left waiting.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use sessiond::disk::fs::ReadAt;
use sessiond::disk::paths::Encoding;
use sessiond::disk::read::damage::{Damage, ReadError, Refused, Verdict};
use sessiond::disk::read::reader::{ReadLimits, Scan, Sink, StoredEvent, read_log};

const HEADER: &str =
    "{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":1,\"delegationDepth\":0}\n";
/// More than a second thread is used from, and more than the batches in flight hold.
const LOG: usize = 4 << 20;

/// Keeps the rows as they lie there.
#[derive(Default)]
struct Rows {
    rows: Vec<String>,
    /// Refuses this event.
    refuses: Option<u64>,
    /// Panics at this event.
    panics: Option<u64>,
}

impl Sink for Rows {
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        let seq = Some(event.seq.get());
        assert!(seq != self.panics, "the sink fails");
        if seq == self.refuses {
            return Err(Refused {
                verdict: Verdict::Corrupt,
                class: "TEST",
                reason: "not this one".to_owned(),
            });
        }
        self.rows.push(event.row.text().to_owned());
        Ok(())
    }
}

/// Bytes whose reading is counted, and fails or panics from some offset on.
struct Source<'b> {
    bytes: &'b [u8],
    read: AtomicU64,
    fails_from: u64,
    panics_from: u64,
}

impl<'b> Source<'b> {
    fn of(bytes: &'b [u8]) -> Self {
        Self { bytes, read: AtomicU64::new(0), fails_from: u64::MAX, panics_from: u64::MAX }
    }
}

impl ReadAt for Source<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        assert!(offset < self.panics_from, "the source fails");
        if offset >= self.fails_from {
            return Err(io::Error::from_raw_os_error(5));
        }
        // Short reads, so that batches end anywhere.
        let most = buf.len().min(50_001);
        let read = self.bytes.read_at(offset, &mut buf[..most])?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn row(seq: usize, text: &str) -> String {
    format!(r#"{{"type":"session/title","seq":{seq},"time":7,"data":{{"title":"{text}"}}}}"#)
}

/// Rows of many lengths: short ones, some that fit no batch, two of them in a row, and text beyond ASCII.
fn rows() -> Vec<String> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while bytes < LOG {
        let seq = rows.len();
        let text = match seq % 1_500 {
            400 => "long ".repeat(130_000),
            900 | 901 => "länger ".repeat(90_000),
            _ => "word é ".repeat(seq % 37),
        };
        rows.push(row(seq, &text));
        bytes += rows[seq].len() + 1;
    }
    rows
}

fn log(rows: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut log = HEADER.as_bytes().to_vec();
    for row in rows {
        log.extend_from_slice(row.as_ref());
        log.push(b'\n');
    }
    log
}

/// Offset of a row's first byte.
fn offset(rows: &[String], index: usize) -> u64 {
    (HEADER.len() + rows[..index].iter().map(|row| row.len() + 1).sum::<usize>()) as u64
}

fn read(source: &Source<'_>, max_line: usize, sink: &mut Rows) -> Result<Scan, ReadError> {
    read_log(source, source.bytes.len() as u64, Encoding::Plain, ReadLimits { max_line }, sink)
}

const ROOMY: usize = 64 << 20;

#[test]
fn every_row_comes_whole_and_in_order() {
    let rows = rows();
    let whole = log(&rows);
    for missing_newline in [false, true] {
        let bytes = &whole[..whole.len() - usize::from(missing_newline)];
        let mut sink = Rows::default();
        let scan = read(&Source::of(bytes), ROOMY, &mut sink).unwrap();
        assert!(sink.rows == rows);
        assert_eq!((scan.torn, scan.problem_count, scan.missing_newline), (None, 0, missing_newline));
        assert_eq!((scan.committed, scan.counts.rows), (bytes.len() as u64, rows.len() as u64));
        assert_eq!(scan.counts.text_bytes, bytes.len() as u64);
    }
}

#[test]
fn damage_is_told_at_its_place_and_what_follows_decides() {
    let rows = rows();
    let bad: [&[u8]; 6] = [b"{\"type\":", b"\xff\xfe", b"", b"\0\0\0", b"{\"a\":-0}", b"[1]"];
    for (index, bad) in [1, 399, 400, 401, 902, rows.len() - 2].into_iter().zip(bad) {
        for end in ["session/title", "turn/end"] {
            let mut bytes: Vec<&[u8]> = rows.iter().map(String::as_bytes).collect();
            bytes[index] = bad;
            let last = format!(r#"{{"type":"{end}","seq":{},"time":7,"data":{{}}}}"#, rows.len());
            bytes.push(last.as_bytes());
            let bytes = log(&bytes);
            let mut sink = Rows::default();
            let scan = read(&Source::of(&bytes), ROOMY, &mut sink).unwrap();
            let problem = &scan.problems[0];
            assert_eq!((problem.place.row, problem.place.offset), (index as u64 + 1, offset(&rows, index)));
            assert_eq!(scan.failure().is_some(), end == "turn/end");
            assert!(sink.rows == rows[..index]);
            assert_eq!(scan.committed, offset(&rows, index));
            assert_eq!(scan.torn.unwrap().bytes, bytes.len() as u64 - scan.committed);
        }
    }
}

#[test]
fn a_refused_event_ends_the_reading_soon() {
    let rows = rows();
    let bytes = log(&rows);
    let source = Source::of(&bytes);
    let mut sink = Rows { refuses: Some(20), ..Rows::default() };
    let scan = read(&source, ROOMY, &mut sink).unwrap();
    assert!(matches!(scan.failure().unwrap().damage, Damage::Refused(_)));
    assert_eq!(scan.problems[0].place.offset, offset(&rows, 20));
    assert_eq!(scan.torn.unwrap().bytes, bytes.len() as u64 - scan.committed);
    assert!(source.read.into_inner() <= 2 << 20);
}

#[test]
fn a_line_that_is_too_long_is_told_behind_the_lines_before_it() {
    let rows = rows();
    let bytes = log(&rows);
    for (max_line, index) in [(100_000, 400), (rows[400].len(), 900), (rows[400].len() - 1, 400)] {
        let mut sink = Rows::default();
        let scan = read(&Source::of(&bytes), max_line, &mut sink).unwrap();
        let problem = scan.failure().unwrap();
        assert!(matches!(problem.damage, Damage::LineTooLong { max } if max == max_line));
        assert_eq!((problem.place.row, problem.place.offset), (index as u64 + 1, offset(&rows, index)));
        assert!(sink.rows == rows[..index]);
    }
    // NULs to the end are no line, however many.
    let nuls = [&bytes[..], &vec![0; 2 << 20]].concat();
    let mut sink = Rows::default();
    let longest = rows.iter().map(String::len).max().unwrap();
    let scan = read(&Source::of(&nuls), longest, &mut sink).unwrap();
    assert!(matches!(scan.problems[0].damage, Damage::Nuls(count) if count == 2 << 20));
    assert_eq!((scan.failure().is_none(), scan.torn.unwrap().offset), (true, bytes.len() as u64));
}

#[test]
fn a_disk_that_fails_is_told_after_what_lies_before_it() {
    let rows = rows();
    let bytes = log(&rows);
    for fails_from in [1 << 18, offset(&rows, 400) + 60_000, 2 << 20] {
        let source = Source { fails_from, ..Source::of(&bytes) };
        let mut sink = Rows::default();
        let failed = read(&source, ROOMY, &mut sink);
        assert!(matches!(failed, Err(ReadError::Io(error)) if error.raw_os_error() == Some(5)));
        assert!(!sink.rows.is_empty() && sink.rows == rows[..sink.rows.len()]);
        // What ends the reading before counts.
        let source = Source { fails_from, ..Source::of(&bytes) };
        let mut sink = Rows { refuses: Some(3), ..Rows::default() };
        let scan = read(&source, ROOMY, &mut sink).unwrap();
        assert_eq!(scan.failure().unwrap().place.row, 4);
    }
}

#[test]
fn a_log_that_is_cut_while_it_is_read_ends_where_it_ends() {
    let rows = rows();
    let bytes = log(&rows);
    let cut = offset(&rows, 950) + 5;
    let source = Source::of(&bytes[..usize::try_from(cut).unwrap()]);
    let mut sink = Rows::default();
    let scan =
        read_log(&source, bytes.len() as u64, Encoding::Plain, ReadLimits::default(), &mut sink).unwrap();
    assert!(sink.rows == rows[..950]);
    assert_eq!((scan.committed, scan.torn.unwrap().bytes), (cut - 5, 5));
}

#[test]
fn a_panic_of_either_side_comes_through() {
    let rows = rows();
    let bytes = log(&rows);
    let told = |source: Source<'_>, panics: Option<u64>| {
        let mut sink = Rows { panics, ..Rows::default() };
        let panic =
            catch_unwind(AssertUnwindSafe(|| read(&source, ROOMY, &mut sink).map(|_| ()))).unwrap_err();
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|&s| s.to_owned()))
    };
    for at in [0, 500, 2_000] {
        assert_eq!(told(Source::of(&bytes), Some(at)).as_deref(), Some("the sink fails"));
    }
    for panics_from in [1 << 17, 2 << 20] {
        let source = Source { panics_from, ..Source::of(&bytes) };
        assert_eq!(told(source, None).as_deref(), Some("the source fails"));
    }
}
