//! Transcripts: recorded conversations with the daemon, and the tool that holds a daemon to them.
//!
//! A transcript is a text file with the lines that were sent, the lines that came back, and steps such as a restart;
//! `transcript` is its grammar, with the words of two kinds of line in `flags` and `faults`, `plan` says what belongs
//! together, `runner` carries it out against a child process (`child`, in a `scratch` directory) and keeps `books` of
//! what came, `report` and `diff` show what differs, `update` writes what came back into the file, `files` does so for
//! one file after the other, and `record` makes a transcript from a live client, `blank`
//! without its secrets.
//!
//! This room speaks bytes and lines to a process. It knows nothing of sessions and imports no other room, so that a
//! transcript can judge any daemon.

mod blank;
mod books;
mod child;
mod diff;
mod error;
mod faults;
mod files;
mod flags;
mod plan;
mod record;
mod report;
mod runner;
mod scratch;
mod transcript;
mod update;
mod walk;

pub use error::ReplayError;
pub use faults::{FAULT_ERRNOS, FAULT_OPS};
pub use files::{Options, Summary, run};
pub use record::{RecordError, Recorder, Recording};
pub use transcript::Problem;
