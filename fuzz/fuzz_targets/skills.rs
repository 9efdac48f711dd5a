//! No `SKILL.md` makes the reader of skills panic, and no path leads out of a skill's folder.
#![no_main]

use std::{fs, path::PathBuf, sync::LazyLock};

use ghostlight_actors::{
    contract::{ToolContext, Toolset},
    vocabulary::Arguments,
};
use ghostlight_tools::{SkillsSpec, Skills};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const SECRET: &str = "what stands outside of the folder";

struct Stage {
    runtime: Runtime,
    _all: TempDir,
    skill: PathBuf,
}

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let made = || {
        let all = tempfile::tempdir()?;
        let skill = all.path().join("skill");
        fs::create_dir(&skill)?;
        fs::write(all.path().join("secret"), SECRET)?;
        fs::write(skill.join("notes.md"), "notes")?;
        let runtime = Builder::new_current_thread().build()?;
        std::io::Result::Ok(Stage { runtime, _all: all, skill })
    };
    made().unwrap_or_else(|error| panic!("{error}"))
});

fuzz_target!(|input: (&str, &str)| {
    let (path, text) = input;
    fs::write(STAGE.skill.join("SKILL.md"), text).unwrap_or_else(|error| panic!("{error}"));
    let Ok(skills) = Skills::open(&SkillsSpec::of([&STAGE.skill])) else { return };
    let Some(skill) = skills.skills().first() else { return };
    for tool in skills.tools().unwrap_or_else(|error| panic!("{}", error.message)) {
        let arguments = match tool.definition().name.as_str() {
            "use_skill" => json!({ "name": skill.name() }),
            _ => json!({ "name": skill.name(), "path": path }),
        };
        let called = tool.call(Arguments::from(arguments), ToolContext::detached());
        if let Ok(given) = STAGE.runtime.block_on(called) {
            assert!(!given.text.contains(SECRET));
        }
    }
});
