//! An event-sourced session store for agent front-ends, and the daemon that serves it.
//!
//! A front-end in Rust has two ways in. [`client`] (feature `client`) starts a daemon, or takes the pipes of one, and gives
//! its methods as typed calls; with `default-features = false` it takes nothing of the daemon. [`session::Store`] holds
//! sessions in the process itself, by the same rules and in memory only:
//!
//! ```
//! use sessiond::json::Json;
//! use sessiond::log::{HeaderMeta, Offset, SessionId};
//! use sessiond::server::{Clock, IdSource};
//! use sessiond::session::{
//!     Append, Boundary, Candidate, Context, Expect, Fork, Limits, New, SnapshotOf, Store, Validation,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (mut clock, mut ids) = (Clock::System, IdSource::Random);
//! let mut store = Store::new(Limits::default());
//!
//! // Create. A context is the time and the ids of one change.
//! let mut context = Context::at(clock.now(), &mut ids);
//! let meta = HeaderMeta { cwd: Some("/work".to_owned()), ..HeaderMeta::default() };
//! let header = meta.into_header(SessionId::new("first")?, context.created_at(), false);
//! let new = New { header, seed: None, seed_length: None, invariants: Validation::Enforce, ephemeral: false };
//! let id = store.create(new, &mut context)?;
//!
//! // Append. A turn, given as text; what breaks a rule is refused, and changes nothing.
//! for (kind, data) in [("turn/start", r#"{"turn":1}"#), ("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#)] {
//!     let kind = sessiond::json::quote(kind);
//!     let (kind, _) = Json::parse(&kind)?;
//!     let (data, checks) = Json::parse(data)?;
//!     let candidate = Candidate::new(kind.as_str().ok_or("a type is a text")?, data, checks);
//!     let place = Append { session: id.as_str(), instance: None, expect: Expect::default() };
//!     store.append(place, &candidate, &mut Context::at(clock.now(), &mut ids))?;
//! }
//!
//! // Fork: behind the last event, with the parent's working directory. The events are shared, not copied.
//! let of = SnapshotOf { session: id.as_str(), instance: None, boundary: Boundary::default() };
//! let fork = Fork { of, child: None, cwd: None, invariants: None, ephemeral: false };
//! let (child, shared) = store.fork(fork, &mut Context::at(clock.now(), &mut ids))?;
//! assert_eq!(shared.get(), 2);
//!
//! // Read. The fork holds the parent's events and the marker behind them.
//! let log = store.session(child.as_str())?.history().log();
//! let kinds: Vec<_> = log.range(Offset::ZERO, log.len()).map(|event| event.type_text().lossy().into_owned()).collect();
//! assert_eq!(kinds, ["turn/start", "turn/end", "session/end-seed"]);
//! # Ok(())
//! # }
//! ```
//!
//! Rooms, lowest first; a room names only rooms to its left (`ARCHITECTURE.md`):
//!
//! ```text
//! json <- log <- view <- session <- store <- server <- daemon <- cli <- main
//! json, log <- disk <- store
//! json, log <- acp <- server
//! json, log, view <- protocol <- server, client (feature `client`)
//! stdio <- daemon
//! replay <- daemon, cli
//! ```
//!
//! What is hidden here is not for other crates: it changes with the daemon.

#[cfg(feature = "daemon")]
#[doc(hidden)]
pub mod acp;
#[cfg(feature = "daemon")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "daemon")]
#[doc(hidden)]
pub mod daemon;
#[cfg(feature = "daemon")]
#[doc(hidden)]
pub mod disk;
pub mod json;
#[cfg(feature = "daemon")]
pub mod log;
pub mod protocol;
#[cfg(feature = "daemon")]
#[doc(hidden)]
pub mod replay;
#[cfg(feature = "daemon")]
pub mod server;
#[cfg(feature = "daemon")]
pub mod session;
#[cfg(feature = "daemon")]
#[doc(hidden)]
pub mod stdio;
#[cfg(feature = "daemon")]
pub mod store;
#[cfg(feature = "daemon")]
pub mod view;
