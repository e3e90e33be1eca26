//! A typed client: spawns a daemon, calls its methods, hands its notifications on (feature `client`).
//!
//! ```no_run
//! # async fn f() -> Result<(), sessiond::client::ClientError> {
//! use sessiond::client::{Client, Notification};
//! use sessiond::protocol::params::NewParams;
//!
//! let mut command = tokio::process::Command::new("sessiond");
//! command.args(["serve", "--store", "memory:"]);
//! let (client, mut notifications) = Client::spawn(command)?;
//! let reader = tokio::spawn(async move {
//!     while let Some(notification) = notifications.next().await {
//!         if let Notification::Event(notice) = notification {
//!             println!("{}", notice.event.text());
//!         }
//!     }
//! });
//! let opened = client.new_session(NewParams::default()).await?;
//! println!("{}", opened.session_id);
//! client.shut_down().await?;
//! let _ = reader.await;
//! # Ok(())
//! # }
//! ```
//!
//! The methods are those of the daemon's own table, with its own types for params and results; the
//! client speaks the native dialect. A notification stands in line before any response that came after
//! it. Nothing is dropped: when [`NOTIFICATIONS_HELD`] of them wait, the daemon's output is no longer
//! read, and answers wait too; so read [`Notifications`] in a task of its own, or drop it.

mod calls;
mod error;
mod handshake;
mod incoming;
mod notification;
mod outgoing;

pub use calls::Client;
pub use error::ClientError;
pub use handshake::Handshake;
pub use notification::{NOTIFICATIONS_HELD, Notification, Notifications};
