//! Whatever happens to a log's bytes: no panic, and never an event that was not there.
//!
//! The bodies of this test's events are free of strings that a mutation could change unnoticed: every value is bound
//! to its seq, so that an event that is not the original one is seen.

use proptest::prelude::*;
use sessiond::disk::paths::Encoding;
use sessiond::disk::read::reader::{ReadLimits, Scan, read_log};
use sessiond::disk::read::zstd::FrameEncoder;

use crate::load_support::{Keeper, check};

/// The rows of a log: turns of some events, some packed.
fn rows() -> Vec<String> {
    let mut rows = Vec::new();
    let mut seq = 0;
    for turn in 1..=6 {
        rows.push(format!(
            r#"{{"type":"turn/start","seq":{seq},"time":{},"data":{{"turn":{turn}}}}}"#,
            seq * 7
        ));
        let pieces: Vec<_> = (1..=5).map(|at| format!("\"{}\"", seq + at)).collect();
        rows.push(format!(
            r#"{{"type":"text-chunks","seq0":{},"time0":{},"data":{{"turn":{turn},"step":1,"index":0,"dt":[7,7,7,7],"texts":[{}]}}}}"#,
            seq + 1,
            (seq + 1) * 7,
            pieces.join(",")
        ));
        seq += 6;
        for _ in 0..turn {
            rows.push(format!(
                r#"{{"type":"todo/write","seq":{seq},"time":{},"data":{{"todos":[{seq}]}}}}"#,
                seq * 7
            ));
            seq += 1;
        }
        if turn < 6 {
            rows.push(format!(
                r#"{{"type":"turn/end","seq":{seq},"time":{},"data":{{"turn":{turn},"reason":{{"kind":"completed"}}}}}}"#,
                seq * 7
            ));
            seq += 1;
        }
    }
    rows
}

const HEADER: &str = r#"{"type":"session","version":0,"id":"s","createdAt":1,"delegationDepth":0}"#;

fn plain() -> Vec<u8> {
    let mut text = String::from(HEADER) + "\n";
    rows().iter().for_each(|row| text.push_str(&format!("{row}\n")));
    text.into_bytes()
}

fn zstd() -> Vec<u8> {
    let mut encoder = FrameEncoder::new(3).unwrap();
    let mut bytes = encoder.encode(format!("{HEADER}\n").as_bytes()).unwrap();
    for batch in rows().chunks(4) {
        let text: String = batch.iter().map(|row| format!("{row}\n")).collect();
        bytes.extend(encoder.encode(text.as_bytes()).unwrap());
    }
    bytes
}

fn read(bytes: &[u8], encoding: Encoding) -> Option<(Scan, Vec<String>)> {
    let mut keeper = Keeper::default();
    let limits = ReadLimits { max_line: 1 << 14 };
    let scan = read_log(&bytes, bytes.len() as u64, encoding, limits, &mut keeper).ok()?;
    check(&scan, bytes.len() as u64);
    assert_eq!(scan.events, keeper.log.len());
    Some((scan, keeper.log.iter().map(|event| event.line().to_owned()).collect()))
}

#[derive(Clone, Debug)]
enum Mutation {
    Cut(usize),
    Flip(usize, u8),
    Insert(usize, Vec<u8>),
    Delete(usize, usize),
    DuplicateLine(usize),
    SwapLines(usize, usize),
    Nuls(usize, usize),
    TailNuls(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    prop_oneof![
        at.clone().prop_map(Mutation::Cut),
        (at.clone(), 1..=255u8).prop_map(|(at, mask)| Mutation::Flip(at, mask)),
        (at.clone(), prop::collection::vec(any::<u8>(), 1..40))
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (
            at.clone(),
            prop::sample::select(vec!["\n", "\n\n", "\r\n", "null\n", "{}\n", "}\n", " ", "\u{85}"])
        )
            .prop_map(|(at, text)| Mutation::Insert(at, text.as_bytes().to_vec())),
        (at.clone(), 1..200usize).prop_map(|(at, count)| Mutation::Delete(at, count)),
        at.clone().prop_map(Mutation::DuplicateLine),
        (at.clone(), at.clone()).prop_map(|(a, b)| Mutation::SwapLines(a, b)),
        (at.clone(), 1..300usize).prop_map(|(at, count)| Mutation::Nuls(at, count)),
        (1..40_000usize).prop_map(Mutation::TailNuls),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let len = bytes.len().max(1);
    let lines =
        |bytes: &[u8]| bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    match mutation {
        Mutation::Cut(at) => bytes.truncate(at % len),
        Mutation::Flip(at, mask) => {
            if let Some(byte) = bytes.get_mut(at % len) {
                *byte ^= mask;
            }
        }
        Mutation::Insert(at, more) => {
            let at = (at % len).min(bytes.len());
            bytes.splice(at..at, more.iter().copied());
        }
        Mutation::Delete(at, count) => {
            let at = (at % len).min(bytes.len());
            let end = (at + count).min(bytes.len());
            bytes.drain(at..end);
        }
        Mutation::DuplicateLine(at) => {
            let mut all = lines(bytes);
            if let Some(line) = all.get(at % all.len().max(1)).cloned() {
                all.insert(at % all.len(), line);
            }
            *bytes = all.concat();
        }
        Mutation::SwapLines(a, b) => {
            let mut all = lines(bytes);
            if !all.is_empty() {
                let count = all.len();
                all.swap(a % count, b % count);
            }
            *bytes = all.concat();
        }
        Mutation::Nuls(at, count) => {
            let at = (at % len).min(bytes.len());
            let end = (at + count).min(bytes.len());
            bytes[at..end].fill(0);
        }
        Mutation::TailNuls(count) => bytes.extend(vec![0; *count]),
    }
}

/// Structural mutations cannot make new events; a byte changed within a value can (plain logs have no checksum).
fn changes_values(mutation: &Mutation) -> bool {
    matches!(mutation, Mutation::Flip(..) | Mutation::Insert(..) | Mutation::Delete(..))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plain_logs_yield_only_their_own_events(mutations in prop::collection::vec(mutation(), 1..3)) {
        let original = read(&plain(), Encoding::Plain).unwrap().1;
        let mut bytes = plain();
        mutations.iter().for_each(|mutation| mutate(&mut bytes, mutation));
        if let Some((_, events)) = read(&bytes, Encoding::Plain) {
            if !mutations.iter().any(changes_values) {
                prop_assert!(original.starts_with(&events), "{mutations:?}");
            }
            for (seq, line) in events.iter().enumerate() {
                let member = format!("\"seq\":{seq},");
                prop_assert!(line.contains(&member));
            }
        }
    }

    #[test]
    fn compressed_logs_yield_a_prefix_of_their_events(mutations in prop::collection::vec(mutation(), 1..3)) {
        let original = read(&zstd(), Encoding::Zstd).unwrap().1;
        let mut bytes = zstd();
        mutations.iter().for_each(|mutation| mutate(&mut bytes, mutation));
        if let Some((_, events)) = read(&bytes, Encoding::Zstd) {
            prop_assert!(original.starts_with(&events), "{mutations:?}");
        }
    }

    #[test]
    fn any_bytes_after_a_header_are_read(tail in prop::collection::vec(any::<u8>(), 0..400)) {
        for encoding in [Encoding::Plain, Encoding::Zstd] {
            let mut bytes = if encoding == Encoding::Plain { format!("{HEADER}\n").into_bytes() } else {
                FrameEncoder::new(1).unwrap().encode(format!("{HEADER}\n").as_bytes()).unwrap()
            };
            bytes.extend(&tail);
            let (_, events) = read(&bytes, encoding).unwrap();
            prop_assert!(events.is_empty());
            let _ = read(&tail, encoding);
        }
    }
}

#[test]
fn every_flip_of_a_compressed_log_yields_a_prefix() {
    let (bytes, original) = (zstd(), read(&zstd(), Encoding::Zstd).unwrap().1);
    for at in 0..bytes.len() {
        for mask in [1, 0x80] {
            let mut bytes = bytes.clone();
            bytes[at] ^= mask;
            if let Some((_, events)) = read(&bytes, Encoding::Zstd) {
                assert!(original.starts_with(&events), "byte {at}");
            }
        }
    }
}

#[test]
fn a_cut_compressed_log_tells_what_to_write_again() {
    let (bytes, original) = (zstd(), read(&zstd(), Encoding::Zstd).unwrap().1);
    let mut recovered = 0;
    for size in 0..bytes.len() {
        let Some((scan, events)) = read(&bytes[..size], Encoding::Zstd) else { continue };
        assert!(original.starts_with(&events));
        assert!(scan.failure().is_none());
        // Cut there, and with the recovered events as one more frame, the log is whole again.
        let mut mended = bytes[..usize::try_from(scan.committed).unwrap()].to_vec();
        let again = &events[usize::try_from(scan.recovered_from.get()).unwrap()..];
        if !again.is_empty() {
            recovered += 1;
            let text: String = again.iter().map(|line| format!("{line}\n")).collect();
            mended.extend(FrameEncoder::new(3).unwrap().encode(text.as_bytes()).unwrap());
        }
        let (scan, read_again) = read(&mended, Encoding::Zstd).unwrap();
        assert_eq!((read_again, scan.torn, scan.problem_count), (events, None, 0));
    }
    assert!(recovered > 0);
}
