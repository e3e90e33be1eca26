//! What is stored: [`find`] knows where a session lies, [`lineage`](mod@lineage) follows the parents that logs name, [`list`] and [`records`] show all of them, [`summary`] saves
//! reading them for that.

pub mod find;
mod head;
pub mod lineage;
pub mod list;
pub mod records;
pub mod summary;
