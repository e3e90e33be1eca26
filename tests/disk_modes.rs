//! Owner-only modes whatever the umask. Alone in its binary, because the umask belongs to the whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::Mode;
use sessiond::disk::fs::FileSystem;
use sessiond::disk::fs::os::OsFs;
use sessiond::disk::live::lock::Holder;
use sessiond::disk::live::publish::{Piece, Publisher};
use sessiond::disk::paths::{Encoding, LogPath};

#[test]
fn directories_are_0700_and_files_0600() {
    for umask in [0o000, 0o022, 0o077, 0o277, 0o777] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("above/root");
        let fs: Arc<dyn FileSystem> = Arc::new(OsFs::new(&root));
        let path = LogPath::new(Some("/srv/x"), "id", Encoding::Plain).unwrap();
        let before = rustix::process::umask(Mode::from_raw_mode(umask));
        let writer = Publisher::new(Arc::clone(&fs)).publish(
            &path,
            &[Piece::Bytes(b"{}\n")],
            Holder { pid: 1, since_ms: 2 },
        );
        rustix::process::umask(before);
        let writer = writer.unwrap();
        let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
        let dirs = [root.parent().unwrap().to_path_buf(), root.clone(), root.join(path.project_dir())];
        for dir in dirs.iter().chain([&root.join(path.session_dir())]) {
            assert_eq!(mode(dir), 0o700, "umask {umask:o}, {}", dir.display());
        }
        for entry in std::fs::read_dir(root.join(path.session_dir())).unwrap() {
            let file = entry.unwrap().path();
            assert_eq!(mode(&file), 0o600, "umask {umask:o}, {}", file.display());
        }
        assert_eq!(writer.file().metadata().unwrap().mode, 0o600);
    }
}
