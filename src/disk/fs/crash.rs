//! What power loss may leave of a recorded run.
//!
//! The model is the weakest promise that file systems give:
//! - what a file held at its last `sync_data` is there; of later writes and truncations any subset is, each write
//!   whole, not at all, torn at any byte, or with NULs in place of a part;
//! - a `sync_data` that failed has promised nothing, and neither does the next one for what the first should have
//!   written;
//! - names are as they were at the last `sync_dir` of their directory; of later changes any subset happened, a rename
//!   as a whole;
//! - a directory whose own name is lost takes everything in it along.
//!
//! Killing the process instead loses nothing that was written: that is the state in which everything is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use super::record::RecordingFs;

pub(crate) type Ino = u64;
pub(crate) const ROOT: Ino = 1;

/// One change. A name change is a list of (directory, name, what it stands for from now on) that happens as a whole.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Names(Vec<(Ino, OsString, Option<Ino>)>),
    Write {
        ino: Ino,
        offset: u64,
        bytes: Vec<u8>,
    },
    SetLen {
        ino: Ino,
        len: u64,
    },
    SyncData(Ino),
    /// A sync that failed: the kernel has dropped what it could not write, and calls it clean.
    SyncFailed(Ino),
    SyncDir(Ino),
}

/// Files and directories, as they are in memory or as they lie on the disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<Ino, Vec<u8>>,
    pub(crate) dirs: BTreeMap<Ino, BTreeMap<OsString, Ino>>,
}

impl Tree {
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Names(names) => {
                for (dir, name, target) in names {
                    let dir = self.dirs.entry(*dir).or_default();
                    match target {
                        Some(ino) => dir.insert(name.clone(), *ino),
                        None => dir.remove(name),
                    };
                }
            }
            Change::Write { ino, offset, bytes } => {
                let file = self.files.entry(*ino).or_default();
                let start = usize::try_from(*offset).unwrap_or(usize::MAX);
                if file.len() < start + bytes.len() {
                    file.resize(start + bytes.len(), 0);
                }
                if let Some(part) = file.get_mut(start..start + bytes.len()) {
                    part.copy_from_slice(bytes);
                }
            }
            Change::SetLen { ino, len } => {
                self.files.entry(*ino).or_default().resize(usize::try_from(*len).unwrap_or(usize::MAX), 0);
            }
            Change::SyncData(_) | Change::SyncFailed(_) | Change::SyncDir(_) => {}
        }
    }

    pub(crate) fn links(&self, ino: Ino) -> u64 {
        self.dirs.values().flat_map(BTreeMap::values).filter(|target| **target == ino).count() as u64
    }
}

/// What became of one change that was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Lost,
    /// Only the first bytes of a write are there.
    Torn(usize),
    /// The write took its place, but this range of it reads as NULs.
    Nul(usize, usize),
}

/// One state of the disk after power loss.
pub struct CrashState {
    /// How many of the recorded changes had happened; compare with [`RecordingFs::changes`] at the time of a promise.
    pub changes: usize,
    /// Which of them were lost and how, to reproduce a failure.
    pub story: String,
    /// The disk, mounted again.
    pub fs: RecordingFs,
}

/// Iterator over [`CrashState`]s, from the first recorded change to the last.
pub struct CrashStates {
    base: Tree,
    log: Vec<Change>,
    dirs: BTreeSet<Ino>,
    random: u64,
    bound: usize,
    moment: usize,
    /// Fates to try at this moment, for the pending changes with these indexes.
    pending: Vec<usize>,
    todo: Vec<Vec<Fate>>,
}

impl CrashStates {
    pub(crate) fn new(base: Tree, log: Vec<Change>, dirs: BTreeSet<Ino>, seed: u64, bound: usize) -> Self {
        let (pending, todo) = (Vec::new(), Vec::new());
        let mut states = Self { base, log, dirs, random: seed, bound, moment: 0, pending, todo };
        states.plan();
        states
    }

    /// Fills `todo` for the present moment.
    fn plan(&mut self) {
        let done = self.log.get(..self.moment).unwrap_or_default();
        self.pending = (0..done.len()).filter(|index| is_pending(done, *index)).collect();
        let options: Vec<Vec<Fate>> =
            self.pending.iter().filter_map(|index| done.get(*index)).map(options).collect();
        let all = options.iter().try_fold(1usize, |product, fates| product.checked_mul(fates.len()));
        self.todo = if all.is_some_and(|all| all <= self.bound) {
            options.iter().fold(vec![Vec::new()], |found, fates| {
                let extend =
                    |head: Vec<Fate>| fates.iter().map(move |fate| [head.as_slice(), &[*fate]].concat());
                found.into_iter().flat_map(extend).collect()
            })
        } else {
            let writes: Vec<Option<usize>> =
                self.pending.iter().map(|index| self.write_len(*index)).collect();
            let mut todo = vec![vec![Fate::Kept; writes.len()], vec![Fate::Lost; writes.len()]];
            while todo.len() < self.bound.max(2) {
                todo.push(writes.iter().map(|len| self.draw(*len)).collect());
            }
            todo
        };
    }

    fn write_len(&self, index: usize) -> Option<usize> {
        match self.log.get(index) {
            Some(Change::Write { bytes, .. }) => Some(bytes.len()),
            _ => None,
        }
    }

    fn draw(&mut self, write: Option<usize>) -> Fate {
        let len = write.unwrap_or(0);
        match self.next_random() % if len > 0 { 6 } else { 2 } {
            0 | 2 => Fate::Kept,
            1 => Fate::Lost,
            3 | 4 => Fate::Torn(self.below(len)),
            _ => {
                let from = self.below(len);
                Fate::Nul(from, from + 1 + self.below(len - from))
            }
        }
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next_random() % end.max(1) as u64).unwrap_or(0)
    }

    /// splitmix64: small, and the same on every machine.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn build(&self, fates: &[Fate]) -> CrashState {
        let mut tree = self.base.clone();
        let mut story = String::new();
        let done = self.log.get(..self.moment).unwrap_or_default();
        // Files and directories exist from the start; which names lead to them is what is lost or kept.
        for dir in &self.dirs {
            tree.dirs.entry(*dir).or_default();
        }
        let named = done
            .iter()
            .filter_map(|change| if let Change::Names(names) = change { Some(names) } else { None });
        for ino in named.flatten().filter_map(|(_, _, target)| *target).filter(|ino| !self.dirs.contains(ino))
        {
            tree.files.entry(ino).or_default();
        }
        for (index, change) in done.iter().enumerate() {
            let fate = self
                .pending
                .iter()
                .position(|pending| *pending == index)
                .and_then(|at| fates.get(at))
                .copied();
            if let Some(fate) = fate {
                story.push_str(&format!("#{index} {fate:?}; "));
            }
            match (fate.unwrap_or(Fate::Kept), change) {
                (Fate::Lost, _) => {}
                (Fate::Torn(len), Change::Write { ino, offset, bytes }) => {
                    let bytes = bytes.get(..len).unwrap_or(bytes).to_vec();
                    tree.apply(&Change::Write { ino: *ino, offset: *offset, bytes });
                }
                (Fate::Nul(from, to), Change::Write { ino, offset, bytes }) => {
                    let mut bytes = bytes.clone();
                    bytes.iter_mut().take(to).skip(from).for_each(|byte| *byte = 0);
                    tree.apply(&Change::Write { ino: *ino, offset: *offset, bytes });
                }
                _ => tree.apply(change),
            }
        }
        CrashState { changes: self.moment, story, fs: RecordingFs::on_disk(tree) }
    }
}

impl Iterator for CrashStates {
    type Item = CrashState;

    fn next(&mut self) -> Option<CrashState> {
        loop {
            if let Some(fates) = self.todo.pop() {
                return Some(self.build(&fates));
            }
            if self.moment == self.log.len() {
                return None;
            }
            self.moment += 1;
            self.plan();
        }
    }
}

/// Whether a change that happened is not covered by a later sync.
fn is_pending(done: &[Change], index: usize) -> bool {
    let later = done.get(index + 1..).unwrap_or_default();
    // The first sync decides: after one that failed, a later success says nothing about what came before both.
    let synced = |wanted: Ino| {
        let mut syncs = later.iter().filter_map(|change| match change {
            Change::SyncData(ino) if *ino == wanted => Some(true),
            Change::SyncFailed(ino) if *ino == wanted => Some(false),
            _ => None,
        });
        syncs.next().unwrap_or(false)
    };
    match done.get(index) {
        Some(Change::Names(names)) => names.iter().any(|(wanted, _, _)| {
            !later.iter().any(|change| matches!(change, Change::SyncDir(dir) if dir == wanted))
        }),
        Some(Change::Write { ino, .. } | Change::SetLen { ino, .. }) => !synced(*ino),
        _ => false,
    }
}

/// The fates that are worth trying when all combinations are tried.
fn options(change: &Change) -> Vec<Fate> {
    let mut fates = vec![Fate::Lost, Fate::Kept];
    if let Change::Write { bytes, .. } = change {
        let len = bytes.len();
        let half = len / 2;
        fates.extend(
            [1, half, len.saturating_sub(1)]
                .iter()
                .filter(|cut| **cut > 0 && **cut < len)
                .map(|cut| Fate::Torn(*cut)),
        );
        fates.extend(
            [(0, len), (0, half), (half, len)].iter().filter(|(a, b)| a < b).map(|(a, b)| Fate::Nul(*a, *b)),
        );
    }
    fates
}
