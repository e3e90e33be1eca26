//! `sessiond verify` and `sessiond repair`: what is wrong with stored sessions, and what can be done about it.
//!
//! Both read a log as a load does, with the same reader and the same validator (`examine`); neither judges anew.
//! `survey` walks a store, a session directory or one file, `beside` says what lies around a log; `report` is what verify tells, as text or JSON; `mending`
//! does what a load's first write would do, or keeps the sound part of a log that a load refuses.

mod beside;
mod examine;
pub(crate) mod mending;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod survey;
