//! Deep equality of values: what two readers would see as the same.

use super::string::JsonStr;
use super::text::{Json, Type};
use super::token::string_end;

/// Whether two values are equal: key order does not matter, numbers compare as doubles, strings by
/// UTF-16 unit (FORMAT 5, tool rewrite). Recurses once per level, so depth must be bounded before.
pub fn equal(a: Json<'_>, b: Json<'_>) -> bool {
    equal_except(a, b, &[])
}

/// A step from a value to a part of it.
type Path<'p> = &'p [&'p str];

/// [`equal`], but for the member of that path (array elements are named by their index), which must
/// be there on both sides or on neither and is not compared. An empty path leaves nothing out.
///
/// Each text is read once, whatever its depth.
pub fn equal_except(a: Json<'_>, b: Json<'_>, except: Path<'_>) -> bool {
    if a.text() == b.text() {
        return true;
    }
    let (a, b) = (parts(a), parts(b));
    Part::of(&a).zip(Part::of(&b)).is_some_and(|(a, b)| a.equals(b, except))
}

/// A value of a text, or the key of a member, in the order in which they begin.
struct Node<'a> {
    json: Json<'a>,
    /// How many nodes lie inside it. Those of an object are keys and values in turn.
    inside: usize,
}

/// All parts of a value, itself first.
fn parts(value: Json<'_>) -> Vec<Node<'_>> {
    let (text, bytes) = (value.text(), value.text().as_bytes());
    let part = |start: usize, end: usize| Json::from_verified(text.get(start..end).unwrap_or("null"));
    let (mut nodes, mut open, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'{' | b'[' => {
                open.push((nodes.len(), start));
                nodes.push(Node { json: Json::NULL, inside: 0 });
            }
            b'}' | b']' => {
                let Some((index, start)) = open.pop() else { break };
                let inside = nodes.len() - index - 1;
                if let Some(node) = nodes.get_mut(index) {
                    *node = Node { json: part(start, at), inside };
                }
            }
            b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' => {}
            _ => {
                at = if byte == b'"' { string_end(bytes, at).at } else { literal_end(bytes, at) };
                nodes.push(Node { json: part(start, at), inside: 0 });
            }
        }
    }
    nodes
}

/// Where a number or a word ends.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
    let rest = bytes.get(at..).unwrap_or(&[]);
    rest.iter().position(ends).map_or(bytes.len(), |length| at + length)
}

/// A value with the nodes inside it.
#[derive(Clone, Copy)]
struct Part<'n, 'a> {
    json: Json<'a>,
    inside: &'n [Node<'a>],
}

impl<'n, 'a> Part<'n, 'a> {
    /// The value that begins the nodes.
    fn of(nodes: &'n [Node<'a>]) -> Option<Self> {
        let (first, rest) = nodes.split_first()?;
        Some(Self { json: first.json, inside: rest.get(..first.inside)? })
    }

    /// What lies directly inside it, in order: elements, or keys and values in turn.
    fn children(self) -> impl Iterator<Item = Self> {
        let mut rest = self.inside;
        std::iter::from_fn(move || {
            let child = Self::of(rest)?;
            rest = rest.get(child.inside.len() + 1..)?;
            Some(child)
        })
    }

    fn members(self) -> impl Iterator<Item = (JsonStr<'a>, Self)> {
        let mut parts = self.children();
        std::iter::from_fn(move || Some((parts.next()?.json.as_str()?, parts.next()?)))
    }

    fn equals(self, other: Part<'_, '_>, except: Path<'_>) -> bool {
        match (self.json.kind(), other.json.kind()) {
            (Type::Number, Type::Number) => {
                self.json.text() == other.json.text() || self.json.as_f64() == other.json.as_f64()
            }
            (Type::String, Type::String) => self.json.as_str() == other.json.as_str(),
            (Type::Bool, Type::Bool) | (Type::Null, Type::Null) => self.json.text() == other.json.text(),
            (Type::Array, Type::Array) => self.equals_array(other, except),
            (Type::Object, Type::Object) => self.equals_object(other, except),
            _ => false,
        }
    }

    fn equals_array(self, other: Part<'_, '_>, except: Path<'_>) -> bool {
        let (mut left, mut right) = (self.children().enumerate(), other.children());
        loop {
            match (left.next(), right.next()) {
                (None, None) => return true,
                (Some((index, a)), Some(b)) => {
                    let rest = match except {
                        [head, rest @ ..] if head.parse() == Ok(index) => Some(rest),
                        _ => None,
                    };
                    if !a.equals_member(b, rest) {
                        return false;
                    }
                }
                _ => return false,
            }
        }
    }

    fn equals_object(self, other: Part<'_, '_>, except: Path<'_>) -> bool {
        /// Up to this many members are matched by looking through the other side.
        const SCAN: usize = 16;
        let count = self.members().count();
        if count != other.members().count() {
            return false;
        }
        let step = |key: JsonStr<'_>| match except {
            [head, rest @ ..] if key.is(head) => Some(rest),
            _ => None,
        };
        if count <= SCAN {
            return self.members().all(|(key, value)| {
                let same = other.members().find(|(name, _)| *name == key);
                same.is_some_and(|(_, other)| value.equals_member(other, step(key)))
            });
        }
        let mut left: Vec<_> = self.members().map(|(key, value)| (key.wtf8(), key, value)).collect();
        let mut right: Vec<_> = other.members().map(|(key, value)| (key.wtf8(), value)).collect();
        left.sort_unstable_by(|x, y| x.0.cmp(&y.0));
        right.sort_unstable_by(|x, y| x.0.cmp(&y.0));
        left.iter().zip(&right).all(|(x, y)| x.0 == y.0 && x.2.equals_member(y.1, step(x.1)))
    }

    /// `rest` is the path below this member if the excepted path leads through it.
    fn equals_member(self, other: Part<'_, '_>, rest: Option<Path<'_>>) -> bool {
        match rest {
            Some([]) => true,
            Some(path) => self.equals(other, path),
            None => self.equals(other, &[]),
        }
    }
}
