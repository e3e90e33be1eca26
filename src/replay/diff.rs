//! Comparing the lines that came with those that were expected, and showing the difference to a reader.

use std::io::{self, Write};

use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::walk::pointer_at;

/// Lines up to this many characters are shown whole.
const WHOLE: usize = 160;
/// Of a longer line, this much of its start is shown, and this much around the place that matters.
const START: usize = 60;
const AROUND: usize = 40;
/// Of equal lines in a row, the first and the last are shown if there are more than this.
const EQUAL_RUN: usize = 3;
/// Of lines in a row that stand for nothing expected, so many are shown.
const SURPLUS_SHOWN: usize = 20;

/// One step from the old lines to the new ones; numbers are indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// The same line in both.
    Equal(usize, usize),
    /// Only in the old ones.
    Delete(usize),
    /// Only in the new ones.
    Insert(usize),
}

/// The edits that lead from `old` to `new`, in order, with as many equal lines as can be; between two equal lines the
/// deletions come first.
pub(super) fn edits<T: AsRef<[u8]>>(old: &[&[u8]], new: &[T]) -> Vec<Edit> {
    let new: Vec<&[u8]> = new.iter().map(AsRef::as_ref).collect();
    let mut edits = Vec::with_capacity(old.len().max(new.len()));
    for op in capture_diff_slices(Algorithm::Myers, old, &new) {
        let (old, new) = (op.old_range(), op.new_range());
        if op.tag() == DiffTag::Equal {
            edits.extend(old.zip(new).map(|(i, j)| Edit::Equal(i, j)));
        } else {
            edits.extend(old.map(Edit::Delete).chain(new.map(Edit::Insert)));
        }
    }
    // Within one change, deletions first.
    for change in edits.split_mut(|edit| matches!(edit, Edit::Equal(..))) {
        change.sort_by_key(|edit| matches!(edit, Edit::Insert(_)));
    }
    edits
}

/// Writes the difference between the expected lines (with their line numbers) and those that came. Expected lines
/// start with `-`, lines that came with `+`.
pub(super) fn show(out: &mut dyn Write, expected: &[(usize, &[u8])], got: &[Vec<u8>]) -> io::Result<()> {
    let old: Vec<&[u8]> = expected.iter().map(|(_, line)| *line).collect();
    let edits = edits(&old, got);
    for run in edits.chunk_by(|a, b| matches!(a, Edit::Equal(..)) == matches!(b, Edit::Equal(..))) {
        let pick = |edit: &Edit| match edit {
            Edit::Equal(i, _) | Edit::Delete(i) => expected.get(*i).copied(),
            Edit::Insert(j) => got.get(*j).map(|line| (0, line.as_slice())),
        };
        match run {
            [Edit::Equal(..), ..] if run.len() > EQUAL_RUN => {
                for (place, edit) in [(0, run.first()), (1, run.last())] {
                    if place == 1 {
                        writeln!(out, "           … {} equal lines", run.len() - 2)?;
                    }
                    if let Some((number, line)) = edit.and_then(pick) {
                        writeln!(out, "  {number:>6}   {}", shorten(line, 0))?;
                    }
                }
            }
            [Edit::Equal(..), ..] => {
                for (number, line) in run.iter().filter_map(pick) {
                    writeln!(out, "  {number:>6}   {}", shorten(line, 0))?;
                }
            }
            _ => {
                let split = run.iter().take_while(|edit| matches!(edit, Edit::Delete(_))).count();
                let (deleted, inserted) = run.split_at_checked(split).unwrap_or((run, &[]));
                let mut inserted = inserted.iter().filter_map(pick);
                for (number, old) in deleted.iter().filter_map(pick) {
                    match inserted.next() {
                        Some((_, new)) => show_pair(out, number, old, new)?,
                        None => writeln!(out, "  {number:>6} - {}", shorten(old, 0))?,
                    }
                }
                for (_, new) in inserted.by_ref().take(SURPLUS_SHOWN) {
                    writeln!(out, "         + {}", shorten(new, 0))?;
                }
                match inserted.count() {
                    0 => {}
                    more => writeln!(out, "           … {more} more lines")?,
                }
            }
        }
    }
    Ok(())
}

/// Shows two lines that stand for each other, and where they part.
fn show_pair(out: &mut dyn Write, number: usize, old: &[u8], new: &[u8]) -> io::Result<()> {
    let at = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    writeln!(out, "  {number:>6} - {}", shorten(old, at))?;
    writeln!(out, "         + {}", shorten(new, at))?;
    let json = |line| serde_json::from_slice::<serde_json::Value>(line).ok();
    let place = match (json(old), json(new)) {
        (Some(a), Some(b)) => {
            let pointer = pointer_at(old, at).or_else(|| pointer_at(new, at)).unwrap_or_default();
            let same = if a == b { " (the same JSON value, spelled otherwise)" } else { "" };
            let pointer = if pointer.is_empty() { "at the root".to_owned() } else { format!("in {pointer}") };
            format!(", {pointer}{same}")
        }
        _ => String::new(),
    };
    writeln!(out, "           byte {at}{place}: expected {}, got {}", context(old, at), context(new, at))
}

/// What stands from one offset on.
fn context(line: &[u8], at: usize) -> String {
    let rest = line.get(at..).unwrap_or_default();
    match rest.get(..24) {
        Some(part) if rest.len() > 24 => format!("`{}…`", visible(part)),
        _ if rest.is_empty() => "the end of the line".to_owned(),
        _ => format!("`{}`", visible(rest)),
    }
}

/// A line short enough to read: all of it, or its start and what surrounds one offset.
pub(super) fn shorten(line: &[u8], focus: usize) -> String {
    if line.is_empty() {
        return "(an empty line)".to_owned();
    }
    if line.len() <= WHOLE {
        return visible(line);
    }
    let part = |from: usize, to: usize| visible(line.get(from..to.min(line.len())).unwrap_or_default());
    let (from, to) = (focus.saturating_sub(AROUND), focus.saturating_add(AROUND));
    let (start, end) = if from <= START {
        (part(0, to.max(START)), String::new())
    } else {
        (part(0, START), part(from, to))
    };
    let last = if to >= line.len() { "" } else { "…" };
    let gap = if end.is_empty() { "" } else { "…" };
    format!("{start}{gap}{end}{last} ({} bytes)", line.len())
}

/// Bytes as text, with what does not show written as escapes.
fn visible(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\u{2028}' | '\u{2029}' | '\u{feff}' => text.extend(c.escape_unicode()),
                c if c.is_control() => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        text.push_str(&chunk.invalid().escape_ascii().to_string());
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(expected: &[&str], got: &[&str]) -> String {
        let expected: Vec<(usize, &[u8])> =
            expected.iter().enumerate().map(|(i, line)| (i + 10, line.as_bytes())).collect();
        let got: Vec<Vec<u8>> = got.iter().map(|line| line.as_bytes().to_vec()).collect();
        let mut out = Vec::new();
        show(&mut out, &expected, &got).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_changed_value_is_pointed_at() {
        assert_eq!(
            shown(
                &["a", r#"{"id":1,"result":{"seq":3}}"#, "b"],
                &["a", r#"{"id":1,"result":{"seq":47}}"#, "b", "c"]
            ),
            concat!(
                "      10   a\n",
                "      11 - {\"id\":1,\"result\":{\"seq\":3}}\n",
                "         + {\"id\":1,\"result\":{\"seq\":47}}\n",
                "           byte 24, in /result/seq: expected `3}}`, got `47}}`\n",
                "      12   b\n",
                "         + c\n",
            )
        );
        assert!(shown(&[r#"{"a":1}"#], &[r#"{"a": 1}"#]).contains("the same JSON value, spelled otherwise"));
        assert!(shown(&["[1]"], &["[1] "]).contains(
            "byte 3, at the root (the same JSON value, spelled otherwise): expected the end of the line"
        ));
    }

    #[test]
    fn runs_and_long_lines_are_shortened() {
        let long = format!("{{\"text\":\"{}a\"}}", "x".repeat(500));
        let other = format!("{{\"text\":\"{}b\"}}", "x".repeat(500));
        let text = shown(&["1", "2", "3", "4", &long], &["1", "2", "3", "4", &other]);
        assert!(text.contains("… 2 equal lines"), "{text}");
        assert!(text.contains("xa\"} (512 bytes)"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 200), "{text}");
        assert!(shown(&["\u{1}\t"], &[]).contains("- \\u{1}\\t"));
    }

    proptest! {
        #[test]
        fn edits_rebuild_both_sides(old in proptest::collection::vec("[ab]", 0..8), new in proptest::collection::vec("[ab]", 0..8)) {
            let lines: Vec<&[u8]> = old.iter().map(String::as_bytes).collect();
            let edits = edits(&lines, &new);
            let left: Vec<usize> = edits.iter().filter_map(|edit| match edit { Edit::Equal(i, _) | Edit::Delete(i) => Some(*i), Edit::Insert(_) => None }).collect();
            let right: Vec<usize> = edits.iter().filter_map(|edit| match edit { Edit::Equal(_, j) | Edit::Insert(j) => Some(*j), Edit::Delete(_) => None }).collect();
            prop_assert_eq!(left, (0..old.len()).collect::<Vec<_>>());
            prop_assert_eq!(right, (0..new.len()).collect::<Vec<_>>());
            for edit in edits {
                if let Edit::Equal(i, j) = edit {
                    prop_assert_eq!(&old[i], &new[j]);
                }
            }
        }
    }
}
