//! `sourceEventSeqs` with runs written as `[start, end]` pairs (FORMAT 16).
//!
//! Later writers of format version 0 shorten long lists so. Such rows are read and never written: here the whole
//! list is put back, for the validator and for memory; the file keeps its bytes.

use crate::json::Json;
use crate::log::Seq;

/// The whole list, as JSON text, if `sources` of the event `seq` has pairs and is a rising list that ends before
/// that event; none for anything else, which is left to the validator. `max` bounds the text.
pub(super) fn expand(sources: Json<'_>, seq: Seq, max: usize) -> Option<String> {
    let inside = sources.text().strip_prefix('[')?;
    memchr::memchr(b'[', inside.as_bytes())?;
    let mut out = String::from("[");
    let mut number = itoa::Buffer::new();
    let mut next = 0;
    for element in sources.elements() {
        let (start, end) = match element.as_safe_uint() {
            Some(single) => (single, single),
            None => pair(element)?,
        };
        if start < next || end < start || end >= seq.get() {
            return None;
        }
        for value in start..=end {
            out.push_str(number.format(value));
            out.push(',');
            if out.len() > max {
                return None;
            }
        }
        next = end.saturating_add(1);
    }
    out.pop();
    out.push(']');
    Some(out)
}

fn pair(element: Json<'_>) -> Option<(u64, u64)> {
    let mut ends = element.elements().map(Json::as_safe_uint);
    match (ends.next(), ends.next(), ends.next()) {
        (Some(Some(start)), Some(Some(end)), None) => Some((start, end)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str, seq: u64, max: usize) -> Option<String> {
        let (json, _) = Json::parse(text).ok()?;
        expand(json, Seq::new(seq)?, max)
    }

    #[test]
    fn pairs_are_put_back_only_in_rising_lists_of_earlier_events() {
        assert_eq!(expanded("[1,[3,5],7]", 9, 100).as_deref(), Some("[1,3,4,5,7]"));
        assert_eq!(expanded("[[0,2]]", 3, 100).as_deref(), Some("[0,1,2]"));
        let refused =
            ["[1,2]", "[]", "5", "[[3,1]]", "[[1,3],2]", "[[1,2,3]]", "[[1]]", "[[1,9]]", "[[1,\"2\"]]"];
        for text in refused {
            assert_eq!(expanded(text, 9, 100), None, "{text}");
        }
        assert_eq!(expanded("[[0,9007199254740990]]", 9_007_199_254_740_991, 1000), None);
    }
}
