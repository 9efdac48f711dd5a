//! Attempts to fill the disk with files of which each is within its own bound.

use std::{
    fs,
    time::{Duration, Instant},
};

use ghostlight_tools::Terminal;
use serde_json::json;

use super::{
    call,
    terminal::{Stage, run},
    tool,
};

const MEGABYTE: u64 = 1 << 20;
/// Writes each of the files that are named, ten megabytes each.
const WRITE: &str =
    "import sys\nfor name in sys.argv[1:]: open(name, 'wb').write(bytes(10 << 20))\n";

/// Commands whose folder may grow by 25 MB, and each file to 20 MB.
fn terminal(stage: &Stage) -> Terminal {
    let mut settings = stage.settings(json!({ "python3": true }));
    settings.rlimits.file_bytes = 20 * MEGABYTE;
    settings.max_growth_bytes = Some(25 * MEGABYTE);
    settings.processes = 1;
    let other = stage.root.with_file_name("other");
    fs::create_dir_all(&other).unwrap();
    settings.write = vec![other, stage.root.join("sub")];
    fs::write(stage.root.join("write.py"), WRITE).unwrap();
    fs::write(
        stage.root.join("stay.py"),
        format!("{WRITE}import time\ntime.sleep(60)\n"),
    )
    .unwrap();
    Terminal::open(settings).unwrap()
}

#[tokio::test]
async fn all_files_of_a_command_together_are_bounded() {
    let stage = Stage::new();
    let terminal = terminal(&stage);
    let began = Instant::now();
    let elsewhere = stage.root.with_file_name("other").join("6");
    let elsewhere = elsewhere.display().to_string();
    for (program, names) in [
        ("write.py", ["1", "2", "3"]),
        ("stay.py", ["4", "sub/5", elsewhere.as_str()]),
    ] {
        let arguments = [&[program], &names[..]].concat();
        let refused = run(&terminal, "python3", &arguments).await.unwrap_err();
        let bound = "its bound is 26214400 (`max_growth_bytes`)";
        assert!(refused.contains(bound), "{refused}");
        // One that was faster than the looks ended by itself.
        let by_itself = refused.starts_with("exit code 0, but the files");
        let ended = refused.starts_with("ended because the files");
        assert!(ended || by_itself && program == "write.py", "{refused}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "each would stay for a minute"
    );
}

#[tokio::test]
async fn what_is_there_already_and_what_is_written_again_is_no_growth() {
    let stage = Stage::new();
    let terminal = terminal(&stage);
    for _ in 0..3 {
        let written = run(&terminal, "python3", &["write.py", "1", "sub/2"]).await;
        assert!(
            written
                .as_ref()
                .is_ok_and(|told| told.starts_with("exit code 0")),
            "{written:?}"
        );
    }
    // Another name of a file takes no room.
    let linking = "import os\nfor n in range(9): os.link('1', f'link{n}')\n";
    fs::write(stage.root.join("link.py"), linking).unwrap();
    let linked = run(&terminal, "python3", &["link.py"]).await;
    assert!(linked.is_ok(), "{linked:?}");
}

#[tokio::test]
async fn many_empty_files_and_places_that_cannot_be_read_are_bounded_too() {
    let stage = Stage::new();
    let terminal = terminal(&stage);
    let empty = "for n in range(7000): open(f'sub/{n}', 'w')\n";
    fs::write(stage.root.join("empty.py"), empty).unwrap();
    let refused = run(&terminal, "python3", &["empty.py"]).await.unwrap_err();
    assert!(refused.contains("grew by 28"), "{refused}");
    // No path leads below this folder: it would be longer than a path may be.
    let deep = "import os\nfor n in range(30):\n  os.mkdir('d' * 200)\n  os.chdir('d' * 200)\n";
    fs::write(stage.root.join("deep.py"), deep).unwrap();
    let refused = run(&terminal, "python3", &["deep.py"]).await.unwrap_err();
    assert!(refused.contains("cannot be measured"), "{refused}");
}

#[tokio::test]
async fn a_process_in_the_background_is_bounded_as_a_command_is() {
    let stage = Stage::new();
    let terminal = terminal(&stage);
    for (process, program, names) in [
        (1, "stay.py", ["1", "2", "3"]),
        (2, "write.py", ["4", "5", "6"]),
    ] {
        let arguments = [&[program], &names[..]].concat();
        let begin = json!({ "command": "python3", "args": arguments });
        call(&tool(&terminal, "start_process"), begin)
            .await
            .unwrap();
        let mut from = 0;
        let told = loop {
            let read = json!({ "process": process, "from": from, "wait_s": 20 });
            let told = call(&tool(&terminal, "read_process"), read).await.unwrap();
            if !told.contains("(running;") {
                break told;
            }
            from += 1;
            assert!(from < 3, "{told}");
        };
        assert!(told.contains("its bound is 26214400"), "{told}");
    }
}

#[tokio::test]
async fn measuring_many_files_takes_from_the_time_of_the_command() {
    let stage = Stage::new();
    let mut settings = stage.settings(json!({ "python3": true }));
    for number in 0..7000 {
        fs::write(stage.root.join(format!("{number}")), "").unwrap();
    }
    settings.timeout = Duration::from_micros(1);
    settings.processes = 1;
    let terminal = Terminal::open(settings).unwrap();
    let late = run(&terminal, "python3", &[]).await.unwrap_err();
    assert!(late.contains("was not started"), "{late}");
    let begin = json!({ "command": "python3" });
    let late = call(&tool(&terminal, "start_process"), begin).await;
    let late = late.unwrap_err();
    assert!(late.contains("was not started"), "{late}");
}
