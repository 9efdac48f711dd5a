//! A command with behaviors of its own, as a user of the library would make it. It is this very
//! test binary: one of its tests is the command, in a process that is started for it.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use ghostlight_actors::{
    contract::ModelHandle,
    run::{BehaviorHandle, Registry, RunContext},
    vocabulary::{AgentError, Effect, Outcome, Question, Scope, StopReason, ToolCall},
};
use serde_json::{Value, json};

use crate::{listening::counts, typewriter::Typewriter};

pub(crate) const ARGUMENTS: &str = "GHOSTLIGHT_TEST_ARGUMENTS";
/// How long a test waits for what must come, on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Is the command where a test started it as such, and nothing otherwise.
#[test]
fn as_the_command() {
    let Ok(arguments) = env::var(ARGUMENTS) else {
        return;
    };
    let arguments: Vec<String> = serde_json::from_str(&arguments).unwrap();
    let code = ghostlight_cli::main_from(arguments, registry());
    // An exit code does not say its number.
    let number = (0..=u8::MAX).find(|number| ExitCode::from(*number) == code);
    std::process::exit(number.unwrap().into());
}

fn registry() -> Registry {
    let of = |function: fn(Value, RunContext) -> Answering| {
        move |settings: &Value| {
            let settings = settings.clone();
            Ok(BehaviorHandle::from_fn(move |cx| {
                function(settings.clone(), cx)
            }))
        }
    };
    let registry = crate::toiling::register(crate::page::register(ghostlight::builtin()));
    #[cfg(target_os = "linux")]
    let registry = crate::long_prints::register(registry);
    #[cfg(feature = "full")]
    let registry = crate::optimising::register(registry);
    registry
        .provider("typewriter", |settings| {
            Ok(ModelHandle::new(Typewriter::of(settings)))
        })
        .behavior("gated", of(|settings, cx| Box::pin(gated(settings, cx))))
        .behavior("asks", of(|settings, cx| Box::pin(asks(settings, cx))))
        .behavior(
            "asks_at_work",
            of(|settings, cx| Box::pin(asks_at_work(settings, cx))),
        )
        .behavior("blocks", of(|settings, cx| Box::pin(blocks(settings, cx))))
        .behavior("says", of(|settings, cx| Box::pin(says(settings, cx))))
        .behavior("keeps", of(|settings, cx| Box::pin(keeps(settings, cx))))
        .behavior("counts", of(|settings, cx| Box::pin(counts(settings, cx))))
        .behavior(
            "sleeps",
            of(|_, cx| {
                Box::pin(async move {
                    cx.sleep(Duration::from_millis(150)).await?;
                    Ok(Outcome::answer("rested"))
                })
            }),
        )
        .behavior(
            "fails",
            of(|_, _| Box::pin(async { Err(AgentError::failed("no luck")) })),
        )
        .behavior(
            "stops",
            of(|_, _| Box::pin(async { Ok(Outcome::stopped(StopReason::MaxSteps(2))) })),
        )
}

type Answering = std::pin::Pin<Box<dyn Future<Output = Result<Outcome, AgentError>> + Send>>;

/// Notes in `first` that it began, waits for the file `gate`, and answers.
async fn gated(settings: Value, cx: RunContext) -> Result<Outcome, AgentError> {
    let text = |name: &str| settings[name].as_str().unwrap_or_default().to_owned();
    let (first, gate, changed) = (text("first"), text("gate"), text("changed"));
    // A file that is there makes this another program than the one that recorded.
    let name = if Path::new(&changed).exists() {
        "other"
    } else {
        "first"
    };
    cx.step(name, Effect::Idempotent, async move {
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(first)?;
        file.write_all(b"x")
    })
    .await?;
    wait_for_gate(&cx, gate).await?;
    Ok(Outcome::answer("through the gate"))
}

async fn wait_for_gate(cx: &RunContext, gate: String) -> Result<(), AgentError> {
    let opened = async move {
        while !Path::new(&gate).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, std::io::Error>(())
    };
    cx.step("gate", Effect::Read, opened).await?;
    Ok(())
}

fn question(settings: &Value) -> Question {
    match settings["kind"].as_str() {
        Some("approval") => {
            let call = ToolCall::new("c1", "send", json!({ "to": "Ann" }));
            Question::approval("Shall I send it?", call)
        }
        Some("hostile") => {
            let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
            let arguments = json!({
                "command": "echo ok \u{1b}]0;rm -rf ~;\u{7}true\n# a comment\na\u{202e}txt.exe",
                "long": lines,
                "password": "hunter2",
                "zz": "the last",
            });
            Question::approval("May it run?", ToolCall::new("c1", "shell", arguments))
        }
        Some("authentication") => {
            let call = ToolCall::new("c1", "send", json!({ "to": "Ann" }));
            Question::authentication("Your code?", call)
        }
        Some("choice") => Question::choice("Which colour?", ["red", "blue"]),
        _ => Question::new("What is your name?"),
    }
}

async fn asks(settings: Value, cx: RunContext) -> Result<Outcome, AgentError> {
    if settings["kind"] == "two" {
        let (one, other) = tokio::join!(cx.ask("Name?"), cx.ask("Age?"));
        return Ok(Outcome::answer(format!("{} and {}", one?, other?)));
    }
    if settings["kind"] == "one_after_the_other" {
        let asked = |to: &str| {
            let call = ToolCall::new("c1", "send", json!({ "to": to }));
            Question::approval(format!("Shall I send it to {to}?"), call)
        };
        let (one, other) = (cx.ask(asked("Ann")).await?, cx.ask(asked("Bob")).await?);
        return Ok(Outcome::answer(format!("{one} and {other}")));
    }
    let answer = cx.ask(question(&settings)).await?;
    Ok(Outcome::answer(format!("answered {answer}")))
}

async fn asks_at_work(settings: Value, cx: RunContext) -> Result<Outcome, AgentError> {
    let gate = settings["gate"].as_str().unwrap_or_default().to_owned();
    let (answer, worked) = tokio::join!(cx.ask(question(&settings)), wait_for_gate(&cx, gate));
    worked?;
    Ok(Outcome::answer(format!("answered {}", answer?)))
}

/// Holds up its thread for longer than any test waits.
async fn blocks(settings: Value, cx: RunContext) -> Result<Outcome, AgentError> {
    let block = || thread::sleep(10 * PATIENCE);
    if settings["in"] == "function" {
        // What it says first is seen once it waits for something.
        cx.sleep(Duration::from_millis(1)).await?;
        let first = settings["first"].as_str().unwrap_or_default();
        fs::write(first, "x").map_err(AgentError::failed)?;
        block();
    }
    let step = async move {
        block();
        Ok::<_, std::io::Error>(())
    };
    cx.step("block", Effect::Read, step).await?;
    Ok(Outcome::answer("done"))
}

async fn says(settings: Value, cx: RunContext) -> Result<Outcome, AgentError> {
    cx.emit("note", &settings["text"]);
    Ok(Outcome::answer(
        settings["text"].as_str().unwrap_or_default(),
    ))
}

/// Keeps its text as an artifact of the session.
async fn keeps(settings: Value, cx: RunContext) -> Result<Outcome, AgentError> {
    let text = settings["text"].as_str().unwrap_or_default();
    let kept = cx.artifacts(Scope::Session);
    kept.save("notes.txt", "text/plain", text.as_bytes())
        .await?;
    Ok(Outcome::answer("kept"))
}

/// A folder with a store and a team, and the commands that use them.
pub(crate) struct Desk {
    folder: PathBuf,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let out = String::from_utf8(output.stdout).unwrap();
        Self {
            code: output.status.code(),
            // What the test harness says before its test is the command.
            out: out
                .strip_prefix("\nrunning 1 test\n")
                .unwrap_or(&out)
                .to_owned(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Done {
    /// Checks the exit code, showing everything where it is another.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.out,
            self.err
        );
        self
    }

    /// The lines of JSON on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        let read = |line| serde_json::from_str(line).expect("a line of JSON");
        self.out.lines().map(read).collect()
    }
}

impl Desk {
    /// A desk whose one agent has this behavior, with these settings and the paths of the gate.
    pub(crate) fn new(behavior: &str, settings: Value) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ghostlight-cli-{}-{number}", std::process::id());
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let desk = Self { folder };
        let mut behavior = json!({ "name": behavior, "gate": desk.path("gate"),
            "first": desk.path("first"), "changed": desk.path("changed") });
        behavior
            .as_object_mut()
            .unwrap()
            .extend(settings.as_object().unwrap().clone());
        let team = json!({ "agent": { "name": "desk", "behavior": behavior } }).to_string();
        // JSON is YAML, but for characters that YAML wants to be written as escapes.
        let escape = |c: char| match c {
            ' '..='~' => c.to_string(),
            other => format!("\\u{:04x}", u32::from(other)),
        };
        desk.write("team.yaml", &team.chars().map(escape).collect::<String>());
        desk
    }

    /// A desk whose agent asks a model that says half of this text, and the rest behind the gate.
    pub(crate) fn typing(text: &str) -> Self {
        Self::typing_slowly(text, Duration::ZERO)
    }

    /// The same with a pause after each word of the rest.
    pub(crate) fn typing_slowly(text: &str, pause: Duration) -> Self {
        let desk = Self::new("simple", json!({}));
        let model = json!({
            "provider": "typewriter", "text": text, "gate": desk.path("gate"), "pause_ms": pause.as_millis() as u64,
        });
        let team = json!({
            "models": { "default": model }, "agent": { "name": "desk", "behavior": "simple" },
        });
        desk.write("team.yaml", &team.to_string());
        desk
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Lets the run through.
    pub(crate) fn open_gate(&self) {
        self.write("gate", "");
    }

    /// How often the first step was done.
    pub(crate) fn firsts(&self) -> usize {
        fs::read(self.path("first")).map_or(0, |bytes| bytes.len())
    }

    fn quiet(&self, mut command: Command) -> Command {
        for name in [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "GEMINI_API_KEY",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENAI_MODEL",
            "RUST_BACKTRACE",
            "RUST_LOG",
            "NO_COLOR",
            "GHOSTLIGHT_CONFIG",
        ] {
            command.env_remove(name);
        }
        command
            .env("GHOSTLIGHT_STORE", self.path("runs.db"))
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("TZ", "UTC")
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn own(&self, words: &[&str]) -> Command {
        let words: Vec<&str> = ["ghostlight"].iter().chain(words).copied().collect();
        let mut command = self.quiet(Command::new(env::current_exe().unwrap()));
        command
            .args([
                "own_command::as_the_command",
                "--exact",
                "--quiet",
                "--nocapture",
            ])
            .env(ARGUMENTS, serde_json::to_string(&words).unwrap());
        command
    }

    /// Runs the command with the behaviors above.
    pub(crate) fn run(&self, words: &[&str]) -> Done {
        self.own(words).output().unwrap().into()
    }

    /// Runs the command with the behaviors above and this on stdin.
    pub(crate) fn run_with(&self, words: &[&str], input: &str) -> Done {
        reading(self.own(words), input.as_bytes())
    }

    /// Starts the command with the behaviors above, with a person at its terminal.
    #[cfg(unix)]
    pub(crate) fn at_terminal(&self, words: &[&str]) -> rexpect::session::PtySession {
        self.at_terminal_with(words, &[])
    }

    /// As [`at_terminal`](Self::at_terminal), with this in the environment.
    #[cfg(unix)]
    pub(crate) fn at_terminal_with(
        &self,
        words: &[&str],
        set: &[(&str, &str)],
    ) -> rexpect::session::PtySession {
        let mut command = self.own(words);
        command
            .env("TERM", "xterm")
            .envs(set.iter().copied())
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit());
        let patience = u64::try_from(PATIENCE.as_millis()).unwrap();
        rexpect::session::spawn_command(command, Some(patience)).unwrap()
    }

    /// Starts the command as it is shipped, with a person at its terminal.
    #[cfg(unix)]
    pub(crate) fn shipped_at_terminal(
        &self,
        words: &[&str],
        set: &[(&str, &str)],
    ) -> rexpect::session::PtySession {
        let mut command = self.quiet(Command::new(env!("CARGO_BIN_EXE_ghostlight")));
        command
            .args(words)
            .env("TERM", "xterm")
            .envs(set.iter().copied())
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit());
        let patience = u64::try_from(PATIENCE.as_millis()).unwrap();
        rexpect::session::spawn_command(command, Some(patience)).unwrap()
    }

    /// Starts the command with the behaviors above.
    pub(crate) fn start(&self, words: &[&str]) -> Started {
        Started(self.own(words).spawn().unwrap())
    }

    /// Starts the command as it is shipped.
    pub(crate) fn start_shipped(&self, words: &[&str]) -> Started {
        let mut command = self.quiet(Command::new(env!("CARGO_BIN_EXE_ghostlight")));
        Started(command.args(words).spawn().unwrap())
    }

    /// Starts the command with the behaviors above, where a crash may leave an image of it.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_with_dumps(&self, words: &[&str]) -> Child {
        let own = self.own(words);
        let mut command = self.quiet(Command::new("sh"));
        command
            .args(["-c", "ulimit -c unlimited; exec \"$0\" \"$@\""])
            .arg(own.get_program())
            .args(own.get_args())
            .envs(
                own.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs the command as it is shipped.
    pub(crate) fn shipped(&self, words: &[&str]) -> Done {
        self.shipped_with(words, "", &[])
    }

    /// Runs the command as it is shipped, with this on stdin and in the environment.
    pub(crate) fn shipped_with(
        &self,
        words: &[&str],
        input: impl AsRef<[u8]>,
        set: &[(&str, &str)],
    ) -> Done {
        let mut command = self.quiet(Command::new(env!("CARGO_BIN_EXE_ghostlight")));
        command.args(words).envs(set.iter().copied());
        reading(command, input.as_ref())
    }

    /// The rows of all runs.
    pub(crate) fn rows(&self) -> Vec<Value> {
        self.shipped(&["runs", "--all", "--json"]).exits(0).json()
    }

    /// The id of the only root run.
    #[track_caller]
    pub(crate) fn only_run(&self) -> String {
        let rows = self.rows();
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows[0]["run"].as_str().unwrap()[..8].to_owned()
    }

    /// The status of the only root run.
    #[track_caller]
    pub(crate) fn status(&self) -> String {
        self.rows()[0]["status"].as_str().unwrap().to_owned()
    }

    /// Waits until the only run has recorded its first step, and so is at the gate.
    #[track_caller]
    pub(crate) fn until_at_the_gate(&self) {
        // That the step was done, as its file tells, does not say that its record is durable.
        self.until("the first step's record", |desk| {
            let rows = desk.rows();
            rows.len() == 1 && {
                let run = rows[0]["run"].as_str().unwrap();
                let shown = desk.shipped(&["show", run]);
                shown.out.contains("step first is done")
            }
        });
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut so: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !so(self) {
            assert!(begun.elapsed() < PATIENCE, "{what} did not come");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs a command with this on stdin.
fn reading(mut command: Command, input: &[u8]) -> Done {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // It may have ended without reading.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap().into()
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A command that is under way; it is killed where the test ends before it.
pub(crate) struct Started(pub(crate) Child);

impl Started {
    /// Sends a signal by its name, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let (name, id) = (format!("-{name}"), self.0.id().to_string());
        let status = Command::new("kill").args([&name, &id]).status();
        assert!(status.unwrap().success());
        while name == "-STOP" && !stands_still(&id) {
            std::thread::yield_now();
        }
    }

    /// Waits until it says this on stderr; [`ends`](Self::ends) gives what it says after that.
    pub(crate) fn says(&mut self, text: &str) {
        let stderr = self.0.stderr.as_mut().unwrap();
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains(text) {
            let mut byte = [0];
            let read = stderr.read_exact(&mut byte);
            assert!(read.is_ok(), "{}", String::from_utf8_lossy(&said));
            said.extend(byte);
        }
    }

    /// Waits for its end.
    pub(crate) fn ends(mut self) -> Done {
        let begun = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "the command does not end");
            thread::sleep(Duration::from_millis(5));
        }
        let read = |stream: Option<&mut dyn std::io::Read>| {
            let mut bytes = Vec::new();
            stream.unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        };
        let stdout = read(self.0.stdout.as_mut().map(|out| out as _));
        let stderr = read(self.0.stderr.as_mut().map(|err| err as _));
        let status = self.0.wait().unwrap();
        Output {
            status,
            stdout,
            stderr,
        }
        .into()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether all threads of a process are stopped, where the system tells: one that is under way stops after the signal.
fn stands_still(process: &str) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let told = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        told.is_empty() || told.contains(") T ")
    })
}
