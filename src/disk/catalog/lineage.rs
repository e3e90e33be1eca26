//! Whether the parents that stored sessions name lead back to where they began.

use std::collections::{HashMap, HashSet};

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
    let mut between = Vec::new();
    while between.len() < MOST {
        let name = parent?;
        if name == own {
            return Some(told(own, between.iter().map(String::as_str), between.len()));
        }
        let path = find(fs, &SessionId::new(&name).ok()?).ok()??;
        parent = header_of(fs, &path)?.parent_session;
        between.push(name);
    }
    None
}

/// The same of many sessions, given with the parents that they name, however many lie between.
pub fn lineage_loops<'s>(parents: impl IntoIterator<Item = (&'s str, &'s str)>) -> HashMap<&'s str, String> {
    let parents: HashMap<&str, &str> = parents.into_iter().collect();
    let (mut seen, mut found) = (HashSet::new(), HashMap::new());
    for start in parents.keys() {
        let mut way = Vec::new();
        let mut at = *start;
        while seen.insert(at) {
            way.push(at);
            let Some(parent) = parents.get(at) else { break };
            at = parent;
        }
        // It came back to where it was on this way, else to an earlier one.
        let Some(first) = way.iter().position(|id| *id == at && parents.contains_key(id)) else { continue };
        let members = way.get(first..).unwrap_or_default();
        for (index, own) in members.iter().enumerate() {
            let between = members.iter().cycle().skip(index + 1).copied();
            found.insert(*own, told(own, between, members.len() - 1));
        }
    }
    found
}

/// A loop in words: `count` others lie between the session and itself, its parent first.
fn told<'s>(own: &str, between: impl Iterator<Item = &'s str>, count: usize) -> String {
    /// So many ids are named.
    const NAMED: usize = 8;
    if count == 0 {
        return format!("the session names itself, {own:?}, as its parent");
    }
    let named: Vec<String> = between.take(count.min(NAMED)).map(|id| format!("{id:?}")).collect();
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    format!(
        "the session is its own ancestor: {own:?} descends from {}{more}, and that from {own:?}",
        named.join(", ")
    )
}
