//! JSON text: checked once, never turned into a tree.
//!
//! [`Scratch::scan`] reads a text in one pass and says whether it is JSON, whether it is *lossless*
//! (FORMAT 1), how deep it is and whether it is already the compact one-line form. [`Json`] is the
//! proof of having passed: a view of verified text whose members are found by position.
//! Nothing here knows what a session is.

mod compact;
mod equal;
mod fault;
mod fields;
mod literal_reader;
mod nesting;
mod scan;
mod simd;
mod string;
mod swar;
mod tape;
mod tapes;
mod template;
mod text;
mod token;

pub use compact::{escape_separators, write_compact};
pub use equal::{equal, equal_except};
pub use fault::{FaultAt, FaultKind, SyntaxError, fit_pointer, pointer_at};
pub use fields::{Fields, OrderedFields};
pub use literal_reader::LiteralReader;
pub use scan::{Checks, Scratch};
pub use string::{JsonStr, quote, quote_into};
pub use tapes::{Scanned, Tapes};
pub use template::TemplateKey;
pub use text::{Elements, Json, JsonText, MAX_SAFE_INTEGER, Members, Type};
