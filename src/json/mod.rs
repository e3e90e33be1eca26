//! JSON text: checked once, never turned into a tree.
//!
//! [`Scratch::scan`] reads a text in one pass and says whether it is JSON, whether it is *lossless*
//! (FORMAT 1), how deep it is and whether it is already the compact one-line form. [`Json`] is the
//! proof of having passed: a view of verified text whose members are found by position.
//! Nothing here knows what a session is.

mod ahead;
mod compact;
mod digits;
mod equal;
mod fault;
mod fields;
mod form;
mod lanes;
mod nesting;
mod outline;
mod prefix;
mod scan;
mod string;
mod text;
mod token;

pub use ahead::{Outlines, Scanned};
pub use compact::{escape_separators, write_compact};
pub use equal::{equal, equal_except};
pub use fault::{FaultAt, FaultKind, SyntaxError, fit_pointer, pointer_at};
pub use fields::{Fields, Spelt};
pub use form::Kin;
pub use prefix::Prefix;
pub use scan::{Checks, Scratch};
pub use string::{JsonStr, quote, quote_into};
pub use text::{Elements, Json, JsonText, MAX_SAFE_INTEGER, Members, Type};
