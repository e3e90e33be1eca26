//! Several members of an object in one pass over it.

use super::string::JsonStr;
use super::tape::Node;
use super::text::{Json, Type};

/// What an object holds under some names.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a, const N: usize> {
    /// The first value of each name, in the order of the names.
    pub found: [Option<Json<'a>>; N],
    /// There are members of other names, or of one name twice.
    pub others: bool,
}

/// The members of an object, taken one after the other. What was taken counts only where [`Self::is_whole`] says so
/// at the end: it does not for an object with other members, another order or other text between the values, nor
/// where no scan has noted their places.
#[derive(Clone, Copy, Debug)]
pub struct OrderedFields<'a> {
    /// What is not taken yet, and the nodes in it.
    text: &'a str,
    rest: &'a [Node],
    /// Where it begins, as nodes count.
    at: u32,
}

impl<'a> OrderedFields<'a> {
    /// Takes the next member, if this is the text before its value: the comma, or the first one's brace, then the
    /// key and the colon (`,"key":`).
    #[inline(always)] // the text is a constant: it is compared without a call
    pub fn member(&mut self, before: &str) -> Option<Json<'a>> {
        let node = self.rest.first()?;
        if node.start.wrapping_sub(self.at) as usize != before.len() {
            return None;
        }
        let value_on = self.text.strip_prefix(before)?;
        let (value, text) = value_on.split_at_checked(node.end.wrapping_sub(node.start) as usize)?;
        let (own, rest) = self.rest.split_at_checked(1 + node.inside())?;
        *self = Self { text, rest, at: node.end };
        Some(Json::noted(value, own))
    }

    /// Whether every member was taken.
    #[inline(always)]
    pub fn is_whole(&self) -> bool {
        self.rest.is_empty() && self.text == "}"
    }
}

impl<'a> Json<'a> {
    /// The first member of each name, if this is an object that has it; nothing for other kinds. What
    /// follows the last one that is found is not looked at. Names that are constants cost no memory.
    #[inline(always)]
    pub fn fields<const N: usize>(self, names: &[&str; N]) -> [Option<Json<'a>>; N] {
        self.find::<N, false>(names).found
    }

    /// The same of the whole object, and whether it holds anything else.
    #[inline(always)]
    pub fn all_fields<const N: usize>(self, names: &[&str; N]) -> Fields<'a, N> {
        self.find::<N, true>(names)
    }

    /// The members of an object in the order and the spelling that most writers give them: no place is looked for.
    #[inline(always)]
    pub fn ordered_fields(self) -> OrderedFields<'a> {
        let at = self.tape().first().map_or(0, |node| node.start);
        OrderedFields { text: self.text(), rest: self.inside(), at }
    }

    #[inline(always)]
    fn find<const N: usize, const ALL: bool>(self, names: &[&str; N]) -> Fields<'a, N> {
        let mut fields = Fields { found: [None; N], others: false };
        if self.kind() != Type::Object {
            return fields;
        }
        if self.is_unmapped() {
            self.find_by_bytes(names, ALL, &mut fields);
            return fields;
        }
        let (mut rest, mut missing) = (self.inside(), N);
        // As far as the members stand in the order of the names, each is compared with one.
        for (slot, name) in fields.found.iter_mut().zip(names) {
            let Some(node) = rest.first() else { return fields };
            if node.is_key_escaped() || self.key_bytes(node) != name.as_bytes() {
                break;
            }
            let Some((own, next)) = rest.split_at_checked(1 + node.inside()) else { break };
            (*slot, rest) = (Some(self.part(node, own)), next);
            missing -= 1;
        }
        if !ALL && missing == 0 {
            return fields;
        }
        while let Some(node) = rest.first() {
            let Some((own, next)) = rest.split_at_checked(1 + node.inside()) else { break };
            rest = next;
            let place = if node.is_key_escaped() {
                escaped_place(self.between(node.key, node.key_end), names)
            } else {
                let key = self.key_bytes(node);
                names.iter().position(|name| name.as_bytes() == key)
            };
            let free = place.and_then(|place| fields.found.get_mut(place));
            match free {
                Some(slot @ None) => {
                    *slot = Some(self.part(node, own));
                    missing -= 1;
                    if !ALL && missing == 0 {
                        break;
                    }
                }
                _ => fields.others = true,
            }
        }
        fields
    }

    fn find_by_bytes<const N: usize>(self, names: &[&str; N], all: bool, fields: &mut Fields<'a, N>) {
        let mut missing = N;
        for (key, value) in self.members() {
            match fields.found.iter_mut().zip(names).find(|(_, name)| key.is(name)) {
                Some((slot @ None, _)) => {
                    *slot = Some(value);
                    missing -= 1;
                    if !all && missing == 0 {
                        return;
                    }
                }
                _ => fields.others = true,
            }
        }
    }
}

/// Which of the names a key spells that holds an escape.
#[cold]
fn escaped_place(key: &str, names: &[&str]) -> Option<usize> {
    let key = JsonStr::from_scan(key, true);
    names.iter().position(|name| key.is(name))
}
