//! Results that go past the method table, which would read their text twice.

use super::call::Call;
use crate::protocol::RawJson;

/// A member of a result that goes past the method table: a page of lines that this program has encoded or verified itself.
#[derive(Debug)]
pub(super) enum Splice {
    /// Its place is the first or the last of that name in the result.
    Text {
        /// Its name.
        member: &'static str,
        /// Which: what stands on the other side may hold JSON of a client, and such a name with it.
        at: Place,
        /// Its value as one compact line of JSON.
        text: String,
    },
    /// The result's first member: the response stands in the output up to its end, and goes on from there.
    Begun(&'static str),
}

/// Which of several places with one name.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(super) enum Place {
    First,
    Last,
}

impl Call {
    /// Keeps a member of the result apart, and gives what stands in its place.
    pub(super) fn keep_apart(&mut self, member: &'static str, at: Place, text: String) -> RawJson {
        self.splice = Some(Splice::Text { member, at, text });
        RawJson::default()
    }
}

/// Takes the beginning of a line that is still being made, and leaves its buffer empty.
pub type Outlet = Box<dyn FnMut(&mut String) + Send>;

/// An outlet, and how much has left by it.
pub(super) struct StreamSink {
    outlet: Outlet,
    /// Bytes, since the output was last looked at.
    pub(super) gone: usize,
}

impl StreamSink {
    pub(super) fn new(outlet: Outlet) -> Self {
        Self { outlet, gone: 0 }
    }

    pub(super) fn take(&mut self, text: &mut String) {
        self.gone += text.len();
        (self.outlet)(text);
    }
}
