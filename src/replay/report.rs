//! What differs between a transcript and what came back, told to a reader.

use std::io::{self, Write};
use std::path::Path;

use super::diff;
use super::plan::Group;
use super::runner::Outcome;
use super::transcript::{Item, Transcript};

/// So many differing places of one transcript are shown.
const PLACES_SHOWN: usize = 10;
/// So many sent lines are shown above a difference.
const SENT_SHOWN: usize = 3;

/// Writes what differs; true if nothing does.
pub(super) fn report(
    file: &Path,
    transcript: &Transcript,
    groups: &[Group],
    outcome: &Outcome,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let name = file.display();
    let mut differing = 0;
    for (group, got) in groups.iter().zip(&outcome.got) {
        let expected: Vec<(usize, &[u8])> = group
            .expects
            .iter()
            .filter_map(|index| match transcript.items.get(*index) {
                Some(Item::Expect(line)) => Some((index + 1, line.as_slice())),
                _ => None,
            })
            .collect();
        if expected.iter().map(|(_, line)| *line).eq(got.iter().map(Vec::as_slice)) {
            continue;
        }
        differing += 1;
        if differing <= PLACES_SHOWN {
            let first = group.head.first().map_or(0, |index| index + 1);
            writeln!(out, "{name}:{first}: {}", summary(&expected, got))?;
            show_head(transcript, group, out)?;
            diff::show(out, &expected, got)?;
        }
    }
    if differing > PLACES_SHOWN {
        writeln!(out, "{name}: {} more places differ", differing - PLACES_SHOWN)?;
    }
    if !outcome.rest.is_empty() {
        let end = transcript.items.len();
        writeln!(
            out,
            "{name}:{end}: {} came after the end, when stdin was closed",
            lines(outcome.rest.len())
        )?;
        diff::show(out, &[], &outcome.rest)?;
    }
    if let Some((line, failure)) = &outcome.failure {
        writeln!(out, "{name}:{line}: {failure}")?;
    }
    Ok(differing == 0 && outcome.rest.is_empty() && outcome.failure.is_none())
}

/// Shows the end of what was done in a group, under its line numbers.
fn show_head(transcript: &Transcript, group: &Group, out: &mut dyn Write) -> io::Result<()> {
    let hidden = group.head.len().saturating_sub(SENT_SHOWN);
    if hidden > 0 {
        writeln!(out, "           … {} sent before", lines(hidden))?;
    }
    for index in group.head.iter().skip(hidden) {
        let number = index + 1;
        match transcript.items.get(*index) {
            Some(Item::Send { line, .. }) => writeln!(out, "  {number:>6} > {}", diff::shorten(line, 0))?,
            Some(item) => writeln!(out, "  {number:>6} {}", item.print())?,
            None => {}
        }
    }
    Ok(())
}

/// What is different, in a few words.
fn summary(expected: &[(usize, &[u8])], got: &[Vec<u8>]) -> String {
    if expected.len() != got.len() {
        return format!("expected {}, got {}", lines(expected.len()), lines(got.len()));
    }
    let [mut old, mut new]: [Vec<&[u8]>; 2] =
        [expected.iter().map(|(_, line)| *line).collect(), got.iter().map(Vec::as_slice).collect()];
    let differing = old.iter().zip(&new).filter(|(old, new)| old != new).count();
    old.sort_unstable();
    new.sort_unstable();
    if old == new {
        return format!("the {} came in another order", lines(got.len()));
    }
    let verb = if differing == 1 { "differs" } else { "differ" };
    format!("{differing} of {} {verb}", lines(got.len()))
}

fn lines(count: usize) -> String {
    match count {
        0 => "no line".to_owned(),
        1 => "1 line".to_owned(),
        _ => format!("{count} lines"),
    }
}
