//! No patch and no edit makes the file tools panic or change anything outside of their folder, and what is undone is as
//! it was.
#![no_main]

use std::{fs, path::PathBuf, sync::LazyLock};

use ghostlight_actors::{
    contract::{ToolContext, Toolset},
    vocabulary::Arguments,
};
use ghostlight_tools::{FilesSpec, Files};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

struct Stage {
    runtime: Runtime,
    all: TempDir,
    root: PathBuf,
}

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let made = || {
        let all = tempfile::tempdir()?;
        let root = all.path().join("root");
        fs::write(all.path().join("outside"), "outside")?;
        let runtime = Builder::new_current_thread().build()?;
        std::io::Result::Ok(Stage { runtime, all, root })
    };
    made().unwrap_or_else(|error| panic!("{error}"))
});

fuzz_target!(|input: (&str, &str, &str)| {
    let (new, text, patch) = input;
    let file = STAGE.root.join("f");
    let _ = fs::remove_dir_all(&STAGE.root);
    let staged = fs::create_dir(&STAGE.root).and_then(|()| fs::write(&file, text));
    staged.unwrap_or_else(|error| panic!("{error}"));
    let files = Files::open(FilesSpec::writing(&STAGE.root)).unwrap_or_else(|error| panic!("{error}"));
    let tools = files.tools().unwrap_or_else(|error| panic!("{}", error.message));
    let call = |name: &str, arguments: Value| {
        let tool = tools.iter().find(|tool| tool.definition().name == name);
        let tool = tool.unwrap_or_else(|| panic!("no {name}"));
        STAGE.runtime.block_on(tool.call(Arguments::from(arguments), ToolContext::detached()))
    };
    let read = || fs::read_to_string(&file).ok();
    let patched = call("patch_files", json!({ "patch": patch }));
    if patched.is_err() {
        assert_eq!(read().as_deref(), Some(text));
    }
    let before = read();
    let edited = call("edit_file", json!({ "path": "f", "old": patch, "new": new }));
    if edited.is_ok() {
        assert_eq!(read(), before.as_ref().map(|before| before.replacen(patch, new, 1)));
        let undone = call("undo_file", json!({ "path": "f" }));
        assert!(undone.is_err() || read() == before);
    } else {
        assert_eq!(read(), before);
    }
    let outside = fs::read_dir(STAGE.all.path()).map(Iterator::count).ok();
    assert_eq!(outside, Some(2));
    assert_eq!(fs::read_to_string(STAGE.all.path().join("outside")).ok().as_deref(), Some("outside"));
});
