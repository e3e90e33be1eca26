//! Power loss at every moment of publishing, appending, syncing and repairing: what was promised is there.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use sessiond::disk::fs::FileSystem;
use sessiond::disk::fs::crash::CrashState;
use sessiond::disk::fs::record::RecordingFs;
use sessiond::disk::live::lock::{Holder, Lock};
use sessiond::disk::live::publish::{Piece, Publisher};
use sessiond::disk::live::write::LogWriter;
use sessiond::disk::paths::{Encoding, LogPath};

const ME: Holder = Holder { pid: 1, since_ms: 2 };
const FIRST: &[u8] = b"{\"type\":\"session\"}\n{\"seq\":0}\n";
const BOUND: usize = 300;

fn path() -> LogPath {
    LogPath::new(Some("/srv/project"), "id", Encoding::Plain).unwrap()
}

fn publish(disk: &RecordingFs) -> LogWriter {
    Publisher::new(Arc::new(disk.clone())).publish(&path(), &[Piece::Bytes(FIRST)], ME).unwrap()
}

/// The longest promise made by the time of a crash: (changes so far, durable bytes).
#[derive(Default)]
struct Promises(Vec<(usize, Vec<u8>)>);

impl Promises {
    fn promise(&mut self, disk: &RecordingFs, durable: u64) {
        let content = disk.content(path().log()).unwrap();
        self.0.push((disk.changes(), content[..usize::try_from(durable).unwrap()].to_vec()));
    }

    fn check(&self, state: &CrashState) {
        let content = state.fs.content(path().log());
        if let Some((_, promised)) = self.0.iter().rfind(|(changes, _)| *changes <= state.changes) {
            let content =
                content.unwrap_or_else(|| panic!("the log is lost: {} {}", state.changes, state.story));
            assert!(content.starts_with(promised), "after {}: {} {content:?}", state.changes, state.story);
        } else if let Some(content) = content {
            // Named, though not promised: then it is whole.
            assert!(content.starts_with(FIRST), "after {}: {}", state.changes, state.story);
        }
    }
}

#[test]
fn a_new_log_is_there_whole_or_not_at_all() {
    let disk = RecordingFs::new();
    let mut promises = Promises::default();
    let writer = publish(&disk);
    promises.promise(&disk, writer.durable_len());
    let mut seen = [0; 2];
    for state in disk.crash_states(1, BOUND) {
        promises.check(&state);
        seen[usize::from(state.fs.content(path().log()).is_some())] += 1;
        // Whatever is left, a new attempt comes to an end.
        let fs: Arc<dyn FileSystem> = Arc::new(state.fs.clone());
        if state.fs.content(path().log()).is_none() {
            Publisher::new(fs).publish(&path(), &[Piece::Bytes(FIRST)], ME).unwrap();
        }
    }
    assert!(seen[0] > 50 && seen[1] > 50, "{seen:?}");
}

#[test]
fn what_was_synced_survives_and_the_rest_is_a_tail() {
    let disk = RecordingFs::new();
    let mut promises = Promises::default();
    let mut writer = publish(&disk);
    promises.promise(&disk, writer.durable_len());
    for seq in 1..6 {
        writer.append(format!("{{\"seq\":{seq}}}\n").as_bytes()).unwrap();
        writer.append(format!("{{\"seq\":{seq},\"more\":true}}\n").as_bytes()).unwrap();
        if seq % 2 == 0 {
            let durable = writer.sync(|_| std::io::empty()).unwrap();
            promises.promise(&disk, durable);
        }
    }
    let mut states = 0;
    for state in disk.crash_states(2, BOUND) {
        promises.check(&state);
        recover(&state);
        states += 1;
    }
    assert!(states > 1000, "{states}");
}

/// Mounts a state, cuts the log to its good lines, appends, syncs, and loses power again.
fn recover(state: &CrashState) {
    let log = path().log();
    let Some(content) = state.fs.content(&log) else { return };
    let good = good_prefix(&content);
    let fs: Arc<dyn FileSystem> = Arc::new(state.fs.clone());
    let lock = Lock::try_acquire(&fs, &log, ME).unwrap();
    let mut writer = LogWriter::new(lock, content.len() as u64, 0);
    if good < content.len() {
        writer.cut(good as u64).unwrap();
        writer.sync(|_| std::io::empty()).unwrap();
    }
    let new = b"{\"seq\":99}\n";
    writer.append(new).unwrap();
    writer.sync(|_| std::io::empty()).unwrap();
    assert_eq!(state.fs.content(&log).unwrap(), [&content[..good], new].concat());
    let changes = state.fs.changes();
    for again in state.fs.crash_states(3, 40) {
        let left = again.fs.content(&log).unwrap();
        assert!(left.starts_with(&content[..good]), "{}", again.story);
        if again.changes == changes {
            assert!(left.ends_with(new), "{}", again.story);
        }
    }
}

/// The lines that look like records, as a reader would find them.
fn good_prefix(content: &[u8]) -> usize {
    let mut good = 0;
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        if serde_json::from_slice::<serde_json::Value>(line).is_err() || !line.ends_with(b"\n") {
            break;
        }
        good += line.len();
    }
    good
}

#[test]
fn a_failed_sync_is_made_up_for_by_writing_again_and_not_by_syncing_again() {
    let disk = RecordingFs::new();
    let mut promises = Promises::default();
    let mut writer = publish(&disk);
    let start = FIRST.len() as u64;
    promises.promise(&disk, start);
    writer.append(b"{\"seq\":1}\n").unwrap();
    disk.fail_syncs(1);
    writer.sync(|_| std::io::empty()).unwrap_err();
    writer.append(b"{\"seq\":2}\n").unwrap();
    let durable = writer.sync(|_| Cursor::new(b"{\"seq\":1}\n{\"seq\":2}\n")).unwrap();
    promises.promise(&disk, durable);
    assert_eq!(durable, start + 20);
    for state in disk.crash_states(4, BOUND) {
        promises.check(&state);
    }

    // The double can tell the difference: a second sync alone leaves the tail to chance.
    let disk = RecordingFs::new();
    let file = disk.create_new(Path::new("x")).unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    file.append(b"tail").unwrap();
    disk.fail_syncs(1);
    file.sync_data().unwrap_err();
    file.sync_data().unwrap();
    let now = disk.changes();
    let lost = disk.crash_states(5, BOUND).filter(|state| state.changes == now);
    assert!(lost.map(|state| state.fs.content("x").unwrap()).any(|content| content != b"tail"));
}

#[test]
fn the_double_loses_what_was_not_synced() {
    let disk = RecordingFs::new();
    disk.create_dir(Path::new("d")).unwrap();
    let file = disk.create_new(Path::new("d/f")).unwrap();
    file.append(b"abcdef").unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("d")).unwrap();
    let now = disk.changes();
    let last = |states: Vec<CrashState>| -> Vec<_> {
        states.into_iter().filter(|state| state.changes == now).map(|state| state.fs.content("d/f")).collect()
    };
    let found = last(disk.crash_states(6, BOUND).collect());
    assert!(found.contains(&None), "the directory's own name was not synced");
    assert!(found.contains(&Some(b"abcdef".to_vec())));
    assert_eq!(found.len(), 2);

    // Torn, with holes, lost, kept; and a rename that happens as a whole.
    let disk = RecordingFs::new();
    let file = disk.create_new(Path::new("a")).unwrap();
    disk.sync_dir(Path::new("")).unwrap();
    file.append(b"abcdef").unwrap();
    disk.rename(Path::new("a"), Path::new("b")).unwrap();
    let now = disk.changes();
    let mut contents = std::collections::BTreeSet::new();
    for state in disk.crash_states(7, BOUND).filter(|state| state.changes == now) {
        let (a, b) = (state.fs.content("a"), state.fs.content("b"));
        assert!(a.is_some() != b.is_some());
        contents.insert(a.or(b).unwrap());
    }
    for expected in
        [b"".as_slice(), b"a", b"abc", b"abcde", b"abcdef", b"\0\0\0\0\0\0", b"\0\0\0def", b"abc\0\0\0"]
    {
        assert!(contents.contains(expected), "{expected:?}");
    }
}
