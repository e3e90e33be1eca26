//! The workloads, in the order in which they run.

mod appends;
mod forks;
mod list;
mod load;
mod memory;
mod ping;
mod reads;
mod start;

use crate::Suite;
use crate::report::Row;

/// A name, whether it has targets that repeat, and what it does.
type Workload = (&'static str, bool, fn(&Suite) -> Vec<Row>);

pub const ALL: [Workload; 16] = [
    ("pipelined", true, appends::pipelined),
    ("spellings", true, appends::spellings),
    ("ping", false, ping::ping),
    ("chunks-singly", false, appends::chunks_singly),
    ("chunks-bursts", false, appends::chunks_in_bursts),
    ("tool-results", false, appends::tool_results),
    ("batches", false, appends::batches),
    ("sessions", false, appends::sessions),
    ("forks", true, forks::in_memory),
    ("fork-durable", false, forks::durable),
    ("messages", true, reads::messages),
    ("events", false, reads::events),
    ("load", false, load::load),
    ("list", false, list::list),
    ("start", false, start::start),
    ("memory", true, memory::memory),
];
