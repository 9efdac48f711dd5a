//! The same attempts in namespaces of a command's own, and what they hide. Left out, with a word, where the machine has no
//! bubblewrap or allows no new namespaces.

use std::{fs, path::Path, time::Duration};

use ghostlight_tools::{Demand, Terminal, TerminalError};
use serde_json::json;

use super::{
    call,
    terminal::{Stage, all_end, none_outlives_its_call, reaches_only_its_folder, run, running},
    tool,
};

/// Where commands have namespaces; `None` where they cannot.
fn stage() -> Option<Stage> {
    let stage = Stage::with_bubblewrap(true);
    match Terminal::open(stage.settings(json!({ "true": true }))) {
        Ok(terminal) => {
            assert_eq!(terminal.confinement().bubblewrap, Some(true));
            Some(stage)
        }
        Err(missing) => {
            let asked_for = std::env::var_os("GHOSTLIGHT_BUBBLEWRAP").is_some();
            assert!(!asked_for, "GHOSTLIGHT_BUBBLEWRAP is set, but {missing}");
            assert!(
                missing.to_string().contains("missing: bubblewrap"),
                "{missing}"
            );
            println!("left out: {missing}");
            None
        }
    }
}

#[tokio::test]
async fn what_runs_in_namespaces_reaches_only_its_folder() {
    let Some(stage) = stage() else { return };
    reaches_only_its_folder(&stage).await;
}

#[tokio::test]
async fn nothing_outlives_its_call_in_namespaces() {
    let Some(stage) = stage() else { return };
    none_outlives_its_call(&stage, "4721").await;
}

#[tokio::test]
async fn a_command_sees_no_files_processes_and_networks_but_its_own() {
    let Some(stage) = stage() else { return };
    let started = async |network: bool, mark: &str| {
        let mut settings = stage.settings(json!({ "sleep": true, "ls": true, "sh": true }));
        (settings.network, settings.processes) = (network, 1);
        let terminal = Terminal::open(settings).unwrap();
        let about = tool(&terminal, "run_command")
            .definition()
            .description
            .clone();
        assert!(about.contains("rlimits, bubblewrap."), "{about}");
        let sleep = json!({ "command": "sleep", "args": [mark] });
        call(&tool(&terminal, "start_process"), sleep)
            .await
            .unwrap();
        let is_sleep = |process: &Path| {
            fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "sleep")
        };
        let process = loop {
            match running(mark).into_iter().find(|process| is_sleep(process)) {
                Some(process) => break process,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        (terminal, process)
    };
    let own = |process: &Path, kind: &str| {
        let namespace = |process: &Path| fs::read_link(process.join("ns").join(kind)).unwrap();
        namespace(process) != namespace(Path::new("/proc/self"))
    };
    let (terminal, process) = started(false, "4724.01").await;
    for kind in ["user", "mnt", "pid", "ipc", "uts", "net"] {
        assert!(own(&process, kind), "{kind}");
    }
    let status = fs::read_to_string(process.join("status")).unwrap();
    for rights in ["CapPrm", "CapEff", "CapBnd"] {
        assert!(
            status.contains(&format!("{rights}:\t0000000000000000")),
            "{status}"
        );
    }
    // The mounts of the process: what it may read, and a root that is empty but for them.
    let root = fs::read_dir(process.join("root")).unwrap();
    let mut seen: Vec<String> = root
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    seen.retain(|name| {
        !["bin", "lib", "lib32", "lib64", "sbin", "usr", "etc", "dev"].contains(&&**name)
    });
    for name in seen {
        let is_above = |path: &Path| path.starts_with(Path::new("/").join(&name));
        let launcher = Path::new(env!("CARGO_BIN_EXE_ghostlight-launcher"));
        assert!(is_above(&stage.root) || is_above(launcher), "{name}");
    }
    let devices = fs::read_dir(process.join("root/dev")).unwrap().count();
    assert_eq!(devices, 5);
    let numbered = run(&terminal, "sh", &["-c", "echo $$"]).await.unwrap();
    let number: u32 = numbered.lines().last().unwrap().parse().unwrap();
    assert!(number < 10, "{numbered}");
    drop(terminal);
    all_end("4724.01").await;
    let (terminal, process) = started(true, "4724.02").await;
    assert!(!own(&process, "net") && own(&process, "pid"));
    drop(terminal);
    all_end("4724.02").await;
}

#[tokio::test]
async fn what_a_command_reads_and_changes_is_what_the_settings_say() {
    let Some(stage) = stage() else { return };
    let other = tempfile::tempdir().unwrap();
    for folder in ["read", "write"] {
        fs::create_dir(other.path().join(folder)).unwrap();
        fs::write(other.path().join(folder).join("a"), folder).unwrap();
    }
    let mut settings = stage.settings(json!({ "sh": true }));
    let missing = other.path().join("missing");
    settings.read = vec![other.path().join("read"), missing];
    settings.write = vec![other.path().join("write")];
    // A folder below one that may be changed, which takes nothing away.
    settings
        .read
        .push(stage.root.parent().unwrap().join("root/sub"));
    let other_path = other.path().display().to_string();
    let names = [("OTHER", other_path), ("NULL", "/dev/null".to_owned())];
    let names = names.map(|(name, value)| (name.to_owned(), value));
    settings.env.extend(names);
    let terminal = Terminal::open(settings).unwrap();
    let sh = async |script: &str| run(&terminal, "sh", &["-c", script]).await;
    assert!(
        sh("cat $OTHER/read/a $OTHER/write/a")
            .await
            .unwrap()
            .contains("readwrite")
    );
    for refused in [
        "echo x > $OTHER/read/a",
        "echo x > $OTHER/b",
        "mkdir $OTHER/c",
    ] {
        let told = sh(refused).await.unwrap_err();
        assert!(told.contains("exit code"), "{refused}: {told}");
    }
    sh("echo x > $OTHER/write/b; echo y > sub/made; echo z > $NULL")
        .await
        .unwrap();
    assert!(other.path().join("write/b").exists() && stage.root.join("sub/made").exists());
    // Its end is the command's own.
    assert!(sh("exit 7").await.unwrap_err().contains("exit code 7"));
    assert!(
        sh("kill -9 $$")
            .await
            .unwrap_err()
            .contains("exit code 137")
    );
}

#[tokio::test]
async fn bubblewrap_without_confinement_is_refused() {
    let stage = Stage::with_bubblewrap(true);
    let mut settings = stage.settings(json!({ "true": true }));
    settings.confinement = Demand::Off;
    let refused = Terminal::open(settings).unwrap_err();
    assert!(matches!(refused, TerminalError::Setting(_)), "{refused}");
}
