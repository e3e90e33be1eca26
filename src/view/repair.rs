//! placeholder until the merge
use crate::json::{Json, JsonStr};
use crate::log::{Draft, Log, Seq};
/// A closing event.
pub struct Closer {
    /// Its time.
    pub time: i64,
}
impl Closer {
    /// The draft.
    pub fn draft(&self) -> Draft<'_> {
        Draft::new(JsonStr::EMPTY, Json::NULL)
    }
}
/// Closers.
pub fn closers(_log: &Log, _turn_start: Seq, _time: Option<i64>) -> Vec<Closer> {
    Vec::new()
}
