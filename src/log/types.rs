//! Which types a run of events holds, so that who looks for some types passes over what has none of them.

use super::event::Event;
use super::kind::Kind;
use crate::json::JsonStr;

/// Kinds as bits. [`Kind::Known`] and [`Kind::Other`] stand for many types, which go by their names.
#[derive(Clone, Copy, Debug, Default)]
struct Kinds(u32);

impl Kinds {
    fn add(&mut self, kind: Kind) {
        self.0 |= 1 << kind as u8;
    }

    fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

fn goes_by_name(kind: Kind) -> bool {
    matches!(kind, Kind::Known | Kind::Other)
}

/// The types of a segment's events, or more: what is cut off a segment is not taken back here.
#[derive(Debug, Default)]
pub(super) struct HeldTypes {
    kinds: Kinds,
    /// Those that go by name, as JSON texts.
    names: Vec<Box<str>>,
    /// There are more names than are kept: any type may be there.
    crowded: bool,
}

impl HeldTypes {
    /// So many names are kept: memory and the work of an append stay bounded.
    const MOST: usize = 16;

    #[inline]
    pub(super) fn note(&mut self, kind: Kind, text: JsonStr<'_>) {
        if !goes_by_name(kind) {
            self.kinds.add(kind);
        } else if !self.crowded && !self.names.iter().any(|name| **name == *text.text()) {
            self.crowded = self.names.len() >= Self::MOST;
            if !self.crowded {
                self.names.push(text.text().into());
            }
        }
    }

    /// Bytes claimed.
    pub(super) fn footprint(&self) -> usize {
        self.names.capacity() * size_of::<Box<str>>()
            + self.names.iter().map(|name| name.len()).sum::<usize>()
    }

    pub(super) fn shrink(&mut self) {
        self.names.shrink_to_fit();
    }
}

/// Types that are looked for.
#[derive(Clone, Debug, Default)]
pub struct TypeSet<'a> {
    kinds: Kinds,
    /// Those that go by name, sorted.
    names: Vec<&'a str>,
}

impl<'a> TypeSet<'a> {
    /// The types of these names.
    pub fn new(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut types = Self::default();
        for name in names {
            match Kind::of(name) {
                kind if goes_by_name(kind) => types.names.push(name),
                kind => types.kinds.add(kind),
            }
        }
        types.names.sort_unstable();
        types
    }

    /// Whether an event is of one of them, in whatever spelling.
    pub fn has(&self, event: Event<'_>) -> bool {
        if goes_by_name(event.kind()) {
            return self.has_name(event.type_text());
        }
        let mut kinds = Kinds::default();
        kinds.add(event.kind());
        self.kinds.meet(kinds)
    }

    fn has_name(&self, text: JsonStr<'_>) -> bool {
        !self.names.is_empty() && text.decode().is_some_and(|name| self.names.binary_search(&&*name).is_ok())
    }

    /// Whether an event of one of them may be among those.
    pub(super) fn meets(&self, held: &HeldTypes) -> bool {
        self.kinds.meet(held.kinds)
            || held.crowded && !self.names.is_empty()
            || held.names.iter().any(|name| self.has_name(JsonStr::from_verified(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_held_is_known_until_there_are_many_names() {
        let mut held = HeldTypes::default();
        let note = |held: &mut HeldTypes, name: &str| {
            let text = format!("\"{name}\"");
            let text = JsonStr::from_verified(&text);
            held.note(Kind::of_text(text), text);
        };
        note(&mut held, "turn/start");
        note(&mut held, "plan/mode");
        note(&mut held, "x/\\u0061");
        let may_hold = |held: &HeldTypes, name| TypeSet::new([name]).meets(held);
        for name in ["turn/start", "plan/mode", "x/a"] {
            assert!(may_hold(&held, name), "{name}");
        }
        for name in ["turn/end", "goal/change", "x/b", "x/\\u0061", ""] {
            assert!(!may_hold(&held, name), "{name}");
        }
        assert!(!TypeSet::default().meets(&held));
        (0..20).for_each(|n| note(&mut held, &format!("y/{}", n % 14)));
        assert!(!may_hold(&held, "x/b") && !held.crowded);
        note(&mut held, "y/14");
        assert!(may_hold(&held, "x/b") && !may_hold(&held, "turn/end"));
        assert_eq!(held.names.len(), HeldTypes::MOST);
    }
}
