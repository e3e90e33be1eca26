//! Frames of `session.jsonl.zstd`: where they end, what is in them, and how to make one (FORMAT 13, 13.2).
//!
//! A log is a run of frames, one per durable batch. [`Frames`] finds their ends from headers and block sizes alone,
//! without decoding, so that a torn last frame is told from damage before anything is believed. Decoding streams
//! through two fixed buffers: what a frame inflates to is never held, and its window is at most 128 MiB (the
//! decoder's own limit).

use std::io;

use ::zstd::bulk::Compressor;
use ::zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};
use ::zstd::zstd_safe::CParameter;

use crate::disk::fs::{ReadAt, read_full};

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// The size of the three buffers here; a block never inflates to more.
const CHUNK: usize = 128 * 1024;

/// One complete frame in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Offset of its first byte.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
}

/// Why a log is not a run of frames.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Four bytes or more that start no frame; skippable frames count too.
    #[error("no zstd frame starts at byte {offset}: the log is damaged there")]
    NotAFrame {
        /// Where.
        offset: u64,
    },
    /// From here to the end there are only NULs: what a power loss leaves of bytes that were never synced. The
    /// reference refuses this as it refuses any other garbage.
    #[error("only NUL bytes follow from byte {offset}: the end of the log was lost")]
    NulTail {
        /// Where.
        offset: u64,
    },
    /// A frame header with the reserved bit set.
    #[error("the zstd frame at byte {offset} has a reserved bit set: the log is damaged there")]
    ReservedBit {
        /// The frame's start.
        offset: u64,
    },
    /// A block of the reserved type.
    #[error("the zstd block at byte {offset} has the reserved type: the log is damaged there")]
    ReservedBlock {
        /// The block's start.
        offset: u64,
    },
    /// A complete frame does not decode, or its checksum does not match.
    #[error("the zstd frame at byte {offset} does not decode ({cause}): the log is damaged there")]
    Invalid {
        /// The frame's start.
        offset: u64,
        /// What the decoder said.
        cause: io::Error,
    },
    /// The log could not be read.
    #[error("the log could not be read: {0}")]
    Read(#[source] io::Error),
    /// The codec could not be set up or could not compress, which only lack of memory explains.
    #[error("the zstd codec failed ({0}): free memory and try again")]
    Codec(#[source] io::Error),
}

/// The complete frames of a log, in order; afterwards [`torn`](Self::torn) tells where a torn last one starts.
pub struct Frames<'a, S: ?Sized> {
    source: &'a S,
    len: u64,
    at: u64,
    torn: Option<u64>,
    failed: bool,
    window: Vec<u8>,
    window_start: u64,
}

impl<'a, S: ReadAt + ?Sized> Frames<'a, S> {
    /// Scans the first `len` bytes of `source`.
    pub fn new(source: &'a S, len: u64) -> Self {
        Self { source, len, at: 0, torn: None, failed: false, window: Vec::new(), window_start: 0 }
    }

    /// Where the torn last frame starts, once the iterator has ended. One to three bytes of anything count as torn,
    /// because a frame's first four bytes are needed to know it.
    #[must_use]
    pub fn torn(&self) -> Option<u64> {
        self.torn
    }

    /// The bytes at `offset`: `most` of them, fewer at the end. One read serves the many small frames of a buffer.
    fn peek(&mut self, offset: u64, most: usize) -> Result<&[u8], FrameError> {
        let want = usize::try_from(self.len.saturating_sub(offset)).map_or(most, |left| left.min(most));
        let held = offset.checked_sub(self.window_start).and_then(|from| usize::try_from(from).ok());
        let from = match held.filter(|from| from.saturating_add(want) <= self.window.len()) {
            Some(from) => from,
            None => {
                self.window.resize(CHUNK, 0);
                let read = read_full(self.source, offset, &mut self.window).map_err(FrameError::Read)?;
                self.window.truncate(read);
                self.window_start = offset;
                0
            }
        };
        let rest = self.window.get(from..).unwrap_or_default();
        Ok(rest.get(..want).unwrap_or(rest))
    }

    /// The end of the frame that starts at `start`; `None` when the log ends inside it.
    fn frame_end(&mut self, start: u64) -> Result<Option<u64>, FrameError> {
        let &[m0, m1, m2, m3, ref rest @ ..] = self.peek(start, 5)? else { return Ok(None) };
        let descriptor = rest.first().copied();
        if [m0, m1, m2, m3] != MAGIC {
            let offset = start;
            return Err(match self.is_nul_from(start)? {
                true => FrameError::NulTail { offset },
                false => FrameError::NotAFrame { offset },
            });
        }
        let Some(descriptor) = descriptor else { return Ok(None) };
        if descriptor & 0b1000 != 0 {
            return Err(FrameError::ReservedBit { offset: start });
        }
        let single_segment = descriptor & 0b10_0000 != 0;
        let checksum = if descriptor & 0b100 != 0 { 4 } else { 0 };
        let dictionary = match descriptor & 0b11 {
            0 => 0,
            1 => 1,
            2 => 2,
            _ => 4,
        };
        let content_size = match descriptor >> 6 {
            0 => u64::from(single_segment),
            1 => 2,
            2 => 4,
            _ => 8,
        };
        let mut at = start + 5 + u64::from(!single_segment) + dictionary + content_size;
        loop {
            let &[b0, b1, b2] = self.peek(at, 3)? else { return Ok(None) };
            let head = u32::from_le_bytes([b0, b1, b2, 0]);
            let size = match (head >> 1) & 0b11 {
                1 => 1,
                3 => return Err(FrameError::ReservedBlock { offset: at }),
                _ => u64::from(head >> 3),
            };
            at += 3 + size;
            if head & 1 != 0 {
                let end = at + checksum;
                return Ok((end <= self.len).then_some(end));
            }
            if at >= self.len {
                return Ok(None);
            }
        }
    }

    fn is_nul_from(&self, mut offset: u64) -> Result<bool, FrameError> {
        let mut buf = vec![0; 4096];
        while offset < self.len {
            let want = usize::try_from(self.len - offset).map_or(buf.len(), |left| left.min(buf.len()));
            let part = buf.get_mut(..want).unwrap_or_default();
            let read = read_full(self.source, offset, part).map_err(FrameError::Read)?;
            if part.iter().take(read).any(|byte| *byte != 0) {
                return Ok(false);
            }
            if read == 0 {
                break;
            }
            offset += read as u64;
        }
        Ok(true)
    }
}

impl<S: ReadAt + ?Sized> Iterator for Frames<'_, S> {
    type Item = Result<Frame, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.torn.is_some() || self.at >= self.len {
            return None;
        }
        let start = self.at;
        match self.frame_end(start) {
            Ok(Some(end)) => {
                self.at = end;
                Some(Ok(Frame { start, end }))
            }
            Ok(None) => {
                self.torn = Some(start);
                None
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

/// Decodes frames chunk by chunk; one decoder serves any number of logs.
pub struct FrameDecoder {
    raw: Decoder<'static>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl FrameDecoder {
    /// A decoder with its two buffers of 128 KiB.
    ///
    /// # Errors
    /// [`FrameError::Codec`] when there is no memory for it.
    pub fn new() -> Result<Self, FrameError> {
        let raw = Decoder::new().map_err(FrameError::Codec)?;
        Ok(Self { raw, input: vec![0; CHUNK], output: vec![0; CHUNK] })
    }

    /// Hands the content of a complete frame to `sink` in chunks of at most 128 KiB, until it answers false.
    ///
    /// Chunks are handed on before the frame's checksum at its end has been seen: what `sink` got counts only if this
    /// returns `Ok`.
    ///
    /// # Errors
    /// [`FrameError::Invalid`] (`ZSTD_FRAME_INVALID` of FORMAT 13.2) and [`FrameError::Read`].
    pub fn decode(
        &mut self,
        source: &(impl ReadAt + ?Sized),
        frame: Frame,
        sink: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), FrameError> {
        let end = self.run(source, frame, sink)?;
        let cause = match end {
            End::Complete | End::Stopped => return Ok(()),
            End::Missing => io::Error::new(io::ErrorKind::UnexpectedEof, "it goes on after its last block"),
            End::Bad(cause) => cause,
        };
        Err(FrameError::Invalid { offset: frame.start, cause })
    }

    /// Hands on as much of a torn last frame as its bytes give, up to `len`, the end of the log. With frames of one
    /// block that is nothing, unless only checksum bytes are missing.
    ///
    /// # Errors
    /// [`FrameError::Read`] only: a torn frame cannot be damaged any further.
    pub fn decode_torn(
        &mut self,
        source: &(impl ReadAt + ?Sized),
        start: u64,
        len: u64,
        sink: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), FrameError> {
        self.run(source, Frame { start, end: len }, sink).map(|_| ())
    }

    fn run(
        &mut self,
        source: &(impl ReadAt + ?Sized),
        frame: Frame,
        sink: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<End, FrameError> {
        self.raw.reinit().map_err(FrameError::Codec)?;
        let mut at = frame.start;
        let mut complete = false;
        while at < frame.end {
            let want = usize::try_from(frame.end - at).map_or(CHUNK, |left| left.min(CHUNK));
            let part = self.input.get_mut(..want).unwrap_or_default();
            let read = read_full(source, at, part).map_err(FrameError::Read)?;
            if read == 0 {
                break;
            }
            at += read as u64;
            let mut input = InBuffer::around(part.get(..read).unwrap_or_default());
            loop {
                let mut output = OutBuffer::around(self.output.as_mut_slice());
                let hint = match self.raw.run(&mut input, &mut output) {
                    Ok(hint) => hint,
                    Err(cause) => return Ok(End::Bad(cause)),
                };
                let chunk = output.as_slice();
                if !chunk.is_empty() && !sink(chunk) {
                    return Ok(End::Stopped);
                }
                // 0 = this frame is decoded and handed out entirely, its checksum included.
                complete = hint == 0;
                // A full output buffer may hide more output that needs no further input.
                if complete || (input.pos == read && chunk.len() < CHUNK) {
                    break;
                }
            }
            if complete {
                break;
            }
        }
        Ok(if complete { End::Complete } else { End::Missing })
    }
}

enum End {
    Complete,
    Stopped,
    Missing,
    Bad(io::Error),
}

/// Makes frames with a checksum and without a content size, as the format's writers do (FORMAT 13).
pub struct FrameEncoder {
    compressor: Compressor<'static>,
}

impl FrameEncoder {
    /// An encoder for a compression level (the format's writers use 3; 1 is faster).
    ///
    /// # Errors
    /// [`FrameError::Codec`].
    pub fn new(level: i32) -> Result<Self, FrameError> {
        let make = || {
            let mut compressor = Compressor::new(level)?;
            compressor.set_parameter(CParameter::ChecksumFlag(true))?;
            compressor.set_parameter(CParameter::ContentSizeFlag(false))?;
            Ok(compressor)
        };
        Ok(Self { compressor: make().map_err(FrameError::Codec)? })
    }

    /// One frame that holds exactly `content`.
    ///
    /// # Errors
    /// [`FrameError::Codec`].
    pub fn encode(&mut self, content: &[u8]) -> Result<Vec<u8>, FrameError> {
        self.compressor.compress(content).map_err(FrameError::Codec)
    }
}
