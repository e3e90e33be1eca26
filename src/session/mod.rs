//! Sessions, and the store that owns the live ones.
//!
//! A [`Store`] changes only through its own methods; time, ids and bytes come in as arguments.
//! Append, seed and load share one validator, [`History`]. Nothing here names a runtime, a method
//! table or a file.

mod append;
mod boundary;
mod history;
mod live;
mod recency;
mod refusal;
mod seed;
#[allow(clippy::module_inception)]
mod session;
mod store;

pub use append::{AppendBatch, Appended, Candidate, Expect, Rules};
pub use boundary::{Boundary, OnOpenTurn};
pub use history::{Admission, History, Limits, Validation, Vocabulary};
pub use recency::{Recency, Standing};
pub use refusal::Refusal;
pub use seed::{Seed, SeedMeta};
pub use session::{Context, Ids, InstanceId, Mended, Opened, Outgoing, Session, Snapshot};
pub use store::{Append, Fork, Interrupt, Interrupted, New, Restore, RolledBack, SnapshotOf, Store};
