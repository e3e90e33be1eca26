//! An append as most clients write it, read without looking for anything.
//!
//! A line is taken from its front, member by member, in the order of JSON-RPC and of PROTOCOL 3; only the payload is
//! scanned. Whatever is spelt in another way is read by [`super::envelope`], and means the same there
//! (`tests/direct_path.rs`).

use crate::json::{Checks, Json, Kin, Prefix, Scratch};
use crate::log::Offset;
use crate::session::Candidate;

/// A `session/append` that waits for nothing.
#[derive(Debug)]
pub(super) struct UsualAppend<'a> {
    /// The request's id, a JSON text in ASCII.
    pub(super) id: &'a str,
    pub(super) session: &'a str,
    /// The event, which is lossless.
    pub(super) candidate: Candidate<'a>,
    pub(super) expected_seq: Option<Offset>,
    pub(super) instance: Option<&'a str>,
}

const APPEND: Json<'static> = Json::from_verified("\"append\"");
const TRUE: Json<'static> = Json::from_verified("true");

impl<'a> UsualAppend<'a> {
    /// Reads a line; none for one that is spelt in another way, or that is not as it should be.
    #[inline(always)] // it is large, and used where it is made
    pub(super) fn read(line: &'a str, scratch: &'a mut Scratch) -> Option<Self> {
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
            candidate.set_surface_op(APPEND, Checks::default()); // as plain as it can be
        }
        if line.take(r#","sourceEventSeqs":"#).is_some() {
            candidate.set_sources(line.integers()?, Checks::default());
        }
        if line.take(r#","ignorable":true"#).is_some() {
            candidate.set_ignorable(TRUE);
        }
        let expected_seq = match line.take(r#","expectedSeq":"#) {
            Some(()) => Some(Offset::new(line.integer()?.parse().ok()?)?),
            None => None,
        };
        let instance = match line.take(r#","instanceId":"#) {
            Some(()) => Some(line.plain_string()?.plain()?),
            None => None,
        };
        let _ = line.take(r#","durable":false"#);
        line.take("}}")?;
        line.is_over().then_some(Self { id, session, candidate, expected_seq, instance })
    }
}
