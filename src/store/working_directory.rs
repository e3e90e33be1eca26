//! Working directories: which of them are the same place.

use std::collections::HashMap;

/// Gives the path without symlinks, `.` and `..`; none if there is nothing at it.
///
/// The protocol touches no file system: who makes the server says how. By default no path is known,
/// and two are the same only if they are spelled alike.
#[derive(Clone, Copy, Debug)]
pub struct CanonicalPath(pub fn(&str) -> Option<String>);

impl Default for CanonicalPath {
    fn default() -> Self {
        Self(|_| None)
    }
}

impl CanonicalPath {
    /// What an absolute path stands for: its longest ancestor that exists, resolved, and the rest as it is spelt, without
    /// empty and `.` segments. So a directory that is gone is known by all its spellings.
    fn resolve(self, path: &str) -> String {
        let segments: Vec<&str> =
            path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect();
        let mut found = String::new();
        let mut rest = 0;
        for end in (0..=segments.len()).rev() {
            let ancestor = segments.get(..end).unwrap_or_default().join("/");
            if let Some(real) = (self.0)(&format!("/{ancestor}")) {
                (found, rest) = (real, end);
                break;
            }
        }
        for segment in segments.iter().skip(rest) {
            if !found.ends_with('/') {
                found.push('/');
            }
            found.push_str(segment);
        }
        found
    }
}

/// One working directory that others are held to: by spelling first, then by what it is.
#[derive(Clone, Debug)]
pub struct SamePlace {
    wanted: String,
    canonical: CanonicalPath,
    /// Other spellings and whether they are that directory; none before they are looked up.
    known: HashMap<String, Option<bool>>,
}

impl SamePlace {
    pub(crate) fn new(wanted: &str, canonical: CanonicalPath) -> Self {
        Self { wanted: wanted.to_owned(), canonical, known: HashMap::new() }
    }

    /// Asks whether `path` is that directory. Sessions share few directories: each is looked up once.
    pub fn ask(&mut self, path: &str) {
        if path != self.wanted && !self.known.contains_key(path) {
            self.known.insert(path.to_owned(), None);
        }
    }

    /// Looks up what was asked for. Waits for the file system.
    pub fn look_up(&mut self) {
        let mut place = None;
        for (path, same) in self.known.iter_mut().filter(|(_, same)| same.is_none()) {
            let place = place.get_or_insert_with(|| self.canonical.resolve(&self.wanted));
            *same = Some(self.canonical.resolve(path) == *place);
        }
    }

    /// Whether `path` is that directory, as far as it was looked up.
    pub(crate) fn is(&self, path: &str) -> bool {
        path == self.wanted || self.known.get(path).copied().flatten() == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{CanonicalPath, SamePlace};

    #[test]
    fn places_are_compared_by_spelling_then_by_what_they_are() {
        let links = CanonicalPath(|path| match path {
            "/link" | "/real" => Some("/real".into()),
            "/other" => Some("/other".into()),
            "/" => Some("/".into()),
            _ => None,
        });
        let same = |wanted: &str, path: &str, canonical| {
            let mut place = SamePlace::new(wanted, canonical);
            place.ask(path);
            assert_eq!(place.is(path), path == wanted, "nothing else is known before it is looked up");
            place.look_up();
            place.is(path)
        };
        for path in ["/link", "/real", "/real/"] {
            assert!(same("/link", path, links), "{path}");
        }
        assert!(!same("/link", "/other", links) && !same("/link", "/gone", links));
        // Of what is not there the rest counts as it is spelt.
        for path in ["/gone", "/gone/", "//gone", "/./gone/."] {
            assert!(same("/gone", path, links) && same("/gone", path, CanonicalPath::default()), "{path}");
        }
        for path in ["/link/gone/x", "/real/gone//x/", "/real/./gone/x"] {
            assert!(same("/link/gone/x", path, links), "{path}");
        }
        for path in ["/link/gone", "/other/gone/x", "/gone/x", "/link/gone/y/../x", "/"] {
            assert!(!same("/link/gone/x", path, links), "{path}");
        }
        assert!(!same("/link", "/real", CanonicalPath::default()));
    }
}
