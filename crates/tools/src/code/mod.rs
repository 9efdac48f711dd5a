//! Programs that a model writes, run where they can do nothing but compute and call tools.
//!
//! An agent of the behavior `code` takes a Python program as its task and answers with what the program prints. The
//! program calls the agent's tools with `call("name", {...})`, and each call is a call of the agent: its policies
//! and approvals decide, its journal records the result, and a call that is recorded is never made again.
//!
//! A process cannot be recorded, so it may run twice: after a crash the program starts again from its top and gets the
//! recorded results of its calls, until it makes the first call without a record. That is safe because the program
//! changes nothing by itself. It runs below a launcher ([`crate::launcher`]) that leaves it no network, no file but the
//! system's programs and libraries to read and none to write, no other process to start or to signal, and bounds on
//! time and memory. A program that then makes other calls than before (since it depends on the time or on chance) is
//! ended, and the error names the calls that were made.

mod program;

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use ghostlight_actors::{
    definition::{AgentSpec, TRANSFER_PREFIX},
    run::{Behavior, RunContext},
    vocabulary::{
        AgentError, Effect, ErrorKind, Outcome, StopReason, ToolCall, ToolResult, ToolStatus,
        seconds,
    },
};
use serde::Deserialize;

use crate::{
    launcher::{self, Launch, Rlimits},
    terminal::running::Start,
};
use program::{Advance, Exchange, Program, Reply};

/// The paths of the interpreter that are tried when no setting names one.
const INTERPRETERS: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];
/// The files that a program may read beside what is installed below `/usr`: those that the interpreter needs.
const SYSTEM: [&str; 6] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/urandom",
];
/// The arguments of the interpreter: no site packages, no compiled files written.
const ARGUMENTS: [&str; 4] = ["-s", "-S", "-B", "-c"];
/// The Python program that runs a model's program.
const HARNESS: &str = include_str!("harness.py");
/// How many characters of a failed program's output its error contains.
const TOLD: usize = 8_000;

/// The behavior `code`: the agent's task is a Python program, which can call the agent's tools and do nothing else.
///
/// ```yaml
/// agent:
///   name: desk
///   tools: [orders]
///   agents:
///     - name: python
///       reach: delegate
///       description: Runs a Python program. Its `call("orders", {"year": 2026})` calls a tool.
///       tools: [orders]
///       behavior: { name: code, timeout_s: 20 }
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Code {
    /// The Python interpreter (3.8 or newer), as an absolute path; the system's when left out.
    pub interpreter: Option<PathBuf>,
    /// Files and folders that the interpreter needs beside those of the system: its libraries, where it is not
    /// below `/usr`.
    pub read: Vec<PathBuf>,
    /// How long a program may run, without the time of its calls; 30 seconds when left out.
    #[serde(rename = "timeout_s", with = "seconds")]
    pub timeout: Duration,
    /// How many bytes of memory it may reserve; 512 MiB when left out.
    pub memory_bytes: u64,
    /// How many calls it may make; 100 when left out.
    pub max_calls: usize,
    /// How many bytes of its output are kept, from the beginning and the end; 32 KiB when left out.
    pub max_output_bytes: usize,
    /// Whether a program has namespaces of its own as well, made by bubblewrap: in them there are no other files, processes
    /// and network interfaces, not even their names. The program `bwrap` has to be installed, and the machine has to allow new
    /// namespaces.
    pub bubblewrap: bool,
    /// The launcher; found beside the program when left out.
    pub launcher: Option<PathBuf>,
}

impl Default for Code {
    fn default() -> Self {
        Self {
            interpreter: None,
            read: Vec::new(),
            timeout: Duration::from_secs(30),
            memory_bytes: 512 << 20,
            max_calls: 100,
            max_output_bytes: 32 << 10,
            bubblewrap: false,
            launcher: None,
        }
    }
}

/// Why programs cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// There is no interpreter.
    #[error(
        "there is no Python interpreter at {looked_at}; name one in `interpreter`, by its absolute path"
    )]
    Interpreter {
        /// The paths that were tried.
        looked_at: String,
    },
    /// There is no launcher.
    #[error(
        "there is no launcher, which takes a program's rights away: begin `main` with `launcher::run`, or put \
         `ghostlight-launcher` beside the program"
    )]
    Launcher,
    /// The machine cannot confine programs, or the interpreter does not run where it is confined.
    #[error("programs cannot be run confined on this machine: {reason}")]
    Confinement {
        /// The part that is missing.
        reason: String,
    },
}

ghostlight_actors::parts_of_system_error!(CodeError);

impl Code {
    /// Checks that this machine can run programs, by running one that does nothing.
    ///
    /// # Errors
    /// The part that is missing: the interpreter, the launcher or a part of the confinement.
    pub fn check(&self) -> Result<(), CodeError> {
        let times = Duration::from_millis(100)..=Duration::from_secs(86_400);
        if !times.contains(&self.timeout) {
            let text = "`timeout_s` must be from 0.1 to 86400";
            return Err(CodeError::Setting(text.to_owned()));
        }
        if self.max_output_bytes == 0 || self.memory_bytes < 64 << 20 {
            let text = "`max_output_bytes` must be at least 1, and `memory_bytes` 67108864";
            return Err(CodeError::Setting(text.to_owned()));
        }
        let mut start = self.start()?;
        start.arguments.pop();
        start.arguments.push("pass".to_owned());
        let ran = std::process::Command::new(&start.program)
            .args(&start.arguments)
            .current_dir(&start.folder)
            .env_clear()
            .envs(start.environment)
            .stdin(Stdio::null())
            .output();
        let reason = match ran {
            Ok(ran) if ran.status.success() => return Ok(()),
            Ok(ran) if ran.stderr.is_empty() => format!("{}", ran.status),
            Ok(ran) => String::from_utf8_lossy(&ran.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        let reason: String = reason.chars().take(500).collect();
        Err(CodeError::Confinement { reason })
    }

    fn interpreter(&self) -> Result<PathBuf, CodeError> {
        if let Some(named) = &self.interpreter {
            let found = named.canonicalize().ok();
            let found = found.filter(|found| named.is_absolute() && found.is_file());
            return found.ok_or_else(|| CodeError::Interpreter {
                looked_at: format!("{named:?}"),
            });
        }
        let mut found = INTERPRETERS.iter().map(PathBuf::from);
        let found = found.find_map(|path| path.canonicalize().ok());
        found.ok_or_else(|| CodeError::Interpreter {
            looked_at: INTERPRETERS.join(" or "),
        })
    }

    /// How a program is started.
    fn start(&self) -> Result<Start, CodeError> {
        let interpreter = self.interpreter()?;
        let found = self.launcher.clone().or_else(launcher::find);
        let program = found.ok_or(CodeError::Launcher)?;
        let system = SYSTEM.iter().map(PathBuf::from);
        let installed = launcher::installed().into_iter();
        let read = installed.chain(system).chain(self.read.clone());
        let launch = Launch {
            read: read.chain([interpreter.clone()]).collect(),
            write: vec!["/dev/null".into()],
            network: false,
            required: true,
            alone: true,
            bubblewrap: self.bubblewrap,
            own_mounts: false,
            limits: Rlimits {
                cpu_s: self.timeout.as_secs_f64().ceil() as u64 + 1,
                memory_bytes: self.memory_bytes,
                file_bytes: 0,
                open_files: 32,
                processes: 32,
            },
        };
        let asked = launcher::arguments(&launch);
        let asked = asked.map_err(|error| CodeError::Setting(error.to_string()))?;
        let own = [interpreter.display().to_string()];
        let fixed = ARGUMENTS.map(str::to_owned);
        let harness = [HARNESS.to_owned()];
        let environment = [
            ("LANG", "C.UTF-8"),
            // Sets and dictionaries must have the same order each time that a program is run.
            ("PYTHONHASHSEED", "0"),
            ("PYTHONUTF8", "1"),
        ];
        Ok(Start {
            program,
            arguments: [&asked[..], &own, &fixed, &harness].concat(),
            folder: "/".into(),
            environment: environment
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        })
    }
}

impl Behavior for Code {
    async fn run(&self, cx: RunContext) -> Result<Outcome, AgentError> {
        let offered = cx.tools_offered();
        let tools = offered.iter().filter(|tool| may_call(&tool.name));
        let program = Arc::new(Program {
            settings: self.clone(),
            text: program_of(&task(&cx)),
            tools: tools.cloned().collect(),
            process: parking_lot::Mutex::new(None),
        });
        let mut past: Arc<Vec<Exchange>> = Arc::default();
        let mut number = 0;
        loop {
            let (going_on, known) = (program.clone(), past.clone());
            // By itself a program changes nothing, so a run of it counts as a read.
            let step = cx.step("program", Effect::Read, async move {
                going_on.advance(&known).await
            });
            let asked = match step.await? {
                Advance::Calls(asked) => asked,
                Advance::Ended { output, failed } => return ended(output, failed),
            };
            let calls: Vec<ToolCall> = asked
                .iter()
                .map(|asked| {
                    number += 1;
                    ToolCall::new(
                        format!("call-{number}"),
                        asked.name.as_str(),
                        asked.arguments.clone(),
                    )
                })
                .collect();
            let replies = match replies(&cx, calls).await {
                Ok(replies) => replies,
                Err(error) => return Ok(Outcome::stopped(exhausted(error)?)),
            };
            Arc::make_mut(&mut past).push(Exchange { asked, replies });
        }
    }

    fn check(&self, _: &AgentSpec) -> Result<(), String> {
        Self::check(self).map_err(|error| error.to_string())
    }
}

/// A program cannot hand its conversation to another agent: it has none.
fn may_call(tool: &str) -> bool {
    !tool.starts_with(TRANSFER_PREFIX)
}

/// Makes these calls concurrently, and returns their results in order.
async fn replies(cx: &RunContext, calls: Vec<ToolCall>) -> Result<Vec<Reply>, AgentError> {
    let made: Vec<ToolCall> = calls
        .iter()
        .filter(|call| may_call(&call.name))
        .cloned()
        .collect();
    let mut results = cx.tools(made).await?.into_iter();
    let reply = |call: &ToolCall| {
        let refused = || {
            let text = "A program cannot hand the conversation over.";
            ToolResult::new(call, ToolStatus::Error, text)
        };
        let result = may_call(&call.name).then(|| results.next()).flatten();
        let result = result.unwrap_or_else(refused);
        Reply {
            status: result.status,
            text: result.text,
        }
    };
    Ok(calls.iter().map(reply).collect())
}

/// The stop reason for an error that ends the run without being a failure; else the error.
fn exhausted(error: AgentError) -> Result<StopReason, AgentError> {
    match (error.kind(), error.early_stop()) {
        (Some(ErrorKind::Budget(resource)), _) => Ok(StopReason::BudgetExhausted(*resource)),
        (_, Some(reason)) => Ok(reason.clone()),
        _ => Err(error),
    }
}

fn ended(output: String, failed: Option<String>) -> Result<Outcome, AgentError> {
    let Some(failed) = failed else {
        return Ok(Outcome::answer(match output.trim() {
            "" => "The program ended well and printed nothing.",
            output => output,
        }));
    };
    let output = output.trim();
    // The end of the output usually says what went wrong.
    let left_out = output.chars().count().saturating_sub(TOLD);
    let told: String = output.chars().skip(left_out).collect();
    Err(AgentError::failed(match told.as_str() {
        "" => format!("the program failed: {failed}"),
        told => format!("the program failed: {failed}\n{told}"),
    }))
}

fn task(cx: &RunContext) -> String {
    cx.request()
        .map_or_else(|| cx.input().content(), str::to_owned)
}

/// The program in a task: the task itself, its field `program`, or the text between code fences in it.
fn program_of(task: &str) -> String {
    #[derive(Deserialize)]
    struct Typed {
        program: String,
    }
    let typed = serde_json::from_str::<Typed>(task).map(|typed| typed.program);
    let text = typed.unwrap_or_else(|_| task.to_owned());
    let fenced = text.trim().strip_prefix("```").and_then(|rest| {
        let (_, rest) = rest.split_once('\n')?;
        rest.trim_end().strip_suffix("```")
    });
    fenced.map_or_else(|| text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::program_of;

    #[test]
    fn a_program_is_found_in_what_models_write() {
        for task in [
            "print(1)\n",
            "```python\nprint(1)\n```",
            "\n```\nprint(1)\n```\n",
            r#"{"program": "print(1)\n"}"#,
        ] {
            assert_eq!(program_of(task), "print(1)\n", "{task}");
        }
        assert_eq!(program_of("x = '```'"), "x = '```'");
        assert_eq!(program_of("{\"a\": 1}"), "{\"a\": 1}");
    }
}
