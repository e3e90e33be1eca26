//! Tool calls that wait for a result.

use std::sync::Arc;

use imbl::OrdSet;

use crate::json::JsonStr;

/// The calls that were started in the open step and have no result (FORMAT 10). Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    /// By id in WTF-8, so that spellings of one id are one call.
    open: OrdSet<Arc<[u8]>>,
}

impl Calls {
    /// Takes note of a `tool/call`.
    pub(super) fn start(&mut self, id: Option<JsonStr<'_>>) {
        if let Some(id) = id {
            self.open.insert((*id.wtf8()).into());
        }
    }

    /// Forgets a call that has its result.
    pub(super) fn answer(&mut self, id: Option<JsonStr<'_>>) {
        if let (Some(id), false) = (id, self.open.is_empty()) {
            self.open.remove(&*id.wtf8());
        }
    }

    /// Calls started so far wait in no step any more.
    pub(super) fn end_step(&mut self) {
        if !self.open.is_empty() {
            self.open = OrdSet::new();
        }
    }

    /// Whether a call of that id was started in this step and has no result.
    pub(super) fn waits(&self, id: Option<JsonStr<'_>>) -> bool {
        id.is_some_and(|id| self.open.contains(&*id.wtf8()))
    }

    /// Their ids in WTF-8.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &[u8]> {
        self.open.iter().map(|id| &**id)
    }
}
