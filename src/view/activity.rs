//! What a list of sessions shows of a log.

use crate::json::JsonStr;
use crate::log::{Event, Kind, Log, Seq};

/// The latest title, and the time of the latest event that is no title (PROTOCOL 3, Listing).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    last: Option<Seq>,
    title: Option<Seq>,
}

impl Activity {
    /// Follows a committed event.
    pub fn apply(&mut self, event: Event<'_>) {
        match event.kind() {
            Kind::SessionTitle => self.title = Some(event.seq()),
            Kind::SessionTitleLlmRequest => {}
            _ => self.last = Some(event.seq()),
        }
    }

    /// Time of the last event that is no `session/title*`, in milliseconds since the Unix epoch.
    pub fn last_time(&self, log: &Log) -> Option<i64> {
        log.get(self.last?).map(Event::time)
    }

    /// The title that the last `session/title` event gave.
    pub fn title<'l>(&self, log: &'l Log) -> Option<JsonStr<'l>> {
        let title = log.get(self.title?)?.data().get("title")?.as_str()?;
        (!title.is_empty()).then_some(title)
    }
}
