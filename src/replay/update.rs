//! `--update`: the same transcript with the lines that came back, and everything else where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use super::diff::{Edit, edits};
use super::plan::Group;
use super::runner::Outcome;
use super::transcript::{Item, Step, Transcript};

/// The transcript with what came in place of what was expected.
pub(super) fn rewritten(transcript: &Transcript, groups: &[Group], outcome: &Outcome) -> Transcript {
    let mut dropped: BTreeSet<usize> = BTreeSet::new();
    let mut added: BTreeMap<usize, Vec<Item>> = BTreeMap::new();
    for (group, got) in groups.iter().zip(&outcome.got) {
        let old: Vec<(usize, &[u8])> = group
            .expects
            .iter()
            .filter_map(|index| match transcript.items.get(*index) {
                Some(Item::Expect(line)) => Some((*index, line.as_slice())),
                _ => None,
            })
            .collect();
        let lines: Vec<&[u8]> = old.iter().map(|(_, line)| *line).collect();
        // New lines go where old ones were, else right after what caused them.
        let mut place = group.head.last().copied().unwrap_or(0);
        for edit in edits(&lines, got) {
            match edit {
                Edit::Equal(at, _) => place = old.get(at).map_or(place, |(index, _)| *index),
                Edit::Delete(at) => {
                    place = old.get(at).map_or(place, |(index, _)| *index);
                    dropped.insert(place);
                }
                Edit::Insert(at) => {
                    let line = got.get(at).cloned().unwrap_or_default();
                    added.entry(place).or_default().push(Item::Expect(line));
                }
            }
        }
    }
    let mut items = Vec::with_capacity(transcript.items.len());
    for (index, item) in transcript.items.iter().enumerate() {
        if !dropped.contains(&index) {
            items.push(item.clone());
        }
        items.extend(added.remove(&index).unwrap_or_default());
    }
    if !outcome.rest.is_empty() {
        items.push(Item::Step(Step::Eof));
        items.extend(outcome.rest.iter().cloned().map(Item::Expect));
    }
    Transcript { items, flags: transcript.flags.clone() }
}

/// Puts new content in place of a file, with the same mode; a reader sees the old content or the new, never a part.
pub(super) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let target = path.canonicalize()?;
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let temporary = target.with_file_name(format!(".{}.{}", name.display(), std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    let written = file
        .set_permissions(fs::metadata(&target)?.permissions())
        .and_then(|()| file.write_all(content))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
