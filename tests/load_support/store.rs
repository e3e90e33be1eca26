//! A store in a temporary directory.

use std::path::Path;
use std::sync::Arc;

use sessiond::disk::catalog::find::{FindError, Later, find};
use sessiond::disk::catalog::list::Status;
use sessiond::disk::catalog::records::{Catalogue, Listed};
use sessiond::disk::catalog::summary::{Facts, tail_of, write_summary};
use sessiond::disk::fs::FileSystem;
use sessiond::disk::fs::os::OsFs;
use sessiond::disk::live::lock::Holder;
use sessiond::disk::maintenance::delete::{DeleteError, delete};
use sessiond::disk::paths::{Encoding, LogPath};
use sessiond::log::SessionId;

pub const ME: Holder = Holder { pid: 1, since_ms: 2 };

pub fn header(id: &str, cwd: Option<&str>) -> String {
    let cwd = cwd.map_or(String::new(), |cwd| format!(",\"cwd\":\"{cwd}\""));
    format!(
        "{{\"type\":\"session\",\"version\":0,\"id\":\"{id}\",\"createdAt\":5{cwd},\"delegationDepth\":0}}\n"
    )
}

pub fn rows() -> String {
    let rows = [
        r#"{"type":"turn/start","seq":0,"time":1000,"data":{"turn":1}}"#,
        r#"{"type":"session/title","seq":1,"time":3000,"data":{"title":"first","messageSeqs":[],"source":{"kind":"user"}}}"#,
        r#"{"type":"turn/end","seq":2,"time":2000,"data":{"turn":1,"reason":{"kind":"completed"}}}"#,
        r#"{"type":"session/title","seq":3,"time":4000,"data":{"title":"planb","messageSeqs":[],"source":{"kind":"user"}}}"#,
    ];
    rows.iter().map(|row| format!("{row}\n")).collect()
}

pub struct Store {
    pub dir: tempfile::TempDir,
    pub fs: Arc<dyn FileSystem>,
}

impl Store {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fs: Arc<dyn FileSystem> = Arc::new(OsFs::new(dir.path()));
        Self { dir, fs }
    }

    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn session(&self, id: &str, cwd: &str) -> LogPath {
        let path = LogPath::new(Some(cwd), id, Encoding::Plain).unwrap();
        self.put(path.log().to_str().unwrap(), header(id, Some(cwd)) + &rows());
        path
    }

    /// Leaves a summary beside a log, as for its first `size` bytes.
    pub fn summarise(&self, path: &LogPath, line: &str, size: u64, facts: &Facts) {
        let log = std::fs::read(self.dir.path().join(path.log())).unwrap();
        write_summary(self.fs.as_ref(), path, line, size, tail_of(&&log[..], size).unwrap(), facts).unwrap();
    }

    pub fn list(&self) -> Vec<Listed> {
        Catalogue::default().list(self.fs.as_ref()).unwrap().sessions
    }

    /// Id, status and class of everything that is listed.
    pub fn shown(&self) -> Vec<(String, Status, &'static str)> {
        let shown = self.list().into_iter();
        shown.map(|listed| (listed.artifact.id, listed.artifact.status, listed.artifact.class)).collect()
    }

    pub fn find(&self, id: &str) -> Result<Option<LogPath>, &'static str> {
        find(self.fs.as_ref(), &SessionId::new(id).unwrap()).map_err(|error| match error {
            FindError::Odd(odd) => odd.class(),
            FindError::Later(_) => Later::CLASS,
            FindError::Io(unsearched) => panic!("{unsearched:?}"),
        })
    }

    pub fn delete(&self, id: &str) -> Result<bool, DeleteError> {
        delete(&self.fs, &SessionId::new(id).unwrap(), ME)
    }

    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        collect(self.dir.path(), self.dir.path(), &mut files);
        files.sort();
        files
    }
}

fn collect(root: &Path, dir: &Path, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        files.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        if path.is_dir() && !path.is_symlink() {
            collect(root, &path, files);
        }
    }
}
