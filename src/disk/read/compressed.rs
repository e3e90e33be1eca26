//! `session.jsonl.zstd`: a run of frames (FORMAT 13.2).
//!
//! Frames are found one by one from their headers, then decoded and read in chunks. The events of a frame reach the
//! sink before the checksum at its end is seen; a frame that fails takes them back.

use super::damage::{Damage, ReadError};
use super::lines::{LineSplitter, LineTooLong};
use super::reader::{ReadLimits, Scan, Sink};
use super::rows;
use super::rows::Rows;
use super::zstd::{Frame, FrameDecoder, FrameError, Frames};
use crate::disk::fs::ReadAt;
use crate::log::Offset;

/// The text of the frames as it comes out of the decoder.
struct Text<'s> {
    rows: Rows<'s>,
    splitter: LineSplitter,
    /// The header's length in the text.
    base: u64,
    /// Bytes of text so far, with the header.
    end: u64,
    /// The frame that is being read, and where it begins in the text.
    frame: u64,
    frame_text: u64,
    /// The frame in which the pending line began.
    pending: u64,
    too_long: Option<LineTooLong>,
}

impl Text<'_> {
    fn begin(&mut self, frame: u64) {
        let (pending, rest) = self.splitter.rest();
        if rest.is_empty() || self.base + pending >= self.frame_text {
            self.pending = self.frame;
        }
        (self.frame, self.frame_text) = (frame, self.end);
    }

    fn frame_of(&self, text: u64) -> u64 {
        if text >= self.frame_text { self.frame } else { self.pending }
    }

    /// False once no more can be held.
    fn take(&mut self, chunk: &[u8]) -> bool {
        self.end += chunk.len() as u64;
        let Self { rows, splitter, base, frame, frame_text, pending, .. } = self;
        let split = splitter.push(chunk, &mut |offset, line| {
            let text = *base + offset;
            rows.line(if text >= *frame_text { *frame } else { *pending }, text, line);
        });
        // After a refusal the rest of the frame is still decoded: its checksum has the first word.
        self.too_long = split.err();
        self.too_long.is_none()
    }

    fn rest_is_empty(&self) -> bool {
        self.splitter.rest().1.is_empty()
    }

    /// Takes what follows the last line end.
    fn take_last(&mut self) {
        let (offset, rest) = self.splitter.rest();
        let text = self.base + offset;
        self.rows.last(self.frame_of(text), text, rest);
    }
}

/// A place in the file where records and frames end together, and the events before it.
#[derive(Clone, Copy)]
struct Mark {
    file: u64,
    events: Offset,
    missing_newline: bool,
}

impl Mark {
    fn new(file: u64, rows: &Rows<'_>) -> Self {
        Self { file, events: rows.events(), missing_newline: rows.is_missing_newline() }
    }
}

/// What follows the complete frames.
#[derive(Clone, Copy)]
enum Tail {
    Nothing,
    /// A frame that the log's end cuts.
    Torn(u64),
    /// NULs to the end.
    Nuls(u64),
}

pub(in crate::disk) fn read_zstd(
    source: &dyn ReadAt,
    len: u64,
    limits: ReadLimits,
    sink: &mut dyn Sink,
) -> Result<Scan, ReadError> {
    let mut decoder = FrameDecoder::new()?;
    let mut frames = Frames::new(source, len);
    let (header, first) = header_frame(&mut frames, &mut decoder, source, limits.max_line)?;
    let base = header.len() as u64 + 1;
    let mut text = Text {
        rows: rows::open(&header, sink)?,
        splitter: LineSplitter::new(limits.max_line),
        base,
        end: base,
        frame: first.start,
        frame_text: 0,
        pending: first.start,
        too_long: None,
    };
    let mut mark = Mark::new(first.end, &text.rows);
    let mut tail = Tail::Nothing;
    for frame in frames.by_ref() {
        let frame = match frame {
            Ok(frame) => frame,
            Err(FrameError::Read(error)) => return Err(ReadError::Io(error)),
            // What a power loss leaves after the last frame is a torn tail; the reference refuses it.
            Err(FrameError::NulTail { offset }) => {
                tail = Tail::Nuls(offset);
                break;
            }
            Err(error) => {
                text.rows.stop_in_frame();
                text.rows.stop_at(frame_start(&error), text.end, Damage::Frame(error));
                break;
            }
        };
        read_frame(&mut text, &mut decoder, source, frame)?;
        if text.rows.is_stopped() {
            break;
        }
        if text.rows.is_sound() && text.rest_is_empty() {
            mark = Mark::new(frame.end, &text.rows);
        }
    }
    if let Some(start) = frames.torn() {
        tail = Tail::Torn(start);
    }
    if !text.rows.is_stopped() {
        read_tail(&mut text, &mut mark, &mut decoder, source, tail, len)?;
    }
    let end = text.end;
    let mut scan = text.rows.finish(first.end, mark.file, len, end);
    scan.recovered_from = mark.events.min(scan.events);
    scan.missing_newline = mark.missing_newline;
    Ok(scan)
}

fn read_frame(
    text: &mut Text<'_>,
    decoder: &mut FrameDecoder,
    source: &dyn ReadAt,
    frame: Frame,
) -> Result<(), ReadError> {
    text.begin(frame.start);
    let before = text.rows.mark();
    match decoder.decode(source, frame, &mut |chunk| text.take(chunk)) {
        Ok(()) => {}
        Err(error @ FrameError::Invalid { .. }) => {
            text.rows.go_back(before);
            text.rows.stop_in_frame();
            text.rows.stop_at(frame.start, text.frame_text, Damage::Frame(error));
        }
        Err(error) => return Err(error.into()),
    }
    if let Some(LineTooLong { offset, max }) = text.too_long {
        text.rows.stop_at(text.frame_of(text.base + offset), text.base + offset, Damage::LineTooLong { max });
    }
    Ok(())
}

/// Reads the end of the text and what follows the complete frames. In these nothing may be damaged or incomplete.
fn read_tail(
    text: &mut Text<'_>,
    mark: &mut Mark,
    decoder: &mut FrameDecoder,
    source: &dyn ReadAt,
    tail: Tail,
    len: u64,
) -> Result<(), ReadError> {
    let has_rest = !text.rest_is_empty();
    if has_rest {
        text.take_last();
    }
    text.rows.stop_in_frame();
    if text.rows.is_stopped() {
        return Ok(());
    }
    let frames_end = match tail {
        Tail::Nothing => len,
        Tail::Torn(start) | Tail::Nuls(start) => start,
    };
    // With a rest, the last record lacks its line end, which the next frame begins with.
    *mark = Mark::new(frames_end, &text.rows);
    match tail {
        Tail::Nothing => {}
        Tail::Nuls(start) => text.rows.damage_at(start, text.end, Damage::Nuls(len - start)),
        // Its text would go on in the line that was just taken as whole.
        Tail::Torn(start) if has_rest => text.rows.damage_at(start, text.end, Damage::Incomplete),
        Tail::Torn(start) => read_torn(text, decoder, source, start, len)?,
    }
    Ok(())
}

/// A torn last frame is decoded as far as possible, and its whole records are kept.
fn read_torn(
    text: &mut Text<'_>,
    decoder: &mut FrameDecoder,
    source: &dyn ReadAt,
    start: u64,
    len: u64,
) -> Result<(), ReadError> {
    text.begin(start);
    decoder.decode_torn(source, start, len, &mut |chunk| text.take(chunk))?;
    match text.too_long {
        // A limit says nothing about damage; but here the record is torn at best.
        Some(_) => text.rows.damage_at(start, text.end, Damage::Incomplete),
        None => text.take_last(),
    }
    if text.rows.is_sound() {
        text.rows.damage_at(start, text.end, Damage::Incomplete);
    }
    Ok(())
}

fn frame_start(error: &FrameError) -> u64 {
    match error {
        FrameError::NotAFrame { offset }
        | FrameError::NulTail { offset }
        | FrameError::ReservedBit { offset }
        | FrameError::ReservedBlock { offset }
        | FrameError::Invalid { offset, .. } => *offset,
        FrameError::Read(_) | FrameError::Codec(_) => 0,
    }
}

/// The header line, which the first frame holds and nothing else, without its line end.
pub(in crate::disk) fn header_frame<S: ReadAt + ?Sized>(
    frames: &mut Frames<'_, S>,
    decoder: &mut FrameDecoder,
    source: &S,
    max: usize,
) -> Result<(Vec<u8>, Frame), ReadError> {
    let first = match frames.next() {
        None | Some(Err(FrameError::NulTail { offset: 0 })) => return Err(ReadError::NoHeaderFrame),
        Some(frame) => frame?,
    };
    let mut line = Vec::new();
    let mut fits = true;
    decoder.decode(source, first, &mut |chunk| {
        fits = line.len() + chunk.len() <= max.saturating_add(1);
        if fits {
            line.extend_from_slice(chunk);
        }
        fits
    })?;
    if !fits {
        return Err(ReadError::HeaderTooLong { max });
    }
    let ended = line.pop() == Some(b'\n');
    if !ended || memchr::memchr(b'\n', &line).is_some() {
        return Err(ReadError::HeaderFrameShape);
    }
    Ok((line, first))
}
