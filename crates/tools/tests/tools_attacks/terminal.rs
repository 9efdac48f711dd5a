//! Attempts to run something else, to reach something else, and to stay.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    time::{Duration, Instant},
};

use ghostlight_actors::contract::{ToolContext, Toolset};
use ghostlight_tools::{Demand, Terminal, TerminalError, TerminalSpec};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call, tool};

pub(super) const SECRET: &str = "the secret outside";

pub(super) struct Stage {
    all: TempDir,
    pub(super) root: PathBuf,
    bubblewrap: bool,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::with_bubblewrap(false)
    }

    pub(super) fn with_bubblewrap(bubblewrap: bool) -> Self {
        let all = tempfile::tempdir().unwrap();
        let root = all.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(all.path().join("secret.txt"), SECRET).unwrap();
        fs::write(root.join("a.txt"), "one\ntwo\n").unwrap();
        symlink(all.path(), root.join("out")).unwrap();
        Self {
            all,
            root,
            bubblewrap,
        }
    }

    /// Commands of these rules, confined as a user has it.
    pub(super) fn settings(&self, commands: Value) -> TerminalSpec {
        serde_json::from_value(json!({
            "root": self.root,
            "commands": commands,
            "launcher": env!("CARGO_BIN_EXE_ghostlight-launcher"),
            "timeout_s": 10,
            "bubblewrap": self.bubblewrap,
        }))
        .unwrap()
    }

    fn terminal(&self, commands: Value) -> Terminal {
        Terminal::open(self.settings(commands)).unwrap()
    }
}

pub(super) async fn run(
    terminal: &Terminal,
    command: &str,
    args: &[&str],
) -> Result<String, String> {
    call(
        &tool(terminal, "run_command"),
        json!({ "command": command, "args": args }),
    )
    .await
}

#[tokio::test]
async fn no_argument_makes_an_allowed_program_run_or_reach_something_else() {
    let stage = Stage::new();
    let all = json!({
        "cat": true, "ls": true, "find": true, "git": { "allow": ["status *", "log *", "grep *", "-c *"] },
        "sort": true, "tar": true, "sed": true, "awk": true, "rg": true, "curl": true, "wc": true, "zip": true,
        "rsync": true, "echo": true, "grep": { "allow": ["*"], "deny": ["-r*", "--include*"] }, "sleep": false,
        "xargs": true, "./sub/tool": true,
    });
    let terminal = stage.terminal(all);
    let secret = stage.all.path().join("secret.txt").display().to_string();
    let attacks: Vec<(&str, Vec<String>)> = [
        // Programs that no rule names, and names that hide one.
        ("sh", vec!["-c", "id"]),
        ("bash", vec![]),
        ("/bin/sh", vec!["-c", "id"]),
        ("../root/a.txt", vec![]),
        ("cat;id", vec![]),
        ("cat id", vec![]),
        ("cat\0", vec![]),
        ("cat\n", vec![]),
        (" cat", vec![]),
        ("CAT", vec![]),
        ("", vec![]),
        ("./a.txt", vec![]),
        ("sleep", vec!["1"]),
        ("env", vec!["LD_PRELOAD=./x.so", "ls"]),
        // Options that run programs.
        ("find", vec![".", "-exec", "id", ";"]),
        ("find", vec![".", "-execdir", "id", "+"]),
        ("find", vec![".", "-ok", "id", ";"]),
        ("find", vec![".", "-okdir", "id", ";"]),
        ("find", vec![".", "-delete"]),
        ("find", vec![".", "-fprintf", "x", "y"]),
        ("find", vec![".", "-fls", "x"]),
        ("git", vec!["-c", "core.pager=id", "log"]),
        ("git", vec!["-ccore.pager=id", "log"]),
        ("git", vec!["grep", "-Oid", "x"]),
        ("git", vec!["grep", "--open-files-in-pager=id", "x"]),
        ("git", vec!["grep", "--open-f=id", "x"]),
        ("git", vec!["log", "--output=x"]),
        ("git", vec!["log", "--outp", "x"]),
        ("git", vec!["log", "--ext-diff"]),
        ("git", vec!["status", "--work-tree=sub"]),
        ("git", vec!["push"]),
        ("git", vec!["status", "--upload-pack", "id"]),
        ("git", vec![]),
        ("sort", vec!["--compress-program=id", "a.txt"]),
        ("sort", vec!["--comp", "id", "a.txt"]),
        ("sort", vec!["-o", "a.txt", "a.txt"]),
        ("sort", vec!["-noa.txt", "a.txt"]),
        (
            "tar",
            vec![
                "cf",
                "x",
                "--checkpoint=1",
                "--checkpoint-action=exec=id",
                "a.txt",
            ],
        ),
        ("tar", vec!["--to-command=id", "-xf", "x"]),
        ("tar", vec!["-I", "id", "-cf", "x", "a.txt"]),
        ("tar", vec!["-xPf", "x"]),
        ("sed", vec!["-i", "s/one/two/", "a.txt"]),
        ("sed", vec!["--in-pl", "s/one/two/", "a.txt"]),
        ("sed", vec!["-f", "a.txt", "a.txt"]),
        ("awk", vec!["-f", "a.txt"]),
        ("rg", vec!["--pre", "id", "x"]),
        ("rg", vec!["--pre=id", "x"]),
        ("rsync", vec!["-e", "id", "a.txt", "x"]),
        ("rsync", vec!["--rsh=id", "a.txt", "x"]),
        ("zip", vec!["x", "a.txt", "-T", "-TT", "id"]),
        ("curl", vec!["-o", "a.txt", "localhost"]),
        ("curl", vec!["-K", "a.txt"]),
        ("wc", vec!["--files0-from=a.txt"]),
        ("xargs", vec!["-a", "a.txt", "rm"]),
        ("grep", vec!["-r", "x"]),
        ("grep", vec!["--include=*", "x"]),
        // Paths that lead out.
        ("cat", vec!["/etc/shadow"]),
        ("cat", vec!["../secret.txt"]),
        ("cat", vec!["sub/../../secret.txt"]),
        ("cat", vec![&secret]),
        ("cat", vec!["~/x"]),
        ("cat", vec!["a.txt", "--", "/etc/shadow"]),
        ("cat", vec!["a.txt\0/etc/shadow"]),
        ("grep", vec!["-f/etc/shadow", "a.txt"]),
        ("grep", vec!["--file=/etc/shadow", "a.txt"]),
        ("curl", vec!["file:///etc/shadow"]),
        ("curl", vec!["-d", "@/etc/shadow", "x"]),
        ("tar", vec!["cf", "x", "../secret.txt"]),
        ("ls", vec!["..\\.."]),
        ("ls", vec!["/proc/1/environ"]),
    ]
    .into_iter()
    .map(|(command, args)| (command, args.into_iter().map(str::to_owned).collect()))
    .collect();
    assert!(attacks.len() >= 70);
    for (command, args) in attacks {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let told = run(&terminal, command, &args).await.unwrap_err();
        assert!(
            !told.contains("uid=") && !told.contains(SECRET),
            "{command} {args:?}: {told}"
        );
        assert!(
            !told.contains("exit code"),
            "it was run: {command} {args:?}: {told}"
        );
    }
    let many: Vec<&str> = vec!["x"; 600];
    assert!(
        run(&terminal, "echo", &many)
            .await
            .unwrap_err()
            .contains("too many")
    );
    let long = "x".repeat(100 << 10);
    assert!(
        run(&terminal, "echo", &[&long])
            .await
            .unwrap_err()
            .contains("too many")
    );
    assert_eq!(
        fs::read_to_string(stage.root.join("a.txt")).unwrap(),
        "one\ntwo\n"
    );
    // What only looks dangerous is one text to the program.
    for harmless in [
        "a; id", "$(id)", "`id`", "a | b", "a && b", "> x", "$HOME", "*", "!!", "a\nb", "%0a", "-n",
    ] {
        let told = run(&terminal, "echo", &["say", harmless]).await.unwrap();
        assert!(told.contains(harmless) && !told.contains("uid="), "{told}");
    }
    assert!(
        run(&terminal, "cat", &["a.txt"])
            .await
            .unwrap()
            .contains("one\ntwo")
    );
    assert!(
        run(&terminal, "find", &[".", "-name", "*.txt"])
            .await
            .unwrap()
            .contains("./a.txt")
    );
}

#[tokio::test]
async fn what_runs_reaches_only_its_folder() {
    reaches_only_its_folder(&Stage::new()).await;
}

pub(super) async fn reaches_only_its_folder(stage: &Stage) {
    // Whoever allows a shell allows everything but what confinement takes away.
    let terminal = stage.terminal(json!({ "sh": true, "python3": true }));
    assert!(
        terminal.confinement().is_whole(),
        "{}",
        terminal.confinement()
    );
    let secret = "out/secret.txt";
    let escapes = [
        format!("cat {secret}"),
        format!("echo gone > {secret}"),
        "cat /etc/sha*".to_owned(),
        "ls /root".to_owned(),
        "ls /tmp".to_owned(),
        "cat /proc/1/environ".to_owned(),
        "cat /proc/self/environ".to_owned(),
        "ls /proc/$PPID/fd".to_owned(),
        "touch out/made".to_owned(),
        "mkdir out/made".to_owned(),
        "ln out/secret.txt hard".to_owned(),
        "mv a.txt out/moved".to_owned(),
        "rm out/secret.txt".to_owned(),
        "echo x > /dev/shm/ghostlight-attack".to_owned(),
        "echo x > /usr/bin/ghostlight-attack".to_owned(),
        "truncate -s 0 out/secret.txt".to_owned(),
        "chroot . sh".to_owned(),
        "unshare -U true".to_owned(),
        "unshare -n true".to_owned(),
        "mount -t tmpfs x sub".to_owned(),
        "mknod sub/zero c 1 5".to_owned(),
        "setsid sleep 0".to_owned() + " && setsid -w true",
        "python3 -c 'import socket; socket.socket()'".to_owned(),
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'".to_owned(),
        "python3 -c 'import os; os.setsid()'".to_owned(),
        "python3 -c 'import os; os.setpgid(0, 0)'".to_owned(),
        "python3 -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True); import sys; sys.exit(c.ptrace(16, 1, 0, 0) != 0)'".to_owned(),
        "python3 -c 'import ctypes, sys; c = ctypes.CDLL(None); sys.exit(c.syscall(425, 1, 0) < 0)'".to_owned(),
        "python3 -c 'import os; os.kill(os.getppid() - 0, 0); os.kill(1, 0)'".to_owned(),
        "python3 -c 'bytearray(8 << 30)'".to_owned(),
        "python3 -c 'import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))' && false".to_owned(),
        "head -c 2000000000 /dev/zero > big".to_owned(),
    ];
    for escape in escapes {
        let told = run(
            &terminal,
            "sh",
            &[
                "-c",
                &escape
                    .replace("/etc", "/e''tc")
                    .replace(" /", " ''/")
                    .replace("> /", "> ''/")
                    .replace(">''/", "> ''/"),
            ],
        )
        .await;
        let text = told.clone().unwrap_or_else(|refused| refused);
        assert!(told.is_err(), "{escape}: {text}");
        assert!(
            !text.contains(SECRET) && !text.contains("root:x") && !text.contains("root:*"),
            "{escape}: {text}"
        );
    }
    assert_eq!(
        fs::read_to_string(stage.all.path().join("secret.txt")).unwrap(),
        SECRET
    );
    assert_eq!(fs::read_dir(stage.all.path()).unwrap().count(), 2);
    assert!(!PathBuf::from("/dev/shm/ghostlight-attack").exists());
    // Its folder is its own, and nothing of our environment is there.
    let env = run(&terminal, "sh", &["-c", "env; touch made; cat a.txt"])
        .await
        .unwrap();
    let named: Vec<&str> = env
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    for name in named {
        let known = [
            "PATH",
            "LANG",
            "TERM",
            "NO_COLOR",
            "PAGER",
            "GIT_PAGER",
            "GIT_TERMINAL_PROMPT",
            "GIT_CONFIG_NOSYSTEM",
            "HOME",
            "TMPDIR",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
        ];
        assert!(known.contains(&name), "{name} is in the environment");
    }
    assert!(stage.root.join("made").exists());
}

/// The processes whose command line holds a text.
pub(super) fn running(mark: &str) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let holds = |process: &PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark)
    };
    let processes = processes.map(|process| process.path());
    processes.filter(holds).collect()
}

pub(super) async fn all_end(mark: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    while !running(mark).is_empty() {
        assert!(
            Instant::now() < until,
            "processes of {mark} stayed: {:?}",
            running(mark)
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn nothing_outlives_its_call() {
    none_outlives_its_call(&Stage::new(), "4711").await;
}

/// The processes of the scripts are known by `mark`.
pub(super) async fn none_outlives_its_call(stage: &Stage, mark: &str) {
    let mut settings = stage.settings(json!({ "sh": true }));
    settings.timeout = Duration::from_secs(1);
    let terminal = Terminal::open(settings).unwrap();
    let scripts = [
        ("01", "sleep M", "ended after 1 s"),
        (
            "02",
            "trap '' TERM INT HUP; while :; do sleep M; done",
            "ended after 1 s",
        ),
        ("03", "sleep M & sleep M & wait", "ended after 1 s"),
        ("04", "nohup sleep M > /dev/null 2>&1 & echo left", "left"),
        ("05", "(setsid sleep M || sleep M) & echo left", "left"),
        ("06", "(sleep M &) ; exit 3", "exit code 3"),
        (
            "07",
            "i=0; while [ $i -lt 60 ]; do sleep M & i=$((i+1)); done; wait",
            "ended after 1 s",
        ),
        (
            "08",
            "f() { sleep M & if [ $1 -lt 6 ]; then f $(($1+1)) & f $(($1+1)) & fi; wait; }; f 0",
            "ended after 1 s",
        ),
        ("09", "kill -STOP $$; sleep M", "ended after 1 s"),
        ("10", "exec 1>&- 2>&-; sleep M", "ended after 1 s"),
    ];
    let each = scripts.map(|(number, script, told)| {
        let (terminal, mark) = (&terminal, format!("{mark}.{number}"));
        async move {
            let began = Instant::now();
            let script = script.replace('M', &mark);
            let ended = run(terminal, "sh", &["-c", &script]).await;
            let text = ended.unwrap_or_else(|failed| failed);
            assert!(text.contains(told), "{script}: {text}");
            let took = began.elapsed();
            assert!(took < Duration::from_secs(8), "{script}: {took:?}");
            all_end(&mark).await;
        }
    });
    futures_util::future::join_all(each).await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_or_dropped_ends_its_processes() {
    let stage = Stage::new();
    let terminal = stage.terminal(json!({ "sleep": true }));
    let run = tool(&terminal, "run_command");
    let arguments = |time: &str| {
        ghostlight_actors::vocabulary::Arguments::from(
            json!({ "command": "sleep", "args": [time] }),
        )
    };
    let cancel = tokio_util::sync::CancellationToken::new();
    let cx = ToolContext::new(
        ghostlight_actors::vocabulary::RunId::from_random(1),
        Default::default(),
        "a",
        cancel.clone(),
    );
    let (ended, ()) = tokio::join!(run.call(arguments("4712.01"), cx), async {
        while running("4712.01").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cancel.cancel();
    });
    assert!(ended.unwrap_err().message.contains("cancelled"));
    all_end("4712.01").await;
    let dropped = tokio::time::timeout(
        Duration::from_millis(800),
        run.call(arguments("4712.02"), ToolContext::detached()),
    );
    assert!(dropped.await.is_err());
    all_end("4712.02").await;
}

#[tokio::test]
async fn output_is_bounded_and_shown_as_it_comes() {
    let stage = Stage::new();
    let mut settings = stage.settings(json!({ "yes": true, "seq": true, "sh": true }));
    settings.timeout = Duration::from_secs(20);
    settings.max_output_bytes = 10_000;
    let terminal = Terminal::open(settings).unwrap();
    let began = Instant::now();
    let endless = run(&terminal, "yes", &["0123456789".repeat(100).as_str()])
        .await
        .unwrap_err();
    assert!(
        endless.contains("without end") || endless.contains("ended after"),
        "{endless:.100}"
    );
    assert!(
        endless.len() < 21_000 && began.elapsed() < Duration::from_secs(24),
        "{}",
        endless.len()
    );
    let counted = run(&terminal, "seq", &["100000"]).await.unwrap();
    assert!(
        counted.contains("\n1\n2\n") && counted.ends_with("100000") && counted.contains("left out")
    );
    let both = run(&terminal, "sh", &["-c", "echo out; echo err >&2; exit 7"])
        .await
        .unwrap_err();
    assert_eq!(both, "exit code 7\n[stdout]\nout\n[stderr]\nerr");
    let shown = std::sync::Arc::new(parking_lot::Mutex::new(String::new()));
    let sink = shown.clone();
    let cx = ToolContext::detached().previews(std::sync::Arc::new(move |preview| {
        if let ghostlight_actors::vocabulary::Preview::ToolOutput { text, .. } = preview {
            sink.lock().push_str(&text);
        }
    }));
    let arguments =
        ghostlight_actors::vocabulary::Arguments::from(json!({ "command": "seq", "args": ["3"] }));
    tool(&terminal, "run_command")
        .call(arguments, cx)
        .await
        .unwrap();
    assert_eq!(*shown.lock(), "1\n2\n3\n");
}

#[tokio::test]
async fn a_process_goes_on_between_calls_and_ends_with_its_terminal() {
    let stage = Stage::new();
    let mut settings = stage.settings(json!({ "cat": true, "sleep": true, "rm": "ask" }));
    settings.processes = 2;
    let terminal = Terminal::open(settings).unwrap();
    let go = async |name: &str, arguments: Value| call(&tool(&terminal, name), arguments).await;
    assert!(
        go("start_process", json!({ "command": "cat" }))
            .await
            .unwrap()
            .contains("process 1")
    );
    go("write_process", json!({ "process": 1, "text": "hello\n" }))
        .await
        .unwrap();
    let read = go("read_process", json!({ "process": 1, "wait_s": 10 }))
        .await
        .unwrap();
    assert_eq!(read, "hello\n\n(running; go on from 6)");
    // Reading again reads the same.
    assert_eq!(
        go("read_process", json!({ "process": 1 })).await.unwrap(),
        read
    );
    go(
        "write_process",
        json!({ "process": 1, "text": "end\n", "end": true }),
    )
    .await
    .unwrap();
    let mut read = String::new();
    while !read.contains("exit code 0") {
        read = go(
            "read_process",
            json!({ "process": 1, "from": 6, "wait_s": 10 }),
        )
        .await
        .unwrap();
    }
    assert!(read.starts_with("end\n"), "{read}");
    go(
        "start_process",
        json!({ "command": "sleep", "args": ["4713.01"] }),
    )
    .await
    .unwrap();
    go(
        "start_process",
        json!({ "command": "sleep", "args": ["4713.01"] }),
    )
    .await
    .unwrap();
    let third = go(
        "start_process",
        json!({ "command": "sleep", "args": ["4713.01"] }),
    )
    .await;
    assert!(third.unwrap_err().contains("the most"));
    assert!(
        go(
            "start_process",
            json!({ "command": "rm", "args": ["a.txt"] })
        )
        .await
        .unwrap_err()
        .contains("approve")
    );
    assert!(
        go("start_process", json!({ "command": "sh" }))
            .await
            .is_err()
    );
    assert!(
        go("read_process", json!({ "process": 99 }))
            .await
            .unwrap_err()
            .contains("no process 99")
    );
    for _ in 0..2 {
        go("stop_process", json!({ "process": 2 })).await.unwrap();
    }
    drop(terminal);
    all_end("4713.01").await;
}

#[tokio::test]
async fn confinement_that_is_demanded_and_missing_is_refused() {
    let stage = Stage::new();
    let mut settings = stage.settings(json!({ "echo": true }));
    for launcher in ["/bin/true", "/bin/false", "/does/not/exist"] {
        settings.launcher = Some(launcher.into());
        settings.bubblewrap = launcher == "/bin/false";
        settings.confinement = Demand::Required;
        let refused = Terminal::open(settings.clone()).unwrap_err();
        assert!(
            matches!(refused, TerminalError::Confinement { .. }),
            "{refused}"
        );
        settings.confinement = Demand::BestEffort;
        let without = Terminal::open(settings.clone()).unwrap();
        assert!(!without.confinement().is_whole());
        let about = &tool(&without, "run_command")
            .definition()
            .description
            .clone();
        assert!(about.contains("Confined by: none"), "{about}");
        assert_eq!(about.contains("bubblewrap"), settings.bubblewrap);
        assert!(
            run(&without, "echo", &["still"])
                .await
                .unwrap()
                .contains("still")
        );
    }
    settings.root = "/".into();
    assert!(matches!(
        Terminal::open(settings),
        Err(TerminalError::Setting(_))
    ));
}

#[tokio::test]
async fn a_rule_that_asks_is_for_the_tool_that_a_person_approves() {
    let stage = Stage::new();
    let terminal = stage.terminal(
        json!({ "rm": "ask", "ls": true, "touch": { "allow": ["*.txt"], "ask": ["*"] } }),
    );
    let names: Vec<String> = terminal
        .tools()
        .unwrap()
        .iter()
        .map(|tool| tool.definition().name.clone())
        .collect();
    assert_eq!(names, ["run_command", "run_command_with_approval"]);
    let approved = tool(&terminal, "run_command_with_approval");
    assert_ne!(
        approved.definition().approval,
        ghostlight_actors::vocabulary::Approval::NotNeeded
    );
    assert!(
        run(&terminal, "rm", &["a.txt"])
            .await
            .unwrap_err()
            .contains("approve")
    );
    assert!(
        run(&terminal, "touch", &["b.sh"])
            .await
            .unwrap_err()
            .contains("approve")
    );
    run(&terminal, "touch", &["b.txt"]).await.unwrap();
    call(&approved, json!({ "command": "rm", "args": ["a.txt"] }))
        .await
        .unwrap();
    assert!(!stage.root.join("a.txt").exists());
    // Approved or not, the rules hold.
    assert!(
        call(
            &approved,
            json!({ "command": "rm", "args": ["../secret.txt"] })
        )
        .await
        .is_err()
    );
    assert!(
        call(&approved, json!({ "command": "sh", "args": [] }))
            .await
            .is_err()
    );
}

/// A program of the folder runs only where a rule names it, and one that a link leads to does not.
#[tokio::test]
async fn programs_of_the_folder_are_run_by_their_whole_path() {
    let stage = Stage::new();
    let script = |name: &str| {
        fs::write(stage.root.join(name), "#!/bin/sh\necho planted\n").unwrap();
        fs::set_permissions(stage.root.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("ls");
    script("build.sh");
    let terminal =
        stage.terminal(json!({ "ls": true, "./build.sh": true, "./out/secret.txt": true }));
    assert!(!run(&terminal, "ls", &[]).await.unwrap().contains("planted"));
    assert!(
        run(&terminal, "./build.sh", &[])
            .await
            .unwrap()
            .contains("planted")
    );
    assert!(run(&terminal, "build.sh", &[]).await.is_err());
    assert!(
        run(&terminal, "./out/secret.txt", &[])
            .await
            .unwrap_err()
            .contains("not in the folder")
    );
    for dir in ["out", "..", "/", "/etc", "missing", "a.txt", "\0"] {
        let told = call(
            &tool(&terminal, "run_command"),
            json!({ "command": "ls", "dir": dir }),
        )
        .await;
        assert!(told.is_err(), "{dir}");
    }
    let told = call(
        &tool(&terminal, "run_command"),
        json!({ "command": "ls", "env": { "LD_PRELOAD": "x" } }),
    )
    .await;
    assert!(told.unwrap_err().contains("unknown field"));
}
