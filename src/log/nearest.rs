//! Known names that are near to one that is not, for errors to offer.

/// Most names that are offered.
const MOST: usize = 3;
/// A family of more names is not offered as a whole.
const FAMILY: usize = 4;
/// A longer name, in characters, is no slip of the pen; its comparison would cost too much.
const LONGEST: usize = 64;

/// The known names that `name` was perhaps meant to be, nearest first: those of the least distance in changed
/// letters, which case and separators are not, if that is at most a third of the shorter last part; else those of
/// its family, that is with the same text before the last `/`, where it is small.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Vec<&'k str> {
    if name.chars().nth(LONGEST).is_some() {
        return Vec::new();
    }
    let (letters, family) = (letters(name), family(name));
    let (mut best, mut near, mut kin) = (usize::MAX, Vec::new(), Vec::new());
    for other in known {
        let distance = distance(&letters, &self::letters(other));
        let most = (last_part(name).min(last_part(other)) / 3).max(1);
        if distance <= most && distance <= best {
            if distance < best {
                near.clear();
            }
            best = distance;
            near.push(other);
        } else if family.is_some() && family == self::family(other) {
            kin.push((distance, other));
        }
    }
    if near.is_empty() && kin.len() <= FAMILY {
        kin.sort_unstable();
        near = kin.into_iter().map(|(_, name)| name).collect();
    }
    near.truncate(MOST);
    near
}

/// Names as an error offers them: `did you mean "a" or "b"?`; none of none.
pub fn did_you_mean(names: &[impl AsRef<str>]) -> Option<String> {
    let quoted: Vec<_> = names.iter().map(|name| format!("{:?}", name.as_ref())).collect();
    (!quoted.is_empty()).then(|| format!("did you mean {}?", quoted.join(" or ")))
}

/// What is compared of a name.
fn letters(name: &str) -> Vec<char> {
    name.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn family(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(family, _)| family)
}

/// Letters behind the last `/`.
fn last_part(name: &str) -> usize {
    letters(name.rsplit('/').next().unwrap_or(name)).len()
}

/// Letters to insert, remove, change, or swap with their neighbour until one text is the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX / 2);
    let mut before = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut last = None;
    for (index, x) in a.iter().enumerate() {
        let mut next = vec![index + 1];
        let mut left = None;
        for (column, y) in b.iter().enumerate() {
            let changed = at(&row, column) + usize::from(x != y);
            let mut least = changed.min(at(&row, column + 1) + 1).min(at(&next, column) + 1);
            if last == Some(y) && left == Some(x) {
                least = least.min(at(&before, column.saturating_sub(1)) + 1);
            }
            next.push(least);
            left = Some(y);
        }
        (before, row) = (row, next);
        last = Some(x);
    }
    at(&row, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        let of = |a: &str, b: &str| distance(&letters(a), &letters(b));
        assert_eq!([of("", "abc"), of("abc", ""), of("abc", "abc")], [3, 3, 0]);
        assert_eq!([of("bounday", "boundary"), of("limits", "limit"), of("lsit", "list")], [1, 1, 1]);
        assert_eq!([of("kitten", "sitting"), of("session.append", "Session/append")], [3, 0]);
    }

    #[test]
    fn a_slip_is_recognised_and_a_guess_gets_the_family() {
        let methods = ["session/append", "session/append_batch", "session/list", "session/messages", "x/y"];
        let of = |name: &str| nearest(name, methods);
        assert_eq!(of("session.append"), ["session/append"]);
        assert_eq!(of("session/appendBatch"), ["session/append_batch"]);
        assert_eq!(of("session/lsit"), ["session/list"]);
        assert_eq!(of("x/other"), ["x/y"]);
        assert_eq!(of("nothing"), [""; 0]);
        assert_eq!(of(&"x/y".repeat(30)), [""; 0]);
        let family = ["a/one", "a/two", "a/six", "a/ten", "a/too"];
        assert_eq!(nearest("a/unlike", family), [""; 0], "a large family tells nothing");
        assert_eq!(nearest("turn/begin", ["turn/start", "step/end", "turn/end"]), ["turn/end", "turn/start"]);
        assert_eq!(did_you_mean(&["a", "b"]).as_deref(), Some("did you mean \"a\" or \"b\"?"));
        assert_eq!(did_you_mean(&of("nothing")), None);
    }
}
