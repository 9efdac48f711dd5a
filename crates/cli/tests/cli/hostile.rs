//! What is not meant well: names that are no files, input without end, and text that acts on a
//! terminal.

use std::{fs, os::unix::fs::FileTypeExt as _, process::Command};

use serde_json::json;

use crate::own_command::Desk;

/// Writes to the clipboard, renames the window, moves the cursor, and turns letters around.
const ACTS: &str = "A\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}]0;evil\u{7}\u{9b}2J\r\u{202e}Z";

/// What of a text a terminal would obey.
fn obeyed(text: &str) -> Option<char> {
    let harmless = |c: char| c == '\n' || c == '\t';
    text.chars()
        .find(|c| c.is_control() && !harmless(*c) || *c == '\u{202e}')
}

fn fifo(desk: &Desk, name: &str) {
    let made = Command::new("mkfifo").arg(desk.path(name)).status();
    assert!(made.unwrap().success());
}

#[test]
fn an_artifact_is_escaped_for_a_terminal_and_as_it_is_elsewhere() {
    let desk = Desk::new("keeps", json!({ "text": ACTS }));
    desk.run(&["run", "team.yaml", "go", "--session", "s"])
        .exits(0);
    let artifact = ["session", "artifact", "desk/s", "notes.txt"];
    let piped = desk.run(&artifact).exits(0);
    assert_eq!(piped.out, ACTS);
    let shown = desk.at_terminal(&artifact).exp_eof().unwrap();
    assert!(shown.contains("A\\u{1b}]52;c;ZXZpbA==\\u{7}"), "{shown:?}");
    assert!(shown.ends_with("\\r\\u{202e}Z"), "{shown:?}");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{9b}'));
    let raw = [artifact.as_slice(), &["--raw"]].concat();
    let shown = desk.at_terminal(&raw).exp_eof().unwrap();
    // What comes from a terminal is read byte by byte.
    let bytes: String = ACTS.bytes().map(char::from).collect();
    assert!(shown.contains(&bytes), "{shown:?}");
}

#[test]
fn nothing_that_is_printed_acts_on_a_terminal() {
    let desk = Desk::new("says", json!({ "text": ACTS }));
    let run = desk.run(&["run", "team.yaml", ACTS, "--session", "s"]);
    let run = run.exits(0);
    let id = desk.only_run();
    desk.write(
        "bad.yaml",
        "agent:\n  name: \"\\e]0;x\\a\"\n  colour\u{202e}: \u{9b}red\n",
    );
    desk.write(
        "name.yaml",
        "agent:\n  name: desk\n  description: \"\\e]0;x\\a\\u202e\"\n",
    );
    let mut all = vec![run];
    let words: [&[&str]; 16] = [
        &["show", &id],
        &["show", &id, "--json"],
        &["recording", "export", &id],
        &["recording", "replay", &id],
        &["runs", "--all"],
        &["session", "list"],
        &["session", "list", "--json"],
        &["session", "show", "desk/s"],
        &["session", "show", "desk/s", "--json"],
        &["session", "export", "desk/s"],
        &["team", "check", "bad.yaml"],
        &["team", "check", "name.yaml"],
        &["team", "draw", "name.yaml"],
        // What was typed comes back in errors.
        &["show", ACTS],
        &[ACTS],
        &["session", "artifact", "desk/s", ACTS],
    ];
    all.extend(words.iter().map(|words| desk.run(words)));
    let more: [&[&str]; 4] = [
        &["run", "team.yaml", "go", "--store", ACTS],
        &["team", "check", ACTS],
        &["run", "team.yaml", "go", "--budget", ACTS],
        &["team", "draw", "name.yaml", "--agent", ACTS],
    ];
    all.extend(more.iter().map(|words| desk.run(words)));
    for (number, done) in all.iter().enumerate() {
        for text in [&done.out, &done.err] {
            assert_eq!(obeyed(text), None, "{number}: {text:?}");
        }
    }
}

#[test]
fn a_store_that_is_no_file_is_refused_by_every_command() {
    let desk = Desk::new("says", json!({ "text": "done" }));
    fifo(&desk, "fifo");
    let store = ["--store", "fifo"];
    let acts: [&[&str]; 7] = [
        &["run", "team.yaml", "go"],
        &["runs"],
        &["session", "list"],
        &["store", "prune", "--older-than", "1d"],
        &["resume", "0190c1c2-0000-7000-8000-000000000000"],
        &["show", "0190c1c2"],
        &["recording", "export", "0190c1c2"],
    ];
    for act in acts {
        let told = desk.run(&[act, store.as_slice()].concat()).exits(5);
        assert!(told.err.contains("it is a FIFO"), "{act:?}: {}", told.err);
    }
    let kind = fs::symlink_metadata(desk.path("fifo")).unwrap().file_type();
    assert!(kind.is_fifo());
}

#[test]
fn a_file_that_never_ends_is_not_waited_for() {
    let desk = Desk::new("says", json!({ "text": "done" }));
    fifo(&desk, "fifo");
    let acts: [&[&str]; 5] = [
        &["team", "check", "fifo"],
        &["run", "fifo", "go"],
        &["team", "draw", "fifo"],
        &["session", "import", "fifo"],
        &["recording", "replay", "--team", "fifo", "--all"],
    ];
    for act in acts {
        let told = desk.run(act).exits(2);
        assert!(
            told.err.contains("no regular file"),
            "{act:?}: {}",
            told.err
        );
    }
    let audit = "interceptors: [{ name: audit, file: ./fifo }]\nagent: { name: desk }\n";
    desk.write("audit.yaml", audit);
    let told = desk.run(&["team", "check", "audit.yaml"]).exits(2);
    assert!(told.err.contains("it is a FIFO"), "{}", told.err);
}

#[test]
fn a_text_without_end_on_stdin_is_refused() {
    let desk = Desk::new("says", json!({ "text": "done" }));
    let most = "x".repeat(4 << 20);
    desk.run_with(&["run", "team.yaml", "-", "--memory"], &most)
        .exits(0);
    let told = desk
        .run_with(&["run", "team.yaml", "-"], &(most + "x"))
        .exits(2);
    assert!(told.err.contains("more than 4194304 bytes"), "{}", told.err);
    assert!(!desk.path("runs.db").exists());
}

/// What a process holds, keys among it, would be in the image that a crash leaves of it.
#[cfg(target_os = "linux")]
#[test]
fn a_crash_leaves_no_image_of_the_command() {
    use std::os::unix::process::ExitStatusExt as _;
    let desk = Desk::new("gated", json!({}));
    let script = "ulimit -c unlimited && kill -ABRT $$";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(desk.path("."));
    if !shell.status().unwrap().core_dumped() {
        println!("this machine dumps nothing");
        return;
    }
    let mut command = desk.start_with_dumps(&["run", "team.yaml", "go"]);
    desk.until("its first step", |desk| desk.firsts() == 1);
    let killed = Command::new("kill")
        .args(["-ABRT", &command.id().to_string()])
        .status();
    assert!(killed.unwrap().success());
    let ended = command.wait().unwrap();
    assert_eq!((ended.signal(), ended.core_dumped()), (Some(6), false));
}
