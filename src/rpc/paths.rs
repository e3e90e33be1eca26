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

/// One working directory that others are held to: by spelling first, then by what it is.
pub(super) struct SamePlace<'a> {
    wanted: &'a str,
    canonical: CanonicalPath,
    /// What `wanted` is, once a spelling has differed.
    place: Option<Option<String>>,
    /// Sessions share few directories: each is looked up once.
    known: HashMap<String, bool>,
}

impl<'a> SamePlace<'a> {
    pub(super) fn new(wanted: &'a str, canonical: CanonicalPath) -> Self {
        Self { wanted, canonical, place: None, known: HashMap::new() }
    }

    /// Whether `path` is that directory.
    pub(super) fn is(&mut self, path: &str) -> bool {
        if path == self.wanted {
            return true;
        }
        let CanonicalPath(look_up) = self.canonical;
        let Some(place) = self.place.get_or_insert_with(|| look_up(self.wanted)) else { return false };
        if let Some(known) = self.known.get(path) {
            return *known;
        }
        let same = look_up(path).as_ref() == Some(place);
        self.known.insert(path.to_owned(), same);
        same
    }
}

#[cfg(test)]
mod tests {
    use super::{CanonicalPath, SamePlace};

    #[test]
    fn places_are_compared_by_spelling_then_by_what_they_are() {
        let links = CanonicalPath(|path| match path {
            "/link" | "/real" | "/real/" => Some("/real".into()),
            "/other" => Some("/other".into()),
            _ => None,
        });
        let mut place = SamePlace::new("/link", links);
        assert!(place.is("/link") && place.is("/real") && place.is("/real/"));
        assert!(!place.is("/other") && !place.is("/gone") && !place.is("/gone"));
        assert!(SamePlace::new("/gone", links).is("/gone") && !SamePlace::new("/gone", links).is("/gone/"));
        assert!(!SamePlace::new("/link", CanonicalPath::default()).is("/real"));
    }
}
