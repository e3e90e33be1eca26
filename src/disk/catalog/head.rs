//! The header of a log, read without what follows it.

use crate::disk::fs::{File, FileSystem};
use crate::disk::paths::{Encoding, LogPath};
use crate::disk::read::compressed::header_frame;
use crate::disk::read::damage::ReadError;
use crate::disk::read::plain::read_header_line;
use crate::disk::read::zstd::{FrameDecoder, Frames};
use crate::log::{Header, Offset, parse_header_line};

/// Headers are short; a longer first line belongs to a log that a load would refuse as well.
const MAX_HEADER: usize = 16 << 20;

/// What reads headers, one after the other.
#[derive(Default)]
pub(in crate::disk) struct Heads {
    /// Made for the first compressed log.
    decoder: Option<FrameDecoder>,
}

/// A header, as its line without the line end and as what that says.
pub(in crate::disk) struct Head {
    pub(in crate::disk) line: String,
    pub(in crate::disk) header: Header,
    /// Events that came from the parent.
    pub(in crate::disk) inherited: Offset,
}

impl Heads {
    /// Reads the header of a log of `len` bytes.
    pub(in crate::disk) fn read(
        &mut self,
        file: &dyn File,
        len: u64,
        encoding: Encoding,
    ) -> Result<Head, ReadError> {
        let line =
            String::from_utf8(self.line(file, len, encoding)?).map_err(|_| ReadError::HeaderNotUtf8)?;
        let (header, inherited) = parse_header_line(&line).map_err(ReadError::Header)?;
        Ok(Head { line, header, inherited })
    }

    fn line(&mut self, file: &dyn File, len: u64, encoding: Encoding) -> Result<Vec<u8>, ReadError> {
        if encoding == Encoding::Plain {
            return read_header_line(file, len, MAX_HEADER);
        }
        let decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => FrameDecoder::new()?,
        };
        let decoder = self.decoder.insert(decoder);
        Ok(header_frame(&mut Frames::new(file, len), decoder, file, MAX_HEADER)?.0)
    }
}

/// The header of one log; none where it does not read.
pub(in crate::disk) fn header_of(fs: &dyn FileSystem, log: &LogPath) -> Option<Header> {
    let file = fs.open_read(&log.log()).ok()?;
    let len = file.metadata().ok()?.len;
    Some(Heads::default().read(file.as_ref(), len, log.encoding()).ok()?.header)
}
