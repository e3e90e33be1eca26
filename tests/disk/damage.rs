//! What counts as damage in a stored log, what as a torn tail, and what as a limit (FORMAT 13, PROTOCOL 9)?

use sessiond::disk::paths::Encoding;
use sessiond::disk::read::damage::{Damage, TooLow, Verdict};
use sessiond::disk::read::reader::{ReadLimits, read_log};
use sessiond::disk::read::zstd::FrameEncoder;

use crate::load_support::{Keeper, load, repaired};

fn log_of(rows: &[&str]) -> Vec<u8> {
    let mut text = String::from(
        "{\"type\":\"session\",\"version\":0,\"id\":\"s\",\"createdAt\":1,\"delegationDepth\":0}\n",
    );
    for row in rows {
        text.push_str(row);
        text.push('\n');
    }
    text.into_bytes()
}

const START: &str = r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#;
const END: &str = r#"{"type":"turn/end","seq":1,"time":2,"data":{"turn":1,"reason":{"kind":"completed"}}}"#;

fn error(bytes: &[u8]) -> (String, String) {
    load(bytes, Encoding::Plain).err().expect("the log loads")
}

#[test]
fn blank_lines_are_damage_with_a_line() {
    for blank in ["", "   ", "\t\r"] {
        let (class, text) = error(&log_of(&[START, blank, END]));
        assert_eq!(
            (class.as_str(), text.as_str()),
            ("LOG_UNPARSABLE_COMMITTED", "line 3 (byte 131): the line is blank")
        );
        let loaded = load(&log_of(&[START, END, blank]), Encoding::Plain).unwrap();
        assert_eq!(loaded.scan.torn.unwrap().bytes, blank.len() as u64 + 1);
        assert_eq!(loaded.lines().len(), 2);
    }
}

#[test]
fn nuls_at_the_end_are_torn_and_in_the_middle_reported() {
    let nuls = |count| "\0".repeat(count);
    let mut tail = log_of(&[START, END]);
    let whole = tail.len() as u64;
    tail.extend(nuls(64 << 10).into_bytes());
    let loaded = load(&tail, Encoding::Plain).unwrap();
    assert_eq!((loaded.lines().len(), loaded.scan.torn.unwrap().offset), (2, whole));
    assert!(matches!(loaded.scan.problems[0].damage, Damage::Nuls(65536)));
    // Far beyond the bound of a line, they are still no line that is too long.
    let limits = ReadLimits { max_line: 1000 };
    let scan = read_log(&tail.as_slice(), tail.len() as u64, Encoding::Plain, limits, &mut Keeper::default())
        .unwrap();
    assert_eq!((scan.failure().is_none(), scan.torn.unwrap().offset), (true, whole));
    // A block between two records, fused with the second one.
    let (class, text) = error(&log_of(&[START, &(nuls(4096) + END)]));
    assert_eq!(class, "LOG_UNPARSABLE_COMMITTED");
    assert_eq!(text, "line 3 (byte 131): the record begins with 4096 NUL bytes: what stood there was lost");
    let (class, _) = error(&log_of(&[&nuls(10), START, END]));
    assert_eq!(class, "LOG_UNPARSABLE_COMMITTED");
}

#[test]
fn a_whole_last_record_without_its_line_end_decides_like_any_other() {
    let mut bytes = log_of(&["garbage", START, END]);
    bytes.pop();
    let found = error(&bytes);
    assert_eq!(found.0, "LOG_UNPARSABLE_COMMITTED");
    let mut bytes = log_of(&[START, END]);
    bytes.pop();
    let loaded = load(&bytes, Encoding::Plain).unwrap();
    assert_eq!((loaded.lines().len(), loaded.scan.missing_newline, loaded.scan.torn), (2, true, None));
    assert_eq!(repaired(&bytes, &loaded), log_of(&[START, END]));
    // The header is nothing without one.
    let mut bytes = log_of(&[]);
    bytes.pop();
    assert_eq!(error(&bytes).0, "LOG_NO_HEADER");
}

#[test]
fn every_cut_of_the_last_record_keeps_what_was_before() {
    let bytes = log_of(&[START, &END.replace("completed", "compl\u{1F44B}ted")]);
    let whole = log_of(&[START]).len();
    for size in whole + 1..bytes.len() - 1 {
        let loaded = load(&bytes[..size], Encoding::Plain).unwrap();
        assert_eq!((loaded.lines().len(), loaded.closers), (2, 1));
        assert_eq!(loaded.scan.torn.unwrap().offset, whole as u64);
        assert!(matches!(loaded.scan.problems[0].damage, Damage::Incomplete));
    }
}

#[test]
fn a_line_beyond_the_bound_is_a_limit_and_no_damage() {
    let bytes = log_of(&[START, &END.replace("completed", &"x".repeat(5000)), START]);
    let limits = ReadLimits { max_line: 1000 };
    let mut keeper = Keeper::default();
    let scan = read_log(&bytes.as_slice(), bytes.len() as u64, Encoding::Plain, limits, &mut keeper).unwrap();
    let problem = scan.failure().unwrap();
    assert_eq!(
        problem.to_string(),
        "line 3 (byte 131): the line is longer than 1000 bytes; start the daemon with a larger --max-event-bytes to read this log"
    );
    assert_eq!(problem.damage.verdict(), Verdict::Limit(TooLow { limit: "maxEventBytes", max: 1000 }));
    assert_eq!(keeper.log.len().get(), 1);
}

#[test]
fn a_small_row_cannot_fill_the_memory() {
    let (id, pieces) = ("i".repeat(200_000), 50_000);
    let (args, dt) = (vec!["\"\""; pieces].join(","), vec!["0"; pieces - 1].join(","));
    let row = format!(
        r#"{{"type":"tool-call-chunks","seq0":0,"time0":0,"data":{{"turn":1,"step":1,"index":0,"id":"{id}","dt":[{dt}],"args":[{args}]}}}}"#
    );
    let (class, text) = error(&log_of(&[&row]));
    assert_eq!(class, "LOG_ROW_TOO_LARGE", "{text}");
}

#[test]
fn ranges_of_sources_stay_ranges_and_are_shown_as_a_list() {
    let message = |seq: u64, tail: &str| {
        format!(
            r#"{{"type":"user/message","seq":{seq},"time":1,"data":{{"id":"m{seq}","role":"user","content":[],"source":{{"kind":"user"}}}},{tail}}}"#
        )
    };
    let append = r#""surfaceOp":"append""#;
    let replace = r#""sourceEventSeqs":[[0,3]],"surfaceOp":{"op":"replace","start":0,"end":3}"#;
    let mut rows: Vec<_> = (0..4).map(|seq| message(seq, append)).collect();
    rows.push(message(4, replace));
    let rows: Vec<_> = rows.iter().map(String::as_str).collect();
    let loaded = load(&log_of(&rows), Encoding::Plain).unwrap();
    assert_eq!(loaded.scan.counts.ranged, 1);
    assert_eq!(loaded.lines()[4], rows[4], "ranges stay ranges");
    let event = loaded.history.log().last().unwrap();
    assert!(
        event.plain_line().contains(r#""sourceEventSeqs":[0,1,2,3],"surfaceOp""#),
        "{}",
        event.plain_line()
    );
    assert_eq!(loaded.history.view().surface.len(), 1);
}

#[test]
fn a_header_that_promises_more_than_there_is_refuses_the_log() {
    let text = String::from_utf8(log_of(&[START, END])).unwrap();
    let bytes = text.replace("\"createdAt\":1,", "\"createdAt\":1,\"seedLength\":3,").into_bytes();
    let (class, text) = error(&bytes);
    assert_eq!(class, "INHERITED_COUNT_EXCEEDS");
    assert!(text.starts_with("line 1 (byte 0): "));
}

#[test]
fn a_refusal_tells_its_record() {
    let unknown = r#"{"type":"x/y","seq":1,"time":2,"data":{}}"#;
    let (class, text) = error(&log_of(&[START, unknown, "garbage"]));
    assert_eq!(class, "EVENT_TYPE_UNKNOWN");
    assert!(text.starts_with("line 3 (byte 131): "), "{text}");
    let (class, text) = error(&log_of(&[START, r#"{"type":"x/y","seq":1,"data":{}}"#]));
    assert_eq!(
        (class.as_str(), text.as_str()),
        ("SEED_ENVELOPE", "line 3 (byte 131): an event needs the member \"time\"")
    );
}

#[test]
fn problems_are_bounded_and_counted() {
    let rows = vec!["x"; 5000];
    let bytes = log_of(&rows);
    let mut keeper = Keeper::default();
    let limits = ReadLimits::default();
    let scan = read_log(&bytes.as_slice(), bytes.len() as u64, Encoding::Plain, limits, &mut keeper).unwrap();
    assert_eq!((scan.problems.len(), scan.problem_count, scan.counts.rows), (100, 5000, 5000));
    assert!(scan.failure().is_none());
}

fn frames(texts: &[&str]) -> Vec<u8> {
    let mut encoder = FrameEncoder::new(3).unwrap();
    let header = String::from_utf8(log_of(&[])).unwrap();
    let mut bytes = encoder.encode(header.as_bytes()).unwrap();
    texts.iter().for_each(|text| bytes.extend(encoder.encode(text.as_bytes()).unwrap()));
    bytes
}

#[test]
fn complete_frames_hold_whole_records_only() {
    let (start, end) = (format!("{START}\n"), format!("{END}\n"));
    let zstd = |bytes: &[u8]| load(bytes, Encoding::Zstd);
    // Records may straddle frames, and frames may be empty.
    let (head, tail) = start.split_at(20);
    let whole = frames(&[head, "", tail, &end]);
    let loaded = zstd(&whole).unwrap();
    assert_eq!(
        (loaded.lines(), loaded.scan.missing_newline, loaded.scan.torn),
        (vec![START, END], false, None)
    );
    // A damaged, a missing or a half record is no torn tail there.
    for frame in ["garbage\n", "{}\n", "\n", "{\"type\":\"tu"] {
        let (class, text) = zstd(&frames(&[&start, &end, frame])).err().unwrap();
        assert_eq!(class, "ZSTD_TORN_RECORD_IN_FRAME", "{text}");
    }
    let (class, text) = zstd(&frames(&["garbage\n", &start, &end])).err().unwrap();
    assert_eq!(class, "LOG_UNPARSABLE_COMMITTED");
    assert!(text.starts_with(&format!("line 2 (byte {}): ", frames(&[]).len())), "{text}");
    // Whole but for its line end: kept (PROTOCOL 9.3), and the next frame begins with one.
    let unended = frames(&[&start, END]);
    let loaded = zstd(&unended).unwrap();
    assert_eq!((loaded.lines().len(), loaded.scan.missing_newline), (2, true));
    assert_eq!(loaded.scan.recovered_from.get(), 2);
    let torn = [&unended[..], &frames(&[&start])[frames(&[]).len()..][..12]].concat();
    let loaded = zstd(&torn).unwrap();
    assert_eq!((loaded.lines().len(), loaded.scan.missing_newline), (2, true));
    assert_eq!(loaded.scan.torn.unwrap().offset, unended.len() as u64);
    // NULs after the last frame are a torn tail; the reference refuses them.
    let nuls = [&whole[..], &[0; 70_000]].concat();
    let loaded = zstd(&nuls).unwrap();
    assert_eq!((loaded.lines().len(), loaded.scan.torn.unwrap().offset), (2, whole.len() as u64));
    assert!(matches!(loaded.scan.problems[0].damage, Damage::Nuls(70_000)));
    // Anything else is not.
    let (class, _) = zstd(&[&whole[..], b"garbage"].concat()).err().unwrap();
    assert_eq!(class, "ZSTD_MAGIC");
    assert_eq!(zstd(&[0; 100]).err().unwrap().0, "ZSTD_NO_HEADER");
    assert_eq!(zstd(b"").err().unwrap().0, "ZSTD_NO_HEADER");
    // A bomb of one line is a limit, found before it is held.
    let bomb = frames(&[&"x".repeat(70 << 20)]);
    let (class, _) = zstd(&bomb).err().unwrap();
    assert_eq!(class, "LOG_LINE_TOO_LONG");
}
