//! Whether the parents that stored sessions name lead back to where they began.

use super::find::find;
use super::fs::FileSystem;
use super::list::MAX_HEADER;
use super::paths::{Encoding, LogPath};
use super::read_plain::read_header_line;
use super::read_zstd::header_frame;
use super::zstd::{FrameDecoder, Frames};
use crate::log::{Header, SessionId, parse_header_line};

/// So many ancestors are followed: each one is sought in the store.
const MOST: usize = 16;

/// What is odd about the lineage of a stored session: it names itself, or one of its ancestors names it. An ancestor
/// that is not stored, or cannot be read, ends the search.
pub fn lineage_loop(fs: &dyn FileSystem, header: &Header) -> Option<String> {
    let own = header.id.as_str();
    let mut parent = header.parent_session.clone();
    for generation in 0..MOST {
        let name = parent?;
        if name == own {
            return Some(match generation {
                0 => "the session names itself as its parent".to_owned(),
                _ => format!("the session is its own ancestor: {generation} others lie between"),
            });
        }
        let path = find(fs, &SessionId::new(&name).ok()?).ok()??;
        parent = header_of(fs, &path)?.parent_session;
    }
    None
}

fn header_of(fs: &dyn FileSystem, path: &LogPath) -> Option<Header> {
    let file = fs.open_read(&path.log()).ok()?;
    let (file, len) = (file.as_ref(), file.metadata().ok()?.len);
    let line = match path.encoding() {
        Encoding::Plain => read_header_line(file, len, MAX_HEADER).ok()?,
        Encoding::Zstd => {
            let mut decoder = FrameDecoder::new().ok()?;
            header_frame(&mut Frames::new(file, len), &mut decoder, file, MAX_HEADER).ok()?.0
        }
    };
    let (header, _) = parse_header_line(std::str::from_utf8(&line).ok()?).ok()?;
    Some(header)
}
