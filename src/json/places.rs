//! Where the members that are asked for most stand in a text.
//!
//! Texts of one form have the same members at the same places among their values. So what is looked for by name in one
//! of them is found by its place in the others.

use super::text::Json;

/// A member that is looked for: its name (of an array's element its number), and in which part of the list it is, one
/// before it; none is in the text itself.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    name: &'static str,
    inside: Option<usize>,
}

impl Part {
    /// A member of the text itself.
    pub const fn named(name: &'static str) -> Self {
        Self { name, inside: None }
    }

    /// A member of another part, by its place in the list.
    pub const fn inside(part: usize, name: &'static str) -> Self {
        Self { name, inside: Some(part) }
    }

    fn find<'a>(&self, from: Json<'a>) -> Option<Json<'a>> {
        match self.name.parse() {
            Ok(number) => from.elements().nth(number),
            Err(_) => from.get(self.name),
        }
    }
}

/// The parts that are looked for in texts of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// By which names, one after the other, the value is found in a text that the parts are in.
    pub of: &'static [&'static str],
    /// The list; parts beyond [`Places::MOST`] are not looked for.
    pub list: &'static [Part],
    /// What else is to be remembered of a form, for [`Places::note`]: asked once, of one of its texts.
    pub note: Option<fn(Json<'_>, &Places) -> u32>,
}

/// Where parts stand in the texts of one form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// How many values that a scan notes come before each part; none before one that is not there.
    at: [u8; Self::MOST],
    /// A bit for each part that is no object or array and differs from text to text.
    varying: u32,
    note: u32,
}

impl Places {
    /// Most parts of a list.
    pub const MOST: usize = 28;

    /// Looks for all parts in a text in which values differ, a bit for each; none where nothing is looked for.
    pub(super) fn find(text: Json<'_>, differs: u64, parts: &Parts) -> Option<Self> {
        let value = text.at(parts.of).filter(|value| !value.is_unmapped() && !parts.list.is_empty())?;
        let (mut found, mut places) = ([None; Self::MOST], Self::default());
        for (number, part) in parts.list.iter().enumerate().take(Self::MOST) {
            let from = match part.inside {
                None => Some(value),
                Some(part) => found.get(part).copied().flatten(),
            };
            let Some(part) = from.and_then(|from| part.find(from)) else { continue };
            if let (Some(slot), Some(place)) = (found.get_mut(number), places.at.get_mut(number)) {
                (*slot, *place) = (Some(part), u8::try_from(value.place_of(part)?).ok()?);
            }
            let is_varying = differs.checked_shr(text.place_of(part)? as u32).unwrap_or(0) & 1;
            places.varying |= (is_varying as u32) << number;
        }
        if let Some(note) = parts.note {
            places.note = note(value, &places);
        }
        Some(places)
    }

    /// Whether a part differs from text to text of the form: what holds for others in one text holds in all.
    #[inline(always)]
    pub fn is_varying(&self, part: usize) -> bool {
        self.varying >> (part & 31) & 1 != 0
    }

    /// What [`Parts::note`] has said.
    #[inline(always)]
    pub fn note(&self) -> u32 {
        self.note
    }
}

impl<'a> Json<'a> {
    /// A part of the list that was looked for in texts of this one's form, if it is there.
    #[inline(always)]
    pub fn part_at(self, places: &Places, part: usize) -> Option<Json<'a>> {
        self.value_at(usize::from(*places.at.get(part)?))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{Json, Kin, Scratch};
    use super::*;

    const LIST: [Part; 6] = [
        Part::named("a"),
        Part::inside(0, "b"),
        Part::inside(1, "1"),
        Part::inside(2, "c"),
        Part::named("d"),
        Part::inside(4, "e"),
    ];

    #[test]
    fn parts_stand_where_names_lead_to_in_every_text_of_a_form() {
        let parts = Parts { of: &["x"], list: &LIST, note: Some(|value, _| value.text().len() as u32) };
        let (mut scratch, kin) = (Scratch::looking_for(parts), Kin::named("kin"));
        let mut known = 0;
        for (n, d) in
            ["1", "\"two\"", "{\"e\":5}", "null", "{\"e\":6}", "{}", "7"].iter().cycle().enumerate().take(40)
        {
            let text = format!(
                "{{\"w\":\"{}\",\"x\":{{\"a\":{{\"z\":[[]],\"b\":[{n},{{\"\\u0063\":[{n}]}}]}},\"d\":{d}}}}}",
                "-".repeat(n)
            );
            let (value, checks) = scratch.scan_alike(&text, kin).unwrap();
            let value = value.get("x").unwrap();
            let Some(places) = checks.places else { continue };
            known += 1;
            let [a, d] = ["a", "d"].map(|name| value.get(name));
            let b = a.and_then(|a| a.get("b"));
            let second = b.and_then(|b| b.elements().nth(1));
            let named =
                [a, b, second, second.and_then(|second| second.get("c")), d, d.and_then(|d| d.get("e"))];
            for (part, named) in named.into_iter().enumerate() {
                assert_eq!(
                    value.part_at(&places, part).map(Json::text),
                    named.map(Json::text),
                    "{part} {text}"
                );
            }
            assert!([0, 1, 2, 3].iter().all(|part| !places.is_varying(*part)), "containers do not");
            assert!(places.note() > 20);
        }
        assert!(known > 20, "{known}");
    }
}
