//! The reader of stored logs on logs of any bytes: no panic, memory in proportion, and what is accepted
//! is what [`stored`](super::stored) finds there, with damage told where it is.

use sessiond::disk::paths::Encoding;
use sessiond::disk::read::damage::{Damage, ReadError, Refused, Verdict};
use sessiond::disk::read::reader::{ReadLimits, Scan, Sink, StoredEvent, read_log};
use sessiond::disk::read::zstd::FrameEncoder;
use sessiond::log::{Event, Offset, Seq};
use sessiond::session::{Candidate, History, Limits, Rules, Vocabulary};

use super::memory::measure;
use super::model::log::{closers, surface};
use super::model::rules::{MAX_DEPTH, MAX_EVENT_BYTES, OPTIONAL, REQUIRED};
use super::stored::{self, Told};

const MAX_LINE: usize = 1 << 16;

/// The first byte says what the rest is: a plain log; the text of a compressed one, cut into frames at
/// bytes 0x1E; the same with one change to its file; or the very bytes of a compressed log.
pub fn loader(bytes: &[u8]) {
    let [kind, rest @ ..] = bytes else { return };
    match kind % 4 {
        0 => plain(rest),
        1 => framed(rest),
        2 => {
            let [how, low, high, rest @ ..] = rest else { return };
            changed(rest, *how, usize::from(u16::from_le_bytes([*low, *high])));
        }
        _ => drop(read(rest, Encoding::Zstd)),
    }
}

/// Keeps what a log holds, validated as a load does it.
struct Loader {
    history: History,
    vocabulary: Vocabulary,
    limits: Limits,
    /// Bytes of all events that came.
    bytes: u64,
}

impl Sink for Loader {
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        let candidate = Candidate::stored(*event.draft, event.row, event.checks);
        let rules = Rules { vocabulary: &self.vocabulary, limits: &self.limits };
        assert_eq!(event.seq.before(), self.history.log().len(), "the next event");
        self.bytes += event.draft.data.text().len() as u64;
        let admitted = self.history.admit_stored(&candidate, event.time, rules);
        admitted.map(|_| ()).map_err(|refusal| Refused {
            verdict: Verdict::Corrupt,
            class: "",
            reason: refusal.to_string(),
        })
    }

    fn event_at(&self, seq: Seq) -> Option<Event<'_>> {
        self.history.log().get(seq)
    }

    fn retract(&mut self, to: Offset) {
        self.history.retract(to);
    }
}

/// A log as it was read.
struct Read {
    scan: Scan,
    loader: Loader,
}

impl Read {
    /// As readers are shown them.
    fn lines(&self) -> Vec<String> {
        self.loader.history.log().iter().map(|event| event.plain_line().into_owned()).collect()
    }
}

fn read(bytes: &[u8], encoding: Encoding) -> Result<Read, ReadError> {
    let mut vocabulary = Vocabulary::default();
    vocabulary.declare(REQUIRED, true);
    vocabulary.declare(OPTIONAL, false);
    let limits =
        Limits { max_depth: MAX_DEPTH as u32, max_event_bytes: MAX_EVENT_BYTES, ..Limits::default() };
    let mut loader = Loader { history: History::default(), vocabulary, limits, bytes: 0 };
    let (length, line) = (bytes.len() as u64, ReadLimits { max_line: MAX_LINE });
    let (scan, peak) = measure(|| read_log(&bytes, length, encoding, line, &mut loader));
    let text = scan.as_ref().map_or(0, |scan| scan.counts.text_bytes);
    // A packed row may take 256 times its length, and 1 MiB: with an id as long as the rest, 450 times.
    assert!(loader.bytes <= 450 * text + (1 << 20), "{} bytes of {text}", loader.bytes);
    // Buffers, one line with its keys, and what is kept: the events with an index and the views.
    let most = (4 << 20) + 40 * (MAX_LINE + bytes.len()) + 40 * loader.bytes as usize;
    assert!(peak <= most, "{peak} bytes held for {} read, {} kept", bytes.len(), loader.bytes);
    let scan = scan?;
    assert_eq!(scan.events, loader.history.log().len());
    assert!(scan.header_bytes <= scan.committed && scan.committed <= length);
    assert!(scan.recovered_from <= scan.events);
    assert_eq!(scan.torn.is_some(), scan.committed < length);
    if let Some(torn) = scan.torn {
        assert_eq!((torn.offset, torn.offset + torn.bytes), (scan.committed, length));
        assert!(scan.problem_count > 0, "cut without a reason");
    }
    for problem in &scan.problems {
        assert!(problem.place.offset <= length && !problem.to_string().is_empty());
    }
    assert!(scan.failure().is_none() || scan.problem_count > 0);
    Ok(Read { scan, loader })
}

/// The header line and what follows it, and what both say; nothing where there is no telling.
fn split(text: &[u8]) -> Option<Result<(usize, u64), ()>> {
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else { return Some(Err(())) };
    Some(stored::header(&text[..end])?.map(|inherited| (end + 1, inherited)))
}

fn plain(text: &[u8]) {
    let read = read(text, Encoding::Plain);
    let Some(header) = split(text) else { return };
    let (read, (base, inherited)) = match (read, header) {
        (Ok(read), Ok(header)) => (read, header),
        (Err(_), Err(())) => return,
        (read, header) => panic!("read {:?}, wanted {header:?}", read.map(|read| read.scan)),
    };
    let told = stored::records(&text[base..], base);
    if !agree(&read, &told, inherited, told.fatal) {
        return;
    }
    let scan = &read.scan;
    assert_eq!(
        (scan.header_bytes, scan.committed),
        (base as u64, told.sound_end as u64),
        "{:?}",
        scan.problems
    );
    assert_eq!(scan.missing_newline, told.missing_newline);
    if let (Some((_, offset)), Some(problem)) = (told.damage, named(scan, inherited, &told)) {
        assert_eq!((problem.0, problem.1), (offset as u64, offset as u64));
    }
}

/// The place of the first damage in the records, in the file and in the text.
fn named(scan: &Scan, inherited: u64, told: &Told) -> Option<(u64, u64)> {
    let first = usize::from(inherited > told.events.len() as u64 && !told.fatal);
    scan.problems.get(first).map(|problem| (problem.place.offset, problem.place.text))
}

/// Whether both have read the same; false where an older shape leaves it open.
fn agree(read: &Read, told: &Told, inherited: u64, fatal: bool) -> bool {
    let Read { scan, loader } = read;
    let lines: Vec<&str> = told.events.iter().map(|event| &*event.line).collect();
    if let Some(number) = told.unsure
        && scan.counts.upgraded > 0
    {
        assert_eq!(read.lines()[..lines.len()], lines, "before record {number}");
        return false;
    }
    if matches!(scan.problems.first().map(|problem| &problem.damage), Some(Damage::RowTooLarge { .. })) {
        return false; // a bound of ours
    }
    assert_eq!(read.lines(), lines, "{:?}", scan.problems);
    let exceeds = inherited > lines.len() as u64 && !fatal;
    assert_eq!(scan.failure().is_some(), fatal || exceeds, "{:?}, wanted {:?}", scan.problems, told.damage);
    assert_eq!(scan.problem_count > 0, told.damage.is_some() || exceeds);
    if let Some((number, _)) = told.damage {
        let first = scan.problems.get(usize::from(exceeds)).expect("the damage");
        assert_eq!(first.place.row, number, "{:?}", scan.problems);
    }
    if scan.failure().is_none() {
        let (nodes, generation) = surface(&told.events);
        let own = &loader.history.view().surface;
        assert!(own.nodes().map(|seq| seq.get() as usize).eq(nodes));
        assert_eq!(own.replace_generation(), generation);
        let closing: Vec<String> = closers(&told.events).into_iter().map(|(_, data, ..)| data).collect();
        let own = loader.history.closer_lines();
        assert_eq!(own.len(), closing.len());
        assert!(own.iter().zip(&closing).all(|(line, data)| line.contains(data.as_str())), "{own:?}");
    }
    true
}

/// The frames of a text, the first of which is its header line.
fn frames(text: &[u8]) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let end = text.iter().position(|byte| *byte == b'\n')? + 1;
    let mut encoder = FrameEncoder::new(1).unwrap();
    let parts = std::iter::once(&text[..end]).chain(text[end..].split(|byte| *byte == 0x1E));
    let frames: Vec<Vec<u8>> = parts.map(|part| encoder.encode(part).unwrap()).collect();
    let text = [&text[..end], &text[end..].iter().copied().filter(|byte| *byte != 0x1E).collect::<Vec<_>>()]
        .concat();
    Some((text, frames))
}

fn framed(text: &[u8]) {
    let Some((text, frames)) = frames(text) else { return };
    let file = frames.concat();
    let read = read(&file, Encoding::Zstd);
    let Some(header) = split(&text) else { return };
    let (read, (base, inherited)) = match (read, header) {
        (Ok(read), Ok(header)) => (read, header),
        (Err(_), Err(())) => return,
        (read, header) => panic!("read {:?}, wanted {header:?}", read.map(|read| read.scan)),
    };
    let told = stored::records(&text[base..], base);
    // In complete frames no crash explains any damage (FORMAT 13.2).
    if !agree(&read, &told, inherited, told.damage.is_some()) {
        return;
    }
    let scan = &read.scan;
    match told.damage {
        None => {
            assert_eq!((scan.committed, scan.missing_newline), (file.len() as u64, told.missing_newline));
            assert_eq!(scan.recovered_from, scan.events);
        }
        Some((_, offset)) => {
            let (frame, text) = named(scan, inherited, &Told { fatal: true, ..told }).unwrap();
            assert_eq!(text, offset as u64);
            let starts = frames.iter().scan(0, |at, frame| {
                let start = *at;
                *at += frame.len() as u64;
                Some(start)
            });
            assert!(starts.collect::<Vec<_>>().contains(&frame), "byte {frame} is no frame's start");
        }
    }
}

/// One bit changed, or the end cut: what is read is a beginning of what was there.
fn changed(text: &[u8], how: u8, place: usize) {
    let Some((_, frames)) = frames(text) else { return };
    // Writers end each frame with a record; of one that straddles two, a cut leaves a torn one (FORMAT 13.2).
    let straddles = text.windows(2).any(|pair| pair[1] == 0x1E && !matches!(pair[0], b'\n' | 0x1E));
    let mut file = frames.concat();
    let Ok(clean) = read(&file, Encoding::Zstd) else { return };
    let at = place % file.len();
    let is_cut = how & 8 != 0;
    if is_cut {
        file.truncate(at);
    } else {
        file[at] ^= 1 << (how & 7);
    }
    let Ok(read) = read(&file, Encoding::Zstd) else { return };
    let (was, is) = (clean.lines(), read.lines());
    assert!(was.starts_with(&is), "events that were not there");
    if clean.scan.problem_count == 0 {
        if is_cut && !straddles {
            let fatal = read
                .scan
                .failure()
                .filter(|problem| !matches!(problem.damage, Damage::InheritedExceeds { .. }));
            assert!(fatal.is_none(), "a cut is a torn tail: {fatal:?}");
        } else if !is_cut {
            assert!(is.len() == was.len() || read.scan.problem_count > 0, "events are gone without a word");
        }
    }
}
