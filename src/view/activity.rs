//! What a list of sessions shows of a log.

use crate::json::JsonStr;
use crate::log::{Event, ForeignTypes, Kind, LastActive, LastTitle, Log, LongestEvent, Seq, title_in};

/// The title, the time of the latest event that counts as activity, the types that not every reader knows and the size of
/// the longest event (PROTOCOL 3, Listing).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    last: LastActive<Seq>,
    title: LastTitle<Seq>,
    foreign: ForeignTypes,
    longest: LongestEvent,
}

impl Activity {
    /// Follows a committed event.
    pub fn apply(&mut self, event: Event<'_>) {
        match event.kind() {
            Kind::SessionTitle => self.title.follow(event.data(), |_| event.seq()),
            Kind::Other if !event.ignorable() => {
                self.foreign.note(|| event.type_text().lossy().into_owned());
            }
            _ => {}
        }
        self.longest.follow(event.kind(), event.line().len(), || event.data());
        self.last.follow(event.kind(), event.seq(), || event.time(), || event.data());
    }

    /// Time of the last event that counts as activity ([`LastActive`]), in milliseconds since the Unix epoch.
    pub fn last_time(&self, log: &Log) -> Option<i64> {
        log.get(self.last.get()?).map(Event::time)
    }

    /// The title ([`LastTitle`]).
    pub fn title<'l>(&self, log: &'l Log) -> Option<JsonStr<'l>> {
        title_in(log.get(*self.title.get()?)?.data())
    }

    /// Types outside the vocabulary that are not marked ignorable.
    pub fn foreign(&self) -> &ForeignTypes {
        &self.foreign
    }

    /// Bytes of the longest event.
    pub fn longest(&self) -> usize {
        self.longest.bytes()
    }
}
