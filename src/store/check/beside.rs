//! What lies beside a log, or where one is missing: files of sessiond's own, and what may be all that is left of a session.

use std::ffi::OsStr;
use std::path::Path;

use crate::disk::fs::{DirEntry, FileKind, FileSystem};
use crate::disk::live::temporary::is_temporary;
use crate::disk::maintenance::delete::{is_hint, is_kept};
use crate::disk::paths::{Encoding, generation_of, is_project_name, segment_units};

/// So many names of one directory are told.
const TOLD: usize = 20;

/// What earlier crashes and repairs have left beside a log.
pub(super) fn leftovers(fs: &dyn FileSystem, dir: &Path) -> Vec<String> {
    let note = |entry: DirEntry| {
        let name = entry.name.to_string_lossy();
        if is_temporary(&entry.name) {
            Some(format!(
                "{name} is left over from a write that was cut short, unless that is under way: the next load removes it"
            ))
        } else if is_kept(&entry.name) {
            Some(format!("{name} is kept from a repair: remove it when it is not needed any more"))
        } else {
            None
        }
    };
    fs.list_dir(dir).unwrap_or_default().into_iter().filter_map(note).collect()
}

/// Whether a name in a session directory is that of a log, of whatever generation.
pub(super) fn is_log(name: &OsStr) -> bool {
    Encoding::of_file_name(name).is_some() || generation_of(name).is_some()
}

/// What is told of the directory `dir`, below the store, that holds `entries` and no log. A removal is advised only where
/// nothing in it can be of a session.
pub(super) fn without_log(dir: &Path, entries: &[DirEntry]) -> Vec<String> {
    let others: Vec<&DirEntry> = entries.iter().filter(|entry| !is_ours(entry)).collect();
    if others.is_empty() {
        let note = match is_session_dir(dir) {
            true => {
                "there is no log in this directory, and nothing that holds events: it may be removed when no process is making a session in it"
            }
            false => "there is no log in this directory, and its name is none of a session's directory",
        };
        return vec![note.to_owned()];
    }
    let mut notes =
        vec!["there is no log in this directory, and something else that is to be looked at".to_owned()];
    notes.extend(others.iter().take(TOLD).map(|entry| {
        let name = entry.name.to_string_lossy();
        if is_kept(&entry.name) {
            format!("{name} is kept from a repair, and may be the last copy of what it holds")
        } else if name.to_lowercase().contains("jsonl") {
            format!("{name} may be a log under another name: a store reads session.jsonl and session.jsonl.zstd only")
        } else {
            format!("{name} is none of sessiond's own files")
        }
    }));
    if others.len() > TOLD {
        notes.push(format!("and {} more", others.len() - TOLD));
    }
    notes
}

/// A file that sessiond makes beside a log and that says nothing that the log does not say.
fn is_ours(entry: &DirEntry) -> bool {
    entry.kind == FileKind::File && (is_hint(&entry.name) || is_temporary(&entry.name))
}

/// Whether the names are such as the store gives to a project and a session.
fn is_session_dir(dir: &Path) -> bool {
    let names: Vec<&str> = dir.iter().filter_map(OsStr::to_str).collect();
    matches!(names[..], [project, session] if is_project_name(project) && segment_units(session).is_some())
}
