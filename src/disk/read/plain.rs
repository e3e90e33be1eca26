//! `session.jsonl`: lines as they are (FORMAT 13.1).

use super::batch::{BATCH, BatchReader, Next};
use super::damage::{Damage, ReadError};
use super::read_ahead::each_batch;
use super::reader::{ReadLimits, Scan, Sink};
use super::rows;
use super::rows::Rows;
use crate::disk::fs::{ReadAt, read_full};
use crate::json::Scratch;

pub(in crate::disk) fn read_plain(
    source: &dyn ReadAt,
    len: u64,
    limits: ReadLimits,
    sink: &mut dyn Sink,
) -> Result<Scan, ReadError> {
    let header = read_header_line(source, len, limits.max_line)?;
    let scratch = Scratch::default();
    let mut rows = rows::open(&header, sink)?;
    let base = header.len() as u64 + 1;
    let mut next = Next::End(base);
    let mut reader = BatchReader::new(source, base, len, limits.max_line, scratch);
    each_batch(&mut reader, &mut |batch| {
        rows.batch(batch);
        next = batch.next();
        next == Next::More && !rows.is_stopped()
    })
    .map_err(ReadError::Io)?;
    let end = match next {
        Next::End(end) => end,
        Next::TooLong(offset) if !rows.is_stopped() => {
            end_in_long_line(&mut rows, source, offset, len, limits.max_line)?;
            len
        }
        _ => len,
    };
    let committed = rows.sound_end();
    Ok(rows.finish(base, committed, end, end))
}

/// A line beyond the bound may be a record, and then the bound is too low. NULs to the end are none, however many.
fn end_in_long_line(
    rows: &mut Rows<'_>,
    source: &dyn ReadAt,
    offset: u64,
    len: u64,
    max: usize,
) -> Result<(), ReadError> {
    if is_nul_from(source, offset, len)? {
        rows.damage_at(offset, offset, Damage::Nuls(len - offset));
    } else {
        rows.stop_at(offset, offset, Damage::LineTooLong { max });
    }
    Ok(())
}

fn is_nul_from(source: &dyn ReadAt, mut at: u64, len: u64) -> Result<bool, ReadError> {
    let mut buf = vec![0; BATCH];
    while at < len {
        let want = usize::try_from(len - at).map_or(BATCH, |left| left.min(BATCH));
        let part = buf.get_mut(..want).unwrap_or_default();
        let read = read_full(source, at, part).map_err(ReadError::Io)?;
        if read == 0 {
            break;
        }
        if part.iter().take(read).any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += read as u64;
    }
    Ok(true)
}

/// The first line without its line end. It costs one small read, however long the log is.
pub(in crate::disk) fn read_header_line(
    source: &dyn ReadAt,
    len: u64,
    max: usize,
) -> Result<Vec<u8>, ReadError> {
    let mut line = Vec::new();
    let mut step = 4 << 10;
    loop {
        let have = line.len();
        let want = usize::try_from(len.saturating_sub(have as u64)).map_or(step, |left| left.min(step));
        line.resize(have + want, 0);
        let part = line.get_mut(have..).unwrap_or_default();
        let read = read_full(source, have as u64, part).map_err(ReadError::Io)?;
        line.truncate(have + read);
        if let Some(end) = memchr::memchr(b'\n', line.get(have..).unwrap_or_default()) {
            line.truncate(have + end);
        } else if read == 0 {
            return Err(ReadError::NoHeader);
        } else if line.len() <= max {
            step = BATCH;
            continue;
        }
        return if line.len() > max { Err(ReadError::HeaderTooLong { max }) } else { Ok(line) };
    }
}
