//! The text that was read is the log that is kept: a log that adopts texts with their lines is, in all that it
//! tells, the log that copies each line, and it keeps no text of which it has adopted little.

use std::sync::Arc;

use proptest::prelude::*;
use sessiond::disk::paths::Encoding;
use sessiond::disk::read::reader::{ReadLimits, Scan, read_log};
use sessiond::json::{Json, Scratch};
use sessiond::log::{Draft, Event, Log, Offset, Seq, TypeSet, read_event};

use crate::load_support::{Loader, check};

const TYPES: [&str; 4] = ["session/title", "todo/write", "x/one", "x/two"];

fn line(kind: &str, seq: u64, time: i64, text: &str) -> String {
    format!(r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{{"title":"{text}"}}}}"#)
}

/// A line's event, as a load reads it.
fn draft_of<'a>(line: &'a str, scratch: &'a mut Scratch) -> (Seq, i64, Draft<'a>) {
    let (value, checks) = scratch.scan(line).unwrap();
    read_event(value, checks.needs_compaction).unwrap()
}

/// The events of a text's lines, as a load reads them, each with its text.
fn each_draft(text: &Arc<String>, take: &mut dyn FnMut(usize, &str, &Draft<'_>, i64)) {
    let mut start = 0;
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let mut scratch = Scratch::default();
        let (value, checks) = scratch.scan(line.trim_end_matches('\n')).unwrap();
        let is_whole = value.text().len() + 1 == line.len() && line.ends_with('\n');
        let (_, time, mut draft) = read_event(value, checks.needs_compaction).unwrap();
        draft.line = draft.line.map(|own| if is_whole { own.held_by(text, start) } else { own });
        take(at, line, &draft, time);
        start += line.len();
    }
}

/// All that an event says.
fn told(event: Event<'_>) -> String {
    let texts = [event.source_event_seqs(), event.surface_op()].map(|text| text.map(Json::text));
    format!(
        "{} {:?} {} {} {} {} {:?} {}",
        event.line(),
        event.kind(),
        event.seq().get(),
        event.time(),
        event.place(),
        event.data().text(),
        texts,
        event.ignorable(),
    ) + event.type_text().text()
}

fn offset(value: u64) -> Offset {
    Offset::new(value).unwrap()
}

fn text_of(log: &Log, from: u64, to: u64) -> String {
    log.lines(offset(from), offset(to)).collect()
}

fn same_lines(kept: &Log, copied: &Log) {
    assert_eq!(text_of(kept, 0, kept.len().get()), text_of(copied, 0, copied.len().get()));
}

/// Two logs tell the same, whole and in parts, and so do their runs and what these say of types.
fn same(kept: &Log, copied: &Log) {
    assert_eq!(kept.len(), copied.len());
    let length = kept.len().get();
    let lines: Vec<_> = copied.iter().map(told).collect();
    assert!(kept.iter().map(told).eq(lines.iter().cloned()));
    assert!(kept.iter().rev().map(told).eq(lines.iter().rev().cloned()));
    for at in 0..length {
        assert_eq!(kept.get(offset(at).next()).map(told).as_ref(), lines.get(at as usize));
    }
    assert!(kept.get(offset(length).next()).is_none());
    for (from, to) in
        [(0, length), (length / 3, length / 2), (length / 2, length), (1, length.saturating_sub(1))]
    {
        assert_eq!(text_of(kept, from, to), text_of(copied, from, to));
        let runs = kept.runs(offset(from), offset(to));
        let told: Vec<_> = runs.flatten().map(told).collect();
        let (from, to) = (from.min(length) as usize, to.max(from).min(length) as usize);
        assert_eq!(told, lines[from..to]);
    }
    for name in TYPES {
        let types = TypeSet::new([name]);
        for run in kept.runs(Offset::ZERO, kept.len()) {
            assert!(run.may_have(&types) || !run.into_iter().any(|event| types.has(event)));
        }
    }
}

/// Bytes that a log may take with lines, an index, room for twice as many more, and what each segment has of its own.
fn bound(log: &Log) -> usize {
    let bytes: usize = log.lines(Offset::ZERO, log.len()).map(str::len).sum();
    let runs = log.runs(Offset::ZERO, log.len()).count();
    3 * bytes + 2 * 16 * log.len().get() as usize + 512 * (runs + 1) + (3 << 10)
}

/// How a line stands in a text, and how its event is put.
#[derive(Clone, Copy, Debug)]
enum How {
    /// As it is encoded.
    Same,
    /// White space inside, before or behind.
    Loose,
    Indented,
    Crlf,
    /// Members in another order.
    Reordered,
    /// Marked, put at another time, or read from somewhere else.
    Marked,
    Late,
    Apart,
    /// Passed over: the next lines are of events with lower seqs than they say.
    Skipped,
    /// The log is cut before it by so many events, and goes on.
    Cut(u8),
    /// A fork is made before it.
    Forked,
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        40 => Just(How::Same),
        1 => Just(How::Loose),
        1 => Just(How::Indented),
        1 => Just(How::Crlf),
        1 => Just(How::Reordered),
        1 => Just(How::Marked),
        1 => Just(How::Late),
        1 => Just(How::Apart),
        1 => Just(How::Skipped),
        1 => (0..9u8).prop_map(How::Cut),
        1 => Just(How::Forked),
    ]
}

/// A text: its lines with their lengths, what is claimed beyond it, and whether its last line has an end.
type Piece = (Vec<(How, usize)>, usize, bool);

fn piece() -> impl Strategy<Value = Piece> {
    let lines = prop::collection::vec((how(), prop_oneof![9 => 0..80usize, 1 => 0..3_000usize]), 0..40);
    (lines, prop_oneof![3 => Just(0), 1 => 0..4_000usize], prop::bool::weighted(0.9))
}

/// Both logs, forks of them, and the texts.
#[derive(Default)]
struct Pair {
    kept: Log,
    copied: Log,
    forks: Vec<(Log, Log)>,
    texts: Vec<Arc<String>>,
    /// Bytes that it may take.
    most: usize,
}

impl Pair {
    fn put(&mut self, draft: &Draft<'_>, time: i64) {
        let kept = told(self.kept.put(draft, draft.max_len(), time).0);
        let copied = Draft { line: None, ..*draft };
        assert_eq!(kept, told(self.copied.put(&copied, copied.max_len(), time).0));
    }

    fn put_text(&mut self, (lines, spare, ended): &Piece) {
        let first = self.kept.len().get();
        let spelt = lines.iter().zip(first..).map(|((how, len), seq)| {
            let line = line(TYPES[seq as usize % 4], seq, 7 * seq as i64, &"é".repeat(len / 2));
            match how {
                How::Loose => line.replace(":", " : "),
                How::Indented => format!("  {line}"),
                How::Crlf => line + "\r",
                How::Reordered => {
                    let (start, data) = line.split_once(r#","data":"#).unwrap();
                    let rest = start.strip_prefix('{').unwrap();
                    format!(r#"{{"data":{},{rest}}}"#, data.strip_suffix('}').unwrap())
                }
                _ => line,
            }
        });
        let joined =
            spelt.collect::<Vec<_>>().join("\n") + if *ended && !lines.is_empty() { "\n" } else { "" };
        let mut text = String::with_capacity(joined.len() + spare);
        text.push_str(&joined);
        let text = Arc::new(text);
        each_draft(&text, &mut |at, line, draft, time| match lines[at].0 {
            How::Skipped => {}
            How::Marked => self.put(&Draft { ignorable: true, line: None, ..*draft }, time),
            How::Late => self.put(draft, time + 1),
            How::Apart => {
                let mut scratch = Scratch::default();
                self.put(&draft_of(line, &mut scratch).2, time);
            }
            How::Cut(count) => {
                let to = offset(self.kept.len().get().saturating_sub(count.into()));
                self.kept.truncate(to);
                self.copied.truncate(to);
                self.put(draft, time);
            }
            How::Forked => {
                self.fork(self.kept.len());
                self.put(draft, time);
            }
            _ => self.put(draft, time),
        });
        self.kept.settle();
        self.texts.push(text);
    }

    fn fork(&mut self, at: Offset) {
        self.forks.push((self.kept.fork(at), self.copied.fork(at)));
    }

    fn check(&mut self) {
        same(&self.kept, &self.copied);
        // What was claimed for lines that were cut off stays claimed in a tail that is written.
        self.most = self.most.max(bound(&self.kept));
        let held = self.kept.footprint();
        assert!(held <= self.most.max(self.copied.footprint()), "{held} bytes, {} at most", self.most);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes between the lines that can be taken over.
    #[test]
    fn a_log_that_takes_lines_over_is_the_log_that_copies_them(pieces in prop::collection::vec(piece(), 1..5)) {
        let mut pair = Pair::default();
        for piece in &pieces {
            pair.put_text(piece);
            pair.check();
        }
        // A fork at every boundary, which goes on by itself; then the log is cut to nothing, a few events at a time.
        let length = pair.kept.len().get();
        (0..=length).for_each(|at| pair.fork(offset(at)));
        let title = Json::parse(r#"{"title":"more"}"#).unwrap().0;
        let kind = Json::parse(r#""session/title""#).unwrap().0.as_str().unwrap();
        for (kept, copied) in &mut pair.forks {
            same_lines(kept, copied);
            for log in [&mut *kept, &mut *copied] {
                log.push(&Draft::new(kind, title), 9);
            }
            assert_eq!(kept.last().map(told), copied.last().map(told));
        }
        while !pair.kept.is_empty() {
            let to = offset(pair.kept.len().get() * 4 / 5);
            pair.kept.truncate(to);
            pair.copied.truncate(to);
            pair.check();
            pair.put(&Draft::new(kind, title), 9);
            pair.check();
            pair.kept.truncate(to);
            pair.copied.truncate(to);
        }
    }
}

/// A text of lines that are all to be taken over, with so much claimed beyond it.
fn plain_text(first: u64, lines: u64, spare: usize) -> Arc<String> {
    let lines: String =
        (first..first + lines).map(|seq| line("x/one", seq, 1, "some words") + "\n").collect();
    let mut text = String::with_capacity(lines.len() + spare);
    text.push_str(&lines);
    Arc::new(text)
}

fn put_lines(log: &mut Log, text: &Arc<String>, count: usize) {
    each_draft(text, &mut |at, _, draft, time| {
        if at < count {
            log.push(draft, time);
        }
    });
    log.settle();
}

/// Whether a log keeps a text.
fn is_kept(text: &Arc<String>) -> bool {
    Arc::strong_count(text) > 1
}

#[test]
fn a_text_is_kept_for_nearly_all_of_it_and_let_go_of_for_less() {
    // Whole; all but the last tenth of its lines; all but a fifth; with more room than text.
    for (count, spare, kept) in
        [(100, 0, true), (90, 0, true), (80, 0, false), (100, 100, true), (100, 2_000, false)]
    {
        let (mut log, text) = (Log::new(), plain_text(0, 100, spare));
        put_lines(&mut log, &text, count);
        assert_eq!(is_kept(&text), kept, "{count} lines, {spare} bytes more");
        let same_place = log.last().unwrap().line().as_ptr() == text.lines().nth(count - 1).unwrap().as_ptr();
        assert_eq!(same_place, kept);
        let bytes: usize = log.lines(Offset::ZERO, log.len()).map(str::len).sum();
        assert!(log.footprint() <= bytes * 8 / 7 + 16 * count + 100, "{} for {bytes}", log.footprint());
    }
}

#[test]
fn a_log_lets_go_of_a_text_that_is_cut_or_left_in_its_middle() {
    let (mut log, text) = (Log::new(), plain_text(0, 100, 0));
    put_lines(&mut log, &text, 100);
    let fork = log.fork(offset(5));
    log.truncate(offset(50));
    drop(fork);
    assert!(is_kept(&text), "a shared segment stays whole");
    drop(log);
    assert!(!is_kept(&text));
    let (mut log, text) = (Log::new(), plain_text(0, 100, 0));
    put_lines(&mut log, &text, 100);
    log.truncate(offset(95));
    assert!(is_kept(&text));
    log.truncate(offset(50));
    assert!(!is_kept(&text));
    // An event of another origin ends it.
    let (mut log, text) = (Log::new(), plain_text(0, 10, 0));
    each_draft(&text, &mut |at, _, draft, time| {
        log.push(draft, if at == 3 { time + 1 } else { time });
    });
    assert!(!is_kept(&text));
    assert_eq!(log.runs(Offset::ZERO, log.len()).count(), 2);
}

#[test]
fn a_state_is_due_once_in_a_mebibyte_of_texts_that_were_taken_over() {
    let (mut log, mut due, mut bytes) = (Log::new(), 0, 0);
    while bytes < 8 << 20 {
        let text = plain_text(log.len().get(), 1_000, 0);
        bytes += text.len();
        each_draft(&text, &mut |_, _, draft, time| due += u32::from(log.push(draft, time).1));
        assert!(is_kept(&text));
    }
    assert!((7..=8).contains(&due), "{due}");
}

const HEADER: &str = r#"{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}"#;

/// What stands in a log at some row, beside events as they are encoded.
#[derive(Clone, Copy, Debug)]
enum Odd {
    Spaced,
    Indented,
    Crlf,
    Reordered,
    Packed,
    Unknown,
    Marked,
    OldShape,
    Long(usize),
    Blank,
    NotUtf8,
    Nuls(usize),
    Torn,
    Gap,
}

fn odd() -> impl Strategy<Value = Odd> {
    prop_oneof![
        2 => Just(Odd::Spaced),
        2 => Just(Odd::Indented),
        2 => Just(Odd::Crlf),
        2 => Just(Odd::Reordered),
        3 => Just(Odd::Packed),
        1 => Just(Odd::Unknown),
        2 => Just(Odd::Marked),
        1 => Just(Odd::OldShape),
        4 => (60_000..900_000usize).prop_map(Odd::Long),
        1 => Just(Odd::Blank),
        1 => Just(Odd::NotUtf8),
        1 => (1..300_000usize).prop_map(Odd::Nuls),
        1 => Just(Odd::Torn),
        1 => Just(Odd::Gap),
    ]
}

/// A log of about so many bytes whose rows have about that length, with oddities at some places.
fn log_bytes(bytes: usize, row: usize, odds: &[(usize, Odd)], ended: bool) -> Vec<u8> {
    let mut log = format!("{HEADER}\n").into_bytes();
    let (mut seq, mut odds) = (0u64, odds.iter().peekable());
    while log.len() < bytes {
        let (time, text) = (seq as i64 * 7, "wörd ".repeat((row + seq as usize * 13 % 90) / 6));
        let same = line(TYPES[(seq / 3) as usize % 2], seq, time, &text);
        let odd = odds.next_if(|(at, _)| *at <= log.len()).map(|(_, odd)| *odd);
        let row = match odd {
            None => same,
            Some(Odd::Spaced) => same.replacen("\":", "\" : ", 4),
            Some(Odd::Indented) => format!("\t {same}"),
            Some(Odd::Crlf) => same + "\r",
            Some(Odd::Reordered) => {
                format!(r#"{{"seq":{seq},"time":{time},"type":"session/title","data":{{"title":"t"}}}}"#)
            }
            Some(Odd::Packed) => {
                seq += 2;
                format!(
                    r#"{{"type":"text-chunks","seq0":{},"time0":7,"data":{{"turn":1,"step":1,"index":0,"dt":[7,7],"texts":["a","b","c"]}}}}"#,
                    seq - 2
                )
            }
            Some(Odd::Unknown) => line("y/unknown", seq, time, "t"),
            Some(Odd::Marked) => line("y/marked", seq, time, "t").replace("\"}}", "\"},\"ignorable\":true}"),
            Some(Odd::OldShape) => line("mode/set", seq, time, "t"),
            Some(Odd::Long(len)) => line("session/title", seq, time, &"lang ".repeat(len / 5)),
            Some(Odd::Blank) => String::from(" \t"),
            Some(Odd::NotUtf8) => {
                log.extend_from_slice(b"\xff\n");
                continue;
            }
            Some(Odd::Nuls(count)) => "\0".repeat(count),
            Some(Odd::Torn) => same.chars().take(60).collect(),
            Some(Odd::Gap) => line("session/title", seq + 9, time, "t"),
        };
        log.extend_from_slice(row.as_bytes());
        log.push(b'\n');
        seq += 1;
    }
    if !ended {
        log.pop();
    }
    log
}

fn read(bytes: &[u8], copies: bool) -> (Scan, Loader) {
    let mut loader = Loader::default();
    loader.copies = copies;
    let scan =
        read_log(&bytes, bytes.len() as u64, Encoding::Plain, ReadLimits::default(), &mut loader).unwrap();
    check(&scan, bytes.len() as u64);
    loader.history.settle();
    (scan, loader)
}

/// The same log read in both ways: the same is told of it, and its history goes on in the same way.
fn read_twice(bytes: &[u8]) {
    let ((scan, mut kept), (copied_scan, mut copied)) = (read(bytes, false), read(bytes, true));
    assert_eq!(format!("{scan:?}"), format!("{copied_scan:?}"));
    same(kept.history.log(), copied.history.log());
    let length = kept.history.log().len().get();
    assert!(kept.history.log().footprint() <= bound(kept.history.log()));
    for at in [1, length / 3, length / 2, length.saturating_sub(1), length] {
        let (a, b) = (kept.history.view_at(offset(at)), copied.history.view_at(offset(at)));
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
        same(kept.history.fork(offset(at)).log(), copied.history.fork(offset(at)).log());
    }
    let (_, mut kept) = read(bytes, false); // the forks have sealed its last segment
    for at in [length.saturating_sub(3), length * 9 / 10, length / 2, 1, 0] {
        kept.history.retract(offset(at));
        copied.history.retract(offset(at));
        same(kept.history.log(), copied.history.log());
        assert_eq!(format!("{:?}", kept.history.view()), format!("{:?}", copied.history.view()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Across the ends of batches, with one thread and, from 1 MiB on, with two.
    #[test]
    fn a_log_is_read_the_same_however_it_is_kept(
        bytes in prop_oneof![100..5_000usize, 5_000..600_000usize, 1_000_000..1_500_000usize],
        row in prop_oneof![3 => 60..400usize, 1 => 2_000..9_000usize],
        mut odds in prop::collection::vec((0..1_500_000usize, odd()), 0..6),
        ended in prop::bool::weighted(0.8),
    ) {
        odds.sort_by_key(|(at, _)| *at);
        read_twice(&log_bytes(bytes, row, &odds, ended));
    }
}

/// Rows that end just before, at and just behind the end of a batch, in its first one and the next.
#[test]
fn a_row_may_end_anywhere_about_the_end_of_a_batch() {
    const BATCH: usize = 512 << 10;
    for at in (BATCH - 40..BATCH - 24).chain([BATCH - 1, BATCH, BATCH + 1, 2 * BATCH - 64]) {
        let mut log = log_bytes(BATCH / 2, 200, &[], true);
        let seq = log.iter().filter(|byte| **byte == b'\n').count() as u64 - 1;
        let around = line("session/title", seq, 7, "").len() + 1;
        let fill = at + HEADER.len() + 1 - log.len() - around;
        log.extend(format!("{}\n", line("session/title", seq, 7, &"x".repeat(fill))).into_bytes());
        for more in 1..500 {
            log.extend(format!("{}\n", line("todo/write", seq + more, 7, &"y".repeat(300))).into_bytes());
        }
        let ((scan, kept), (_, copied)) = (read(&log, false), read(&log, true));
        assert_eq!((scan.events.get(), scan.problem_count), (seq + 500, 0));
        same_lines(kept.history.log(), copied.history.log());
    }
}

/// What a load takes follows the log, whether it is one line or many batches, and whether or not it has a torn end.
#[test]
fn a_log_that_is_read_takes_little_more_than_its_lines() {
    for (bytes, row) in [(300, 60), (4_000, 200), (100_000, 200), (2_000_000, 200), (3_000_000, 9_000)] {
        let whole = log_bytes(bytes, row, &[], true);
        let torn = [&whole[..], b"{\"type\":", &[b' '; 90_000]].concat();
        for log in [&whole, &torn] {
            let (scan, loader) = read(log, false);
            let (held, events) = (loader.history.log().footprint(), scan.events.get() as usize);
            let lines = (scan.committed - scan.header_bytes) as usize;
            let most = lines * 8 / 7 + 16 * events + 300 * (1 + lines / 50_000);
            assert!(held >= lines && held <= most, "{held} bytes for {lines} of lines, {events} events");
        }
    }
}
