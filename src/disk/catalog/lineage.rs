//! Whether the parents that stored sessions name lead back to where they began.

use super::find::find;
use super::head::header_of;
use crate::disk::fs::FileSystem;
use crate::log::{Header, SessionId};

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
