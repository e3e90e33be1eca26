//! A transcript as the things to do, each with the lines that must come back for it.

use super::transcript::{Item, Problem, Step, Transcript};

/// One thing to do, and what is expected of it. Numbers are indexes into the transcript's items.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// The lines sent together, or the one step.
    pub(super) head: Vec<usize>,
    /// The `<` lines, up to the next thing to do.
    pub(super) expects: Vec<usize>,
}

/// What runs at some point of a transcript.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// A daemon that reads lines.
    Up,
    /// A daemon that has got a line without its newline.
    Unended,
    /// None.
    Down,
}

/// Groups the items: lines that are sent without anything between them go out together.
pub(super) fn plan(transcript: &Transcript) -> Result<Vec<Group>, (usize, Problem)> {
    let has_store = transcript.flags.have_a_store();
    let mut groups: Vec<Group> = Vec::new();
    let mut state = State::Up;
    let mut sending = false;
    let mut answered = false;
    for (index, item) in transcript.items.iter().enumerate() {
        let fail = |problem| Err((index + 1, problem));
        match item {
            Item::Comment(_) | Item::Blank => sending = false,
            Item::Expect(_) => {
                sending = false;
                match groups.last_mut() {
                    Some(group) if answered => group.expects.push(index),
                    _ => return fail(Problem::NothingSent),
                }
            }
            Item::Send { ended, .. } => {
                match state {
                    State::Up => {}
                    State::Unended => return fail(Problem::Unended),
                    State::Down => return fail(Problem::NotRunning),
                }
                // A line without its newline is a group of its own: nothing tells when it has been read.
                match groups.last_mut() {
                    Some(group) if sending && *ended => group.head.push(index),
                    _ => groups.push(Group { head: vec![index], expects: Vec::new() }),
                }
                sending = true;
                answered = *ended;
                state = if *ended { State::Up } else { State::Unended };
            }
            Item::Step(step) => {
                match (step, state) {
                    (Step::Copy(_) | Step::Fault { .. }, _) if !has_store => return fail(Problem::NoStore),
                    (Step::Copy(_) | Step::Fault { .. } | Step::Restart, State::Unended) => {
                        return fail(Problem::Unended);
                    }
                    (Step::Fault { .. } | Step::Eof | Step::Kill, State::Down) => {
                        return fail(Problem::NotRunning);
                    }
                    _ => {}
                }
                sending = false;
                answered = match step {
                    Step::Eof => true,
                    Step::Restart => state == State::Up,
                    _ => false,
                };
                state = match step {
                    Step::Eof | Step::Kill => State::Down,
                    Step::Restart => State::Up,
                    _ => state,
                };
                groups.push(Group { head: vec![index], expects: Vec::new() });
            }
        }
    }
    if state == State::Unended {
        return Err((transcript.items.len(), Problem::Unended));
    }
    Ok(groups)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn planned(text: &str) -> Result<Vec<Group>, (usize, Problem)> {
        plan(&Transcript::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn groups_follow_what_stands_between_the_lines() {
        let groups = planned("# t\n> a\n> b\n< c\n\n< d\n> e\n\n> f\n! eof\n< g\n").unwrap();
        let group =
            |head: &[usize], expects: &[usize]| Group { head: head.to_vec(), expects: expects.to_vec() };
        assert_eq!(groups, [group(&[1, 2], &[3, 5]), group(&[6], &[]), group(&[8], &[]), group(&[9], &[10])]);
    }

    #[test]
    fn impossible_orders_are_refused() {
        let cases = [
            ("# t\n< a\n", 2, Problem::NothingSent),
            ("# t\n> a\n! kill -9\n< a\n", 4, Problem::NothingSent),
            ("# t\n# args: --store jsonl:$STORE\n! fault write EIO\n< a\n", 4, Problem::NothingSent),
            ("# t\n! eof\n> a\n", 3, Problem::NotRunning),
            ("# t\n! eof\n! kill -9\n", 3, Problem::NotRunning),
            ("# t\n>- a\n> b\n", 3, Problem::Unended),
            ("# t\n>- a\n! restart\n", 3, Problem::Unended),
            ("# t\n>- a\n\n", 3, Problem::Unended),
            ("# t\n! copy x\n", 2, Problem::NoStore),
            ("# t\n! fault write EIO\n", 2, Problem::NoStore),
        ];
        for (text, line, problem) in cases {
            assert_eq!(planned(text).unwrap_err(), (line, problem), "{text}");
        }
        assert!(
            planned(
                "# t\n# args: --store jsonl:$STORE\n! copy x\n>- a\n! eof\n< b\n! copy y\n! restart\n> c\n"
            )
            .is_ok()
        );
    }
}
