//! The permissions of a file that the tools rewrite, and of what they keep of it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use ghostlight_tools::{Files, FilesSpec};
use serde_json::json;

use super::{call_as, tool};

#[tokio::test]
async fn what_is_rewritten_keeps_who_reads_it_and_no_rights_of_its_owner() {
    let root = tempfile::tempdir().unwrap();
    let files = Files::open(FilesSpec::writing(root.path())).unwrap();
    let write = tool(&files, "write_file");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let path = root.path().join("a.txt");
    fs::write(&path, "first").unwrap();
    for (before, after) in [
        (0o4755, 0o755),
        (0o2750, 0o750),
        (0o7711, 0o711),
        (0o600, 0o600),
        (0o644, 0o644),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
        let content = json!({ "path": "a.txt", "content": format!("{before}") });
        call_as(&write, before, content).await.unwrap();
        assert_eq!(mode(&path), after, "{before:o}");
    }
    // What it was before stays as secret as it was.
    let kept = fs::read_dir(root.path().join(".ghostlight/versions")).unwrap();
    let kept: Vec<PathBuf> = kept.map(|entry| entry.unwrap().path()).collect();
    assert!(kept.len() >= 5);
    for path in kept {
        assert_eq!(mode(&path), 0o600, "{path:?}");
    }
}
