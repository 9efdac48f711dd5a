//! Programs that try to reach something else, to take everything, and to stay; and what they may do.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use ghostlight_actors::{
    actor::System,
    contract::{Tool, ToolContext, ToolError, ToolOutput},
    run::{Agent, BehaviorHandle, Registry},
    testing::InMemoryStore,
    vocabulary::{Arguments, Effect, ToolDefinition},
};
use ghostlight_tools::{Code, CodeError};
use serde_json::{Value, json};

use super::PATIENCE;

fn settings(others: Value) -> Code {
    let mut all = json!({
        "launcher": env!("CARGO_BIN_EXE_ghostlight-launcher"),
        "timeout_s": 5,
    });
    all.as_object_mut()
        .unwrap()
        .extend(others.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

/// A tool that says what it was given, and counts.
#[derive(Clone, Default)]
struct Echo(Arc<AtomicU32>);

impl Tool for Echo {
    fn definition(&self) -> ToolDefinition {
        let parameters = json!({
            "type": "object",
            "properties": { "text": { "type": "string", "maxLength": 2000 } },
            "required": ["text"],
            "additionalProperties": false,
        });
        ToolDefinition::new("echo", "Says it again.")
            .parameters(parameters)
            .effect(Effect::Read)
    }

    async fn call(&self, arguments: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let count = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        let arguments: Value = arguments.parse().unwrap();
        match arguments["text"].as_str() {
            Some("fail") => Err(ToolError::new("it failed")),
            Some("list") => ToolOutput::of(&json!([count, "x"])),
            Some(text) => Ok(ToolOutput::text(format!("{text}!"))),
            None => Err(ToolError::new("no text")),
        }
    }
}

/// What a program came to: what it printed, or why it failed. It has one tool, `echo`.
async fn run(code: Code, program: impl Into<String>) -> Result<String, String> {
    run_with(code, program, Echo::default()).await
}

async fn start(store: InMemoryStore, code: Code, tool: impl Tool) -> System {
    let registry = Registry::new().behavior("code", move |_| Ok(BehaviorHandle::new(code.clone())));
    let agent = Agent::new("python")
        .behavior(ghostlight_actors::definition::BehaviorSpec::new("code"))
        .tool(ghostlight_actors::contract::ToolHandle::new(tool));
    let builder = System::builder(store).registry(registry);
    let system = builder.team(agent.into_team().unwrap()).start();
    system.await.unwrap()
}

async fn run_with(code: Code, program: impl Into<String>, echo: Echo) -> Result<String, String> {
    let system = start(InMemoryStore::new(), code, echo).await;
    let session = system.session("python", "s");
    let ran = tokio::time::timeout(PATIENCE, async {
        let run = session.send(program.into()).await.unwrap();
        run.outcome().await
    });
    let ended = ran.await.expect("the program hangs");
    system.stop().await.unwrap();
    ended
        .map(|outcome| outcome.text().to_owned())
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_program_computes_calls_tools_and_reads_what_they_came_to() {
    let program = r#"
import statistics
print(tools[0]["name"], tools[0]["parameters"]["required"])
print(call("echo", {"text": "one"}), call_all([("echo", {"text": "a"}), ("echo", {"text": "b"})]))
found = call("echo", {"text": "list"})
print(found[1], statistics.mean([1, 2, 6]))
for name, arguments in [("echo", {"text": "fail"}), ("nothing", {}), ("echo", {"test": 1}), ("transfer_to_x", {})]:
    try:
        call(name, arguments)
    except ToolError as error:
        print(error.status, str(error)[:40])
print("grüße", "\ud800")
"#;
    let said = run(settings(json!({})), program).await.unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "echo ['text']");
    assert_eq!(lines[1], "one! ['a!', 'b!']");
    assert_eq!(lines[2], "x 3");
    assert_eq!(lines[3], "error it failed");
    assert!(
        lines[4].starts_with("error There is no tool \"nothing\""),
        "{said}"
    );
    assert!(lines[5].starts_with("error "), "{said}");
    assert!(
        lines[6].starts_with("error A program cannot hand"),
        "{said}"
    );
    assert_eq!(lines[7], "grüße \\ud800");
    let quiet = run(settings(json!({})), "x = 1").await.unwrap();
    assert_eq!(quiet, "The program ended well and printed nothing.");
}

#[tokio::test]
async fn what_goes_wrong_in_a_program_is_told_with_its_line() {
    let told = run(settings(json!({})), "x = 1\nprint('so far')\ny = x / 0\n")
        .await
        .unwrap_err();
    for part in [
        "exit code 1",
        "so far",
        "line 3",
        "y = x / 0",
        "ZeroDivisionError",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("harness"), "{told}");
    let told = run(settings(json!({})), "if True print(1)")
        .await
        .unwrap_err();
    assert!(told.contains("SyntaxError"), "{told}");
    let told = run(settings(json!({})), "import sys; sys.exit(3)")
        .await
        .unwrap_err();
    assert!(told.contains("exit code 3"), "{told}");
    let told = run(settings(json!({})), "call('echo', {'text': float('nan')})")
        .await
        .unwrap_err();
    assert!(told.contains("ValueError"), "{told}");
}

#[tokio::test]
async fn no_program_reaches_anything_but_its_tools() {
    // Each attempt is an expression or a statement; `refused` is printed where it fails as it must.
    let secret = tempfile::NamedTempFile::new().unwrap();
    let secret = secret.path().display().to_string();
    let attempts = [
        // The network.
        "socket.socket()".to_owned(),
        "socket.socket(socket.AF_UNIX)".to_owned(),
        "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)".to_owned(),
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)".to_owned(),
        "socket.create_connection(('127.0.0.1', 22), 1)".to_owned(),
        "__import__('urllib.request').request.urlopen('http://127.0.0.1/')".to_owned(),
        // Files that are not the system's.
        format!("open({secret:?})"),
        "open('/etc/passwd')".to_owned(),
        "open('/etc/shadow')".to_owned(),
        "open('/proc/self/environ')".to_owned(),
        "open(f'/proc/{os.getppid()}/environ')".to_owned(),
        "open('/proc/self/mem', 'rb+')".to_owned(),
        "open('/dev/mem', 'rb')".to_owned(),
        "open('/dev/tty')".to_owned(),
        "os.listdir('/')".to_owned(),
        "os.listdir('/tmp')".to_owned(),
        "os.listdir('/proc')".to_owned(),
        "open('/usr/../etc/passwd')".to_owned(),
        "os.readlink('/proc/self/cwd') and open('/proc/self/root/etc/passwd')".to_owned(),
        // Writing anything anywhere.
        "open('/tmp/ghostlight-was-here', 'w')".to_owned(),
        "open('/usr/lib/ghostlight-was-here', 'w')".to_owned(),
        "os.mkdir('/tmp/ghostlight-was-here')".to_owned(),
        "os.symlink('/etc', '/tmp/ghostlight-was-here')".to_owned(),
        "os.mkfifo('/tmp/ghostlight-was-here')".to_owned(),
        "os.write(os.memfd_create('x'), b'x')".to_owned(),
        "os.truncate(os.memfd_create('x'), 1 << 30)".to_owned(),
        // What is known about files beside their contents.
        format!("os.chmod({secret:?}, 0o666)"),
        format!("os.utime({secret:?}, (1, 1))"),
        format!("os.chown({secret:?}, os.getuid(), -1)"),
        format!("os.setxattr({secret:?}, 'user.note', b'x')"),
        "os.chmod('/dev/null', 0o666)".to_owned(),
        "os.fchmod(os.open('/usr/bin/env', os.O_RDONLY), 0o755)".to_owned(),
        // Other processes.
        "os.fork()".to_owned(),
        "os.posix_spawn('/usr/bin/true', ['true'], {})".to_owned(),
        "subprocess.run(['/usr/bin/id'])".to_owned(),
        "os.kill(os.getppid(), 9)".to_owned(),
        "os.kill(0, 9)".to_owned(),
        "os.kill(-1, 9)".to_owned(),
        "os.killpg(0, 9)".to_owned(),
        "signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 9)".to_owned(),
        "os.setsid()".to_owned(),
        "os.setpgid(0, 0)".to_owned(),
        "os.sched_setaffinity(os.getppid(), {0})".to_owned(),
        "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)".to_owned(),
        "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3))".to_owned(),
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))".to_owned(),
        // The kernel.
        "os.chroot('/usr')".to_owned(),
        "libc('unshare', 0x10000000)".to_owned(),
        "libc('setns', 0, 0)".to_owned(),
        "libc('ptrace', 16, os.getppid(), 0, 0)".to_owned(),
        "libc('mount', 0, 0, 0, 0, 0)".to_owned(),
        "libc('syscall', 425, 1, 0)".to_owned(),
        "libc('shmget', 1234, 1 << 20, 0o1600)".to_owned(),
        "libc('msgget', 1234, 0o1600)".to_owned(),
        "libc('semget', 1234, 1, 0o1600)".to_owned(),
        "libc('fanotify_init', 0x200, 0)".to_owned(),
        "libc('syscall', 433, -100, b'/usr', 0)".to_owned(),
        "libc('syscall', 467, -100, b'/usr', 0, 0, 0)".to_owned(),
    ];
    let mut program = String::from(
        "import ctypes, os, resource, signal, socket, subprocess\n\
         def libc(name, *given):\n    \
             lib = ctypes.CDLL(None, use_errno=True)\n    \
             if getattr(lib, name)(*given) < 0: raise OSError(ctypes.get_errno(), name)\n",
    );
    for attempt in &attempts {
        program += &format!(
            "try:\n    {attempt}\n    print('REACHED', {attempt:?})\nexcept OSError: print('refused')\n\
             except ValueError as error: print('refused')\n"
        );
    }
    // RLIMIT_FSIZE is told by a signal too.
    let program = format!(
        "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n{program}print('end')"
    );
    let said = run(settings(json!({})), program).await.unwrap();
    assert!(!said.contains("REACHED"), "{said}");
    assert_eq!(said.matches("refused").count(), attempts.len(), "{said}");
    assert!(said.ends_with("end"));
    assert!(!PathBuf::from("/tmp/ghostlight-was-here").exists());
}

#[tokio::test]
async fn a_program_in_namespaces_of_its_own_calls_tools_and_sees_no_processes() {
    let program = "import os\nprint(call('echo', {'text': 'hi'}), os.getpid() < 100, os.path.exists('/proc/1'), os.path.exists('/home'))";
    let plain = run(settings(json!({})), program).await.unwrap();
    assert_eq!(plain, "hi! False True True");
    let code = settings(json!({ "bubblewrap": true }));
    if let Err(missing) = code.check() {
        let asked_for = std::env::var_os("GHOSTLIGHT_BUBBLEWRAP").is_some();
        assert!(!asked_for, "GHOSTLIGHT_BUBBLEWRAP is set, but {missing}");
        let missing = missing.to_string();
        assert!(
            missing.contains("bwrap") || missing.contains("bubblewrap"),
            "{missing}"
        );
        println!("left out: {missing}");
        return;
    }
    assert_eq!(run(code, program).await.unwrap(), "hi! True False False");
}

#[tokio::test]
async fn a_program_that_becomes_another_one_is_confined_as_it_was() {
    let program = "import os\nos.execv('/usr/bin/cat', ['cat', '/etc/passwd'])";
    let told = run(settings(json!({})), program).await.unwrap_err();
    assert!(
        told.contains("Permission denied") && !told.contains("root:"),
        "{told}"
    );
}

#[tokio::test]
async fn no_program_takes_more_than_its_bounds() {
    let begun = Instant::now();
    let short = || settings(json!({ "timeout_s": 0.5 }));
    for (program, code, told) in [
        ("while True: pass", short(), "ended after 0.5 s"),
        ("import time\ntime.sleep(60)", short(), "ended after 0.5 s"),
        // Handlers and `finally` do not hold it up.
        (
            "import signal, time\nfor number in range(1, 20):\n    try: signal.signal(number, signal.SIG_IGN)\n    except OSError: pass\nwhile True:\n    try: time.sleep(60)\n    finally: continue",
            short(),
            "ended after 0.5 s",
        ),
        (
            "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
            short(),
            "ended after 0.5 s",
        ),
        ("x = bytearray(2 << 30)", settings(json!({})), "MemoryError"),
        (
            "x = []\nwhile True: x.append(bytearray(1 << 20))",
            settings(json!({})),
            "MemoryError",
        ),
        (
            "x = 'x' * (1 << 20)\nwhile True: print(x)",
            settings(json!({})),
            "printed more than",
        ),
        (
            "import os\nwhile True: os.write(1, b'x' * 65536)",
            settings(json!({})),
            "printed more than",
        ),
        (
            "import threading, time\nfor _ in range(9999): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
            settings(json!({})),
            "can't start new thread",
        ),
        (
            "import os\nwhile True: os.memfd_create('x')",
            settings(json!({})),
            "Too many open files",
        ),
        ("def f(): f()\nf()", settings(json!({})), "RecursionError"),
        ("import os\nos.abort()", settings(json!({})), "signal"),
        (
            "import ctypes\nctypes.string_at(0)",
            settings(json!({})),
            "signal",
        ),
        ("import os\nos._exit(7)", settings(json!({})), "exit code 7"),
        (
            "for n in range(50): call('echo', {'text': str(n)})",
            settings(json!({ "max_calls": 10 })),
            "more than 10 calls",
        ),
        (
            "call_all([('echo', {'text': 'x'})] * 11)",
            settings(json!({ "max_calls": 10 })),
            "more than 10 calls",
        ),
        (
            "while True: call_all([])",
            settings(json!({ "max_calls": 10 })),
            "more than 10 calls",
        ),
        (
            "call('echo', {'text': 'x' * (2 << 20)})",
            settings(json!({})),
            "more than 1048576 bytes",
        ),
    ] {
        let failed = run(code, program).await.unwrap_err();
        assert!(failed.contains(told), "{program}: {failed}");
    }
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    // What it printed is kept at both ends.
    let program = "print('first')\nfor _ in range(9999): print('x' * 99)\nprint('last')";
    let said = run(settings(json!({ "max_output_bytes": 1000 })), program)
        .await
        .unwrap();
    assert!(
        said.starts_with("first") && said.ends_with("last") && said.len() < 1100,
        "{said}"
    );
    assert!(said.contains("bytes left out"), "{said}");
}

#[tokio::test]
async fn a_forged_line_is_a_call_like_any_other_or_ends_the_program() {
    // The pipe of the calls is found, and written to past `call`.
    let forged = |line: &str| {
        format!(
            "import os\nfor fd in range(3, 32):\n    try: os.write(fd, {:?}.encode() + b'\\n')\n    except OSError: pass\nprint(call('echo', {{'text': 'own'}}))",
            line
        )
    };
    for line in [
        "no JSON",
        "",
        "[]",
        "{}",
        "null",
        r#"{"calls": 1}"#,
        r#"{"calls": [{"name": "echo"}]}"#,
        r#"{"calls": [{"name": 1, "arguments": {}}]}"#,
        r#"{"calls": [], "approved": true}"#,
        r#"{"calls": [{"name": "echo", "arguments": {}, "status": "success"}]}"#,
        r#"{"calls": [{"name": "echo", "arguments": {"text": "shown", "text": "done"}}]}"#,
        r#"{"results": [{"status": "success", "text": "forged"}]}"#,
        "\u{0}",
    ] {
        let told = run(settings(json!({})), forged(line)).await.unwrap_err();
        assert!(told.contains("a line that is not a call"), "{line}: {told}");
    }
    // A call that is well formed is made, counted and judged as any other; the program reads its result.
    let echo = Echo::default();
    let line = r#"{"calls": [{"name": "echo", "arguments": {"text": "forged"}}]}"#;
    let said = run_with(settings(json!({})), forged(line), echo.clone())
        .await
        .unwrap();
    assert_eq!(said, "forged!");
    assert_eq!(echo.0.load(Ordering::SeqCst), 2);
    // Without an end a line is none.
    let program = "import os\nos.write(4, b'{\"calls\": [')\nos._exit(0)";
    let said = run(settings(json!({})), program).await.unwrap();
    assert_eq!(said, "The program ended well and printed nothing.");
}

#[test]
fn what_is_missing_is_said() {
    let refused = |others| settings(others).check().unwrap_err();
    for interpreter in ["/nowhere/python3", "python3", "/usr/bin"] {
        let error = refused(json!({ "interpreter": interpreter }));
        assert!(matches!(error, CodeError::Interpreter { .. }), "{error}");
        assert!(error.to_string().contains(interpreter), "{error}");
    }
    // A program that is no interpreter, and a launcher that is none.
    let error = refused(json!({ "interpreter": "/usr/bin/false" })).to_string();
    assert!(error.contains("cannot be run confined"), "{error}");
    let error = refused(json!({ "launcher": "/nowhere/launcher" })).to_string();
    assert!(error.contains("No such file"), "{error}");
    for wrong in [
        json!({ "timeout_s": 0 }),
        json!({ "max_output_bytes": 0 }),
        json!({ "memory_bytes": 1 }),
    ] {
        assert!(matches!(refused(wrong), CodeError::Setting(_)));
    }
    settings(json!({})).check().unwrap();
}

/// The processor time of this thread, on which everything but the program runs.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

/// A tool with long results, and one call that does not end.
#[derive(Clone)]
struct Timed {
    calls: Arc<AtomicU32>,
    hangs_at: u32,
    /// The processor time at each hundredth call.
    times: Arc<Mutex<Vec<Duration>>>,
}

impl Timed {
    fn until(hangs_at: u32) -> Self {
        Self {
            calls: Arc::default(),
            hangs_at,
            times: Arc::default(),
        }
    }
}

impl Tool for Timed {
    fn definition(&self) -> ToolDefinition {
        let parameters =
            json!({ "type": "object", "properties": { "number": { "type": "integer" } } });
        ToolDefinition::new("look", "Looks.")
            .parameters(parameters)
            .effect(Effect::Read)
    }

    async fn call(&self, _: Arguments, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if number.is_multiple_of(100) {
            self.times.lock().unwrap().push(processor_time());
        }
        if number == self.hangs_at {
            std::future::pending::<()>().await;
        }
        Ok(ToolOutput::text("word ".repeat(200)))
    }
}

#[tokio::test]
async fn a_late_call_of_a_program_costs_what_the_first_did_also_after_a_kill() {
    let calls = std::env::var("GHOSTLIGHT_STEPS").ok();
    let calls: u32 = calls.map_or(1_000, |calls| calls.parse().unwrap());
    let code = || settings(json!({ "max_calls": calls, "timeout_s": 60 }));
    let program =
        format!("for n in range({calls}): last = call('look', {{'number': n}})\nprint(len(last))");
    let store = InMemoryStore::new();
    let before = Timed::until(calls - 5);
    let began = processor_time();
    let system = start(store.clone(), code(), before.clone()).await;
    let run = system.session("python", "s").send(program).await.unwrap();
    let waited = tokio::time::timeout(PATIENCE, async {
        while before.calls.load(Ordering::SeqCst) < before.hangs_at {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.expect("the program hangs");
    let lived = processor_time() - began;
    store.crash();
    let began = processor_time();
    let after = Timed::until(u32::MAX);
    let other = start(store.another_process(), code(), after.clone()).await;
    let run = other.run(run.id());
    let outcome = tokio::time::timeout(PATIENCE, run.outcome()).await;
    assert_eq!(outcome.unwrap().unwrap().text(), "1000");
    let resumed = processor_time() - began;
    assert_eq!(after.calls.load(Ordering::SeqCst), 6);
    let times = before.times.lock().unwrap().clone();
    let taken = |from: usize| times[from + 1] - times[from];
    let (early, late) = (taken(0), taken(times.len() - 2));
    let took = format!("lives {lived:?}, {resumed:?}; a hundred calls {early:?}, {late:?}");
    println!("{took}");
    assert!(late <= 4 * early && resumed <= 2 * lived, "{took}");
}
