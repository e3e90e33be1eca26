//! Deep equality of values: what two readers would see as the same.

use super::string::JsonStr;
use super::text::{Json, Type};

/// Whether two values are equal: key order does not matter, numbers compare as doubles, strings by
/// UTF-16 unit (FORMAT 5, tool rewrite). Recurses once per level, so depth must be bounded before.
pub fn equal(a: Json<'_>, b: Json<'_>) -> bool {
    equal_except(a, b, &[])
}

/// A step from a value to a part of it.
type Path<'p> = &'p [&'p str];

/// [`equal`], but for the member of that path (array elements are named by their index), which must
/// be there on both sides or on neither and is not compared. An empty path leaves nothing out.
pub fn equal_except(a: Json<'_>, b: Json<'_>, except: Path<'_>) -> bool {
    if a.text() == b.text() {
        return true;
    }
    match (a.kind(), b.kind()) {
        (Type::Number, Type::Number) => a.as_f64() == b.as_f64(),
        (Type::String, Type::String) => a.as_str() == b.as_str(),
        (Type::Array, Type::Array) => equal_arrays(a, b, except),
        (Type::Object, Type::Object) => equal_objects(a, b, except),
        (Type::Bool, Type::Bool) | (Type::Null, Type::Null) => false, // equal texts came first
        _ => false,
    }
}

fn equal_arrays(a: Json<'_>, b: Json<'_>, except: Path<'_>) -> bool {
    let (mut left, mut right) = (a.elements().enumerate(), b.elements());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some((index, a)), Some(b)) => {
                let rest = match except {
                    [head, rest @ ..] if head.parse() == Ok(index) => Some(rest),
                    _ => None,
                };
                if !equal_member(a, b, rest) {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

fn equal_objects(a: Json<'_>, b: Json<'_>, except: Path<'_>) -> bool {
    /// Up to this many members are matched by looking through the other side.
    const SCAN: usize = 16;
    let count = a.members().count();
    if count != b.members().count() {
        return false;
    }
    let step = |key: JsonStr<'_>| match except {
        [head, rest @ ..] if key.is(head) => Some(rest),
        _ => None,
    };
    if count <= SCAN {
        return a.members().all(|(key, value)| {
            let other = b.members().find(|(name, _)| *name == key);
            other.is_some_and(|(_, other)| equal_member(value, other, step(key)))
        });
    }
    let mut left: Vec<_> = a.members().map(|(key, value)| (key.wtf8(), key, value)).collect();
    let mut right: Vec<_> = b.members().map(|(key, value)| (key.wtf8(), key, value)).collect();
    left.sort_unstable_by(|x, y| x.0.cmp(&y.0));
    right.sort_unstable_by(|x, y| x.0.cmp(&y.0));
    left.iter().zip(&right).all(|(x, y)| x.0 == y.0 && equal_member(x.2, y.2, step(x.1)))
}

/// `rest` is the path below this member if the excepted path leads through it.
fn equal_member(a: Json<'_>, b: Json<'_>, rest: Option<Path<'_>>) -> bool {
    match rest {
        Some([]) => true,
        Some(path) => equal_except(a, b, path),
        None => equal_except(a, b, &[]),
    }
}
