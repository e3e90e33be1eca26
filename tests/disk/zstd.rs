//! Frames, against artifacts of the reference's own writer (FORMAT 13.2).
//!
//! `SESSIOND_CORPUS=DIR` additionally checks every `*.zstd` artifact of the full corpus.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sessiond::disk::read::lines::LineSplitter;
use sessiond::disk::read::zstd::{Frame, FrameDecoder, FrameEncoder, FrameError, Frames};
use sha2::{Digest, Sha256};

struct Scan {
    frames: Vec<Frame>,
    torn: Option<u64>,
    error: Option<FrameError>,
}

fn scan(bytes: &[u8]) -> Scan {
    let mut frames = Frames::new(bytes, bytes.len() as u64);
    let mut scan = Scan { frames: Vec::new(), torn: None, error: None };
    for frame in &mut frames {
        match frame {
            Ok(frame) => scan.frames.push(frame),
            Err(error) => scan.error = Some(error),
        }
    }
    scan.torn = frames.torn();
    scan
}

fn decode(bytes: &[u8], frame: Frame) -> Result<Vec<u8>, FrameError> {
    let mut out = Vec::new();
    let mut sink = |chunk: &[u8]| {
        out.extend_from_slice(chunk);
        true
    };
    FrameDecoder::new().unwrap().decode(bytes, frame, &mut sink).map(|()| out)
}

fn decode_torn(bytes: &[u8], start: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sink = |chunk: &[u8]| {
        out.extend_from_slice(chunk);
        true
    };
    FrameDecoder::new().unwrap().decode_torn(bytes, start, bytes.len() as u64, &mut sink).unwrap();
    out
}

fn decode_all(bytes: &[u8]) -> Vec<u8> {
    scan(bytes).frames.into_iter().flat_map(|frame| decode(bytes, frame).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/zstd").join(name)).unwrap()
}

fn check(bytes: &[u8], expected: &Value, name: &str) {
    let found = scan(bytes);
    if let Some(frames) = expected["zstdFrames"].as_u64() {
        assert!(found.error.is_none(), "{name}: {:?}", found.error);
        assert_eq!(found.frames.len() as u64, frames, "{name}");
    }
    if let Some(digest) = expected["plaintextSha256"].as_str() {
        let text = decode_all(bytes);
        assert_eq!(text.len() as u64, expected["plaintextBytes"].as_u64().unwrap(), "{name}");
        assert_eq!(hex(&Sha256::digest(&text)), digest, "{name}");
    } else {
        let refused = found.frames.iter().find_map(|frame| decode(bytes, *frame).err()).or(found.error);
        assert!(refused.is_some(), "{name} should be refused");
    }
}

#[test]
fn artifacts_have_the_expected_frames_and_content() {
    let expected: Value = serde_json::from_slice(&fixture("expect.json")).unwrap();
    for (name, facts) in expected.as_object().unwrap() {
        check(&fixture(name), facts, name);
    }
}

#[test]
fn every_artifact_of_the_full_corpus() {
    let Some(corpus) = std::env::var_os("SESSIOND_CORPUS").map(PathBuf::from) else { return };
    let mut checked = 0;
    for dir in std::fs::read_dir(corpus.join("artifacts")).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = std::fs::read(dir.join("expect.json")) else { continue };
        let expect: Value = serde_json::from_slice(&text).unwrap();
        for (name, facts) in
            expect["files"].as_object().unwrap().iter().filter(|(name, _)| name.ends_with(".zstd"))
        {
            check(&std::fs::read(dir.join("root").join(name)).unwrap(), facts, name);
            checked += 1;
        }
    }
    assert!(checked > 40, "only {checked} artifacts found");
}

#[test]
fn damaged_shapes_are_told_apart() {
    let of = |name: &str| scan(&fixture(name));
    assert!(matches!(of("garbage-tail.zstd").error, Some(FrameError::NotAFrame { offset: 182 })));
    assert!(matches!(of("skippable.zstd").error, Some(FrameError::NotAFrame { offset: 107 })));
    // One to three bytes of anything may be the beginning of a frame.
    let short = of("short-garbage.zstd");
    assert!(short.error.is_none() && short.torn.is_some() && short.frames.len() == 2);

    let frame = FrameEncoder::new(3).unwrap().encode(b"line\n").unwrap();
    let with = |tail: &[u8]| scan(&[frame.as_slice(), tail].concat());
    let end = frame.len() as u64;
    assert!(matches!(with(&[0; 4]).error, Some(FrameError::NulTail { offset }) if offset == end));
    assert!(matches!(with(&[0; 9000]).error, Some(FrameError::NulTail { .. })));
    assert!(matches!(with(&[0, 0, 0, 0, 1]).error, Some(FrameError::NotAFrame { .. })));
    assert_eq!(with(&[0; 3]).torn, Some(end));
    let mut reserved = frame.clone();
    reserved[4] |= 0b1000;
    assert!(matches!(scan(&reserved).error, Some(FrameError::ReservedBit { offset: 0 })));
    let mut reserved = frame.clone();
    reserved[6] |= 0b110;
    assert!(matches!(scan(&reserved).error, Some(FrameError::ReservedBlock { offset: 6 })));
    let mut flipped = frame.clone();
    flipped[10] ^= 1;
    assert!(matches!(decode(&flipped, scan(&flipped).frames[0]), Err(FrameError::Invalid { offset: 0, .. })));
}

#[test]
fn every_cut_of_a_log_gives_a_prefix() {
    let bytes = fixture("torn-tail.zstd");
    let text = decode_all(&bytes);
    let ends: Vec<u64> = scan(&bytes).frames.iter().map(|frame| frame.end).collect();
    for size in 0..=bytes.len() {
        let cut = &bytes[..size];
        let found = scan(cut);
        assert!(found.error.is_none(), "cut at {size}");
        assert_eq!(
            found.frames.len(),
            ends.iter().filter(|end| **end <= size as u64).count(),
            "cut at {size}"
        );
        let whole = size == 0 || ends.contains(&(size as u64));
        assert_eq!(found.torn.is_none(), whole, "cut at {size}");
        let mut got = decode_all(cut);
        if let Some(start) = found.torn {
            got.extend(decode_torn(cut, start));
        }
        assert!(text.starts_with(&got), "cut at {size}");
        // Only checksum bytes are missing: the content is there (the corpus has 30 events from size 1494 on).
        if size + 4 >= bytes.len() {
            assert_eq!(got, text, "cut at {size}");
        }
    }
}

#[test]
fn frames_are_made_as_the_format_says() {
    let mut encoder = FrameEncoder::new(3).unwrap();
    for content in [b"".as_slice(), b"x\n", "é\n".repeat(300_000).as_bytes()] {
        let frame = encoder.encode(content).unwrap();
        let found = scan(&frame);
        assert_eq!(found.frames, [Frame { start: 0, end: frame.len() as u64 }]);
        assert_eq!(frame[4] & 0b100, 0b100, "checksum flag");
        assert_eq!(frame[4] & 0b1110_0000, 0, "no content size, not a single segment");
        assert_eq!(decode(&frame, found.frames[0]).unwrap(), content);
    }
}

#[test]
fn a_torn_frame_of_many_blocks_gives_the_blocks_before_the_tear() {
    let mut seed = 1u64;
    let mut content = Vec::new();
    while content.len() < 700_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        content.extend_from_slice(format!("{{\"seq\":{seed}}}\n").as_bytes());
    }
    let frame = FrameEncoder::new(1).unwrap().encode(&content).unwrap();
    let mut longest = 0;
    for size in (0..frame.len()).step_by(997) {
        let got = decode_torn(&frame[..size], 0);
        assert!(content.starts_with(&got));
        assert!(got.len() >= longest);
        longest = got.len();
    }
    assert!(longest > 500_000, "{longest}");
}

#[test]
fn inflating_streams_and_lines_are_bounded() {
    let bomb = FrameEncoder::new(3).unwrap().encode(&vec![b'a'; 50 << 20]).unwrap();
    assert!(bomb.len() < 10_000);
    let frame = scan(&bomb).frames[0];
    let mut lines = LineSplitter::new(1 << 20);
    let mut seen = 0;
    let mut failure = None;
    let mut sink = |chunk: &[u8]| {
        assert!(chunk.len() <= 128 * 1024);
        seen += chunk.len();
        failure = lines.push(chunk, &mut |_, _| {}).err();
        failure.is_none()
    };
    FrameDecoder::new().unwrap().decode(bomb.as_slice(), frame, &mut sink).unwrap();
    assert!(seen <= (1 << 20) + 128 * 1024);
    let failure = failure.unwrap();
    assert_eq!((failure.offset, failure.max), (0, 1 << 20));
}

#[test]
fn ten_thousand_frames_scan_in_few_reads() {
    let frame = FrameEncoder::new(3).unwrap().encode(b"{\"seq\":1}\n").unwrap();
    let log = frame.repeat(10_000);
    let counted = Counted { bytes: log.clone(), reads: AtomicUsize::new(0) };
    let frames = Frames::new(&counted, log.len() as u64);
    assert_eq!(frames.filter(Result::is_ok).count(), 10_000);
    let reads = counted.reads.into_inner();
    assert!(reads < 10, "{reads} reads for {} bytes", log.len());
}

struct Counted {
    bytes: Vec<u8>,
    reads: AtomicUsize,
}

impl sessiond::disk::fs::ReadAt for Counted {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.as_slice().read_at(offset, buf)
    }
}

#[test]
fn lines_straddle_chunks() {
    let text = b"first\n\nthird line\nrest";
    for size in 1..=text.len() {
        let mut lines = LineSplitter::new(10);
        let mut seen = Vec::new();
        for chunk in text.chunks(size) {
            lines.push(chunk, &mut |offset, line| seen.push((offset, line.to_vec()))).unwrap();
        }
        assert_eq!(seen, [(0, b"first".to_vec()), (6, Vec::new()), (7, b"third line".to_vec())]);
        assert_eq!(lines.rest(), (18, b"rest".as_slice()));
    }
    assert_eq!(LineSplitter::new(4).push(b"ok\nfirst\n", &mut |_, _| {}).unwrap_err().offset, 3);
}
