//! The flags of a transcript's daemons: what `# args:` says, added to defaults under which answers repeat.
//!
//! A transcript may come from anywhere, so no flag may name a file or a store of the user's: only `$STORE`, the store
//! of the run.

use std::path::{Component, Path};

use super::transcript::Problem;

/// Stands for the store's directory of the run, in flags and in lines that come back.
pub(super) const STORE: &str = "$STORE";

/// What holds where a transcript does not say otherwise: nothing on disk, and a clock and ids that repeat.
const DEFAULTS: [(&str, &str); 3] =
    [("--store", "memory:"), ("--clock", "fixed:1700000000000+1000"), ("--ids", "sequential")];

/// Flags that name files to be written or read.
const FILES: [&str; 2] = ["--record", "--fault-file"];

/// A daemon's flags, word by word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flags(Vec<String>);

impl Default for Flags {
    fn default() -> Self {
        Self::over_defaults(Vec::new())
    }
}

impl Flags {
    /// The flags of `# args:`, given the text behind it.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let words = split(text).ok_or(Problem::OpenQuote)?;
        if let Some(flag) = FILES.into_iter().find(|flag| values(&words, flag).next().is_some()) {
            return Err(Problem::FileFlag(flag));
        }
        if let Some(store) = values(&words, "--store").find(|store| !is_of_the_run(store)) {
            return Err(Problem::ForeignStore(store.to_owned()));
        }
        Ok(Self::over_defaults(words))
    }

    fn over_defaults(given: Vec<String>) -> Self {
        let missing = DEFAULTS.iter().filter(|(flag, _)| values(&given, flag).next().is_none());
        let mut words: Vec<String> =
            missing.flat_map(|(flag, value)| [(*flag).to_owned(), (*value).to_owned()]).collect();
        words.extend(given);
        Self(words)
    }

    /// The words, with the store's directory in the place of `$STORE`.
    pub(super) fn words(&self, store: &str) -> Vec<String> {
        self.0.iter().map(|word| word.replace(STORE, store)).collect()
    }

    /// Whether the daemon keeps sessions in the store's directory.
    pub(super) fn have_a_store(&self) -> bool {
        self.0.iter().any(|word| word.contains(STORE))
    }

    /// Whether a line is carried out with all that it causes before the next is read (PROTOCOL 7): nothing comes later.
    pub(super) fn fix_the_clock(&self) -> bool {
        values(&self.0, "--clock").any(|clock| clock.starts_with("fixed:"))
    }
}

/// The values given to a flag, as the next word or behind a `=`; an empty one where nothing follows.
fn values<'a>(words: &'a [String], flag: &'a str) -> impl Iterator<Item = &'a str> {
    words.iter().enumerate().filter_map(move |(index, word)| match word.strip_prefix(flag)? {
        "" => Some(words.get(index + 1).map_or("", String::as_str)),
        rest => rest.strip_prefix('='),
    })
}

fn is_of_the_run(store: &str) -> bool {
    let below = store.strip_prefix("jsonl:").and_then(|path| path.strip_prefix(STORE));
    store == "memory:"
        || below.is_some_and(|below| {
            let parts = || Path::new(below).components();
            below.is_empty()
                || (below.starts_with('/')
                    && parts().skip(1).all(|part| matches!(part, Component::Normal(_))))
        })
}

/// The text of `# args:` for these words, without the marker.
pub(super) fn print(words: &[String]) -> String {
    let mut text = String::new();
    for word in words {
        text.push(' ');
        let bare = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '\'' || c == '\\');
        if bare {
            text.push_str(word);
        } else {
            text.push('\'');
            text.push_str(&word.replace('\'', r"'\''"));
            text.push('\'');
        }
    }
    text
}

/// Splits flags into words as a shell does, with single quotes and backslashes; none if a quote stays open.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            _ if quoted => word.get_or_insert_default().push(c),
            '\\' => word.get_or_insert_default().push(chars.next()?),
            _ if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (!quoted).then_some(words)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_survive_quoting(words in proptest::collection::vec("[a-z:$ '\\\\/é-]{0,6}", 0..5)) {
            prop_assert_eq!(split(&print(&words)).unwrap(), words);
        }
    }

    #[test]
    fn what_is_given_is_added_to_the_defaults() {
        let words = |text: &str| Flags::parse(text).unwrap().words("/s").join(" ");
        let (clock, ids) = ("--clock fixed:1700000000000+1000", "--ids sequential");
        assert_eq!(words(""), format!("--store memory: {clock} {ids}"));
        assert_eq!(Flags::default(), Flags::parse("").unwrap());
        assert_eq!(words(" --store  'jsonl:$STORE/a b'"), format!("{clock} {ids} --store jsonl:/s/a b"));
        assert_eq!(
            words(" --clock=system --max-depth 8"),
            format!("--store memory: {ids} --clock=system --max-depth 8")
        );
        assert!(
            Flags::parse("--clock=fixed:1+1").unwrap().fix_the_clock() && Flags::default().fix_the_clock()
        );
        assert!(!Flags::parse("--clock system").unwrap().fix_the_clock());
        assert!(!Flags::default().have_a_store());
    }

    #[test]
    fn no_flag_names_what_is_not_of_the_run() {
        for store in
            ["/srv", "jsonl:/srv", "jsonl:srv", "jsonl:$STORE/../x", "jsonl:$STORES", "jsonl:", "~", ""]
        {
            for text in [format!("--store '{store}'"), format!("--store memory: '--store={store}'")] {
                let foreign = Err(Problem::ForeignStore(store.to_owned()));
                assert_eq!(Flags::parse(&text), foreign, "{text}");
            }
        }
        assert!(Flags::parse("--store").is_err());
        for store in ["memory:", "jsonl:$STORE", "jsonl:$STORE/a/b"] {
            assert!(Flags::parse(&format!("--store={store}")).is_ok(), "{store}");
        }
        for text in ["--record x", "--record=x", "--fault-file /x"] {
            assert!(matches!(Flags::parse(text), Err(Problem::FileFlag(_))), "{text}");
        }
        assert_eq!(Flags::parse("'a"), Err(Problem::OpenQuote));
    }
}
