//! Attempts to leave a folder, to make a call wait, and to do a change twice.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ghostlight_tools::{Files, FilesSpec};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call, call_as, tool};

const SECRET: &str = "the secret outside";

/// A folder with something in it, beside something secret.
struct Stage {
    _all: TempDir,
    outside: PathBuf,
    root: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        let (outside, root) = (all.path().join("outside"), all.path().join("root"));
        for folder in [
            &outside,
            &root,
            &all.path().join("rooted"),
            &root.join("sub/deep"),
            &root.join(".git"),
        ] {
            fs::create_dir_all(folder).unwrap();
        }
        for file in [
            outside.join("secret.txt"),
            all.path().join("rooted/secret.txt"),
            all.path().join("secret.txt"),
        ] {
            fs::write(file, SECRET).unwrap();
        }
        for (name, text) in [
            ("a.txt", "one\ntwo\nthree\n"),
            ("sub/b.rs", "fn main() {}\n"),
            ("a..b", "dots\n"),
            (".env", "KEY=secret outside"),
            (".git/config", "token = the secret outside"),
        ] {
            fs::write(root.join(name), text).unwrap();
        }
        symlink(outside.join("secret.txt"), root.join("link.txt")).unwrap();
        symlink(&outside, root.join("linked")).unwrap();
        symlink("/", root.join("slash")).unwrap();
        symlink("a.txt", root.join("inner")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink(".git", root.join("git")).unwrap();
        symlink("../outside/new.txt", root.join("dangling")).unwrap();
        Self {
            _all: all,
            outside,
            root,
        }
    }

    fn files(&self) -> Files {
        Files::open(FilesSpec::writing(&self.root)).unwrap()
    }

    /// Nothing outside was changed, and nothing was added.
    fn outside_is_whole(&self) {
        let entries = fs::read_dir(&self.outside).unwrap().count();
        assert_eq!(entries, 1, "something was made outside");
        assert_eq!(
            fs::read_to_string(self.outside.join("secret.txt")).unwrap(),
            SECRET
        );
        let beside = fs::read_dir(self.outside.parent().unwrap())
            .unwrap()
            .count();
        assert_eq!(beside, 4, "something was made beside");
    }
}

/// Paths that lead outside, or to what is not open to tools.
fn paths(stage: &Stage) -> Vec<String> {
    let absolute = stage.outside.join("secret.txt").display().to_string();
    let inside = stage.root.join("a.txt").display().to_string();
    let mut paths: Vec<String> = [
        "../secret.txt",
        "../outside/secret.txt",
        "../rooted/secret.txt",
        "..",
        "../",
        "./../secret.txt",
        "sub/../../secret.txt",
        "sub/deep/../../../secret.txt",
        "sub//..//..//secret.txt",
        "a.txt/../../secret.txt",
        "missing/../../secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "\\etc\\passwd",
        "..\\secret.txt",
        "sub\\..\\..\\secret.txt",
        "C:\\secret.txt",
        "C:secret.txt",
        "link.txt",
        "linked/secret.txt",
        "linked",
        "slash/etc/passwd",
        "slash/proc/self/environ",
        "sub/../link.txt",
        "loop",
        "loop/a",
        "dangling",
        "a.txt\0",
        "a.txt\0.png",
        "\0",
        "../secret.txt\0.txt",
        ".git/config",
        "./.git/config",
        ".GIT/config",
        ".git",
        "git/config",
        ".env",
        ".Env",
        "sub/../.env",
        ".ghostlight/versions/0000000001.json",
        ".GHOSTLIGHT/versions/0000000001.before",
        ".ghostlight",
    ]
    .map(str::to_owned)
    .into();
    paths.push(absolute);
    paths.push(inside);
    paths.push("x/".repeat(600));
    paths.push("a/".repeat(100) + "b");
    paths.push("../".repeat(40) + "etc/passwd");
    paths
}

#[tokio::test]
async fn no_path_leads_out_of_the_folder() {
    let stage = Stage::new();
    let files = stage.files();
    let mut tried = 0;
    for path in paths(&stage) {
        let attempts: [(&str, Value); 8] = [
            ("read_file", json!({ "path": path })),
            ("list_files", json!({ "path": path })),
            (
                "grep_files",
                json!({ "path": path, "pattern": "secret|root" }),
            ),
            ("diff_file", json!({ "path": "a.txt", "other": path })),
            (
                "write_file",
                json!({ "path": path, "content": "overwritten" }),
            ),
            (
                "edit_file",
                json!({ "path": path, "old": "secret", "new": "x" }),
            ),
            ("undo_file", json!({ "path": path })),
            (
                "patch_files",
                json!({ "patch": format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n") }),
            ),
        ];
        for (name, arguments) in attempts {
            let told = call(&tool(&files, name), arguments).await;
            let text = told.clone().unwrap_or_else(|refused| refused);
            assert!(
                !text.contains(SECRET) && !text.contains("root:x"),
                "{name} {path}: {text}"
            );
            let only_told = name == "list_files" && text == "There is nothing.";
            assert!(told.is_err() || only_told, "{name} {path}: {text}");
            tried += 1;
        }
        stage.outside_is_whole();
    }
    assert!(tried >= 390, "{tried}");
    let left = fs::read_to_string(stage.root.join("a.txt")).unwrap();
    assert_eq!(left, "one\ntwo\nthree\n");
    // What only looks like an escape is served.
    assert!(
        call(&tool(&files, "read_file"), json!({ "path": "a..b" }))
            .await
            .unwrap()
            .contains("dots")
    );
    let deep = call(
        &tool(&files, "write_file"),
        json!({ "path": "new/..x/y", "content": "1" }),
    )
    .await;
    assert!(deep.unwrap().contains("was made"));
}

#[tokio::test]
async fn lists_and_searches_show_nothing_of_links_and_hidden_files() {
    let stage = Stage::new();
    let files = stage.files();
    let listed = call(&tool(&files, "list_files"), json!({ "depth": 32 }))
        .await
        .unwrap();
    assert!(
        listed.contains("sub/b.rs") && listed.contains("link.txt  (a link"),
        "{listed}"
    );
    assert!(
        !listed.contains(".env") && !listed.contains("config") && !listed.contains("secret.txt"),
        "{listed}"
    );
    let found = call(
        &tool(&files, "grep_files"),
        json!({ "pattern": "secret|token" }),
    )
    .await
    .unwrap();
    assert!(found.starts_with("No line"), "{found}");
}

/// While a file or folder is swapped for a link and back, as fast as can be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_swapped_during_the_call_leads_nowhere() {
    let stage = Stage::new();
    let files = stage.files();
    let stop = Arc::new(AtomicBool::new(false));
    let (root, outside, stopped) = (stage.root.clone(), stage.outside.clone(), stop.clone());
    let swapping = std::thread::spawn(move || {
        let real = root.join("real");
        fs::create_dir_all(&real).unwrap();
        fs::write(real.join("secret.txt"), "harmless").unwrap();
        symlink(&outside, root.join("fake")).unwrap();
        let mut swaps = 0_u64;
        while !stopped.load(Ordering::Relaxed) {
            let _ = fs::rename(root.join("real"), root.join("door"));
            let _ = fs::rename(root.join("door"), root.join("real"));
            let _ = fs::rename(root.join("fake"), root.join("door"));
            let _ = fs::rename(root.join("door"), root.join("fake"));
            swaps += 1;
        }
        swaps
    });
    let names = [
        "read_file",
        "write_file",
        "edit_file",
        "grep_files",
        "list_files",
    ];
    for round in 0..400 {
        let name = names[round % names.len()];
        let mut arguments = json!({ "path": "door/secret.txt" });
        match name {
            "write_file" => arguments["content"] = format!("new {round}").into(),
            "edit_file" => (arguments["old"], arguments["new"]) = ("outside".into(), "x".into()),
            "grep_files" => arguments["pattern"] = "secret".into(),
            "list_files" => arguments = json!({ "path": "door" }),
            _ => {}
        }
        let told = call(&tool(&files, name), arguments).await;
        let text = told.unwrap_or_else(|refused| refused);
        assert!(!text.contains(SECRET), "{name}: {text}");
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapping.join().unwrap() > 100);
    stage.outside_is_whole();
}

#[tokio::test]
async fn nothing_makes_a_call_wait_or_fill_memory() {
    let stage = Stage::new();
    let files = stage.files();
    let made = std::process::Command::new("mkfifo")
        .arg(stage.root.join("pipe"))
        .status();
    assert!(made.unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(stage.root.join("socket")).unwrap();
    fs::write(stage.root.join("binary"), b"\x7fELF\0\0").unwrap();
    fs::write(stage.root.join("zeros"), vec![0; 10_000]).unwrap();
    fs::write(stage.root.join("latin"), b"caf\xe9 latin\n").unwrap();
    // A file with holes: 300 GB that take no room.
    let sparse = fs::File::create(stage.root.join("sparse")).unwrap();
    sparse.set_len(300 << 30).unwrap();
    fs::write(stage.root.join("long"), "y".repeat(9 << 20)).unwrap();
    fs::write(stage.root.join("locked"), "locked").unwrap();
    fs::set_permissions(stage.root.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    for (name, arguments, expected) in [
        ("read_file", json!({ "path": "pipe" }), "not a regular file"),
        (
            "write_file",
            json!({ "path": "pipe", "content": "x" }),
            "not a regular file",
        ),
        (
            "edit_file",
            json!({ "path": "pipe", "old": "x", "new": "y" }),
            "not a regular file",
        ),
        ("read_file", json!({ "path": "socket" }), ""),
        ("read_file", json!({ "path": "sub" }), "folder"),
        (
            "write_file",
            json!({ "path": "sub", "content": "x" }),
            "folder",
        ),
        (
            "write_file",
            json!({ "path": "a.txt/b", "content": "x" }),
            "",
        ),
        (
            "read_file",
            json!({ "path": "binary" }),
            "a program of 6 bytes",
        ),
        (
            "read_file",
            json!({ "path": "zeros" }),
            "a binary file of 10000 bytes",
        ),
        ("read_file", json!({ "path": "sparse" }), "binary"),
        (
            "edit_file",
            json!({ "path": "sparse", "old": "x", "new": "y" }),
            "more than",
        ),
        (
            "edit_file",
            json!({ "path": "binary", "old": "ELF", "new": "y" }),
            "no text",
        ),
        (
            "edit_file",
            json!({ "path": "latin", "old": "latin", "new": "y" }),
            "not text in UTF-8",
        ),
        (
            "edit_file",
            json!({ "path": "long", "old": "y", "new": "z", "all": true }),
            "more than",
        ),
        (
            "grep_files",
            json!({ "pattern": "y", "path": "long" }),
            "more than",
        ),
        (
            "read_file",
            json!({ "path": "long" }),
            "the line has 9437184 bytes",
        ),
        (
            "read_file",
            json!({ "path": "a.txt", "from_line": 999_999_999 }),
            "has 3 lines",
        ),
        ("read_file", json!({ "path": "latin" }), "caf"),
        (
            "grep_files",
            json!({ "pattern": "(((((a{1,100}){1,100}){1,100})))" }),
            "cannot be read",
        ),
        (
            "grep_files",
            json!({ "pattern": "(a+)+$", "path": "long" }),
            "more than",
        ),
        (
            "grep_files",
            json!({ "pattern": "(?<=a)b" }),
            "cannot be read",
        ),
        ("grep_files", json!({ "pattern": "x", "glob": "[" }), "glob"),
        ("list_files", json!({ "glob": "{a,{b,".repeat(50) }), "glob"),
        (
            "write_file",
            json!({ "path": "big", "content": "x".repeat((8 << 20) + 1) }),
            "the most is",
        ),
        (
            "edit_file",
            json!({ "path": "a.txt", "old": "", "new": "y" }),
            "must be some text",
        ),
        (
            "edit_file",
            json!({ "path": "a.txt", "old": "o", "new": "y" }),
            "2 times, in the lines 1, 2",
        ),
        (
            "edit_file",
            json!({ "path": "a.txt", "old": "  two", "new": "y" }),
            "but for spaces",
        ),
        (
            "write_file",
            json!({ "path": "a.txt", "content": "y", "overwrite": false }),
            "is there already",
        ),
        ("patch_files", json!({ "patch": "" }), "no `---`"),
        (
            "patch_files",
            json!({ "patch": "--- a/a.txt\n+++ b/../x\n@@ -1 +1 @@\n-one\n+x\n" }),
            "renamed",
        ),
        (
            "patch_files",
            json!({ "patch": "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-one\n+x\n" }),
            "leads out",
        ),
        (
            "patch_files",
            json!({ "patch": "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n" }),
            "holds more",
        ),
        (
            "patch_files",
            json!({ "patch": "@@ -1 +1 @@\n-one\n+x\n" }),
            "must stand before",
        ),
        ("undo_file", json!({ "path": "a.txt" }), "no change"),
    ] {
        let told = call(&tool(&files, name), arguments.clone()).await;
        let text = told.unwrap_or_else(|refused| refused);
        assert!(
            text.contains(expected),
            "{name} {arguments:.80}: {text:.300}"
        );
        assert!(text.len() < 100_000, "{name}: {} bytes", text.len());
    }
    stage.outside_is_whole();
}

#[tokio::test]
async fn a_folder_that_is_only_read_has_no_tool_that_writes() {
    let stage = Stage::new();
    let files = Files::open(FilesSpec::reading(&stage.root)).unwrap();
    let tools = ghostlight_actors::contract::Toolset::tools(&files).unwrap();
    for tool in tools {
        let definition = tool.definition();
        assert_eq!(
            definition.effect,
            ghostlight_actors::vocabulary::Effect::Read,
            "{}",
            definition.name
        );
    }
    let mut settings = FilesSpec::writing(&stage.root);
    settings.extensions = Some(vec!["md".into()]);
    let only = Files::open(settings).unwrap();
    for path in ["x.sh", "md", "x.md.sh", ".md/x"] {
        let told = call(
            &tool(&only, "write_file"),
            json!({ "path": path, "content": "1" }),
        )
        .await;
        assert!(told.unwrap_err().contains("only files that end"), "{path}");
    }
    call(
        &tool(&only, "write_file"),
        json!({ "path": "x.MD", "content": "1" }),
    )
    .await
    .unwrap();
    assert!(Files::open(FilesSpec::reading(Path::new("/does/not/exist"))).is_err());
}

#[tokio::test]
async fn a_change_is_made_once_and_can_be_undone() {
    let stage = Stage::new();
    let files = stage.files();
    let read = |name: &str| fs::read_to_string(stage.root.join(name)).unwrap();
    let edit = tool(&files, "edit_file");
    let arguments = json!({ "path": "a.txt", "old": "two", "new": "two two" });
    fs::set_permissions(stage.root.join("a.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    let first = call_as(&edit, 1, arguments.clone()).await.unwrap();
    assert!(first.contains("+two two"), "{first}");
    let mode = fs::metadata(stage.root.join("a.txt"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    // The same call again, as after a crash: it was made. Another call with the same words makes it again.
    assert_eq!(call_as(&edit, 1, arguments.clone()).await.unwrap(), first);
    assert_eq!(read("a.txt"), "one\ntwo two\nthree\n");
    assert!(
        call_as(&edit, 2, arguments.clone())
            .await
            .unwrap_err()
            .contains("2 times")
    );
    // Others changed it since: a repeated call does not touch it.
    fs::write(stage.root.join("a.txt"), "others\n").unwrap();
    assert!(
        call_as(&edit, 1, arguments)
            .await
            .unwrap_err()
            .contains("others changed it since")
    );
    let undo = tool(&files, "undo_file");
    let refused = call_as(&undo, 3, json!({ "path": "a.txt" }))
        .await
        .unwrap_err();
    assert!(refused.contains("changed by others"), "{refused}");
    fs::write(stage.root.join("a.txt"), "one\ntwo two\nthree\n").unwrap();
    for again in 0..2 {
        let undone = call_as(&undo, 4, json!({ "path": "a.txt" })).await.unwrap();
        assert!(undone.contains("-two two"), "{again}: {undone}");
        assert_eq!(read("a.txt"), "one\ntwo\nthree\n");
    }
    assert!(
        call_as(&undo, 5, json!({ "path": "a.txt" })).await.is_err(),
        "there is nothing more"
    );

    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-two\n+2\n--- /dev/null\n+++ b/made/new.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n--- a/a..b\n+++ /dev/null\n@@ -1 +0,0 @@\n-dots\n";
    let patching = tool(&files, "patch_files");
    for again in 0..2 {
        let told = call_as(&patching, 6, json!({ "patch": patch }))
            .await
            .unwrap();
        assert!(
            told.contains("+2") && told.contains("a..b was removed"),
            "{again}: {told}"
        );
    }
    assert_eq!(
        (read("a.txt").as_str(), read("made/new.txt").as_str()),
        ("one\n2\nthree\n", "x\ny\n")
    );
    assert!(!stage.root.join("a..b").exists());
    call_as(&undo, 7, json!({ "path": "a..b" })).await.unwrap();
    call_as(&undo, 8, json!({ "path": "made/new.txt" }))
        .await
        .unwrap();
    assert_eq!(read("a..b"), "dots\n");
    assert!(!stage.root.join("made/new.txt").exists());
    // One file that does not fit leaves all as they are.
    let wrong = "--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-2\n+3\n--- a/sub/b.rs\n+++ b/sub/b.rs\n@@ -1 +1 @@\n-no\n+yes\n";
    assert!(
        call_as(&patching, 9, json!({ "patch": wrong }))
            .await
            .is_err()
    );
    assert_eq!(read("a.txt"), "one\n2\nthree\n");
}

#[tokio::test]
async fn former_contents_are_bounded() {
    let stage = Stage::new();
    let mut settings = FilesSpec::writing(&stage.root);
    settings.keep_versions = 3;
    let files = Files::open(settings).unwrap();
    for number in 0..20 {
        let arguments = json!({ "path": "a.txt", "content": format!("{number}") });
        call(&tool(&files, "write_file"), arguments).await.unwrap();
    }
    let kept = fs::read_dir(stage.root.join(".ghostlight/versions"))
        .unwrap()
        .count();
    assert!(kept <= 6, "{kept}");
    // Taking a change back is a change too, which takes the place of an older one.
    for undone in ["18", "17"] {
        call(&tool(&files, "undo_file"), json!({ "path": "a.txt" }))
            .await
            .unwrap();
        assert_eq!(
            fs::read_to_string(stage.root.join("a.txt")).unwrap(),
            undone
        );
    }
}
