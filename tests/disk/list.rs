//! Does a list show every session, with what is wrong with it, and does one odd artifact hide no other (PROTOCOL 9.4)?

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use sessiond::disk::catalog::find::{FindError, find};
use sessiond::disk::catalog::list::{Status, walk};
use sessiond::disk::catalog::records::{Catalogue, Listed};
use sessiond::disk::catalog::summary::Facts;
use sessiond::disk::fs::fault::{Effect, FaultFs, Op};
use sessiond::disk::fs::os::OsFs;
use sessiond::disk::fs::{FileSystem, errno_name};
use sessiond::disk::live::lock::{Holder, Lock, LockError};
use sessiond::disk::maintenance::delete::{DeleteError, delete};
use sessiond::disk::maintenance::salvage::save_cut;
use sessiond::disk::paths::{Encoding, LogPath, segment_units, session_segment_units};
use sessiond::disk::read::zstd::FrameEncoder;
use sessiond::log::{Offset, SessionId, header_line, parse_header_line};

use crate::load_support::store::{ME, Store, header, rows};
use crate::support;

#[test]
fn a_list_shows_facts_without_the_files_times() {
    let store = Store::new();
    assert!(store.shown().is_empty());
    store.session("s1", "/a/b");
    let zstd = LogPath::new(None, "s2", Encoding::Zstd).unwrap();
    let mut encoder = FrameEncoder::new(3).unwrap();
    let frames = [header("s2", None), rows()].map(|text| encoder.encode(text.as_bytes()).unwrap());
    store.put(zstd.log().to_str().unwrap(), frames.concat());
    let list = store.list();
    assert_eq!(list.len(), 2);
    for listed in &list {
        assert_eq!((listed.artifact.status, &listed.artifact.reason), (Status::Ok, &None));
        assert_eq!((listed.facts.events.get(), listed.facts.last_time), (4, Some(2000)));
        assert_eq!(listed.facts.title.as_deref(), Some("planb"));
    }
    assert_eq!(list[0].artifact.header.as_ref().unwrap().cwd.as_deref(), Some("/a/b"));
    assert_eq!((list[0].artifact.id.as_str(), list[1].artifact.id.as_str()), ("s1", "s2"));
}

/// What stands in a frame whose checksum fails is shown of no log, as it is read of none.
#[test]
fn a_damaged_frame_tells_a_list_nothing() {
    let store = Store::new();
    let zstd = LogPath::new(None, "s", Encoding::Zstd).unwrap();
    let mut encoder = FrameEncoder::new(3).unwrap();
    let more = [
        r#"{"type":"turn/start","seq":4,"time":9000,"data":{"turn":2}}"#,
        r#"{"type":"x/foreign","seq":5,"time":9001,"data":{"long":"much longer than any other one of this log, by its text"}}"#,
        r#"{"type":"session/title","seq":6,"time":9002,"data":{"title":"never","source":{"kind":"user"}}}"#,
    ];
    // Long enough that its first lines are read before its end is seen.
    let notes = (7..9_000)
        .map(|seq| format!(r#"{{"type":"x/note","seq":{seq},"time":9003,"data":{{}},"ignorable":true}}"#));
    let more: String = more.map(str::to_owned).into_iter().chain(notes).map(|row| row + "\n").collect();
    let mut frames = [header("s", None), rows(), more].map(|text| encoder.encode(text.as_bytes()).unwrap());
    let facts = |frames: &[Vec<u8>]| {
        store.put(zstd.log().to_str().unwrap(), frames.concat());
        let [listed] = &*store.list() else { panic!("one session") };
        (listed.artifact.status, listed.facts.clone())
    };
    let (_, sound) = facts(&frames[..2]);
    let (_, whole) = facts(&frames);
    assert_eq!((whole.events.get(), whole.title.as_deref()), (9_000, Some("never")));
    *frames[2].last_mut().unwrap() ^= 1;
    assert_eq!(facts(&frames), (Status::Corrupt, sound));
}

#[test]
fn a_session_that_goes_while_a_list_is_made_is_not_in_it() {
    let store = Store::new();
    for id in ["s1", "s2", "s3"] {
        store.session(id, "/p");
    }
    let fs = FaultFs::new(Arc::clone(&store.fs));
    Catalogue::default().list(&fs).unwrap();
    let opened = fs.take_done().iter().filter(|op| **op == Op::Open).count() as u64;
    let mut gone = 0;
    for at in 0..opened {
        fs.fail(Some(Op::Open), at, Effect::Errno("ENOENT"));
        let sessions = Catalogue::default().list(&fs).unwrap().sessions;
        assert!(sessions.iter().all(|listed| listed.artifact.status == Status::Ok), "{sessions:?}");
        gone += 3 - sessions.len();
    }
    // Each log is opened for its header, and again for what it holds.
    assert_eq!(gone, 6);
}

#[test]
fn odd_artifacts_are_listed_and_hide_no_other() {
    let store = Store::new();
    store.session("good", "/p");
    store.session("dup", "/p");
    store.session("dup", "/q");
    let both = store.session("both", "/p");
    store.put(both.session_dir().join("session.jsonl.zstd").to_str().unwrap(), "");
    store.put("--p--/old.jsonl", "x");
    store.put("--p--/~002E.jsonl.zstd", "x");
    store.put("--p--/moved/session.jsonl", header("good", Some("/p")));
    store.put("--p--/elsewhere/session.jsonl", header("elsewhere", Some("/r")));
    store.put("--p--/no name!/session.jsonl", header("n", Some("/p")));
    store.put("--p--/empty/session.jsonl", "");
    store.put("--p--/headless/session.jsonl", "{\"type\":\"session\"");
    store.put("--p--/damaged/session.jsonl", header("damaged", Some("/p")) + "garbage\n" + &rows());
    store.put("--p--/newer/session.jsonl", "{\"version\":3,\"id\":\"newer\"}\n");
    store.put("--p--/older/session.jsonl", "{\"version\":-1}\n");
    store.put("--p--/bom/session.jsonl", [b"\xEF\xBB\xBF", header("bom", Some("/p")).as_bytes()].concat());
    store.put("--p--/~D83D/session.jsonl", header("\\ud83d", Some("/p")) + &rows());
    store.put("--p--/temp-only/session.jsonl.0123456789ab.tmp", "x");
    store.put("--p--/stray/notes.txt", "x");
    store.put("stray.txt", "x");
    std::fs::create_dir(store.dir.path().join("--p--/nothing")).unwrap();
    std::fs::create_dir_all(store.dir.path().join("--p--/dir/session.jsonl")).unwrap();
    symlink(store.dir.path().join("--p--/good"), store.dir.path().join("--p--/link")).unwrap();
    symlink(store.dir.path(), store.dir.path().join("root-link")).unwrap();
    let before = store.files();
    let (ok, bad, foreign) = (Status::Ok, Status::Corrupt, Status::Unsupported);
    let expected = [
        ("bom", bad, "LOG_HEADER_NOT_JSON"),
        ("both", bad, "LOG_ENCODING_MISMATCH"),
        ("damaged", bad, "LOG_UNPARSABLE_COMMITTED"),
        ("dir", bad, "LOG_NOT_A_FILE"),
        ("dup", bad, "LOG_DUPLICATE_ID"),
        ("elsewhere", bad, "LOG_PATH_MISMATCH"),
        ("empty", bad, "LOG_NO_HEADER"),
        ("good", ok, ""),
        ("headless", bad, "LOG_NO_HEADER"),
        ("link", bad, "LOG_NOT_A_FILE"),
        ("moved", bad, "LOG_ID_MISMATCH"),
        ("newer", foreign, "VERSION_NEWER"),
        ("n", bad, "LOG_ID_MISMATCH"),
        ("old", bad, "LOG_FLAT_LAYOUT"),
        ("older", foreign, "VERSION_OLDER"),
        (".", bad, "LOG_FLAT_LAYOUT"),
        ("\u{FFFD}", foreign, "HEADER_ID_UNSUPPORTED"),
        ("dup", bad, "LOG_DUPLICATE_ID"),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(id, status, class)| ((*id).to_owned(), *status, *class)).collect();
    assert_eq!(store.shown(), expected);
    for listed in store.list() {
        let reason = listed.artifact.reason.unwrap_or_default();
        assert_eq!(reason.is_empty(), listed.artifact.status == ok);
        assert!(!reason.contains(store.dir.path().to_str().unwrap()), "{reason}");
    }
    let walked = walk(store.fs.as_ref()).unwrap();
    assert!(walked.skipped.iter().all(|skipped| !skipped.may_hold) && walked.skipped.len() == 1);
    assert_eq!(walked.artifacts.iter().find(|a| a.id == "newer").unwrap().direction, Some("newer"));
    assert_eq!(store.files(), before);

    assert_eq!(store.find("good").unwrap().unwrap().log(), Path::new("--p--/good/session.jsonl"));
    assert_eq!(store.find("absent"), Ok(None));
    assert_eq!(store.find("nothing"), Ok(None));
    assert_eq!(store.find("dup"), Err("LOG_DUPLICATE_ID"));
    assert_eq!(store.find("both"), Err("LOG_ENCODING_MISMATCH"));
    assert_eq!(store.find("old"), Err("LOG_FLAT_LAYOUT"));
    assert_eq!(store.find("link"), Err("LOG_NOT_A_FILE"));
    assert_eq!(store.find("dir"), Err("LOG_NOT_A_FILE"));
}

#[test]
#[ignore = "needs ../shared/corpus"]
fn every_artifact_root_lists_what_the_reference_lists() {
    let root = support::needed("corpus/artifacts");
    let (mut listed_ok, mut odd) = (0, BTreeMap::new());
    for entry in std::fs::read_dir(root).unwrap() {
        let dir = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(dir.join("expect.json")) else { continue };
        let expect: Value = serde_json::from_str(&text).unwrap();
        let list = Catalogue::default().list(&OsFs::new(dir.join("root"))).unwrap().sessions;
        let with_logs = expect["files"].as_object().unwrap().keys().filter(|path| {
            let name = path.rsplit('/').next().unwrap();
            path.contains('/') && (name.ends_with(".jsonl") || name.ends_with(".jsonl.zstd"))
        });
        // None is hidden: there are as many as logs, whatever state they are in.
        assert_eq!(list.len(), with_logs.count(), "{}", dir.display());
        for header in support::texts(&expect["list"]["okJsonl"]) {
            let same = |listed: &&Listed| {
                let mine = listed.artifact.header.as_ref();
                mine.is_some_and(|mine| support::same_json(&mine.logical_json(), header))
            };
            match list.iter().find(same) {
                Some(_) => listed_ok += 1,
                // An older version, or an id that is none here (PROTOCOL 9.5): listed, as unsupported.
                None => assert!(
                    list.iter().any(|listed| listed.artifact.status == Status::Unsupported),
                    "{header}"
                ),
            }
        }
        if let Some(class) = expect["list"]["err"]["class"].as_str() {
            match class {
                // The encoding is decided per session, so nothing is odd there (PROTOCOL 9.4).
                "LOG_ENCODING_MISMATCH" => {
                    assert!(list.iter().all(|listed| listed.artifact.status == Status::Ok))
                }
                // The header's id is what does not fit; a load there says so too.
                "LOG_PATH_MISMATCH" => {
                    assert!(list.iter().any(|listed| listed.artifact.class == "LOG_ID_MISMATCH"))
                }
                _ => assert!(list.iter().any(|listed| listed.artifact.class == class), "{class}"),
            }
            *odd.entry(class.to_owned()).or_insert(0) += 1;
        }
    }
    eprintln!("{listed_ok} sessions as in the reference; refused there, listed here: {odd:?}");
    assert!(listed_ok > 50 && odd.len() == 5);
}

#[test]
fn a_summary_saves_the_reading_and_never_misleads() {
    let store = Store::new();
    let path = store.session("s", "/p");
    let size = std::fs::metadata(store.dir.path().join(path.log())).unwrap().len();
    let line = header("s", Some("/p")).trim_end().to_owned();
    let told = Facts { events: Offset::new(9).unwrap(), title: Some("told".to_owned()), ..Facts::default() };
    store.summarise(&path, &line, size, &told);
    assert_eq!(store.list()[0].facts, told);
    // Another size, another header, or damage: the log is read.
    store.summarise(&path, &line, size - 1, &told);
    assert_eq!(store.list()[0].facts.events.get(), 4);
    store.summarise(&path, &line.replace("\"s\"", "\"t\""), size, &told);
    assert_eq!(store.list()[0].facts.events.get(), 4);
    let summary = "--p--/s/session.summary.json";
    store.put(summary, "{\"size\":");
    assert_eq!(store.list()[0].facts.events.get(), 4);
    // A summary that was changed, and a log that was changed in place under a sound one.
    store.summarise(&path, &line, size, &told);
    let sound = std::fs::read_to_string(store.dir.path().join(summary)).unwrap();
    for (was, is) in [("\"events\":9", "\"events\":0"), ("told", "tald"), ("\"version\":2,", "")] {
        store.put(summary, sound.replacen(was, is, 1));
        assert_eq!(store.list()[0].facts.events.get(), 4, "{was}");
    }
    store.put(summary, &sound);
    assert_eq!(store.list()[0].facts, told);
    store.put(path.log().to_str().unwrap(), header("s", Some("/p")) + &rows().replace("planb", "planc"));
    assert_eq!(store.list()[0].facts.title.as_deref(), Some("planc"));
    // Its log holds more than a header line, so a summary that knows no event is none.
    store.summarise(&path, &line, size, &Facts::default());
    assert_eq!(store.list()[0].facts.events.get(), 4);
    assert_eq!(store.files().len(), 4, "{:?}", store.files());
    // The header that the daemon writes is the line that is compared.
    let (parsed, inherited) = parse_header_line(&line).unwrap();
    assert_eq!(header_line(&parsed, inherited), line);
}

#[test]
fn a_log_is_read_once_until_it_changes() {
    let store = Store::new();
    let path = store.session("s", "/p");
    let file = store.dir.path().join(path.log());
    let mut catalogue = Catalogue::default();
    let list = |catalogue: &mut Catalogue| catalogue.list(store.fs.as_ref()).unwrap().sessions.remove(0);
    assert_eq!(list(&mut catalogue).facts.events.get(), 4);
    // Content changed behind the file's times, which is what a catalogue goes by.
    let times = std::fs::metadata(&file).unwrap();
    let changed = std::fs::read_to_string(&file).unwrap().replace("planb", "planc");
    std::fs::write(&file, changed).unwrap();
    let opened = std::fs::File::options().append(true).open(&file).unwrap();
    opened.set_modified(times.modified().unwrap()).unwrap();
    assert_eq!(list(&mut catalogue).facts.title.as_deref(), Some("planc"), "the change time tells it");
    assert_eq!(list(&mut catalogue).facts.title.as_deref(), Some("planc"));
}

#[test]
fn deletion_takes_its_own_files_and_nothing_else() {
    let store = Store::new();
    let path = store.session("s", "/p");
    store.session("other", "/p");
    let dir = path.session_dir();
    let fs = store.fs.as_ref();
    store.summarise(&path, "{}", 1, &Facts::default());
    let log = fs.open_read(&path.log()).unwrap();
    let first = save_cut(&store.fs, &path.log(), log.as_ref(), 100, 120).unwrap();
    assert_eq!(first, dir.join("session.jsonl.cut-100"));
    assert_eq!(
        save_cut(&store.fs, &path.log(), log.as_ref(), 100, 110).unwrap(),
        dir.join("session.jsonl.cut-100.1")
    );
    let whole = std::fs::read(store.dir.path().join(path.log())).unwrap();
    assert_eq!(std::fs::read(store.dir.path().join(&first)).unwrap(), whole[100..120]);
    store.put(dir.join("session.jsonl.0123456789ab.tmp").to_str().unwrap(), "x");
    store.put(dir.join("session.owner").to_str().unwrap(), "x");
    assert!(store.delete("s").unwrap());
    assert!(!store.delete("s").unwrap());
    assert_eq!(store.files(), ["--p--", "--p--/other", "--p--/other/session.jsonl"]);
    // What is not ours stays, and its directory with it.
    store.put("--p--/other/notes.json", "{}");
    assert!(store.delete("other").unwrap());
    assert_eq!(store.files(), ["--p--", "--p--/other", "--p--/other/notes.json"]);
    assert!(store.shown().is_empty());
}

#[test]
fn damaged_sessions_can_be_deleted_and_doubled_and_locked_ones_cannot() {
    let store = Store::new();
    store.put("--p--/empty/session.jsonl", "");
    store.put("--p--/headless/session.jsonl", "garbage");
    store.session("dup", "/p");
    store.session("dup", "/q");
    let both = store.session("both", "/p");
    store.put(both.session_dir().join("session.jsonl.zstd").to_str().unwrap(), "x");
    for id in ["empty", "headless", "both"] {
        assert!(store.delete(id).unwrap(), "{id}");
    }
    let refused = store.delete("dup").unwrap_err().to_string();
    assert!(refused.contains("in --p--/dup/session.jsonl and --q--/dup/session.jsonl"), "{refused}");
    let log = |project: &str| {
        [project.to_owned(), format!("{project}/dup"), format!("{project}/dup/session.jsonl")]
    };
    assert_eq!(store.files(), [log("--p--"), log("--q--")].concat());
    let path = store.session("held", "/p");
    let lock = Lock::try_acquire(&store.fs, &path.log(), Holder { pid: 7, since_ms: 8 }).unwrap();
    let error = store.delete("held").unwrap_err();
    assert!(matches!(error, DeleteError::Lock(LockError::Held { holder: Some(Holder { pid: 7, .. }) })));
    assert!(store.find("held").unwrap().is_some());
    drop(lock);
    assert!(store.delete("held").unwrap());
    // A link is removed itself, never what it leads to.
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("session.jsonl"), "precious").unwrap();
    std::fs::create_dir(store.dir.path().join("--p--/linked")).unwrap();
    symlink(outside.path().join("session.jsonl"), store.dir.path().join("--p--/linked/session.jsonl"))
        .unwrap();
    symlink(outside.path(), store.dir.path().join("--p--/far")).unwrap();
    assert!(store.delete("linked").unwrap());
    assert!(store.delete("far").is_err());
    assert_eq!(std::fs::read_to_string(outside.path().join("session.jsonl")).unwrap(), "precious");
}

#[test]
fn a_place_says_its_id_and_only_one() {
    for id in [
        vec![0x61],
        vec![0x2E],
        vec![0x2E, 0x2E],
        vec![0xD83D],
        vec![0, 0x7E, 0x2F, 0xD83D, 0xDE00],
        vec![0x2E; 3],
    ] {
        let segment = session_segment_units(id.iter().copied()).unwrap();
        assert_eq!(segment_units(&segment), Some(id));
    }
    for name in ["", ".", "..", "a b", "~0041", "~00e9", "~00", "~", "é", "~+041", "~002E~002E~002E"] {
        assert_eq!(segment_units(name), None, "{name}");
    }
}

#[test]
fn what_cannot_be_read_is_said_and_hides_no_other() {
    use std::os::unix::fs::PermissionsExt;
    let store = Store::new();
    let path = store.session("secret", "/p");
    store.session("open", "/p");
    let file = store.dir.path().join(path.log());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o0)).unwrap();
    if std::fs::read(&file).is_ok() {
        eprintln!("running as root: permissions do not bind, skipped");
        return;
    }
    let list = store.list();
    assert_eq!(list.len(), 2);
    assert_eq!((list[0].artifact.status, list[1].artifact.status), (Status::Ok, Status::Corrupt));
    assert!(list[1].artifact.reason.as_ref().unwrap().contains("cannot be opened"));
}

#[test]
fn a_project_directory_that_cannot_be_read_hides_no_session_elsewhere() {
    let store = Store::new();
    store.session("other", "/a");
    let path = store.session("sought", "/p");
    let fs = Arc::new(FaultFs::new(Arc::clone(&store.fs)));
    // The first place to be looked into, behind the root, is in the first project directory.
    let close_first = || fs.fail(Some(Op::ListDir), 1, Effect::Errno("EACCES"));
    let id = |id: &str| SessionId::new(id).unwrap();
    close_first();
    assert_eq!(find(fs.as_ref(), &id("sought")).unwrap(), Some(path));
    // Nowhere else: it may be there.
    for unseen in ["absent", "other"] {
        close_first();
        match find(fs.as_ref(), &id(unseen)) {
            Err(FindError::Io(found)) => assert_eq!(found.error.kind(), std::io::ErrorKind::PermissionDenied),
            found => panic!("{unseen}: {found:?}"),
        }
    }
    let closed: Arc<dyn FileSystem> = fs.clone();
    close_first();
    assert!(matches!(delete(&closed, &id("other"), ME), Err(DeleteError::Io(_))));
    close_first();
    assert!(delete(&closed, &id("sought"), ME).unwrap());
    fs.clear();
    assert_eq!(store.list().len(), 1);
}

/// A log of a later generation is nobody's garbage: it is listed, found, and goes with its session only.
#[test]
fn logs_of_later_generations_are_seen() {
    let store = Store::new();
    store.put("--p--/new/session.v3.jsonl", "{}\n");
    store.put("--p--/packed/session.v12.jsonl.zstd", "x");
    let both = store.session("both", "/p");
    store.put("--p--/both/session.v1.jsonl", "{}\n");
    store.put("--p--/both/session.v4.jsonl", "{}\n");
    for name in
        ["session.v0.jsonl", "session.v03.jsonl", "session.v.jsonl", "session.v3.json", "session.v3x.jsonl"]
    {
        store.put(&format!("--p--/none/{name}"), "{}\n");
    }
    let shown = store.shown();
    let expected = [
        ("both", Status::Superseded, ""),
        ("new", Status::Unsupported, "VERSION_NEWER"),
        ("packed", Status::Unsupported, "VERSION_NEWER"),
    ];
    assert_eq!(shown, expected.map(|(id, status, class)| (id.to_owned(), status, class)));
    let reasons: Vec<_> = store.list().into_iter().map(|listed| listed.artifact.reason.unwrap()).collect();
    for (reason, named) in reasons.iter().zip(["session.v4.jsonl", "generation 3 ", "generation 12 "]) {
        assert!(reason.contains(named), "{reason}");
    }
    assert_eq!(store.list()[0].facts.events.get(), 4, "what can be read is shown");
    assert_eq!(store.find("both"), Ok(Some(both)));
    assert_eq!(store.find("new"), Err("VERSION_NEWER"));
    assert_eq!(store.find("none"), Ok(None));
    // Whoever writes a later generation holds this lock.
    store.put("--p--/both/session.lock", "");
    let lock = store.fs.open_append(Path::new("--p--/both/session.lock")).unwrap();
    assert!(lock.try_lock().unwrap());
    assert!(matches!(store.delete("both"), Err(DeleteError::Lock(LockError::Held { .. }))));
    assert_eq!(store.find("both").map(|found| found.is_some()), Ok(true));
    lock.unlock().unwrap();
    for id in ["both", "new"] {
        assert!(store.delete(id).unwrap());
    }
    assert!(store.files().iter().all(|file| !file.contains("both") && !file.contains("new")));
    assert_eq!(store.shown().len(), 1);
}

/// A copy of a project directory hides and replaces nothing.
#[test]
fn of_copies_the_one_at_its_place_is_the_session() {
    let store = Store::new();
    let [one, two] = ["one", "two"].map(|id| store.session(id, "/p"));
    for project in ["--p-- 2", "--a-copy--", "--q--"] {
        for path in [&one, &two] {
            let copy = Path::new(project).join(path.log().strip_prefix("--p--").unwrap());
            store.put(copy.to_str().unwrap(), std::fs::read(store.dir.path().join(path.log())).unwrap());
        }
    }
    store.put("--q--/one/session.jsonl", "not a header");
    assert_eq!((store.find("one"), store.find("two")), (Ok(Some(one.clone())), Ok(Some(two.clone()))));
    let list = store.list();
    assert_eq!(list.len(), 8);
    for Listed { artifact, .. } in &list {
        let is_right = artifact.path.starts_with("--p--");
        assert_eq!((artifact.status == Status::Ok, artifact.is_found_by_id), (is_right, is_right));
        let says = |text: &str| artifact.reason.as_ref().is_some_and(|reason| reason.contains(text));
        assert!(is_right || artifact.header.is_none() || says("is a copy of the session in --p--/"));
    }
    // A deletion takes the session and leaves the copies.
    assert!(store.delete("one").unwrap());
    assert_eq!(store.list().len(), 7);
    // Without it, the copies are several and none is the session.
    assert_eq!(store.find("one"), Err("LOG_DUPLICATE_ID"));
    let before = store.files();
    let refused = store.delete("one").unwrap_err().to_string();
    for project in ["--p-- 2", "--a-copy--", "--q--"] {
        assert!(refused.contains(&format!("{project}/one/session.jsonl")), "{refused}");
    }
    // Two that are both where their headers belong.
    store.session("two", "/r");
    assert_eq!(store.find("two"), Err("LOG_DUPLICATE_ID"));
    assert!(matches!(store.delete("two"), Err(DeleteError::Several(_))));
    let now = store.files().into_iter().filter(|file| !file.starts_with("--r--"));
    assert_eq!(now.collect::<Vec<_>>(), before);
}

/// What lies behind a link in the place of a project directory is not known, so none of it is declared absent.
#[test]
fn a_linked_project_directory_hides_no_session() {
    let store = Store::new();
    let path = store.session("there", "/p");
    store.session("here", "/q");
    let (dir, away) = (store.dir.path().join("--p--"), tempfile::tempdir().unwrap());
    std::fs::rename(&dir, away.path().join("moved")).unwrap();
    symlink(away.path().join("moved"), &dir).unwrap();
    symlink(away.path(), store.dir.path().join("latest")).unwrap();
    let sought = |id: &str| find(store.fs.as_ref(), &SessionId::new(id).unwrap());
    for id in ["there", "nowhere"] {
        let Err(FindError::Io(unseen)) = sought(id) else { panic!("{id} is not there") };
        assert_eq!((unseen.path.as_path(), errno_name(&unseen.error)), (path.project_dir(), Some("ELOOP")));
        assert!(matches!(store.delete(id), Err(DeleteError::Io(_))));
    }
    assert!(sought("here").unwrap().is_some());
    let walked = walk(store.fs.as_ref()).unwrap();
    let may_hold: Vec<_> = walked.skipped.iter().map(|skipped| skipped.may_hold).collect();
    assert_eq!((walked.artifacts.len(), may_hold), (1, vec![true, false]));
    // Another link stands for no project.
    std::fs::remove_file(&dir).unwrap();
    assert!(sought("there").unwrap().is_none());
    assert_eq!(walk(store.fs.as_ref()).unwrap().skipped.len(), 1);
}

/// `cargo test --release --test disk -- --ignored --nocapture ten_thousand`
#[test]
#[ignore = "a measurement"]
fn ten_thousand_sessions() {
    let store = Store::new();
    for at in 0..10_000 {
        let path = store.session(&format!("session-{at}"), &format!("/p/{}", at % 50));
        let line = header(&format!("session-{at}"), Some(&format!("/p/{}", at % 50)));
        let size = std::fs::metadata(store.dir.path().join(path.log())).unwrap().len();
        let facts = Facts { events: Offset::new(4).unwrap(), ..Facts::default() };
        store.summarise(&path, line.trim_end(), size, &facts);
    }
    let mut catalogue = Catalogue::default();
    for _ in 0..3 {
        let start = std::time::Instant::now();
        assert_eq!(catalogue.list(store.fs.as_ref()).unwrap().sessions.len(), 10_000);
        eprintln!("list with summaries: {:?}", start.elapsed());
    }
    for file in store.files().iter().filter(|file| file.ends_with("summary.json")) {
        std::fs::remove_file(store.dir.path().join(file)).unwrap();
    }
    for _ in 0..2 {
        let start = std::time::Instant::now();
        assert_eq!(catalogue.list(store.fs.as_ref()).unwrap().sessions.len(), 10_000);
        eprintln!("list without, then remembered: {:?}", start.elapsed());
    }
    let start = std::time::Instant::now();
    store.find("session-777").unwrap().unwrap();
    eprintln!("find among 50 projects: {:?}", start.elapsed());
}
