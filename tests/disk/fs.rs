//! The real file system: links are refused wherever they lie, odd files do not hang it, kinds and orders are right.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use sessiond::disk::fs::os::OsFs;
use sessiond::disk::fs::record::RecordingFs;
use sessiond::disk::fs::{File, FileKind, FileSystem, errno_name, read_full};

fn errno<T>(answer: io::Result<T>) -> &'static str {
    answer.err().as_ref().and_then(errno_name).unwrap_or("none")
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut buf = vec![0; 1 << 16];
    let read = read_full(file, 0, &mut buf).unwrap();
    buf.truncate(read);
    buf
}

/// Both ways to resolve a path have to agree.
fn both(test: impl Fn(&OsFs, &Path)) {
    for make in [OsFs::new, OsFs::without_openat2] {
        let dir = tempfile::tempdir().unwrap();
        test(&make(dir.path().to_path_buf()), dir.path());
    }
}

#[test]
fn no_link_below_the_root_is_followed() {
    both(|fs, root| {
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(outside.path().join("s")).unwrap();
        std::fs::write(outside.path().join("s/session.jsonl"), "secret\n").unwrap();
        // The project directory is a link.
        symlink(outside.path(), root.join("p")).unwrap();
        // The session directory is a link, even one that stays inside.
        std::fs::create_dir_all(root.join("q/real")).unwrap();
        std::fs::write(root.join("q/real/session.jsonl"), "mine\n").unwrap();
        symlink("real", root.join("q/s")).unwrap();
        // The log is a link; another one dangles.
        std::fs::create_dir(root.join("q/l")).unwrap();
        symlink("../real/session.jsonl", root.join("q/l/session.jsonl")).unwrap();
        symlink(outside.path().join("new"), root.join("q/l/dangling")).unwrap();

        for log in ["p/s/session.jsonl", "q/s/session.jsonl", "q/l/session.jsonl"].map(Path::new) {
            assert_eq!(errno(fs.open_read(log)), "ELOOP", "{}", log.display());
            assert_eq!(errno(fs.open_append(log)), "ELOOP", "{}", log.display());
        }
        for log in ["p/s/session.jsonl", "q/s/session.jsonl"].map(Path::new) {
            assert_eq!(errno(fs.unlink(log)), "ELOOP");
            assert_eq!(errno(fs.metadata(log)), "ELOOP");
            assert_eq!(errno(fs.create_new(&log.with_file_name("new"))), "ELOOP");
            assert_eq!(errno(fs.create_dir(&log.with_file_name("new"))), "ELOOP");
            assert_eq!(errno(fs.list_dir(log.parent().unwrap())), "ELOOP");
            assert_eq!(errno(fs.sync_dir(log.parent().unwrap())), "ELOOP");
            assert_eq!(errno(fs.hard_link(log, Path::new("q/got"))), "ELOOP");
            assert_eq!(errno(fs.rename(Path::new("q/real/session.jsonl"), log)), "ELOOP");
        }
        assert_eq!(errno(fs.create_new(Path::new("q/l/dangling"))), "EEXIST");
        assert!(!outside.path().join("new").exists());
        // A link can be looked at and removed as what it is.
        assert_eq!(fs.metadata(Path::new("q/l/session.jsonl")).unwrap().kind, FileKind::Symlink);
        fs.unlink(Path::new("q/l/session.jsonl")).unwrap();
        assert_eq!(std::fs::read(root.join("q/real/session.jsonl")).unwrap(), b"mine\n");
    });
}

#[test]
fn a_root_behind_a_link_is_the_users_choice() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("real")).unwrap();
    symlink("real", dir.path().join("root")).unwrap();
    let fs = OsFs::new(dir.path().join("root"));
    fs.create_new(Path::new("file")).unwrap();
    assert!(dir.path().join("real/file").exists());
}

#[test]
fn spelling_does_not_lead_out() {
    both(|fs, _| {
        for path in ["..", "../x", "a/../../x", "/etc/passwd", "a/./../../x"].map(Path::new) {
            assert_eq!(
                fs.open_read(path).err().unwrap().kind(),
                io::ErrorKind::InvalidInput,
                "{}",
                path.display()
            );
            assert_eq!(fs.create_new(path).err().unwrap().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(fs.unlink(path).err().unwrap().kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(fs.open_read(Path::new("a\0b")).err().unwrap().kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn odd_files_are_refused_without_waiting() {
    both(|fs, root| {
        let made = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
        assert!(made.success());
        std::fs::create_dir(root.join("dir")).unwrap();
        assert_eq!(errno(fs.open_read(Path::new("pipe"))), "EINVAL");
        assert_eq!(errno(fs.open_append(Path::new("pipe"))), "EINVAL");
        assert_eq!(errno(fs.open_read(Path::new("dir"))), "EINVAL");
        assert_eq!(errno(fs.open_append(Path::new("dir"))), "EISDIR");
        assert_eq!(errno(fs.open_read(Path::new("none"))), "ENOENT");
        assert_eq!(errno(fs.list_dir(Path::new("pipe"))), "ENOTDIR");
    });
}

#[test]
fn a_missing_root_reads_as_nothing_and_is_made_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let fs = OsFs::new(dir.path().join("a/b/root"));
    assert_eq!(errno(fs.list_dir(Path::new(""))), "ENOENT");
    assert!(!dir.path().join("a").exists(), "reading makes nothing");
    fs.create_dir(Path::new("")).unwrap();
    fs.sync_dir(Path::new("")).unwrap();
    assert_eq!(fs.list_dir(Path::new("")).unwrap(), []);
    assert_eq!(errno(fs.create_dir(Path::new(""))), "EEXIST");
}

#[test]
fn names_come_in_byte_order_with_their_kind() {
    both(|fs, root| {
        std::fs::create_dir(root.join("b")).unwrap();
        symlink("b", root.join("c")).unwrap();
        for name in [b"a".as_slice(), b"B", b"\xff\xfe", "é".as_bytes()] {
            std::fs::write(root.join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
        }
        let found = fs.list_dir(Path::new("")).unwrap();
        let names: Vec<&[u8]> = found.iter().map(|entry| entry.name.as_bytes()).collect();
        assert_eq!(names, [b"B".as_slice(), b"a", b"b", b"c", "é".as_bytes(), b"\xff\xfe"]);
        let kinds: Vec<FileKind> = found.iter().map(|entry| entry.kind).collect();
        use FileKind::{Dir, File, Symlink};
        assert_eq!(kinds, [File, File, Dir, Symlink, File, File]);
    });
}

/// What both implementations of the seam have to do alike.
fn behaves(fs: &dyn FileSystem) {
    let path = Path::new("p/s/log");
    assert_eq!(errno(fs.create_dir(Path::new("p/s"))), "ENOENT");
    fs.create_dir(Path::new("p")).unwrap();
    fs.create_dir(Path::new("p/s")).unwrap();
    assert_eq!(errno(fs.create_dir(Path::new("p/s"))), "EEXIST");
    let file = fs.create_new(path).unwrap();
    assert_eq!(errno(fs.create_new(path)), "EEXIST");
    assert_eq!(file.append(b"hello ").unwrap(), 6);
    let again = fs.open_append(path).unwrap();
    assert_eq!(again.append(b"world").unwrap(), 5);
    // Appends go to the end, whoever wrote last.
    file.append(b"!").unwrap();
    assert_eq!(content(file.as_ref()), b"hello world!");
    // Overwriting does not append, and appending goes on to do so afterwards.
    assert_eq!(file.write_at(0, b"HELLO").unwrap(), 5);
    file.append(b"?").unwrap();
    assert_eq!(content(file.as_ref()), b"HELLO world!?");
    file.set_len(5).unwrap();
    again.append(b".").unwrap();
    assert_eq!(content(again.as_ref()), b"HELLO.");

    let copy = fs.create_new(Path::new("p/s/copy")).unwrap();
    copy.append(b">").unwrap();
    let mut at = 1;
    while at < 6 {
        let n = copy.copy_from(file.as_ref(), at, 6 - at).unwrap();
        assert!(n > 0);
        at += n;
    }
    assert_eq!(copy.copy_from(file.as_ref(), 6, 10).unwrap(), 0);
    copy.append(b"<").unwrap();
    assert_eq!(content(copy.as_ref()), b">ELLO.<");

    fs.hard_link(path, Path::new("p/link")).unwrap();
    assert_eq!(errno(fs.hard_link(path, Path::new("p/link"))), "EEXIST");
    assert_eq!(file.metadata().unwrap().links, 2);
    assert!(fs.metadata(Path::new("p/link")).unwrap().is_same_file(&file.metadata().unwrap()));
    fs.rename(Path::new("p/s/copy"), Path::new("p/link")).unwrap();
    assert_eq!(content(fs.open_read(Path::new("p/link")).unwrap().as_ref()), b">ELLO.<");
    assert_eq!(errno(fs.remove_dir(Path::new("p/s"))), "ENOTEMPTY");
    fs.unlink(path).unwrap();
    assert_eq!(file.metadata().unwrap().links, 0);
    assert_eq!(content(file.as_ref()), b"HELLO.", "an open file outlives its name");
    fs.remove_dir(Path::new("p/s")).unwrap();
    assert_eq!(errno(fs.unlink(path)), "ENOENT");
    file.sync_data().unwrap();
    fs.sync_dir(Path::new("p")).unwrap();

    let log = Path::new("p/link");
    let (one, two) = (fs.open_append(log).unwrap(), fs.open_read(log).unwrap());
    assert!(one.try_lock().unwrap());
    assert!(one.try_lock().unwrap(), "taking it twice is harmless");
    assert!(!two.try_lock().unwrap());
    drop(one);
    assert!(two.try_lock().unwrap());
    two.unlock().unwrap();
    assert!(two.append(b"x").is_err(), "opened for reading");
    let mut buf = [0; 3];
    assert_eq!(two.read_at(5, &mut buf).unwrap(), 2);
    assert_eq!(two.read_at(500, &mut buf).unwrap(), 0);
}

#[test]
fn the_real_one_and_the_recording_one_behave_alike() {
    both(|fs, _| behaves(fs));
    behaves(&RecordingFs::new());
}

#[test]
fn the_seam_is_object_safe() {
    let dir = tempfile::tempdir().unwrap();
    let all: [Arc<dyn FileSystem>; 2] = [Arc::new(OsFs::new(dir.path())), Arc::new(RecordingFs::new())];
    for fs in all {
        let file: Arc<dyn File> = fs.create_new(Path::new("x")).unwrap();
        file.append(b"x").unwrap();
    }
}
