//! An append as most clients write it, read without looking for anything.
//!
//! A line is taken from its front, member by member, in the order of JSON-RPC and of PROTOCOL 3; only the payload is
//! scanned. Whatever is spelt in another way is read by [`super::envelope`], and means the same there
//! (`tests/direct_path.rs`).

use crate::json::{Checks, Json, Kin, Prefix, Scratch};
use crate::log::Offset;
use crate::session::{Append, Candidate, Expect};

const APPEND: Json<'static> = Json::from_verified("\"append\"");
const TRUE: Json<'static> = Json::from_verified("true");
/// As plain as a value can be.
const PLAIN: Checks = Checks { fault: None, loose: false, depth: 0 };

/// Reads a `session/append` that waits for nothing, and gives it to `carry_out`: the request's id, a JSON text in ASCII,
/// the place, and the event, which is lossless. None for a line that is spelt in another way, or that is not as it should be.
#[inline(always)] // a candidate is large: it stays where it is made
pub(super) fn read<'a, T>(
    line: &'a str,
    scratch: &'a mut Scratch,
    carry_out: impl FnOnce(&'a str, Append<'a>, &Candidate<'a>) -> T,
) -> Option<T> {
    if line.ends_with(r#","durable":true}}"#) {
        return None; // it waits, and is not to be scanned twice
    }
    let mut line = Prefix::of(line);
    line.take(r#"{"jsonrpc":"2.0","id":"#)?;
    let id = match line.integer() {
        Some(id) => id,
        None => line.plain_string()?.text(),
    };
    line.take(r#","method":"session/append","params":{"sessionId":"#)?;
    let session = line.plain_string()?.plain()?;
    line.take(r#","type":"#)?;
    let kind = line.plain_string()?;
    line.take(r#","data":"#)?;
    let (data, checks) = line.value(scratch, Kin::named(kind.text()))?;
    if checks.fault.is_some() {
        return None;
    }
    let mut candidate = Candidate::new(kind, data, checks);
    if line.take(r#","surfaceOp":"append""#).is_some() {
        candidate.set_surface_op(APPEND, PLAIN);
    }
    if line.take(r#","sourceEventSeqs":"#).is_some() {
        candidate.set_sources(line.integers()?, PLAIN);
    }
    if line.take(r#","ignorable":true"#).is_some() {
        candidate.set_ignorable(TRUE);
    }
    let seq = match line.take(r#","expectedSeq":"#) {
        Some(()) => Some(Offset::new(line.integer()?.parse().ok()?)?),
        None => None,
    };
    let instance = match line.take(r#","instanceId":"#) {
        Some(()) => Some(line.plain_string()?.plain()?),
        None => None,
    };
    let _ = line.take(r#","durable":false"#);
    line.take("}}")?;
    if !line.is_over() {
        return None;
    }
    let place = Append { session, instance, expect: Expect { seq } };
    Some(carry_out(id, place, &candidate))
}
